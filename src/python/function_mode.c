/* function_mode.c - __torch_function__: Python sees calls before their arguments are parsed.
 *
 * Modes are asked first, innermost first, each with itself off the stack; then the arguments whose class overrides
 * functions, subclasses before their bases. The first answer that is not NotImplemented is the result. */
#include <string.h>

#include "python/face.h"

/* ---- modes of this thread ---- */
face_modes *face_modes_for_writing(void)
{
    if (!tp_self.modes && !(tp_self.modes = PyMem_Calloc(1, sizeof(face_modes))))
        PyErr_NoMemory();
    return tp_self.modes;
}

/* Back to NULL when nothing is left, so that the quick paths see one word. */
void face_modes_tidy(void)
{
    face_modes *m = tp_self.modes;
    if (!m || m->function_off || (m->function && PyList_GET_SIZE(m->function)) || (m->dispatch && PyList_GET_SIZE(m->dispatch)))
        return;
    Py_CLEAR(m->function);
    Py_CLEAR(m->dispatch);
    PyMem_Free(m);
    tp_self.modes = NULL;
}

static PyObject *push_mode(PyObject *self, PyObject *mode)
{
    (void)self;
    face_modes *m = face_modes_for_writing();
    if (!m || (!m->function && !(m->function = PyList_New(0))) || PyList_Append(m->function, mode) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *take_last(PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    PyObject *last = Py_NewRef(PyList_GET_ITEM(list, n - 1));
    if (PyList_SetSlice(list, n - 1, n, NULL) < 0)
        Py_CLEAR(last);
    return last;
}

static PyObject *pop_mode(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    face_modes *m = tp_self.modes;
    if (!m || !m->function || !PyList_GET_SIZE(m->function))
        return PyErr_Format(PyExc_RuntimeError, "the stack of function modes is empty");
    PyObject *mode = take_last(m->function);
    face_modes_tidy();
    return mode;
}

static PyObject *mode_count(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    face_modes *m = tp_self.modes;
    return PyLong_FromSsize_t(m && m->function ? PyList_GET_SIZE(m->function) : 0);
}

static PyObject *mode_at(PyObject *self, PyObject *index)
{
    (void)self;
    face_modes *m = tp_self.modes;
    Py_ssize_t i = PyLong_AsSsize_t(index);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    if (!m || !m->function || i < 0 || i >= PyList_GET_SIZE(m->function))
        return PyErr_Format(PyExc_IndexError, "no function mode at %zd", i);
    return Py_NewRef(PyList_GET_ITEM(m->function, i));
}

/* ---- classes ---- */
static bool update_subclasses(PyTypeObject *type)
{
    PyObject *list = PyObject_CallMethod((PyObject *)type, "__subclasses__", NULL);
    bool ok = list != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(list); i++)
        ok = face_class_update((PyTypeObject *)PyList_GET_ITEM(list, i));
    Py_XDECREF(list);
    return ok;
}

bool face_class_update(PyTypeObject *type)
{
    uint32_t overrides = 0;
    if (face.tensor && type != face.tensor) {
        PyObject *function = _PyType_Lookup(type, face.name_function);
        PyObject *dispatch = _PyType_Lookup(type, face.name_dispatch);
        if (dispatch && dispatch != face.dispatch_disabled && dispatch != Py_None)
            overrides |= OVERRIDES_DISPATCH;
        if ((overrides & OVERRIDES_DISPATCH) && function == _PyType_Lookup(face.tensor, face.name_function)) {
            function = face.function_disabled;      /* a class that sees ops makes its results itself: none are converted afterwards */
            if (PyType_Type.tp_setattro((PyObject *)type, face.name_function, function) < 0)
                return false;
        }
        if (function && function != face.function_disabled)
            overrides |= OVERRIDES_FUNCTION;
    }
    ((tensor_class *)type)->overrides = overrides;
    return update_subclasses(type);
}

/* Things that are common arguments never override; others are asked for the attribute of their class. */
bool face_has_function(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    if (face_is_tensor(o))
        return face_overrides(o) & OVERRIDES_FUNCTION;
    if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
        type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type || o == Py_None || type == &PySlice_Type ||
        PyType_Check(o))
        return false;
    PyObject *function = _PyType_Lookup(type, face.name_function);
    return function && function != face.function_disabled;
}

