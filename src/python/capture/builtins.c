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
    PyObject *it = argument(args, 0), *other = argument(args, 1), *method;
    if (!it || kwargs)
        return wrong("next", args);
    if ((method = capture_special(c, it, "__next__"))) {
        PyObject *value = capture_call_one(c, method, it);
        if (value || !other || !PyErr_ExceptionMatches(PyExc_StopIteration))
            return value;
        PyErr_Clear();
        return Py_NewRef(other);
    }
    if (PyErr_Occurred() || !capture_may_read(c, it, "next() of"))
        return NULL;
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
static bool is_called(PyObject *o)
{
    if (PyType_Check(o))
        return !Py_TYPE(o)->tp_iter;
    return PyFunction_Check(o) || PyMethod_Check(o) || PyCFunction_Check(o);
}

PyObject *capture_for_c(capture *c, PyObject *o, capture_given how)
{
    if (is_called(o))
        return capture_callable(c, o);
    if (capture_method(o, "__iter__") || face_is_tensor(o))
        return capture_iterator(c, o);
    if (PyErr_Occurred())
        return NULL;
    bool iterable = Py_TYPE(o)->tp_iter && !PyType_Check(o);
    if (iterable && PyDict_Check(o) && capture_is_outside(c, o))
        return capture_shadow(c, o, false);
    if (iterable && !capture_may_read(c, o, "iterating"))
        return NULL;
    return how == CAPTURE_GIVEN_READ ? capture_inside(c, o) : capture_shadow(c, o, false);
}

/* The items are iterated, too: each is the iterator of its shadow. */
static PyObject *nested_for_c(capture *c, PyObject *o)
{
    PyObject *over = capture_iterator(c, o), *iter = over ? capture_callable(c, PyDict_GetItemString(PyEval_GetBuiltins(), "iter")) : NULL;
    PyObject *made = iter ? PyObject_CallFunctionObjArgs((PyObject *)&PyMap_Type, iter, over, NULL) : NULL;
    Py_XDECREF(over);
    Py_XDECREF(iter);
    return made;
}

/* Pairs that make a dict, tuples of arguments, iterables in a chain. */
static bool takes_items_of_items(PyObject *callable, Py_ssize_t i, PyObject *o)
{
    bool dict = PyType_Check(callable) && PyType_IsSubtype((PyTypeObject *)callable, &PyDict_Type);
    const char *name = PyType_Check(callable) ? ((PyTypeObject *)callable)->tp_name : PyCFunction_Check(callable) ? ((PyCFunctionObject *)callable)->m_ml->ml_name : "";
    bool fills = PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && PyDict_Check(PyCFunction_GET_SELF(callable)) &&
                 (!strcmp(name, "update") || !strcmp(name, "__init__") || !strcmp(name, "__ior__"));
    if (!strcmp(name, "collections.defaultdict"))
        return i == 1 && !PyDict_Check(o);
    return (i == 0 && (dict || fills) && !PyDict_Check(o) && Py_TYPE(o)->tp_iter) || (i == 0 && !strcmp(name, "from_iterable")) ||
           (i == 1 && !strcmp(name, "itertools.starmap"));
}

PyObject *capture_all_for_c(capture *c, PyObject *args, bool pairs)
{
    PyObject *all = PyTuple_New(PyTuple_GET_SIZE(args));
    for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i);
        PyObject *item = pairs && !i && !PyDict_Check(o) && Py_TYPE(o)->tp_iter ? nested_for_c(c, o) : capture_for_c(c, o, CAPTURE_GIVEN_ITERATED);
        if (item)
            PyTuple_SET_ITEM(all, i, item);
        else
            Py_CLEAR(all);
    }
    return all;
}

/* What is given by name is kept as it is, but for what is called and what is iterated. */
static PyObject *for_c_named(capture *c, PyObject *name, PyObject *o, capture_given how)
{
    if (is_called(o))
        return capture_callable(c, o);
    return how == CAPTURE_GIVEN_READ || PyUnicode_CompareWithASCIIString(name, "iterable") == 0 ? capture_for_c(c, o, how) : Py_NewRef(o);
}

