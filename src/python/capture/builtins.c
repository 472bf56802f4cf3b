/* builtins.c - functions and types of C: which of them a capture may call, and those that look into their arguments. */
#include <string.h>

#include "python/capture/capture.h"

typedef PyObject *builtin_function(capture *c, PyObject *args, PyObject *kwargs);

static PyObject *argument(PyObject *args, Py_ssize_t i)
{
    return i < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, i) : NULL;
}

static PyObject *wrong(const char *name, PyObject *args)
{
    return PyErr_Format(PyExc_TypeError, "%s() does not take %zd arguments", name, PyTuple_GET_SIZE(args));
}

/* ---- attributes ---- */
static PyObject *run_getattr(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *o = argument(args, 0), *name = argument(args, 1), *other = argument(args, 2);
    if (!name || kwargs || !PyUnicode_Check(name))
        return wrong("getattr", args);
    PyObject *value = capture_load_attribute(c, o, name);
    if (!value && other && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return Py_NewRef(other);
    }
    return value;
}

static PyObject *run_hasattr(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *value = run_getattr(c, args, kwargs);
    if (!value && !PyErr_ExceptionMatches(PyExc_AttributeError))
        return NULL;
    PyErr_Clear();
    Py_XDECREF(value);
    return PyBool_FromLong(value != NULL);
}

static PyObject *run_setattr(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *value = argument(args, 2);
    if (!value || kwargs)
        return wrong("setattr", args);
    return capture_store_attribute(c, argument(args, 0), argument(args, 1), value) ? Py_NewRef(Py_None) : NULL;
}

/* ---- iteration ---- */
static PyObject *run_len(capture *c, PyObject *args, PyObject *kwargs)
{
    return argument(args, 0) && !kwargs ? capture_length(c, argument(args, 0)) : wrong("len", args);
}

static PyObject *run_iter(capture *c, PyObject *args, PyObject *kwargs)
{
    return PyTuple_GET_SIZE(args) == 1 && !kwargs ? capture_iterator(c, argument(args, 0)) : capture_unsupported("iter() of a callable");
}

static PyObject *run_next(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *it = argument(args, 0), *other = argument(args, 1);
    (void)c;
    if (!it || kwargs)
        return wrong("next", args);
    if (!PyIter_Check(it))
        return PyErr_Format(PyExc_TypeError, "'%.200s' object is not an iterator", Py_TYPE(it)->tp_name);
    PyObject *value = PyIter_Next(it);
    if (value || PyErr_Occurred())
        return value;
    if (other)
        return Py_NewRef(other);
    PyErr_SetNone(PyExc_StopIteration);
    return NULL;
}

/* Are any (or all) true? Stops where Python would. */
static PyObject *first_that(capture *c, PyObject *args, bool when)
{
    PyObject *it = argument(args, 0) ? capture_iterator(c, argument(args, 0)) : wrong("any", args), *item;
    int truth = !when;
    while (it && (item = PyIter_Next(it))) {
        truth = capture_truth(c, item);
        Py_DECREF(item);
        if (truth < 0 || truth == when)
            break;
    }
    bool failed = !it || truth < 0 || PyErr_Occurred();
    Py_XDECREF(it);
    return failed ? NULL : PyBool_FromLong(truth == when ? when : !when);
}

static PyObject *run_any(capture *c, PyObject *args, PyObject *kwargs) { (void)kwargs; return first_that(c, args, true); }
static PyObject *run_all(capture *c, PyObject *args, PyObject *kwargs) { (void)kwargs; return first_that(c, args, false); }

