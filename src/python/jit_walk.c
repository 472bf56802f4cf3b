/* jit_walk.c - walking a tree of nn.Modules: the C side that a trace fills, and where each module stands in the root. */
#include "python/jit.h"

/* ---- members ---- */
/* An attribute that modules have in their own dict, counted: asking a class with __getattr__ for it takes five times as long. */
static PyObject *own_attribute(PyObject *module, PyObject *name)
{
    PyObject *own = PyObject_GenericGetDict(module, NULL), *value = own ? PyDict_GetItemWithError(own, name) : NULL;
    Py_XINCREF(value);
    Py_XDECREF(own);
    if (value)
        return value;
    PyErr_Clear();
    return PyObject_GetAttr(module, name);
}

/* A dict of the module's members, counted. */
static PyObject *members_of(PyObject *module, PyObject *name)
{
    PyObject *dict = own_attribute(module, name);
    if (!dict || PyDict_Check(dict))
        return dict;
    Py_DECREF(dict);
    return PyErr_Format(PyExc_TypeError, "%U of a module must be a dict", name);
}

typedef bool visitor(void *data, const char *name, PyObject *member);

/* Calls visit for the members that are not None; it may run the program's code, so each is held meanwhile. */
static bool each_member(PyObject *module, PyObject *dict, visitor *visit, void *data)
{
    PyObject *members = members_of(module, dict), *name, *member;
    Py_ssize_t at = 0;
    bool ok = members;
    while (ok && PyDict_Next(members, &at, &name, &member)) {
        if (member == Py_None)
            continue;
        Py_INCREF(name);
        Py_INCREF(member);
        const char *text = PyUnicode_AsUTF8(name);
        ok = text && visit(data, text, member);
        Py_DECREF(name);
        Py_DECREF(member);
    }
    Py_XDECREF(members);
    return ok;
}

/* ---- the C side of an nn.Module ---- */
typedef struct making {
    PyObject *known;            /* counted dict: module -> the C side it got */
    PyObject *names;            /* counted dict: class -> its qualified name */
    PyObject *name;             /* borrowed: gives that name */
    PyObject *taken;            /* borrowed dict: qualified name -> how many C classes have it; "": how many are mangled */
    PyObject *script;           /* borrowed: the class of modules that have a C side already */
    PyObject *parameters, *buffers, *modules, *training, *hooks, *empty;    /* counted: names of attributes; "" */
} making;

typedef struct side {
    const making *with;
    tp_jit_module *module;
    tp_jit_role role;           /* of what is visited */
} side;

static PyObject *make_side(const making *with, PyObject *module);

static bool set_slot(tp_jit_module *m, const char *name, tp_jit_role role, PyObject *value)
{
    tp_value v;
    if (!face_jit_to_value(value, &v))
        return false;
    bool ok = tp_jit_module_set(m, name, role, v);
    tp_value_unref(v);
    return ok || face_raise();
}

static bool add_tensor(void *data, const char *name, PyObject *tensor)
{
    const side *s = data;
    return set_slot(s->module, name, s->role, tensor);
}

static bool add_child(void *data, const char *name, PyObject *child)
{
    const side *s = data;
    PyObject *made = make_side(s->with, child);
    bool ok = made && set_slot(s->module, name, TP_JIT_MODULE, made);
    Py_XDECREF(made);
    return ok;
}

static bool add_training(const making *with, tp_jit_module *m, PyObject *module)
{
    PyObject *training = own_attribute(module, with->training);
    bool ok = training && set_slot(m, "training", TP_JIT_ATTRIBUTE, training);
    Py_XDECREF(training);
    return ok;
}

/* The count of a name, which grows by one; -1: an exception is set. */
static long count_up(PyObject *taken, PyObject *name)
{
    PyObject *known = PyDict_GetItemWithError(taken, name);
    long count = known ? PyLong_AsLong(known) : 0;
    PyObject *more = PyErr_Occurred() ? NULL : PyLong_FromLong(count + 1);
    bool ok = more && PyDict_SetItem(taken, name, more) == 0;
    Py_XDECREF(more);
    return ok ? count : -1;
}

