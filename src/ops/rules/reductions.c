/* reductions.c - gradients of reductions that are more than an expression, node for node as PyTorch's graphs have them. */
#include <math.h>

#include "ops/rules/rules.h"

/* CALL, in helpers that are handed a scope. */
#define RUN(op, ...) \
    tp_rule_call(scope, &tp_op_##op, sizeof((tp_value[]){ __VA_ARGS__ }) / sizeof(tp_value), (tp_value[]){ __VA_ARGS__ })

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

static int64_t count_of(const tp_tensor *self, tp_value dims)
{
    int64_t dim[TP_MAX_DIMS], count = 1;
    int n = dims.tag == TP_NONE ? 0 : tp_as_ints(dims, dim, TP_MAX_DIMS, 0);
    if (n == 0)
        return self->numel;
    for (int i = 0; i < n; i++)
        count *= self->ndim ? self->size[dim[i] < 0 ? dim[i] + self->ndim : dim[i]] : 1;
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

/* Along `dim`, the product of all other elements: of those before times of those behind. */
static tp_value product_of_others(tp_scope *scope, tp_value x, int64_t dim)
{
    const tp_tensor *t = tp_as_tensor(x);
    if (!t)
        return tp_none();
    int64_t n = t->size[dim];
    tp_value size[TP_MAX_DIMS];
    if (!n)
        return x;
    for (int i = 0; i < t->ndim; i++)
        size[i] = tp_int(i == dim ? 1 : t->size[i]);
    tp_value at = tp_int(dim), flipped = tp_scope_list(scope, 1, &at);
    tp_value ones = RUN(ones, tp_scope_list(scope, t->ndim, size), tp_of_dtype((tp_dtype)t->dtype), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(t->device));
    tp_value ahead[2] = { ones, RUN(slice_Tensor, x, at, tp_int(0), tp_int(n - 1), tp_int(1)) };
    tp_value before = RUN(cumprod, RUN(cat, tp_scope_list(scope, 2, ahead), at), at);
    tp_value behind[2] = { ones, RUN(flip, RUN(slice_Tensor, x, at, tp_int(1), tp_int(n), tp_int(1)), flipped) };
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
    tp_value flat = CALL(reshape, arg[1], tp_scope_list(&s, 1, &all));
    tp_value grad = CALL(mul_Tensor, arg[0], product_of_others(&s, flat, 0));
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
    return tp_rule_done(&s, CALL(mul_Tensor, g, product_of_others(&s, arg[1], dim)), result);
}

/* ---- variance ---- */

static tp_value variance_gradient(tp_scope *scope, tp_value g, tp_value self, tp_value dims, tp_value correction, bool keepdim)
{
    const tp_tensor *t = self.tensor;
    double denominator = (double)count_of(t, dims) - (correction.tag == TP_NONE ? 1 : tp_as_double(correction));
    double factor = denominator <= 0 ? INFINITY : 2 / denominator;
    bool all = dims.tag == TP_NONE;
    g = all ? g : restored(scope, g, t, dims, keepdim);
    tp_value mean = all ? RUN(mean, self) : RUN(mean_dim, self, dims, tp_bool(true));
    tp_value centred = RUN(sub_Tensor, self, mean);
    return RUN(mul_Tensor, RUN(mul_Scalar, g, tp_float(factor)), centred);
}

/* arg: g, self, dims, correction, keepdim. */
TP_HOOK_D(tp_d_var_backward)
{
    tp_scope s = { 0 };
    (void)op;
    return tp_rule_done(&s, variance_gradient(&s, arg[0], arg[1], arg[2], arg[3], tp_as_bool(arg[4])), result);
}

/* arg: g, self, result, dims, correction, keepdim. */
TP_HOOK_D(tp_d_std_backward)
{
    tp_scope s = { 0 };
    (void)op;
    tp_value g = CALL(div_Tensor, arg[0], CALL(mul_Scalar, arg[2], tp_int(2)));
    g = CALL(masked_fill_Scalar, g, CALL(eq_Scalar, arg[2], tp_int(0)), tp_int(0));
    return tp_rule_done(&s, variance_gradient(&s, g, arg[1], arg[3], arg[4], tp_as_bool(arg[5])), result);
}

/* arg: g of the variance, g of the mean (either may be none), self, dims, correction, keepdim. */
TP_HOOK_D(tp_d_var_mean_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[2].tensor;
    bool keepdim = tp_as_bool(arg[5]);
    tp_value made = tp_none();
    (void)op;
    if (arg[0].tag == TP_TENSOR)
        made = variance_gradient(&s, arg[0], arg[2], arg[3], arg[4], keepdim);
    if (arg[1].tag == TP_TENSOR) {
        tp_syms sizes = tp_syms_sizes(self);
        tp_value g = CALL(expand, restored(&s, arg[1], self, arg[3], keepdim), tp_scope_syms(&s, &sizes));
        g = CALL(div_Scalar, g, tp_int(count_of(self, arg[3])));
        made = made.tag == TP_TENSOR ? CALL(add_Tensor, made, g) : g;
    }
    return tp_rule_done(&s, made, result);
}

/* ---- norms ---- */

/* arg: g, self, norm, p, dims, keepdim. */
TP_HOOK_D(tp_d_norm_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *t = arg[1].tensor;
    double p = tp_as_double(arg[3]);
    bool keepdim = tp_as_bool(arg[5]);
    (void)op;
    tp_value self = arg[1], g = restored(&s, arg[0], t, arg[4], keepdim), norm = restored(&s, arg[2], t, arg[4], keepdim), made;
    if (p == 0) {
        made = tp_none();                           /* a count does not change */
    } else if (p == 1) {
        made = CALL(mul_Tensor, CALL(sgn, self), g);
    } else if (p == 2) {
        tp_value unit = CALL(div_Tensor, self, norm);
        made = CALL(mul_Tensor, g, CALL(masked_fill_Scalar, unit, CALL(eq_Scalar, norm, tp_int(0)), tp_int(0)));
    } else if (isinf(p)) {
        tp_value size = CALL(abs, self), mask = CALL(logical_or, CALL(eq_Tensor, size, norm), CALL(isnan, size));
        tp_value share = CALL(sum_dim_IntList, mask, arg[4].tag == TP_NONE ? tp_scope_list(&s, 0, NULL) : arg[4], tp_bool(true));
        made = CALL(mul_Tensor, CALL(sgn, self), CALL(mul_Tensor, CALL(div_Tensor, g, share), mask));
    } else {
        tp_value scaled = CALL(mul_Tensor, self, CALL(pow_Tensor_Scalar, CALL(abs, self), tp_float(p - 2)));
        if (p < 2)
            scaled = CALL(masked_fill_Scalar, scaled, CALL(eq_Scalar, self, tp_int(0)), tp_int(0));
        tp_value factor = CALL(div_Tensor, g, CALL(pow_Tensor_Scalar, norm, tp_float(p - 1)));
        made = CALL(mul_Tensor, scaled, CALL(masked_fill_Scalar, factor, CALL(eq_Scalar, norm, tp_int(0)), tp_int(0)));
    }
    return tp_rule_done(&s, made, result);
}
