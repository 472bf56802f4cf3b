/* batched_layers.c - batching rules of convolutions, normalisations and attention.
 *
 *     convolution    input [B,N,C,…], weight [B,O,I,…]  =>  [N,B*C,…] and [B*O,I,…] in B times as many groups  =>  [N,B*O,…]
 *
 * When only the input has a batch it joins N. */
#include "ops/rules/batched.h"

/* ---- dims joined and split ---- */
static tp_value joined(tp_scope *scope, tp_value v, int dim)            /* dim and the next one */
{
    tp_syms have = tp_syms_sizes(tp_as_tensor(v)), want = { .count = 0 };
    for (int i = 0; i < have.count; i++)
        if (i == dim)
            tp_syms_add(&want, tp_sym_mul(have.item[i], have.item[i + 1])), i++;
        else
            tp_syms_add(&want, have.item[i]);
    return scope->failed ? tp_none() : RUN(reshape, v, tp_scope_syms(scope, &want));
}

static tp_value split(tp_scope *scope, tp_value v, int dim, tp_sym size)
{
    if (scope->failed || v.tag != TP_TENSOR)
        return tp_none();
    tp_syms have = tp_syms_sizes(v.tensor), want = { .count = 0 };
    for (int i = 0; i < have.count; i++) {
        if (i == dim)
            tp_syms_add(&want, size);
        tp_syms_add(&want, i == dim ? tp_sym_floordiv(have.item[i], size) : have.item[i]);
    }
    return RUN(reshape, v, tp_scope_syms(scope, &want));
}

/* [B,N,C,…] as [N,B*C,…], and back. */
static tp_value into_channels(tp_scope *scope, tp_value v) { return joined(scope, RUN(movedim_int, v, tp_int(0), tp_int(1)), 1); }
static tp_value out_of_channels(tp_scope *scope, tp_value v, tp_sym size)
{
    tp_value parts = split(scope, v, 1, size);
    return parts.tag == TP_TENSOR ? RUN(movedim_int, parts, tp_int(1), tp_int(0)) : parts;
}

/* ---- convolution ---- */
enum { INPUT, WEIGHT, BIAS, GROUPS = 8 };

static tp_value more_groups(tp_value groups, tp_sym size)
{
    return tp_of_sym(tp_sym_mul(tp_sym_read(groups), size));
}

/* A bias of [O] or [B,O] to be added to [B,N,O,…]. */
static tp_value bias_of_channels(tp_scope *scope, tp_value bias, bool batched, int spatial)
{
    for (int i = 0; i < spatial; i++)
        bias = RUN(unsqueeze, bias, tp_int(-1));
    return batched ? tp_vmap_raised(scope, bias, spatial + 2) : bias;
}

bool tp_v_convolution(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[9];
    int rank = rank_of(arg, batched, INPUT);
    bool one_table = !has(batched, INPUT) && tp_sym_same(tp_sym_read(arg[GROUPS]), tp_sym_int(1)) && !tp_as_bool(arg[6]);
    if (rank != rank_of(arg, batched, WEIGHT))
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, sizeof changed);
    tp_value out;
    if (!has(batched, WEIGHT)) {
        if (has(batched, BIAS))
            changed[BIAS] = tp_none();
        changed[INPUT] = has(batched, INPUT) ? joined(&s, arg[INPUT], 0) : arg[INPUT];
        out = tp_scope_call(&s, op, changed);
        out = has(batched, INPUT) ? split(&s, out, 0, size) : tp_vmap_expanded(&s, out, size);
    } else {
        changed[BIAS] = tp_none();
        changed[WEIGHT] = joined(&s, arg[WEIGHT], 0);
        if (!one_table) {                           /* the weights of each member look at channels of their own */
            changed[INPUT] = into_channels(&s, with_batch(&s, arg, batched, INPUT, size));
            changed[GROUPS] = more_groups(arg[GROUPS], size);
        }
        out = out_of_channels(&s, tp_scope_call(&s, op, changed), size);
    }
    if (arg[BIAS].tag == TP_TENSOR && changed[BIAS].tag == TP_NONE)
        out = CALL(add_Tensor, out, bias_of_channels(&s, arg[BIAS], has(batched, BIAS), rank - 2));
    return tp_rule_done(&s, out, result);
}