PyObject *capture_real_call(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs, capture_given how)
{
    PyObject *own = PyTuple_New(PyTuple_GET_SIZE(args)), *named = kwargs ? PyDict_New() : NULL, *key, *value, *result = NULL;
    bool ok = own && (!kwargs || named), makes_dict = PyType_Check(callable) && PyType_IsSubtype((PyTypeObject *)callable, &PyDict_Type);
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i);
        bool factory = PyType_Check(o) && PyType_Check(callable) && !strcmp(((PyTypeObject *)callable)->tp_name, "collections.defaultdict");
        PyObject *item = factory ? Py_NewRef(o) : takes_items_of_items(callable, i, o) ? nested_for_c(c, o) : capture_for_c(c, o, how);
        if ((ok = item))
            PyTuple_SET_ITEM(own, i, item);
    }
    Py_ssize_t at = 0;
    while (ok && kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        PyObject *item = makes_dict ? Py_NewRef(value) : for_c_named(c, key, value, how);
        ok = item && PyDict_SetItem(named, key, item) == 0;
        Py_XDECREF(item);
    }
    if (ok)
        result = PyObject_Call(callable, own, named);
    Py_XDECREF(own);
    Py_XDECREF(named);
    return result;
}

/* Iterated, not read itself: a generator, a deque, the values of a dict. */
static bool is_source_of_items(PyObject *o)
{
    bool data = PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) || PyAnySet_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o);
    return PyIter_Check(o) || capture_method(o, "__iter__") || (Py_TYPE(o)->tp_iter && !data);
}

/* A function that compares, converts or prints what it is given. */
static PyObject *reading_call(capture *c, PyObject *function, PyObject *args, PyObject *kwargs)
{
    PyObject *inside = capture_inside(c, args);
    bool ok = inside;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(inside); i++)
        ok = is_source_of_items(PyTuple_GET_ITEM(inside, i)) || capture_sees(c, PyTuple_GET_ITEM(inside, i), CAPTURE_SEES_ALL);
    PyObject *result = ok ? capture_real_call(c, function, args, kwargs, CAPTURE_GIVEN_READ) : NULL;
    Py_XDECREF(inside);
    return result;
}

/* Does it hold a container from outside that was changed, and so is not what C code would see? */
bool capture_holds_written(capture *c, PyObject *o, int depth)
{
    const record *r = capture_record(c, o);
    if (depth > 100 || (depth && r && r->written))
        return true;
    PyObject *items = r && r->shadow && !face_is_tensor(o) ? r->shadow : o, *key, *value;
    Py_ssize_t at = 0;
    if (PyTuple_Check(items) || PyList_Check(items)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); i++)
            if (capture_holds_written(c, PySequence_Fast_GET_ITEM(items, i), depth + 1))
                return true;
    } else if (PyDict_Check(items)) {
        while (PyDict_Next(items, &at, &key, &value))
            if (capture_holds_written(c, value, depth + 1))
                return true;
    }
    return false;
}

/* sorted(), min(), max(): what they are given is compared, and they give some of it back. */
static PyObject *choosing_call(capture *c, PyObject *function, PyObject *args, PyObject *kwargs)
{
    bool by_key = kwargs && PyDict_GetItemString(kwargs, "key") && PyDict_GetItemString(kwargs, "key") != Py_None;
    PyObject *inside = by_key ? Py_NewRef(args) : capture_inside(c, args), *result = NULL, *named = NULL, *key, *value;
    bool ok = inside, several = PyTuple_GET_SIZE(args) > 1;
    for (Py_ssize_t i = 0; ok && !by_key && i < PyTuple_GET_SIZE(inside); i++)
        ok = is_source_of_items(PyTuple_GET_ITEM(inside, i)) || capture_sees(c, PyTuple_GET_ITEM(inside, i), CAPTURE_SEES_ALL);
    for (Py_ssize_t i = 0; ok && !by_key && i < PyTuple_GET_SIZE(args); i++)
        if (capture_holds_written(c, PyTuple_GET_ITEM(args, i), several))
            ok = capture_unsupported("a comparison of containers that were changed");
    Py_ssize_t at = 0;
    if (ok && several && kwargs) {
        ok = (named = PyDict_New());
        while (ok && PyDict_Next(kwargs, &at, &key, &value)) {
            PyObject *item = for_c_named(c, key, value, CAPTURE_GIVEN_ITERATED);
            ok = item && PyDict_SetItem(named, key, item) == 0;
            Py_XDECREF(item);
        }
    }
    if (ok)
        result = several ? PyObject_Call(function, args, named) : capture_real_call(c, function, args, kwargs, CAPTURE_GIVEN_ITERATED);
    Py_XDECREF(inside);
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
    return tensors ? capture_unsupported("%s() of tensors", name) : choosing_call(c, PyDict_GetItemString(builtins, name), args, kwargs);
}

static PyObject *run_min(capture *c, PyObject *args, PyObject *kwargs) { return without_tensors(c, "min", args, kwargs); }
static PyObject *run_max(capture *c, PyObject *args, PyObject *kwargs) { return without_tensors(c, "max", args, kwargs); }

