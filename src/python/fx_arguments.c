/* fx_arguments.c - arguments of nodes: Python objects to values and back, and mapping over nested ones. */
#include <string.h>

#include "base/alloc.h"
#include "python/fx.h"
#include "sym/env.h"

/* ---- to values ---- */
static bool keep(tp_value taken, tp_value *out)
{
    *out = taken;
    return taken.tag != TP_NONE || face_raise();
}

/* A container that was filled in part: nothing is left where it stood, which may be in another that is dropped next. */
static bool drop(tp_value *out)
{
    tp_value_unref(*out);
    *out = tp_none();
    return false;
}

static bool to_items(tp_graph *g, PyObject *o, tp_tag tag, tp_value *out)
{
    PyObject *const *item = PySequence_Fast_ITEMS(o);
    Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
    tp_list *list = tp_list_new((size_t)count);
    if (!list)
        return face_raise();
    *out = (tp_value){ .tag = (uint8_t)tag, .list = list };
    for (Py_ssize_t i = 0; i < count; i++)
        if (!fx_to_value(g, item[i], &list->item[i]))
            return drop(out);
    return true;
}

static bool to_dict(tp_graph *g, PyObject *o, tp_value *out)
{
    tp_list *list = tp_list_new(2 * (size_t)PyDict_GET_SIZE(o));
    PyObject *key, *value;
    Py_ssize_t at = 0;
    uint32_t i = 0;
    if (!list)
        return face_raise();
    *out = (tp_value){ .tag = TP_DICT, .list = list };
    while (PyDict_Next(o, &at, &key, &value) && i + 1 < list->count) {
        if (!fx_to_value(g, key, &list->item[i]) || !fx_to_value(g, value, &list->item[i + 1]))
            return drop(out);
        i += 2;
    }
    return true;
}

static bool to_slice(tp_graph *g, PyObject *o, tp_value *out)
{
    PySliceObject *s = (PySliceObject *)o;
    tp_list *list = tp_list_new(3);
    if (!list)
        return face_raise();
    *out = (tp_value){ .tag = TP_SLICE, .list = list };
    if (fx_to_value(g, s->start, &list->item[0]) && fx_to_value(g, s->stop, &list->item[1]) &&
        fx_to_value(g, s->step, &list->item[2]))
        return true;
    return drop(out);
}

static bool to_handle(PyObject *o, tp_value *out)
{
    tp_handle *h = face_handle_new(o);
    if (!h)
        return face_raise();
    *out = (tp_value){ .tag = TP_HANDLE, .handle = h };
    return true;
}

/* Integers beyond 64 bits stay objects. */
static bool to_int(PyObject *o, tp_value *out)
{
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow)
        return to_handle(o, out);
    *out = tp_int(i);
    return true;
}

static bool to_string(PyObject *o, tp_value *out)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(o, &length);
    return text && keep(tp_value_string(text, (size_t)length), out);
}

/* Expressions live as long as their environment, which the graph counts; those of a second one stay objects. */
static bool to_symbol(tp_graph *g, PyObject *o, tp_value *out)
{
    tp_value v = face_sym_value(o);
    tp_shape_env *env = v.tag == TP_SYM ? tp_sym_env((tp_sym){ v.sym }) : NULL;
    if (env && g && !g->env)
        g->env = tp_shape_env_ref(env);
    if (v.tag == TP_SYM && g && env != g->env)
        return to_handle(o, out);
    *out = tp_value_ref(v);
    return true;
}

bool fx_to_value(tp_graph *g, PyObject *o, tp_value *out)
{
    *out = tp_none();
    if (fx_is_node(o)) {
        tp_node *n = fx_node_of(o);
        if (!g)
            return to_handle(o, out);
        if (n->graph != g)
            return fx_foreign_error(n, NULL, g);
        *out = tp_of_node(n);
        return true;
    }
    if (o == Py_None)
        return true;
    if (PyLong_CheckExact(o))
        return to_int(o, out);
    if (PyBool_Check(o)) {
        *out = tp_bool(o == Py_True);
        return true;
    }
    if (PyFloat_CheckExact(o)) {
        *out = tp_float(PyFloat_AS_DOUBLE(o));
        return true;
    }
    if (PyUnicode_CheckExact(o))
        return to_string(o, out);
    if (PyTuple_Check(o) || PyList_Check(o)) {
        if (Py_EnterRecursiveCall(" in an argument of a node"))
            return false;
        bool ok = to_items(g, o, PyTuple_Check(o) ? TP_TUPLE : TP_LIST, out);
        Py_LeaveRecursiveCall();
        return ok;
    }
    if (PyDict_Check(o)) {
        if (Py_EnterRecursiveCall(" in an argument of a node"))
            return false;
        bool ok = to_dict(g, o, out);
        Py_LeaveRecursiveCall();
        return ok;
    }
    if (PySlice_Check(o))
        return to_slice(g, o, out);
    if (PyComplex_CheckExact(o))
        return keep(tp_value_complex(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)), out);
    if (Py_IS_TYPE(o, face.dtype))
        *out = tp_of_dtype(((dtype_object *)o)->dtype);
    else if (Py_IS_TYPE(o, face.device))
        *out = tp_of_device(((device_object *)o)->device);
    else if (Py_IS_TYPE(o, face.format))
        *out = (tp_value){ .tag = TP_FORMAT_VALUE, .i = ((word_object *)o)->word };
    else if (Py_IS_TYPE(o, face.layout) && ((word_object *)o)->word == LAYOUT_STRIDED)
        *out = (tp_value){ .tag = TP_LAYOUT, .i = LAYOUT_STRIDED };
    else if (face_is_sym(o))
        return to_symbol(g, o, out);
    else if (face_is_fast(o))
        *out = tp_of_tensor(tp_tensor_ref(face_tensor(o)));
    else
        return to_handle(o, out);
    return true;
}

