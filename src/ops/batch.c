/* batch.c - batching rules that many ops share. */
#include "ops/batch.h"

#include <string.h>

#include "gen/ops.h"
#include "ops/emit.h"

enum { MOST_ARGUMENTS = 64, MOST_RESULTS = 16 };

/* ---- element-wise ---- */

static int logical_rank(tp_value v, bool is_batched)
{
    return (int)tp_dim(tp_as_tensor(v)) - is_batched;
}

/* The batch dim, then as many ones as are missing to `rank`, then the dims the tensor has. */
static tp_value raised(tp_scope *s, tp_value v, int rank)
{
    const tp_tensor *t = tp_as_tensor(v);
    if (!t || t->ndim - 1 == rank)
        return v;
    tp_syms have = tp_syms_sizes(t), want;
    want.count = 0;
    tp_syms_add(&want, have.item[0]);
    for (int i = t->ndim - 1; i < rank; i++)
        tp_syms_add(&want, tp_sym_int(1));
    for (int i = 1; i < t->ndim; i++)
        tp_syms_add(&want, have.item[i]);
    return tp_scope_call(s, &tp_op_view, (tp_value[]){ v, tp_scope_syms(s, &want) });
}

static bool refuse_inplace(const tp_op *op)
{
    return tp_fail(TP_ERR_RUNTIME, "vmap: aten::%s(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
                   "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
                   "over in a vmap. Please try to use out-of-place operators instead of aten::%s. If said operator is being called "
                   "inside the PyTorch framework, please file a bug report instead.", op->name, op->name);
}

static bool keep_all(tp_scope *s, const tp_op *op, tp_value all, tp_value *result)
{
    for (int i = 0; i < op->result_count && !s->failed; i++)
        tp_scope_keep(s, &result[i], all.list->item[i]);
    return tp_scope_end(s);
}

bool tp_vmap_pointwise(const tp_op *op, const tp_value *arg, uint64_t batched, int64_t size, tp_value *result)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    int rank = 0;
    (void)size;
    if (op->variant == TP_INPLACE && !(batched & 1))
        return refuse_inplace(op);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR)
            rank = (int)tp_int_max(rank, logical_rank(arg[i], batched >> i & 1));
    for (int i = 0; i < op->arg_count; i++)
        if (batched >> i & 1)
            changed[i] = op->arg[i].written ? arg[i] : raised(&s, arg[i], rank);
    return keep_all(&s, op, tp_scope_call_all(&s, op, changed), result);
}

/* ---- dims that move by one ---- */

static tp_value moved(tp_scope *s, const tp_arg *a, tp_value v, int rank)
{
    if (!a->list && v.tag != TP_NONE && v.tag != TP_LIST)
        return tp_int(tp_wrap(tp_as_int(v), rank, &s->failed) + 1);
    tp_ints dims = tp_ints_read(v, 0, &s->failed);
    for (int i = 0; i < dims.count; i++)
        dims.item[i] = tp_wrap(dims.item[i], rank, &s->failed) + 1;
    for (int i = 0; dims.count == 0 && i < rank; i++)
        dims.item[i] = i + 1;
    if (tp_length(v) == 0 && v.tag != TP_INT)
        dims.count = rank;
    return tp_scope_ints(s, &dims);
}

bool tp_vmap_shift(const tp_op *op, const tp_value *arg, uint64_t batched, int64_t size, tp_value *result, uint64_t dims)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    int rank = logical_rank(arg[0], true);
    bool single = false;            /* `int? dim` that is absent means all, which no single dim can say */
    for (int i = 0; i < op->arg_count; i++)
        single |= (dims >> i & 1) && !op->arg[i].list && arg[i].tag == TP_NONE;
    if (batched != 1 || rank == 0 || single)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++)
        if (dims >> i & 1)
            changed[i] = moved(&s, &op->arg[i], arg[i], rank);
    return keep_all(&s, op, tp_scope_call_all(&s, op, changed), result);
}

/* ---- a batch within a batch ---- */

static tp_value merged(tp_scope *s, tp_value v)
{
    tp_syms have = tp_syms_sizes(tp_as_tensor(v)), want = tp_syms_slice(&have, 1, INT64_MAX);
    if (want.count)
        want.item[0] = tp_sym_mul(have.item[0], have.item[1]);
    return tp_scope_call(s, &tp_op_reshape, (tp_value[]){ v, tp_scope_syms(s, &want) });
}

static tp_value split_off(tp_scope *s, tp_value v, int64_t size)
{
    const tp_tensor *t = tp_as_tensor(v);
    if (!t || t->ndim == 0)
        return v;
    tp_syms have = tp_syms_sizes(t), want;
    want.count = 0;
    tp_syms_add(&want, tp_sym_int(size));
    tp_syms_add(&want, tp_sym_floordiv(have.item[0], tp_sym_int(size)));
    for (int i = 1; i < have.count; i++)
        tp_syms_add(&want, have.item[i]);
    return tp_scope_call(s, &tp_op_reshape, (tp_value[]){ v, tp_scope_syms(s, &want) });
}

bool tp_vmap_fold(const tp_op *op, const tp_value *arg, uint64_t batched, int64_t size, tp_value *result, int fold)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    if (batched != (uint64_t)1 << fold || logical_rank(arg[fold], true) == 0 || size == 0)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    changed[fold] = merged(&s, arg[fold]);
    tp_value all = tp_scope_call_all(&s, op, changed);
    for (int i = 0; i < op->result_count && !s.failed; i++)
        tp_scope_keep(&s, &result[i], split_off(&s, all.list->item[i], size));
    return tp_scope_end(&s);
}

/* ---- one by one ---- */

static tp_value member(tp_scope *s, tp_value v, int64_t k)
{
    return tp_scope_call(s, &tp_op_select_int, (tp_value[]){ v, tp_int(0), tp_int(k) });
}

bool tp_vmap_loop(const tp_op *op, const tp_value *arg, uint64_t batched, int64_t size, tp_value *result)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    tp_values made[MOST_RESULTS] = { { 0 } };
    char name[128];
    if (op->variant != TP_FUNCTIONAL || size == 0)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "%s has no batching rule", tp_op_full_name(op, name));
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int64_t k = 0; k < size && !s.failed; k++) {
        for (int i = 0; i < op->arg_count; i++)
            if ((batched >> i & 1) && arg[i].tag == TP_TENSOR)
                changed[i] = member(&s, arg[i], k);
        tp_value all = tp_scope_call_all(&s, op, changed);
        for (int i = 0; i < op->result_count && !s.failed; i++)
            tp_values_add(&s, &made[i], all.list->item[i]);
    }
    for (int i = 0; i < op->result_count; i++) {
        tp_value list = tp_scope_values(&s, &made[i]);
        tp_scope_keep(&s, &result[i], tp_scope_call(&s, &tp_op_stack, (tp_value[]){ list, tp_int(0) }));
    }
    return tp_scope_end(&s);
}