static PyObject *run_sorted(capture *c, PyObject *args, PyObject *kwargs)
{
    return choosing_call(c, PyDict_GetItemString(PyEval_GetBuiltins(), "sorted"), args, kwargs);
}

static PyObject *run_abs(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *o = argument(args, 0);
    if (!o || kwargs)
        return wrong("abs", args);
    if (face_is_tensor(o))
        return capture_call_method(c, "abs", args, NULL);
    PyObject *method = capture_special(c, o, "__abs__");
    if (method)
        return capture_call_one(c, method, o);
    return !PyErr_Occurred() && capture_may_read(c, o, "abs() of") ? PyNumber_Absolute(o) : NULL;
}

/* The text of an object, by its own methods where its class is the program's. */
static PyObject *run_text(capture *c, PyObject *o, const char *const *methods, PyObject *spec)
{
    for (; *methods; methods++) {
        PyObject *method = capture_special(c, o, *methods), *args;
        if (PyErr_Occurred())
            return NULL;
        if (!method)
            continue;
        args = spec && !strcmp(*methods, "__format__") ? PyTuple_Pack(2, o, spec) : PyTuple_Pack(1, o);
        PyObject *text = args ? capture_call(c, method, args, NULL) : NULL;
        Py_XDECREF(args);
        if (text && !PyUnicode_Check(text)) {
            Py_CLEAR(text);
            capture_unsupported("%s that gives no string", *methods);
        }
        return text;
    }
    return Py_NewRef(Py_NotImplemented);
}

PyObject *capture_text(capture *c, PyObject *o, int how, PyObject *spec)
{
    static const char *const format[] = { "__format__", NULL }, *const plain[] = { "__format__", "__str__", "__repr__", NULL },
                      *const str[] = { "__str__", "__repr__", NULL }, *const repr[] = { "__repr__", NULL };
    bool empty = !spec || (PyUnicode_Check(spec) && !PyUnicode_GET_LENGTH(spec));
    if (capture_has_tensor(o))
        return capture_unsupported("the text of a tensor");
    PyObject *text = capture_is_enum(Py_TYPE(o)) || capture_trusts_class(Py_TYPE(o))
                         ? Py_NewRef(Py_NotImplemented)
                         : run_text(c, o, how == 1 ? str : how ? repr : empty ? plain : format, spec);
    if (text != Py_NotImplemented) {
        if (text && how && !empty)
            Py_SETREF(text, PyObject_Format(text, spec));
        return text;
    }
    Py_DECREF(text);
    PyObject *inside = capture_inside(c, o);
    if (inside && !capture_sees(c, inside, CAPTURE_SEES_ALL))
        Py_CLEAR(inside);
    PyObject *shown = !inside    ? NULL
                      : how == 1 ? PyObject_Str(inside)
                      : how == 2 ? PyObject_Repr(inside)
                      : how == 3 ? PyObject_ASCII(inside)
                                 : Py_NewRef(inside);
    text = shown ? how && empty ? Py_NewRef(shown) : PyObject_Format(shown, spec) : NULL;
    Py_XDECREF(inside);
    Py_XDECREF(shown);
    return text;
}

static PyObject *run_repr(capture *c, PyObject *args, PyObject *kwargs)
{
    return PyTuple_GET_SIZE(args) == 1 && !kwargs ? capture_text(c, argument(args, 0), 2, NULL) : wrong("repr", args);
}

static PyObject *run_format(capture *c, PyObject *args, PyObject *kwargs)
{
    return argument(args, 0) && !kwargs ? capture_text(c, argument(args, 0), 0, argument(args, 1)) : wrong("format", args);
}

/* An address is the same only as long as the object is. */
static PyObject *run_id(capture *c, PyObject *args, PyObject *kwargs)
{
    PyObject *o = argument(args, 0);
    const record *r = o ? capture_record(c, o) : NULL;
    bool fixed = r && r->outside && r->source != NO_SOURCE && !face_is_tensor(o) && !kwargs;
    return !fixed ? capture_unsupported("id() of an object that may be another") : capture_pin(c, o) ? PyLong_FromVoidPtr(o) : NULL;
}

/* Classes that answer for themselves whose their instances are: this package's, and abstract ones of the standard library. */
static bool asks_nobody(PyObject *class)
{
    if (PyTuple_Check(class)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(class); i++)
            if (!asks_nobody(PyTuple_GET_ITEM(class, i)))
                return false;
        return true;
    }
    PyTypeObject *meta = Py_TYPE(class);
    bool stock = !PyType_Check(class) || meta == &PyType_Type || !strcmp(meta->tp_name, "ABCMeta") || capture_is_enum((PyTypeObject *)class) ||
                 capture_trusts_class(meta);
    return stock || !(capture_method(class, "__instancecheck__") || capture_method(class, "__subclasscheck__"));
}

