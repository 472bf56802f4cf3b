/* weight_norm.c - w = v g / |v|, the norm taken over all dims but one, and its gradient, as calls of ops. */
#include "ops/rules/rules.h"

static bool fused(tp_value v, tp_value dim)
{
    return tp_as_int(dim) == 0 || tp_as_int(dim) == v.tensor->ndim - 1;
}

/* _weight_norm(v, g, dim) */
TP_HOOK_C(tp_c_weight_norm)
{
    return arg[0].tensor->device.type == arg[1].tensor->device.type || tp_fail(TP_ERR_RUNTIME, "weight_norm: expected v and g to be on the same device");
}

static tp_value as(tp_scope *s, tp_value t, tp_dtype d)
{
    return s->failed ? tp_none() : tp_of_tensor(tp_scope_to_dtype(s, t.tensor, d));
}

TP_HOOK_D(tp_d_weight_norm)
{
    tp_scope s = { 0 };
    (void)op;
    if (fused(arg[0], arg[2]))
        return tp_rule_done(&s, CALL(_weight_norm_interface, arg[0], arg[1], arg[2]), result);
    tp_value norm = CALL(norm_except_dim, arg[0], tp_int(2), arg[2]);
    return tp_rule_done(&s, CALL(mul_Tensor, arg[0], CALL(div_Tensor, arg[1], norm)), result);
}

/* _weight_norm_interface(v, g, dim) -> (w, norms); halves are computed as f32 */
TP_HOOK_D(tp_d_weight_norm_interface)
{
    tp_scope s = { 0 };
    tp_dtype d = (tp_dtype)arg[0].tensor->dtype, wide = tp_dtype_is_half(d) ? TP_f32 : d;
    tp_value v = as(&s, arg[0], wide), g = as(&s, arg[1], wide), norm = CALL(norm_except_dim, v, tp_int(2), arg[2]);
    (void)op;
    tp_value w = as(&s, CALL(mul_Tensor, v, CALL(div_Tensor, g, norm)), d);
    if (!s.failed) {
        tp_scope_keep(&s, &result[0], w);
        tp_scope_keep(&s, &result[1], norm);
    }
    return tp_scope_end(&s);
}

/* (grad_w, saved_v, saved_g, saved_norms, dim) -> (grad of v, grad of g) */
TP_HOOK_D(tp_d_weight_norm_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *v = arg[1].tensor;
    if (!v->ndim)
        return tp_fail(TP_ERR_RUNTIME, "weight_norm: v has no dims");
    bool first = tp_as_int(arg[4]) == 0;
    tp_value norms = as(&s, arg[3], (tp_dtype)arg[2].tensor->dtype), product = CALL(mul_Tensor, arg[0], arg[1]);
    tp_syms flat = { 2, { tp_sym_int(-1), tp_sym_int(-1) } }, shape = tp_syms_sizes(arg[3].tensor);
    (void)op;
    flat.item[!first] = tp_tensor_sym_size(v, first ? 0 : v->ndim - 1);
    tp_value along = tp_int(first);
    tp_value sums = CALL(sum_dim_IntList, CALL(view, product, tp_scope_syms(&s, &flat)), tp_scope_list(&s, 1, &along));
    sums = CALL(view, sums, tp_scope_syms(&s, &shape));
    tp_value share = CALL(div_Tensor, sums, CALL(mul_Tensor, norms, norms));
    tp_value rest = CALL(sub_Tensor, arg[0], CALL(mul_Tensor, arg[1], share));
    tp_value dv = CALL(mul_Tensor, CALL(div_Tensor, arg[2], norms), rest), dg = CALL(div_Tensor, sums, norms);
    if (!s.failed) {
        tp_scope_keep(&s, &result[0], dv);
        tp_scope_keep(&s, &result[1], dg);
    }
    return tp_scope_end(&s);
}
