/* number_slots.c - operators, with a typed short way for small tensors.
 *
 * The short way is taken when nothing but the tape watches (no other layer, no mode), both operands are plain and small, and
 * of one type that computes in itself: no boxing, no dispatch, no loop is built. The tape is told afterwards what was done.
 * Everything else is a call of the op. */
#include <string.h>

#include "grad/tape.h"
#include "python/face.h"
#include "tile/tile.h"

enum { SMALL_NUMEL = 64, SMALL_SCALAR = 16, TINY_MATRIX = 4 };

typedef enum slot_op {
    SLOT_ADD, SLOT_SUB, SLOT_RSUB, SLOT_MUL, SLOT_DIV, SLOT_FLOOR_DIVIDE, SLOT_REMAINDER, SLOT_POW, SLOT_MATMUL,
    SLOT_AND, SLOT_OR, SLOT_XOR, SLOT_LSHIFT, SLOT_RSHIFT,
    SLOT_IADD, SLOT_ISUB, SLOT_IMUL, SLOT_IDIV, SLOT_IFLOOR_DIVIDE, SLOT_IREMAINDER, SLOT_IPOW,
    SLOT_IAND, SLOT_IOR, SLOT_IXOR, SLOT_ILSHIFT, SLOT_IRSHIFT,
    SLOT_EQ, SLOT_NE, SLOT_LT, SLOT_LE, SLOT_GT, SLOT_GE, SLOT_NEG, SLOT_ABS, SLOT_NOT, SLOT_COUNT
} slot_op;

static const char *const slot_names[SLOT_COUNT] = {
    "add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "pow", "matmul",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
    "add_", "sub_", "mul_", "div_", "floor_divide_", "remainder_", "pow_",
    "bitwise_and_", "bitwise_or_", "bitwise_xor_", "bitwise_left_shift_", "bitwise_right_shift_",
    "eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "bitwise_not",
};

/* ---- the short way ---- */
static inline bool nothing_watches(uint32_t keys)
{
    return !(keys & TP_ALL_LAYERS) && !tp_self.active && !tp_self.modes;
}

/* f32, f64, i32, i64 compute in themselves; -1 for the others. */
static inline int own_compute(uint8_t dtype)
{
    switch (dtype) {
    case TP_f32: return TP_COMPUTE_f32;
    case TP_f64: return TP_COMPUTE_f64;
    case TP_i32: return TP_COMPUTE_i32;
    case TP_i64: return TP_COMPUTE_i64;
    default: return -1;
    }
}

static inline bool same_sizes(const tp_tensor *x, const tp_tensor *y)
{
    if (x->ndim != y->ndim)
        return false;
    for (int i = 0; i < x->ndim; i++)
        if (x->size[i] != y->size[i])
            return false;
    return true;
}

static inline bool both_plain(const tp_tensor *x, const tp_tensor *y)
{
    return x->dtype == y->dtype && (x->keys & y->keys & TP_KEY_CONTIGUOUS) && (unsigned)x->numel - 1 < SMALL_NUMEL &&
           !(x->device.type | y->device.type) && same_sizes(x, y);
}

/* Does the tape, and nothing else, watch the operands? It must be open: below it, in a mode's handler, nothing is recorded. */
static inline bool only_tape_watches(uint32_t keys)
{
    return (keys & TP_ALL_LAYERS) == TP_LAYER_BIT(TP_LAYER_GRAD) && (tp_self.allowed & TP_LAYER_BIT(TP_LAYER_GRAD)) &&
           !tp_self.active && !tp_self.modes;
}

/* A number where the other operand is a tensor of `d`: n copies of it. False: it would change the type, or overflow. */
static inline bool spread(PyObject *number, uint8_t d, int64_t n, void *out)
{
    double value;
    int overflow = 0;
    long long whole = 0;
    bool integer = PyLong_CheckExact(number);
    if (integer) {
        whole = PyLong_AsLongLongAndOverflow(number, &overflow);
        value = (double)whole;
        if (overflow || whole > INT32_MAX || whole < INT32_MIN)
            return false;
    } else if (PyFloat_CheckExact(number)) {
        value = PyFloat_AS_DOUBLE(number);
    } else {
        return false;
    }
    if (integer && d == TP_i64)
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)out)[i] = whole;
    else if (integer && d == TP_i32)
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)out)[i] = (int32_t)whole;
    else if (d == TP_f32)
        for (int64_t i = 0; i < n; i++)
            ((float *)out)[i] = (float)value;
    else if (d == TP_f64)
        for (int64_t i = 0; i < n; i++)
            ((double *)out)[i] = value;
    else
        return false;
    return true;
}

