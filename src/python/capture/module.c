/* module.c - the submodule _C._capture: what tests of decoder, encoder and frame hook call. */
#include "python/capture/code.h"
#include "python/capture/frame.h"
#include "python/capture/compile.h"
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

static PyObject *roundtrip(PyObject *module, PyObject *o)
{
    (void)module;
    PyCodeObject *code = code_of(o);
    return code ? encoded(tp_code_decode(code)) : NULL;
}

/* _sweep(code, n): a round trip whose n-th allocation fails (negative: none): (did it succeed, blocks left behind). */
static PyObject *sweep(PyObject *module, PyObject *args)
{
    PyObject *o;
    PyCodeObject *code;
    long long fuse;
    (void)module;
    if (!PyArg_ParseTuple(args, "OL", &o, &fuse) || !(code = code_of(o)))
        return NULL;
    tp_the_runtime.counting = true;
    long long before = atomic_load(&tp_the_runtime.allocations_live);
    atomic_store(&tp_the_runtime.allocation_fuse, fuse);
    PyObject *made = encoded(tp_code_decode(code));
    atomic_store(&tp_the_runtime.allocation_fuse, -1);
    long long left = atomic_load(&tp_the_runtime.allocations_live) - before;
    tp_the_runtime.counting = false;
    bool done = made != NULL;
    Py_XDECREF(made);
    if (!done && !PyErr_ExceptionMatches(PyExc_MemoryError) && fuse >= 0)
        return NULL;
    PyErr_Clear();
    return Py_BuildValue("OL", done ? Py_True : Py_False, left);
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

/* _built(a, b): code of `lambda: [f(), f(x), f(*a), f(k=b), f.m()]` with f and x free, written from nothing and without
 * marks, as a compiler writes it. */
static bool build(tp_code *c, PyObject *a, PyObject *b)
{
    PyObject *f = PyUnicode_InternFromString("f"), *x = PyUnicode_InternFromString("x");
    PyObject *m = PyUnicode_InternFromString("m"), *names = Py_BuildValue("(s)", "k");
    bool ok = f && x && m && names;
    if (!ok)
        (void)face_foreign();
    int32_t fs = ok ? tp_code_add_local(c, f, TP_LOCAL_FREE) : -1;
    int32_t xs = fs < 0 ? -1 : tp_code_add_local(c, x, TP_LOCAL_FREE);
    ok = xs >= 0 && tp_code_append_prologue(c) &&
         tp_code_append(c, TP_I_LOAD_DEREF, fs, NULL) >= 0 && tp_code_append(c, TP_I_CALL, 0, NULL) >= 0 &&
         tp_code_append(c, TP_I_LOAD_DEREF, fs, NULL) >= 0 && tp_code_append(c, TP_I_LOAD_DEREF, xs, NULL) >= 0 &&
         tp_code_append(c, TP_I_CALL, 1, NULL) >= 0 &&
         tp_code_append(c, TP_I_LOAD_DEREF, fs, NULL) >= 0 && tp_code_append(c, TP_I_LOAD_CONST, 0, a) >= 0 &&
         tp_code_append(c, TP_I_CALL_FUNCTION_EX, 0, NULL) >= 0 &&
         tp_code_append(c, TP_I_LOAD_DEREF, fs, NULL) >= 0 && tp_code_append(c, TP_I_LOAD_CONST, 0, b) >= 0 &&
         tp_code_append(c, TP_I_CALL, 1, names) >= 0 &&
         tp_code_append(c, TP_I_LOAD_DEREF, fs, NULL) >= 0 && tp_code_append(c, TP_I_LOAD_ATTR, 0, m) >= 0 &&
         tp_code_append(c, TP_I_CALL, 0, NULL) >= 0 &&
         tp_code_append(c, TP_I_BUILD_LIST, 5, NULL) >= 0 && tp_code_append(c, TP_I_RETURN_VALUE, 0, NULL) >= 0;
    Py_XDECREF(names);
    Py_XDECREF(m);
    Py_XDECREF(x);
    Py_XDECREF(f);
    return ok;
}

static PyObject *built(PyObject *module, PyObject *args)
{
    PyObject *a, *b;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &a, &b))
        return NULL;
    tp_code *c = tp_code_new();
    if (c && build(c, a, b))
        return encoded(c);
    tp_code_free(c);
    return face_raise();
}

/* _twice(code, name): code that runs `code` twice, the first time for its effects only. Its locals move behind a new
 * one called `name`. For code without cells. */
