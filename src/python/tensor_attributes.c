/* tensor_attributes.c - x.shape, x.dtype, x.grad and the like. */
#include "grad/tape.h"
#include "python/face.h"
#include "trace/vmap_level.h"
#include "ops/symbolic.h"

/* An attribute that Python does not override is read here; otherwise __torch_function__ is asked. */
#define ATTRIBUTE(name)                                                             \
    static PyObject *read_##name(PyObject *self, tp_tensor *t);                     \
    static PyObject *get_##name(PyObject *self, void *unused)                       \
    {                                                                               \
        (void)unused;                                                               \
        if (TP_UNLIKELY(face_overridden(self)))                                     \
            return face_override_attribute(self, #name, NULL);                      \
        return read_##name(self, face_tensor(self));                                \
    }                                                                               \
    static PyObject *read_##name(PyObject *self TP_UNUSED, tp_tensor *t TP_UNUSED)
#define TP_UNUSED __attribute__((unused))

#define SETTER(name)                                                                \
    static int write_##name(PyObject *self, tp_tensor *t, PyObject *value);         \
    static int set_##name(PyObject *self, PyObject *value, void *unused)            \
    {                                                                               \
        (void)unused;                                                               \
        if (TP_UNLIKELY(face_overridden(self)) && value) {                          \
            PyObject *done = face_override_attribute(self, #name, value);           \
            Py_XDECREF(done);                                                       \
            return done ? 0 : -1;                                                   \
        }                                                                           \
        return write_##name(self, face_tensor(self), value);                        \
    }                                                                               \
    static int write_##name(PyObject *self TP_UNUSED, tp_tensor *t TP_UNUSED, PyObject *value)

/* ---- geometry and type ---- */
ATTRIBUTE(shape)
{
    PyObject *answer = Py_None;
    if (TP_UNLIKELY(t->keys & TP_KEY_ASKS_SIZES) && (answer = face_ask_class(self, "aten", "sym_size")) != Py_None)
        return answer ? face_as_size(answer) : NULL;
    return TP_UNLIKELY(face_is_traced()) ? face_jit_sizes(t) : face_size_of(t);
}
ATTRIBUTE(_has_symbolic_sizes_strides) { return PyBool_FromLong((t->keys & TP_KEY_SYMBOLIC) != 0); }
ATTRIBUTE(ndim) { ASK_CLASS(SIZES, "aten", "dim") return PyLong_FromLong(t->ndim); }
ATTRIBUTE(dtype) { return face_dtype((tp_dtype)t->dtype); }
ATTRIBUTE(device) { ASK_CLASS(DEVICE, "prim", "device") return face_device(t->device); }
ATTRIBUTE(layout) { ASK_CLASS(LAYOUT, "prim", "layout") return Py_NewRef(face.layouts[LAYOUT_STRIDED]); }
ATTRIBUTE(fake_mode)
{
    PyObject *mode = face_fake_mode(t);
    return mode ? Py_NewRef(mode) : PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'fake_mode'", Py_TYPE(self)->tp_name);
}

ATTRIBUTE(fake_device)
{
    return face_fake_mode(t) ? face_device(t->device)
                             : PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'fake_device'", Py_TYPE(self)->tp_name);
}
SETTER(fake_device)
{
    tp_device d;
    if (!value || !face_fake_mode(t)) {
        PyErr_SetString(PyExc_AttributeError, "fake_device is an attribute of fake tensors");
        return -1;
    }
    if (!face_device_read(value, &d))
        return -1;
    t->device = d;
    return 0;
}
ATTRIBUTE(itemsize) { return PyLong_FromSize_t(tp_dtype_bytes((tp_dtype)t->dtype)); }
ATTRIBUTE(nbytes)
{
    tp_sym all = tp_sym_int((int64_t)tp_dtype_bytes((tp_dtype)t->dtype));
    if (TP_LIKELY(!tp_tensor_is_symbolic(t)))
        return PyLong_FromLongLong(t->numel * tp_sym_as_int(all));
    for (int i = 0; i < t->ndim; i++)
        all = tp_sym_mul(all, t->symbolic->size[i]);
    return face_sym(all);
}
ATTRIBUTE(is_cpu) { return PyBool_FromLong(t->device.type == TP_CPU); }
ATTRIBUTE(is_meta) { return PyBool_FromLong(t->device.type == TP_META); }
ATTRIBUTE(is_cuda) { return PyBool_FromLong(t->device.type == TP_CUDA); }
ATTRIBUTE(is_mps) { return PyBool_FromLong(t->device.type == TP_MPS); }
ATTRIBUTE(is_xpu) { return PyBool_FromLong(t->device.type == TP_XPU); }

static PyObject *get_false(PyObject *self, void *unused)
{
    (void)self, (void)unused;
    Py_RETURN_FALSE;
}

static PyObject *get_none(PyObject *self, void *unused)
{
    (void)self, (void)unused;
    Py_RETURN_NONE;
}

/* ---- views ---- */
static PyObject *permuted(PyObject *self, tp_tensor *t)
{
    PyObject *dims = PyTuple_New(t->ndim);
    for (int i = 0; dims && i < t->ndim; i++)
        PyTuple_SET_ITEM(dims, i, PyLong_FromLong(t->ndim - 1 - i));
    PyObject *result = dims ? face_call_method("permute", self, &dims, 1) : NULL;
    Py_XDECREF(dims);
    return result;
}

static PyObject *swapped(PyObject *self)
{
    PyObject *dims[2] = { PyLong_FromLong(-2), PyLong_FromLong(-1) };
    PyObject *result = face_call_method("transpose", self, dims, 2);
    Py_DECREF(dims[0]);
    Py_DECREF(dims[1]);
    return result;
}

ATTRIBUTE(T)
{
    if (t->ndim != 2 && t->ndim != 0 &&
        PyErr_WarnFormat(PyExc_UserWarning, 1, "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.") < 0)
        return NULL;
    return permuted(self, t);
}

/* A number has no sides to exchange. */
static PyObject *number_itself(PyObject *self, const char *name, const char *instead)
{
    bool warned = PyErr_WarnFormat(PyExc_UserWarning, 1, "Tensor.%s is deprecated on 0-D tensors. %s", name, instead) == 0;
    return warned ? Py_NewRef(self) : NULL;
}

ATTRIBUTE(mT)
{
    if (t->ndim == 0)
        return number_itself(self, "mT", "This function is the identity in these cases.");
    if (t->ndim == 1)
        return PyErr_Format(PyExc_RuntimeError, "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.", t->ndim);
    return swapped(self);
}

static PyObject *conjugated(PyObject *taken)
{
    if (!taken || !tp_dtype_is_complex((tp_dtype)face_tensor(taken)->dtype))
        return taken;
    PyObject *result = face_call_method("conj", taken, NULL, 0);
    Py_DECREF(taken);
    return result;
}

ATTRIBUTE(H)
{
    if (t->ndim != 2 && t->ndim != 0)
        return PyErr_Format(PyExc_RuntimeError, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s", t->ndim,
                            t->ndim > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    return conjugated(t->ndim ? swapped(self) : Py_NewRef(self));
}

ATTRIBUTE(mH)
{
    if (t->ndim == 0)
        return conjugated(number_itself(self, "mH", "Consider using x.conj()."));
    if (t->ndim == 1)
        return PyErr_Format(PyExc_RuntimeError, "tensor.mH is only supported on matrices or batches of matrices. Got %d-D tensor.", t->ndim);
    return conjugated(swapped(self));
}

ATTRIBUTE(real)
{
    return tp_dtype_is_complex((tp_dtype)t->dtype) ? face_call_method("real", self, NULL, 0) : Py_NewRef(self);
}

ATTRIBUTE(imag)
{
    if (!tp_dtype_is_complex((tp_dtype)t->dtype))
        return PyErr_Format(PyExc_RuntimeError, "imag is not implemented for tensors with non-complex dtypes.");
    return face_call_method("imag", self, NULL, 0);
}

/* ---- gradients ---- */
ATTRIBUTE(requires_grad) { return PyBool_FromLong(tp_requires_grad(t)); }

SETTER(requires_grad)
{
    if (!value || !PyBool_Check(value)) {
        PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
        return -1;
    }
    if (!tp_is_leaf(t) && value == Py_False) {
        PyErr_SetString(PyExc_RuntimeError, "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().");
        return -1;
    }
    if (!tp_is_leaf(t))
        return 0;
    if (value == Py_True && !tp_dtype_is_inexact((tp_dtype)t->dtype)) {
        PyErr_SetString(PyExc_RuntimeError, "only Tensors of floating point and complex dtype can require gradients");
        return -1;
    }
    if (!tp_set_requires_grad(t, value == Py_True)) {
        face_raise();
        return -1;
    }
    return 0;
}

ATTRIBUTE(is_leaf) { return PyBool_FromLong(tp_is_leaf(t)); }
ATTRIBUTE(retains_grad) { return PyBool_FromLong(t->autograd && t->autograd->retains_grad); }
ATTRIBUTE(_version)
{
    if (t->keys & TP_KEY_INFERENCE)
        return PyErr_Format(PyExc_RuntimeError, "Inference tensors do not track version counter.");
    return PyLong_FromUnsignedLong(tp_version(t));
}

static PyObject *gradient(tp_tensor *t)
{
    tp_tensor *grad = t->autograd ? t->autograd->grad : NULL;
    return grad ? face_wrap(tp_tensor_ref(grad)) : Py_NewRef(Py_None);
}

ATTRIBUTE(grad)
{
    if (!tp_is_leaf(t) && !(t->autograd && t->autograd->retains_grad) && !(t->autograd && t->autograd->grad) &&
        PyErr_WarnEx(PyExc_UserWarning, "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more informations.", 1) < 0)
        return NULL;
    return gradient(t);
}

ATTRIBUTE(_grad) { return gradient(t); }

static int write_gradient(tp_tensor *t, PyObject *value)
{
    if (value && value != Py_None && !face_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s", Py_TYPE(value)->tp_name);
        return -1;
    }
    if (!tp_set_grad(t, value && value != Py_None ? face_tensor(value) : NULL)) {
        face_raise();
        return -1;
    }
    return 0;
}

SETTER(grad) { return write_gradient(t, value); }
SETTER(_grad) { return write_gradient(t, value); }

ATTRIBUTE(grad_fn)
{
    tp_grad_node *node;
    uint32_t slot;
    if (!tp_grad_fn(t, &node, &slot))
        return face_raise();
    return face_node(node);
}

ATTRIBUTE(output_nr)
{
    tp_grad_node *node;
    uint32_t slot = 0;
    if (!tp_grad_fn(t, &node, &slot))
        return face_raise();
    return PyLong_FromUnsignedLong(node ? tp_grad_output(node, slot) : 0);
}

ATTRIBUTE(_base)
{
    tp_tensor *base = t->autograd ? t->autograd->view_base : NULL;
    return base ? face_wrap(tp_tensor_ref(base)) : Py_NewRef(Py_None);
}

/* ---- data: the same elements without history, with a version of their own ---- */
ATTRIBUTE(data)
{
    if (tp_is_batched(t))
        return PyErr_Format(PyExc_RuntimeError, "accessing `data` under vmap transform is not allowed");
    if (t->keys & TP_LAYER_BIT(TP_LAYER_DISPATCH)) {        /* only the class can make another of its kind */
        const tp_op *detach = tp_op_find("aten", "detach", "");
        tp_value arg = tp_of_tensor(t), result;
        return detach && tp_call(detach, &arg, &result) ? face_from_value(result) : face_raise();
    }
    tp_tensor *plain = tp_data(t);
    return plain ? face_wrap(plain) : face_raise();
}

SETTER(data)
{
    if (!value || !face_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s", value ? Py_TYPE(value)->tp_name : "nothing");
        return -1;
    }
    tp_tensor *from = face_tensor(value);
    if (from->device.type != t->device.type && (from->device.type != TP_CPU || t->device.type != TP_CPU)) {
        PyErr_SetString(PyExc_RuntimeError, "incompatible tensor type");
        return -1;
    }
    bool ok = tp_set_data(t, from);
    if (!ok)
        face_raise();
    return ok ? 0 : -1;
}

static PyObject *get_cdata(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(face_tensor(self));
}

static PyObject *get_hooks(PyObject *self, void *unused)
{
    (void)unused;
    return face_backward_hooks(self);
}

static int set_hooks(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    return face_set_backward_hooks(self, value);
}

PyGetSetDef face_tensor_attributes[] = {
    { "shape", get_shape, NULL, NULL, NULL },
    { "ndim", get_ndim, NULL, NULL, NULL },
    { "dtype", get_dtype, NULL, NULL, NULL },
    { "device", get_device, NULL, NULL, NULL },
    { "layout", get_layout, NULL, NULL, NULL },
    { "fake_mode", get_fake_mode, NULL, NULL, NULL },
    { "fake_device", get_fake_device, set_fake_device, NULL, NULL },
    { "itemsize", get_itemsize, NULL, NULL, NULL },
    { "nbytes", get_nbytes, NULL, NULL, NULL },
    { "is_cpu", get_is_cpu, NULL, NULL, NULL },
    { "is_meta", get_is_meta, NULL, NULL, NULL },
    { "is_cuda", get_is_cuda, NULL, NULL, NULL },
    { "is_mps", get_is_mps, NULL, NULL, NULL },
    { "is_xpu", get_is_xpu, NULL, NULL, NULL },
    { "is_sparse", get_false, NULL, NULL, NULL },
    { "is_sparse_csr", get_false, NULL, NULL, NULL },
    { "is_quantized", get_false, NULL, NULL, NULL },
    { "is_mkldnn", get_false, NULL, NULL, NULL },
    { "is_nested", get_false, NULL, NULL, NULL },
    { "is_vulkan", get_false, NULL, NULL, NULL },
    { "is_xla", get_false, NULL, NULL, NULL },
    { "is_ipu", get_false, NULL, NULL, NULL },
    { "is_hpu", get_false, NULL, NULL, NULL },
    { "is_mtia", get_false, NULL, NULL, NULL },
    { "is_maia", get_false, NULL, NULL, NULL },
    { "_has_symbolic_sizes_strides", get__has_symbolic_sizes_strides, NULL, NULL, NULL },
    { "name", get_none, NULL, NULL, NULL },
    { "T", get_T, NULL, NULL, NULL },
    { "mT", get_mT, NULL, NULL, NULL },
    { "H", get_H, NULL, NULL, NULL },
    { "mH", get_mH, NULL, NULL, NULL },
    { "real", get_real, NULL, NULL, NULL },
    { "imag", get_imag, NULL, NULL, NULL },
    { "requires_grad", get_requires_grad, set_requires_grad, NULL, NULL },
    { "is_leaf", get_is_leaf, NULL, NULL, NULL },
    { "retains_grad", get_retains_grad, NULL, NULL, NULL },
    { "_version", get__version, NULL, NULL, NULL },
    { "grad", get_grad, set_grad, NULL, NULL },
    { "_grad", get__grad, set__grad, NULL, NULL },
    { "grad_fn", get_grad_fn, NULL, NULL, NULL },
    { "output_nr", get_output_nr, NULL, NULL, NULL },
    { "_base", get__base, NULL, NULL, NULL },
    { "data", get_data, set_data, NULL, NULL },
    { "_cdata", get_cdata, NULL, NULL, NULL },
    { "_backward_hooks", get_hooks, set_hooks, NULL, NULL },
    { 0 },
};