/* What an operator calls for two tensors, or a tensor and a number; NULL: this build has no such op. Borrowed. */
static const tp_op *operator_op(slot_op slot)
{
    if (!face.slot_op[slot])
        face.slot_op[slot] = tp_op_find("aten", slot_names[slot], "Tensor");
    return face.slot_op[slot];
}

static inline tp_value operand_value(PyObject *o)
{
    return face_is_fast(o) ? tp_of_tensor(face_tensor(o)) : tp_float(PyFloat_AS_DOUBLE(o));
}

/* The short way of operands that the tape watches: computes, then has the tape record it. Apart, so that operands which
 * nothing watches pay nothing for it. NULL without an exception: not for this way. */
static __attribute__((noinline)) PyObject *taped_way(slot_op slot, tp_prim prim, PyObject *a, PyObject *b, const void *const *in)
{
    tp_tensor *x = face_tensor(a);
    bool tensors = face_is_fast(b);
    const tp_op *op;
    if (!only_tape_watches(x->keys | (tensors ? face_tensor(b)->keys : 0)) || !(tensors || PyFloat_CheckExact(b)) ||
        !(op = operator_op(slot)))
        return NULL;
    tp_tensor *made = tp_tensor_new_alike(x);
    if (!made)
        return face_raise();
    tp_tile_run_small(prim, (tp_compute)own_compute(x->dtype), x->numel, tp_tensor_data(made), in);
    const tp_value arg[3] = { operand_value(a), operand_value(b), tp_int(1) };
    if (tp_record_made(op, arg, made))
        return face_wrap(made);
    tp_tensor_unref(made);
    return face_raise();
}

/* NULL without an exception: not for the short way. `into` is written instead of a new tensor when given. */
static PyObject *short_way(slot_op slot, tp_prim prim, PyObject *a, PyObject *b, PyObject *into)
{
    _Alignas(16) double numbers[SMALL_SCALAR];
    const void *in[2];
    if (!face_is_fast(a))
        return NULL;
    tp_tensor *x = face_tensor(a);
    uint32_t keys = x->keys;
    int compute = own_compute(x->dtype);
    if (compute < 0 || (prim == TP_PRIM_div && compute > TP_COMPUTE_f64))
        return NULL;
    in[0] = tp_tensor_data(x);
    if (face_is_fast(b)) {
        if (!both_plain(x, face_tensor(b)))
            return NULL;
        in[1] = tp_tensor_data(face_tensor(b));
        keys |= face_tensor(b)->keys;
    } else {
        if (x->numel > SMALL_SCALAR || x->numel < 1 || !(x->keys & TP_KEY_CONTIGUOUS) || x->device.type ||
            !spread(b, x->dtype, x->numel, numbers))
            return NULL;
        in[1] = numbers;
    }
    if (TP_UNLIKELY(!nothing_watches(keys)))
        return into ? NULL : taped_way(slot, prim, a, b, in);
    if (into) {
        if (x->storage->kind == TP_MEMORY_MAPPED || ((x->keys & TP_KEY_INFERENCE) && !tp_self.inference_mode))
            return NULL;
        tp_tile_run_small(prim, (tp_compute)compute, x->numel, tp_tensor_data(x), in);
        if (!(x->keys & TP_KEY_INFERENCE))
            tp_bump_version(x);
        return Py_NewRef(into);
    }
    tp_tensor *made = tp_tensor_new_alike(x);
    if (!made)
        return face_raise();
    tp_tile_run_small(prim, (tp_compute)compute, x->numel, tp_tensor_data(made), in);
    return face_wrap(made);
}