static PyObject *run_sum(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *it = argument(args, 0) ? capture_iterator(c, argument(args, 0)) : wrong("sum", args), *item;
    PyObject *start = argument(args, 1) ? argument(args, 1) : kwargs ? PyDict_GetItemString(kwargs, "start") : NULL;
    PyObject *total = start ? Py_NewRef(start) : PyLong_FromLong(0);
    while (it && total && (item = PyIter_Next(it))) {
        Py_SETREF(total, capture_binary(c, TP_B_ADD, total, item));
        Py_DECREF(item);
    }
    if (!it || PyErr_Occurred())
        Py_CLEAR(total);
    Py_XDECREF(it);
    return total;
}

static PyObject *run_reduce(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *f = argument(args, 0), *it = argument(args, 1) && !kwargs ? capture_iterator(c, argument(args, 1)) : wrong("reduce", args), *item;
    PyObject *total = argument(args, 2) ? Py_NewRef(argument(args, 2)) : it ? PyIter_Next(it) : NULL;
    if (it && !total && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "reduce() of empty iterable with no initial value");
    while (it && total && (item = PyIter_Next(it))) {
        PyObject *pair = PyTuple_Pack(2, total, item);
        Py_SETREF(total, pair ? capture_call(c, f, pair, NULL) : NULL);
        Py_XDECREF(pair);
        Py_DECREF(item);
    }
    if (!it || PyErr_Occurred())
        Py_CLEAR(total);
    Py_XDECREF(it);
    return total;
}

/* ---- C code that gets iterables and functions ---- */

/* Arguments as C code may have them: something to iterate is an iterator, a function of the program's a callable of ours. */
static PyObject *for_c(capture *c, PyObject *o, bool hands_on)
{
    /* zip and its like give the items to captured code again: those stay the objects they are, which may be written. */
    if (hands_on && (PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o)))
        return capture_shadow(c, o, false);
    if (PyFunction_Check(o) || PyMethod_Check(o))
        return capture_callable(c, o);
    if (capture_method(o, "__iter__") || face_is_tensor(o))
        return capture_iterator(c, o);
    return PyErr_Occurred() ? NULL : capture_inside(c, o);
}

static PyObject *real_call(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs)
{
    PyObject *own = PyTuple_New(PyTuple_GET_SIZE(args)), *named = kwargs ? PyDict_New() : NULL, *key, *value, *result = NULL;
    bool hands_on = PyType_Check(callable) && ((PyTypeObject *)callable)->tp_iternext;
    bool ok = own && (!kwargs || named), makes_dict = PyType_Check(callable) && PyType_IsSubtype((PyTypeObject *)callable, &PyDict_Type);
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *item = for_c(c, PyTuple_GET_ITEM(args, i), hands_on);
        if ((ok = item))
            PyTuple_SET_ITEM(own, i, item);
    }
    Py_ssize_t at = 0;
    while (ok && kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        bool called = PyFunction_Check(value) || PyMethod_Check(value);      /* what has a name is a function or kept as it is */
        PyObject *item = called && !makes_dict ? capture_callable(c, value) : capture_inside(c, value);
        ok = item && PyDict_SetItem(named, key, item) == 0;
        Py_XDECREF(item);
    }
    if (ok)
        result = PyObject_Call(callable, own, named);
    Py_XDECREF(own);
    Py_XDECREF(named);
    return result;
}

/* The largest of tensors would need their values. */
static PyObject *without_tensors(capture *c, const char *name, PyObject *args, PyObject *kwargs)
{
    PyObject *inside = capture_inside(c, args), *builtins = PyEval_GetBuiltins();
    bool tensors = inside && capture_has_tensor(inside);
    Py_XDECREF(inside);
    if (!inside)
        return NULL;
    return tensors ? capture_unsupported("%s() of tensors", name) : real_call(c, PyDict_GetItemString(builtins, name), args, kwargs);
}

static PyObject *run_min(capture *c, PyObject *args, PyObject *kwargs) { return without_tensors(c, "min", args, kwargs); }
static PyObject *run_max(capture *c, PyObject *args, PyObject *kwargs) { return without_tensors(c, "max", args, kwargs); }

