/* norms.c - normalisations as calls of other ops, and their second gradients.
 *
 * Layers, batches and groups differ in which elements share a mean and in how weights lie; brought to shapes that broadcast,
 * all are
 *     xh = (x - mean) rstd                G = g w                       dw = sum of g xh        db = sum of g
 *     dx = P(G),  P(v) = rstd (v - mean(v) - xh mean(v xh))             P(v) = rstd v where the statistics are fixed
 * With a, b, c the gradients of dx, dw, db, those of the backward's own inputs are
 *     of g:  w P(a) + b xh + c            of w:  sum of g P(a)
 *     of x:  P(b g - rstd (a mean(G xh) + G mean(a xh))) - rstd^2 xh (mean(a G) - mean(a) mean(G) - mean(a xh) mean(G xh))
 * P is its own adjoint, and d rstd / dx = -rstd^2 xh / n. */
#include "ops/rules/rules.h"

typedef struct norm {
    tp_scope *s;
    tp_value  rstd, xh;         /* xh shaped as x */
    tp_value  over;             /* dims that share a mean */
    bool      fixed;            /* the statistics do not depend on x */
} norm;

static tp_value call2(const norm *n, const tp_op *op, tp_value a, tp_value b)
{
    return tp_rule_call(n->s, op, 2, (tp_value[]){ a, b });
}
static tp_value times(const norm *n, tp_value a, tp_value b) { return call2(n, &tp_op_mul_Tensor, a, b); }
static tp_value plus(const norm *n, tp_value a, tp_value b)
{
    return a.tag == TP_NONE ? b : b.tag == TP_NONE ? a : call2(n, &tp_op_add_Tensor, a, b);
}
static tp_value minus(const norm *n, tp_value a, tp_value b) { return call2(n, &tp_op_sub_Tensor, a, b); }
static tp_value mean(const norm *n, tp_value v)
{
    return tp_rule_call(n->s, &tp_op_mean_dim, 3, (tp_value[]){ v, n->over, tp_bool(true) });
}

static tp_value projected(const norm *n, tp_value v)
{
    if (n->fixed)
        return times(n, n->rstd, v);
    tp_value centred = minus(n, minus(n, v, mean(n, v)), times(n, n->xh, mean(n, times(n, v, n->xh))));
    return times(n, n->rstd, centred);
}

/* The part of x's gradient that comes through a. */
static tp_value through_dx(const norm *n, tp_value a, tp_value G)
{
    tp_value ax = mean(n, times(n, a, n->xh)), gx = mean(n, times(n, G, n->xh));
    tp_value bent = projected(n, times(n, n->rstd, plus(n, times(n, a, gx), times(n, G, ax))));
    tp_value spread = minus(n, minus(n, mean(n, times(n, a, G)), times(n, mean(n, a), mean(n, G))), times(n, ax, gx));
    tp_value scaled = times(n, times(n, times(n, n->rstd, n->rstd), n->xh), spread);
    return tp_rule_call(n->s, &tp_op_neg, 1, (tp_value[]){ plus(n, bent, scaled) });
}

/* Gradients of g, x and w, in the shapes in which they were given; none where nothing leads there. `w` may be none. */
static void twice(const norm *n, tp_value g, tp_value w, tp_value a, tp_value b, tp_value c, tp_value summed, tp_value out[3])
{
    tp_value G = w.tag == TP_NONE ? g : times(n, g, w), p = a.tag == TP_NONE ? a : projected(n, a);
    out[0] = p.tag == TP_NONE || w.tag == TP_NONE ? p : times(n, w, p);
    if (b.tag != TP_NONE)
        out[0] = plus(n, out[0], times(n, b, n->xh));
    out[0] = plus(n, out[0], c);
    out[1] = b.tag == TP_NONE ? b : projected(n, times(n, b, g));
    if (a.tag != TP_NONE && !n->fixed)
        out[1] = plus(n, out[1], through_dx(n, a, G));
    out[2] = p.tag == TP_NONE || w.tag == TP_NONE ? tp_none() : tp_rule_call(n->s, &tp_op_sum_dim_IntList, 3, (tp_value[]){ times(n, g, p), summed, tp_bool(true) });
}

