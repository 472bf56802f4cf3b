/* encode311.c - a code object of CPython 3.11 from instructions of our own.
 *
 * Each instruction is lowered to CPython's operations, its names and constants to places in pools; then the operations
 * are laid out, where a jump's argument depends on how long the operations between are and these on their arguments:
 * all begin short and grow until nothing changes. Last come bytes, tables and the code object.
 *
 * A call whose callable has no mark is written with the callable where a method's function would be: [f, x, y] CALL 1
 * is f(x, y). Only without arguments, and for CALL_FUNCTION_EX, is the second word put under it late: PUSH_NULL and
 * swaps. */
#include <string.h>

#include "base/error.h"
#include "base/map.h"
#include "python/capture/code.h"
#include "python/capture/tables311.h"
#include "python/face.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#include <opcode.h>

typedef struct row {
    uint8_t theirs, caches;
} row;

/* [1] is the jump backwards. CACHE, which is 0, where there is none. */
static const row rows[TP_OPCODE_COUNT][2] = {
#define TP_311(theirs, ours, caches, direction) [TP_I_##ours][(direction) < 0] = { theirs, caches },
#include "python/capture/opcodes311.def"
#undef TP_311
};

enum { LOAD_METHOD_CACHES = 10, PRECALL_CACHES = 1, CALL_CACHES = 4, MOST_SWAPS = 254 };

typedef struct operation {
    uint8_t  theirs, caches, prefixes;
    int32_t  arg;               /* of a jump: set by the layout */
    int32_t  target;            /* -1, or the instruction it jumps to */
    int32_t  source;            /* the instruction it is of */
    int32_t  unit;              /* where its first prefix stands; set by the layout */
} operation;

typedef struct encoder {
    const tp_code  *code;
    const tp_stack *stack;      /* scratch: before each instruction */
    tp_arena        scratch;
    tp_array(operation) op;
    int32_t        *first;      /* scratch: first operation of each instruction, and one more */
    int32_t        *place, *order;      /* scratch: each local's place in CPython's order, and the way back */
    int32_t         stack_size, units;
    PyObject       *constants, *names, *name_place;     /* counted: two lists, and a dict from name to place */
    tp_map          constant_place;                     /* from address to place */
    tp_byte_array   bytes, lines, exceptions;
} encoder;

/* ---- pools ---- */
static bool constant_at(encoder *e, PyObject *object, int32_t *out)
{
    uint64_t place;
    if (!tp_map_get(&e->constant_place, (uintptr_t)object, &place)) {
        place = (uint64_t)PyList_GET_SIZE(e->constants);
        if (PyList_Append(e->constants, object) < 0)
            return face_foreign();
        if (!tp_map_put(&e->constant_place, (uintptr_t)object, place))
            return false;
    }
    *out = (int32_t)place;
    return true;
}

static bool name_at(encoder *e, PyObject *name, int32_t *out)
{
    PyObject *known = PyDict_GetItemWithError(e->name_place, name);
    if (known) {
        *out = (int32_t)PyLong_AsLong(known);
        return true;
    }
    *out = (int32_t)PyList_GET_SIZE(e->names);
    PyObject *place = PyErr_Occurred() ? NULL : PyLong_FromLong(*out);
    bool ok = place && PyDict_SetItem(e->name_place, name, place) == 0 && PyList_Append(e->names, name) == 0;
    Py_XDECREF(place);
    return ok || face_foreign();
}

/* The first constant is the docstring; a code without one must not begin with a string. */
static bool make_pools(encoder *e)
{
    int32_t first;
    e->constants = PyList_New(0);
    e->names = PyList_New(0);
    e->name_place = PyDict_New();
    if (!e->constants || !e->names || !e->name_place)
        return face_foreign();
    return constant_at(e, e->code->doc ? e->code->doc : Py_None, &first);
}

/* CPython's order: what is plain, then what is only a cell, then free. */
static bool place_locals(encoder *e)
{
    const tp_code *c = e->code;
    int32_t next = 0;
    e->place = tp_arena_take_array(&e->scratch, c->local_count + 1, sizeof *e->place);
    e->order = tp_arena_take_array(&e->scratch, c->local_count + 1, sizeof *e->order);
    if (!e->place || !e->order)
        return false;
    for (int pass = 0; pass < 3; pass++)
        for (size_t k = 0; k < c->local_count; k++) {
            int kind = c->local[k].kind;
            int group = kind & TP_LOCAL_PLAIN ? 0 : kind == TP_LOCAL_CELL ? 1 : 2;
            if (group != pass)
                continue;
            e->order[next] = (int32_t)k;
            e->place[k] = next++;
        }
    return true;
}

