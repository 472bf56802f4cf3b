/* promote.c - type promotion and broadcasting. */
#include "ops/promote.h"

#include <string.h>

tp_dtype tp_dtype_of_number(tp_value v)
{
    tp_dtype real = (tp_dtype)tp_the_runtime.default_dtype;
    switch ((tp_tag)v.tag) {
    case TP_BOOL:    return TP_b8;
    case TP_FLOAT:   return real;
    case TP_COMPLEX: return tp_dtype_to_complex(real);
    default:         return TP_i64;
    }
}

static void join(uint8_t *slot, tp_dtype d)
{
    *slot = (uint8_t)(*slot == TP_DTYPE_NONE ? d : tp_dtype_promote((tp_dtype)*slot, d));
}

void tp_common_add(tp_common *c, tp_value operand)
{
    if (operand.tag == TP_TENSOR) {
        const tp_tensor *t = operand.tensor;
        join(t->ndim ? &c->with_dims : t->keys & TP_KEY_NUMBER ? &c->number : &c->without_dims, (tp_dtype)t->dtype);
    } else if (tp_is_number(operand)) {
        join(&c->number, tp_dtype_of_number(operand));
    }
}

void tp_common_add_without_dims(tp_common *c, const tp_tensor *t)
{
    join(&c->without_dims, (tp_dtype)t->dtype);
}

static tp_dtype outrank(tp_dtype high, tp_dtype low)
{
    if (high == TP_DTYPE_NONE || low == TP_DTYPE_NONE)
        return high == TP_DTYPE_NONE ? low : high;
    if (tp_dtypes[high].kind >= tp_dtypes[low].kind)
        return high;
    /* A complex number of lower rank gives its kind, not its width: f32 with a 0-d c128 is c64. */
    return tp_dtype_is_complex(low) && tp_dtype_is_float(high) ? tp_dtype_to_complex(high) : tp_dtype_promote(high, low);
}

tp_dtype tp_common_dtype(const tp_common *c)
{
    return outrank((tp_dtype)c->with_dims, outrank((tp_dtype)c->without_dims, (tp_dtype)c->number));
}

bool tp_broadcast(int *ndim, int64_t *out, int other_ndim, const int64_t *other)
{
    int wide = *ndim > other_ndim ? *ndim : other_ndim;
    int shift = wide - *ndim;
    if (shift) {
        memmove(out + shift, out, (size_t)*ndim * sizeof *out);
        for (int i = 0; i < shift; i++)
            out[i] = 1;
    }
    *ndim = wide;
    for (int i = other_ndim - 1; i >= 0; i--) {         /* of several bad dims the last is named */
        int64_t *mine = &out[wide - other_ndim + i];
        if (*mine == other[i] || other[i] == 1)
            continue;
        if (*mine != 1)
            return tp_fail(TP_ERR_RUNTIME, "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d",
                           LL(*mine), LL(other[i]), wide - other_ndim + i);
        *mine = other[i];
    }
    return true;
}