static tp_value shaped(tp_scope *s, tp_value t, const tp_syms *size)
{
    return t.tag == TP_NONE ? t : tp_rule_call(s, &tp_op_reshape, 2, (tp_value[]){ t, tp_scope_syms(s, size) });
}

/* The shapes in which a normalisation broadcasts: x, statistics, weights; the dims that share a mean, those a weight is summed over. */
typedef struct shapes {
    tp_syms  size, stat, affine;
    tp_value over, summed;
} shapes;

static tp_value dims_from(tp_scope *s, int from, int to)
{
    tp_value dim[TP_MAX_DIMS];
    for (int i = from; i < to; i++)
        dim[i - from] = tp_int(i);
    return tp_scope_list(s, (uint32_t)(to > from ? to - from : 0), dim);
}

static shapes layer_shapes(tp_scope *s, const tp_tensor *x, tp_value normalized_shape, bool *bad)
{
    tp_syms inner = tp_syms_read(normalized_shape, 0, bad);
    tp_sym width = tp_syms_product(&inner), rows = tp_sym_int(1), one = tp_sym_int(1);
    for (int i = 0; i < x->ndim - inner.count; i++)
        rows = tp_sym_mul(rows, tp_tensor_sym_size(x, i));
    return (shapes){ { 2, { rows, width } }, { 2, { rows, one } }, { 2, { one, width } }, dims_from(s, 1, 2), dims_from(s, 0, 1) };
}

static shapes batch_shapes(tp_scope *s, const tp_tensor *x)
{
    tp_sym inner = tp_sym_int(1), one = tp_sym_int(1), channels = x->ndim > 1 ? tp_tensor_sym_size(x, 1) : tp_sym_int(0);
    for (int i = 2; i < x->ndim; i++)
        inner = tp_sym_mul(inner, tp_tensor_sym_size(x, i));
    tp_value outer = tp_scope_list(s, 2, (tp_value[]){ tp_int(0), tp_int(2) });
    return (shapes){ { 3, { tp_tensor_sym_size(x, 0), channels, inner } }, { 3, { one, channels, one } }, { 3, { one, channels, one } }, outer, outer };
}

/* N, C, HxW, group at arg[0…] */
static shapes group_shapes(tp_scope *s, const tp_value *arg)
{
    tp_sym items = tp_sym_read(arg[0]), channels = tp_sym_read(arg[1]), inner = tp_sym_read(arg[2]), group = tp_sym_read(arg[3]), one = tp_sym_int(1);
    tp_sym each = tp_sym_floordiv(channels, group);
    tp_value summed = tp_scope_list(s, 2, (tp_value[]){ tp_int(0), tp_int(3) });
    return (shapes){ { 4, { items, group, each, inner } }, { 4, { items, group, one, one } }, { 4, { one, group, each, one } }, dims_from(s, 2, 4), summed };
}

/* a, b, c, grad_out, input, mean, rstd, weight at arg[0…]; the gradients come back in the shapes of grad_out, input and weight. */
static bool run(tp_scope *s, const shapes *f, const tp_value *arg, bool fixed, tp_value *result)
{
    norm n = { .s = s, .rstd = shaped(s, arg[6], &f->stat), .over = f->over, .fixed = fixed };
    tp_value x = shaped(s, arg[4], &f->size), g = shaped(s, arg[3], &f->size), out[3];
    n.xh = times(&n, minus(&n, x, shaped(s, arg[5], &f->stat)), n.rstd);
    twice(&n, g, shaped(s, arg[7], &f->affine), shaped(s, arg[0], &f->size), shaped(s, arg[1], &f->affine), shaped(s, arg[2], &f->affine), f->summed, out);
    if (out[0].tag == TP_TENSOR)        /* c alone is smaller than g */
        out[0] = tp_rule_call(s, &tp_op_expand, 2, (tp_value[]){ out[0], tp_scope_syms(s, &f->size) });
    const tp_value like[3] = { arg[3], arg[4], arg[7] };
    for (int i = 0; i < 3; i++) {
        tp_syms whole = tp_syms_sizes(tp_as_tensor(like[i]));
        if (out[i].tag == TP_TENSOR)
            out[i] = shaped(s, out[i], &whole);
    }
    return tp_rule_done(s, tp_scope_list(s, 3, out), result);
}

