/* decode311.c - a code object of CPython 3.11 in instructions of our own.
 *
 * First each operation is translated where it stands, jumps and handlers still naming code units and stack positions
 * being CPython's. Then units become indices, and the walk over the stack (stack.c) shows each instruction with its
 * stack, where positions are brought from CPython's, with a second word under values that wait to be called, to ours.
 *
 * Calls with a word other than NULL there, as the compiler makes them for decorators, comprehensions and `with`
 * ([f, x] CALL 0 is f(x)), become plain ones with one argument more. */
#include "base/error.h"
#include "python/capture/code.h"
#include "python/capture/tables311.h"
#include "python/face.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#define Py_BUILD_CORE 1             /* private headers tell the kinds of locals, and what a specialised operation was */
#define NEED_OPCODE_TABLES 1
#include <internal/pycore_code.h>
#include <internal/pycore_opcode.h>

typedef struct row {
    uint8_t known, op, caches;
    int8_t  direction;
} row;

static const row rows[256] = {
#define TP_311(theirs, ours, caches, direction) [theirs] = { 1, TP_I_##ours, caches, direction },
#include "python/capture/opcodes311.def"
#undef TP_311
    [LOAD_METHOD] = { 1, TP_I_LOAD_ATTR, 10, 0 },
    [JUMP_BACKWARD_NO_INTERRUPT] = { 1, TP_I_JUMP, 0, -1 },
    [CALL] = { 1, TP_I_CALL, 4, 0 },
};

enum { PRECALL_CACHES = 1, MOST_PREFIXED = 1 << 24 };

typedef struct decoder {
    PyCodeObject  *source;      /* borrowed */
    tp_code       *code;
    tp_arena       scratch;
    uint8_t       *byte;        /* scratch: operation and argument of each unit */
    int32_t        units;
    int32_t       *index;       /* scratch: of the instruction that starts at a unit, -1 inside one */
    tp_position   *position;    /* scratch: of each unit */
    tp_handler    *handler;     /* scratch: of each unit */
    /* the operation being read, its prefixes before it */
    int32_t        start, unit;
    uint32_t       prefix;
    PyObject      *keywords;    /* borrowed from the constants: KW_NAMES was read, its call is to come */
    int32_t        precall;     /* arguments PRECALL said, its call is to come; -1: none */
} decoder;

static bool malformed(const decoder *d, const char *what)
{
    return tp_fail(TP_ERR_VALUE, "code unit %d: %s", d->unit, what);
}

/* ---- translating ---- */
static bool pick(const decoder *d, PyObject *tuple, uint32_t index, PyObject **out)
{
    if (index >= (uint32_t)PyTuple_GET_SIZE(tuple))
        return malformed(d, "names a constant or name that the code does not have");
    *out = PyTuple_GET_ITEM(tuple, (Py_ssize_t)index);
    return true;
}

/* Appends what started at d->start; what it names is kept by the source, so nothing more need be counted. */
static tp_instruction *append(decoder *d, tp_opcode op, int32_t arg, PyObject *object)
{
    int32_t at = tp_code_append(d->code, op, arg, NULL);
    if (at < 0)
        return NULL;
    tp_instruction *i = &d->code->item[at];
    i->object = object;
    i->position = d->position[d->unit];
    i->handler = d->handler[d->unit];
    d->index[d->start] = at;
    return i;
}

/* PUSH_NULL; SWAP n; … ; SWAP 2 puts the word under a value that is there: how the encoder writes CALLEE n - 1. */
static bool read_push_null(decoder *d)
{
    const uint8_t *next = d->byte + 2 * (d->unit + 1);
    int32_t left = d->units - d->unit - 1, swaps = left > 0 && next[0] == SWAP && next[1] >= 2 ? next[1] - 1 : 0;
    bool all = swaps <= left;
    for (int32_t k = 0; all && k < swaps; k++)
        all = next[2 * k] == SWAP && next[2 * k + 1] == swaps + 1 - k;
    if (!all)
        swaps = 0;
    if (!append(d, TP_I_CALLEE, swaps, NULL))
        return false;
    d->unit += 1 + swaps;
    return true;
}

static bool read_call(decoder *d, uint32_t arg)
{
    if (d->precall < 0 || (uint32_t)d->precall != arg)
        return malformed(d, "CALL without its PRECALL");
    tp_instruction *i = append(d, TP_I_CALL, (int32_t)arg, d->keywords);
    if (!i)
        return false;
    i->flags = TP_CALLED;
    d->precall = -1;
    d->keywords = NULL;
    d->unit += 1 + rows[CALL].caches;
    return true;
}

