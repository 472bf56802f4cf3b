/* reductions.c - gradients of reductions that are more than an expression, node for node as PyTorch's graphs have them. */
#include <math.h>

#include "ops/rules/rules.h"

/* g or a result brought back to the dims it had before the reduction, with ones. */
static tp_value restored(tp_scope *scope, tp_value g, const tp_tensor *self, tp_value dims, bool keepdim)
{
    if (keepdim || tp_length(dims) == 0 || self->ndim == 0)
        return g;
    return tp_scope_piece(scope, tp_d_unsqueeze_dims, (tp_value[]){ g, dims, tp_int(self->ndim) });
}

/* The same by one view, as amax and amin do it. */
static tp_value restored_by_view(tp_scope *scope, tp_value g, const tp_tensor *self, tp_value dims, bool keepdim)
{
    if (keepdim || self->ndim == 0 || scope->failed)
        return g;
    tp_value size[TP_MAX_DIMS];
    int64_t dim[TP_MAX_DIMS];
    int n = tp_as_ints(dims, dim, TP_MAX_DIMS, 0);
    for (int i = 0; i < self->ndim; i++)
        size[i] = n == 0 ? tp_int(1) : tp_of_sym(tp_tensor_sym_size(self, i));
    for (int i = 0; i < n; i++)
        size[dim[i] < 0 ? dim[i] + self->ndim : dim[i]] = tp_int(1);
    return tp_rule_call(scope, &tp_op_view, 2, (tp_value[]){ g, tp_scope_list(scope, self->ndim, size) });
}

static tp_sym count_of(const tp_tensor *self, tp_value dims)
{
    int64_t dim[TP_MAX_DIMS];
    int n = dims.tag == TP_NONE ? 0 : tp_as_ints(dims, dim, TP_MAX_DIMS, 0);
    if (n == 0)
        return tp_syms_numel(self);
    tp_sym count = tp_sym_int(1);
    for (int i = 0; i < n && self->ndim; i++)
        count = tp_sym_mul(count, tp_tensor_sym_size(self, (int)(dim[i] < 0 ? dim[i] + self->ndim : dim[i])));
    return count;
}

/* ---- max and min ---- */

/* arg: self, dims. An empty dim has no extreme; the message names it as it was given. */
static bool check_extreme_dims(const char *name, const tp_value *arg)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t dim[TP_MAX_DIMS];
    int n = tp_as_ints(arg[1], dim, TP_MAX_DIMS, 0);
    if (n < 0)
        return false;
    for (int i = 0; i < n; i++) {
        int64_t d = dim[i] < 0 ? dim[i] + self->ndim : dim[i];
        if (d >= 0 && d < self->ndim && self->size[d] == 0)
            return tp_fail(TP_ERR_INDEX, "%s(): Expected reduction dim %lld to have non-zero size.", name, LL(dim[i]));
    }
    return true;
}

TP_HOOK_C(tp_c_amax_dims)
{
    return check_extreme_dims("amax", arg);
}

TP_HOOK_C(tp_c_amin_dims)
{
    return check_extreme_dims("amin", arg);
}

/* arg: g, self, result, dims, keepdim. Equal extremes share the gradient. */
TP_HOOK_D(tp_d_extreme_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[1].tensor;
    bool keepdim = tp_as_bool(arg[4]);
    (void)op;
    tp_value extreme = restored_by_view(&s, arg[2], self, arg[3], keepdim);
    tp_value mask = CALL(eq_Tensor, extreme, arg[1]);
    tp_value g = restored_by_view(&s, arg[0], self, arg[3], keepdim);
    tp_value share = CALL(sum_dim_IntList, mask, arg[3], tp_bool(true));
    return tp_rule_done(&s, CALL(mul_Tensor, CALL(div_Tensor, g, share), mask), result);
}

/* arg: g of the least, g of the largest (either may be none), self, least, largest, dim, keepdim. */
TP_HOOK_D(tp_d_aminmax_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[2].tensor;
    tp_value made = tp_none(), all[TP_MAX_DIMS];
    (void)op;
    for (int i = 0; i < self->ndim; i++)
        all[i] = tp_int(i);
    bool each = arg[5].tag == TP_NONE;
    tp_value dims = each ? tp_scope_list(&s, self->ndim, all) : tp_scope_list(&s, 1, &arg[5]);
    for (int k = 0; k < 2; k++) {
        if (arg[k].tag != TP_TENSOR)
            continue;
        tp_value g = restored_by_view(&s, arg[k], self, dims, tp_as_bool(arg[6]));
        tp_value mask = CALL(eq_Tensor, arg[2], restored_by_view(&s, arg[3 + k], self, dims, tp_as_bool(arg[6])));
        g = CALL(mul_Tensor, CALL(div_Tensor, g, CALL(sum_dim_IntList, mask, dims, tp_bool(true))), mask);
        made = made.tag == TP_TENSOR ? CALL(add_Tensor, made, g) : g;
    }
    return tp_rule_done(&s, made, result);
}

