/* numpy.c - arrays share memory with tensors, both ways, through the buffer protocol; numpy is imported by whom it concerns.
 *
 * An array is read by its buffer, and kept alive by the storage. A tensor is shown to numpy through an object that exports
 * a buffer and holds the tensor; asarray of it gives the array. */
#include <string.h>

#include "python/face.h"
#include "trace/fake.h"

bool face_is_array(PyObject *o)
{
    const PyTypeObject *type = Py_TYPE(o);
    for (; type; type = type->tp_base)
        if (strcmp(type->tp_name, "numpy.ndarray") == 0)
            return true;
    return false;
}

/* ---- arrays to tensors ---- */
static tp_dtype buffer_dtype(const Py_buffer *b)
{
    const char *format = b->format ? b->format : "B";
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    for (int d = 0; d < TP_DTYPE_COUNT; d++)
        if (d != TP_bf16 && strcmp(format, tp_dtypes[d].format) == 0 && (Py_ssize_t)tp_dtype_bytes((tp_dtype)d) == b->itemsize)
            return (tp_dtype)d;
    if (strcmp(format, "l") == 0)
        return b->itemsize == 8 ? TP_i64 : TP_i32;
    return TP_DTYPE_NONE;
}

static void release_buffer(void *owner)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(owner);
    PyMem_RawFree(owner);
    PyGILState_Release(state);
}

static PyObject *wrong_array(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");
    PyErr_Format(PyExc_TypeError, "can't convert np.ndarray of type %S. The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.",
                 dtype ? dtype : Py_None);
    Py_XDECREF(dtype);
    return NULL;
}

/* Takes the buffer: strides must be whole elements and not negative. */
static PyObject *tensor_of_buffer(Py_buffer *taken, tp_dtype d)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS], reach = 1;
    for (int i = 0; i < taken->ndim; i++) {
        size[i] = taken->shape[i];
        stride[i] = taken->strides ? taken->strides[i] / taken->itemsize : 1;
        if (taken->strides && taken->strides[i] % taken->itemsize) {
            release_buffer(taken);
            return PyErr_Format(PyExc_ValueError, "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.");
        }
        if (stride[i] < 0) {
            release_buffer(taken);
            return PyErr_Format(PyExc_ValueError, "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. (You can probably work around this by making a copy of your array  with array.copy().) ");
        }
        reach = size[i] == 0 ? 0 : reach ? reach + (size[i] - 1) * stride[i] : 0;
    }
    tp_storage *s = tp_storage_take_foreign(taken->buf, (size_t)(reach * taken->itemsize), taken, release_buffer);
    return face_wrap_or_raise(s ? tp_tensor_take_storage(s, d, taken->ndim, size, stride, 0) : NULL);
}

PyObject *face_from_array(PyObject *array, bool warn)
{
    PyObject *source = face_is_array(array) ? Py_NewRef(array) : NULL;
    if (!source) {          /* __array_interface__: numpy makes an array of it */
        PyObject *numpy = PyImport_ImportModule("numpy");
        source = numpy ? PyObject_CallMethod(numpy, "asarray", "O", array) : NULL;
        Py_XDECREF(numpy);
        if (!source)
            return NULL;
    }
    Py_buffer *b = PyMem_RawCalloc(1, sizeof *b);
    if (!b) {
        Py_DECREF(source);
        return PyErr_NoMemory();
    }
    bool writable = PyObject_GetBuffer(source, b, PyBUF_RECORDS) == 0;
    if (!writable) {
        PyErr_Clear();
        if (PyObject_GetBuffer(source, b, PyBUF_RECORDS_RO) < 0) {
            PyMem_RawFree(b);
            PyErr_Clear();
            wrong_array(source);
            Py_DECREF(source);
            return NULL;
        }
    }
    tp_dtype d = buffer_dtype(b);
    if (d == TP_DTYPE_NONE || b->ndim > TP_MAX_DIMS) {
        release_buffer(b);
        wrong_array(source);
        Py_DECREF(source);
        return NULL;
    }
    Py_DECREF(source);
    if (!writable && warn &&
        PyErr_WarnEx(PyExc_UserWarning, "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing to this tensor will result in undefined behavior. You may want to copy the array to protect its data or make it writable before converting it to a tensor. This type of warning will be suppressed for the rest of this program.", 1) < 0) {
        release_buffer(b);
        return NULL;
    }
    return tensor_of_buffer(b, d);
}