/* a, b, c, grad_out, input, mean, rstd, weight, then normalized_shape */
TP_HOOK_D(tp_d_layer_norm_twice)
{
    tp_scope s = { 0 };
    bool bad = false;
    shapes f = layer_shapes(&s, arg[4].tensor, arg[8], &bad);
    (void)op;
    return !bad && run(&s, &f, arg, false, result);
}

/* … then train */
TP_HOOK_D(tp_d_batch_norm_twice)
{
    tp_scope s = { 0 };
    if (arg[5].tag == TP_NONE || arg[6].tag == TP_NONE)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "native_batch_norm_backward: its gradient without the statistics is not implemented");
    shapes f = batch_shapes(&s, arg[4].tensor);
    (void)op;
    return run(&s, &f, arg, !tp_as_bool(arg[8]), result);
}

/* … then N, C, HxW, group */
TP_HOOK_D(tp_d_group_norm_twice)
{
    tp_scope s = { 0 };
    shapes f = group_shapes(&s, arg + 8);
    (void)op;
    return run(&s, &f, arg, false, result);
}

/* Gradients of native_group_norm, whose statistics may be used too. arg: g, g of mean, g of rstd (each may be none), input, mean, rstd,
 * weight, N, C, HxW, group, mask. */
TP_HOOK_D(tp_d_group_norm_gradients)
{
    tp_scope s = { 0 };
    tp_sym items = tp_sym_read(arg[7]), channels = tp_sym_read(arg[8]), inner = tp_sym_read(arg[9]), group = tp_sym_read(arg[10]), one = tp_sym_int(1);
    tp_sym each = tp_sym_floordiv(channels, group), count = tp_sym_mul(each, inner);
    tp_syms size = { 3, { items, group, count } }, stat = { 3, { items, group, one } }, whole = tp_syms_sizes(arg[3].tensor);
    tp_value all[3] = { tp_none(), tp_none(), tp_none() };
    norm n = { .s = &s };
    (void)op;
    if (arg[0].tag == TP_TENSOR) {
        tp_value parts = tp_scope_call_all(&s, &tp_op_native_group_norm_backward, (tp_value[]){ arg[0], arg[3], arg[4], arg[5], arg[6], arg[7], arg[8], arg[9], arg[10], arg[11] });
        for (int i = 0; i < 3 && !s.failed; i++)
            all[i] = parts.list->item[i];
    }
    tp_value by = tp_none();
    if (arg[2].tag == TP_TENSOR) {
        tp_value rstd = shaped(&s, arg[5], &stat), cube = CALL(pow_Tensor_Scalar, rstd, tp_int(3));
        tp_value away = minus(&n, shaped(&s, arg[3], &size), shaped(&s, arg[4], &stat));
        by = CALL(neg, times(&n, times(&n, shaped(&s, arg[2], &stat), cube), away));
    }
    if (arg[1].tag == TP_TENSOR)
        by = plus(&n, by, shaped(&s, arg[1], &stat));
    if (by.tag == TP_NONE)
        return tp_rule_done(&s, tp_scope_list(&s, 3, all), result);
    tp_value spread = CALL(expand, CALL(div_Scalar, by, tp_of_sym(count)), tp_scope_syms(&s, &size));
    all[0] = plus(&n, all[0], shaped(&s, spread, &whole));
    return tp_rule_done(&s, tp_scope_list(&s, 3, all), result);
}

/* ---- forward mode ---- */

/* The result's tangent: w P(t) + xh t_w + t_b; with `stats` also those of mean and rstd, which are mean(t) and
 * -rstd^2 mean(t xh). Tangents may be none. */