/* Up to 4x4 in f32: k in order with one rounding a step, as the large kernels do. */
static PyObject *tiny_matmul(PyObject *a, PyObject *b)
{
    if (!face_is_fast(a) || !face_is_fast(b))
        return NULL;
    tp_tensor *x = face_tensor(a), *y = face_tensor(b);
    if (x->dtype != TP_f32 || y->dtype != TP_f32 || x->ndim != 2 || y->ndim != 2 || x->size[1] != y->size[0] ||
        x->size[0] > TINY_MATRIX || x->size[1] > TINY_MATRIX || y->size[1] > TINY_MATRIX || (x->device.type | y->device.type) ||
        !nothing_watches(x->keys | y->keys))
        return NULL;
    int64_t size[2] = { x->size[0], y->size[1] };
    tp_tensor *made = tp_tensor_new(TP_f32, 2, size);
    if (!made)
        return face_raise();
    const float *p = tp_tensor_data(x), *q = tp_tensor_data(y);
    float *out = tp_tensor_data(made);
    for (int64_t i = 0; i < size[0]; i++)
        for (int64_t j = 0; j < size[1]; j++) {
            float sum = 0;
            for (int64_t k = 0; k < x->size[1]; k++)
                sum = __builtin_fmaf(p[i * x->stride[0] + k * x->stride[1]], q[k * y->stride[0] + j * y->stride[1]], sum);
            out[i * size[1] + j] = sum;
        }
    return face_wrap(made);
}

/* Methods and functions take the short way too: mul_(y), add(y). */
PyObject *face_quick(int slot, PyObject *a, PyObject *b)
{
    switch ((slot_op)slot) {
    case SLOT_ADD: return short_way(SLOT_ADD, TP_PRIM_add, a, b, NULL);
    case SLOT_SUB: return short_way(SLOT_SUB, TP_PRIM_sub, a, b, NULL);
    case SLOT_MUL: return short_way(SLOT_MUL, TP_PRIM_mul, a, b, NULL);
    case SLOT_DIV: return short_way(SLOT_DIV, TP_PRIM_div, a, b, NULL);
    case SLOT_IADD: return short_way(SLOT_IADD, TP_PRIM_add, a, b, a);
    case SLOT_ISUB: return short_way(SLOT_ISUB, TP_PRIM_sub, a, b, a);
    case SLOT_IMUL: return short_way(SLOT_IMUL, TP_PRIM_mul, a, b, a);
    case SLOT_IDIV: return short_way(SLOT_IDIV, TP_PRIM_div, a, b, a);
    case SLOT_MATMUL: return tiny_matmul(a, b);
    default: return NULL;
    }
}

int face_quick_slot(const char *name)
{
    for (int i = 0; i < SLOT_EQ; i++)
        if (strcmp(slot_names[i], name) == 0)
            return i;
    return -1;
}

/* ---- the op ---- */

/* Two tensors of ours, or a tensor and a float, and no mode: the call needs no parsing, only layers below (the tape).
 * NULL without an exception: not for this way. */
static PyObject *boxed_way(slot_op slot, PyObject *a, PyObject *b)
{
    if (slot > SLOT_DIV || slot == SLOT_RSUB || tp_self.modes || !face_is_fast(a) || !(face_is_fast(b) || PyFloat_CheckExact(b)))
        return NULL;
    const tp_op *op = operator_op(slot);
    if (!op)
        return NULL;
    tp_value result, arg[3] = { operand_value(a), operand_value(b), tp_int(1) };
    return tp_call(op, arg, &result) ? face_wrap(result.tensor) : face_raise();
}

static PyObject *call_slot(slot_op slot, PyObject *a, PyObject *b)
{
    op_set *set = face.slot_set[slot];
    if (!set && !(set = face.slot_set[slot] = face_method_set(slot_names[slot])))
        return NULL;
    return set->where == 1 ? face_call_set(set, a, &b, b != NULL, NULL)
                          : face_call_set(set, NULL, (PyObject *[]){ a, b }, 1 + (b != NULL), NULL);
}

/* A number as a 0-d tensor that promotes as a number does. */
static PyObject *number_tensor(PyObject *number)
{
    tp_value v;
    call_frame f;
    face_frame_init(&f);
    if (face_to_number(number, &v, &f) <= 0)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a number is wanted, not %s", Py_TYPE(number)->tp_name);
    tp_scalar s = tp_as_scalar(v);
    face_frame_fini(&f);
    tp_dtype d = s.kind == TP_KIND_BOOL ? TP_b8 : s.kind == TP_KIND_INTEGER ? TP_i64
               : s.kind == TP_KIND_FLOAT ? (tp_dtype)tp_the_runtime.default_dtype
                                         : tp_dtype_to_complex((tp_dtype)tp_the_runtime.default_dtype);
    tp_tensor *t = tp_tensor_new_scalar(d, s);
    if (!t)
        return face_raise();
    t->keys |= TP_KEY_NUMBER;
    return face_wrap(t);
}