/* arg: g, self, result. */
TP_HOOK_D(tp_d_extreme_all_backward)
{
    tp_scope s = { 0 };
    (void)op;
    tp_value both_nan = CALL(logical_and, CALL(isnan, arg[1]), CALL(isnan, arg[2]));
    tp_value mask = CALL(logical_or, CALL(eq_Tensor, arg[1], arg[2]), both_nan);
    return tp_rule_done(&s, CALL(mul_Tensor, mask, CALL(div_Tensor, arg[0], CALL(sum, mask))), result);
}

/* ---- products ---- */

tp_value tp_product_of_others(tp_scope *scope, tp_value x, int64_t dim)
{
    const tp_tensor *t = tp_as_tensor(x);
    if (!t)
        return tp_none();
    tp_syms size = tp_syms_sizes(t);
    tp_sym n = size.item[dim];
    if (tp_guard(tp_sym_eq(n, tp_sym_int(0)), &scope->failed) || scope->failed)
        return x;
    size.item[dim] = tp_sym_int(1);
    tp_value at = tp_int(dim), flipped = tp_scope_list(scope, 1, &at);
    tp_value ones = RUN(ones, tp_scope_syms(scope, &size), tp_of_dtype((tp_dtype)t->dtype), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(t->device));
    tp_value ahead[2] = { ones, RUN(slice_Tensor, x, at, tp_int(0), tp_of_sym(tp_sym_sub(n, tp_sym_int(1))), tp_int(1)) };
    tp_value before = RUN(cumprod, RUN(cat, tp_scope_list(scope, 2, ahead), at), at);
    tp_value behind[2] = { ones, RUN(flip, RUN(slice_Tensor, x, at, tp_int(1), tp_of_sym(n), tp_int(1)), flipped) };
    tp_value after = RUN(flip, RUN(cumprod, RUN(cat, tp_scope_list(scope, 2, behind), at), at), flipped);
    return RUN(mul_Tensor, before, after);
}

/* arg: g, self, result. */
TP_HOOK_D(tp_d_prod_backward)
{
    tp_scope s = { 0 };
    tp_value all = tp_int(-1);
    (void)op;
    if (arg[1].tensor->ndim == 0) {
        result[0] = tp_value_ref(arg[0]);
        return true;
    }
    tp_value flat = CALL(reshape, tp_scope_conj(&s, arg[1]), tp_scope_list(&s, 1, &all));
    tp_value grad = CALL(mul_Tensor, arg[0], tp_product_of_others(&s, flat, 0));
    tp_syms sizes = tp_syms_sizes(arg[1].tensor);
    return tp_rule_done(&s, CALL(view, grad, tp_scope_syms(&s, &sizes)), result);
}

/* arg: g, self, result, dim, keepdim. */
TP_HOOK_D(tp_d_prod_dim_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[1].tensor;
    int64_t dim = tp_as_int(arg[3]);
    (void)op;
    if (self->ndim == 0) {
        result[0] = tp_value_ref(arg[0]);
        return true;
    }
    dim = dim < 0 ? dim + self->ndim : dim;
    tp_value g = tp_as_bool(arg[4]) ? arg[0] : CALL(unsqueeze, arg[0], tp_int(dim));
    return tp_rule_done(&s, CALL(mul_Tensor, g, tp_product_of_others(&s, tp_scope_conj(&s, arg[1]), dim)), result);
}

/* ---- variance ---- */

/* 2 over the number of free elements. */
static tp_value per_free_element(tp_scope *scope, tp_sym count, double correction)
{
    if (tp_sym_is_int(count)) {
        double left = (double)tp_sym_as_int(count) - correction;
        return tp_float(left <= 0 ? INFINITY : 2 / left);
    }
    tp_shape_env *env = tp_sym_env(count);
    tp_sym left = tp_sym_sub(tp_sym_to_float(count), tp_sym_float(env, correction));
    if (!tp_guard(tp_sym_gt(count, tp_sym_int((int64_t)floor(correction))), &scope->failed))
        return tp_float(INFINITY);
    return tp_of_sym(tp_sym_truediv(tp_sym_float(env, 2), left));
}

static tp_value variance_gradient(tp_scope *scope, tp_value g, tp_value self, tp_value dims, tp_value correction, bool keepdim)
{
    const tp_tensor *t = self.tensor;
    tp_value factor = per_free_element(scope, count_of(t, dims), correction.tag == TP_NONE ? 1 : tp_as_double(correction));
    bool all = dims.tag == TP_NONE;
    g = all ? g : restored(scope, g, t, dims, keepdim);
    tp_value mean = all ? RUN(mean, self) : RUN(mean_dim, self, dims, tp_bool(true));
    tp_value centred = RUN(sub_Tensor, self, mean);
    return RUN(mul_Tensor, RUN(mul_Scalar, g, factor), centred);
}

/* arg: g, self, dims, correction, keepdim. */
TP_HOOK_D(tp_d_var_backward)
{
    tp_scope s = { 0 };
    (void)op;
    return tp_rule_done(&s, variance_gradient(&s, arg[0], arg[1], arg[2], arg[3], tp_as_bool(arg[4])), result);
}

