/* functions.c - functions of the package that are no ops: literals, modes of the thread, settings, questions of types. */
#include <string.h>

#include "base/pool.h"
#include "grad/tape.h"
#include "ops/copy.h"
#include "ops/promote.h"
#include "python/face.h"
#include "trace/fake.h"

#define KEYWORDS(f) ((PyCFunction)(void (*)(void))(f))

/* ---- literals ---- */
typedef struct literal_options {
    tp_dtype  dtype;
    tp_device device;
    bool      has_device, requires_grad;
} literal_options;

static bool read_options(literal_options *o, PyObject *dtype, PyObject *device, PyObject *requires_grad, const char *name)
{
    *o = (literal_options){ .dtype = TP_DTYPE_NONE, .device = { TP_CPU, -1 } };
    if (dtype && dtype != Py_None && !Py_IS_TYPE(dtype, face.dtype)) {
        static const tp_arg kind = { .type = TP_TYPE_DTYPE };
        call_frame f;
        tp_value v;
        face_frame_init(&f);
        if (face_to_value(&f, &kind, dtype, &v) <= 0) {
            PyErr_Format(PyExc_TypeError, "%s(): argument 'dtype' must be %s.dtype, not %s", name, face.package, Py_TYPE(dtype)->tp_name);
            return false;
        }
        o->dtype = (tp_dtype)v.i;
    } else if (dtype && dtype != Py_None) {
        o->dtype = ((dtype_object *)dtype)->dtype;
    }
    if (device && device != Py_None) {
        if (!face_device_read(device, &o->device))
            return false;
        o->has_device = true;
        if (o->device.type == TP_CPU)
            o->device.index = -1;
        if (!face_device_usable(o->device))
            return false;
    }
    return face_read_truth(requires_grad, &o->requires_grad);
}

static PyObject *finish_literal(PyObject *made, bool requires_grad)
{
    if (!made || !requires_grad)
        return made;
    if (!tp_dtype_is_inexact((tp_dtype)face_tensor(made)->dtype)) {
        Py_DECREF(made);
        return PyErr_Format(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients");
    }
    return tp_set_requires_grad(face_tensor(made), true) ? made : face_raise_keeping(made);
}

static PyObject *overridden_function(const char *name, PyObject *data, PyObject *args, PyObject *kwargs)
{
    PyObject *callable = PyObject_GetAttrString(face.module, name);
    PyObject *keywords = kwargs && PyDict_GET_SIZE(kwargs) ? kwargs : NULL, *result = NULL;
    bool own = data && face_is_tensor(data) && (face_overrides(data) & OVERRIDES_FUNCTION);
    if (callable)
        result = face_call_override(callable, &data, own, args, keywords);
    Py_XDECREF(callable);
    return result;
}

static PyObject *make_tensor(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "data", "dtype", "device", "pin_memory", "requires_grad", "names", NULL };
    PyObject *data, *dtype = NULL, *device = NULL, *pin = NULL, *wants = NULL, *dim_names = NULL;
    literal_options o;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOOO:tensor", names, &data, &dtype, &device, &pin, &wants, &dim_names))
        return NULL;
    if (face_function_mode_active())           /* the class of the data has no say: this copies */
        return overridden_function("tensor", NULL, args, kwargs);
    if (face_is_tensor(data) &&
        PyErr_WarnEx(PyExc_UserWarning, "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).", 1) < 0)
        return NULL;
    if (TP_UNLIKELY(face_is_traced()) &&
        !face_jit_warn("torch.tensor results are registered as constants in the trace. You can safely ignore this warning if you use this "
                       "function to create tensors out of constant variables that would be the same every time you call this function. In "
                       "any other case, this might cause the trace to be incorrect."))
        return NULL;
    if (!read_options(&o, dtype, device, wants, "tensor"))
        return NULL;
    if (face_is_tensor(data) && !o.has_device)
        o.device = face_tensor(data)->device;
    return face_lifted(finish_literal(face_literal(data, o.dtype, o.device, true), o.requires_grad));
}