static bool forward(tp_scope *s, const shapes *f, tp_value x, tp_value mu, tp_value rstd, tp_value w, const tp_value tangent[3], bool fixed, tp_value *stats,
                    tp_value *out)
{
    norm n = { .s = s, .rstd = shaped(s, rstd, &f->stat), .over = f->over, .fixed = fixed };
    tp_syms whole = tp_syms_sizes(x.tensor);
    n.xh = times(&n, minus(&n, shaped(s, x, &f->size), shaped(s, mu, &f->stat)), n.rstd);
    tp_value t = shaped(s, tangent[0], &f->size), y = t.tag == TP_NONE ? t : projected(&n, t);
    if (y.tag != TP_NONE && w.tag != TP_NONE)
        y = times(&n, y, shaped(s, w, &f->affine));
    if (tangent[1].tag != TP_NONE)
        y = plus(&n, y, times(&n, n.xh, shaped(s, tangent[1], &f->affine)));
    y = plus(&n, y, shaped(s, tangent[2], &f->affine));
    if (y.tag != TP_NONE)
        y = shaped(s, tp_rule_call(s, &tp_op_expand, 2, (tp_value[]){ y, tp_scope_syms(s, &f->size) }), &whole);
    tp_scope_keep(s, &out[0], y);
    if (stats && t.tag != TP_NONE) {
        tp_value change = tp_rule_call(s, &tp_op_neg, 1, (tp_value[]){ times(&n, times(&n, n.rstd, n.rstd), mean(&n, times(&n, t, n.xh))) });
        tp_syms table = tp_syms_sizes(tp_as_tensor(rstd));
        tp_scope_keep(s, &stats[0], shaped(s, mean(&n, t), &table));
        tp_scope_keep(s, &stats[1], shaped(s, change, &table));
    }
    return tp_scope_end(s);
}

/* native_layer_norm(input, normalized_shape, weight, bias, eps) */
TP_HOOK_J(tp_j_layer_norm)
{
    tp_scope s = { 0 };
    bool bad = false;
    shapes f = layer_shapes(&s, arg[0].tensor, arg[1], &bad);
    (void)op;
    return !bad && forward(&s, &f, arg[0], result[1], result[2], arg[2], (tp_value[]){ tangent[0], tangent[2], tangent[3] }, false, NULL, out);
}

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps) */
TP_HOOK_J(tp_j_batch_norm)
{
    tp_scope s = { 0 };
    shapes f = batch_shapes(&s, arg[0].tensor);
    bool training = tp_as_bool(arg[5]);
    tp_value mu = training ? result[1] : arg[3], rstd = training ? result[2] : CALL(rsqrt, CALL(add_Scalar, arg[4], arg[7]));
    (void)op;
    return forward(&s, &f, arg[0], mu, rstd, arg[1], (tp_value[]){ tangent[0], tangent[1], tangent[2] }, !training, NULL, out);
}

/* native_group_norm(input, weight, bias, N, C, HxW, group, eps) */
TP_HOOK_J(tp_j_group_norm)
{
    tp_scope s = { 0 };
    shapes f = group_shapes(&s, arg + 3);
    (void)op;
    return forward(&s, &f, arg[0], result[1], result[2], arg[1], (tp_value[]){ tangent[0], tangent[1], tangent[2] }, false, out + 1, out);
}

/* ---- running statistics ---- */

/* now = (1 - momentum) now + momentum fresh */
static void update(tp_scope *scope, tp_value now, tp_value fresh, double momentum)
{
    if (now.tag == TP_NONE)
        return;
    tp_rule_call(scope, &tp_op_mul__Scalar, 2, (tp_value[]){ now, tp_float(1 - momentum) });
    tp_rule_call(scope, &tp_op_add__Tensor, 3, (tp_value[]){ now, fresh, tp_float(momentum) });
}

/* batch_norm_update_stats(input, running_mean, running_var, momentum) -> (mean, variance); the running one is unbiased. */
TP_HOOK_D(tp_d_batch_norm_update_stats)
{
    tp_scope s = { 0 };
    tp_tensor *input = arg[0].tensor;
    tp_dtype d = arg[1].tag == TP_TENSOR ? (tp_dtype)arg[1].tensor->dtype : (tp_dtype)input->dtype;
    tp_value x = tp_of_tensor(tp_scope_to_dtype(&s, input, d)), dim[TP_MAX_DIMS] = { tp_int(0) };
    (void)op;
    for (int i = 2; i < input->ndim; i++)
        dim[i - 1] = tp_int(i);
    tp_value over = tp_scope_list(&s, (uint32_t)(input->ndim - 1), dim);
    tp_value average = CALL(mean_dim, x, over), variance = CALL(var_correction, x, over, tp_int(0));
    update(&s, arg[1], average, tp_as_double(arg[3]));
    update(&s, arg[2], CALL(var_correction, x, over, tp_int(1)), tp_as_double(arg[3]));
    tp_scope_keep(&s, &result[0], average);
    tp_scope_keep(&s, &result[1], variance);
    return tp_scope_end(&s);
}

/* instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled): items become
 * channels of one batch; each running statistic becomes the mean of what the items made of it. */
TP_HOOK_D(tp_d_instance_norm)
{
    tp_scope s = { 0 };
    const tp_tensor *input = arg[0].tensor;
    tp_sym items = tp_tensor_sym_size(input, 0), channels = tp_tensor_sym_size(input, 1);
    tp_syms size = { .count = 0 }, whole = tp_syms_sizes(input), table = { 2, { items, channels } };
    tp_value count = tp_of_sym(items), times_items = tp_scope_list(&s, 1, &count), folded[4];
    (void)op;
    for (int i = 0; i < 4; i++)         /* weight, bias, running_mean, running_var */
        folded[i] = arg[i + 1].tag == TP_NONE ? tp_none() : CALL(repeat, arg[i + 1], times_items);
    tp_syms_add(&size, tp_sym_int(1));
    tp_syms_add(&size, tp_sym_mul(items, channels));
    for (int i = 2; i < input->ndim; i++)
        tp_syms_add(&size, whole.item[i]);
    tp_value x = CALL(view, CALL(contiguous, arg[0]), tp_scope_syms(&s, &size));
    tp_value y = CALL(batch_norm, x, folded[0], folded[1], folded[2], folded[3], arg[5], arg[6], arg[7], arg[8]);
    for (int i = 2; i < 4 && tp_as_bool(arg[5]); i++)
        if (folded[i].tag == TP_TENSOR) {
            tp_value zero = tp_int(0), place = CALL(alias, arg[i + 1]);
            CALL(copy_, place, CALL(mean_dim, CALL(view, folded[i], tp_scope_syms(&s, &table)), tp_scope_list(&s, 1, &zero)));
        }
    return tp_rule_done(&s, CALL(view, y, tp_scope_syms(&s, &whole)), result);
}

/* ---- by the mean square ---- */

/* _fused_rms_norm(input, normalized_shape, weight, eps) -> (result, 1 / root of the mean square); halves in f32. */
TP_HOOK_D(tp_d_rms_norm)
{
    tp_scope s = { 0 };
    tp_tensor *input = arg[0].tensor;
    tp_dtype d = (tp_dtype)input->dtype, wide = d == TP_f16 || d == TP_bf16 ? TP_f32 : d;
    int inner = (int)tp_length(arg[1]);
    double eps = tp_is_none(arg[3]) ? (wide == TP_f64 || wide == TP_c128 ? 0x1p-52 : 0x1p-23) : tp_as_double(arg[3]);
    (void)op;
    if (inner > input->ndim)
        return tp_fail(TP_ERR_RUNTIME, "Given normalized_shape of %d dims, but the input has %d", inner, input->ndim);
    tp_value x = tp_of_tensor(tp_scope_to_dtype(&s, input, wide));
    tp_value square = CALL(mean_dim, CALL(pow_Tensor_Scalar, x, tp_int(2)), dims_from(&s, input->ndim - inner, input->ndim), tp_bool(true));
    tp_value scale = CALL(rsqrt, CALL(add__Scalar, square, tp_float(eps))), y = CALL(mul_Tensor, x, scale);
    if (arg[2].tag == TP_TENSOR)
        y = CALL(mul_Tensor, y, arg[2]);
    if (y.tag == TP_TENSOR && !s.failed)
        y = tp_of_tensor(tp_scope_to_dtype(&s, y.tensor, d));
    y = CALL(contiguous, y, (tp_value){ .tag = TP_FORMAT_VALUE, .i = TP_FORMAT_CONTIGUOUS });
    if (!s.failed) {
        tp_scope_keep(&s, &result[0], y);
        tp_scope_keep(&s, &result[1], scale);
    }
    return tp_scope_end(&s);
}
