/* literal.c - nested Python lists to tensors, and tensors to nested lists. */
#include <string.h>

#include "ops/known.h"
#include "python/face.h"
#include "trace/fake.h"
#include "trace/vmap_level.h"

/* What a nest of sequences holds: its shape and the least type that holds every number. */
typedef struct literal {
    int     ndim;
    int64_t size[TP_MAX_DIMS];
    tp_dtype dtype;             /* TP_DTYPE_NONE while nothing was seen */
} literal;

static bool is_sequence(PyObject *o)
{
    return PyList_Check(o) || PyTuple_Check(o) || (PySequence_Check(o) && !face_is_tensor(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !PyDict_Check(o));
}

/* ---- shape: follows the first item of each level ---- */
static bool find_shape(PyObject *data, literal *l)
{
    PyObject *at = Py_NewRef(data);
    while (is_sequence(at)) {
        Py_ssize_t n = PySequence_Size(at);
        if (n < 0 || l->ndim == TP_MAX_DIMS) {
            if (n >= 0)
                PyErr_SetString(PyExc_ValueError, "too many dimensions");
            Py_DECREF(at);
            return false;
        }
        l->size[l->ndim++] = n;
        if (n == 0)
            break;
        PyObject *first = PySequence_GetItem(at, 0);
        Py_DECREF(at);
        if (!(at = first))
            return false;
    }
    if (PyUnicode_Check(at) && at != data) {
        Py_DECREF(at);
        PyErr_SetString(PyExc_ValueError, "too many dimensions 'str'");
        return false;
    }
    Py_DECREF(at);
    return true;
}

/* ---- type ---- */
static tp_dtype number_dtype(PyObject *o)
{
    if (PyFloat_Check(o))
        return (tp_dtype)tp_the_runtime.default_dtype;
    if (PyBool_Check(o))
        return TP_b8;
    if (PyLong_Check(o))
        return TP_i64;
    if (PyComplex_Check(o))
        return tp_dtype_to_complex((tp_dtype)tp_the_runtime.default_dtype);
    if (face_is_tensor(o))
        return (tp_dtype)face_tensor(o)->dtype;
    if (Py_IS_TYPE(o, face.sym_int))
        return TP_i64;
    if (Py_IS_TYPE(o, face.sym_float))
        return (tp_dtype)tp_the_runtime.default_dtype;
    return TP_DTYPE_NONE;
}

static tp_dtype numpy_dtype(PyObject *o)
{
    const char *name = Py_TYPE(o)->tp_name + 6;
    for (int d = 0; d < TP_DTYPE_COUNT; d++)
        if (strncmp(tp_dtypes[d].python, name, strlen(tp_dtypes[d].python)) == 0 && strcmp(name, "int8") != 0)
            return (tp_dtype)d;
    return strcmp(name, "int8") == 0 ? TP_i8 : Py_TYPE(o)->tp_as_number->nb_index ? TP_i64 : TP_f64;
}

static bool find_dtype(PyObject *o, literal *l)
{
    tp_dtype d = number_dtype(o);
    if (d == TP_DTYPE_NONE && face_is_numpy_number(o))
        d = numpy_dtype(o);
    if (d != TP_DTYPE_NONE) {
        l->dtype = l->dtype == TP_DTYPE_NONE ? d : tp_dtype_promote(l->dtype, d);
        return true;
    }
    if (PyUnicode_Check(o) || PyBytes_Check(o)) {
        PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name);
        return false;
    }
    if (!is_sequence(o)) {
        PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(o)->tp_name);
        return false;
    }
    PyObject *items = face_items(o, "not a sequence");
    bool ok = items && Py_EnterRecursiveCall(" in a list of numbers") == 0;     /* it may hold itself */
    if (ok) {
        for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items); i++)
            ok = find_dtype(PyTuple_GET_ITEM(items, i), l);
        Py_LeaveRecursiveCall();
    }
    Py_XDECREF(items);
    return ok;
}

/* ---- elements ---- */
static bool in_range(tp_dtype d, int64_t i)
{
    switch (d) {
    case TP_u8: return i >= -255 && i <= 255;
    case TP_i8: return i >= INT8_MIN && i <= INT8_MAX;
    case TP_i16: return i >= INT16_MIN && i <= INT16_MAX;
    case TP_i32: return i >= INT32_MIN && i <= INT32_MAX;
    default: return true;
    }
}

static bool read_number(PyObject *o, tp_dtype d, tp_scalar *out);

/* The number in a tensor; one without data is asked, which may be refused, or give a symbol that is then decided. */
static bool read_element(const tp_tensor *t, tp_dtype d, tp_scalar *out)
{
    if (t->storage->kind != TP_MEMORY_NONE) {
        *out = tp_tensor_element(t, tp_tensor_data(t));
        return true;
    }
    PyObject *number = face_item(t);
    bool ok = number && read_number(number, d, out);
    Py_XDECREF(number);
    return ok;
}