/* ---- asking ---- */
PyObject *face_args_tuple(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count + (self != NULL));
    if (!tuple)
        return NULL;
    if (self)
        PyTuple_SET_ITEM(tuple, 0, Py_NewRef(self));
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SET_ITEM(tuple, i + (self != NULL), Py_NewRef(args[i]));
    return tuple;
}

PyObject *face_keywords_dict(PyObject *const *values, PyObject *kwnames)
{
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(kwnames, i), values[i]) < 0)
            Py_CLEAR(dict);
    return dict;
}

static PyObject *ask(PyObject *whom, PyObject *callable, PyObject *types, PyObject *args, PyObject *kwargs)
{
    PyObject *function = PyObject_GetAttr(whom, face.name_function);
    if (!function)
        return NULL;
    PyObject *result = PyObject_CallFunctionObjArgs(function, callable, types, args, kwargs, NULL);
    Py_DECREF(function);
    return result;
}

/* The innermost mode answers with itself off the stack. */
static PyObject *ask_mode(PyObject *callable, PyObject *types, PyObject *args, PyObject *kwargs)
{
    face_modes *m = tp_self.modes;
    PyObject *stack = Py_NewRef(m->function), *mode = take_last(stack), *result = NULL;
    if (mode) {
        PyObject *type, *value, *traceback;
        result = ask(mode, callable, types, args, kwargs);
        PyErr_Fetch(&type, &value, &traceback);
        m = face_modes_for_writing();
        if (m && !m->function)
            m->function = Py_NewRef(stack);
        if (!m || PyList_Append(m->function, mode) < 0)
            Py_CLEAR(result);
        else
            PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(mode);
    Py_DECREF(stack);
    return result;
}

static PyObject *types_of(PyObject *const *overloaded, int count)
{
    PyObject *types = PyTuple_New(count);
    for (int i = 0; types && i < count; i++)
        PyTuple_SET_ITEM(types, i, Py_NewRef((PyObject *)Py_TYPE(overloaded[i])));
    return types;
}

static PyObject *attribute_text(PyObject *o, const char *name)         /* NULL: it has none; no exception */
{
    PyObject *text = PyObject_GetAttrString(o, name);
    if (!text || !PyUnicode_Check(text))
        Py_CLEAR(text);
    PyErr_Clear();
    return text;
}

/* torch.sin, torch.Tensor.add, torch.Tensor.shape.__get__, torch.linalg.linalg_inv: what errors call a function of ours. */
static PyObject *public_name(PyObject *callable)
{
    PyObject *name = attribute_text(callable, "__name__"), *module = attribute_text(callable, "__module__"), *out = NULL;
    PyObject *self = PyObject_GetAttrString(callable, "__self__"), *owner = self ? attribute_text(self, "__name__") : NULL;
    PyErr_Clear();
    bool accessor = name && (PyUnicode_CompareWithASCIIString(name, "__get__") == 0 || PyUnicode_CompareWithASCIIString(name, "__set__") == 0);
    const char *place = module ? PyUnicode_AsUTF8(module) : NULL, *inside = place ? strstr(place, "._C._") : NULL;
    if (!name)
        out = PyObject_Str(callable);
    else if (accessor && owner)
        out = PyUnicode_FromFormat("%s.Tensor.%U.%U", face.package, owner, name);
    else if (PyObject_HasAttrString(callable, "__objclass__"))
        out = PyUnicode_FromFormat("%s.Tensor.%U", face.package, name);
    else if (inside)
        out = PyUnicode_FromFormat("%s.%s.%U", face.package, inside + 5, name);
    else
        out = PyUnicode_FromFormat("%s.%U", PyCFunction_Check(callable) || !place ? face.package : place, name);
    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(self);
    Py_XDECREF(owner);
    return out;
}

/* Functions written in Python say it shorter. */
static PyObject *nobody_error(PyObject *callable, PyObject *types, PyObject *mode, bool python)
{
    PyObject *list = PySequence_List(types), *name = public_name(callable);
    PyObject *who = mode ? PyUnicode_FromFormat("  - mode object %R\n", mode) : PyUnicode_FromString("");
    for (Py_ssize_t i = 0; who && i < PyTuple_GET_SIZE(types); i++)
        PyUnicode_AppendAndDel(&who, PyUnicode_FromFormat("  - tensor subclass %R\n", PyTuple_GET_ITEM(types, i)));
    if (list && name && python)
        PyErr_Format(PyExc_TypeError, "no implementation found for '%U' on types that implement __torch_function__: %R", name, list);
    else if (list && name && who)
        PyErr_Format(PyExc_TypeError, "Multiple dispatch failed for '%U'; all __torch_function__ handlers returned NotImplemented:\n\n%U\n"
                     "For more information, try re-running with TORCH_LOGS=not_implemented", name, who);
    Py_XDECREF(list);
    Py_XDECREF(name);
    Py_XDECREF(who);
    return NULL;
}

static PyObject *call_override(PyObject *callable, PyObject *const *overloaded, int count, PyObject *args, PyObject *kwargs, bool python)
{
    PyObject *types = types_of(overloaded, count), *result = NULL;
    if (!types)
        return NULL;
    PyObject *mode = NULL;
    bool answered = false;
    if (face_function_mode_active()) {
        PyObject *stack = ((face_modes *)tp_self.modes)->function;
        mode = Py_NewRef(PyList_GET_ITEM(stack, PyList_GET_SIZE(stack) - 1));
        result = ask_mode(callable, types, args, kwargs);
        answered = result != Py_NotImplemented;
    }
    for (int i = 0; !answered && i < count; i++) {
        Py_XDECREF(result);
        result = ask(overloaded[i], callable, types, args, kwargs);
        answered = result != Py_NotImplemented;
    }
    if (!answered) {
        Py_XDECREF(result);
        result = nobody_error(callable, types, mode, python);
    }
    Py_XDECREF(mode);
    Py_DECREF(types);
    return result;
}

PyObject *face_call_override(PyObject *callable, PyObject *const *overloaded, int count, PyObject *args, PyObject *kwargs)
{
    return call_override(callable, overloaded, count, args, kwargs, false);
}

PyObject *face_override_method(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *callable = PyObject_GetAttrString((PyObject *)face.tensor_base, name);
    PyObject *tuple = callable ? face_args_tuple(self, args, count) : NULL, *keywords = NULL, *result = NULL;
    if (tuple && (!kwnames || !PyTuple_GET_SIZE(kwnames) || (keywords = face_keywords_dict(args + count, kwnames)))) {
        call_frame f;               /* only for its list of those who override */
        f.overloaded_count = 0;
        face_note_overloaded(&f, self);
        for (Py_ssize_t i = 0; i < count; i++) {
            bool nested = PyTuple_Check(args[i]);       /* an index */
            Py_ssize_t items = nested ? PyTuple_GET_SIZE(args[i]) : 1;
            for (Py_ssize_t k = 0; k < items; k++)
                face_note_overloaded(&f, nested ? PyTuple_GET_ITEM(args[i], k) : args[i]);
        }
        result = face_call_override(callable, f.overloaded, f.overloaded_count, tuple, keywords);
    }
    Py_XDECREF(callable);
    Py_XDECREF(tuple);
    Py_XDECREF(keywords);
    return result;
}

PyObject *face_override_attribute(PyObject *self, const char *name, PyObject *value)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)face.tensor_base, name), *result = NULL;
    PyObject *callable = descriptor ? PyObject_GetAttrString(descriptor, value ? "__set__" : "__get__") : NULL;
    PyObject *args = callable ? (value ? PyTuple_Pack(2, self, value) : PyTuple_Pack(1, self)) : NULL;
    if (args)
        result = face_call_override(callable, &self, (face_overrides(self) & OVERRIDES_FUNCTION) != 0, args, NULL);
    Py_XDECREF(descriptor);
    Py_XDECREF(callable);
    Py_XDECREF(args);
    return result;
}

