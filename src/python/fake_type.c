/* fake_type.c - the bases of ShapeEnv and FakeTensorMode: symbols made for sizes, tensors without data. */
#include "python/fake_memo.h"

#include <structmember.h>

#include "base/alloc.h"
#include "grad/tape.h"
#include "trace/fake.h"

/* ---- ShapeEnv ---- */
typedef struct env_object {
    PyObject_HEAD
    tp_shape_env *env;          /* counted */
    PyObject *duck;             /* counted dict: hint -> SymInt; equal sizes share a symbol */
    PyObject *weakrefs, *dict;
} env_object;

static tp_shape_env *env_in(PyObject *o)
{
    return ((env_object *)o)->env;
}

tp_shape_env *face_env_of(PyObject *o)
{
    return env_in(o);
}

/* The environment's Python object, while it lives; face.shape_envs has address -> address, neither counted. */
PyObject *face_shape_env(tp_shape_env *env)
{
    PyObject *key = PyLong_FromVoidPtr(env), *at = key ? PyDict_GetItemWithError(face.shape_envs, key) : NULL;
    Py_XDECREF(key);
    if (at)
        return Py_NewRef((PyObject *)PyLong_AsVoidPtr(at));
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static bool note_env(env_object *o, bool there)
{
    PyObject *key = PyLong_FromVoidPtr(o->env), *at = key && there ? PyLong_FromVoidPtr(o) : NULL;
    int done = !key ? -1 : there ? (at ? PyDict_SetItem(face.shape_envs, key, at) : -1) : PyDict_DelItem(face.shape_envs, key);
    Py_XDECREF(key);
    Py_XDECREF(at);
    return done == 0;
}

/* ---- where the user's program stands: (file, line, function), or NULL ---- */
static void *capture_stack(void *context)
{
    (void)context;
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    PyObject *place = NULL;
    while (frame && !place) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if (face_is_user_frame(frame, code))
            place = Py_BuildValue("OiO", code->co_filename, PyFrame_GetLineNumber(frame), code->co_name);
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    if (PyErr_Occurred())
        PyErr_Clear();              /* no memory: a guard without its place is a guard still */
    return place;
}

static void release_stack(void *place)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)place);
    PyGILState_Release(state);
}

static void print_stack(void *place, tp_text *text)
{
    if (place)
        tp_text_add(text, "Caused by: (%s:%ld in %s)", PyUnicode_AsUTF8(PyTuple_GET_ITEM((PyObject *)place, 0)),
                    PyLong_AsLong(PyTuple_GET_ITEM((PyObject *)place, 1)), PyUnicode_AsUTF8(PyTuple_GET_ITEM((PyObject *)place, 2)));
}

static PyObject *env_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    PyObject *keep = kwargs ? PyDict_GetItemString(kwargs, "specialize_zero_one") : NULL;       /* the others are the class's */
    tp_shape_env_options options = { .keep_zero_one = keep == Py_False, .stack = { capture_stack, release_stack, print_stack, NULL } };
    tp_shape_env *env = tp_shape_env_new(NULL, &options);
    env_object *made = env ? (env_object *)type->tp_alloc(type, 0) : NULL;
    if (!made) {
        tp_shape_env_unref(env);
        return env ? NULL : face_raise();
    }
    made->env = env;
    if ((made->duck = PyDict_New()) && note_env(made, true))
        return (PyObject *)made;
    Py_DECREF(made);
    return NULL;
}

static int env_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((env_object *)self)->duck);
    Py_VISIT(((env_object *)self)->dict);
    return 0;
}

static int env_clear(PyObject *self)
{
    Py_CLEAR(((env_object *)self)->duck);
    Py_CLEAR(((env_object *)self)->dict);
    return 0;
}

static void env_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    env_object *o = (env_object *)self;
    PyObject_GC_UnTrack(self);
    if (o->weakrefs)
        PyObject_ClearWeakRefs(self);
    if (!note_env(o, false))
        PyErr_Clear();
    (void)env_clear(self);
    tp_shape_env_unref(o->env);
    type->tp_free(self);
    Py_DECREF(type);
}