/* Its class: the qualified name of the module's, with a mangled package when that is taken: classes differ by their code. */
static tp_jit_module *empty_side(const making *with, PyObject *class)
{
    PyObject *name = PyDict_GetItemWithError(with->names, class);
    if (!name && !PyErr_Occurred()) {
        PyObject *fresh = PyObject_CallOneArg(with->name, class);
        name = fresh && PyDict_SetItem(with->names, class, fresh) == 0 ? fresh : NULL;
        Py_XDECREF(fresh);      /* the dict holds it */
    }
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    long count = text ? count_up(with->taken, name) : -1, total = count > 0 ? count_up(with->taken, with->empty) : count;
    if (total < 0)
        return NULL;
    tp_text mangled = { 0 };
    const char *dot = strrchr(text, '.');
    if (count > 0 && dot) {
        static const char package[] = ".___torch_mangle_";
        char digits[21];
        tp_text_put(&mangled, text, (size_t)(dot - text));
        tp_text_put(&mangled, package, sizeof package - 1);
        tp_text_put(&mangled, digits, tp_text_digits(digits, (uint64_t)total));
        tp_text_put(&mangled, dot, strlen(dot));
    }
    tp_jit_module *m = mangled.failed ? NULL : tp_jit_module_new(mangled.length ? tp_text_read(&mangled) : text);
    tp_text_fini(&mangled);
    if (!m)
        face_raise();
    return m;
}

static PyObject *fresh_side(const making *with, PyObject *module)
{
    PyObject *hooks = own_attribute(module, with->hooks), *made = NULL;
    int hooked = hooks ? PyObject_IsTrue(hooks) : -1;
    Py_XDECREF(hooks);
    if (hooked > 0)
        PyErr_Format(PyExc_ValueError, "Modules that have backward hooks assigned can't be compiled: %S", module);
    side parameters = { with, hooked == 0 ? empty_side(with, (PyObject *)Py_TYPE(module)) : NULL, TP_JIT_PARAMETER }, buffers = parameters;
    buffers.role = TP_JIT_BUFFER;
    tp_jit_module *m = parameters.module;
    if (m && (made = face_jit_module(m)) &&
        !(PyDict_SetItem(with->known, module, made) == 0 && each_member(module, with->parameters, add_tensor, &parameters) &&
          each_member(module, with->buffers, add_tensor, &buffers) && add_training(with, m, module) &&
          each_member(module, with->modules, add_child, &parameters)))
        Py_CLEAR(made);
    tp_jit_module_unref(m);
    return made;
}

/* The C side with the members of `module`; one for each module, however often it is reached. */
static PyObject *make_side(const making *with, PyObject *module)
{
    PyObject *made = PyDict_GetItemWithError(with->known, module);
    if (made || PyErr_Occurred())
        return Py_XNewRef(made);
    int script = PyObject_IsInstance(module, with->script);
    if (script < 0 || Py_EnterRecursiveCall(" in a tree of modules"))
        return NULL;
    if (!script) {
        made = fresh_side(with, module);
    } else if ((made = PyObject_GetAttrString(module, "_c")) && (!face_jit_module_of(made) || PyDict_SetItem(with->known, module, made) < 0)) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "_c of a ScriptModule must be its C module");
        Py_CLEAR(made);
    }
    Py_LeaveRecursiveCall();
    return made;
}

