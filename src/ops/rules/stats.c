/* stats.c - quantiles, covariance, renorm, running logarithms and histograms of several dims, as calls of ops. */
#include <float.h>
#include <math.h>

#include "ops/copy.h"
#include "ops/rules/rules.h"

/* ---- quantile(self, q, dim, keepdim, *, interpolation); nanquantile speaks its words ---- */

static bool check_range(tp_value q)
{
    if (q.tag == TP_FLOAT || q.tag == TP_INT)
        return (tp_as_double(q) >= 0 && tp_as_double(q) <= 1) ||
               tp_fail(TP_ERR_RUNTIME, "quantile() q must be in the range [0, 1] but got %g", tp_as_double(q));
    if (q.tag != TP_TENSOR || !tp_rule_readable(q.tensor))
        return true;
    tp_tensor *wide = tp_tensor_new(TP_f64, q.tensor->ndim, q.tensor->size);
    bool ok = wide != NULL;
    if (ok)
        tp_copy(wide, q.tensor);
    for (int64_t i = 0; ok && i < wide->numel; i++) {
        double v = ((const double *)tp_tensor_data(wide))[i];
        ok = (v >= 0 && v <= 1) || tp_fail(TP_ERR_RUNTIME, "quantile() q values must be in the range [0, 1]");
    }
    tp_tensor_unref(wide);
    return ok;
}

static bool check_quantile(const tp_value *arg)
{
    static const char *const ways[] = { "linear", "lower", "higher", "midpoint", "nearest" };
    const tp_tensor *self = arg[0].tensor, *q = tp_as_tensor(arg[1]);
    const char *way = arg[4].string->text;
    bool known = false;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        known |= !strcmp(way, ways[i]);
    if (!self->numel)
        return tp_fail(TP_ERR_RUNTIME, "quantile() input tensor must be non-empty");
    if (q && q->ndim > 1)
        return tp_fail(TP_ERR_RUNTIME, "quantile() q must be a scalar or 1D tensor");
    if (self->dtype != TP_f32 && self->dtype != TP_f64)
        return tp_fail(TP_ERR_RUNTIME, "quantile() input tensor must be either float or double dtype");
    if (q && q->dtype != self->dtype)
        return tp_fail(TP_ERR_RUNTIME, "quantile() q tensor must be same dtype as the input tensor");
    if (!known)
        return tp_fail(TP_ERR_RUNTIME, "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got %s", way);
    return check_range(arg[1]);
}

/* The rows to choose from, sorted, with the dims of the result and the row last. */
static tp_value sorted_rows(tp_scope *scope, tp_value self, tp_value dim, bool keepdim)
{
    const tp_tensor *t = self.tensor;
    int64_t d = dim.tag == TP_NONE ? 0 : tp_wrap(tp_as_int(dim), t->ndim, &scope->failed);
    tp_syms shape = { 0 };
    tp_value rows;
    if (scope->failed)
        return tp_none();
    for (int i = 0; i < t->ndim; i++)
        if (dim.tag != TP_NONE && i != d)
            tp_syms_add(&shape, tp_tensor_sym_size(t, i));
        else if (keepdim)
            tp_syms_add(&shape, tp_sym_int(1));
    if (dim.tag == TP_NONE)
        rows = RUN(sort, RUN(flatten_using_ints, self));
    else if (t->ndim == 0 || d == t->ndim - 1)
        rows = RUN(sort, t->ndim ? self : RUN(unsqueeze, self, tp_int(0)));
    else
        rows = RUN(sort, RUN(transpose_int, RUN(unsqueeze, self, tp_int(-1)), tp_int(d), tp_int(-1)));
    tp_syms_add(&shape, dim.tag == TP_NONE ? tp_syms_numel(t) : t->ndim ? tp_tensor_sym_size(t, (int)d) : tp_sym_int(1));
    return RUN(view, rows, tp_scope_syms(scope, &shape));
}

/* Which places of each row are meant, as floating point numbers. A row with a NaN means its last place, the NaN. */
static tp_value ranks_of(tp_scope *scope, tp_value rows, tp_value q)
{
    if (scope->failed)
        return tp_none();
    tp_value last = tp_of_sym(tp_sym_sub(tp_tensor_sym_size(rows.tensor, rows.tensor->ndim - 1), tp_sym_int(1)));
    tp_value ranks = RUN(mul_Scalar, q, last), bad = RUN(any_dim, RUN(isnan, rows), tp_int(-1), tp_bool(true));
    if (scope->failed)
        return tp_none();
    tp_syms shape = tp_syms_sizes(bad.tensor);
    if (q.tensor->ndim)
        shape.item[shape.count - 1] = tp_tensor_sym_size(q.tensor, 0);
    ranks = RUN(expand, ranks, tp_scope_syms(scope, &shape));
    bad = q.tensor->ndim ? RUN(expand, bad, tp_scope_syms(scope, &shape)) : bad;
    return RUN(masked_fill_Scalar, ranks, bad, last);
}

