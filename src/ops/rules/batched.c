/* batched.c - batching rules that are no column (`vmap c tp_v_…`): products, indices, fills, losses.
 *
 * A rule that meets a case it has no better way for calls the op for each member. */
#include "ops/rules/batched.h"

/* The one result of a rule; an in-place op copies it to where it belongs. */
static bool finish(tp_scope *scope, const tp_op *op, const tp_value *arg, tp_value made, tp_value *result)
{
    if (op->variant == TP_INPLACE)
        made = RUN(copy_, arg[0], made);
    return tp_rule_done(scope, op->variant == TP_INPLACE ? arg[0] : made, result);
}

/* ---- products ---- */
static tp_value product_with_vector(tp_scope *scope, tp_value matrix, tp_value vector, bool matrices, bool vectors)
{
    tp_ints turned = { 2, { 1, 0 } };
    if (vectors && matrices)
        return RUN(squeeze_dim, RUN(matmul, matrix, RUN(unsqueeze, vector, tp_int(-1))), tp_int(-1));
    if (!vectors)
        return RUN(matmul, matrix, vector);
    return RUN(permute, RUN(mm, matrix, RUN(permute, vector, tp_scope_ints(scope, &turned))), tp_scope_ints(scope, &turned));
}

bool tp_v_mv(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    (void)size;
    tp_scope_start(&s);
    return finish(&s, op, arg, product_with_vector(&s, arg[0], arg[1], has(batched, 0), has(batched, 1)), result);
}

bool tp_v_dot(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    (void)size;
    tp_scope_start(&s);
    tp_value out;
    if (batched == 3) {
        tp_value column = CALL(unsqueeze, arg[1], tp_int(-1));
        out = CALL(squeeze_dim, CALL(squeeze_dim, CALL(matmul, CALL(unsqueeze, arg[0], tp_int(-2)), column), tp_int(-1)), tp_int(-1));
    } else {
        out = has(batched, 0) ? CALL(matmul, arg[0], arg[1]) : CALL(matmul, arg[1], arg[0]);
    }
    return finish(&s, op, arg, out, result);
}

/* beta * self + alpha * product, self of any rank up to the product's. */
static bool finish_sum(tp_scope *scope, const tp_op *op, const tp_value *arg, uint64_t batched, int rank, tp_value product, tp_value *result)
{
    tp_value beta = arg[3], alpha = arg[4];
    if (tp_number_equal(beta, tp_int(0)))
        return finish(scope, op, arg, RUN(mul_Scalar, product, alpha), result);
    tp_value self = RUN(mul_Scalar, arg[0], beta);
    return finish(scope, op, arg, RUN(add_Tensor, has(batched, 0) ? tp_vmap_raised(scope, self, rank) : self, product, alpha), result);
}

static bool sum_with_product(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, int rank, tp_value *result)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_value product = CALL(matmul, arg[1], arg[2]);
    if (!(batched & 6))
        product = tp_vmap_expanded(&s, product, size);
    return finish_sum(&s, op, arg, batched, rank, product, result);
}

bool tp_v_addmm(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    return sum_with_product(op, arg, batched, size, 2, result);
}

bool tp_v_baddbmm(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    return sum_with_product(op, arg, batched, size, 3, result);
}

bool tp_v_addmv(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_value product = product_with_vector(&s, arg[1], arg[2], has(batched, 1), has(batched, 2));
    if (!(batched & 6))
        product = tp_vmap_expanded(&s, product, size);
    return finish_sum(&s, op, arg, batched, 1, product, result);
}

/* ---- along one dim by an index of one dim ---- */
bool tp_v_along(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    enum { DIM = 1, INDEX = 2 };
    tp_scope s;
    tp_value changed[64];
    int rank = rank_of(arg, batched, 0);
    bool plain = rank > 0 && !has(batched, INDEX);
    for (int i = INDEX + 1; i < op->arg_count; i++)
        plain &= arg[i].tag != TP_TENSOR || rank_of(arg, batched, i) == rank;
    if (!plain)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR && i != INDEX)
            changed[i] = with_batch(&s, arg, batched, i, size);
    changed[DIM] = tp_int(tp_wrap(tp_as_int(arg[DIM]), rank, &s.failed) + 1);
    return tp_rule_done(&s, tp_scope_call(&s, op, changed), result);
}

/* ---- by tensors of indices ---- */

