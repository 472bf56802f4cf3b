/* dlpack.c - tensors to and from other libraries by the DLPack protocol.
 *
 * The structs are those of the DLPack specification (version 0.8 layout), written down here because the protocol is them. */
#include <string.h>

#include "base/alloc.h"
#include "python/face.h"

typedef struct dl_device { int32_t type, id; } dl_device;
typedef struct dl_type { uint8_t code, bits; uint16_t lanes; } dl_type;
typedef struct dl_tensor {
    void     *data;
    dl_device device;
    int32_t   ndim;
    dl_type   dtype;
    int64_t  *shape, *strides;
    uint64_t  byte_offset;
} dl_tensor;
typedef struct dl_managed {
    dl_tensor tensor;
    void     *context;
    void    (*deleter)(struct dl_managed *self);
} dl_managed;

enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

static dl_type type_of(tp_dtype d)
{
    uint8_t code = d == TP_bf16 ? DL_BFLOAT : d == TP_b8 ? DL_BOOL : d == TP_u8 ? DL_UINT
                 : tp_dtypes[d].kind == TP_KIND_INTEGER ? DL_INT : tp_dtypes[d].kind == TP_KIND_FLOAT ? DL_FLOAT : DL_COMPLEX;
    return (dl_type){ code, (uint8_t)(8 * tp_dtype_bytes(d)), 1 };
}

static tp_dtype dtype_of(dl_type t)
{
    for (int d = 0; d < TP_DTYPE_COUNT; d++) {
        dl_type own = type_of((tp_dtype)d);
        if (own.code == t.code && own.bits == t.bits && t.lanes == 1)
            return (tp_dtype)d;
    }
    return TP_DTYPE_NONE;
}

/* ---- out ---- */
typedef struct lent {
    dl_managed managed;
    tp_tensor *tensor;          /* counted: a view of its own, which has no Python object */
} lent;

static void end_loan(dl_managed *m)
{
    lent *l = m->context;
    tp_tensor_unref(l->tensor);
    tp_free(l);
}

static void capsule_free(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return;                 /* somebody took it, and calls the deleter */
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    m->deleter(m);
}

PyObject *face_to_dlpack(PyObject *tensor)
{
    tp_tensor *t = face_tensor(tensor);
    if (t->storage->kind == TP_MEMORY_NONE)
        return PyErr_Format(PyExc_BufferError, "Cannot pack tensors without data");
    lent *l = tp_alloc_zero(sizeof *l);
    if (!l || !(l->tensor = tp_tensor_alias(t))) {
        tp_free(l);
        return face_raise();
    }
    l->managed = (dl_managed){
        .tensor = { .data = t->storage->data ? tp_tensor_data(t) : NULL, .device = { DL_CPU, 0 }, .ndim = t->ndim,
                    .dtype = type_of((tp_dtype)t->dtype), .shape = l->tensor->size, .strides = l->tensor->stride },
        .context = l,
        .deleter = end_loan,
    };
    PyObject *capsule = PyCapsule_New(&l->managed, "dltensor", capsule_free);
    if (!capsule)
        end_loan(&l->managed);
    return capsule;
}

/* ---- in ---- */
static void give_back(void *owner)
{
    dl_managed *m = owner;
    PyGILState_STATE state = PyGILState_Ensure();
    if (m->deleter)
        m->deleter(m);
    PyGILState_Release(state);
}

static PyObject *from_capsule(PyObject *capsule)
{
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (!m)
        return NULL;
    const dl_tensor *d = &m->tensor;
    tp_dtype dtype = dtype_of(d->dtype);
    if (d->device.type != DL_CPU || dtype == TP_DTYPE_NONE || d->ndim > TP_MAX_DIMS)
        return PyErr_Format(PyExc_BufferError, "from_dlpack: this device or element type is not supported");
    int64_t reach = 1, stride[TP_MAX_DIMS];
    tp_strides_row_major(d->ndim, d->shape, stride);
    for (int i = 0; i < d->ndim; i++) {
        if (d->strides)
            stride[i] = d->strides[i];
        if (stride[i] < 0)
            return PyErr_Format(PyExc_BufferError, "from_dlpack: negative strides are not supported");
        reach = d->shape[i] == 0 || reach == 0 ? 0 : reach + (d->shape[i] - 1) * stride[i];
    }
    if (PyCapsule_SetName(capsule, "used_dltensor") < 0)
        return NULL;
    tp_storage *s = tp_storage_take_foreign((char *)d->data + d->byte_offset, (size_t)reach * tp_dtype_bytes(dtype), m, give_back);
    return face_wrap_or_raise(s ? tp_tensor_take_storage(s, dtype, d->ndim, d->shape, stride, 0) : NULL);
}

PyObject *face_from_dlpack(PyObject *o)
{
    if (PyCapsule_CheckExact(o))
        return from_capsule(o);
    PyObject *capsule = PyObject_CallMethod(o, "__dlpack__", NULL);
    PyObject *made = capsule ? from_capsule(capsule) : NULL;
    Py_XDECREF(capsule);
    return made;
}

static PyObject *from_dlpack(PyObject *module, PyObject *o)
{
    (void)module;
    return face_from_dlpack(o);
}

static PyObject *to_dlpack(PyObject *module, PyObject *o)
{
    (void)module;
    if (!face_is_tensor(o))
        return PyErr_Format(PyExc_TypeError, "to_dlpack(): argument must be Tensor, not %s", Py_TYPE(o)->tp_name);
    return face_to_dlpack(o);
}

static PyMethodDef functions[] = {
    { "_from_dlpack", from_dlpack, METH_O, NULL },
    { "_to_dlpack", to_dlpack, METH_O, NULL },
    { 0 },
};

bool face_dlpack_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