/* The interpreter follows the cell in a local without asking whether there is one. */
static bool check_prologue(encoder *e)
{
    const tp_code *c = e->code;
    bool *made = tp_arena_take_array(&e->scratch, c->local_count + 1, sizeof *made), copied = false, resumed = false;
    if (!made)
        return false;
    memset(made, 0, c->local_count + 1);
    for (size_t k = 0; k < c->count; k++) {
        if (e->stack[k].depth < 0)
            continue;
        copied = copied || c->item[k].op == TP_I_COPY_FREE_VARS;
        resumed = resumed || c->item[k].op == TP_I_RESUME;
        if (c->item[k].op == TP_I_MAKE_CELL)
            made[c->item[k].arg] = true;
    }
    for (size_t k = 0; k < c->local_count; k++) {
        int kind = c->local[k].kind;
        if ((kind & TP_LOCAL_CELL && !made[k]) || (kind == TP_LOCAL_FREE && !copied))
            return tp_fail(TP_ERR_VALUE, "the code never makes the cell of local %zu", k);
    }
    return resumed || tp_fail(TP_ERR_VALUE, "the code has no RESUME");
}

/* ---- lowering ---- */
static bool emit(encoder *e, int32_t source, int theirs, int caches, int32_t arg)
{
    operation o = { .theirs = (uint8_t)theirs, .caches = (uint8_t)caches, .arg = arg, .target = -1, .source = source };
    return tp_array_push(&e->op, o);
}

static void need_stack(encoder *e, int32_t words)
{
    if (words > e->stack_size)
        e->stack_size = words;
}

static int32_t marks_below(const tp_stack *s, int32_t depth)
{
    const tp_stack_mark *m = s->mark;
    while (m && m->position >= depth)
        m = m->below;
    return m ? m->level + 1 : 0;
}

static int32_t their_depth(const tp_stack *s)
{
    return s->depth + (s->mark ? s->mark->level + 1 : 0);
}

/* CPython's argument for a position `arg` on our stack, of an instruction that looks at `pops` values. */
static int32_t their_place(const tp_stack *s, int32_t arg, int32_t pops)
{
    if (s->depth < 0)
        return arg;
    int32_t ours = s->depth - pops;                             /* the lowest value it looks at … */
    int32_t theirs = ours + marks_below(s, ours + 1);           /* … has the marks under its own place below it, too */
    return arg + (their_depth(s) - theirs) - pops;
}

/* The second word under the `values` topmost. */
static bool emit_late_mark(encoder *e, int32_t index, int32_t values)
{
    if (values > MOST_SWAPS)
        return tp_fail(TP_ERR_VALUE, "instruction %d: a mark under %d values", index, values);
    bool ok = emit(e, index, PUSH_NULL, 0, 0);
    for (int32_t k = values + 1; ok && k >= 2; k--)
        ok = emit(e, index, SWAP, 0, k);
    return ok;
}

static bool lower_call(encoder *e, int32_t index, const tp_instruction *i)
{
    int32_t arg = i->arg, names = 0;
    if (!(i->flags & TP_CALLED) && arg > 0)
        arg--;
    else if (!(i->flags & TP_CALLED)) {
        need_stack(e, e->stack[index].depth < 0 ? 0 : their_depth(&e->stack[index]) + 1);
        if (!emit_late_mark(e, index, 1))
            return false;
    }
    if (i->object && !(constant_at(e, i->object, &names) && emit(e, index, KW_NAMES, 0, names)))
        return false;
    return emit(e, index, PRECALL, PRECALL_CACHES, arg) && emit(e, index, CALL, CALL_CACHES, arg);
}

static bool lower_jump(encoder *e, int32_t index, const tp_instruction *i)
{
    bool back = i->target <= index;
    row r = rows[i->op][back];
    if (!r.theirs)
        return tp_fail(TP_ERR_VALUE, "instruction %d: %s goes backwards", index, tp_instructions[i->op].name);
    if (back && (i->flags & TP_UNINTERRUPTED))
        r.theirs = JUMP_BACKWARD_NO_INTERRUPT;
    if (!emit(e, index, r.theirs, r.caches, 0))
        return false;
    e->op.item[e->op.count - 1].target = i->target;
    return true;
}