static bool read_number(PyObject *o, tp_dtype d, tp_scalar *out)
{
    if (PyFloat_CheckExact(o)) {
        *out = tp_scalar_float(PyFloat_AS_DOUBLE(o));
        return true;
    }
    if (face_is_tensor(o)) {
        tp_tensor *t = face_tensor(o);
        if (t->numel != 1) {
            PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
            return false;
        }
        return read_element(t, d, out);
    }
    if (PyComplex_Check(o)) {
        if (!tp_dtype_is_complex(d)) {
            PyErr_Format(PyExc_TypeError, "must be real number, not complex");
            return false;
        }
        *out = (tp_scalar){ .kind = TP_KIND_COMPLEX, .c = { PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o) } };
        return true;
    }
    if (PyFloat_Check(o) || Py_IS_TYPE(o, face.sym_float) || (face_is_numpy_number(o) && !Py_TYPE(o)->tp_as_number->nb_index)) {
        double f = PyFloat_AsDouble(o);
        *out = tp_scalar_float(f);
        return f != -1 || !PyErr_Occurred();
    }
    if (tp_dtype_is_inexact(d) && PyLong_Check(o)) {
        double f = PyLong_AsDouble(o);
        *out = tp_scalar_float(f);
        return f != -1 || !PyErr_Occurred();
    }
    int64_t i;
    if (is_sequence(o)) {
        PyErr_Format(PyExc_TypeError, "'%s' object cannot be interpreted as an integer", Py_TYPE(o)->tp_name);
        return false;
    }
    if (!face_read_int(o, &i))
        return false;
    if (!PyBool_Check(o) && !in_range(d, i)) {
        PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
                     d == TP_u8 ? "uint8" : tp_dtypes[d].python);
        return false;
    }
    *out = tp_scalar_int(i);
    return true;
}

/* A tensor inside the nest stands for its one element. */
static bool fill_from_tensor(PyObject *o, const literal *l, int dim, char **at)
{
    tp_tensor *t = face_tensor(o);
    if (t->numel != 1 || dim != l->ndim) {
        PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
        return false;
    }
    tp_scalar number;
    if (!read_element(t, l->dtype, &number))
        return false;
    tp_scalar_write(number, *at, l->dtype);
    *at += tp_dtype_bytes(l->dtype);
    return true;
}

static bool fill(PyObject *o, const literal *l, int dim, char **at)
{
    if (dim == l->ndim) {
        tp_scalar s;
        if (!read_number(o, l->dtype, &s))
            return false;
        tp_scalar_write(s, *at, l->dtype);
        *at += tp_dtype_bytes(l->dtype);
        return true;
    }
    if (face_is_tensor(o))
        return fill_from_tensor(o, l, dim, at);
    PyObject *items = is_sequence(o) ? face_items(o, "not a sequence") : NULL;
    if (!items) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "not a sequence");
        return false;
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    bool ok = n == l->size[dim];
    if (!ok)
        PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)", LL(l->size[dim]), dim, n);
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = fill(PySequence_Fast_ITEMS(items)[i], l, dim + 1, at);
    Py_DECREF(items);
    return ok;
}

/* A text as the very first element counts as one more dim. */
static bool check_text(PyObject *data, const literal *l)
{
    PyObject *first = data;
    for (int i = 0; i < l->ndim && PySequence_Check(first) && !PyUnicode_Check(first) && PySequence_Size(first) > 0; i++) {
        PyObject *next = PyList_Check(first) ? PyList_GET_ITEM(first, 0) : PyTuple_Check(first) ? PyTuple_GET_ITEM(first, 0) : NULL;
        if (!next)
            return true;
        first = next;
    }
    if (!l->ndim || !PyUnicode_Check(first))
        return true;
    PyErr_SetString(PyExc_ValueError, "too many dimensions 'str'");
    return false;
}

static PyObject *from_nest(PyObject *data, tp_dtype dtype, tp_device device)
{
    literal l = { .ndim = 0, .dtype = TP_DTYPE_NONE };
    if (PyUnicode_Check(data) || PyBytes_Check(data))
        return PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(data)->tp_name);
    if (!find_shape(data, &l) || !check_text(data, &l) || (dtype == TP_DTYPE_NONE && !find_dtype(data, &l)))
        return NULL;
    if (dtype != TP_DTYPE_NONE)
        l.dtype = dtype;
    else if (l.dtype == TP_DTYPE_NONE)
        l.dtype = (tp_dtype)tp_the_runtime.default_dtype;
    tp_tensor *t = tp_tensor_new(l.dtype, l.ndim, l.size);
    if (!t)
        return face_raise();
    char *at = tp_tensor_data(t);
    if (t->numel && !fill(data, &l, 0, &at)) {
        tp_tensor_unref(t);
        return NULL;
    }
    if (device.type != TP_CPU) {
        tp_tensor *there = tp_tensor_new_on(device, l.dtype, l.ndim, l.size, NULL);
        tp_tensor_unref(t);
        t = there;
    }
    return face_wrap_or_raise(t);
}