static PyObject *as_tensor(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "data", "dtype", "device", NULL };
    PyObject *data, *dtype = NULL, *device = NULL;
    literal_options o;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:as_tensor", names, &data, &dtype, &device))
        return NULL;
    if (face_function_mode_active() || (face_is_tensor(data) && face_overridden(data)))
        return overridden_function("as_tensor", data, args, kwargs);
    if (!read_options(&o, dtype, device, NULL, "as_tensor"))
        return NULL;
    if (face_is_tensor(data)) {
        PyObject *d = face_dtype(o.dtype == TP_DTYPE_NONE ? (tp_dtype)face_tensor(data)->dtype : o.dtype);
        PyObject *where = o.has_device ? face_device(o.device) : Py_NewRef(Py_None);
        PyObject *result = d && where ? PyObject_CallMethod(data, "to", "OO", where, d) : NULL;
        Py_XDECREF(d);
        Py_XDECREF(where);
        return result;
    }
    return face_lifted(face_literal(data, o.dtype, o.device, false));
}

/* asarray(obj, *, dtype, device, copy, requires_grad) */
static PyObject *as_array(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "obj", "dtype", "device", "copy", "requires_grad", NULL };
    PyObject *data, *dtype = NULL, *device = NULL, *copy = NULL, *wants = NULL;
    literal_options o;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOO:asarray", names, &data, &dtype, &device, &copy, &wants) ||
        !read_options(&o, dtype, device, wants, "asarray"))
        return NULL;
    return finish_literal(face_literal(data, o.dtype, o.device, copy == Py_True), o.requires_grad);
}

/* ---- modes of the thread ---- */
static bool read_bool(PyObject *o, bool *out)
{
    if (!PyBool_Check(o)) {
        PyErr_Format(PyExc_TypeError, "enabled must be a bool (got %s)", Py_TYPE(o)->tp_name);
        return false;
    }
    *out = o == Py_True;
    return true;
}

#define FLAG(name, field)                                                                          \
    static PyObject *set_##name(PyObject *module, PyObject *value)                                 \
    {                                                                                              \
        (void)module;                                                                              \
        bool on;                                                                                   \
        if (!read_bool(value, &on))                                                                \
            return NULL;                                                                           \
        tp_self.field = on;                                                                        \
        Py_RETURN_NONE;                                                                            \
    }                                                                                              \
    static PyObject *get_##name(PyObject *module, PyObject *unused)                                \
    {                                                                                              \
        (void)module, (void)unused;                                                                \
        return PyBool_FromLong(tp_self.field);                                                     \
    }
FLAG(grad_mode, grad_mode)
FLAG(forward_mode, forward_mode)
FLAG(anomaly, anomaly)
FLAG(anomaly_nan, anomaly_nan)
FLAG(inference_mode, inference_mode)

/* ---- settings ---- */
static PyObject *set_default_dtype(PyObject *module, PyObject *o)
{
    tp_dtype d;
    (void)module;
    if (!Py_IS_TYPE(o, face.dtype))
        return PyErr_Format(PyExc_TypeError, "invalid dtype object: only floating-point types are supported as the default type");
    if (!face_dtype_read(o, &d))
        return NULL;
    if (!tp_dtype_is_float(d))
        return PyErr_Format(PyExc_TypeError, "only floating-point types are supported as the default type");
    tp_the_runtime.default_dtype = d;
    Py_RETURN_NONE;
}

static PyObject *get_default_dtype(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return face_dtype((tp_dtype)tp_the_runtime.default_dtype);
}

static PyObject *set_threads(PyObject *module, PyObject *o)
{
    int64_t n;
    (void)module;
    if (!face_is_int(o))
        return PyErr_Format(PyExc_TypeError, "set_num_threads expects an int, but got %s", Py_TYPE(o)->tp_name);
    if (!face_read_int(o, &n))
        return NULL;
    if (n <= 0)
        return PyErr_Format(PyExc_RuntimeError, "Expected positive number of threads");
    tp_pool_set_threads((int)n);
    Py_RETURN_NONE;
}

static PyObject *get_threads(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLong(tp_pool_threads());
}

static PyObject *set_deterministic(PyObject *module, PyObject *o)
{
    int64_t level;
    (void)module;
    if (!face_read_int(o, &level))
        return NULL;
    atomic_store(&tp_the_runtime.deterministic, (int)level);
    Py_RETURN_NONE;
}

static PyObject *get_deterministic(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLong(atomic_load(&tp_the_runtime.deterministic));
}