/* Where indices stand in a list: the result has their dims there, or in front when something stands between them. */
typedef struct places {
    int  first, last, rank;     /* rank of what they broadcast to */
    bool apart, masks;
} places;

static places look_at(tp_value indices, bool batched)
{
    places p = { .first = -1 };
    for (uint32_t i = 0; i < tp_length(indices); i++) {
        const tp_tensor *t = tp_as_tensor(indices.list->item[i]);
        if (!t)
            continue;
        bool mask = t->dtype == TP_b8 || t->dtype == TP_u8;
        p.apart |= p.first >= 0 && p.last != (int)i - 1;
        p.first = p.first < 0 ? (int)i : p.first;
        p.last = (int)i;
        p.masks |= mask;
        p.rank = (int)tp_int_max(p.rank, mask ? 1 : t->ndim - batched);
    }
    return p;
}

static tp_value moved_to_front(tp_scope *scope, tp_value v, int from)
{
    return from ? RUN(movedim_int, v, tp_int(from), tp_int(0)) : v;
}

/* 0 … size - 1, to be broadcast with indices of `rank` dims behind the batch. */
static tp_value member_numbers(tp_scope *scope, tp_sym size, int rank, tp_device device)
{
    tp_syms sizes = { .count = 0 };
    tp_syms_add(&sizes, size);
    for (int i = 0; i < rank; i++)
        tp_syms_add(&sizes, tp_sym_int(1));
    tp_value all = RUN(arange, tp_of_sym(size), tp_of_dtype(TP_i64), tp_none(), (tp_value){ .tag = TP_DEVICE, .device = device });
    return rank ? RUN(view, all, tp_scope_syms(scope, &sizes)) : all;
}

/* Batched indices into a batch: its members are numbered by one more index. */
static tp_value index_both(tp_scope *scope, const tp_op *op, const tp_value *arg, tp_value aligned, places p, tp_sym size)
{
    tp_values all = { 0 };
    tp_values_add(scope, &all, member_numbers(scope, size, p.rank, arg[0].tensor->device));
    tp_values_join(scope, &all, aligned);
    tp_value out = tp_scope_call(scope, op, (tp_value[]){ arg[0], tp_scope_values(scope, &all) });
    if (scope->failed || p.apart || p.first == 0)
        return out;
    tp_ints order = { .count = 0 };         /* theirs are in front now: back behind the dims that stood before */
    int n = (int)tp_dim(tp_as_tensor(out));
    tp_ints_add(&order, 0);
    for (int i = 0; i < p.first; i++)
        tp_ints_add(&order, 1 + p.rank + i);
    for (int i = 0; i < p.rank; i++)
        tp_ints_add(&order, 1 + i);
    for (int i = 1 + p.rank + p.first; i < n; i++)
        tp_ints_add(&order, i);
    return RUN(permute, out, tp_scope_ints(scope, &order));
}

bool tp_v_index(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    places p = look_at(arg[1], has(batched, 1));
    if (has(batched, 1) && p.masks)
        return tp_fail(TP_ERR_RUNTIME, "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with "
                       "a boolean mask.");
    tp_scope_start(&s);
    tp_values all = { 0 };
    if (!has(batched, 1)) {
        tp_values_add(&s, &all, tp_none());
        tp_values_join(&s, &all, arg[1]);
        tp_value out = tp_scope_call(&s, op, (tp_value[]){ arg[0], tp_scope_values(&s, &all) });
        return tp_rule_done(&s, moved_to_front(&s, out, p.apart ? p.rank : 0), result);
    }
    for (uint32_t i = 0; i < tp_length(arg[1]); i++)
        tp_values_add(&s, &all, tp_vmap_raised(&s, arg[1].list->item[i], p.rank));
    tp_value aligned = tp_scope_values(&s, &all);
    if (has(batched, 0))
        return tp_rule_done(&s, index_both(&s, op, arg, aligned, p, size), result);
    tp_value out = tp_scope_call(&s, op, (tp_value[]){ arg[0], aligned });
    return tp_rule_done(&s, moved_to_front(&s, out, p.apart ? 0 : p.first), result);
}

