/* code.h - code of a Python function in instructions of our own (instruction.def).
 *
 * decode311.c makes it from a code object, encode311.c makes a code object from it; everything between (symbolic
 * interpreter, resume logic, code generation) knows only this. There are no caches, no prefixes of long arguments and
 * no NULLs on the stack; a jump names the index of an instruction; names and constants are the objects; each
 * instruction knows where an exception raised in it goes.
 *
 * Calls. A call takes the callable and its arguments, in this order, and nothing else:
 *
 *     LOAD_GLOBAL f (called)      LOAD_ATTR m (called)      CALLEE 0; LOAD_FAST f      LOAD_FAST f; LOAD_FAST x; CALL 1
 *     LOAD_FAST x                 CALL 0 (called)           CALL 0 (called)
 *     CALL 1 (called)
 *
 * CPython keeps a second word under a value that will be called (NULL, or the function of a method): TP_CALLED and
 * CALLEE say where it is put, TP_CALLED on the call that this call uses it up. An interpreter ignores all this:
 * LOAD_ATTR gives the attribute, bound as usual, CALLEE does nothing. Code that is written anew may leave the marks
 * out, on the value and on the call; the encoder then finds another, as quick, way to say the call. tp_code_stacks_in
 * tells which values have a mark, for a continuation that rebuilds a stack: CALLEE 0 before each of them.
 *
 * Always: targets are indices of instructions; the last reachable instruction does not fall off the end; the stack has
 * one height at each instruction; the first locals are the arguments in the order of the frame (positional, keyword
 * only, *, **); before a cell or free variable is used its MAKE_CELL or COPY_FREE_VARS has run, and there is a RESUME,
 * before which the interpreter does not show the frame. The encoder checks all of this, the decoder all but the last:
 * foreign code may be odd, so the answer to it is an error, not a crash.
 *
 * Owners: a tp_code owns its arrays and counts every object it names (tp_code_keep). The GIL is held everywhere. Errors
 * are those of base/error.h, a pending Python exception among them (TP_ERR_FOREIGN). */
#ifndef TP_PYTHON_CAPTURE_CODE_H
#define TP_PYTHON_CAPTURE_CODE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/text.h"

typedef enum tp_opcode {
#define TP_INSTRUCTION(name, argument, pops, pushes, jump, edges) TP_I_##name,
#include "python/capture/instruction.def"
#undef TP_INSTRUCTION
    TP_OPCODE_COUNT
} tp_opcode;

/* What an instruction carries. `arg` is a small number, `object` a Python object, `target` an index. */
typedef enum tp_argument {
    TP_A_NONE,
    TP_A_CONSTANT,  /* object */
    TP_A_NAME,      /* object: a str */
    TP_A_LOCAL,     /* arg: index in local[] */
    TP_A_TARGET,    /* target */
    TP_A_CALL,      /* arg: all arguments; object: tuple of keyword names, NULL without */
    TP_A_COUNT,     /* arg: how many, see the row */
    TP_A_DEPTH,     /* arg: 1 is the top of the stack */
    TP_A_BELOW,     /* arg: 1 is the first value below what is popped */
    TP_A_OPERATOR,  /* arg: tp_operator */
    TP_A_COMPARE,   /* arg: Py_LT, Py_LE, Py_EQ, Py_NE, Py_GT, Py_GE */
    TP_A_INVERT,    /* arg: 0, 1 */
    TP_A_FLAG,      /* arg: 0, 1 */
    TP_A_FORMAT,    /* arg: see FORMAT_VALUE */
    TP_A_FUNCTION,  /* arg: tp_function_part bits */
    TP_A_UNPACK,    /* arg: see UNPACK_EX */
    TP_A_MODE,      /* arg: see the row */
} tp_argument;

typedef enum tp_edges { TP_E_NEXT, TP_E_JUMP, TP_E_GOTO, TP_E_END } tp_edges;

/* Python's numbers of BINARY_OP: the plain operators, then the same in place (TP_B_IN_PLACE later). */
typedef enum tp_operator {
    TP_B_ADD, TP_B_AND, TP_B_FLOOR_DIVIDE, TP_B_LSHIFT, TP_B_MATRIX_MULTIPLY, TP_B_MULTIPLY, TP_B_REMAINDER, TP_B_OR,
    TP_B_POWER, TP_B_RSHIFT, TP_B_SUBTRACT, TP_B_TRUE_DIVIDE, TP_B_XOR, TP_B_IN_PLACE,
    TP_OPERATOR_COUNT = 2 * TP_B_IN_PLACE,
} tp_operator;

/* What MAKE_FUNCTION finds on the stack below the code, bottom first. */
typedef enum tp_function_part {
    TP_FN_DEFAULTS = 1,             /* tuple */
    TP_FN_KEYWORD_DEFAULTS = 2,     /* dict */
    TP_FN_ANNOTATIONS = 4,          /* tuple: name, value, … */
    TP_FN_CLOSURE = 8,              /* tuple of cells */
} tp_function_part;

enum {                              /* tp_instruction.flags */
    TP_CALLED = 1,                  /* LOAD_GLOBAL, LOAD_ATTR: the value will be called; calls: it has the mark */
    TP_UNINTERRUPTED = 2,           /* JUMP */
};