/* ---- what Python code uses ---- */
static PyObject *set_function_state(PyObject *self, PyObject *state)
{
    (void)self;
    long off = PyLong_AsLong(state);
    face_modes *m = face_modes_for_writing();
    if (!m || (off == -1 && PyErr_Occurred()))
        return NULL;
    int before = m->function_off;
    m->function_off = (int)off;
    face_modes_tidy();
    return PyLong_FromLong(before);
}

static PyObject *is_function_enabled(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyBool_FromLong(face_function_subclass_on());
}

static PyObject *has_function(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *items = face_items(args, "expected a sequence of arguments");
    if (!items)
        return NULL;
    bool found = face_function_mode_active();
    for (Py_ssize_t i = 0; !found && face_function_subclass_on() && i < PySequence_Fast_GET_SIZE(items); i++)
        found = face_has_function(PySequence_Fast_ITEMS(items)[i]);
    Py_DECREF(items);
    return PyBool_FromLong(found);
}

static PyObject *has_function_unary(PyObject *self, PyObject *o)
{
    (void)self;
    return PyBool_FromLong(face_function_mode_active() || (face_function_subclass_on() && face_has_function(o)));
}

static PyObject *has_function_variadic(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    bool found = face_function_mode_active();
    for (Py_ssize_t i = 0; !found && face_function_subclass_on() && i < count; i++)
        found = face_has_function(args[i]);
    return PyBool_FromLong(found);
}