bool tp_v_convolution_backward(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    enum { GRAD, X, W, BIAS_SIZES, ALL_GROUPS = 9 };
    tp_scope s;
    tp_value changed[11];
    int rank = rank_of(arg, batched, X);
    if (rank != rank_of(arg, batched, W) || rank != rank_of(arg, batched, GRAD) || tp_length(arg[BIAS_SIZES]) > 1)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, sizeof changed);
    changed[GRAD] = into_channels(&s, with_batch(&s, arg, batched, GRAD, size));
    changed[X] = into_channels(&s, with_batch(&s, arg, batched, X, size));
    changed[W] = joined(&s, with_batch(&s, arg, batched, W, size), 0);
    changed[ALL_GROUPS] = more_groups(arg[ALL_GROUPS], size);
    if (tp_length(arg[BIAS_SIZES])) {
        tp_syms sizes = tp_syms_read(arg[BIAS_SIZES], 0, &s.failed);
        sizes.item[0] = tp_sym_mul(sizes.item[0], size);
        changed[BIAS_SIZES] = tp_scope_syms(&s, &sizes);
    }
    tp_value all = tp_scope_call_all(&s, op, changed);
    if (!s.failed) {
        tp_scope_keep(&s, &result[0], out_of_channels(&s, all.list->item[0], size));
        tp_scope_keep(&s, &result[1], split(&s, all.list->item[1], 0, size));
        tp_scope_keep(&s, &result[2], split(&s, all.list->item[2], 0, size));
    }
    return tp_scope_end(&s);
}

/* ---- layers ---- */

/* Scale and shift that differ between members come after. */
bool tp_v_layer_norm(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[5];
    int rank = rank_of(arg, batched, 0);
    bool after = batched & ~(uint64_t)1;
    tp_scope_start(&s);
    memcpy(changed, arg, sizeof changed);
    if (after)
        changed[2] = changed[3] = tp_none();
    tp_value all = tp_scope_call_all(&s, op, changed);
    if (s.failed)
        return tp_scope_end(&s);
    tp_value out = all.list->item[0];
    if (after && arg[2].tag == TP_TENSOR)
        out = CALL(mul_Tensor, out, has(batched, 2) ? tp_vmap_raised(&s, arg[2], rank) : arg[2]);
    if (after && arg[3].tag == TP_TENSOR)
        out = CALL(add_Tensor, out, has(batched, 3) ? tp_vmap_raised(&s, arg[3], rank) : arg[3]);
    tp_scope_keep(&s, &result[0], out);
    for (int i = 1; i < 3; i++)
        tp_scope_keep(&s, &result[i], has(batched, 0) ? all.list->item[i] : tp_vmap_expanded(&s, all.list->item[i], size));
    return tp_scope_end(&s);
}

/* The sum over the rows of each member. */
static tp_value summed_rows(tp_scope *scope, tp_value v, int rows)
{
    tp_ints dims = { .count = 0 };
    for (int i = 0; i < rows; i++)
        tp_ints_add(&dims, i + 1);
    return rows ? RUN(sum_dim_IntList, v, tp_scope_ints(scope, &dims)) : v;
}