static bool read_plain(decoder *d, uint8_t theirs, uint32_t arg)
{
    row r = rows[theirs];
    PyObject *object = NULL;
    uint8_t flags = theirs == LOAD_METHOD || theirs == CALL_FUNCTION_EX ? TP_CALLED : 0;
    if (theirs == JUMP_BACKWARD_NO_INTERRUPT)
        flags = TP_UNINTERRUPTED;
    if (theirs == LOAD_GLOBAL) {
        flags = arg & 1 ? TP_CALLED : 0;
        arg >>= 1;
    }
    tp_argument kind = tp_instructions[r.op].argument;
    if ((kind == TP_A_CONSTANT && !pick(d, d->source->co_consts, arg, &object)) ||
        (kind == TP_A_NAME && !pick(d, d->source->co_names, arg, &object)))
        return false;
    bool number = kind != TP_A_CONSTANT && kind != TP_A_NAME && kind != TP_A_TARGET && kind != TP_A_NONE;
    tp_instruction *i = append(d, r.op, number ? (int32_t)arg : 0, object);
    if (!i)
        return false;
    i->flags = flags;
    if (r.direction) {
        int64_t to = (int64_t)d->unit + 1 + r.direction * (int64_t)arg;
        if (to < 0 || to >= d->units)
            return malformed(d, "jumps out of the code");
        i->target = (int32_t)to;
    }
    d->unit += 1 + r.caches;
    return true;
}

/* One operation, or one that only prepares the next. */
static bool read_operation(decoder *d)
{
    uint8_t theirs = d->byte[2 * d->unit];
    uint32_t arg = d->prefix << 8 | d->byte[2 * d->unit + 1];

    if (arg >= MOST_PREFIXED)
        return malformed(d, "an argument of more than 24 bits");
    if (theirs == EXTENDED_ARG) {
        d->prefix = arg;
        d->unit++;
        return true;
    }
    d->prefix = 0;
    if (d->precall >= 0 && theirs != CALL)
        return malformed(d, "PRECALL without its CALL");
    if (d->keywords && d->precall < 0 && theirs != PRECALL)
        return malformed(d, "KW_NAMES without its PRECALL");
    if (theirs == KW_NAMES) {
        d->unit++;
        return pick(d, d->source->co_consts, arg, &d->keywords);
    }
    if (theirs == PRECALL) {
        d->precall = (int32_t)arg;
        d->unit += 1 + PRECALL_CACHES;
        return true;
    }
    bool ok = theirs == PUSH_NULL     ? read_push_null(d)
              : theirs == CALL        ? read_call(d, arg)
              : rows[theirs].known    ? read_plain(d, theirs, arg)
                                      : malformed(d, "an operation that is not of this Python");
    d->start = d->unit;
    return ok;
}

static bool find_index(const decoder *d, int32_t *target)
{
    int32_t to = d->index[*target];
    if (to < 0)
        return tp_fail(TP_ERR_VALUE, "a jump into the middle of the operation at code unit %d", *target);
    *target = to;
    return true;
}

static bool translate(decoder *d)
{
    while (d->unit < d->units)
        if (!read_operation(d))
            return false;
    if (d->start != d->units || d->unit != d->units)
        return malformed(d, "the code ends inside an operation");
    for (size_t k = 0; k < d->code->count; k++) {
        tp_instruction *i = &d->code->item[k];
        if ((i->target >= 0 && !find_index(d, &i->target)) ||
            (i->handler.target >= 0 && !find_index(d, &i->handler.target)))
            return false;
    }
    return true;
}

/* ---- from CPython's stack to ours ---- */

/* Our position of CPython's; -1: that word is no value. */
static int32_t our_position(const tp_stack *s, int32_t theirs)
{
    const tp_stack_mark *m = s->mark;
    while (m && m->position + m->level > theirs)
        m = m->below;
    if (m && m->position + m->level == theirs)
        return -1;
    return theirs - (m ? m->level + 1 : 0);
}

static int32_t their_depth(const tp_stack *s)
{
    return s->depth + (s->mark ? s->mark->level + 1 : 0);
}

/* Where the handler finds the stack: our number of values among the lowest `depth` words, none of them a mark at the
 * top. */
static bool settle_handler(tp_instruction *i, int32_t index, const tp_stack *s)
{
    int32_t depth = i->handler.depth;
    if (depth > their_depth(s))
        return tp_fail(TP_ERR_VALUE, "instruction %d: its handler wants a higher stack", index);
    int32_t top = depth ? our_position(s, depth - 1) : 0;
    if (depth && top < 0)
        return tp_fail(TP_ERR_VALUE, "instruction %d: its handler wants half of a call", index);
    i->handler.depth = depth ? top + 1 : 0;
    return true;
}