/* handle_torch_function(public_api, relevant_args, *args, **kwargs) */
static PyObject *handle_function(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    if (PyTuple_GET_SIZE(args) < 2)
        return PyErr_Format(PyExc_TypeError, "handle_torch_function() needs a function and its relevant arguments");
    PyObject *relevant = face_items(PyTuple_GET_ITEM(args, 1), "relevant_args must be a sequence");
    PyObject *rest = relevant ? PyTuple_GetSlice(args, 2, PyTuple_GET_SIZE(args)) : NULL, *result = NULL;
    PyObject *keywords = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    if (rest && keywords) {
        call_frame f;
        face_frame_init(&f);
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(relevant); i++)
            if (face_has_function(PySequence_Fast_ITEMS(relevant)[i]))
                face_note_overloaded(&f, PySequence_Fast_ITEMS(relevant)[i]);
        result = call_override(PyTuple_GET_ITEM(args, 0), f.overloaded, f.overloaded_count, rest, keywords, PyFunction_Check(PyTuple_GET_ITEM(args, 0)));
    }
    Py_XDECREF(relevant);
    Py_XDECREF(rest);
    Py_XDECREF(keywords);
    return result;
}

/* Runs a function with overriding by subclasses off. */
static PyObject *call_disabled(PyObject *callable, PyObject *args, PyObject *kwargs)
{
    face_modes *m = face_modes_for_writing();
    if (!m)
        return NULL;
    int before = m->function_off;
    m->function_off = before > 1 ? before : 1;
    PyObject *result = PyObject_Call(callable, args, kwargs);
    m = face_modes_for_writing();
    if (m)
        m->function_off = before;
    face_modes_tidy();
    return result;
}

static bool are_keywords(PyObject *kwargs)
{
    bool ok = !kwargs || kwargs == Py_None || PyDict_Check(kwargs);
    if (!ok)
        PyErr_Format(PyExc_TypeError, "keyword arguments are a dict, not %s", Py_TYPE(kwargs)->tp_name);
    return ok;
}

static PyObject *disabled_function(PyObject *self, PyObject *args)
{
    PyObject *callable, *types, *given = face.empty_tuple, *kwargs = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO|O!O", &callable, &types, &PyTuple_Type, &given, &kwargs) || !are_keywords(kwargs))
        return NULL;
    return call_disabled(callable, given, kwargs == Py_None ? NULL : kwargs);
}

static PyObject *disabled_dispatch(PyObject *self, PyObject *args)
{
    return disabled_function(self, args);
}