static tp_value ranks_without_nan(tp_scope *scope, tp_value rows, tp_value q)
{
    tp_value last = tp_int(-1);
    tp_value count = RUN(sum_dim_IntList, RUN(logical_not_, RUN(isnan, rows)), tp_scope_list(scope, 1, &last), tp_bool(true));
    tp_value ranks = RUN(mul_Tensor, q, RUN(sub_Scalar, count, tp_int(1)));
    return RUN(masked_fill__Scalar, ranks, RUN(lt_Scalar, ranks, tp_int(0)), tp_int(0));
}

static bool quantile(const tp_value *arg, bool skip_nan, tp_value *result)
{
    tp_scope s = { 0 };
    const char *way = arg[4].string->text;
    if (!check_quantile(arg))
        return false;
    tp_value integers = tp_of_dtype(TP_i64), back = tp_int(-1), q = arg[1];
    if (q.tag != TP_TENSOR)
        q = CALL(scalar_tensor, q, tp_of_dtype((tp_dtype)arg[0].tensor->dtype), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(arg[0].tensor->device));
    tp_value rows = sorted_rows(&s, arg[0], arg[2], tp_as_bool(arg[3]));
    tp_value ranks = skip_nan ? ranks_without_nan(&s, rows, q) : ranks_of(&s, rows, q);
    if (!strcmp(way, "lower"))
        ranks = CALL(floor_, ranks);
    else if (!strcmp(way, "higher"))
        ranks = CALL(ceil_, ranks);
    else if (!strcmp(way, "nearest"))
        ranks = CALL(round_, ranks);
    tp_value below = CALL(_to_copy, ranks, integers), values = CALL(gather, rows, back, below);
    if (!strcmp(way, "linear") || !strcmp(way, "midpoint")) {
        tp_value weight = way[0] == 'm' ? CALL(full_like, ranks, tp_float(0.5)) : CALL(sub_Tensor, ranks, below);
        tp_value above = CALL(gather, rows, back, CALL(_to_copy, CALL(ceil_, ranks), integers));
        values = CALL(lerp__Tensor, values, above, weight);
    }
    if (q.tag == TP_TENSOR && q.tensor->ndim)
        values = CALL(transpose_, CALL(unsqueeze_, values, tp_int(0)), tp_int(0), back);
    return tp_rule_done(&s, CALL(squeeze__dim, values, back), result);
}

TP_HOOK_D(tp_d_quantile)
{
    (void)op;
    return quantile(arg, false, result);
}

TP_HOOK_D(tp_d_nanquantile)
{
    (void)op;
    return quantile(arg, true, result);
}

/* ---- cov(self, *, correction, fweights, aweights) ---- */

/* Does the 0-d tensor of booleans hold? Where nobody can look, `otherwise`. */
static bool holds(tp_scope *scope, tp_value condition, bool otherwise)
{
    if (scope->failed || !tp_rule_readable(condition.tensor))
        return otherwise;
    tp_value v = RUN(item, condition);
    return !scope->failed && tp_as_bool(v);
}

static bool check_weights(tp_scope *scope, const char *name, tp_value w, const tp_tensor *x, bool whole)
{
    const tp_tensor *t = tp_as_tensor(w);
    if (!t)
        return true;
    const char *title = tp_dtypes[t->dtype].title;
    if (t->ndim > 1)
        return tp_fail(TP_ERR_RUNTIME, "cov(): expected %s to have one or fewer dimensions but got %s with %d dimensions", name, name, t->ndim);
    if (whole ? !tp_dtype_is_integral((tp_dtype)t->dtype) : !tp_dtype_is_float((tp_dtype)t->dtype))
        return tp_fail(TP_ERR_RUNTIME, "cov(): expected %s to have %s dtype but got %s with %s dtype", name, whole ? "integral" : "floating point", name, title);
    if (!tp_guard(tp_sym_eq(tp_syms_numel(t), tp_tensor_sym_size(x, 1)), &scope->failed))
        return !scope->failed && tp_fail(TP_ERR_RUNTIME, "cov(): expected %s to have the same numel as there are observations in the input but got %lld != %lld",
                                         name, LL(t->numel), LL(x->size[1]));
    if (t->numel && !holds(scope, RUN(ge_Scalar, RUN(min, w), tp_int(0)), true))
        return !scope->failed && tp_fail(TP_ERR_RUNTIME, "cov(): %s cannot be negative", name);
    return !scope->failed;
}