/* _symbol(hint, source, low, high, duck): the number itself where it is 0 or 1. */
static PyObject *env_symbol(PyObject *self, PyObject *args)
{
    long long hint, low, high;
    const char *source;
    int duck;
    if (!PyArg_ParseTuple(args, "LzLLp", &hint, &source, &low, &high, &duck))
        return NULL;
    env_object *o = (env_object *)self;
    PyObject *key = PyLong_FromLongLong(hint), *made = duck && key ? PyDict_GetItemWithError(o->duck, key) : NULL;
    if (made) {
        Py_INCREF(made);
        if (source && face_is_sym(made) && !tp_symbol_add_source((tp_sym){ face_sym_value(made).sym }, source))
            made = face_raise_keeping(made);
    } else if (key && !PyErr_Occurred()) {
        made = face_sym(tp_shape_env_symbol(o->env, hint, source, (tp_range){ low, high }));
        if (made && duck && PyDict_SetItem(o->duck, key, made) < 0)
            Py_CLEAR(made);
    }
    Py_XDECREF(key);
    return made;
}

/* _integer(hint, source, low, high): a symbol for any number, 0 and 1 too. */
static PyObject *env_integer(PyObject *self, PyObject *args)
{
    long long hint, low, high;
    const char *source;
    if (!PyArg_ParseTuple(args, "LzLL", &hint, &source, &low, &high))
        return NULL;
    return face_sym(tp_shape_env_integer(env_in(self), hint, source, (tp_range){ low, high }));
}

static PyObject *env_refuse_guards(PyObject *self, PyObject *refused)
{
    tp_shape_env_refuse_guards(env_in(self), refused == Py_True);
    Py_RETURN_NONE;
}

/* _name_source(symbol, source): what a symbol without a source is. */
static PyObject *env_name_source(PyObject *self, PyObject *args)
{
    PyObject *symbol;
    const char *source;
    (void)self;
    if (!PyArg_ParseTuple(args, "Os", &symbol, &source))
        return NULL;
    tp_sym x = face_is_sym(symbol) ? (tp_sym){ face_sym_value(symbol).sym } : tp_sym_int(0);
    if (tp_sym_is_symbol(x) && !tp_symbol_of(x)->source && !tp_symbol_add_source(x, source))
        return face_raise();
    Py_RETURN_NONE;
}

static PyObject *env_keep_decided(PyObject *self, PyObject *kept)
{
    tp_shape_env_keep_decided(env_in(self), kept == Py_True);
    Py_RETURN_NONE;
}

/* _name_data(numbers, sizes) */
static PyObject *env_name_data(PyObject *self, PyObject *args)
{
    int numbers, sizes;
    if (!PyArg_ParseTuple(args, "pp", &numbers, &sizes))
        return NULL;
    tp_shape_env_name_data(env_in(self), numbers, sizes);
    Py_RETURN_NONE;
}

/* _set_hint(symbol, number): what an unbacked symbol turned out to be. */
static PyObject *env_set_hint(PyObject *self, PyObject *args)
{
    const char *name;
    long long hint;
    if (!PyArg_ParseTuple(args, "sL", &name, &hint))
        return NULL;
    tp_sym x = tp_shape_env_find(env_in(self), name);
    if (tp_sym_is_failed(x))
        return PyErr_Format(PyExc_KeyError, "no symbol is called %s", name);
    if (!tp_symbol_set_hint(x, hint))
        return face_raise();
    Py_RETURN_NONE;
}

static PyObject *env_unbacked(PyObject *self, PyObject *args)
{
    long long low = INT64_MIN, high = INT64_MAX;
    if (!PyArg_ParseTuple(args, "|LL", &low, &high))
        return NULL;
    return face_sym(tp_shape_env_unbacked(env_in(self), (tp_range){ low, high }));
}

static PyObject *env_unbacked_float(PyObject *self, PyObject *unused)
{
    (void)unused;
    return face_sym(tp_shape_env_unbacked_float(env_in(self)));
}

static PyObject *env_format_guards(PyObject *self, PyObject *args)
{
    int verbose = 0;
    if (!PyArg_ParseTuple(args, "|p", &verbose))
        return NULL;
    tp_text text = { 0 };
    tp_shape_env_format_guards(env_in(self), &text);
    PyObject *made = PyUnicode_FromStringAndSize(tp_text_read(&text), (Py_ssize_t)text.length);
    tp_text_fini(&text);
    return made;
}

/* The number or condition that a text over the symbols means. */
static PyObject *env_parse(PyObject *self, PyObject *text)
{
    const char *read = PyUnicode_AsUTF8(text);
    return read ? face_sym(tp_sym_parse(env_in(self), read)) : NULL;
}

