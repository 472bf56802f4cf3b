/* module.c - the submodule _C._capture: what tests of decoder, encoder and frame hook call. */
#include "python/capture/code.h"
#include "python/capture/frame.h"
#include "python/face.h"

/* ---- code ---- */
static PyCodeObject *code_of(PyObject *o)
{
    if (PyCode_Check(o))
        return (PyCodeObject *)o;
    PyErr_Format(PyExc_TypeError, "a code object is wanted, not %.200s", Py_TYPE(o)->tp_name);
    return NULL;
}

static PyObject *encoded(tp_code *taken)
{
    PyCodeObject *made = taken ? tp_code_encode(taken) : NULL;
    tp_code_free(taken);
    return made ? (PyObject *)made : face_raise();
}

/* _roundtrip(code, fuse=-1): decoded and encoded again; fuse n: the n-th allocation from now fails. */
static PyObject *roundtrip(PyObject *module, PyObject *args)
{
    PyObject *o;
    long long fuse = -1;
    PyCodeObject *code;
    (void)module;
    if (!PyArg_ParseTuple(args, "O|L", &o, &fuse) || !(code = code_of(o)))
        return NULL;
    atomic_store(&tp_the_runtime.allocation_fuse, fuse);
    tp_code *decoded = tp_code_decode(code);
    PyCodeObject *made = decoded ? tp_code_encode(decoded) : NULL;
    atomic_store(&tp_the_runtime.allocation_fuse, -1);
    tp_code_free(decoded);
    return made ? (PyObject *)made : face_raise();
}

/* _unmarked(code): the same without CALLEE and "called", as code that is written anew has it. */
static PyObject *unmarked(PyObject *module, PyObject *o)
{
    (void)module;
    PyCodeObject *code = code_of(o);
    tp_code *c = code ? tp_code_decode(code) : NULL;
    if (!code)
        return NULL;
    for (size_t k = 0; c && k < c->count; k++) {
        c->item[k].flags &= (uint8_t)~TP_CALLED;
        if (c->item[k].op == TP_I_CALLEE) {
            c->item[k].op = TP_I_NOP;
            c->item[k].arg = 0;
        }
    }
    return encoded(c);
}

/* _flattened(code): all arguments positional, as replacements of frames may be. */
static PyObject *flattened(PyObject *module, PyObject *o)
{
    (void)module;
    PyCodeObject *code = code_of(o);
    tp_code *c = code ? tp_code_decode(code) : NULL;
    if (!code)
        return NULL;
    if (c)
        tp_code_flatten_arguments(c);
    return encoded(c);
}

/* _swap_constant(code, old, new): the smallest compiler. Equal constants of the same type are swapped. */
static PyObject *swap_constant(PyObject *module, PyObject *args)
{
    PyObject *o, *old, *new;
    PyCodeObject *code;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO", &o, &old, &new) || !(code = code_of(o)))
        return NULL;
    tp_code *c = tp_code_decode(code);
    bool ok = c && tp_code_keep(c, new);
    for (size_t k = 0; ok && k < c->count; k++) {
        tp_instruction *i = &c->item[k];
        if (i->op != TP_I_LOAD_CONST || Py_TYPE(i->object) != Py_TYPE(old))
            continue;
        int same = PyObject_RichCompareBool(i->object, old, Py_EQ);
        if (same > 0)
            i->object = new;
        ok = same >= 0 || face_foreign();
    }
    if (ok)
        return encoded(c);
    tp_code_free(c);
    return face_raise();
}

/* _twice(code, name): a code that runs `code` twice in a row, its returns but the last replaced by jumps; `name` counts
 * nothing, it is a local added behind the others, so that locals move. For tests of appending. */
static bool append_twice(tp_code *out, const tp_code *c, PyObject *name, int32_t *map)
{
    for (size_t k = 0; k < c->local_count; k++) {
        bool argument = (int32_t)k < tp_code_arguments(c);
        if ((int32_t)k == tp_code_arguments(c) && tp_code_add_local(out, name, TP_LOCAL_PLAIN) < 0)
            return false;
        map[k] = tp_code_add_local(out, c->local[k].name, c->local[k].kind);
        if (map[k] < 0 || (argument && map[k] != (int32_t)k))
            return false;
    }
    int32_t first = tp_code_append_code(out, c, map), second = first < 0 ? -1 : tp_code_append_code(out, c, map);
    if (second < 0)
        return false;
    for (int32_t k = first; k < second; k++)
        if (out->item[k].op == TP_I_RETURN_VALUE) {         /* what was returned stays below, unread */
            out->item[k].op = TP_I_JUMP;
            out->item[k].target = second;
        }
    return true;
}