static bool lower(encoder *e, int32_t index)
{
    const tp_instruction *i = &e->code->item[index];
    const tp_stack *s = &e->stack[index];
    row r = rows[i->op][0];
    int32_t arg = i->arg, pops, pushes;

    if (s->depth >= 0)
        need_stack(e, their_depth(s));
    tp_instruction_effect(i, false, &pops, &pushes);
    switch (tp_instructions[i->op].argument) {
    case TP_A_CONSTANT:
        if (!constant_at(e, i->object, &arg))
            return false;
        break;
    case TP_A_NAME:
        if (!name_at(e, i->object, &arg))
            return false;
        break;
    case TP_A_LOCAL: arg = e->place[i->arg]; break;
    case TP_A_DEPTH:
    case TP_A_BELOW:
        if (i->op == TP_I_CALLEE)
            return i->arg ? emit_late_mark(e, index, i->arg) : emit(e, index, PUSH_NULL, 0, 0);
        arg = i->arg ? their_place(s, i->arg, pops) : 0;
        break;
    case TP_A_TARGET: return lower_jump(e, index, i);
    case TP_A_CALL: return lower_call(e, index, i);
    default: break;
    }
    if (i->op == TP_I_LOAD_GLOBAL)
        arg = arg << 1 | (i->flags & TP_CALLED);
    if (i->op == TP_I_LOAD_ATTR && (i->flags & TP_CALLED))
        r = (row){ LOAD_METHOD, LOAD_METHOD_CACHES };
    if (i->op == TP_I_CALL_FUNCTION_EX && !(i->flags & TP_CALLED)) {
        need_stack(e, s->depth < 0 ? 0 : their_depth(s) + 1);
        if (!emit_late_mark(e, index, pops))
            return false;
    }
    return emit(e, index, r.theirs, r.caches, arg);
}

static bool lower_all(encoder *e)
{
    size_t count = e->code->count;
    e->first = tp_arena_take_array(&e->scratch, count + 1, sizeof *e->first);
    if (!e->first)
        return false;
    for (size_t k = 0; k < count; k++) {
        e->first[k] = (int32_t)e->op.count;
        if (!lower(e, (int32_t)k))
            return false;
    }
    e->first[count] = (int32_t)e->op.count;
    return true;
}

/* ---- layout ---- */
static uint8_t prefixes_of(int32_t arg)
{
    return arg >> 8 == 0 ? 0 : arg >> 16 == 0 ? 1 : arg >> 24 == 0 ? 2 : 3;
}

static int32_t length(const operation *o)
{
    return o->prefixes + 1 + o->caches;
}

static bool place_operations(encoder *e)
{
    int64_t unit = 0;
    for (size_t k = 0; k < e->op.count; k++) {
        e->op.item[k].unit = (int32_t)unit;
        unit += length(&e->op.item[k]);
        if (unit > INT32_MAX / 4)
            return tp_fail(TP_ERR_OVERFLOW, "the code is too long");
    }
    e->units = (int32_t)unit;
    return true;
}

static bool lay_out(encoder *e)
{
    for (size_t k = 0; k < e->op.count; k++)
        e->op.item[k].prefixes = prefixes_of(e->op.item[k].arg);
    for (bool changed = true; changed;) {
        changed = false;
        if (!place_operations(e))
            return false;
        for (size_t k = 0; k < e->op.count; k++) {
            operation *o = &e->op.item[k];
            if (o->target < 0)
                continue;
            int32_t from = o->unit + length(o), to = e->op.item[e->first[o->target]].unit;
            o->arg = to < from ? from - to : to - from;
            if (prefixes_of(o->arg) > o->prefixes) {
                o->prefixes = prefixes_of(o->arg);
                changed = true;
            }
        }
    }
    return true;
}

/* ---- writing ---- */
static bool put_unit(encoder *e, int byte, int32_t arg)
{
    return tp_array_push(&e->bytes, (uint8_t)byte) && tp_array_push(&e->bytes, (uint8_t)(arg & 255));
}

static bool write_bytes(encoder *e)
{
    int32_t line = e->code->first_line;
    for (size_t k = 0; k < e->op.count; k++) {
        const operation *o = &e->op.item[k];
        for (int p = o->prefixes; p > 0; p--)
            if (!put_unit(e, EXTENDED_ARG, o->arg >> (8 * p)))
                return false;
        if (!put_unit(e, o->theirs, o->arg))
            return false;
        for (int c = 0; c < o->caches; c++)
            if (!put_unit(e, CACHE, 0))
                return false;
        if (!tp_position_write(&e->lines, e->code->item[o->source].position, length(o), &line))
            return false;
    }
    return true;
}

/* An instruction's handler with CPython's depth and a unit for a target. */
static tp_handler their_handler(const encoder *e, int32_t index)
{
    tp_handler h = e->code->item[index].handler;
    if (h.target < 0)
        return (tp_handler){ .target = -1 };
    if (e->stack[index].depth >= 0)
        h.depth += marks_below(&e->stack[index], h.depth);
    h.target = e->op.item[e->first[h.target]].unit;
    return h;
}

static bool write_exceptions(encoder *e)
{
    tp_handler now = { .target = -1 };
    int32_t start = 0;
    for (size_t k = 0; k <= e->code->count; k++) {
        bool end = k == e->code->count;
        int32_t unit = end ? e->units : e->op.item[e->first[k]].unit;
        tp_handler h = end ? (tp_handler){ .target = -1 } : their_handler(e, (int32_t)k);
        if (h.target == now.target && h.depth == now.depth && h.lasti == now.lasti)
            continue;
        if (now.target >= 0 && !tp_handler_write(&e->exceptions, start, unit - start, now))
            return false;
        now = h;
        start = unit;
    }
    return true;
}