/* isinstance and the like are done on the objects themselves. */
static PyObject *run_isinstance(capture *c, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) != 2 || kwargs)
        return wrong("isinstance", args);
    if (!asks_nobody(argument(args, 1)))
        return capture_unsupported("isinstance() with a class that decides itself");
    int yes = PyObject_IsInstance(capture_real_tensor(c, argument(args, 0)), argument(args, 1));
    return yes < 0 ? NULL : PyBool_FromLong(yes);
}

static PyObject *run_issubclass(capture *c, PyObject *args, PyObject *kwargs)
{
    (void)c;
    if (PyTuple_GET_SIZE(args) != 2 || kwargs)
        return wrong("issubclass", args);
    if (!asks_nobody(argument(args, 1)))
        return capture_unsupported("issubclass() with a class that decides itself");
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
    { "callable", run_callable }, { "reduce", run_reduce }, { "repr", run_repr }, { "format", run_format }, { "id", run_id },
};

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
    if (class == (PyObject *)&PyUnicode_Type && o && PyTuple_GET_SIZE(args) == 1 && !kwargs)
        return capture_text(c, o, 1, NULL);
    PyObject *method = !o ? NULL : capture_special(c, o, class == (PyObject *)&PyLong_Type ? "__int__" : class == (PyObject *)&PyFloat_Type ? "__float__" : "__complex__");
    if (method && PyTuple_GET_SIZE(args) == 1)
        return capture_call_one(c, method, o);
    return PyErr_Occurred() ? NULL : reading_call(c, class, args, kwargs);
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
    if (class == (PyObject *)&PySuper_Type)
        return make_super(c, class, args);
    if (class == (PyObject *)&PyType_Type) {
        PyObject *name = PyTuple_GET_SIZE(args) == 1 && !kwargs ? PyUnicode_InternFromString("__class__") : NULL;
        bool python = name && capture_is_python_class(Py_TYPE(argument(args, 0))) && !face_is_tensor(argument(args, 0));
        PyObject *value = !name    ? capture_unsupported("a class made inside the captured code")
                          : python ? capture_load_attribute(c, argument(args, 0), name)
                                   : Py_NewRef((PyObject *)Py_TYPE(capture_real_tensor(c, argument(args, 0))));
        Py_XDECREF(name);
        return value;
    }
    if (is_one_of(class, numbers, TP_COUNT(numbers)))
        return make_number(c, class, args, kwargs);
    if (is_one_of(class, sequences, TP_COUNT(sequences)) && !kwargs)
        return make_sequence(c, class, args);
    const char *name = ((PyTypeObject *)class)->tp_name;
    bool heap = ((PyTypeObject *)class)->tp_flags & Py_TPFLAGS_HEAPTYPE;
    if (!heap || strncmp(name, "itertools.", 10) == 0 || class == capture_the_words()->partial) {
        PyTypeObject *const keepers[] = { &PyMethod_Type, &PyProperty_Type, &PyStaticMethod_Type, &PyClassMethod_Type, &PyBaseObject_Type };
        bool keeps = class == capture_the_words()->partial || is_one_of(class, keepers, TP_COUNT(keepers)) || !strcmp(name, "types.SimpleNamespace") ||
                     PyType_IsSubtype((PyTypeObject *)class, (PyTypeObject *)PyExc_BaseException);     /* what is only kept stays what it is */
        if (!capture_makes((PyTypeObject *)class))
            return capture_unsupported("a call of the class %s", name);
        keeps |= !strcmp(name, "itertools.repeat");
        return keeps ? PyObject_Call(class, args, kwargs) : capture_real_call(c, class, args, kwargs, CAPTURE_GIVEN_ITERATED);
    }
    *done = false;
    return NULL;
}

/* ---- functions of C ---- */
/* "_operator", "math"; a method of an object has none. */
static const char *module_of(PyObject *function)
{
    PyObject *where = ((PyCFunctionObject *)function)->m_module, *self = PyCFunction_GET_SELF(function);
    const char *name = where && PyUnicode_Check(where) ? PyUnicode_AsUTF8(where) : self && PyModule_Check(self) ? PyModule_GetName(self) : NULL;
    return name ? name : "";
}