static PyObject *run_sorted(capture *c, PyObject *args, PyObject *kwargs)
{
    return real_call(c, PyDict_GetItemString(PyEval_GetBuiltins(), "sorted"), args, kwargs);
}

static PyObject *run_abs(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *o = argument(args, 0);
    if (!o || kwargs)
        return wrong("abs", args);
    return face_is_tensor(o) ? capture_call_method(c, "abs", args, NULL) : PyNumber_Absolute(o);
}

/* A class asks nobody: isinstance and the like are done on the objects themselves. */
static PyObject *run_isinstance(capture *c, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) != 2 || kwargs)
        return wrong("isinstance", args);
    int yes = PyObject_IsInstance(capture_real_tensor(c, argument(args, 0)), argument(args, 1));
    return yes < 0 ? NULL : PyBool_FromLong(yes);
}

static PyObject *run_issubclass(capture *c, PyObject *args, PyObject *kwargs)
{
    (void)c;
    if (PyTuple_GET_SIZE(args) != 2 || kwargs)
        return wrong("issubclass", args);
    int yes = PyObject_IsSubclass(argument(args, 0), argument(args, 1));
    return yes < 0 ? NULL : PyBool_FromLong(yes);
}

static PyObject *run_callable(capture *c, PyObject *args, PyObject *kwargs)
{
    (void)c, (void)kwargs;
    return argument(args, 0) ? PyBool_FromLong(PyCallable_Check(argument(args, 0))) : wrong("callable", args);
}

static const struct { const char *name; builtin_function *run; } builtin_rows[] = {
    { "len", run_len }, { "getattr", run_getattr }, { "hasattr", run_hasattr }, { "setattr", run_setattr }, { "iter", run_iter },
    { "next", run_next }, { "any", run_any }, { "all", run_all }, { "sum", run_sum }, { "min", run_min }, { "max", run_max },
    { "sorted", run_sorted }, { "abs", run_abs }, { "isinstance", run_isinstance }, { "issubclass", run_issubclass },
    { "callable", run_callable }, { "reduce", run_reduce },
};
static const char *const plain_builtins[] = { "divmod", "pow", "round", "chr", "ord", "hex", "oct", "bin", "repr", "format", "hash", "ascii", "id" };

/* ---- types ---- */
static PyObject *make_super(capture *c, PyObject *class, PyObject *args)
{
    if (PyTuple_GET_SIZE(args))
        return PyObject_Call(class, args, NULL);
    const frame *f = c->frame;
    PyObject *cell = NULL, *self = f->code->local_count ? f->local[0] : NULL;
    for (size_t i = 0; i < f->code->local_count; i++)
        if (f->code->local[i].kind & TP_LOCAL_FREE && PyUnicode_CompareWithASCIIString(f->code->local[i].name, "__class__") == 0)
            cell = f->local[i];
    if (self && f->code->local[0].kind & TP_LOCAL_CELL && PyCell_Check(self))
        self = PyCell_GET(self);
    if (!cell || !self || !PyCell_GET(cell))
        return PyErr_Format(PyExc_RuntimeError, "super(): no arguments");
    if (f->pending && f->pending[0] != NO_SOURCE) {     /* the object enters here */
        PyObject *inside = capture_wrap(c, self, f->pending[0]);
        if (!inside)
            return NULL;
        f->pending[0] = NO_SOURCE;
        Py_DECREF(inside);
    }
    return PyObject_CallFunctionObjArgs(class, PyCell_GET(cell), self, NULL);
}

static PyObject *make_number(capture *c, PyObject *class, PyObject *args, PyObject *kwargs)
{
    PyObject *o = argument(args, 0);
    if (class == (PyObject *)&PyBool_Type && o) {
        int truth = capture_truth(c, o);
        return truth < 0 ? NULL : PyBool_FromLong(truth);
    }
    if (o && capture_has_tensor(o))
        return capture_unsupported("%s() of a tensor", ((PyTypeObject *)class)->tp_name);
    return real_call(c, class, args, kwargs);
}

