/* methods.c - methods of C classes: those of lists, dicts and strings, on the shadow where the object is from outside, and what is
 * called by the class, dict.__setitem__(d, k, v). Which ones there are, and what they do, says pure.c. */
#include <string.h>

#include "python/capture/capture.h"

static PyObject *argument(PyObject *args, Py_ssize_t i)
{
    return i < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, i) : NULL;
}

/* Methods whose first argument is looked up: hashed, or compared. */
static bool looks_up(PyObject *self, const char *name)
{
    static const char *const keyed[] = { "get", "pop", "setdefault", "add", "discard", "remove", "index", "count", "__contains__", "__getitem__",
                                         "__setitem__", "__delitem__" };
    for (size_t i = 0; i < TP_COUNT(keyed); i++)
        if (!strcmp(name, keyed[i]))
            return !PyUnicode_Check(self) && !PyBytes_Check(self);
    return false;
}

static bool is_comparison(const char *name)
{
    static const char *const known[] = { "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "index", "count", "remove" };
    for (size_t i = 0; i < TP_COUNT(known); i++)
        if (!strcmp(name, known[i]))
            return true;
    return false;
}

/* What C code does with arguments and contents of `self` before it changes or tells anything. */
static bool may_run(capture *c, PyObject *self, PyObject *shadow, const char *name, PyObject *args, PyObject *kwargs)
{
    PyObject *first = argument(args, 0);
    bool text = PyUnicode_Check(self) || PyBytes_Check(self) || PyLong_Check(self) || PyFloat_Check(self);
    bool sorts = !strcmp(name, "sort") && !(kwargs && PyDict_GetItemString(kwargs, "key")), shows = !strcmp(name, "__repr__") || !strcmp(name, "__str__");
    bool sequence = PyList_Check(self) || PyTuple_Check(self) || !strcmp(Py_TYPE(self)->tp_name, "collections.deque");
    if (first && looks_up(self, name) && !PySlice_Check(first)) {
        PyObject *inside = capture_inside(c, first);
        bool tensors = inside && sequence && is_comparison(name) && capture_has_tensor(inside);
        bool ok = inside && !tensors && capture_sees(c, inside, CAPTURE_SEES_KEYS);
        if (tensors)
            capture_unsupported("%s of a tensor in a %s", name, Py_TYPE(self)->tp_name);
        Py_XDECREF(inside);
        if (!ok)
            return false;
    }
    bool compares = is_comparison(name) && (sequence || name[0] == '_');
    if ((sorts || compares) && !text && (capture_holds_written(c, self, 0) || capture_holds_written(c, args, 1)))
        return capture_unsupported("a comparison of containers that were changed");
    if ((sorts || shows || compares) && !text) {
        PyObject *inside = capture_inside(c, shadow), *others = inside ? capture_inside(c, args) : NULL;
        capture_sight sight = compares ? CAPTURE_SEES_KEYS : CAPTURE_SEES_ALL;
        bool ok = others && capture_sees(c, inside, sight) && capture_sees(c, others, sight);
        if (ok && compares && (capture_has_tensor(inside) || capture_has_tensor(others)))
            ok = capture_unsupported("%s of containers with tensors", name);
        Py_XDECREF(inside);
        Py_XDECREF(others);
        return ok;
    }
    for (Py_ssize_t i = 0; text && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = argument(args, i), *inside = PyIter_Check(o) ? Py_NewRef(o) : capture_inside(c, o);
        bool ok = inside && capture_sees(c, inside, CAPTURE_SEES_ALL);
        Py_XDECREF(inside);
        if (!ok)
            return false;
    }
    return true;
}

/* Of a dict whose class is not modelled the shadow is a plain dict: its keys and items are right. */
static bool is_plain_view(PyObject *self, const char *name)
{
    static const char *const known[] = { "items", "keys", "values", "__iter__", "__len__", "__contains__", "__getitem__" };
    for (size_t i = 0; PyDict_Check(self) && i < TP_COUNT(known); i++)
        if (!strcmp(name, known[i]))
            return strcmp(name, "__getitem__") != 0;
    return false;
}

static PyObject *call_keeping(capture *c, PyObject *method, const char *name, PyObject *args, PyObject *kwargs)
{
    PyObject *key = argument(args, 0), *value = argument(args, 1);
    if (strcmp(name, "__setitem__") || !key || !value || !PySlice_Check(key))
        return PyObject_Call(method, args, kwargs);
    PyObject *items = capture_for_c(c, value, CAPTURE_GIVEN_ITERATED), *result = items ? PyObject_CallFunctionObjArgs(method, key, items, NULL) : NULL;
    Py_XDECREF(items);
    return result;
}

/* list.__new__(cls), dict.fromkeys(keys): of a class of C. */
static PyObject *real_call_of(capture *c, PyObject *class, const char *name, PyObject *args, PyObject *kwargs)
{
    PyObject *method = capture_is_python_class((PyTypeObject *)class) ? NULL : PyObject_GetAttrString(class, name);
    PyObject *own = method && PyTuple_GET_SIZE(args) ? PySequence_Tuple(args) : NULL, *result = NULL, *items;
    if (method && !strcmp(name, "fromkeys") && own && (items = capture_for_c(c, argument(args, 0), CAPTURE_GIVEN_ITERATED))) {      /* the value is kept */
        PyObject *value = argument(args, 1);
        result = PyObject_CallFunctionObjArgs(method, items, value, NULL);
        Py_DECREF(items);
        Py_XDECREF(own);
        Py_DECREF(method);
        return result;
    }
    Py_XDECREF(own);
    bool chains = !strcmp(name, "from_iterable");
    result = method ? PyErr_Occurred() ? NULL : capture_real_call(c, method, args, kwargs, chains ? CAPTURE_GIVEN_ITERATED : CAPTURE_GIVEN_READ)
                              : PyErr_Occurred() ? NULL : capture_unsupported("a call of %s.%s", ((PyTypeObject *)class)->tp_name, name);
    Py_XDECREF(method);
    return result;
}

static PyObject *call_new_of(capture *c, PyObject *class, PyObject *args, PyObject *kwargs)
{
    PyObject *of = argument(args, 0);
    if (!of || !PyType_Check(of) || !capture_makes((PyTypeObject *)of) || !capture_makes((PyTypeObject *)class))
        return capture_unsupported("a call of %s.__new__", ((PyTypeObject *)class)->tp_name);
    if (PyDict_GetItemString(((PyTypeObject *)of)->tp_dict, "__del__"))
        return capture_unsupported("a call of the class %s, which has __del__", ((PyTypeObject *)of)->tp_name);
    PyObject *all = PyTuple_New(PyTuple_GET_SIZE(args)), *new = all ? PyObject_GetAttrString(class, "__new__") : NULL, *made = NULL;
    bool ok = new;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(args); i++) {
        bool keeps = !i || capture_keeps_arguments((PyTypeObject *)of);
        PyObject *item = keeps ? Py_NewRef(PyTuple_GET_ITEM(args, i)) : capture_for_c(c, PyTuple_GET_ITEM(args, i), CAPTURE_GIVEN_ITERATED);
        if ((ok = item))
            PyTuple_SET_ITEM(all, i, item);
    }
    if (ok)
        made = PyObject_Call(new, all, kwargs);
    Py_XDECREF(all);
    Py_XDECREF(new);
    return made;
}