static PyObject *set_filling(PyObject *module, PyObject *o)
{
    (void)module;
    if (!PyBool_Check(o))
        return PyErr_Format(PyExc_RuntimeError, "expected a bool, but got %s", Py_TYPE(o)->tp_name);
    atomic_store(&tp_the_runtime.leave_uninitialized, o == Py_False);
    Py_RETURN_NONE;
}

static PyObject *get_filling(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(!atomic_load(&tp_the_runtime.leave_uninitialized));
}

/* Which ways of attention may not be taken, a bit each. */
static PyObject *set_attention_off(PyObject *module, PyObject *o)
{
    unsigned long ways = PyLong_AsUnsignedLong(o);
    (void)module;
    if (ways == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    atomic_store(&tp_the_runtime.attention_off, (unsigned)ways);
    Py_RETURN_NONE;
}

static PyObject *get_attention_off(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromUnsignedLong(atomic_load(&tp_the_runtime.attention_off));
}

/* ---- questions ---- */
static PyObject *is_tensor(PyObject *module, PyObject *o)
{
    (void)module;
    int is = PyObject_IsInstance(o, (PyObject *)face.tensor);
    return is < 0 ? NULL : PyBool_FromLong(is);
}

static PyObject *promote_types(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    tp_dtype a, b;
    (void)module;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "promote_types() takes 2 positional arguments but %zd were given", count);
    if (!face_dtype_read(args[0], &a) || !face_dtype_read(args[1], &b))
        return NULL;
    return face_dtype(tp_dtype_promote(a, b));
}

static PyObject *can_cast(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    tp_dtype a, b;
    (void)module;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "can_cast() takes 2 positional arguments but %zd were given", count);
    if (!face_dtype_read(args[0], &a) || !face_dtype_read(args[1], &b))
        return NULL;
    return PyBool_FromLong(tp_dtype_can_cast(a, b));
}

static bool add_operand(tp_common *c, PyObject *o)
{
    call_frame f;
    tp_value v;
    face_frame_init(&f);
    int got = face_is_tensor(o) ? 1 : face_to_number(o, &v, &f);
    if (got > 0)
        tp_common_add(c, face_is_tensor(o) ? tp_of_tensor(face_tensor(o)) : v);
    else if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "result_type(): tensors or numbers are wanted, not %s", Py_TYPE(o)->tp_name);
    face_frame_fini(&f);
    return got > 0;
}

static PyObject *result_type(PyObject *module, PyObject *args)
{
    PyObject *a, *b;
    tp_common c = TP_COMMON_START;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &a, &b) || !add_operand(&c, a) || !add_operand(&c, b))
        return NULL;
    return face_dtype(tp_common_dtype(&c));
}

static PyObject *broadcast_shapes(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int64_t out[TP_MAX_DIMS], size[TP_MAX_DIMS];
    int ndim = 0;
    (void)module;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *shape = PyLong_Check(args[i]) ? PyTuple_Pack(1, args[i]) : face_items(args[i], "shapes are sequences of ints");
        bool ok = shape && PySequence_Fast_GET_SIZE(shape) <= TP_MAX_DIMS;
        int n = ok ? (int)PySequence_Fast_GET_SIZE(shape) : 0;
        for (int d = 0; ok && d < n; d++)
            ok = face_read_int(PySequence_Fast_ITEMS(shape)[d], &size[d]);
        Py_XDECREF(shape);
        if (!ok)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "a shape has too many dims");
        if (!tp_broadcast(&ndim, out, n, size))
            return face_raise();
    }
    return face_size(ndim, out);
}

/* ---- parts of tensors, for pickling and copying ---- */