static bool is_operand(PyObject *o)
{
    return face_is_tensor(o) || PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) || face_is_sym(o) || face_is_numpy_number(o) ||
           face_has_function(o);
}

/* number OP tensor, where the op is not symmetric: the number comes first. */
static PyObject *number_first(slot_op slot, PyObject *number, PyObject *tensor)
{
    PyObject *function = PyDict_GetItemString(face.function_sets, slot_names[slot]);
    if (!function)
        return face_unimplemented(slot_names[slot]);
    if (slot == SLOT_POW)
        return face_call_set((op_set *)function, NULL, (PyObject *[]){ number, tensor }, 2, NULL);
    PyObject *first = face_is_tensor(number) || face_has_function(number) ? Py_NewRef(number) : number_tensor(number);
    PyObject *result = first ? face_call_set((op_set *)function, NULL, (PyObject *[]){ first, tensor }, 2, NULL) : NULL;
    Py_XDECREF(first);
    return result;
}

static PyObject *reverse_divide(PyObject *number, PyObject *tensor)
{
    PyObject *inverse = face_call_method("reciprocal", tensor, NULL, 0);
    PyObject *result = inverse ? call_slot(SLOT_MUL, inverse, number) : NULL;
    Py_XDECREF(inverse);
    return result;
}

static PyObject *shift_by(slot_op slot, PyObject *tensor, PyObject *number)
{
    PyObject *second = number_tensor(number);
    PyObject *result = second ? call_slot(slot, tensor, second) : NULL;
    Py_XDECREF(second);
    return result;
}

/* Where nobody had an implementation the other operand's class may have one, and Python says what it says. */
static PyObject *or_not(PyObject *result, PyObject *a, PyObject *b)
{
    if (result || !PyErr_ExceptionMatches(PyExc_TypeError) || !(face_has_function(a) || (b && face_has_function(b)) || tp_self.modes))
        return result;
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *operate(slot_op slot, PyObject *a, PyObject *b)
{
    if (face_is_tensor(a))
        return (slot == SLOT_LSHIFT || slot == SLOT_RSHIFT) && PyLong_Check(b) ? shift_by(slot, a, b) : call_slot(slot, a, b);
    switch (slot) {
    case SLOT_ADD:
    case SLOT_MUL: return call_slot(slot, b, a);
    case SLOT_SUB: return call_slot(SLOT_RSUB, b, a);
    case SLOT_DIV: return reverse_divide(a, b);
    default: return number_first(slot, a, b);
    }
}

static PyObject *binary(slot_op slot, PyObject *a, PyObject *b)
{
    if (!is_operand(a) || !is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    return or_not(operate(slot, a, b), a, b);
}

#define BINARY(name, slot)                                              \
    static PyObject *name(PyObject *a, PyObject *b)                     \
    {                                                                   \
        PyObject *quick = face_quick(slot, a, b);                       \
        if (TP_LIKELY(quick != NULL) || PyErr_Occurred())               \
            return quick;                                               \
        if ((quick = boxed_way(slot, a, b)) || PyErr_Occurred())        \
            return quick;                                               \
        return binary(slot, a, b);                                      \
    }
BINARY(number_add, SLOT_ADD)
BINARY(number_sub, SLOT_SUB)
BINARY(number_mul, SLOT_MUL)
BINARY(number_div, SLOT_DIV)
BINARY(number_matmul, SLOT_MATMUL)

#define PLAIN_BINARY(name, slot) static PyObject *name(PyObject *a, PyObject *b) { return binary(slot, a, b); }
PLAIN_BINARY(number_floor_divide, SLOT_FLOOR_DIVIDE)
PLAIN_BINARY(number_remainder, SLOT_REMAINDER)
PLAIN_BINARY(number_and, SLOT_AND)
PLAIN_BINARY(number_or, SLOT_OR)
PLAIN_BINARY(number_xor, SLOT_XOR)
PLAIN_BINARY(number_lshift, SLOT_LSHIFT)
PLAIN_BINARY(number_rshift, SLOT_RSHIFT)

/* += and *= are asked again as operators of sequences, where NotImplemented would be a result. */
static PyObject *or_refused(slot_op slot, PyObject *result, PyObject *a, PyObject *b)
{
    if (result != Py_NotImplemented || (slot != SLOT_IADD && slot != SLOT_IMUL))
        return result;
    Py_DECREF(result);
    return PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for %s: '%s' and '%s'", slot == SLOT_IADD ? "+=" : "*=", Py_TYPE(a)->tp_name, Py_TYPE(b)->tp_name);
}

#define INPLACE(name, slot)                                             \
    static PyObject *name(PyObject *a, PyObject *b)                     \
    {                                                                   \
        PyObject *quick = face_quick(slot, a, b);                       \
        if (quick || PyErr_Occurred())                                  \
            return quick;                                               \
        if (!is_operand(b))                                             \
            Py_RETURN_NOTIMPLEMENTED;                                   \
        return or_refused(slot, or_not(call_slot(slot, a, b), a, b), a, b); \
    }
INPLACE(inplace_add, SLOT_IADD)
INPLACE(inplace_sub, SLOT_ISUB)
INPLACE(inplace_mul, SLOT_IMUL)
INPLACE(inplace_div, SLOT_IDIV)
INPLACE(inplace_floor_divide, SLOT_IFLOOR_DIVIDE)
INPLACE(inplace_remainder, SLOT_IREMAINDER)
INPLACE(inplace_and, SLOT_IAND)
INPLACE(inplace_or, SLOT_IOR)
INPLACE(inplace_xor, SLOT_IXOR)
INPLACE(inplace_lshift, SLOT_ILSHIFT)
INPLACE(inplace_rshift, SLOT_IRSHIFT)

static PyObject *number_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return binary(SLOT_POW, a, b);
}

static PyObject *inplace_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None || !is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    return call_slot(SLOT_IPOW, a, b);
}

