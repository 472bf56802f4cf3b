/* values.c - checks that must look at elements: probabilities between 0 and 1, a number that a type can hold.
 *
 * A tensor without memory (meta, or one that a trace pretends) has no elements to look at and passes. */
#include <float.h>

#include "ops/rules/rules.h"
#include "ops/run.h"

static bool readable(const tp_tensor *t)
{
    return t->numel && t->storage->data;
}

static bool every(const tp_tensor *t, bool (*good)(tp_scalar))
{
    int64_t at[TP_MAX_DIMS] = { 0 }, place = 0;
    size_t bytes = tp_dtype_bytes((tp_dtype)t->dtype);
    for (int64_t left = readable(t) ? t->numel : 0; left > 0; left--) {
        if (!good(tp_scalar_read((const char *)tp_tensor_data(t) + place * (int64_t)bytes, (tp_dtype)t->dtype)))
            return false;
        for (int d = t->ndim - 1; d >= 0; d--) {
            place += t->stride[d];
            if (++at[d] < t->size[d])
                break;
            place -= at[d] * t->stride[d];
            at[d] = 0;
        }
    }
    return true;
}

/* Rows of the common types are looked at without a call for each element. */
#define EACH_OF(ctype, t, i, condition)                                                                        \
    for (const ctype *x = tp_tensor_data(t); i < (t)->numel && (condition);)                                   \
        i++

/* ---- probabilities ---- */
static bool in_unit_interval(tp_scalar s)
{
    double x = tp_scalar_to_double(s);
    return x >= 0 && x <= 1;
}

static bool are_probabilities(const tp_tensor *t)
{
    int64_t i = 0;
    if (!readable(t))
        return true;
    if (t->dtype == TP_f32 && tp_tensor_is_contiguous(t))
        EACH_OF(float, t, i, x[i] >= 0 && x[i] <= 1);
    else if (t->dtype == TP_f64 && tp_tensor_is_contiguous(t))
        EACH_OF(double, t, i, x[i] >= 0 && x[i] <= 1);
    else
        return every(t, in_unit_interval);
    return i == t->numel;
}

/* (self, target) of binary_cross_entropy. */
TP_HOOK_C(tp_c_probabilities)
{
    if (!are_probabilities(arg[0].tensor))
        return tp_fail(TP_ERR_RUNTIME, "all elements of input should be between 0 and 1");
    if (!are_probabilities(arg[1].tensor))
        return tp_fail(TP_ERR_RUNTIME, "all elements of target should be between 0 and 1");
    return true;
}

/* ---- numbers that become elements ---- */
static bool integer_holds(tp_dtype d, double x)
{
    double top = d == TP_u8 ? 255 : d == TP_i8 ? 127 : d == TP_i16 ? 32767 : d == TP_i32 ? 2147483647 : 9223372036854775807.0;
    double low = d == TP_u8 ? -255 : -top - (d == TP_i64 ? 0 : 1);      /* PyTorch lets negative numbers wrap in u8 */
    return x >= low && x <= top;                                        /* NaN is in no range */
}

static bool float_holds(tp_dtype d, double x)
{
    double top = d == TP_f16 ? 65504 : d == TP_bf16 ? 3.3895313892515355e38 : d == TP_f32 || d == TP_c64 ? FLT_MAX : DBL_MAX;
    return isinf(x) || isnan(x) || (x >= -top && x <= top);
}

static bool holds(tp_dtype d, tp_scalar s)
{
    tp_c128 c = tp_scalar_to_complex(s);
    if (d == TP_b8)
        return true;
    if (tp_dtype_is_complex(d))
        return float_holds(d, c.re) && float_holds(d, c.im);
    if (s.kind == TP_KIND_COMPLEX && c.im != 0)
        return false;
    return tp_dtype_is_float(d) ? float_holds(d, c.re) : integer_holds(d, c.re);
}

bool tp_check_representable(tp_scalar s, tp_dtype d)
{
    static const char *const sized[TP_DTYPE_COUNT] = { [TP_u8] = "uint8_t", [TP_i8] = "int8_t", [TP_i16] = "int16_t", [TP_i64] = "int64_t" };
    return holds(d, s) || tp_fail(TP_ERR_RUNTIME, "value cannot be converted to type %s without overflow", sized[d] ? sized[d] : tp_dtypes[d].cpp);
}

/* (number, dtype): none and what is not known yet convert */
TP_HOOK_C(tp_c_converts)
{
    return tp_is_none(arg[0]) || arg[0].tag == TP_SYM || tp_check_representable(tp_as_scalar(arg[0]), tp_dtype_read(arg[1]));
}