static bool read_keywords(fx_arguments *a, tp_graph *g, PyObject *kwargs)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(kwargs, &at, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            PyErr_Format(PyExc_TypeError, "keywords must be strings, not %R", key);
            return false;
        }
        if (!to_string(key, &a->value[a->filled]))
            return false;
        a->filled++;
        if (!fx_to_value(g, value, &a->value[a->filled]))
            return false;
        a->filled++;
    }
    return true;
}

bool fx_arguments_read(fx_arguments *a, tp_graph *g, PyObject *args, PyObject *kwargs)
{
    a->value = a->few;
    a->filled = 0;
    a->count = args ? (uint32_t)PyTuple_GET_SIZE(args) : 0;
    a->keywords = kwargs ? (uint32_t)PyDict_GET_SIZE(kwargs) : 0;
    size_t total = (size_t)a->count + 2 * (size_t)a->keywords;
    if (total > TP_COUNT(a->few) && !(a->value = tp_alloc_array(total, sizeof *a->value))) {
        a->value = a->few;
        return face_raise();
    }
    for (; a->filled < a->count; a->filled++)
        if (!fx_to_value(g, PyTuple_GET_ITEM(args, a->filled), &a->value[a->filled]))
            return false;
    return !kwargs || read_keywords(a, g, kwargs);
}

void fx_arguments_fini(fx_arguments *a)
{
    tp_values_unref(a->value, a->filled);
    if (a->value != a->few)
        tp_free(a->value);
}

/* ---- back to Python ---- */
static PyObject *from_items(tp_value v)
{
    bool tuple = v.tag == TP_TUPLE;
    PyObject *made = tuple ? PyTuple_New(v.list->count) : PyList_New(v.list->count);
    for (uint32_t i = 0; made && i < v.list->count; i++) {
        PyObject *item = fx_from_value(v.list->item[i]);
        if (!item)
            Py_CLEAR(made);
        else if (tuple)
            PyTuple_SET_ITEM(made, i, item);
        else
            PyList_SET_ITEM(made, i, item);
    }
    if (!made || tuple || !face.fx.list)
        return made;
    PyObject *frozen = PyObject_CallOneArg(face.fx.list, made);
    Py_DECREF(made);
    return frozen;
}

static PyObject *frozen_dict(const tp_value *pair, uint32_t count)
{
    PyObject *made = PyDict_New();
    for (uint32_t k = 0; made && k < count; k++, pair += 2) {
        PyObject *key = fx_from_value(pair[0]), *value = key ? fx_from_value(pair[1]) : NULL;
        if (!value || PyDict_SetItem(made, key, value) < 0)
            Py_CLEAR(made);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    if (!made || !face.fx.dict)
        return made;
    PyObject *frozen = PyObject_CallOneArg(face.fx.dict, made);
    Py_DECREF(made);
    return frozen;
}

static PyObject *from_slice(tp_value v)
{
    PyObject *part[3] = { 0 }, *made = NULL;
    if ((part[0] = fx_from_value(v.list->item[0])) && (part[1] = fx_from_value(v.list->item[1])) &&
        (part[2] = fx_from_value(v.list->item[2])))
        made = PySlice_New(part[0], part[1], part[2]);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(part[i]);
    return made;
}

PyObject *fx_from_value(tp_value v)
{
    switch ((tp_tag)v.tag) {
    case TP_NODE:  return fx_wrap_node(v.node);
    case TP_LIST:
    case TP_TUPLE: return from_items(v);
    case TP_DICT:  return frozen_dict(v.list->item, v.list->count / 2);
    case TP_SLICE: return from_slice(v);
    default:       return face_from_value(tp_value_ref(v));
    }
}

PyObject *fx_args_tuple(const tp_node *n)
{
    PyObject *made = PyTuple_New(n->arg_count);
    for (uint32_t i = 0; made && i < n->arg_count; i++) {
        PyObject *item = fx_from_value(n->arg[i]);
        if (!item)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, item);
    }
    return made;
}

