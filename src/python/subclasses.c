/* subclasses.c - tensors of Python classes: made of a tensor's data, or of sizes alone, and what such a class answers itself.
 *
 * A wrapper has sizes and no memory; __torch_dispatch__ does the work. Its class may also ask to be asked for sizes, strides,
 * device or layout (`dispatch_sizes_strides_policy` …): then those questions are ops, and None as an answer means "as it is". */
#include <string.h>

#include "grad/tape.h"
#include "python/face.h"

bool face_is_tensor_class(PyObject *cls)
{
    if (!PyType_Check(cls))
        PyErr_Format(PyExc_TypeError, "cls must be a type (got %s)", Py_TYPE(cls)->tp_name);
    else if (!PyType_IsSubtype((PyTypeObject *)cls, face.tensor))
        PyErr_Format(PyExc_TypeError, "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class inherits "
                     "from Tensor.");
    else
        return true;
    return false;
}

static bool wants_gradient(PyObject *wants, tp_tensor *t)
{
    bool wanted;
    if (!face_read_truth(wants, &wanted))
        return false;
    if (!wanted)
        return true;
    if (!tp_dtype_is_inexact((tp_dtype)t->dtype)) {
        PyErr_Format(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients");
        return false;
    }
    return tp_set_requires_grad(t, true) || face_raise();
}

/* _make_subclass(cls, data, require_grad=False): the data of a tensor, without its history. */
PyObject *face_make_subclass(PyObject *unused, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    (void)unused;
    PyObject *cls = face_argument(args, count, kwnames, 0, "cls"), *data = face_argument(args, count, kwnames, 1, "data");
    if (!cls || !data || !face_is_tensor_class(cls))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "_make_subclass() missing %d required positional arguments: %s", cls ? 1 : 2,
                                                      cls ? "\"data\"" : "\"cls\", \"data\"");
    if (!face_is_tensor(data))
        return PyErr_Format(PyExc_TypeError, "_make_subclass(): argument 'data' (position 2) must be Tensor, not %s", Py_TYPE(data)->tp_name);
    tp_value given = tp_of_tensor(face_tensor(data)), detached = tp_none();
    if ((given.tensor->keys & TP_LAYER_BIT(TP_LAYER_DISPATCH)) && !tp_call(tp_op_find("aten", "detach", ""), &given, &detached))
        return face_raise();
    tp_tensor *t = tp_tensor_alias(detached.tag == TP_TENSOR ? detached.tensor : given.tensor);
    tp_value_unref(detached);
    if (!t)
        return face_raise();
    if (!wants_gradient(face_argument(args, count, kwnames, 2, "require_grad"), t)) {
        tp_tensor_unref(t);
        return NULL;
    }
    return face_wrap_as((PyTypeObject *)cls, t);
}

/* ---- wrappers ---- */

static const char *const wrapper_names[] = {        /* the first five by position, too */
    "cls", "size", "strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory", "requires_grad",
    "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout", "_extra_dispatch_keys", "storage_size",
};
enum { BY_POSITION = 5 };

static bool check_names(Py_ssize_t count, PyObject *kwnames)
{
    if (count > BY_POSITION) {
        PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass() takes %d positional arguments but %zd were given", BY_POSITION, count);
        return false;
    }
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        bool known = false;
        for (size_t i = 0; i < TP_COUNT(wrapper_names); i++)
            known |= PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), wrapper_names[i]) == 0;
        if (!known) {
            PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass() got an unexpected keyword argument '%U'", PyTuple_GET_ITEM(kwnames, k));
            return false;
        }
    }
    return true;
}

static bool read_sizes(const char *name, int position, PyObject *o, int64_t *out, int *ndim)
{
    if (!PyTuple_Check(o) && !PyList_Check(o)) {
        PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass(): argument '%s' (position %d) must be tuple of ints, not %s", name, position, Py_TYPE(o)->tp_name);
        return false;
    }
    PyObject *items = face_items(o, "");
    bool ok = items && PyTuple_GET_SIZE(items) <= TP_MAX_DIMS;
    *ndim = ok ? (int)PyTuple_GET_SIZE(items) : 0;
    if (items && !ok)
        PyErr_Format(PyExc_RuntimeError, "a tensor has at most %d dimensions, got %zd", TP_MAX_DIMS, PyTuple_GET_SIZE(items));
    for (int i = 0; ok && i < *ndim; i++)
        ok = face_read_int(PyTuple_GET_ITEM(items, i), &out[i]);
    Py_XDECREF(items);
    return ok;
}