static tp_value number_like(tp_scope *scope, tp_value x, tp_sym number)
{
    return RUN(scalar_tensor, tp_of_sym(number), tp_of_dtype(TP_i64), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(x.tensor->device));
}

/* What the products are divided by. */
static tp_value covariance_factor(tp_scope *scope, tp_value x, tp_sym n, tp_value w, tp_value total, const tp_value *arg)
{
    int64_t correction = tp_as_int(arg[1]);
    if (w.tag != TP_TENSOR)
        return number_like(scope, x, tp_sym_sub(n, tp_sym_int(correction)));
    if (!correction)
        return total;
    if (arg[3].tag != TP_TENSOR)
        return RUN(sub_Scalar, total, tp_int(correction));
    tp_value squares = RUN(mul_Scalar, RUN(sum, RUN(mul_Tensor, w, arg[3])), tp_int(correction));
    return RUN(sub_Tensor, total, RUN(div_Tensor, squares, total));
}

static tp_value covariance(tp_scope *scope, const tp_value *arg)
{
    tp_value flat[2] = { tp_int(1), tp_int(-1) }, one = tp_int(1), x = arg[0];
    x = x.tensor->ndim < 2 ? RUN(view, x, tp_scope_list(scope, 2, flat)) : x;
    if (scope->failed)
        return tp_none();
    tp_sym n = tp_tensor_sym_size(x.tensor, 1);
    if (!check_weights(scope, "fweights", arg[2], x.tensor, true) || !check_weights(scope, "aweights", arg[3], x.tensor, false)) {
        scope->failed = true;
        return tp_none();
    }
    tp_value w = arg[2].tag != TP_TENSOR ? arg[3] : arg[3].tag != TP_TENSOR ? arg[2] : RUN(mul_Tensor, arg[2], arg[3]);
    tp_value total = w.tag == TP_TENSOR ? RUN(sum, w) : number_like(scope, x, n), over = tp_scope_list(scope, 1, &one);
    if (w.tag == TP_TENSOR && !holds(scope, RUN(ne_Scalar, total, tp_int(0)), true)) {
        if (!scope->failed)
            tp_scope_fail(scope, TP_ERR_RUNTIME, "cov(): weights sum to zero, can't be normalized");
        return tp_none();
    }
    tp_value mean = RUN(div_Tensor, RUN(sum_dim_IntList, w.tag == TP_TENSOR ? RUN(mul_Tensor, x, w) : x, over), total);
    tp_value factor = covariance_factor(scope, x, n, w, total, arg);
    if (holds(scope, RUN(le_Scalar, factor, tp_int(0)), false))
        factor = RUN(zero_, RUN(clone, factor));
    x = RUN(sub_Tensor, x, RUN(unsqueeze, mean, one));
    tp_value other = tp_scope_conj(scope, RUN(t, w.tag == TP_TENSOR ? RUN(mul_Tensor, x, w) : x));
    tp_value products = RUN(mm, x, other);
    return RUN(squeeze, RUN(div_Tensor, products, factor));
}

TP_HOOK_D(tp_d_cov)
{
    tp_scope s = { 0 };
    (void)op;
    return tp_rule_done(&s, covariance(&s, arg), result);
}

