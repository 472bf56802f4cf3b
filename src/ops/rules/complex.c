/* complex.c - pieces of formulas over complex numbers that the op language has no words for. */
#include "ops/rules/rules.h"

/* (x): x times the imaginary unit. */
TP_HOOK_D(tp_d_times_i)
{
    (void)op;
    tp_scope s = { 0 };
    tp_value unit = tp_value_complex(0, 1);
    bool ok = unit.tag == TP_COMPLEX && tp_rule_done(&s, CALL(mul_Scalar, arg[0], unit), result);
    tp_value_unref(unit);
    return ok;
}

/* ---- signs (ops/signs.h) ---- */
static bool resolve(tp_tensor *self, uint32_t sign, tp_value *result)
{
    tp_scope s = { 0 };
    tp_value given = tp_of_tensor(self);
    return tp_rule_done(&s, self->keys & sign ? CALL(clone, given) : given, result);
}

TP_HOOK_D(tp_d_resolve_conj)
{
    (void)op;
    return resolve(arg[0].tensor, TP_KEY_CONJ, result);
}

TP_HOOK_D(tp_d_resolve_neg)
{
    (void)op;
    return resolve(arg[0].tensor, TP_KEY_NEG, result);
}

/* The parts of a conjugate are looked at in what it is the conjugate of. */
static bool part(const tp_value *arg, int64_t which, tp_value *result)
{
    tp_scope s = { 0 };
    bool conj = arg[0].tensor->keys & TP_KEY_CONJ;
    tp_value pairs = CALL(view_as_real, conj ? CALL(_conj, arg[0]) : arg[0]);
    if (conj && which)
        pairs = CALL(_neg_view, pairs);
    return tp_rule_done(&s, CALL(select_int, pairs, tp_int(arg[0].tensor->ndim), tp_int(which)), result);
}

TP_HOOK_D(tp_d_real)
{
    (void)op;
    return part(arg, 0, result);
}

TP_HOOK_D(tp_d_imag)
{
    (void)op;
    return part(arg, 1, result);
}

TP_HOOK_C(tp_c_view_as_real)
{
    return !(arg[0].tensor->keys & TP_KEY_CONJ) ||
           tp_fail(TP_ERR_RUNTIME, "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view it as "
                                   "real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original.");
}

/* (self, dtype) */
TP_HOOK_C(tp_c_view_dtype)
{
    const tp_tensor *self = arg[0].tensor;
    return !tp_signs(self) || self->dtype == arg[1].i ||
           tp_fail(TP_ERR_RUNTIME, self->keys & TP_KEY_CONJ ? "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype."
                                                            : "torch.Tensor.view is not supported for tensors with negative bit set when converting to a different dtype.");
}