PyObject *fx_kwargs_dict(const tp_node *n)
{
    return frozen_dict(n->arg + n->arg_count, n->keyword_count);
}

/* ---- mapping: map_arg, map_aggregate ---- */
static PyObject *map_sequence(PyObject *o, PyObject *(*leaf)(PyObject *o, void *data), void *data)
{
    bool tuple = PyTuple_Check(o);
    Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
    PyObject *made = PyTuple_New(count), *result = NULL;
    for (Py_ssize_t i = 0; made && i < count; i++) {
        PyObject *item = i < PySequence_Fast_GET_SIZE(o) ? fx_map(PySequence_Fast_ITEMS(o)[i], leaf, data)
                                                         : Py_NewRef(Py_None);
        if (!item)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, item);
    }
    if (!made)
        return NULL;
    if (tuple && PyTuple_CheckExact(o))
        return made;
    if (tuple && PyObject_HasAttrString(o, "_fields"))
        result = PyObject_Call((PyObject *)Py_TYPE(o), made, NULL);
    else if (tuple)
        return made;
    else
        result = PyObject_CallOneArg(face.fx.list ? face.fx.list : (PyObject *)&PyList_Type, made);
    Py_DECREF(made);
    return result;
}

static PyObject *map_dict(PyObject *o, PyObject *(*leaf)(PyObject *o, void *data), void *data)
{
    PyObject *made = PyDict_New(), *key, *value, *result;
    Py_ssize_t at = 0;
    while (made && PyDict_Next(o, &at, &key, &value)) {
        Py_INCREF(key);
        PyObject *item = fx_map(value, leaf, data);
        if (!item || PyDict_SetItem(made, key, item) < 0)
            Py_CLEAR(made);
        Py_DECREF(key);
        Py_XDECREF(item);
    }
    if (!made)
        return NULL;
    result = PyObject_CallOneArg(face.fx.dict ? face.fx.dict : (PyObject *)&PyDict_Type, made);
    Py_DECREF(made);
    return result;
}

static PyObject *map_slice(PyObject *o, PyObject *(*leaf)(PyObject *o, void *data), void *data)
{
    PySliceObject *s = (PySliceObject *)o;
    PyObject *start = fx_map(s->start, leaf, data), *stop = start ? fx_map(s->stop, leaf, data) : NULL;
    PyObject *step = stop ? fx_map(s->step, leaf, data) : NULL, *made = step ? PySlice_New(start, stop, step) : NULL;
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(step);
    return made;
}

PyObject *fx_map(PyObject *o, PyObject *(*leaf)(PyObject *o, void *data), void *data)
{
    bool sequence = PyTuple_Check(o) || PyList_Check(o);
    if (!sequence && !PyDict_Check(o) && !PySlice_Check(o))
        return leaf(o, data);
    if (Py_EnterRecursiveCall(" in a nested argument"))
        return NULL;
    PyObject *made = sequence ? map_sequence(o, leaf, data) : PyDict_Check(o) ? map_dict(o, leaf, data)
                                                                              : map_slice(o, leaf, data);
    Py_LeaveRecursiveCall();
    return made;
}

static PyObject *call_leaf(PyObject *o, void *function)
{
    return PyObject_CallOneArg(function, o);
}

static PyObject *call_node(PyObject *o, void *function)
{
    return fx_is_node(o) ? PyObject_CallOneArg(function, o) : Py_NewRef(o);
}

static PyObject *map_with(PyObject *const *args, Py_ssize_t count, const char *name,
                          PyObject *(*leaf)(PyObject *o, void *data))
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "%s() takes 2 positional arguments but %zd were given", name, count);
    if (!PyCallable_Check(args[1]))
        return PyErr_Format(PyExc_AssertionError, "torch.fx.%s(a, fn): fn must be a callable", name);
    return fx_map(args[0], leaf, args[1]);
}

static PyObject *map_aggregate(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return map_with(args, count, "map_aggregate", call_leaf);
}

static PyObject *map_arg(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return map_with(args, count, "map_arg", call_node);
}

static PyMethodDef functions[] = {
    { "_fx_map_aggregate", (PyCFunction)(void (*)(void))map_aggregate, METH_FASTCALL, NULL },
    { "_fx_map_arg", (PyCFunction)(void (*)(void))map_arg, METH_FASTCALL, NULL },
    { 0 },
};

bool fx_arguments_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