/* _python_text(number or condition): as Python over the names of its symbols */
static PyObject *env_python_text(PyObject *self, PyObject *o)
{
    tp_text text = { 0 };
    (void)self;
    if (!face_is_sym(o))
        return PyObject_Repr(o);
    tp_sym_print_python(tp_sym_simplify((tp_sym){ face_sym_value(o).sym }), &text);
    PyObject *made = text.failed ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(tp_text_read(&text), (Py_ssize_t)text.length);
    tp_text_fini(&text);
    return made;
}

/* [(text, message or None, deferred, condition as SymBool or bool, (file, line, function) or None), …] */
static PyObject *env_guards(PyObject *self, void *unused)
{
    (void)unused;
    size_t count = tp_shape_env_guard_count(env_in(self));
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        const tp_sym_fact *g = tp_shape_env_guard_at(env_in(self), i);
        PyObject *item = Py_BuildValue("szNNO", g->text, g->message, PyBool_FromLong(g->deferred), face_sym(g->condition),
                                       g->stack ? (PyObject *)g->stack : Py_None);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

/* [(name, hint or None, low, high, replacement or None, [sources]), …] in order of creation */
static PyObject *env_symbols(PyObject *self, void *unused)
{
    (void)unused;
    size_t count = tp_shape_env_symbol_count(env_in(self));
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        const tp_symbol *s = tp_symbol_of(tp_shape_env_symbol_at(env_in(self), i));
        PyObject *sources = PyList_New(0);
        for (size_t k = 0; sources && k < s->source_count; k++) {
            PyObject *text = PyUnicode_FromString(s->sources[k]);
            if (!text || PyList_Append(sources, text) < 0)
                Py_CLEAR(sources);
            Py_XDECREF(text);
        }
        PyObject *hint = s->has_hint ? PyLong_FromLongLong(s->hint) : Py_NewRef(Py_None);
        PyObject *replacement = tp_sym_is_failed(s->replacement) ? Py_NewRef(Py_None) : face_sym(s->replacement);
        PyObject *item = sources && hint && replacement
                             ? Py_BuildValue("sOLLOO", s->name, hint, LL(s->range.low), LL(s->range.high), replacement, sources)
                             : NULL;
        Py_XDECREF(sources);
        Py_XDECREF(hint);
        Py_XDECREF(replacement);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *env_freeze(PyObject *self, PyObject *args)
{
    int frozen = 1;
    if (!PyArg_ParseTuple(args, "|p", &frozen))
        return NULL;
    tp_shape_env_freeze(env_in(self), frozen);
    Py_RETURN_NONE;
}

static PyMethodDef env_methods[] = {
    { "_symbol", env_symbol, METH_VARARGS, NULL },
    { "_integer", env_integer, METH_VARARGS, NULL },
    { "_refuse_guards", env_refuse_guards, METH_O, NULL },
    { "_name_source", env_name_source, METH_VARARGS, NULL },
    { "_keep_decided", env_keep_decided, METH_O, NULL },
    { "_name_data", env_name_data, METH_VARARGS, NULL },
    { "_set_hint", env_set_hint, METH_VARARGS, NULL },
    { "_unbacked", env_unbacked, METH_VARARGS, NULL },
    { "format_guards", env_format_guards, METH_VARARGS, NULL },
    { "_freeze", env_freeze, METH_VARARGS, NULL },
    { "_parse", env_parse, METH_O, NULL },
    { "_python_text", env_python_text, METH_O, NULL },
    { "_unbacked_float", env_unbacked_float, METH_NOARGS, NULL },
    { 0 },
};
/* [name, …] of the unbacked symbols that are sizes */
static PyObject *env_size_like(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < tp_shape_env_symbol_count(env_in(self)); i++) {
        const tp_symbol *s = tp_symbol_of(tp_shape_env_symbol_at(env_in(self), i));
        PyObject *name = s->size_like ? PyUnicode_FromString(s->name) : NULL;
        if (s->size_like && (!name || PyList_Append(list, name) < 0))
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyGetSetDef env_attributes[] = {
    { "_size_like", env_size_like, NULL, NULL, NULL },
    { "_guards", env_guards, NULL, NULL, NULL },
    { "_symbols", env_symbols, NULL, NULL, NULL },
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { 0 },
};
static PyMemberDef env_members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(env_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(env_object, weakrefs), READONLY, NULL },
    { 0 },
};
static PyType_Slot env_slots[] = {
    { Py_tp_new, env_new },         { Py_tp_dealloc, env_dealloc }, { Py_tp_traverse, env_traverse }, { Py_tp_clear, env_clear },
    { Py_tp_methods, env_methods }, { Py_tp_getset, env_attributes }, { Py_tp_members, env_members },  { 0, NULL },
};
static PyType_Spec env_spec = { "_ShapeEnvBase", sizeof(env_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                env_slots };

/* ---- FakeTensorMode ---- */
typedef struct mode_object {
    PyObject_HEAD
    tp_fake_mode settings;      /* copied at each entry */
    tp_fake_mode *entered;      /* owned, innermost first; linked by `outer` only as long as the thread's stack is */
    int depth;
    fake_memo memo;
    PyObject *weakrefs, *dict;
} mode_object;

enum { MOST_ENTRIES = 64 };

/* Tensors keep the mode they were made in, and may be let go by any thread. */
static void keep_mode(tp_fake_mode *settings)
{
    Py_INCREF((PyObject *)((char *)settings - offsetof(mode_object, settings)));
}

static void drop_mode(void *settings)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)((char *)settings - offsetof(mode_object, settings)));
    PyGILState_Release(state);
}