static PyObject *make_sequence(capture *c, PyObject *class, PyObject *args)
{
    if (!argument(args, 0))
        return PyObject_CallNoArgs(class);
    PyObject *it = capture_iterator(c, argument(args, 0)), *made = it ? PyObject_CallOneArg(class, it) : NULL;
    Py_XDECREF(it);
    return made;
}

static bool is_one_of(PyObject *o, PyTypeObject *const *types, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (o == (PyObject *)types[i])
            return true;
    return false;
}

/* *done says whether the class is one of these. */
static PyObject *call_type(capture *c, PyObject *class, PyObject *args, PyObject *kwargs, bool *done)
{
    PyTypeObject *const numbers[] = { &PyLong_Type, &PyFloat_Type, &PyBool_Type, &PyComplex_Type, &PyUnicode_Type };
    PyTypeObject *const sequences[] = { &PyTuple_Type, &PyList_Type, &PySet_Type, &PyFrozenSet_Type };
    *done = true;
    if (capture_reads_context((PyTypeObject *)class))
        return capture_unsupported("a call of the class %s, which reads a context of the thread", ((PyTypeObject *)class)->tp_name);
    if (class == (PyObject *)&PySuper_Type)
        return make_super(c, class, args);
    if (class == (PyObject *)&PyType_Type && PyTuple_GET_SIZE(args) == 1)
        return Py_NewRef((PyObject *)Py_TYPE(capture_real_tensor(c, argument(args, 0))));
    if (is_one_of(class, numbers, TP_COUNT(numbers)))
        return make_number(c, class, args, kwargs);
    if (is_one_of(class, sequences, TP_COUNT(sequences)) && !kwargs)
        return make_sequence(c, class, args);
    const char *name = ((PyTypeObject *)class)->tp_name;
    bool heap = ((PyTypeObject *)class)->tp_flags & Py_TPFLAGS_HEAPTYPE;
    if (!heap || strncmp(name, "itertools.", 10) == 0) {
        bool keeps = class == capture_the_words()->partial;       /* what is only kept stays what it is */
        return keeps ? PyObject_Call(class, args, kwargs) : real_call(c, class, args, kwargs);
    }
    *done = false;
    return NULL;
}

/* ---- functions of C ---- */
static bool is_harmless_module(PyObject *function)
{
    static const char *const known[] = { "math", "cmath", "_operator", "_functools", "itertools", "_collections" };
    PyObject *where = ((PyCFunctionObject *)function)->m_module;
    const char *name = where && PyUnicode_Check(where) ? PyUnicode_AsUTF8(where) : NULL;
    for (size_t i = 0; name && i < TP_COUNT(known); i++)
        if (!strcmp(name, known[i]))
            return true;
    return false;
}

static bool is_torch(PyObject *function)
{
    PyObject *self = PyCFunction_GET_SELF(function), *where = ((PyCFunctionObject *)function)->m_module;
    const char *name = where && PyUnicode_Check(where) ? PyUnicode_AsUTF8(where) : self && PyModule_Check(self) ? PyModule_GetName(self) : NULL;
    size_t length = strlen(face.package);
    return name && strncmp(name, face.package, length) == 0 && (name[length] == 0 || name[length] == '.');
}

static bool is_writer(const char *name)
{
    static const char *const known[] = { "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "setdefault",
                                         "popitem", "add", "discard", "__setitem__", "__delitem__", "move_to_end", "appendleft", "popleft",
                                         "intersection_update", "difference_update", "symmetric_difference_update" };
    for (size_t i = 0; i < TP_COUNT(known); i++)
        if (!strcmp(name, known[i]))
            return true;
    return false;
}

