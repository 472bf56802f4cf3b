/* tensor_methods.c - methods that are no ops: sizes, conversions to Python, subclasses. Ops join them in call.c. */
#include <string.h>

#include "grad/tape.h"
#include "ops/symbolic.h"
#include "python/face.h"
#include "trace/jvp_level.h"
#include "trace/level.h"
#include "trace/vmap_level.h"

#define FAST(f) ((PyCFunction)(void (*)(void))(f))

/* A method whose calls Python may override; `args` and `count` without self. */
#define METHOD(name)                                                                                           \
    static PyObject *run_##name(PyObject *self, tp_tensor *t, PyObject *const *args, Py_ssize_t count, PyObject *kwnames); \
    static PyObject *call_##name(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)   \
    {                                                                                                          \
        if (TP_UNLIKELY(face_overridden(self)))                                                                \
            return face_override_method(self, #name, args, count, kwnames);                                    \
        return run_##name(self, face_tensor(self), args, count, kwnames);                                      \
    }                                                                                                          \
    static PyObject *run_##name(PyObject *self TP_UNUSED, tp_tensor *t TP_UNUSED, PyObject *const *args TP_UNUSED, \
                                Py_ssize_t count TP_UNUSED, PyObject *kwnames TP_UNUSED)
#define TP_UNUSED __attribute__((unused))
/* A method without arguments. */
#define BARE(name)                                                                                             \
    static PyObject *bare_##name(PyObject *self, tp_tensor *t);                                                \
    METHOD(name)                                                                                               \
    {                                                                                                          \
        return count || kwnames ? refuse_arguments(#name, count, kwnames) : bare_##name(self, t);              \
    }                                                                                                          \
    static PyObject *bare_##name(PyObject *self TP_UNUSED, tp_tensor *t TP_UNUSED)
#define ENTRY(name) { #name, FAST(call_##name), METH_FASTCALL | METH_KEYWORDS, NULL }

/* ---- arguments of hand-written methods ---- */

static PyObject *refuse_arguments(const char *name, Py_ssize_t count, PyObject *kwnames)
{
    if (kwnames)
        return PyErr_Format(PyExc_TypeError, "TensorBase.%s() takes no keyword arguments", name);
    return PyErr_Format(PyExc_TypeError, "TensorBase.%s() takes no arguments (%zd given)", name, count);
}

/* Are there no more than `most` arguments by position, and none by a name that is not in `names`? Between `least` and `most` are optional. */
static bool only_arguments(const char *method, int least, int most, Py_ssize_t count, PyObject *kwnames, const char *const *names)
{
    const char *ending = most == 1 ? "" : "s", *were = count == 1 ? "was" : "were";
    if (count > most && least == most)
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd %s given", method, most, ending, count, were);
    else if (count > most)
        PyErr_Format(PyExc_TypeError, "%s() takes from %d to %d positional arguments but %zd %s given", method, least, most, count, were);
    for (Py_ssize_t k = 0; kwnames && count <= most && k < PyTuple_GET_SIZE(kwnames); k++) {
        const char *const *name = names;
        while (*name && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), *name) != 0)
            name++;
        if (!*name) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method, PyTuple_GET_ITEM(kwnames, k));
            return false;
        }
    }
    return count <= most;
}
#define TAKES(method, least, most, ...)                                                                        \
    if (TP_UNLIKELY(count > (most) || kwnames) &&                                                              \
        !only_arguments(method, least, most, count, kwnames, (const char *const[]){ __VA_ARGS__, NULL }))      \
        return NULL;

/* The argument at `position` or called `name`; NULL when absent. */
PyObject *face_argument(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, Py_ssize_t position, const char *name)
{
    if (position >= 0 && position < count)
        return args[position];
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), name) == 0)
            return args[count + k];
    return NULL;
}

static bool wrong_argument(const char *method, const char *name, int position, const char *wanted, PyObject *given)
{
    PyErr_Format(PyExc_TypeError, "%s(): argument '%s' (position %d) must be %s, not %s", method, name, position, wanted,
                 Py_TYPE(given)->tp_name);
    return false;
}