PyObject *face_fake_mode(const tp_tensor *t)
{
    const tp_fake_mode *m = tp_fake_mode_of(t), *entered = tp_self.fake;
    if (!m && entered && tp_is_fake(t))         /* a literal keeps its numbers, not its mode */
        m = entered->lasting;
    return m && m->drop == drop_mode ? (PyObject *)((char *)m - offsetof(mode_object, settings)) : NULL;
}

static PyObject *mode_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    mode_object *m = (mode_object *)type->tp_alloc(type, 0);
    if (m) {
        m->settings.lasting = &m->settings;
        m->settings.keep = keep_mode;
        m->settings.drop = drop_mode;
    }
    return (PyObject *)m;
}

static int mode_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((mode_object *)self)->dict);
    return 0;
}

static int mode_clear(PyObject *self)
{
    Py_CLEAR(((mode_object *)self)->dict);
    return 0;
}

static void mode_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mode_object *m = (mode_object *)self;
    PyObject_GC_UnTrack(self);
    if (m->weakrefs)
        PyObject_ClearWeakRefs(self);
    (void)mode_clear(self);
    fake_memo_fini(&m->memo);
    tp_shape_env_unref(m->settings.env);
    tp_free(m->entered);
    type->tp_free(self);
    Py_DECREF(type);
}

/* _set(shape_env or None, allow_non_fake_inputs, allow_fallback_kernels) */
static PyObject *mode_set(PyObject *self, PyObject *args)
{
    mode_object *m = (mode_object *)self;
    PyObject *env;
    int allow_real, allow_fallback;
    if (!PyArg_ParseTuple(args, "Opp", &env, &allow_real, &allow_fallback))
        return NULL;
    if (env != Py_None && !PyObject_TypeCheck(env, face.shape_env))
        return PyErr_Format(PyExc_TypeError, "shape_env must be a ShapeEnv, not %s", Py_TYPE(env)->tp_name);
    tp_shape_env_unref(m->settings.env);
    m->settings.env = env == Py_None ? NULL : tp_shape_env_ref(env_in(env));
    m->settings.allow_real = allow_real;
    m->settings.allow_fallback = allow_fallback;
    Py_RETURN_NONE;
}

static PyObject *mode_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    mode_object *m = (mode_object *)self;
    if (!m->entered && !(m->entered = tp_alloc_array(MOST_ENTRIES, sizeof *m->entered)))
        return face_raise();
    if (m->depth == MOST_ENTRIES)
        return PyErr_Format(PyExc_RecursionError, "this FakeTensorMode was entered %d times", MOST_ENTRIES);
    m->entered[m->depth] = m->settings;
    Py_INCREF(self);                        /* the thread's stack points into it */
    tp_fake_enter(&m->entered[m->depth++]);
    return Py_NewRef(self);
}