bool tp_v_layer_norm_backward(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    enum { GRAD, X, SHAPE, MEAN, RSTD, SCALE, SHIFT, MASK };
    tp_scope s;
    int rank = rank_of(arg, batched, X), rows = rank - (int)tp_length(arg[SHAPE]);
    if (rank_of(arg, batched, MEAN) != rank || rank_of(arg, batched, RSTD) != rank)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    tp_value g = with_batch(&s, arg, batched, GRAD, size), x = with_batch(&s, arg, batched, X, size);
    tp_value mean = with_batch(&s, arg, batched, MEAN, size), rstd = with_batch(&s, arg, batched, RSTD, size);
    bool scaled = has(batched, SCALE);
    tp_value only_first = tp_scope_list(&s, 3, (tp_value[]){ tp_bool(true), tp_bool(false), tp_bool(false) });
    if (tp_as_bool(tp_item(arg[MASK], 0, &s.failed))) {
        tp_value inside = scaled ? CALL(mul_Tensor, g, tp_vmap_raised(&s, arg[SCALE], rank)) : g;
        tp_value all = tp_scope_call_all(&s, op, (tp_value[]){ inside, x, arg[SHAPE], mean, rstd, scaled ? tp_none() : arg[SCALE], tp_none(), only_first });
        tp_scope_keep(&s, &result[0], s.failed ? tp_none() : all.list->item[0]);
    } else {
        result[0] = tp_none();
    }
    result[1] = result[2] = tp_none();
    if (tp_as_bool(tp_item(arg[MASK], 1, &s.failed)))
        tp_scope_keep(&s, &result[1], summed_rows(&s, CALL(mul_Tensor, g, CALL(mul_Tensor, CALL(sub_Tensor, x, mean), rstd)), rows));
    if (tp_as_bool(tp_item(arg[MASK], 2, &s.failed)))
        tp_scope_keep(&s, &result[2], summed_rows(&s, g, rows));
    return tp_scope_end(&s);
}

/* Ops over channels, which are dim 1 of their inputs and all of their statistics: a batch is more channels. */
bool tp_v_channels(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[16];
    bool fits = true;                               /* what is written must not be copied when its dims are joined */
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR)
            fits &= rank_of(arg, batched, i) > 0 && !(has(op->rare->hidden_writes, i) && !tp_tensor_is_contiguous(arg[i].tensor)) && !op->arg[i].written;
    if (!fits)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR) {
            tp_value whole = with_batch(&s, arg, batched, i, size);
            changed[i] = rank_of(arg, batched, i) > 1 ? into_channels(&s, whole) : joined(&s, whole, 0);
        }
    tp_value all = tp_scope_call_all(&s, op, changed);
    for (int i = 0; i < op->result_count && !s.failed; i++) {
        tp_value one = all.list->item[i];
        tp_scope_keep(&s, &result[i], tp_dim(tp_as_tensor(one)) > 1 ? out_of_channels(&s, one, size) : split(&s, one, 0, size));
    }
    return tp_scope_end(&s);
}

/* Statistics that training updates must be each member's own. */
bool tp_v_batch_norm(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    int mean = tp_op_arg_index(op, "running_mean"), training = tp_op_arg_index(op, "training");
    bool writes = mean >= 0 && (op->rare->hidden_writes || op->arg[mean].written) && (training < 0 || tp_as_bool(arg[training]));
    for (int i = mean; writes && i <= mean + 1; i++)
        if (arg[i].tag == TP_TENSOR && !has(batched, i))
            return tp_fail(TP_ERR_RUNTIME, "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in "
                           "place, were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
                           "False.If you are using a prebuilt module and do not need eval mode, please see the functorch website for resources on "
                           "how to patch your module to work with vmap");
    return tp_v_channels(op, arg, batched, size, result);
}

/* A scale or shift of [C] or [B,C] for [B,N,C,…]. */
static tp_value of_channels(tp_scope *scope, const tp_value *arg, uint64_t batched, int i, int rank)
{
    return bias_of_channels(scope, arg[i], has(batched, i), rank - 2);
}

bool tp_v_group_norm(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    enum { X, SCALE, SHIFT, N };
    tp_scope s;
    tp_value changed[8];
    int rank = rank_of(arg, batched, X);
    bool after = batched & 6;
    if (rank < 2)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, sizeof changed);
    changed[X] = joined(&s, with_batch(&s, arg, batched, X, size), 0);
    changed[N] = more_groups(arg[N], size);
    if (after)
        changed[SCALE] = changed[SHIFT] = tp_none();
    tp_value all = tp_scope_call_all(&s, op, changed), out = s.failed ? tp_none() : split(&s, all.list->item[0], 0, size);
    if (after && arg[SCALE].tag == TP_TENSOR)
        out = CALL(mul_Tensor, out, of_channels(&s, arg, batched, SCALE, rank));
    if (after && arg[SHIFT].tag == TP_TENSOR)
        out = CALL(add_Tensor, out, of_channels(&s, arg, batched, SHIFT, rank));
    tp_scope_keep(&s, &result[0], out);
    for (int i = 1; i < 3; i++)
        tp_scope_keep(&s, &result[i], s.failed ? tp_none() : split(&s, all.list->item[i], 0, size));
    return tp_scope_end(&s);
}