static PyObject *from_numpy(PyObject *module, PyObject *array)
{
    (void)module;
    if (!face_is_array(array))
        return PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(array)->tp_name);
    return face_lifted(face_from_array(array, true));
}

/* frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False) */
static PyObject *from_buffer(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "buffer", "dtype", "count", "offset", "requires_grad", NULL };
    PyObject *source, *dtype = NULL;
    Py_ssize_t count = -1, offset = 0;
    int requires_grad = 0;
    tp_dtype d;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Onnp", names, &source, &dtype, &count, &offset, &requires_grad))
        return NULL;
    if (!dtype)
        return PyErr_Format(PyExc_TypeError, "frombuffer() missing required keyword-only argument: 'dtype'");
    if (!face_dtype_read(dtype, &d))
        return NULL;
    Py_buffer *b = PyMem_RawCalloc(1, sizeof *b);
    if (!b)
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(source, b, PyBUF_WRITABLE) < 0) {
        PyErr_Clear();
        if (PyObject_GetBuffer(source, b, PyBUF_SIMPLE) < 0) {
            PyMem_RawFree(b);
            return NULL;
        }
    }
    Py_ssize_t item = (Py_ssize_t)tp_dtype_bytes(d);
    PyObject *failed = NULL;
    if (b->len == 0 || count == 0)
        failed = PyErr_Format(PyExc_ValueError, "both buffer length (%zd) and count (%zd) must not be 0", b->len, count);
    else if (offset < 0 || offset >= b->len)
        failed = PyErr_Format(PyExc_ValueError, "offset (%zd bytes) must be non-negative and no greater than buffer length (%zd bytes) minus 1", offset, b->len);
    else if (count > 0 && count > (b->len - offset) / item)
        failed = PyErr_Format(PyExc_ValueError, "requested buffer length (%zd * %zd bytes) after offset (%zd bytes) must not be greater than actual buffer length (%zd bytes)", count, item, offset, b->len);
    else if (count < 0 && (b->len - offset) % item)
        failed = PyErr_Format(PyExc_ValueError, "buffer length (%zd bytes) after offset (%zd bytes) must be a multiple of element size (%zd)", b->len, offset, item);
    if (PyErr_Occurred()) {
        release_buffer(b);
        return failed;
    }
    int64_t n = count < 0 ? (b->len - offset) / item : count;
    tp_storage *s = tp_storage_take_foreign((char *)b->buf + offset, (size_t)(n * item), b, release_buffer);
    PyObject *made = face_wrap_or_raise(s ? tp_tensor_take_storage(s, d, 1, &n, NULL, 0) : NULL);
    if (made && requires_grad) {
        PyObject *same = PyObject_CallMethod(made, "requires_grad_", NULL);
        Py_DECREF(made);
        made = same;
    }
    return made;
}

/* ---- tensors to arrays ---- */
typedef struct exporter {
    PyObject_HEAD
    PyObject  *tensor;          /* counted */
    Py_ssize_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
} exporter;

static int exporter_buffer(PyObject *self, Py_buffer *view, int flags)
{
    exporter *e = (exporter *)self;
    tp_tensor *t = face_tensor(e->tensor);
    Py_ssize_t item = (Py_ssize_t)tp_dtype_bytes((tp_dtype)t->dtype);
    (void)flags;
    *view = (Py_buffer){
        .buf = t->storage->data ? tp_tensor_data(t) : (void *)t->storage->small,
        .obj = Py_NewRef(self),
        .len = (Py_ssize_t)t->numel * item,
        .itemsize = item,
        .ndim = t->ndim,
        .format = (char *)tp_dtypes[t->dtype].format,
        .shape = e->size,
        .strides = e->stride,
    };
    return 0;
}