typedef struct tp_position { int32_t line, end_line, column, end_column; } tp_position;     /* -1: unknown */

/* Where an exception goes: the stack is cut to `depth` values, then the index of the instruction that raised (as a
 * Python int, for RERAISE) is pushed if `lasti`, then the exception. */
typedef struct tp_handler {
    int32_t target;                 /* -1: to the caller */
    int32_t depth;
    bool    lasti;
} tp_handler;

typedef struct tp_instruction {
    uint8_t     op;                 /* tp_opcode */
    uint8_t     flags;
    int32_t     arg;
    int32_t     target;             /* -1 unless TP_A_TARGET */
    PyObject   *object;             /* borrowed from the code; NULL unless the argument is one */
    tp_handler  handler;
    tp_position position;
} tp_instruction;

/* A variable of the frame. */
enum { TP_LOCAL_PLAIN = 1, TP_LOCAL_CELL = 2, TP_LOCAL_FREE = 4 };      /* an argument in a cell is PLAIN | CELL */
typedef struct tp_local {
    PyObject *name;                 /* borrowed from the code: a str */
    uint8_t   kind;
} tp_local;

typedef struct tp_code {
    tp_instruction *item;           /* owned */
    size_t    count, room;
    tp_local *local;                /* owned; arguments first, then in any order */
    size_t    local_count, local_room;
    int32_t   argument_count;       /* positional, the positional only among them */
    int32_t   positional_only, keyword_only;
    int32_t   flags;                /* CO_…: varargs, generator, … */
    int32_t   first_line;
    PyObject *file, *name, *qualified_name;     /* borrowed from the code, as all objects in it */
    PyObject *doc;                  /* what a function made of it has as __doc__: a str, or NULL for None */
    PyObject **keep;                /* owned, each counted */
    size_t    keep_count, keep_room;
} tp_code;

typedef struct tp_instruction_info {
    const char *name;
    tp_argument argument;
    tp_edges    edges;
} tp_instruction_info;
extern const tp_instruction_info tp_instructions[TP_OPCODE_COUNT];

/* ---- code.c: making and looking ---- */
TP_CHECK tp_code *tp_code_new(void);                    /* no instruction, no local, names "", line 1 */
void tp_code_free(tp_code *code);                       /* NULL is fine */
TP_CHECK bool tp_code_keep(tp_code *code, PyObject *object);    /* counts it until the code dies */
/* Append at the end; the index, or -1. Whoever appends a jump sets its target when it is known. Objects are kept.
 * The position is that of the instruction before, the handler none. */
TP_CHECK int32_t tp_code_append(tp_code *code, tp_opcode op, int32_t arg, PyObject *object);
/* All of `source` behind what is there, jumps and handlers shifted; local i of it is local map[i] here, NULL: the same.
 * The index of its first instruction, or -1. */
TP_CHECK int32_t tp_code_append_code(tp_code *code, const tp_code *source, const int32_t *map);
TP_CHECK int32_t tp_code_add_local(tp_code *code, PyObject *name, int kind);     /* the index, or -1 */
/* What a function begins with: COPY_FREE_VARS, a MAKE_CELL for each cell, RESUME 0. False: an error is set. */
TP_CHECK bool tp_code_append_prologue(tp_code *code);
int32_t tp_code_arguments(const tp_code *code);         /* how many of the locals a call fills, * and ** among them */
void tp_code_flatten_arguments(tp_code *code);          /* all those become plain positional arguments */
void tp_code_print(const tp_code *code, tp_text *text); /* a line an instruction, for tests and logs */

/* ---- stack.c: what is on the stack ---- */
typedef struct tp_stack_mark {
    int32_t position;               /* 0 is the bottom; equal to the depth: the value is still to be pushed */
    int32_t level;                  /* marks below this one */
    bool    method;                 /* put there by LOAD_ATTR */
    const struct tp_stack_mark *below;      /* arena, may be NULL */
} tp_stack_mark;
typedef struct tp_stack {
    int32_t depth;                  /* values; -1: the instruction is never reached */
    const tp_stack_mark *mark;      /* arena, may be NULL: values that wait to be called, topmost first */
} tp_stack;
/* The stack before each instruction, code->count of them in `arena`; NULL on inconsistent code. */
TP_CHECK tp_stack *tp_code_stacks_in(tp_arena *arena, const tp_code *code);
/* The same for decoder and encoder: `visit` sees each reached instruction once, before its effect is taken. */
typedef bool (*tp_stack_visit)(void *self, int32_t index, const tp_stack *before);
TP_CHECK tp_stack *tp_code_walk_in(tp_arena *arena, const tp_code *code, tp_stack_visit visit, void *self);
/* Effect of one instruction on the number of values, if it goes to the target or to the next. */
void tp_instruction_effect(const tp_instruction *i, bool jumps, int32_t *pops, int32_t *pushes);

/* ---- decode311.c, encode311.c ---- */
bool tp_code_available(void);       /* is there a decoder and an encoder for this Python? */
TP_CHECK tp_code *tp_code_decode(PyCodeObject *code);       /* keeps it; TP_ERR_UNIMPLEMENTED: not for this Python */
TP_CHECK PyCodeObject *tp_code_encode(const tp_code *code); /* a new reference */

#endif