/* Each member's gradients of scale and shift: sums over its rows and places, from the normalised input. */
bool tp_v_group_norm_backward(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    enum { GRAD, X, MEAN, RSTD, SCALE, N, C, PLACES, GROUP, MASK };
    tp_scope s;
    tp_value changed[10];
    int rank = rank_of(arg, batched, X);
    if (rank < 2 || rank_of(arg, batched, GRAD) != rank || rank_of(arg, batched, MEAN) != 2 || rank_of(arg, batched, RSTD) != 2)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, sizeof changed);
    result[0] = result[1] = result[2] = tp_none();
    tp_value g = with_batch(&s, arg, batched, GRAD, size), x = with_batch(&s, arg, batched, X, size);
    if (has(batched, SCALE)) {
        changed[GRAD] = joined(&s, CALL(mul_Tensor, g, of_channels(&s, arg, batched, SCALE, rank)), 0);
        changed[SCALE] = tp_none();
    } else {
        changed[GRAD] = joined(&s, g, 0);
    }
    changed[X] = joined(&s, x, 0);
    changed[MEAN] = joined(&s, with_batch(&s, arg, batched, MEAN, size), 0);
    changed[RSTD] = joined(&s, with_batch(&s, arg, batched, RSTD, size), 0);
    changed[N] = more_groups(arg[N], size);
    changed[MASK] = tp_scope_list(&s, 3, (tp_value[]){ tp_bool(true), tp_bool(false), tp_bool(false) });
    if (tp_as_bool(tp_item(arg[MASK], 0, &s.failed))) {
        tp_value all = tp_scope_call_all(&s, op, changed);
        tp_scope_keep(&s, &result[0], s.failed ? tp_none() : split(&s, all.list->item[0], 0, size));
    }
    tp_ints dims = { 2, { 1, 3 } };
    tp_value whole = tp_scope_list(&s, 4, (tp_value[]){ tp_of_sym(size), arg[N], arg[C], arg[PLACES] });
    tp_value rows = tp_scope_list(&s, 3, (tp_value[]){ changed[N], arg[GROUP], tp_int(-1) });
    if (tp_as_bool(tp_item(arg[MASK], 1, &s.failed))) {
        tp_value away = CALL(sub_Tensor, CALL(reshape, x, rows), CALL(unsqueeze, changed[MEAN], tp_int(-1)));
        tp_value normal = CALL(mul_Tensor, away, CALL(unsqueeze, changed[RSTD], tp_int(-1)));
        tp_scope_keep(&s, &result[1], CALL(sum_dim_IntList, CALL(mul_Tensor, CALL(reshape, g, whole), CALL(reshape, normal, whole)), tp_scope_ints(&s, &dims)));
    }
    if (tp_as_bool(tp_item(arg[MASK], 2, &s.failed)))
        tp_scope_keep(&s, &result[2], CALL(sum_dim_IntList, CALL(reshape, g, whole), tp_scope_ints(&s, &dims)));
    return tp_scope_end(&s);
}

/* Every tensor begins with the rows of a batch; a mask need not. */
bool tp_v_attention(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    int mask = tp_op_arg_index(op, "attn_mask");
    uint64_t folded = 0;
    for (int i = 0; i < op->arg_count; i++)
        folded |= (uint64_t)(arg[i].tag == TP_TENSOR && i != mask) << i;
    if (arg[mask].tag == TP_TENSOR && tp_dim(arg[mask].tensor) > 2)
        return tp_vmap_loop(op, arg, batched, size, result);
    return tp_vmap_fold(op, arg, batched, size, result, folded);
}