/* ---- Tensor.__torch_function__: results of plain subclasses keep the subclass ---- */
static PyObject *convert_to(PyObject *taken, PyTypeObject *cls)
{
    if (!taken)
        return NULL;
    if (face_is_tensor(taken)) {
        if (PyObject_TypeCheck(taken, cls))
            return taken;
        PyObject *made = PyObject_CallMethod(taken, "as_subclass", "O", cls);
        Py_DECREF(taken);
        return made;
    }
    if (!PyTuple_Check(taken) && !PyList_Check(taken))
        return taken;
    PyObject *list = PySequence_List(taken), *made = NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *item = convert_to(Py_NewRef(PyList_GET_ITEM(list, i)), cls);
        if (!item || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    if (list)
        made = PyList_CheckExact(taken) ? Py_NewRef(list) : PyObject_CallOneArg((PyObject *)Py_TYPE(taken), list);
    Py_XDECREF(list);
    Py_DECREF(taken);
    return made;
}

/* Getters of gradient and base give the tensors that are there. */
static bool keeps_class(PyObject *callable)
{
    PyObject *descriptor = PyObject_GetAttrString(callable, "__self__");
    bool keeps = false;
    if (descriptor && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
        PyObject *name = PyDescr_NAME(descriptor);
        keeps = PyUnicode_CompareWithASCIIString(name, "grad") == 0 || PyUnicode_CompareWithASCIIString(name, "_base") == 0 ||
                PyUnicode_CompareWithASCIIString(name, "_grad") == 0;
    }
    Py_XDECREF(descriptor);
    PyErr_Clear();
    return keeps;
}

static PyObject *default_function(PyObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "func", "types", "args", "kwargs", NULL };
    PyObject *callable, *types, *given = face.empty_tuple, *keywords = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O!O", names, &callable, &types, &PyTuple_Type, &given, &keywords) ||
        !are_keywords(keywords))
        return NULL;
    PyObject *all = face_items(types, "types must be a sequence");
    if (!all)
        return NULL;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all); i++) {
        int is = PyObject_IsSubclass(cls, PySequence_Fast_ITEMS(all)[i]);
        if (is <= 0) {
            Py_DECREF(all);
            return is < 0 ? NULL : Py_NewRef(Py_NotImplemented);
        }
    }
    Py_DECREF(all);
    PyObject *result = call_disabled(callable, given, keywords == Py_None ? NULL : keywords);
    return result && cls != (PyObject *)face.tensor && !keeps_class(callable) ? convert_to(result, (PyTypeObject *)cls) : result;
}

#define KEYWORDS(f) ((PyCFunction)(void (*)(void))(f))
static PyMethodDef class_function = { "__torch_function__", KEYWORDS(default_function), METH_VARARGS | METH_KEYWORDS | METH_CLASS, NULL };

static PyMethodDef functions[] = {
    { "_push_on_torch_function_stack", push_mode, METH_O, NULL },
    { "_pop_torch_function_stack", pop_mode, METH_NOARGS, NULL },
    { "_len_torch_function_stack", mode_count, METH_NOARGS, NULL },
    { "_get_function_stack_at", mode_at, METH_O, NULL },
    { "_set_torch_function_state", set_function_state, METH_O, NULL },
    { "_is_torch_function_enabled", is_function_enabled, METH_NOARGS, NULL },
    { "_has_torch_function", has_function, METH_O, NULL },
    { "_has_torch_function_unary", has_function_unary, METH_O, NULL },
    { "_has_torch_function_variadic", KEYWORDS(has_function_variadic), METH_FASTCALL, NULL },
    { "_handle_torch_function", KEYWORDS(handle_function), METH_VARARGS | METH_KEYWORDS, NULL },
    { "_disabled_torch_function_impl", disabled_function, METH_VARARGS, NULL },
    { "_disabled_torch_dispatch_impl", disabled_dispatch, METH_VARARGS, NULL },
    { 0 },
};

bool face_functions_init(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions) < 0)
        return false;
    face.function_disabled = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
    face.dispatch_disabled = PyObject_GetAttrString(module, "_disabled_torch_dispatch_impl");
    PyObject *method = PyDescr_NewClassMethod(face.tensor_base, &class_function);
    bool ok = method && face.function_disabled && face.dispatch_disabled &&
              PyDict_SetItem(face.tensor_base->tp_dict, face.name_function, method) == 0 &&
              PyObject_SetAttr((PyObject *)face.tensor, face.name_dispatch, face.dispatch_disabled) == 0;
    Py_XDECREF(method);
    PyType_Modified(face.tensor_base);
    return ok;
}