static bool append_twice(tp_code *out, const tp_code *c, PyObject *name, int32_t *map)
{
    for (size_t k = 0; k < c->local_count; k++) {
        if ((int32_t)k == tp_code_arguments(c) && tp_code_add_local(out, name, TP_LOCAL_PLAIN) < 0)
            return false;
        if ((map[k] = tp_code_add_local(out, c->local[k].name, c->local[k].kind)) < 0)
            return false;
    }
    int32_t first = tp_code_append_code(out, c, map), second = first < 0 ? -1 : tp_code_append_code(out, c, map);
    for (int32_t k = first; k < second; k++)
        if (out->item[k].op == TP_I_RETURN_VALUE) {     /* what was returned stays at the bottom of the stack, unread */
            out->item[k].op = TP_I_JUMP;
            out->item[k].target = second;
        }
    return second >= 0;
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

/* ---- frames ---- */
typedef struct watcher {
    tp_capture capture;             /* first: the hook gives it back */
    PyObject  *ask;                 /* borrowed: ask(code, arguments) */
} watcher;

/* None: run it; False: run it and all below plainly; a code: run that; (x,): the result is x. */
static tp_frame_action on_frame(tp_capture *self, const tp_frame_entry *frame, PyObject **out)
{
    PyObject *arguments = PyTuple_New(frame->argument_count), *answer = NULL;
    for (int k = 0; arguments && k < frame->argument_count; k++)
        PyTuple_SET_ITEM(arguments, k, Py_NewRef(frame->argument[k]));
    if (arguments)
        answer = PyObject_CallFunctionObjArgs(((watcher *)self)->ask, (PyObject *)frame->code, arguments, NULL);
    Py_XDECREF(arguments);
    tp_frame_action action = TP_FRAME_CODE;
    if (answer == Py_None || answer == Py_False)
        action = answer == Py_None ? TP_FRAME_RUN : TP_FRAME_RUN_PLAIN;
    else if (!answer || PyTuple_Check(answer)) {
        action = TP_FRAME_RESULT;
        *out = answer && PyTuple_GET_SIZE(answer) == 1 ? Py_NewRef(PyTuple_GET_ITEM(answer, 0)) : NULL;
        if (answer && !*out)
            PyErr_SetString(PyExc_ValueError, "a result is a tuple of one");
    } else
        *out = Py_NewRef(answer);
    Py_XDECREF(answer);
    return action;
}

/* _watch(ask, callable, *args, **kwargs): calls it with `ask` asked about each frame below. */
static PyObject *watch(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    if (PyTuple_GET_SIZE(args) < 2) {
        PyErr_SetString(PyExc_TypeError, "_watch wants a function to ask and one to call");
        return NULL;
    }
    watcher w = { .capture.on_frame = on_frame, .ask = PyTuple_GET_ITEM(args, 0) };
    PyObject *rest = PyTuple_GetSlice(args, 2, PyTuple_GET_SIZE(args));
    if (!rest)
        return NULL;
    PyObject *result = NULL;
    if (tp_capture_enter(&w.capture)) {
        result = PyObject_Call(PyTuple_GET_ITEM(args, 1), rest, kwargs);
        tp_capture_leave(&w.capture);
    } else
        (void)face_raise();
    Py_DECREF(rest);
    return result;
}

static PyObject *entered(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLong(tp_capture_entered());
}

typedef struct kept_object {
    tp_code_cache cache;
    PyObject *object;               /* counted */
} kept_object;

static void release_object(tp_code_cache *self)
{
    kept_object *k = (kept_object *)self;
    Py_DECREF(k->object);
    tp_free(k);
}

/* _keep(code, object): the code object keeps it alive; _kept(code) gives it back, or None. */
static PyObject *keep(PyObject *module, PyObject *args)
{
    PyObject *o, *object;
    PyCodeObject *code;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &o, &object) || !(code = code_of(o)))
        return NULL;
    kept_object *k = tp_alloc(sizeof *k);
    if (!k)
        return face_raise();
    *k = (kept_object){ .cache.release = release_object, .object = Py_NewRef(object) };
    if (!tp_code_cache_set(code, &k->cache))
        return face_raise();
    Py_RETURN_NONE;
}

static PyObject *kept(PyObject *module, PyObject *o)
{
    (void)module;
    PyCodeObject *code = code_of(o);
    if (!code)
        return NULL;
    tp_code_cache *cache = tp_code_cache_get(code);
    if (cache && cache->release == release_object)
        return Py_NewRef(((kept_object *)cache)->object);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_decode", decode, METH_O, "the instructions of a code object as tuples" },
    { "_print", print, METH_O, "the instructions of a code object as text" },
    { "_roundtrip", roundtrip, METH_O, "a code object decoded and encoded again" },
    { "_sweep", sweep, METH_VARARGS, "a round trip in which an allocation fails" },
    { "_unmarked", unmarked, METH_O, "a code object encoded without marks of calls" },
    { "_flattened", flattened, METH_O, "a code object whose arguments are all positional" },
    { "_swap_constant", swap_constant, METH_VARARGS, "a code object with one constant for another" },
    { "_built", built, METH_VARARGS, "a code object written from nothing" },
    { "_twice", twice, METH_VARARGS, "a code object that runs another twice" },
    { "_watch", (PyCFunction)(void (*)(void))watch, METH_VARARGS | METH_KEYWORDS,
      "call with a function asked about each frame" },
    { "_entered", entered, METH_NOARGS, "how many captures are entered" },
    { "_keep", keep, METH_VARARGS, "hang an object on a code object" },
    { "_kept", kept, METH_O, "the object that hangs on a code object" },
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
              PyModule_AddObjectRef(module, "_capture", capture) == 0 && capture_compile_init(capture) &&
              capture_plan_init(capture);
    Py_XDECREF(capture);
    return ok;
}