static PyObject *mode_exit(PyObject *self, PyObject *args)
{
    (void)args;
    mode_object *m = (mode_object *)self;
    if (!m->depth || tp_self.fake != &m->entered[m->depth - 1])
        return PyErr_Format(PyExc_RuntimeError, "this FakeTensorMode is not the innermost one that was entered");
    tp_fake_leave(&m->entered[--m->depth]);
    bool ok = m->depth || fake_memo_let_go(&m->memo);
    Py_DECREF(self);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static bool read_sizes(PyObject *sizes, int ndim, tp_sym *out)
{
    if (!PyTuple_Check(sizes) || PyTuple_GET_SIZE(sizes) != ndim)
        return PyErr_Format(PyExc_TypeError, "one size for each dimension is needed");
    for (int i = 0; i < ndim; i++) {
        PyObject *item = PyTuple_GET_ITEM(sizes, i);
        int64_t plain;
        if (Py_IS_TYPE(item, face.sym_int))
            out[i] = (tp_sym){ face_sym_value(item).sym };
        else if (face_read_int(item, &plain))
            out[i] = tp_sym_int(plain);
        else
            return false;
    }
    return true;
}

static PyObject *fake_of(mode_object *m, PyObject *real, const tp_sym *size)
{
    const tp_tensor *t = face_tensor(real);
    PyObject *alias = fake_memo_beside(&m->memo, real);
    void *outside = tp_self.fake;
    tp_self.fake = &m->settings;
    tp_tensor *made = size ? tp_fake_symbolic(t, m->settings.env, size) : tp_fake_of(t);
    if (made && alias) {
        tp_tensor *beside = tp_fake_beside(made, face_tensor(alias));
        tp_tensor_unref(made);
        made = beside;
    }
    tp_self.fake = outside;
    return face_wrap_or_raise(made);
}

/* _fake(tensor, sizes or None): a fresh fake, in the storage of the fakes of those that share the tensor's. */
static PyObject *mode_fake(PyObject *self, PyObject *args)
{
    PyObject *real, *sizes;
    tp_sym size[TP_MAX_DIMS];
    if (!PyArg_ParseTuple(args, "O!O", face.tensor_base, &real, &sizes) || (sizes != Py_None && !read_sizes(sizes, face_tensor(real)->ndim, size)))
        return NULL;
    return fake_of((mode_object *)self, real, sizes == Py_None ? NULL : size);
}

/* _keep(tensor, fake): that is its fake from now on. */
static PyObject *mode_keep(PyObject *self, PyObject *args)
{
    PyObject *real, *fake;
    if (!PyArg_ParseTuple(args, "O!O!", face.tensor_base, &real, face.tensor_base, &fake) || !fake_memo_put(&((mode_object *)self)->memo, real, fake, false))
        return NULL;
    Py_RETURN_NONE;
}

/* The tensor's fake, if there is one, or if making one takes no more than its sizes: of a plain tensor without history, when
 * sizes are fixed; such a one may be held until the mode is left. NULL without an error: neither. */
static PyObject *known_of(mode_object *m, PyObject *real, bool fixed, bool held)
{
    const tp_tensor *t = face_tensor(real);
    if (tp_is_fake(t) && face_fake_mode(t) == (PyObject *)m)
        return Py_NewRef(real);
    PyObject *fake = Py_XNewRef(fake_memo_get(&m->memo, real));
    if (fake || !fixed || Py_TYPE(real) != face.tensor || tp_requires_grad(t))
        return fake;
    fake = fake_of(m, real, NULL);
    if (fake && !fake_memo_put(&m->memo, real, fake, held))
        Py_CLEAR(fake);
    return fake;
}

/* _known(tensor, static): its fake where known_of has one, else None. */
static PyObject *mode_known(PyObject *self, PyObject *args)
{
    PyObject *real;
    int fixed;
    if (!PyArg_ParseTuple(args, "O!p", face.tensor_base, &real, &fixed))
        return NULL;
    PyObject *fake = known_of((mode_object *)self, real, fixed, false);
    return fake || PyErr_Occurred() ? fake : Py_NewRef(Py_None);
}

/* _fakes(leaves): the list with each tensor's fake of fixed sizes in its place, for who enters the mode next and leaves it again. */
static PyObject *mode_fakes(PyObject *self, PyObject *leaves)
{
    mode_object *m = (mode_object *)self;
    if (!PyList_Check(leaves))
        return PyErr_Format(PyExc_TypeError, "a list is needed");
    if (!fake_memo_reserve(&m->memo, (size_t)PyList_GET_SIZE(leaves)))
        return NULL;
    PyObject *made = PyList_New(0);
    for (Py_ssize_t i = 0; made && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = Py_NewRef(PyList_GET_ITEM(leaves, i)), *fake = leaf;
        if (face_is_tensor(leaf)) {
            fake = known_of(m, leaf, true, true);
            if (!fake && !PyErr_Occurred())
                fake = PyObject_CallMethod(self, "from_tensor", "O", leaf);
            Py_DECREF(leaf);
        }
        if (!fake || PyList_Append(made, fake) < 0)
            Py_CLEAR(made);
        Py_XDECREF(fake);
    }
    if (!made)
        (void)fake_memo_let_go(&m->memo);
    return made;
}

static PyMethodDef mode_methods[] = {
    { "_set", mode_set, METH_VARARGS, NULL },
    { "_fake", mode_fake, METH_VARARGS, NULL },
    { "_keep", mode_keep, METH_VARARGS, NULL },
    { "_known", mode_known, METH_VARARGS, NULL },
    { "_fakes", mode_fakes, METH_O, NULL },
    { "__enter__", mode_enter, METH_NOARGS, NULL },
    { "__exit__", mode_exit, METH_VARARGS, NULL },
    { 0 },
};
static PyGetSetDef mode_attributes[] = {
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { 0 },
};
static PyMemberDef mode_members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(mode_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(mode_object, weakrefs), READONLY, NULL },
    { 0 },
};
static PyType_Slot mode_slots[] = {
    { Py_tp_new, mode_new },         { Py_tp_dealloc, mode_dealloc },   { Py_tp_traverse, mode_traverse }, { Py_tp_clear, mode_clear },
    { Py_tp_methods, mode_methods }, { Py_tp_getset, mode_attributes }, { Py_tp_members, mode_members },   { 0, NULL },
};
static PyType_Spec mode_spec = { "_FakeModeBase", sizeof(mode_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, mode_slots };

static PyObject *is_fake(PyObject *module, PyObject *o)
{
    (void)module;
    return PyBool_FromLong(face_is_tensor(o) && tp_is_fake(face_tensor(o)));
}

static const char left[] = "fake modes left";

/* (innermost mode or None, what _enter_fake_again wants): no mode is on until then. */
static PyObject *leave_fake(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    tp_fake_mode *m = tp_self.fake;
    if (!m)
        return Py_BuildValue("OO", Py_None, Py_None);
    PyObject *stack = PyCapsule_New(m, left, NULL);
    if (!stack)
        return NULL;
    PyObject *mode = m->drop == drop_mode ? (PyObject *)((char *)m->lasting - offsetof(mode_object, settings)) : Py_None;
    tp_self.fake = NULL;
    tp_self.active &= ~TP_LAYER_BIT(TP_LAYER_FAKE);
    return Py_BuildValue("ON", mode, stack);
}

static PyObject *enter_fake_again(PyObject *module, PyObject *stack)
{
    (void)module;
    if (stack == Py_None)
        Py_RETURN_NONE;
    tp_fake_mode *m = PyCapsule_GetPointer(stack, left);
    if (!m)
        return NULL;
    if (tp_self.fake || PyCapsule_SetName(stack, "used") < 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "a fake mode entered meanwhile is still on");
    tp_self.fake = m;
    tp_self.active |= TP_LAYER_BIT(TP_LAYER_FAKE);
    Py_RETURN_NONE;
}

/* Of the call that is being made on fake tensors; None: their sizes are integers, or there is no such call. */
static PyObject *current_shape_env(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return tp_self.shape_env ? face_shape_env(tp_self.shape_env) : Py_NewRef(Py_None);
}

static PyMethodDef fake_functions[] = {
    { "_current_shape_env", current_shape_env, METH_NOARGS, NULL },
    { "_is_fake", is_fake, METH_O, NULL },
    { "_leave_fake", leave_fake, METH_NOARGS, NULL },
    { "_enter_fake_again", enter_fake_again, METH_O, NULL },
    { 0 },
};

bool face_fake_init(PyObject *module)
{
    return (face.shape_envs = PyDict_New()) && (face.shape_env = face_make_type(module, &env_spec, NULL)) &&
           face_make_type(module, &mode_spec, NULL) && PyModule_AddFunctions(module, fake_functions) == 0;
}
