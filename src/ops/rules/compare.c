/* compare.c - nearness: |self - other| <= atol + rtol |other|, equal infinities near, NaN near NaN when asked. */
#include "ops/rules/rules.h"

/* self, other, rtol, atol, equal_nan */
TP_HOOK_D(tp_d_isclose)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor;
    double rtol = tp_as_double(arg[2]), atol = tp_as_double(arg[3]);
    (void)op;
    tp_value close = CALL(eq_Tensor, arg[0], arg[1]);
    if (tp_as_bool(arg[4]) && tp_dtype_is_inexact((tp_dtype)self->dtype))
        close = CALL(logical_or, close, CALL(logical_and, CALL(ne_Tensor, arg[0], arg[0]), CALL(ne_Tensor, arg[1], arg[1])));
    if (rtol != 0 || atol != 0) {
        tp_value from = arg[0], other = arg[1];
        if (tp_dtype_is_integral((tp_dtype)self->dtype)) {      /* differences of integers could wrap */
            from = CALL(_to_copy, from, tp_of_dtype((tp_dtype)tp_the_runtime.default_dtype));
            other = CALL(_to_copy, other, tp_of_dtype((tp_dtype)tp_the_runtime.default_dtype));
        }
        tp_value allowed = CALL(add_Tensor, CALL(abs, CALL(mul_Tensor, other, tp_float(rtol))), tp_float(atol));
        tp_value actual = CALL(abs, CALL(sub_Tensor, from, other));
        close = CALL(logical_or, close, CALL(logical_and, CALL(isfinite, actual), CALL(le_Tensor, actual, allowed)));
    }
    return tp_rule_done(&s, close, result);
}

TP_HOOK_D(tp_d_allclose)
{
    tp_scope s = { 0 };
    (void)op;
    /* Read by an op: what came out may be a subclass, or a tensor somebody watches. */
    tp_value every = CALL(item, CALL(all, CALL(isclose, arg[0], arg[1], arg[2], arg[3], arg[4])));
    if (!s.failed)
        result[0] = tp_bool(tp_as_bool(every));
    return tp_scope_end(&s);
}