/* A write to members, which are numbered by one more index where the batch would not stay in front. */
bool tp_v_index_put(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[8];
    places p = look_at(arg[1], has(batched, 1));
    bool plain = !has(batched, 1) && !p.apart, numbered = !plain && (p.first == 0 || p.apart) && !p.masks;
    if ((!plain && !numbered) || (p.masks && has(batched, 2)))
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    tp_values all = { 0 };
    int rank = rank_of(arg, batched, 0) + p.rank;           /* of what is written, for each member */
    tp_values_add(&s, &all, plain ? tp_none() : member_numbers(&s, size, p.rank, arg[0].tensor->device));
    for (uint32_t i = 0; i < tp_length(arg[1]); i++) {
        tp_value index = arg[1].list->item[i];
        rank -= index.tag == TP_TENSOR;
        tp_values_add(&s, &all, has(batched, 1) ? tp_vmap_raised(&s, index, p.rank) : index);
    }
    changed[0] = with_batch(&s, arg, batched, 0, size);
    changed[1] = tp_scope_values(&s, &all);
    changed[2] = has(batched, 2) ? tp_vmap_raised(&s, arg[2], rank) : arg[2];
    return tp_rule_done(&s, tp_scope_call(&s, op, changed), result);
}

/* Rows of several tables are rows of one long table. */
bool tp_v_embedding(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[5];
    if (rank_of(arg, batched, 0) != 2)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, sizeof changed);
    if (has(batched, 0)) {
        tp_syms have = tp_syms_sizes(arg[0].tensor), rows = { .count = 0 };
        tp_syms_add(&rows, tp_sym_mul(have.item[0], have.item[1]));
        tp_syms_add(&rows, have.item[2]);
        tp_value indices = with_batch(&s, arg, batched, 1, size);
        tp_value first = CALL(mul_Scalar, member_numbers(&s, size, rank_of(arg, batched, 1), arg[0].tensor->device), tp_of_sym(have.item[1]));
        changed[0] = CALL(reshape, arg[0], tp_scope_syms(&s, &rows));
        changed[1] = CALL(add_Tensor, indices, first);
        changed[2] = tp_int(-1);
    }
    return tp_rule_done(&s, tp_scope_call(&s, op, changed), result);
}

bool tp_v_embedding_backward(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    enum { GRAD, INDICES, ROWS, PADDING };
    tp_scope s;
    tp_value changed[5];
    if (arg[PADDING].tag != TP_INT || arg[PADDING].i >= 0)  /* which would be one row of each table */
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, sizeof changed);
    tp_value first = CALL(mul_Scalar, member_numbers(&s, size, rank_of(arg, batched, INDICES), arg[GRAD].tensor->device), arg[ROWS]);
    changed[GRAD] = with_batch(&s, arg, batched, GRAD, size);
    changed[INDICES] = CALL(add_Tensor, with_batch(&s, arg, batched, INDICES, size), first);
    changed[ROWS] = tp_of_sym(tp_sym_mul(tp_sym_read(arg[ROWS]), size));
    tp_value all = tp_scope_call(&s, op, changed);
    if (s.failed)
        return tp_scope_end(&s);
    tp_value sizes = tp_scope_list(&s, 3, (tp_value[]){ tp_of_sym(size), arg[ROWS], tp_of_sym(tp_syms_size(arg[GRAD].tensor, -1, &s.failed)) });
    return tp_rule_done(&s, CALL(view, all, sizes), result);
}

/* ---- fills ---- */
bool tp_v_fill(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    (void)size;
    if (op->variant == TP_INPLACE && !has(batched, 0))
        return tp_vmap_refuse_write(op);
    tp_scope_start(&s);
    tp_value made = has(batched, 1) ? tp_vmap_raised(&s, arg[1], rank_of(arg, batched, 0)) : arg[1];
    if (op->variant != TP_INPLACE)
        made = CALL(copy_, CALL(empty_like, with_batch(&s, arg, batched, 0, size)), made);
    return finish(&s, op, arg, made, result);
}

bool tp_v_masked_fill(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    if (has(batched, 2))
        return tp_vmap_loop(op, arg, batched, size, result);
    return tp_vmap_pointwise(op, arg, batched, size, result);
}

/* ---- negative log likelihood: the classes are the last dim ---- */

/* Of the losses: what each row's target is, 0 where it counts nothing, and whether it counts. */
static tp_value chosen_class(tp_scope *scope, tp_value target, tp_value ignore, tp_value *counts)
{
    *counts = RUN(ne_Scalar, target, ignore);
    return RUN(unsqueeze, RUN(where_ScalarOther, *counts, target, tp_int(0)), tp_int(-1));
}