/* The functions of the module operator that have an instruction: done as that is. *done says whether it is one. */
static PyObject *call_operator(capture *c, const char *name, PyObject *args, bool *done)
{
    static const char *const comparisons[] = { "lt", "le", "eq", "ne", "gt", "ge" };
    static const char *const names[] = { "add", "and_", "floordiv", "lshift", "matmul", "mul", "mod", "or_", "pow", "rshift", "sub", "truediv", "xor",
                                         "iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imul", "imod", "ior", "ipow", "irshift", "isub", "itruediv", "ixor" };
    PyObject *a = argument(args, 0), *b = argument(args, 1), *value = argument(args, 2);
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    *done = true;
    for (int i = 0; count == 2 && i < (int)TP_COUNT(names); i++)
        if (!strcmp(name, names[i]))
            return capture_binary(c, i, a, b);
    for (int i = 0; count == 2 && i < (int)TP_COUNT(comparisons); i++)
        if (!strcmp(name, comparisons[i]))
            return capture_compare(c, i, a, b);
    if (count == 2 && !strcmp(name, "getitem"))
        return capture_get_item(c, a, b);
    if (count == 3 && !strcmp(name, "setitem"))
        return capture_set_item(c, a, b, value) ? Py_NewRef(Py_None) : NULL;
    if (count == 2 && !strcmp(name, "delitem"))
        return capture_set_item(c, a, b, NULL) ? Py_NewRef(Py_None) : NULL;
    if (count == 2 && !strcmp(name, "contains")) {
        int there = capture_contains(c, a, b);
        return there < 0 ? NULL : PyBool_FromLong(there);
    }
    if (count == 1 && (!strcmp(name, "truth") || !strcmp(name, "not_"))) {
        int truth = capture_truth(c, a);
        return truth < 0 ? NULL : PyBool_FromLong(truth == (name[0] == 't'));
    }
    if (count == 2 && (!strcmp(name, "is_") || !strcmp(name, "is_not"))) {
        int same = capture_is_same(c, a, b);
        return same < 0 ? NULL : PyBool_FromLong(same == (name[2] == '_' && !name[3]));
    }
    *done = false;
    return NULL;
}

static bool is_torch(PyObject *function)
{
    PyObject *self = PyCFunction_GET_SELF(function), *where = ((PyCFunctionObject *)function)->m_module;
    const char *name = where && PyUnicode_Check(where) ? PyUnicode_AsUTF8(where) : self && PyModule_Check(self) ? PyModule_GetName(self) : NULL;
    size_t length = strlen(face.package);
    return name && strncmp(name, face.package, length) == 0 && (name[length] == 0 || name[length] == '.');
}

/* The object of a method that came from outside as a whole, `append = l.append`, comes from there, too. */
static bool enter_self(capture *c, PyObject *function, PyObject *self)
{
    const record *r = capture_record(c, function);
    if (!r || !r->outside || r->source == NO_SOURCE || PyType_Check(self) || capture_record(c, self))
        return true;
    PyObject *inside = capture_wrap(c, self, tp_source_in(c->sources, SOURCE_METHOD_SELF, r->source, 0, NULL));
    Py_XDECREF(inside);
    return inside;
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
    if (self && !PyModule_Check(self))
        return enter_self(c, function, self) ? capture_call_bound(c, self, name, args, kwargs) : NULL;
    const char *module = module_of(function);
    if (!strcmp(module, "_operator") && !kwargs) {
        bool done;
        PyObject *result = call_operator(c, name, args, &done);
        if (done)
            return result;
    }
    bool builtin = !strcmp(module, "builtins"), reads = capture_function_reads(module, name);
    for (size_t i = 0; (builtin || reads) && i < TP_COUNT(builtin_rows); i++)
        if (!strcmp(name, builtin_rows[i].name))
            return builtin_rows[i].run(c, args, kwargs);
    if (!reads)
        return capture_unsupported("a call of the C function %s", name);
    if (capture_has_tensor(args))
        return builtin ? capture_unsupported("%s() of tensors", name) : capture_call_function(c, function, args, kwargs);
    return !strcmp(module, "itertools") || !strcmp(name, "cmp_to_key") ? capture_real_call(c, function, args, kwargs, CAPTURE_GIVEN_ITERATED)
                                                                       : reading_call(c, function, args, kwargs);
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
    } else if (rest) {
        result = capture_call_slot(c, PyDescr_TYPE(descriptor), self, PyUnicode_AsUTF8(name), rest, kwargs);
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
        } else if (self && name) {
            PyObject *class = PyObject_GetAttrString(callable, "__objclass__");
            result = class ? capture_call_slot(c, (PyTypeObject *)class, self, PyUnicode_AsUTF8(name), args, kwargs) : NULL;
            Py_XDECREF(class);
        }
        Py_XDECREF(self);
        Py_XDECREF(name);
        return result;
    }
    *done = false;
    return NULL;
}