static PyObject *twice(PyObject *module, PyObject *args)
{
    PyObject *o, *name;
    PyCodeObject *code;
    (void)module;
    if (!PyArg_ParseTuple(args, "OU", &o, &name) || !(code = code_of(o)))
        return NULL;
    tp_code *c = tp_code_decode(code), *out = c ? tp_code_new() : NULL;
    int32_t *map = out ? tp_alloc_array(c->local_count + 1, sizeof *map) : NULL;
    bool ok = map && append_twice(out, c, name, map);
    if (ok) {
        out->argument_count = c->argument_count;
        out->keyword_only = c->keyword_only;
        out->flags = c->flags;
        out->first_line = c->first_line;
    }
    tp_free(map);
    tp_code_free(c);
    if (ok)
        return encoded(out);
    tp_code_free(out);
    return face_raise();
}

static PyObject *argument_of(const tp_code *c, const tp_instruction *i)
{
    switch (tp_instructions[i->op].argument) {
    case TP_A_NONE: Py_RETURN_NONE;
    case TP_A_CONSTANT:
    case TP_A_NAME: return Py_NewRef(i->object);
    case TP_A_LOCAL: return Py_NewRef(c->local[i->arg].name);
    case TP_A_TARGET: return PyLong_FromLong(i->target);
    case TP_A_CALL: return Py_BuildValue("iO", i->arg, i->object ? i->object : Py_None);
    default: return PyLong_FromLong(i->arg);
    }
}

/* (name, argument, flags, line, end line, column, end column, handler or None, depth or -1) */
static PyObject *row_of(const tp_code *c, const tp_instruction *i, const tp_stack *s)
{
    tp_position p = i->position;
    tp_handler h = i->handler;
    PyObject *argument = argument_of(c, i), *row = NULL;
    PyObject *handler = h.target < 0 ? Py_NewRef(Py_None)
                                     : Py_BuildValue("iiO", h.target, h.depth, h.lasti ? Py_True : Py_False);
    if (argument && handler)
        row = Py_BuildValue("sOiiiiiOi", tp_instructions[i->op].name, argument, i->flags, p.line, p.end_line, p.column,
                            p.end_column, handler, s->depth);
    Py_XDECREF(handler);
    Py_XDECREF(argument);
    return row;
}

static PyObject *decode(PyObject *module, PyObject *o)
{
    (void)module;
    PyCodeObject *code = code_of(o);
    if (!code)
        return NULL;
    tp_arena arena;
    tp_arena_init(&arena);
    tp_code *c = tp_code_decode(code);
    tp_stack *stack = c ? tp_code_stacks_in(&arena, c) : NULL;
    PyObject *list = stack ? PyList_New(0) : face_raise();
    for (size_t k = 0; list && k < c->count; k++) {
        PyObject *row = row_of(c, &c->item[k], &stack[k]);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    tp_code_free(c);
    tp_arena_fini(&arena);
    return list;
}

static PyObject *print(PyObject *module, PyObject *o)
{
    (void)module;
    PyCodeObject *code = code_of(o);
    tp_code *c = code ? tp_code_decode(code) : NULL;
    if (!c)
        return code ? face_raise() : NULL;
    tp_text text = { 0 };
    tp_code_print(c, &text);
    PyObject *result = text.failed ? PyErr_NoMemory() : PyUnicode_FromString(tp_text_read(&text));
    tp_text_fini(&text);
    tp_code_free(c);
    return result;
}

static PyMethodDef functions[] = {
    { "_decode", decode, METH_O, "the instructions of a code object as tuples" },
    { "_print", print, METH_O, "the instructions of a code object as text" },
    { "_roundtrip", roundtrip, METH_VARARGS, "a code object decoded and encoded again" },
    { "_unmarked", unmarked, METH_O, "a code object encoded without marks of calls" },
    { "_flattened", flattened, METH_O, "a code object whose arguments are all positional" },
    { "_swap_constant", swap_constant, METH_VARARGS, "a code object with one constant for another" },
    { "_twice", twice, METH_VARARGS, "a code object that runs another twice" },
    { NULL },
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_capture",
    .m_doc = "Bytecode capture: decoder, encoder and frame hook, for tests.",
    .m_size = -1,
    .m_methods = functions,
};

bool face_capture_init(PyObject *module)
{
    PyObject *capture = PyModule_Create(&definition);
    bool ok = capture && PyModule_AddObjectRef(capture, "available", tp_code_available() ? Py_True : Py_False) == 0 &&
              PyModule_AddObjectRef(module, "_capture", capture) == 0;
    Py_XDECREF(capture);
    return ok;
}