/* The questions that the class wants to answer; ~0: an exception is set. */
static uint32_t asked(PyObject *policy, PyObject *device, PyObject *layout)
{
    uint32_t keys = 0;
    if (policy && policy != Py_None) {
        const char *word = PyUnicode_Check(policy) ? PyUnicode_AsUTF8(policy) : NULL;
        if (word && strcmp(word, "sizes") == 0) {
            keys = TP_KEY_ASKS_SIZES | TP_KEY_ASKS_STRIDES;
        } else if (word && strcmp(word, "strides") == 0) {
            keys = TP_KEY_ASKS_STRIDES;
        } else {
            PyErr_Format(PyExc_ValueError, "Unknown sizes_strides_policy: %S; expected 'strides' or 'sizes'", policy);
            return ~0u;
        }
    }
    bool of_device, of_layout;
    if (!face_read_truth(device, &of_device) || !face_read_truth(layout, &of_layout))
        return ~0u;
    return keys | (of_device ? TP_KEY_ASKS_DEVICE : 0) | (of_layout ? TP_KEY_ASKS_LAYOUT : 0);
}

/* _make_wrapper_subclass(cls, size, strides=None, storage_offset=None, memory_format=None, *, dtype=None, …) */
PyObject *face_make_wrapper_subclass(PyObject *unused, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *given[TP_COUNT(wrapper_names)];
    int64_t sizes[TP_MAX_DIMS], stride[TP_MAX_DIMS], offset = 0;
    int ndim, stride_count;
    tp_dtype d = (tp_dtype)tp_the_runtime.default_dtype;
    tp_device where = { TP_CPU, -1 };
    (void)unused;
    if (!check_names(count, kwnames))
        return NULL;
    for (int i = 0; i < (int)TP_COUNT(wrapper_names); i++) {
        given[i] = face_argument(args, count, kwnames, i < BY_POSITION ? i : -1, wrapper_names[i]);
        if (given[i] == Py_None && i > 1)
            given[i] = NULL;
    }
    PyObject *cls = given[0], *size = given[1], *strides = given[2], *dtype = given[5], *device = given[7];
    if (!cls || !size)
        return PyErr_Format(PyExc_TypeError, "_make_wrapper_subclass() missing %d required positional arguments: %s", cls ? 1 : 2, cls ? "\"size\"" : "\"cls\", \"size\"");
    if (!face_is_tensor_class(cls) || !read_sizes("size", 2, size, sizes, &ndim) || (strides && !read_sizes("strides", 3, strides, stride, &stride_count)))
        return NULL;
    if (!(((tensor_class *)cls)->overrides & OVERRIDES_DISPATCH))
        return PyErr_Format(PyExc_TypeError, "%s must define __torch_dispatch__", ((PyTypeObject *)cls)->tp_name);
    if (given[3] && !strides)
        return PyErr_Format(PyExc_RuntimeError, "setting storage offset without stride not supported");
    if (strides && stride_count != ndim)
        return PyErr_Format(PyExc_RuntimeError, "dimensionality of sizes (%d) must match dimensionality of strides (%d)", ndim, stride_count);
    uint32_t keys = asked(given[10], given[11], given[12]);
    if (keys == ~0u || (given[3] && !face_read_int(given[3], &offset)) || (dtype && !face_dtype_read(dtype, &d)) || (device && !face_device_read(device, &where)))
        return NULL;
    tp_tensor *t = tp_tensor_new_on((tp_device){ TP_META, -1 }, d, ndim, sizes, strides ? stride : NULL);
    if (!t)
        return face_raise();
    t->device = where;
    t->offset = offset;
    t->keys |= keys;
    if (!wants_gradient(given[9], t)) {
        tp_tensor_unref(t);
        return NULL;
    }
    return face_wrap_as((PyTypeObject *)cls, t);
}

/* _share_storage(to, from): a wrapper made of a view looks at the memory its argument looks at, which is none but has an identity. */
PyObject *face_share_storage(PyObject *unused, PyObject *args)
{
    PyObject *to, *from;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!", face.tensor, &to, face.tensor, &from))
        return NULL;
    if (!face_tensor(to)->storage->data && !face_tensor(from)->storage->data)
        tp_tensor_set_storage(face_tensor(to), tp_storage_ref(face_tensor(from)->storage));
    Py_RETURN_NONE;
}

/* ---- questions ---- */

PyObject *face_ask_class(PyObject *self, const char *space, const char *name)
{
    const tp_op *op = tp_op_find(space, name, "");
    PyObject *overload = op ? face_overload(op) : NULL, *dispatch = overload ? PyObject_GetAttr(self, face.name_dispatch) : NULL;
    PyObject *answer = dispatch ? PyObject_CallFunction(dispatch, "O(O)(O){}", overload, (PyObject *)Py_TYPE(self), self) : NULL;
    if (answer == Py_NotImplemented) {
        Py_CLEAR(answer);
        PyErr_Format(PyExc_TypeError, "Multiple dispatch failed for '%s.ops.%s.%s'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
                     "  - tensor subclass %R\n\nFor more information, try re-running with TORCH_LOGS=not_implemented", face.package, space, name,
                     (PyObject *)Py_TYPE(self));
    }
    Py_XDECREF(overload);
    Py_XDECREF(dispatch);
    return answer;
}