static bool plain_loss(const tp_value *arg, uint64_t batched, int self, int target, int weight)
{
    int rank = rank_of(arg, batched, self);
    return arg[weight].tag == TP_NONE && rank == rank_of(arg, batched, target) + 1 && (rank == 1 || rank == 2) && arg[target].tensor->dtype == TP_i64;
}

bool tp_v_nll_loss(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    enum { NONE = 0, MEAN = 1 };
    tp_scope s;
    int64_t reduction = tp_as_int(arg[3]);
    if (!plain_loss(arg, batched, 0, 1, 2))
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    tp_value self = with_batch(&s, arg, batched, 0, size), target = with_batch(&s, arg, batched, 1, size), counts;
    tp_ints rows = { 1, { 1 } };
    bool many = rank_of(arg, batched, 0) == 2;
    tp_value all = CALL(neg, CALL(squeeze_dim, CALL(gather, self, tp_int(-1), chosen_class(&s, target, arg[4], &counts)), tp_int(-1)));
    tp_value out = CALL(where_ScalarOther, counts, all, tp_int(0)), total = tp_none();
    if (reduction == NONE && many) {
        total = CALL(new_zeros, self, tp_scope_list(&s, 1, (tp_value[]){ tp_of_sym(size) }));
    } else {
        total = many ? CALL(sum_dim_IntList, counts, tp_scope_ints(&s, &rows)) : counts;
        if (!s.failed)
            total = tp_of_tensor(tp_scope_to_dtype(&s, tp_as_tensor(total), (tp_dtype)arg[0].tensor->dtype));
        if (many)
            out = CALL(sum_dim_IntList, out, tp_scope_ints(&s, &rows));
        if (reduction == MEAN)
            out = CALL(div_Tensor, out, total);
        if (reduction == NONE)
            total = CALL(zeros_like, total);
    }
    tp_scope_keep(&s, &result[0], out);
    tp_scope_keep(&s, &result[1], total);
    return tp_scope_end(&s);
}

bool tp_v_nll_loss_backward(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    if (!plain_loss(arg, batched, 1, 2, 3) || rank_of(arg, batched, 0) > 1 || rank_of(arg, batched, 6) > 0 ||
        (rank_of(arg, batched, 0) == 1 && (rank_of(arg, batched, 1) == 1 || tp_as_int(arg[4]) != 0)))
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    tp_value g = with_batch(&s, arg, batched, 0, size), self = with_batch(&s, arg, batched, 1, size), target = with_batch(&s, arg, batched, 2, size), counts;
    tp_value at = chosen_class(&s, target, arg[5], &counts);
    if (tp_as_int(arg[4]) == 1)
        g = CALL(div_Tensor, g, with_batch(&s, arg, batched, 6, size));
    tp_value row = CALL(where_ScalarOther, counts, tp_vmap_raised(&s, g, rank_of(arg, batched, 2)), tp_int(0));
    tp_value ones = CALL(scatter_value, CALL(zeros_like, self), tp_int(-1), at, tp_float(-1));
    return tp_rule_done(&s, CALL(mul_Tensor, ones, CALL(unsqueeze, row, tp_int(-1))), result);
}

/* ---- the rest ---- */
bool tp_v_roll(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    return tp_length(arg[2]) ? tp_vmap_shift(op, arg, batched, size, result, 4) : tp_vmap_loop(op, arg, batched, size, result);
}

/* Factors of matrices; one that is not asked for is an empty vector, whatever the batch. */
bool tp_v_factors(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    (void)batched;
    tp_scope_start(&s);
    tp_value all = tp_scope_call_all(&s, op, arg);
    for (int i = 0; i < op->result_count && !s.failed; i++) {
        const tp_tensor *t = tp_as_tensor(all.list->item[i]);
        tp_scope_keep(&s, &result[i], t && t->ndim == 1 && t->numel == 0 ? tp_vmap_expanded(&s, all.list->item[i], size) : all.list->item[i]);
    }
    return tp_scope_end(&s);
}

/* Rows of probabilities: a member that is one row gives one of the batch, others are folded. */
bool tp_v_multinomial(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    return rank_of(arg, batched, 0) == 1 ? tp_vmap_random(op, arg, batched, size, result) : tp_vmap_fold(op, arg, batched, size, result, 1);
}