/* Methods that all objects have. */
static PyObject *object_method(capture *c, PyObject *self, const char *name, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    PyObject *first = argument(args, 0);
    if (!strcmp(name, "__init__") && !count && !kwargs && Py_TYPE(self)->tp_init == PyBaseObject_Type.tp_init)
        return Py_NewRef(Py_None);
    if (!strcmp(name, "__init__") && !capture_is_outside(c, self) && capture_is_python_class(Py_TYPE(self)) && !count)
        return Py_NewRef(Py_None);              /* super().__init__() of a class that has no more bases */
    if (!strcmp(name, "__getattribute__") && count == 1 && !kwargs && PyUnicode_CheckExact(first))
        return capture_load_attribute(c, self, first);
    if (!strcmp(name, "__call__") && !PyType_Check(self))
        return PyFunction_Check(self) || PyCFunction_Check(self) || PyMethod_Check(self) ? capture_call(c, self, args, kwargs) : capture_unsupported("a call of %R", self);
    if (!strcmp(name, "__get__") && PyFunction_Check(self) && first && first != Py_None)
        return PyMethod_New(self, first);
    if (!strcmp(name, "__init_subclass__") && !count && !kwargs)
        return Py_NewRef(Py_None);
    if (!capture_is_outside(c, self) && capture_is_python_class(Py_TYPE(self)) && (!strcmp(name, "__setattr__") || !strcmp(name, "__delattr__")) &&
        PyUnicode_CheckExact(first) && !face_is_tensor(self)) {
        int done = count == 2 ? PyObject_GenericSetAttr(self, first, argument(args, 1)) : PyObject_GenericSetAttr(self, first, NULL);
        return done < 0 ? NULL : Py_NewRef(Py_None);
    }
    return capture_unsupported("the method %s of a %s", name, Py_TYPE(self)->tp_name);
}