/* ---- renorm(self, p, dim, maxnorm) ---- */
TP_HOOK_C(tp_c_renorm)
{
    const tp_tensor *self = arg[0].tensor;
    bool bad = false;
    if (arg[1].tag == TP_COMPLEX)
        return tp_fail(TP_ERR_RUNTIME, "renorm: p must be real-valued");
    if (!(tp_as_double(arg[1]) > 0))
        return tp_fail(TP_ERR_RUNTIME, "renorm: non-positive-norm not supported");
    if (arg[3].tag == TP_COMPLEX)
        return tp_fail(TP_ERR_RUNTIME, "renorm: maxnorm must be real-valued");
    if (!(tp_as_double(arg[3]) >= 0))
        return tp_fail_with(TP_ERR_RUNTIME, "renorm: expected maxnorm to be >= 0 but got {}", 1, (tp_value[]){ arg[3] });
    if (self->ndim < 2)
        return tp_fail(TP_ERR_RUNTIME, "renorm: input needs at least 2 dimensions, got %d dimensions", self->ndim);
    (void)tp_wrap(tp_as_int(arg[2]), self->ndim, &bad);
    return !bad && (tp_dtype_is_inexact((tp_dtype)self->dtype) ||
                    tp_fail(TP_ERR_RUNTIME, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s", tp_dtypes[self->dtype].title));
}

/* arg: g, self, p, dim, maxnorm. The norm is taken in the widest type. */
TP_HOOK_D(tp_d_renorm_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[1].tensor;
    int64_t dim = tp_wrap(tp_as_int(arg[3]), self->ndim, &s.failed);
    bool complex = tp_dtype_is_complex((tp_dtype)self->dtype);
    tp_value other[TP_MAX_DIMS];
    uint32_t count = 0;
    (void)op;
    for (int i = 0; i < self->ndim; i++)
        if (i != dim)
            other[count++] = tp_int(i);
    tp_value dims = tp_scope_list(&s, count, other), wide = tp_of_dtype(complex ? TP_c128 : TP_f64);
    tp_value norm = CALL(linalg_vector_norm, arg[1], arg[2], dims, tp_bool(true), wide);
    tp_value along = CALL(sum_dim_IntList, CALL(mul_Tensor, complex ? tp_scope_conj(&s, arg[1]) : arg[1], arg[0]), dims, tp_bool(true), wide);
    if (complex)
        along = CALL(select_int, CALL(view_as_real, along), tp_int(-1), tp_int(0));
    tp_value inner = tp_rule_norm_gradient(&s, along, arg[1], norm, tp_as_double(arg[2]), dims);
    tp_value inverse = CALL(reciprocal, CALL(add_Scalar, norm, tp_float(1e-7)));
    tp_value rest = CALL(sub_Tensor, arg[0], CALL(mul_Tensor, inverse, inner));
    tp_value scaled = CALL(mul_Tensor, CALL(mul_Scalar, inverse, arg[4]), rest);
    if (!s.failed && scaled.tensor->dtype != arg[0].tensor->dtype)
        scaled = CALL(_to_copy, scaled, tp_of_dtype((tp_dtype)arg[0].tensor->dtype));
    return tp_rule_done(&s, CALL(where_self, CALL(gt_Scalar, norm, arg[4]), scaled, arg[0]), result);
}

/* ---- logcumsumexp ---- */

/* The gradient is summed in logarithms, its positive and its negative elements apart. arg: g, self, result, dim. */
TP_HOOK_D(tp_d_logcumsumexp_backward)
{
    tp_scope s = { 0 };
    tp_value g = arg[0], dims = tp_scope_list(&s, 1, &arg[3]), part[2];
    const tp_tensor *self = arg[1].tensor;
    (void)op;
    if (self->ndim == 0 || self->numel == 0) {
        result[0] = tp_value_ref(g);
        return tp_scope_end(&s);
    }
#define SUMMED(logarithm) CALL(exp, CALL(add_Tensor, CALL(flip, CALL(logcumsumexp, CALL(flip, CALL(sub_Tensor, logarithm, arg[2]), dims), arg[3]), dims), arg[1]))
    if (tp_dtype_is_complex((tp_dtype)self->dtype))
        return tp_rule_done(&s, tp_scope_conj(&s, SUMMED(CALL(log, tp_scope_conj(&s, g)))), result);
    static const double lowest[] = { [TP_f16] = -65504, [TP_bf16] = -3.3895313892515355e38, [TP_f32] = -FLT_MAX, [TP_f64] = -DBL_MAX };
    tp_value least = CALL(scalar_tensor, tp_float(lowest[g.tensor->dtype]), tp_of_dtype((tp_dtype)g.tensor->dtype), (tp_value){ .tag = TP_LAYOUT },
                          tp_of_device(g.tensor->device));
    tp_value size = CALL(log, CALL(abs, g));
    part[0] = CALL(where_self, CALL(gt_Scalar, g, tp_int(0)), size, least);
    part[1] = CALL(where_self, CALL(lt_Scalar, g, tp_int(0)), size, least);
    part[0] = SUMMED(part[0]);
    part[1] = SUMMED(part[1]);
#undef SUMMED
    return tp_rule_done(&s, CALL(sub_Tensor, part[0], part[1]), result);
}

/* ---- _cummax_helper(self, values!, indices!, dim) ---- */
static bool write_running(const tp_op *scan, const tp_value *arg)
{
    tp_scope s = { 0 };
    tp_value both = tp_scope_call_all(&s, scan, (tp_value[]){ arg[0], arg[3] });
    if (!s.failed) {
        (void)CALL(copy_, arg[1], both.list->item[0]);
        (void)CALL(copy_, arg[2], both.list->item[1]);
    }
    return tp_scope_end(&s);
}

TP_HOOK_D(tp_d_cummax_helper)
{
    (void)op, (void)result;
    return write_running(&tp_op_cummax, arg);
}

TP_HOOK_D(tp_d_cummin_helper)
{
    (void)op, (void)result;
    return write_running(&tp_op_cummin, arg);
}