static bool settle(void *self, int32_t index, const tp_stack *s)
{
    decoder *d = self;
    tp_instruction *i = &d->code->item[index];
    tp_argument kind = tp_instructions[i->op].argument;
    int32_t pops, pushes;

    if (i->handler.target >= 0 && !settle_handler(i, index, s))
        return false;
    if (i->op == TP_I_CALL && !(s->mark && s->mark->position >= s->depth - i->arg - 1)) {
        i->flags &= (uint8_t)~TP_CALLED;
        i->arg++;
    }
    if ((kind != TP_A_DEPTH && kind != TP_A_BELOW) || i->arg == 0 || i->op == TP_I_CALLEE)
        return true;
    tp_instruction_effect(i, false, &pops, &pushes);
    int32_t place = their_depth(s) - pops;          /* of the lowest word it looks at */
    int32_t ours = place < 0 ? -1 : our_position(s, place);
    if (ours < 0)
        return tp_fail(TP_ERR_VALUE, "instruction %d: %s does not find its operands on the stack", index,
                       tp_instructions[i->op].name);
    i->arg -= pops - (s->depth - ours);
    return true;
}

/* ---- the whole ---- */
static bool read_locals(decoder *d)
{
    PyCodeObject *s = d->source;
    for (int k = 0; k < s->co_nlocalsplus; k++) {
        _PyLocals_Kind theirs = _PyLocals_GetKind(s->co_localspluskinds, k);
        int kind = (theirs & CO_FAST_LOCAL ? TP_LOCAL_PLAIN : 0) | (theirs & CO_FAST_CELL ? TP_LOCAL_CELL : 0) |
                   (theirs & CO_FAST_FREE ? TP_LOCAL_FREE : 0);
        if (tp_code_add_local(d->code, PyTuple_GET_ITEM(s->co_localsplusnames, k), kind) < 0)
            return false;
    }
    return true;
}

static bool read_head(decoder *d)
{
    PyCodeObject *s = d->source;
    tp_code *c = d->code;
    PyObject *first = PyTuple_GET_SIZE(s->co_consts) ? PyTuple_GET_ITEM(s->co_consts, 0) : NULL;
    if (!tp_code_keep(c, (PyObject *)s))
        return false;
    c->argument_count = s->co_argcount;
    c->positional_only = s->co_posonlyargcount;
    c->keyword_only = s->co_kwonlyargcount;
    c->flags = s->co_flags;
    c->first_line = s->co_firstlineno;
    c->file = s->co_filename;
    c->name = s->co_name;
    c->qualified_name = s->co_qualname;
    c->doc = first && PyUnicode_Check(first) ? first : NULL;
    return read_locals(d);
}

/* The code as it was compiled. PyCode_GetCode would do, but it trusts the code not to end inside the caches of an
 * operation, and writes past its end otherwise. */
static bool read_units(decoder *d)
{
    const _Py_CODEUNIT *unit = _PyCode_CODE(d->source);
    d->units = (int32_t)Py_SIZE(d->source);
    d->byte = tp_arena_take_array(&d->scratch, (size_t)d->units + 1, 2);
    for (int32_t u = 0; d->byte && u < d->units; u++) {
        d->byte[2 * u] = _PyOpcode_Deopt[_Py_OPCODE(unit[u])];
        d->byte[2 * u + 1] = (uint8_t)_Py_OPARG(unit[u]);
    }
    return d->byte != NULL;
}

static bool read_tables(decoder *d)
{
    PyCodeObject *s = d->source;
    size_t units = (size_t)d->units;
    d->index = tp_arena_take_array(&d->scratch, units + 1, sizeof *d->index);
    d->position = tp_arena_take_array(&d->scratch, units + 1, sizeof *d->position);
    d->handler = tp_arena_take_array(&d->scratch, units + 1, sizeof *d->handler);
    if (!d->index || !d->position || !d->handler)
        return false;
    for (size_t u = 0; u <= units; u++)
        d->index[u] = -1;
    return tp_positions_read((const uint8_t *)PyBytes_AS_STRING(s->co_linetable),
                             (size_t)PyBytes_GET_SIZE(s->co_linetable), s->co_firstlineno, d->position, d->units) &&
           tp_handlers_read((const uint8_t *)PyBytes_AS_STRING(s->co_exceptiontable),
                            (size_t)PyBytes_GET_SIZE(s->co_exceptiontable), d->handler, d->units);
}

bool tp_code_available(void)
{
    return true;
}

tp_code *tp_code_decode(PyCodeObject *source)
{
    decoder d = { .source = source, .precall = -1 };
    tp_arena_init(&d.scratch);
    bool ok = (d.code = tp_code_new()) && read_head(&d) && read_units(&d) && read_tables(&d) && translate(&d) &&
              tp_code_walk_in(&d.scratch, d.code, settle, &d);
    tp_arena_fini(&d.scratch);
    if (ok)
        return d.code;
    tp_code_free(d.code);
    return NULL;
}

#else

bool tp_code_available(void)
{
    return false;
}

tp_code *tp_code_decode(PyCodeObject *source)
{
    (void)source;
    return tp_fail(TP_ERR_UNIMPLEMENTED, "bytecode capture is not available on Python %s", PY_VERSION);
}

#endif