/* ---- one operand ---- */
static PyObject *number_negative(PyObject *a)
{
    return call_slot(SLOT_NEG, a, NULL);
}

static PyObject *number_positive(PyObject *a)
{
    if (face_tensor(a)->dtype == TP_b8)
        return PyErr_Format(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
    return Py_NewRef(a);
}

static PyObject *number_absolute(PyObject *a)
{
    return call_slot(SLOT_ABS, a, NULL);
}

static PyObject *number_invert(PyObject *a)
{
    if (!tp_dtype_is_integral((tp_dtype)face_tensor(a)->dtype))
        return PyErr_Format(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return call_slot(SLOT_NOT, a, NULL);
}

static int number_bool(PyObject *a)
{
    tp_tensor *t = face_tensor(a);
    if (TP_UNLIKELY(face_overridden(a))) {
        PyObject *answer = face_override_method(a, "__bool__", NULL, 0, NULL);
        int is = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return is;
    }
    int64_t count;
    if (!sym_known_numel(t, &count))
        return -1;
    if (count != 1) {
        PyErr_SetString(PyExc_RuntimeError, count ? "Boolean value of Tensor with more than one value is ambiguous"
                                                     : "Boolean value of Tensor with no values is ambiguous");
        return -1;
    }
    if (TP_UNLIKELY(face_is_traced()) && !face_jit_warn_conversion("a Python boolean"))
        return -1;
    PyObject *item = NULL;
    if (t->keys & TP_LAYER_BIT(TP_LAYER_TRANSFORM))         /* a level of vmap has words for this */
        item = face_call_op(tp_op_find("aten", "is_nonzero", ""), (tp_value[]){ tp_of_tensor(t) });
    else
        item = face_item(t);
    int is = item ? PyObject_IsTrue(item) : -1;
    Py_XDECREF(item);
    return is;
}

static PyObject *one_number(PyObject *a, const char *method)
{
    tp_tensor *t = face_tensor(a);
    if (TP_UNLIKELY(face_overridden(a)))
        return face_override_method(a, method, NULL, 0, NULL);
    if (t->numel != 1)
        return PyErr_Format(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    return face_item(t);
}

/* A complex number without an imaginary part is as good as its real part. Takes `item`. */
static PyObject *real_part(PyObject *item, const char *type)
{
    if (!item || !PyComplex_Check(item))
        return item;
    Py_complex c = PyComplex_AsCComplex(item);
    Py_DECREF(item);
    if (c.imag != 0)
        return PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", type);
    return PyFloat_FromDouble(c.real);
}

static PyObject *number_int(PyObject *a)
{
    if (TP_UNLIKELY(face_is_traced()) && !face_jit_warn_conversion("a Python integer"))
        return NULL;
    PyObject *item = real_part(one_number(a, "__int__"), "int64_t");
    PyObject *made = item ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return made;
}

static PyObject *number_float(PyObject *a)
{
    if (TP_UNLIKELY(face_is_traced()) && !face_jit_warn_conversion("a Python float"))
        return NULL;
    PyObject *item = real_part(one_number(a, "__float__"), "double");
    PyObject *made = item ? PyNumber_Float(item) : NULL;
    Py_XDECREF(item);
    return made;
}

static PyObject *number_index(PyObject *a)
{
    tp_tensor *t = face_tensor(a);
    if (t->numel != 1 || !tp_dtype_is_integral((tp_dtype)t->dtype))
        return PyErr_Format(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
    PyObject *item = one_number(a, "__index__");
    PyObject *made = item ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return made;
}

static PyObject *compare(PyObject *a, PyObject *b, int op)
{
    static const slot_op slots[] = {
        [Py_LT] = SLOT_LT, [Py_LE] = SLOT_LE, [Py_EQ] = SLOT_EQ, [Py_NE] = SLOT_NE, [Py_GT] = SLOT_GT, [Py_GE] = SLOT_GE,
    };
    if (!is_operand(b))
        Py_RETURN_NOTIMPLEMENTED;
    return or_not(call_slot(slots[op], a, b), a, b);
}

static Py_ssize_t length(PyObject *self)
{
    tp_tensor *t = face_tensor(self);
    if (TP_UNLIKELY(face_overridden(self))) {
        PyObject *answer = face_override_method(self, "__len__", NULL, 0, NULL);
        Py_ssize_t count = answer ? PyNumber_AsSsize_t(answer, PyExc_OverflowError) : -1;
        Py_XDECREF(answer);
        return count;
    }
    if (t->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
        return -1;
    }
    if (TP_UNLIKELY(face_is_traced()) && !face_jit_warn("Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would be "
            "tensor.shape[0]. Passing a tensor of different shape might lead to errors or silently give incorrect results."))
        return -1;
    int64_t count;
    return sym_known_size(t, 0, &count) ? (Py_ssize_t)count : -1;
}

PyType_Slot face_number_slots[] = {
    { Py_nb_add, number_add }, { Py_nb_subtract, number_sub }, { Py_nb_multiply, number_mul },
    { Py_nb_true_divide, number_div }, { Py_nb_matrix_multiply, number_matmul },
    { Py_nb_floor_divide, number_floor_divide }, { Py_nb_remainder, number_remainder }, { Py_nb_power, number_power },
    { Py_nb_and, number_and }, { Py_nb_or, number_or }, { Py_nb_xor, number_xor },
    { Py_nb_lshift, number_lshift }, { Py_nb_rshift, number_rshift },
    { Py_nb_inplace_add, inplace_add }, { Py_nb_inplace_subtract, inplace_sub }, { Py_nb_inplace_multiply, inplace_mul },
    { Py_nb_inplace_true_divide, inplace_div }, { Py_nb_inplace_floor_divide, inplace_floor_divide },
    { Py_nb_inplace_remainder, inplace_remainder }, { Py_nb_inplace_power, inplace_power },
    { Py_nb_inplace_and, inplace_and }, { Py_nb_inplace_or, inplace_or }, { Py_nb_inplace_xor, inplace_xor },
    { Py_nb_inplace_lshift, inplace_lshift }, { Py_nb_inplace_rshift, inplace_rshift },
    { Py_nb_negative, number_negative }, { Py_nb_positive, number_positive }, { Py_nb_absolute, number_absolute },
    { Py_nb_invert, number_invert }, { Py_nb_bool, number_bool }, { Py_nb_int, number_int }, { Py_nb_float, number_float },
    { Py_nb_index, number_index }, { Py_tp_richcompare, compare }, { Py_mp_length, length },
    { 0, NULL },
};