/* A method of a list, dict, string …: on the shadow where the object is outside. */
PyObject *capture_call_bound(capture *c, PyObject *self, const char *name, PyObject *args, PyObject *kwargs)
{
    record *r = capture_record(c, self);
    capture_use use = capture_method_use(self, name);
    PyObject *first = argument(args, 0);
    bool writes = use == CAPTURE_USE_WRITES, outside = r && r->outside;
    if (PyType_Check(self))                     /* dict.fromkeys, object.__new__ */
        return use == CAPTURE_USE_UNKNOWN && strcmp(name, "__new__") ? capture_unsupported("a call of %s.%s", ((PyTypeObject *)self)->tp_name, name)
               : !strcmp(name, "__new__")                            ? call_new_of(c, self, args, kwargs)
                                                                     : real_call_of(c, self, name, args, kwargs);
    if (use == CAPTURE_USE_UNKNOWN)
        return object_method(c, self, name, args, kwargs);
    if (outside && PyDict_Check(self) && first && !r->shadow && !strcmp(name, "get")) {
        int there = capture_contains(c, self, first);
        if (there < 0)
            return NULL;
        return there ? capture_get_item(c, self, first) : Py_NewRef(argument(args, 1) ? argument(args, 1) : Py_None);
    }
    if (outside && !r->shadow && PyDict_Check(self) && !strcmp(name, "__contains__") && first) {
        int there = capture_contains(c, self, first);
        return there < 0 ? NULL : PyBool_FromLong(there);
    }
    if (outside && (!strcmp(name, "__init__") || !(capture_is_modelled(self) || is_plain_view(self, name))))
        return capture_unsupported("%s of an object from outside, a %s", name, Py_TYPE(self)->tp_name);
    PyObject *shadow = capture_shadow(c, self, writes), *method = NULL;
    if (shadow && may_run(c, self, shadow, name, args, kwargs))
        method = PyObject_GetAttrString(shadow, name);
    bool text = PyUnicode_Check(self) || PyBytes_Check(self);
    PyObject *result = !method                                                ? NULL
                       : text                                                 ? capture_real_call(c, method, args, kwargs, CAPTURE_GIVEN_READ)
                       : capture_iterates(name) || !strcmp(name, "sort") ? capture_real_call(c, method, args, kwargs, CAPTURE_GIVEN_ITERATED)
                                                                              : call_keeping(c, method, name, args, kwargs);
    if (result && result == shadow && shadow != self)
        Py_SETREF(result, Py_NewRef(self));
    Py_XDECREF(shadow);
    Py_XDECREF(method);
    return result;
}

/* dict.__setitem__(d, k, v), super().__init__(…): a slot of a class of C. Where the object's class has one of its own for that
 * name, the one that is called is none of those that are done here. */
PyObject *capture_call_slot(capture *c, PyTypeObject *class, PyObject *self, const char *name, PyObject *args, PyObject *kwargs)
{
    bool own = capture_method(self, name), outside = capture_is_outside(c, self);
    if (!own || (!outside && class == &PyBaseObject_Type))
        return capture_call_bound(c, self, name, args, kwargs);
    if (outside || capture_method_use(self, name) == CAPTURE_USE_UNKNOWN || !may_run(c, self, self, name, args, kwargs))
        return PyErr_Occurred() ? NULL : capture_unsupported("%s.%s of a %s", class->tp_name, name, Py_TYPE(self)->tp_name);
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)class, name), *first = PyTuple_Pack(1, self);
    PyObject *inside = capture_iterates(name) && !capture_keeps_arguments(Py_TYPE(self)) ? capture_all_for_c(c, args, PyDict_Check(self)) : Py_NewRef(args);
    PyObject *all = first && inside ? PySequence_Concat(first, inside) : NULL, *result = all && descriptor ? PyObject_Call(descriptor, all, kwargs) : NULL;
    Py_XDECREF(descriptor);
    Py_XDECREF(first);
    Py_XDECREF(inside);
    Py_XDECREF(all);
    return result;
}