/* _jit_make_module(module, qualified name of a class, names that are taken, ScriptModule) */
static PyObject *make_module(PyObject *unused, PyObject *args)
{
    making with = { 0 };
    PyObject *module, *made = NULL;
    (void)unused;
    if (PyArg_ParseTuple(args, "OOO!O", &module, &with.name, &PyDict_Type, &with.taken, &with.script) && (with.known = PyDict_New()) &&
        (with.names = PyDict_New()) && (with.parameters = PyUnicode_InternFromString("_parameters")) &&
        (with.buffers = PyUnicode_InternFromString("_buffers")) && (with.modules = PyUnicode_InternFromString("_modules")) &&
        (with.training = PyUnicode_InternFromString("training")) && (with.hooks = PyUnicode_InternFromString("_backward_hooks")) &&
        (with.empty = PyUnicode_InternFromString("")))
        made = make_side(&with, module);
    PyObject *owned[] = { with.known, with.names, with.parameters, with.buffers, with.modules, with.training, with.hooks, with.empty };
    for (size_t i = 0; i < TP_COUNT(owned); i++)
        Py_XDECREF(owned[i]);
    return made;
}

/* ---- where modules stand ---- */
typedef struct walk {
    tp_jit_trace *trace;
    PyObject *paths;            /* borrowed dict */
    PyObject *script;           /* borrowed: ScriptModule */
    PyObject *parameters, *buffers, *modules;       /* counted: names of attributes */
    tp_text path;               /* of the module that is visited */
} walk;

static bool visit_module(walk *w, PyObject *module);

/* Goes to a member of the module; gives the length to come back to. */
static size_t enter(walk *w, const char *name)
{
    size_t length = w->path.length;
    if (length)
        tp_text_put(&w->path, ".", 1);
    tp_text_put(&w->path, name, strlen(name));
    return length;
}

static void leave(walk *w, size_t length)
{
    w->path.length = length;
    w->path.at[length] = 0;
}

static bool visit_tensor(void *data, const char *name, PyObject *tensor)
{
    walk *w = data;
    size_t length = enter(w, name);
    if (w->path.failed)
        return face_raise();
    bool ok = !face_is_tensor(tensor) || tp_jit_trace_attribute(w->trace, tp_text_read(&w->path), face_tensor(tensor));
    leave(w, length);
    return ok || face_raise();
}

static bool visit_child(void *data, const char *name, PyObject *child)
{
    walk *w = data;
    size_t length = enter(w, name);
    if (w->path.failed)
        return face_raise();
    bool ok = visit_module(w, child);
    leave(w, length);
    return ok;
}

static bool visit_module(walk *w, PyObject *module)
{
    int known = PyDict_Contains(w->paths, module), script = known ? known : PyObject_IsInstance(module, w->script);
    if (known || script < 0)
        return known > 0;
    PyObject *path = PyUnicode_FromStringAndSize(tp_text_read(&w->path), (Py_ssize_t)w->path.length);
    bool closed = script && w->path.length;     /* keeps its inside to itself */
    if (path && closed)
        Py_SETREF(path, PyTuple_Pack(1, path));
    bool ok = path && PyDict_SetItem(w->paths, module, path) == 0;
    Py_XDECREF(path);
    if (!ok || closed)
        return ok;
    if (Py_EnterRecursiveCall(" in a tree of modules"))
        return false;
    ok = each_member(module, w->parameters, visit_tensor, w) && each_member(module, w->buffers, visit_tensor, w) &&
         each_member(module, w->modules, visit_child, w);
    Py_LeaveRecursiveCall();
    return ok;
}

PyObject *face_jit_walk(tp_jit_trace *t, PyObject *root, PyObject *script)
{
    walk w = { .trace = t, .script = script, .paths = PyDict_New() };
    if (!w.paths || !(w.parameters = PyUnicode_InternFromString("_parameters")) || !(w.buffers = PyUnicode_InternFromString("_buffers")) ||
        !(w.modules = PyUnicode_InternFromString("_modules")) || !visit_module(&w, root))
        Py_CLEAR(w.paths);
    Py_XDECREF(w.parameters);
    Py_XDECREF(w.buffers);
    Py_XDECREF(w.modules);
    tp_text_fini(&w.path);
    return w.paths;
}

static PyMethodDef functions[] = { { "_jit_make_module", make_module, METH_VARARGS, NULL }, { 0 } };

bool face_jit_walk_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