static void exporter_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((exporter *)self)->tensor);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot exporter_slots[] = {
    { Py_tp_dealloc, exporter_dealloc }, { Py_bf_getbuffer, exporter_buffer }, { 0, NULL },
};
static PyType_Spec exporter_spec = {
    .name = "_C._BufferOfTensor", .basicsize = sizeof(exporter), .slots = exporter_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

static PyObject *array_of(PyObject *tensor)
{
    tp_tensor *t = face_tensor(tensor);
    exporter *e = (exporter *)face.exporter->tp_alloc(face.exporter, 0);
    PyObject *numpy = e ? PyImport_ImportModule("numpy") : NULL, *array = NULL;
    if (numpy) {
        e->tensor = Py_NewRef(tensor);
        for (int i = 0; i < t->ndim; i++) {
            e->size[i] = (Py_ssize_t)t->size[i];
            e->stride[i] = (Py_ssize_t)t->stride[i] * (Py_ssize_t)tp_dtype_bytes((tp_dtype)t->dtype);
        }
        array = PyObject_CallMethod(numpy, "asarray", "O", e);
    }
    Py_XDECREF(numpy);
    Py_XDECREF(e);
    return array;
}

/* Of a tensor whose elements are in memory as they are meant. */
static PyObject *plain_array(PyObject *tensor, bool force)
{
    tp_tensor *t = face_tensor(tensor);
    if (tp_is_fake(t) || (t->keys & TP_LAYER_BIT(TP_LAYER_DISPATCH)))
        return PyErr_Format(PyExc_RuntimeError, ".numpy() is not supported for tensor subclasses.");
    if (t->storage->kind == TP_MEMORY_NONE && t->numel)
        return PyErr_Format(PyExc_TypeError, "can't convert %s device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
                            t->device.type == TP_META ? "meta" : "this");
    if (t->dtype == TP_bf16)
        return PyErr_Format(PyExc_TypeError, "Got unsupported ScalarType BFloat16");
    if (t->keys & TP_LAYER_BIT(TP_LAYER_GRAD)) {
        PyObject *wants = PyObject_GetAttrString(tensor, "requires_grad");
        bool on = wants == Py_True;
        Py_XDECREF(wants);
        if (on && !force && tp_self.grad_mode)
            return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
        if (on) {
            PyObject *plain = PyObject_CallMethod(tensor, "detach", NULL);
            PyObject *array = plain ? array_of(plain) : NULL;
            Py_XDECREF(plain);
            return array;
        }
    }
    return array_of(tensor);
}

PyObject *face_to_array(PyObject *tensor, bool force)
{
    const tp_tensor *t = face_tensor(tensor);
    if (TP_LIKELY(!tp_signs(t)) || tp_is_fake(t))
        return plain_array(tensor, force);
    bool conj = t->keys & TP_KEY_CONJ;
    if (!force)
        return PyErr_Format(PyExc_RuntimeError, "Can't call numpy() on Tensor that has %s bit set. Use tensor.resolve_%s().numpy() instead.",
                            conj ? "conjugate" : "negative", conj ? "conj" : "neg");
    PyObject *copy = PyObject_CallMethod(tensor, "clone", NULL), *array = copy ? plain_array(copy, force) : NULL;
    Py_XDECREF(copy);
    return array;
}

static PyMethodDef functions[] = {
    { "from_numpy", from_numpy, METH_O, NULL },
    { "frombuffer", (PyCFunction)(void (*)(void))from_buffer, METH_VARARGS | METH_KEYWORDS, NULL },
    { 0 },
};

bool face_numpy_init(PyObject *module)
{
    face.exporter = face_make_type(module, &exporter_spec, NULL);
    return face.exporter && PyModule_AddFunctions(module, functions) == 0;
}