/* ---- the code object ---- */
static PyObject *bytes_of(const tp_byte_array *a)
{
    return PyBytes_FromStringAndSize((const char *)a->item, (Py_ssize_t)a->count);
}

/* The names of locals with any of `kinds`, in CPython's order. */
static PyObject *locals_of(const encoder *e, int kinds)
{
    const tp_code *c = e->code;
    PyObject *list = PyList_New(0), *result;
    for (size_t place = 0; list && place < c->local_count; place++) {
        const tp_local *l = &c->local[e->order[place]];
        if ((l->kind & kinds) && PyList_Append(list, l->name) < 0)
            Py_CLEAR(list);
    }
    result = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return result;
}

/* Two locals of one name are one to CPython, which makes its list from names. */
static bool same_locals(const encoder *e, const PyCodeObject *made)
{
    const tp_code *c = e->code;
    bool same = made->co_nlocalsplus == (int)c->local_count;
    for (size_t k = 0; same && k < c->local_count; k++)
        same = PyUnicode_Compare(PyTuple_GET_ITEM(made->co_localsplusnames, e->place[k]), c->local[k].name) == 0;
    return same || tp_fail(TP_ERR_VALUE, "two locals of the code have the same name");
}

static bool check_head(const tp_code *c)
{
    int64_t arguments = (int64_t)c->argument_count + c->keyword_only + 2;
    if (c->argument_count < 0 || c->positional_only < 0 || c->positional_only > c->argument_count ||
        c->keyword_only < 0 || arguments > INT32_MAX || (size_t)tp_code_arguments(c) > c->local_count)
        return tp_fail(TP_ERR_VALUE, "the code has more arguments than locals");
    for (int32_t k = 0; k < tp_code_arguments(c); k++)
        if (!(c->local[k].kind & TP_LOCAL_PLAIN))
            return tp_fail(TP_ERR_VALUE, "argument %d of the code is no plain local", k);
    return true;
}

static PyCodeObject *make_code(const encoder *e)
{
    const tp_code *c = e->code;
    PyObject *constants = PyList_AsTuple(e->constants), *names = PyList_AsTuple(e->names);
    PyObject *plain = locals_of(e, TP_LOCAL_PLAIN), *cells = locals_of(e, TP_LOCAL_CELL);
    PyObject *free = locals_of(e, TP_LOCAL_FREE);
    PyObject *bytes = bytes_of(&e->bytes), *lines = bytes_of(&e->lines), *exceptions = bytes_of(&e->exceptions);
    PyCodeObject *made = NULL;

    if (constants && names && plain && cells && free && bytes && lines && exceptions)
        made = PyCode_NewWithPosOnlyArgs(c->argument_count, c->positional_only, c->keyword_only,
                                         (int)PyTuple_GET_SIZE(plain), e->stack_size > 0 ? e->stack_size : 1, c->flags,
                                         bytes, constants, names, plain, free, cells, c->file,
                                         c->name, c->qualified_name, c->first_line, lines, exceptions);
    if (!made)
        (void)face_foreign();
    else if (!same_locals(e, made))
        Py_CLEAR(made);
    Py_XDECREF(exceptions);
    Py_XDECREF(lines);
    Py_XDECREF(bytes);
    Py_XDECREF(free);
    Py_XDECREF(cells);
    Py_XDECREF(plain);
    Py_XDECREF(names);
    Py_XDECREF(constants);
    return made;
}

PyCodeObject *tp_code_encode(const tp_code *code)
{
    encoder e = { .code = code };
    PyCodeObject *made = NULL;
    tp_arena_init(&e.scratch);
    bool ok = check_head(code) && (e.stack = tp_code_stacks_in(&e.scratch, code)) && check_prologue(&e) &&
              make_pools(&e) && place_locals(&e) &&
              lower_all(&e) && lay_out(&e) && write_bytes(&e) && write_exceptions(&e);
    if (ok)
        made = make_code(&e);
    tp_array_fini(&e.exceptions);
    tp_array_fini(&e.lines);
    tp_array_fini(&e.bytes);
    tp_map_fini(&e.constant_place);
    Py_XDECREF(e.name_place);
    Py_XDECREF(e.names);
    Py_XDECREF(e.constants);
    tp_array_fini(&e.op);
    tp_arena_fini(&e.scratch);
    return made;
}

#else

PyCodeObject *tp_code_encode(const tp_code *code)
{
    (void)code;
    return tp_fail(TP_ERR_UNIMPLEMENTED, "bytecode capture is not available on Python %s", PY_VERSION);
}

#endif