static PyObject *format_text(capture *c, PyObject *method, PyObject *args, PyObject *kwargs)
{
    PyObject *inside = capture_inside(c, args), *named = inside && kwargs ? capture_inside(c, kwargs) : NULL, *text = NULL;
    if (inside && (!kwargs || named))
        text = capture_has_tensor(inside) || (named && capture_has_tensor(named)) ? capture_unsupported("the text of a tensor")
                                                                               : PyObject_Call(method, inside, named);
    Py_XDECREF(inside);
    Py_XDECREF(named);
    return text;
}

/* A method of a list, dict, string …: on the shadow where the object is outside. */
static PyObject *call_bound(capture *c, PyObject *self, const char *name, PyObject *args, PyObject *kwargs)
{
    if (capture_reads_context(Py_TYPE(self)))
        return capture_unsupported("a call of %s.%s, which reads a context of the thread", Py_TYPE(self)->tp_name, name);
    record *r = capture_record(c, self);
    bool writes = is_writer(name);
    if (r && r->outside && !r->shadow && PyDict_Check(self) && !strcmp(name, "get") && argument(args, 0)) {
        int there = capture_contains(c, self, argument(args, 0));
        if (there < 0)
            return NULL;
        return there ? capture_get_item(c, self, argument(args, 0)) : Py_NewRef(argument(args, 1) ? argument(args, 1) : Py_None);
    }
    PyObject *shadow = capture_shadow(c, self, writes), *method = shadow ? PyObject_GetAttrString(shadow, name) : NULL;
    if (method && PyUnicode_Check(self) && (!strcmp(name, "format") || !strcmp(name, "format_map"))) {
        PyObject *text = format_text(c, method, args, kwargs);          /* it prints what it is given and iterates over nothing */
        Py_DECREF(shadow);
        Py_DECREF(method);
        return text;
    }
    bool keeps = writes && strcmp(name, "extend") && strcmp(name, "update") && strcmp(name, "sort");
    PyObject *result = !method ? NULL : keeps ? PyObject_Call(method, args, kwargs) : real_call(c, method, args, kwargs);
    Py_XDECREF(shadow);
    Py_XDECREF(method);
    return result;
}

static bool is_plain_object(PyObject *o)
{
    PyTypeObject *t = Py_TYPE(o);
    return !(t->tp_flags & Py_TPFLAGS_HEAPTYPE) || PyDict_Check(o) || PyList_Check(o) || PyTuple_Check(o) || PyAnySet_Check(o) ||
           PyUnicode_Check(o) || PyLong_Check(o) || PyFloat_Check(o);
}

static PyObject *call_c_function(capture *c, PyObject *function, PyObject *args, PyObject *kwargs)
{
    PyObject *self = PyCFunction_GET_SELF(function);
    const char *name = ((PyCFunctionObject *)function)->m_ml->ml_name;
    if (self && face_is_tensor(self)) {
        PyObject *all = PyTuple_New(PyTuple_GET_SIZE(args) + 1), *result;
        if (!all)
            return NULL;
        PyTuple_SET_ITEM(all, 0, Py_NewRef(self));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++)
            PyTuple_SET_ITEM(all, i + 1, Py_NewRef(argument(args, i)));
        result = capture_call_method(c, name, all, kwargs);
        Py_DECREF(all);
        return result;
    }
    if (self && !strcmp(name, "__call__") && PyObject_IsInstance(self, capture_the_words()->module) == 1)
        return capture_call(c, self, args, kwargs);
    int breaks = PySet_Contains(capture_the_words()->breaks, function);
    if (breaks)
        return breaks < 0 ? NULL : capture_unsupported("a call of %s, which is not to be captured", name);
    int asked = capture_is_listed(capture_the_words()->asked, function);
    if (asked)
        return asked < 0 ? NULL : capture_ask(c, function, args, kwargs);
    if (self && Py_IS_TYPE(self, face.op_function))
        return capture_call_function(c, function, args, kwargs);
    if (is_torch(function))
        return self && PyModule_Check(self) ? capture_call_extension(c, function, args, kwargs)
                                            : capture_call_function(c, function, args, kwargs);
    bool builtin = self && PyModule_Check(self) && !strcmp(PyModule_GetName(self), "builtins");
    bool functional = is_harmless_module(function);
    for (size_t i = 0; (builtin || functional) && i < TP_COUNT(builtin_rows); i++)
        if (!strcmp(name, builtin_rows[i].name))
            return builtin_rows[i].run(c, args, kwargs);
    for (size_t i = 0; builtin && i < TP_COUNT(plain_builtins); i++)
        if (!strcmp(name, plain_builtins[i]) && !capture_has_tensor(args))
            return real_call(c, function, args, kwargs);
    if (functional)
        return capture_has_tensor(args) ? capture_call_function(c, function, args, kwargs) : real_call(c, function, args, kwargs);
    if (self && !PyModule_Check(self) && is_plain_object(self))
        return call_bound(c, self, name, args, kwargs);
    return capture_unsupported("a call of the C function %s", name);
}