/* Of a tensor or array: a copy in the wanted type. */
static PyObject *from_tensor(PyObject *taken, tp_dtype dtype, tp_device device, bool copy)
{
    if (!taken)
        return NULL;
    tp_tensor *t = face_tensor(taken);
    PyObject *result = NULL, *d = face_dtype(dtype == TP_DTYPE_NONE ? (tp_dtype)t->dtype : dtype), *where = face_device(device);
    PyObject *plain = PyObject_CallMethod(taken, "detach", NULL);
    if (plain && d && where)
        result = PyObject_CallMethod(plain, "to", "OOOO", where, d, Py_False, copy ? Py_True : Py_False);
    Py_XDECREF(plain);
    Py_XDECREF(d);
    Py_XDECREF(where);
    Py_DECREF(taken);
    return result;
}

/* Of what comes from outside, with its data: the layers see the tensor when it is there. */
static PyObject *from_outside(PyObject *taken, tp_dtype dtype, tp_device device, bool copy)
{
    uint32_t active = tp_self.active;
    tp_self.active = 0;
    PyObject *made = from_tensor(taken, dtype, device, copy);
    tp_self.active = active;
    return made;
}

PyObject *face_lifted(PyObject *taken)
{
    const tp_op *op = taken && tp_self.active ? tp_op_find("aten", "lift_fresh", "") : NULL;
    if (!op)
        return taken;
    tp_value arg = tp_of_tensor(face_tensor(taken));
    PyObject *result = face_call_op(op, &arg);
    Py_DECREF(taken);
    return result;
}

PyObject *face_literal(PyObject *data, tp_dtype dtype, tp_device device, bool copy)
{
    if (PyList_CheckExact(data) || PyTuple_CheckExact(data) || PyFloat_Check(data) || PyLong_Check(data))
        return from_nest(data, dtype, device);
    if (face_is_tensor(data))
        return from_tensor(Py_NewRef(data), dtype, device, copy);
    if (face_is_array(data) || PyObject_HasAttrString(data, "__array_interface__"))
        return from_outside(face_from_array(data, false), dtype, device, copy);
    if (PyObject_HasAttrString(data, "__dlpack__"))
        return from_outside(face_from_dlpack(data), dtype, device, copy);
    return from_nest(data, dtype, device);
}

/* ---- back ---- */
static PyObject *list_from(const tp_tensor *t, int dim, const char *at)
{
    size_t bytes = tp_dtype_bytes((tp_dtype)t->dtype);
    if (dim == t->ndim)
        return face_from_scalar(tp_tensor_element(t, at));
    PyObject *list = PyList_New((Py_ssize_t)t->size[dim]);
    for (int64_t i = 0; list && i < t->size[dim]; i++) {
        PyObject *item = list_from(t, dim + 1, at + i * t->stride[dim] * (int64_t)bytes);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static bool readable(const tp_tensor *t, const char *what)
{
    if (tp_is_batched(t)) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage");
        return false;
    }
    if (t->storage->kind != TP_MEMORY_NONE || !t->numel)
        return true;
    if (t->device.type == TP_META)
        PyErr_Format(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!");
    else
        PyErr_Format(PyExc_RuntimeError, "%s() needs data, and this tensor has none", what);
    return false;
}

/* Every element is a number of its own, asked for by calls that tracers see. */
static PyObject *fake_list(const tp_tensor *t)
{
    if (t->ndim == 0)
        return face_item(t);
    const tp_op *select = tp_op_find("aten", "select", "int");
    int64_t length;
    PyObject *list = sym_known_size(t, 0, &length) ? PyList_New(length) : NULL;
    for (int64_t i = 0; list && i < length; i++) {
        tp_value row = tp_none();
        bool ok = tp_call1(select, 3, (tp_value[]){ tp_of_tensor(t), tp_int(0), tp_int(i) }, &row);
        PyObject *item = ok ? fake_list(row.tensor) : face_raise();
        tp_value_unref(row);
        if (item)
            PyList_SET_ITEM(list, i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

PyObject *face_to_list(const tp_tensor *t)
{
    if (tp_is_fake(t))
        return fake_list(t);
    if ((t->keys & TP_ALL_LAYERS & ~TP_LAYER_BIT(TP_LAYER_GRAD)) && t->storage->kind == TP_MEMORY_NONE)
        return PyErr_Format(PyExc_RuntimeError, ".tolist() is not supported for tensor subclasses%s%s", t->wrapper ? ", got " : ".",
                            t->wrapper ? Py_TYPE((PyObject *)t->wrapper)->tp_name : "");
    return readable(t, "tolist") ? list_from(t, 0, tp_tensor_data(t)) : NULL;
}

/* A layer that watches sees the op; otherwise the element is read in place. */
PyObject *face_item(const tp_tensor *t)
{
    uint32_t watched = t->keys & TP_ALL_LAYERS & ~TP_LAYER_BIT(TP_LAYER_GRAD);
    /* jit.trace records no conversion to Python: it has warned where the user asked for one. */
    if (!watched && !(tp_self.active & ~TP_LAYER_BIT(TP_LAYER_JIT)))
        return readable(t, "item") ? face_from_scalar(tp_tensor_element(t, tp_tensor_data(t))) : NULL;
    const tp_op *op = tp_op_find("aten", "item", "");
    if (!op)
        return face_unimplemented("item() of a watched tensor");
    tp_value arg = tp_of_tensor(t);
    return face_call_op(op, &arg);
}