/* _tensor_of_storage(storage, dtype, offset=0, size=None, stride=None) */
static PyObject *tensor_of_storage(PyObject *module, PyObject *args)
{
    PyObject *storage, *dtype, *sizes = Py_None, *strides = Py_None;
    long long offset = 0;
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    tp_dtype d;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO|LOO", &storage, &dtype, &offset, &sizes, &strides) || !face_dtype_read(dtype, &d))
        return NULL;
    tp_storage *s = face_storage_of(storage);
    if (!s)
        return PyErr_Format(PyExc_TypeError, "a storage is wanted, not %s", Py_TYPE(storage)->tp_name);
    int ndim = 1;
    size[0] = (int64_t)(s->bytes / tp_dtype_bytes(d));
    stride[0] = 1;
    if (sizes != Py_None) {
        if (!PyTuple_Check(sizes) || !PyTuple_Check(strides) || PyTuple_GET_SIZE(sizes) != PyTuple_GET_SIZE(strides) ||
            PyTuple_GET_SIZE(sizes) > TP_MAX_DIMS)
            return PyErr_Format(PyExc_TypeError, "size and stride must be tuples of one length");
        ndim = (int)PyTuple_GET_SIZE(sizes);
        for (int i = 0; i < ndim; i++)
            if (!face_read_int(PyTuple_GET_ITEM(sizes, i), &size[i]) || !face_read_int(PyTuple_GET_ITEM(strides, i), &stride[i]))
                return NULL;
        for (int i = 0; i < ndim; i++)
            if (stride[i] < 0)
                return PyErr_Format(PyExc_RuntimeError, "as_strided: Negative strides are not supported at the moment, got strides: %R", strides);
    }
    int64_t none = 0;
    tp_tensor *whole = tp_tensor_take_storage(tp_storage_ref(s), d, 1, &none, NULL, 0);
    tp_tensor *t = whole ? tp_tensor_view(whole, ndim, size, stride, offset) : NULL;
    tp_tensor_unref(whole);
    return face_wrap_or_raise(t);
}

/* A copy of a tensor for deepcopy: tensors that share a storage share its copy, found in `memo`. */
static PyObject *copy_with_storage(PyObject *module, PyObject *args)
{
    PyObject *tensor, *memo;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", face.tensor_base, &tensor, &PyDict_Type, &memo))
        return NULL;
    tp_tensor *t = face_tensor(tensor);
    if (tp_is_fake(t)) {                /* two fakes of one storage share a copy's */
        PyObject *at = PyLong_FromVoidPtr(t->storage), *first = at ? PyDict_GetItemWithError(memo, at) : NULL;
        PyObject *fake = at && !PyErr_Occurred() ? face_wrap_or_raise(tp_fake_beside(t, first ? face_tensor(first) : NULL)) : NULL;
        if (fake && !first && PyDict_SetItem(memo, at, fake) < 0)
            Py_CLEAR(fake);
        Py_XDECREF(at);
        return fake;
    }
    if (tp_signs(t))
        return face_wrap_or_raise(tp_clone(t, TP_FORMAT_PRESERVE));
    PyObject *key = PyLong_FromVoidPtr(t->storage), *made = NULL;
    PyObject *copy = key ? Py_XNewRef(PyDict_GetItemWithError(memo, key)) : NULL;
    if (key && !copy && !PyErr_Occurred()) {
        PyObject *storage = face_storage(t->storage, t->device);
        copy = storage ? PyObject_CallMethod(storage, "clone", NULL) : NULL;
        Py_XDECREF(storage);
        if (copy && PyDict_SetItem(memo, key, copy) < 0)
            Py_CLEAR(copy);
    }
    if (copy) {
        tp_tensor *seen = tp_tensor_take_storage(tp_storage_ref(face_storage_of(copy)), (tp_dtype)t->dtype, t->ndim, t->size, t->stride, t->offset);
        if (seen)
            seen->device = t->device;
        made = face_wrap_or_raise(seen);
    }
    Py_XDECREF(copy);
    Py_XDECREF(key);
    return made;
}

static PyObject *detach_in_place(PyObject *module, PyObject *tensor)
{
    (void)module;
    if (!face_is_tensor(tensor))
        return PyErr_Format(PyExc_TypeError, "a tensor is wanted");
    tp_tensor *t = face_tensor(tensor);
    if (!tp_forget_history(t))
        return face_raise();
    if (TP_UNLIKELY(face_is_traced()) && !face_jit_detached(t))
        return NULL;
    return Py_NewRef(tensor);
}

static PyObject *bump_version(PyObject *module, PyObject *tensor)
{
    (void)module;
    if (!face_is_tensor(tensor))
        return PyErr_Format(PyExc_TypeError, "a tensor is wanted");
    tp_bump_version(face_tensor(tensor));
    Py_RETURN_NONE;
}