static bool wrap_dim(int64_t *dim, int ndim)
{
    int64_t range = ndim ? ndim : 1;
    if (*dim < -range || *dim >= range) {
        PyErr_Format(PyExc_IndexError, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
                     LL(-range), LL(range - 1), LL(*dim));
        return false;
    }
    if (*dim < 0)
        *dim += range;
    return true;
}

/* ---- sizes ---- */
static PyObject *all_strides(const tp_tensor *t)
{
    PyObject *all = PyTuple_New(t->ndim);
    for (int i = 0; all && i < t->ndim; i++) {
        PyObject *item = face_sym(tp_tensor_sym_stride(t, i));
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}

static PyObject *one_or_all(const char *method, tp_tensor *t, PyObject *dim, bool strides)
{
    if (!dim || dim == Py_None)
        return strides ? all_strides(t) : face_is_traced() ? face_jit_sizes(t) : face_size_of(t);
    int64_t d;
    if (!face_is_int(dim)) {
        wrong_argument(method, "dim", 1, "int", dim);
        return NULL;
    }
    if (!face_read_int(dim, &d))
        return NULL;
    if (t->ndim == 0)
        return PyErr_Format(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions", LL(d));
    if (!wrap_dim(&d, t->ndim))
        return NULL;
    if (!strides && face_is_traced())
        return face_jit_size(t, (int)d);
    return face_sym(strides ? tp_tensor_sym_stride(t, (int)d) : tp_tensor_sym_size(t, (int)d));
}

static PyObject *count_elements(const tp_tensor *t)
{
    tp_sym all = tp_sym_int(1);
    if (TP_UNLIKELY(face_is_traced()))
        return face_jit_numel(t);
    if (!tp_tensor_is_symbolic(t))
        return PyLong_FromLongLong(t->numel);
    for (int i = 0; i < t->ndim; i++)
        all = tp_sym_mul(all, t->symbolic->size[i]);
    return face_sym(all);
}

static PyObject *one_of(PyObject *all, PyObject *dim)       /* takes the answer of a class */
{
    PyObject *one = all && dim && dim != Py_None ? PyObject_GetItem(all, dim) : Py_XNewRef(all);
    Py_XDECREF(all);
    return one;
}

METHOD(size)
{
    TAKES("size", 0, 1, "dim")
    PyObject *dim = face_argument(args, count, kwnames, 0, "dim"), *answer = Py_None;
    if (TP_UNLIKELY(t->keys & TP_KEY_ASKS_SIZES) && (answer = face_ask_class(self, "aten", "sym_size")) != Py_None)
        return one_of(answer && !(dim && dim != Py_None) ? face_as_size(answer) : answer, dim);
    return one_or_all("size", t, dim, false);
}

METHOD(stride)
{
    TAKES("stride", 0, 1, "dim")
    PyObject *dim = face_argument(args, count, kwnames, 0, "dim"), *answer = Py_None;
    if (TP_UNLIKELY(t->keys & TP_KEY_ASKS_STRIDES) && (answer = face_ask_class(self, "aten", "sym_stride")) != Py_None)
        return one_of(answer, dim);
    return one_or_all("stride", t, dim, true);
}

BARE(dim) { ASK_CLASS(SIZES, "aten", "dim") return PyLong_FromLong(t->ndim); }
BARE(ndimension) { ASK_CLASS(SIZES, "aten", "dim") return PyLong_FromLong(t->ndim); }
BARE(numel) { ASK_CLASS(SIZES, "aten", "sym_numel") return count_elements(t); }
BARE(nelement) { ASK_CLASS(SIZES, "aten", "sym_numel") return count_elements(t); }
BARE(element_size) { return PyLong_FromSize_t(tp_dtype_bytes((tp_dtype)t->dtype)); }
BARE(storage_offset) { ASK_CLASS(SIZES, "aten", "sym_storage_offset") return face_sym(tp_tensor_sym_offset(t)); }
BARE(data_ptr)
{
    if (tp_is_batched(t))
        return PyErr_Format(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage");
    return PyLong_FromVoidPtr(t->storage->data ? tp_tensor_data(t) : NULL);
}
BARE(get_device) { return PyLong_FromLong(t->device.type == TP_CPU ? -1 : t->device.index); }
BARE(is_floating_point) { return PyBool_FromLong(tp_dtype_is_float((tp_dtype)t->dtype)); }
BARE(is_complex) { return PyBool_FromLong(tp_dtype_is_complex((tp_dtype)t->dtype)); }
BARE(is_signed) { return PyBool_FromLong(t->dtype != TP_u8 && t->dtype != TP_b8); }
BARE(is_inference) { return PyBool_FromLong((t->keys & TP_KEY_INFERENCE) != 0); }
BARE(is_conj) { return PyBool_FromLong((t->keys & TP_KEY_CONJ) != 0); }
BARE(is_neg) { return PyBool_FromLong((t->keys & TP_KEY_NEG) != 0); }
BARE(is_shared) { Py_RETURN_FALSE; }
METHOD(is_pinned)
{
    TAKES("is_pinned", 0, 1, "device")
    Py_RETURN_FALSE;
}
BARE(has_names) { Py_RETURN_FALSE; }
BARE(_is_view) { return PyBool_FromLong(t->autograd && t->autograd->view_base); }
BARE(_is_zerotensor) { Py_RETURN_FALSE; }

/* memory_format=…, by name alone: a format, None, or NULL when it is not given. */
static bool read_format(const char *method, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, PyObject **format)
{
    *format = face_argument(args, count, kwnames, -1, "memory_format");
    if (*format && *format != Py_None && !Py_IS_TYPE(*format, face.format)) {
        PyErr_Format(PyExc_TypeError, "%s(): argument 'memory_format' must be %s.memory_format, not %s", method, face.package, Py_TYPE(*format)->tp_name);
        return false;
    }
    return true;
}

/* Whether a tensor is contiguous was decided for sizes that are neither 0 nor 1. */
static PyObject *noted(const tp_tensor *t, bool contiguous)
{
    for (int i = 0; !contiguous && tp_tensor_is_symbolic(t) && i < t->ndim; i++)
        if (tp_sym_is_node(t->symbolic->size[i]) && tp_sym_range(t->symbolic->size[i]).low > 1 &&
            !tp_sym_note_decided(TP_GT, t->symbolic->size[i], tp_sym_int(1), true))
            return face_raise();
    return PyBool_FromLong(contiguous);
}

METHOD(is_contiguous)
{
    PyObject *format;
    TAKES("is_contiguous", 0, 0, "memory_format")
    if (!read_format("is_contiguous", args, count, kwnames, &format))
        return NULL;
    ASK_CLASS(STRIDES, "aten", "is_contiguous")
    int word = format && format != Py_None ? ((word_object *)format)->word : TP_FORMAT_CONTIGUOUS;
    if (word == TP_FORMAT_PRESERVE)
        return PyErr_Format(PyExc_RuntimeError, "preserve memory format is unsupported by the contiguous operator");
    if (word == TP_FORMAT_CONTIGUOUS)
        return noted(t, tp_tensor_is_contiguous(t));
    return noted(t, tp_tensor_has_format(t, (tp_format)word));
}

METHOD(is_set_to)
{
    TAKES("is_set_to", 1, 1, "tensor")
    PyObject *other = face_argument(args, count, kwnames, 0, "tensor");
    if (!other)
        return PyErr_Format(PyExc_TypeError, "is_set_to() missing 1 required positional arguments: \"tensor\"");
    if (!face_is_tensor(other))
        return wrong_argument("is_set_to", "tensor", 1, "Tensor", other), NULL;
    return PyBool_FromLong(tp_tensor_same_place(t, face_tensor(other)));
}

BARE(__len__)
{
    int64_t length;
    if (t->ndim == 0)
        return PyErr_Format(PyExc_TypeError, "len() of a 0-d tensor");
    return sym_known_size(t, 0, &length) ? PyLong_FromLongLong(length) : NULL;
}

/* ---- elements as Python numbers ---- */
BARE(item)
{
    int64_t numel;
    if (!sym_known_numel(t, &numel))
        return NULL;
    if (numel != 1)
        return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar", LL(numel));
    if (TP_UNLIKELY(face_is_traced()) && !face_jit_warn_conversion("a Python number"))
        return NULL;
    return face_item(t);
}

BARE(tolist)
{
    return face_is_traced() && !face_jit_warn_conversion("a Python list") ? NULL : face_to_list(t);
}

BARE(__complex__)
{
    int64_t numel;
    if (!sym_known_numel(t, &numel))
        return NULL;
    if (numel != 1)
        return PyErr_Format(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    PyObject *number = face_item(t);
    PyObject *made = number ? PyObject_CallOneArg((PyObject *)&PyComplex_Type, number) : NULL;
    Py_XDECREF(number);
    return made;
}

/* ---- other forms ---- */
METHOD(numpy)
{
    TAKES("numpy", 0, 0, "force")
    PyObject *force = face_argument(args, count, kwnames, -1, "force");
    if (force && !PyBool_Check(force))
        return PyErr_Format(PyExc_TypeError, "numpy(): argument 'force' must be bool, not %s", Py_TYPE(force)->tp_name);
    if (TP_UNLIKELY(face_is_traced()) && !face_jit_warn_conversion("a NumPy array"))
        return NULL;
    if (tp_is_batched(t))
        return PyErr_Format(PyExc_RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage");
    return face_to_array(self, force == Py_True);
}

BARE(untyped_storage)
{
    int number;
    if (TP_UNLIKELY(t->keys & TP_LAYER_BIT(TP_LAYER_TRANSFORM)) && tp_level_of(t, &number))
        return PyErr_Format(PyExc_NotImplementedError, "Cannot access storage of %s", tp_is_batched(t) ? "BatchedTensorImpl" : "TensorWrapper");
    return face_storage(t->storage, t->device);
}

METHOD(requires_grad_)
{
    TAKES("requires_grad_", 0, 1, "requires_grad")
    PyObject *on = face_argument(args, count, kwnames, 0, "requires_grad");
    if (on && !PyBool_Check(on)) {
        wrong_argument("requires_grad_", "requires_grad", 1, "bool", on);
        return NULL;
    }
    bool wanted = on != Py_False;
    if (tp_inside_transform())
        return PyErr_Format(PyExc_RuntimeError, "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) "
                            "inside of a function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch "
                            "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being transformed instead.");
    if (wanted && !tp_dtype_is_inexact((tp_dtype)t->dtype))
        return PyErr_Format(PyExc_RuntimeError, "only Tensors of floating point dtype can require gradients");
    if (!tp_is_leaf(t) && !wanted)
        return PyErr_Format(PyExc_RuntimeError, "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    if (tp_is_leaf(t) && !tp_set_requires_grad(t, wanted))
        return face_raise();
    return Py_NewRef(self);
}

BARE(retain_grad)
{
    if (tp_inside_transform())
        return PyErr_Format(PyExc_RuntimeError, "You are attempting to call Tensor.retain_grad() inside of a function being transformed by a functorch transform. This "
                            "is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call retain_grad() outside "
                            "of a function being transformed instead.");
    if (!tp_requires_grad(t))
        return PyErr_Format(PyExc_RuntimeError, "can't retain_grad on Tensor that has requires_grad=False");
    if (!tp_is_leaf(t) && !tp_retain_grad(t))
        return face_raise();
    Py_RETURN_NONE;
}

/* ---- converting dtype and device ---- */

/* Calls aten::to.dtype_layout, or gives self when nothing changes. */
static PyObject *converted(PyObject *self, tp_dtype dtype, const tp_device *device, bool non_blocking, bool copy, PyObject *format)
{
    tp_tensor *t = face_tensor(self);
    tp_dtype want = dtype == TP_DTYPE_NONE ? (tp_dtype)t->dtype : dtype;
    tp_device where = device ? *device : t->device;
    if (where.type == TP_CPU)
        where.index = -1;
    bool same = want == t->dtype && where.type == t->device.type && (where.index < 0 || where.index == t->device.index);
    bool plain = !format || format == Py_None || ((word_object *)format)->word == TP_FORMAT_PRESERVE;
    if (same && !copy && plain && !(tp_self.active | (t->keys & ~TP_LAYER_BIT(TP_LAYER_GRAD) & TP_ALL_LAYERS)))
        return Py_NewRef(self);
    if (where.type > TP_META && !tp_self.active && !(t->keys & TP_ALL_LAYERS))
        return PyErr_Format(PyExc_AssertionError, "Torch not compiled with %s enabled", where.type == TP_CUDA ? "CUDA" : "this device");
    const tp_op *op = tp_op_find("aten", "to", "dtype_layout");
    tp_value form = plain ? tp_none() : tp_of_format((tp_format)((word_object *)format)->word);
    if (op) {
        tp_value arg[8] = { tp_of_tensor(t), dtype == TP_DTYPE_NONE ? tp_none() : tp_of_dtype(dtype), tp_none(),
                            device ? tp_of_device(where) : tp_none(), tp_none(), tp_bool(non_blocking), tp_bool(copy), form };
        return face_call_op(op, arg);
    }
    op = tp_op_find("aten", "_to_copy", "");
    if (!op)
        return face_unimplemented("Tensor.to");
    if (same && !copy && plain)
        return Py_NewRef(self);
    tp_value arg[7] = { tp_of_tensor(t), dtype == TP_DTYPE_NONE ? tp_none() : tp_of_dtype(dtype), tp_none(),
                        device ? tp_of_device(where) : tp_none(), tp_none(), tp_bool(non_blocking), form };
    return face_call_op(op, arg);
}

static PyObject *to_one_dtype(PyObject *self, const char *name, tp_dtype d, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    if (TP_UNLIKELY(face_overridden(self)))
        return face_override_method(self, name, args, count, kwnames);
    PyObject *format;
    TAKES(name, 0, 0, "memory_format")
    return read_format(name, args, count, kwnames, &format) ? converted(self, d, NULL, false, false, format) : NULL;
}

#define CAST(name, d)                                                                                          \
    static PyObject *call_##name(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)   \
    {                                                                                                          \
        return to_one_dtype(self, #name, d, args, count, kwnames);                                             \
    }
CAST(float, TP_f32) CAST(double, TP_f64) CAST(half, TP_f16) CAST(bfloat16, TP_bf16) CAST(long, TP_i64) CAST(int, TP_i32)
CAST(short, TP_i16) CAST(char, TP_i8) CAST(byte, TP_u8) CAST(bool, TP_b8) CAST(cfloat, TP_c64) CAST(cdouble, TP_c128)

/* to(dtype), to(device, dtype), to(other), and all of it by name. */
typedef struct to_request {
    tp_dtype  dtype;
    tp_device device;
    bool      has_device, non_blocking, copy;
    PyObject *format;           /* borrowed, may be NULL */
} to_request;

static bool to_positional(to_request *r, PyObject *o, int *flags)
{
    if (o == Py_None)
        return true;
    if (face_is_tensor(o)) {
        r->dtype = (tp_dtype)face_tensor(o)->dtype;
        r->device = face_tensor(o)->device;
        r->has_device = true;
        return true;
    }
    if (PyBool_Check(o)) {
        *((*flags)++ ? &r->copy : &r->non_blocking) = o == Py_True;
        return true;
    }
    if (Py_IS_TYPE(o, face.dtype))
        return face_dtype_read(o, &r->dtype);
    if (o == (PyObject *)&PyFloat_Type || o == (PyObject *)&PyLong_Type || o == (PyObject *)&PyBool_Type || o == (PyObject *)&PyComplex_Type) {
        r->dtype = o == (PyObject *)&PyFloat_Type ? TP_f64 : o == (PyObject *)&PyLong_Type ? TP_i64 : o == (PyObject *)&PyBool_Type ? TP_b8 : TP_c128;
        return true;
    }
    if (Py_IS_TYPE(o, face.format)) {
        r->format = o;
        return true;
    }
    if (face_is_device_like(o)) {
        r->has_device = true;
        return face_device_read(o, &r->device);
    }
    PyErr_Format(PyExc_TypeError, "to() received an invalid combination of arguments - got (%s), but expected one of:\n"
                 " * (%s.device device = None, %s.dtype dtype = None, bool non_blocking = False, bool copy = False, *, %s.memory_format memory_format = None)\n"
                 " * (%s.dtype dtype, bool non_blocking = False, bool copy = False, *, %s.memory_format memory_format = None)\n"
                 " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, %s.memory_format memory_format = None)\n",
                 Py_TYPE(o)->tp_name, face.package, face.package, face.package, face.package, face.package, face.package);
    return false;
}

static bool to_keyword(to_request *r, PyObject *name, PyObject *o)
{
    int flags = 0;
    if (PyUnicode_CompareWithASCIIString(name, "non_blocking") == 0)
        r->non_blocking = o == Py_True;
    else if (PyUnicode_CompareWithASCIIString(name, "copy") == 0)
        r->copy = o == Py_True;
    else if (PyUnicode_CompareWithASCIIString(name, "dtype") == 0 || PyUnicode_CompareWithASCIIString(name, "device") == 0 ||
             PyUnicode_CompareWithASCIIString(name, "other") == 0 || PyUnicode_CompareWithASCIIString(name, "tensor") == 0 ||
             PyUnicode_CompareWithASCIIString(name, "memory_format") == 0)
        return to_positional(r, o, &flags);
    else {
        PyErr_Format(PyExc_TypeError, "to() got an unexpected keyword argument '%U'", name);
        return false;
    }
    return true;
}

static bool parse_to(to_request *r, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    int flags = 0;
    *r = (to_request){ .dtype = TP_DTYPE_NONE };
    for (Py_ssize_t i = 0; i < count; i++)
        if (!to_positional(r, args[i], &flags))
            return false;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
        if (!to_keyword(r, PyTuple_GET_ITEM(kwnames, k), args[count + k]))
            return false;
    return true;
}

METHOD(to)
{
    to_request r;
    if (!parse_to(&r, args, count, kwnames))
        return NULL;
    return converted(self, r.dtype, r.has_device ? &r.device : NULL, r.non_blocking, r.copy, r.format);
}

/* _C._nn._parse_to: what Module.to makes of the same arguments. */
PyObject *face_parse_to(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    to_request r;
    (void)self;
    if (!parse_to(&r, args, count, kwnames))
        return NULL;
    PyObject *device = r.has_device ? face_device(r.device) : Py_NewRef(Py_None);
    return Py_BuildValue("NNNN", device, face_dtype(r.dtype), PyBool_FromLong(r.non_blocking),
                         Py_NewRef(r.format ? r.format : Py_None));
}

METHOD(cpu)
{
    tp_device cpu = { TP_CPU, -1 };
    PyObject *format;
    TAKES("cpu", 0, 0, "memory_format")
    return read_format("cpu", args, count, kwnames, &format) ? converted(self, TP_DTYPE_NONE, &cpu, false, false, format) : NULL;
}

METHOD(cuda)
{
    tp_device cuda = { TP_CUDA, 0 };
    TAKES("cuda", 0, 3, "device", "non_blocking", "memory_format")
    return converted(self, TP_DTYPE_NONE, &cuda, false, false, NULL);
}

METHOD(type_as)
{
    TAKES("type_as", 1, 1, "other")
    PyObject *other = face_argument(args, count, kwnames, 0, "other");
    if (!other)
        return PyErr_Format(PyExc_TypeError, "type_as() missing 1 required positional arguments: \"other\"");
    if (!face_is_tensor(other))
        return wrong_argument("type_as", "other", 1, "Tensor", other), NULL;
    return converted(self, (tp_dtype)face_tensor(other)->dtype, &face_tensor(other)->device, false, false, NULL);
}

/* type() names the legacy class; type(dtype or name) converts. */
METHOD(type)
{
    TAKES("type", 0, 2, "dtype", "non_blocking")
    PyObject *wanted = face_argument(args, count, kwnames, 0, "dtype");
    if (!wanted || wanted == Py_None)
        return PyUnicode_FromFormat("%s.%s%s", face.package, t->device.type == TP_CUDA ? "cuda." : "", tp_dtypes[t->dtype].legacy);
    tp_dtype d = TP_DTYPE_NONE;
    if (Py_IS_TYPE(wanted, face.dtype)) {
        d = ((dtype_object *)wanted)->dtype;
    } else if (!PyUnicode_Check(wanted) && !PyType_Check(wanted)) {
        return PyErr_Format(PyExc_TypeError, "dtype must be a type, str, or dtype object");
    } else {
        PyObject *name = PyUnicode_Check(wanted) ? Py_NewRef(wanted) : PyObject_GetAttrString(wanted, "__name__");
        const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
        if (!text) {
            Py_XDECREF(name);
            return NULL;
        }
        const char *dot = strrchr(text, '.');
        for (int i = 0; i < TP_DTYPE_COUNT; i++)
            if (strcmp(tp_dtypes[i].legacy, dot ? dot + 1 : text) == 0)
                d = (tp_dtype)i;
        if (d == TP_DTYPE_NONE)
            PyErr_Format(PyExc_ValueError, "invalid type: '%s'", text);
        Py_DECREF(name);
        if (d == TP_DTYPE_NONE)
            return NULL;
    }
    return converted(self, d, NULL, false, false, NULL);
}

/* ---- subclasses ---- */
static PyObject *as_subclass(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)       /* how overriding ends: not overridden */
{
    tp_tensor *t = face_tensor(self);
    TAKES("as_subclass", 1, 1, "cls")
    PyObject *cls = face_argument(args, count, kwnames, 0, "cls");
    if (!cls || !face_is_tensor_class(cls))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "as_subclass() missing 1 required positional arguments: \"cls\"");
    const tp_op *alias = tp_op_find("aten", "alias", "");
    tp_value arg = tp_of_tensor(t), result;
    tp_tensor *seen = NULL;
    if (alias) {
        if (!tp_call(alias, &arg, &result))
            return face_raise();
        seen = result.tensor;
    } else if (!(seen = tp_tensor_alias(t))) {
        return face_raise();
    }
    return face_wrap_as((PyTypeObject *)cls, seen);
}

PyMethodDef face_tensor_methods[] = {
    ENTRY(size), ENTRY(stride), ENTRY(dim), ENTRY(ndimension), ENTRY(numel), ENTRY(nelement), ENTRY(element_size),
    ENTRY(storage_offset), ENTRY(data_ptr), ENTRY(get_device), ENTRY(is_floating_point), ENTRY(is_complex), ENTRY(is_signed),
    ENTRY(is_inference), ENTRY(is_conj), ENTRY(is_neg), ENTRY(is_shared), ENTRY(is_pinned), ENTRY(has_names), ENTRY(_is_view),
    ENTRY(_is_zerotensor), ENTRY(is_contiguous), ENTRY(is_set_to), ENTRY(__len__), ENTRY(item), ENTRY(tolist),
    ENTRY(__complex__), ENTRY(numpy), ENTRY(untyped_storage), ENTRY(requires_grad_), ENTRY(retain_grad), ENTRY(float),
    ENTRY(double), ENTRY(half), ENTRY(bfloat16), ENTRY(long), ENTRY(int), ENTRY(short), ENTRY(char), ENTRY(byte), ENTRY(bool),
    ENTRY(cfloat), ENTRY(cdouble), ENTRY(to), ENTRY(cpu), ENTRY(cuda), ENTRY(type_as), ENTRY(type),
    { "as_subclass", FAST(as_subclass), METH_FASTCALL | METH_KEYWORDS, NULL },
    { "_make_subclass", FAST(face_make_subclass), METH_FASTCALL | METH_KEYWORDS | METH_STATIC, NULL },
    { "_make_wrapper_subclass", FAST(face_make_wrapper_subclass), METH_FASTCALL | METH_KEYWORDS | METH_STATIC, NULL },
    { 0 },
};