/* list.append(l, x), Tensor.add(x, y): the first argument is the object. */
static PyObject *call_descriptor(capture *c, PyObject *descriptor, PyObject *args, PyObject *kwargs)
{
    PyObject *self = argument(args, 0), *name = PyObject_GetAttrString(descriptor, "__name__"), *result = NULL;
    if (!self || !name) {
        Py_XDECREF(name);
        return self ? NULL : PyObject_Call(descriptor, args, kwargs);
    }
    PyObject *rest = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
    if (rest && face_is_tensor(self)) {
        result = capture_call_method(c, PyUnicode_AsUTF8(name), args, kwargs);
    } else if (rest && Py_IS_TYPE(descriptor, &PyMethodDescr_Type)) {
        PyObject *bound = Py_TYPE(descriptor)->tp_descr_get(descriptor, self, (PyObject *)Py_TYPE(self));
        result = bound ? capture_call(c, bound, rest, kwargs) : NULL;
        Py_XDECREF(bound);
    } else if (rest && is_plain_object(self)) {
        result = call_bound(c, self, PyUnicode_AsUTF8(name), rest, kwargs);
    } else if (rest) {
        bool harmless = PyUnicode_CompareWithASCIIString(name, "__init__") == 0 && !PyTuple_GET_SIZE(rest);
        result = harmless ? Py_NewRef(Py_None) : capture_unsupported("a call of %R", descriptor);   /* object.__init__ */
    }
    Py_DECREF(name);
    Py_XDECREF(rest);
    return result;
}

PyObject *capture_call_special(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs, bool *done)
{
    *done = true;
    if (PyCFunction_Check(callable))
        return call_c_function(c, callable, args, kwargs);
    if (PyType_Check(callable))
        return call_type(c, callable, args, kwargs, done);
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type))
        return call_descriptor(c, callable, args, kwargs);
    if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
        PyObject *self = PyObject_GetAttrString(callable, "__self__"), *name = PyObject_GetAttrString(callable, "__name__"), *result = NULL;
        if (self && name && face_is_tensor(self)) {
            PyObject *first = PyTuple_Pack(1, self), *all = first ? PySequence_Concat(first, args) : NULL;
            result = all ? capture_call_method(c, PyUnicode_AsUTF8(name), all, kwargs) : NULL;
            Py_XDECREF(first);
            Py_XDECREF(all);
        } else if (self && name && is_plain_object(self)) {
            result = call_bound(c, self, PyUnicode_AsUTF8(name), args, kwargs);
        } else if (self && name) {
            bool init = PyUnicode_CompareWithASCIIString(name, "__init__") == 0 && !PyTuple_GET_SIZE(args);
            result = init ? Py_NewRef(Py_None) : capture_unsupported("a call of %R", callable);
        }
        Py_XDECREF(self);
        Py_XDECREF(name);
        return result;
    }
    *done = false;
    return NULL;
}