/* Sets how plain the quick paths may be: the class of nn.Parameter is known to be a tensor and nothing more. */
static PyObject *set_parameter_class(PyObject *module, PyObject *type)
{
    (void)module;
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, face.tensor))
        return PyErr_Format(PyExc_TypeError, "a class of tensors is wanted");
    if (((tensor_class *)type)->overrides)
        return PyErr_Format(PyExc_TypeError, "the class of parameters may not override functions");
    Py_XSETREF(face.parameter, (PyTypeObject *)Py_NewRef(type));
    Py_RETURN_NONE;
}

static PyObject *live_allocations(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLongLong(atomic_load(&tp_the_runtime.allocations_live));
}

static PyMethodDef functions[] = {
    { "tensor", KEYWORDS(make_tensor), METH_VARARGS | METH_KEYWORDS, NULL },
    { "as_tensor", KEYWORDS(as_tensor), METH_VARARGS | METH_KEYWORDS, NULL },
    { "asarray", KEYWORDS(as_array), METH_VARARGS | METH_KEYWORDS, NULL },
    { "is_tensor", is_tensor, METH_O, NULL },
    { "promote_types", KEYWORDS(promote_types), METH_FASTCALL, NULL },
    { "can_cast", KEYWORDS(can_cast), METH_FASTCALL, NULL },
    { "_result_type", result_type, METH_VARARGS, NULL },
    { "_broadcast_shapes", KEYWORDS(broadcast_shapes), METH_FASTCALL, NULL },
    { "_tensor_of_storage", tensor_of_storage, METH_VARARGS, NULL },
    { "_copy_with_storage", copy_with_storage, METH_VARARGS, NULL },
    { "_share_storage", face_share_storage, METH_VARARGS, NULL },
    { "_detach_in_place", detach_in_place, METH_O, NULL },
    { "_bump_version", bump_version, METH_O, NULL },
    { "_set_grad_enabled", set_grad_mode, METH_O, NULL },
    { "is_grad_enabled", get_grad_mode, METH_NOARGS, NULL },
    { "_set_inference_mode", set_inference_mode, METH_O, NULL },
    { "is_inference_mode_enabled", get_inference_mode, METH_NOARGS, NULL },
    { "_set_fwd_grad_enabled", set_forward_mode, METH_O, NULL },
    { "_is_fwd_grad_enabled", get_forward_mode, METH_NOARGS, NULL },
    { "_set_anomaly_enabled", set_anomaly, METH_O, NULL },
    { "is_anomaly_enabled", get_anomaly, METH_NOARGS, NULL },
    { "_set_anomaly_check_nan", set_anomaly_nan, METH_O, NULL },
    { "is_anomaly_check_nan_enabled", get_anomaly_nan, METH_NOARGS, NULL },
    { "_set_default_dtype", set_default_dtype, METH_O, NULL },
    { "_set_attention_off", set_attention_off, METH_O, NULL },
    { "_get_attention_off", get_attention_off, METH_NOARGS, NULL },
    { "get_default_dtype", get_default_dtype, METH_NOARGS, NULL },
    { "set_num_threads", set_threads, METH_O, NULL },
    { "get_num_threads", get_threads, METH_NOARGS, NULL },
    { "_set_deterministic", set_deterministic, METH_O, NULL },
    { "_get_deterministic", get_deterministic, METH_NOARGS, NULL },
    { "_set_filling", set_filling, METH_O, NULL },
    { "_get_filling", get_filling, METH_NOARGS, NULL },
    { "_set_parameter_class", set_parameter_class, METH_O, NULL },
    { "_live_allocations", live_allocations, METH_NOARGS, NULL },
    { "_parse_to", KEYWORDS(face_parse_to), METH_FASTCALL | METH_KEYWORDS, NULL },
    { 0 },
};

bool face_functions_of_module_init(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions) < 0)
        return false;
    PyObject *nn = PyObject_GetAttrString(module, "_nn"), *parse = PyObject_GetAttrString(module, "_parse_to");
    bool ok = nn && parse && PyObject_SetAttrString(nn, "_parse_to", parse) == 0;
    Py_XDECREF(nn);
    Py_XDECREF(parse);
    return ok;
}