/* The gradient of a variance, from that of its root. */
static tp_value of_deviation(tp_scope *scope, tp_value g, tp_value deviation)
{
    g = RUN(div_Tensor, g, RUN(mul_Scalar, deviation, tp_int(2)));
    return RUN(masked_fill_Scalar, g, RUN(eq_Scalar, deviation, tp_int(0)), tp_int(0));
}

/* arg: g, self, result, dims, correction, keepdim. */
TP_HOOK_D(tp_d_std_backward)
{
    tp_scope s = { 0 };
    (void)op;
    tp_value g = of_deviation(&s, arg[0], arg[2]);
    return tp_rule_done(&s, variance_gradient(&s, g, arg[1], arg[3], arg[4], tp_as_bool(arg[5])), result);
}

/* Adds the gradient of the mean to that of the spread; either may be none. */
static tp_value with_mean(tp_scope *scope, tp_value made, tp_value g, const tp_tensor *self, tp_value dims, bool keepdim)
{
    tp_syms sizes = tp_syms_sizes(self);
    if (g.tag != TP_TENSOR)
        return made;
    g = RUN(expand, restored(scope, g, self, dims, keepdim), tp_scope_syms(scope, &sizes));
    g = RUN(div_Scalar, g, tp_of_sym(count_of(self, dims)));
    return made.tag == TP_TENSOR ? RUN(add_Tensor, made, g) : g;
}

/* arg: g of the variance, g of the mean (either may be none), self, dims, correction, keepdim. */
TP_HOOK_D(tp_d_var_mean_backward)
{
    tp_scope s = { 0 };
    bool keepdim = tp_as_bool(arg[5]);
    tp_value made = tp_none();
    (void)op;
    if (arg[0].tag == TP_TENSOR)
        made = variance_gradient(&s, arg[0], arg[2], arg[3], arg[4], keepdim);
    return tp_rule_done(&s, with_mean(&s, made, arg[1], arg[2].tensor, arg[3], keepdim), result);
}

/* arg: g of the deviation, g of the mean (either may be none), self, deviation, dims, correction, keepdim. */
TP_HOOK_D(tp_d_std_mean_backward)
{
    tp_scope s = { 0 };
    bool keepdim = tp_as_bool(arg[6]);
    tp_value made = tp_none();
    (void)op;
    if (arg[0].tag == TP_TENSOR)
        made = variance_gradient(&s, of_deviation(&s, arg[0], arg[3]), arg[2], arg[4], arg[5], keepdim);
    return tp_rule_done(&s, with_mean(&s, made, arg[1], arg[2].tensor, arg[4], keepdim), result);
}

/* ---- norms ---- */

/* g and norm have the dims of self; `dims` are those the norm was taken over. None: the norm does not depend on self. */
tp_value tp_rule_norm_gradient(tp_scope *scope, tp_value g, tp_value self, tp_value norm, double p, tp_value dims)
{
    if (p == 0)
        return tp_none();
    if (p == 1)
        return RUN(mul_Tensor, RUN(sgn, self), g);
    if (p == 2) {
        tp_value unit = RUN(div_Tensor, self, norm);
        return RUN(mul_Tensor, g, RUN(masked_fill_Scalar, unit, RUN(eq_Scalar, norm, tp_int(0)), tp_int(0)));
    }
    if (isinf(p)) {
        tp_value size = RUN(abs, self), mask = RUN(logical_or, RUN(eq_Tensor, size, norm), RUN(isnan, size));
        tp_value share = RUN(sum_dim_IntList, mask, dims.tag == TP_NONE ? tp_scope_list(scope, 0, NULL) : dims, tp_bool(true));
        return RUN(mul_Tensor, RUN(sgn, self), RUN(mul_Tensor, RUN(div_Tensor, g, share), mask));
    }
    tp_value scaled;
    if (p < 1)
        scaled = RUN(masked_fill_Scalar, RUN(mul_Tensor, RUN(sgn, self), RUN(pow_Tensor_Scalar, RUN(abs, self), tp_float(p - 1))),
                     RUN(eq_Scalar, self, tp_int(0)), tp_int(0));
    else if (p < 2)
        scaled = RUN(mul_Tensor, RUN(sgn, self), RUN(pow_Tensor_Scalar, RUN(abs, self), tp_float(p - 1)));
    else
        scaled = RUN(mul_Tensor, self, RUN(pow_Tensor_Scalar, RUN(abs, self), tp_float(p - 2)));
    tp_value factor = RUN(div_Tensor, g, RUN(pow_Tensor_Scalar, norm, tp_float(p - 1)));
    return RUN(mul_Tensor, scaled, RUN(masked_fill_Scalar, factor, RUN(eq_Scalar, norm, tp_int(0)), tp_int(0)));
}

/* arg: g, self, norm, p, dims, keepdim. */
TP_HOOK_D(tp_d_norm_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *t = arg[1].tensor;
    bool keepdim = tp_as_bool(arg[5]);
    (void)op;
    tp_value g = restored(&s, arg[0], t, arg[4], keepdim), norm = restored(&s, arg[2], t, arg[4], keepdim);
    return tp_rule_done(&s, tp_rule_norm_gradient(&s, g, arg[1], norm, tp_as_double(arg[3]), arg[4]), result);
}
