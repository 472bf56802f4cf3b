/* batch.c - batching rules that many ops share. */
#include "ops/batch.h"

#include <string.h>

#include "gen/ops.h"
#include "ops/emit.h"

enum { MOST_ARGUMENTS = 64, MOST_RESULTS = 16 };

static bool is_empty(tp_sym size)
{
    return tp_sym_is_int(size) && tp_sym_as_int(size) == 0;
}

tp_tensor *tp_vmap_member(tp_tensor *batch)
{
    bool fake = batch->keys & TP_LAYER_BIT(TP_LAYER_FAKE);
    if (batch->size[0] == 0 && !fake)           /* there is none: any memory will do */
        return tp_tensor_new_on(batch->device, (tp_dtype)batch->dtype, batch->ndim - 1, batch->size + 1, batch->stride + 1);
    tp_syms size = tp_syms_sizes(batch), stride = tp_syms_strides(batch);
    size = tp_syms_slice(&size, 1, INT64_MAX);
    stride = tp_syms_slice(&stride, 1, INT64_MAX);
    tp_value arg[4] = { tp_of_tensor(batch), tp_value_of_syms(&size), tp_value_of_syms(&stride), tp_none() }, member = tp_none();
    uint32_t allowed = tp_self.allowed;
    tp_self.allowed = fake ? TP_LAYER_BIT(TP_LAYER_FAKE) : 0;
    bool ok = !tp_is_none(arg[1]) && !tp_is_none(arg[2]) && tp_call(&tp_op_as_strided, arg, &member);
    tp_self.allowed = allowed;
    tp_values_unref(arg + 1, 2);
    return ok ? member.tensor : NULL;
}

/* ---- element-wise ---- */

static int logical_rank(tp_value v, bool is_batched)
{
    return (int)tp_dim(tp_as_tensor(v)) - is_batched;
}

/* The batch dim, then as many ones as are missing to `rank`, then the dims the tensor has. */
tp_value tp_vmap_raised(tp_scope *s, tp_value v, int rank)
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

bool tp_vmap_refuse_write(const tp_op *op)
{
    const char *name = op->kind == TP_LIKE_POINTWISE ? "inplace arithmetic" : op->kind == TP_LIKE_RANDOM ? "inplace bernoulli" : op->name;
    return tp_fail(TP_ERR_RUNTIME, "vmap: %s(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
                   "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
                   "over in a vmap. Please try to use out-of-place operators instead of %s. If said operator is being called "
                   "inside the PyTorch framework, please file a bug report instead.", name, name);
}

static bool keep_all(tp_scope *s, const tp_op *op, tp_value all, tp_value *result)
{
    for (int i = 0; i < op->result_count && !s->failed; i++)
        tp_scope_keep(s, &result[i], all.list->item[i]);
    return tp_scope_end(s);
}

/* The batch of a 0-d member has dims, and would outrank what the member does not: the common type is that of the members. */
static tp_dtype type_of_members(const tp_op *op, const tp_value *arg, uint64_t batched)
{
    const tp_pointwise *p = op->pointwise && op->pointwise->pick && op->pointwise->pick(arg) ? op->pointwise->pick(arg) : op->pointwise;
    tp_common members = TP_COMMON_START, whole = TP_COMMON_START;
    if (!p || p->promotion == TP_PROMOTE_INTO || p->promotion == TP_PROMOTE_SAME)
        return TP_DTYPE_NONE;
    for (int i = 0; i < op->arg_count; i++) {
        if (!(p->promoting >> i & 1))
            continue;
        tp_common_add(&whole, arg[i]);
        if ((batched >> i & 1) && logical_rank(arg[i], true) == 0)
            tp_common_add_without_dims(&members, tp_as_tensor(arg[i]));
        else
            tp_common_add(&members, arg[i]);
    }
    tp_dtype want = tp_common_dtype(&members);
    return want == tp_common_dtype(&whole) ? TP_DTYPE_NONE : want;
}

bool tp_vmap_pointwise(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    int rank = 0;
    (void)size;
    if (op->variant == TP_INPLACE && !(batched & 1))
        return tp_vmap_refuse_write(op);
    tp_dtype type = type_of_members(op, arg, batched);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR)
            rank = (int)tp_int_max(rank, logical_rank(arg[i], batched >> i & 1));
    for (int i = 0; i < op->arg_count; i++) {
        if (!(batched >> i & 1) || op->arg[i].written)
            continue;
        changed[i] = arg[i];
        if (type != TP_DTYPE_NONE && (op->pointwise->promoting >> i & 1) && logical_rank(arg[i], true) == 0)
            changed[i] = tp_of_tensor(tp_scope_to_dtype(&s, tp_as_tensor(arg[i]), type));
        changed[i] = tp_vmap_raised(&s, changed[i], rank);
    }
    return keep_all(&s, op, tp_scope_call_all(&s, op, changed), result);
}

/* ---- dims that move by one ---- */

static tp_value moved(tp_scope *s, const tp_arg *a, tp_value v, int rank)
{
    if (!a->list && v.tag != TP_NONE && v.tag != TP_LIST)
        return tp_int(tp_wrap(tp_as_int(v), rank, &s->failed) + 1);
    tp_ints dims;
    tp_ints_read(&dims, v, 0, &s->failed);
    for (int i = 0; i < dims.count; i++)
        dims.item[i] = tp_wrap(dims.item[i], rank, &s->failed) + 1;
    for (int i = 0; dims.count == 0 && i < rank; i++)
        dims.item[i] = i + 1;
    if (tp_length(v) == 0 && v.tag != TP_INT)
        dims.count = rank;
    return tp_scope_ints(s, &dims);
}

/* The member's rank: of a list, that of its first tensor. */
static int rank_of_first(tp_value v)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (v.list->item[i].tag == TP_TENSOR)
            return logical_rank(v.list->item[i], true);
    return v.tag == TP_TENSOR ? logical_rank(v, true) : 0;
}

/* One dim that is absent and means all: the members are flattened, and it is theirs. False: not without keeping dims. */
static bool flattened(tp_scope *s, const tp_op *op, tp_value *arg, int dim, tp_sym size)
{
    int keepdim = tp_op_arg_index(op, "keepdim");
    if (op->kind != TP_LIKE_REDUCTION || (keepdim >= 0 && tp_as_bool(arg[keepdim])))
        return false;
    tp_syms want = { .count = 0 };
    tp_syms_add(&want, size);
    tp_syms_add(&want, tp_sym_int(-1));
    arg[0] = tp_scope_call(s, &tp_op_reshape, (tp_value[]){ arg[0], tp_scope_syms(s, &want) });
    arg[dim] = tp_int(1);
    return true;
}

bool tp_vmap_shift(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result, uint64_t dims)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    int rank = rank_of_first(arg[0]);
    if (batched != 1 || rank == 0)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++) {
        if (!(dims >> i & 1))
            continue;
        if (op->arg[i].list || arg[i].tag != TP_NONE) {
            changed[i] = moved(&s, &op->arg[i], arg[i], rank);
        } else if (is_empty(size) || !flattened(&s, op, changed, i, size)) {
            (void)tp_scope_end(&s);
            return tp_vmap_loop(op, arg, batched, size, result);
        }
    }
    return keep_all(&s, op, tp_scope_call_all(&s, op, changed), result);
}

tp_value tp_vmap_expanded(tp_scope *s, tp_value v, tp_sym size)
{
    if (v.tag != TP_TENSOR)
        return v;
    tp_syms want = { .count = 0 }, have = tp_syms_sizes(v.tensor);
    tp_syms_add(&want, size);
    tp_syms_join(&want, &have);
    return tp_scope_call(s, &tp_op_expand, (tp_value[]){ v, tp_scope_syms(s, &want), tp_bool(false) });
}

bool tp_vmap_align(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result, uint64_t dims)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    int rank = -1;
    bool same = true;               /* all members have one rank, and dims to name */
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR) {
            int r = logical_rank(arg[i], batched >> i & 1);
            same &= (r > 0 || !dims) && (rank < 0 || r == rank) && ((batched >> i & 1) || !op->arg[i].written);
            rank = r;
        } else if (arg[i].tag == TP_FORMAT_VALUE) {
            same &= arg[i].i < TP_FORMAT_CHANNELS_LAST;         /* which counts dims */
        }
    if (!same)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++)
        if (dims >> i & 1)
            changed[i] = moved(&s, &op->arg[i], arg[i], rank);
        else if (!(batched >> i & 1))
            changed[i] = tp_vmap_expanded(&s, arg[i], size);
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

static tp_value split_off(tp_scope *s, tp_value v, tp_sym size)
{
    const tp_tensor *t = tp_as_tensor(v);
    if (!t || t->ndim == 0)
        return v;
    tp_syms have = tp_syms_sizes(t), want;
    want.count = 0;
    tp_syms_add(&want, size);
    tp_syms_add(&want, tp_sym_floordiv(have.item[0], size));
    for (int i = 1; i < have.count; i++)
        tp_syms_add(&want, have.item[i]);
    return tp_scope_call(s, &tp_op_reshape, (tp_value[]){ v, tp_scope_syms(s, &want) });
}

bool tp_vmap_fold(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result, uint64_t folded)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    bool fits = !(batched & ~folded) && !is_empty(size) && op->variant == TP_FUNCTIONAL;
    for (int i = 0; i < op->arg_count; i++)
        if ((folded >> i & 1) && arg[i].tag == TP_TENSOR)
            fits &= logical_rank(arg[i], batched >> i & 1) > 0;
    if (!fits)
        return tp_vmap_loop(op, arg, batched, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++) {
        if (!(folded >> i & 1))
            continue;
        if (arg[i].tag == TP_TENSOR) {
            changed[i] = merged(&s, batched >> i & 1 ? arg[i] : tp_vmap_expanded(&s, arg[i], size));
        } else if (tp_length(arg[i])) {                     /* sizes of a folded tensor */
            tp_syms sizes = tp_syms_read(arg[i], 0, &s.failed);
            sizes.item[0] = tp_sym_mul(sizes.item[0], size);
            changed[i] = tp_scope_syms(&s, &sizes);
        }
    }
    tp_value all = tp_scope_call_all(&s, op, changed);
    for (int i = 0; i < op->result_count && !s.failed; i++)
        tp_scope_keep(&s, &result[i], split_off(&s, all.list->item[i], size));
    return tp_scope_end(&s);
}

/* ---- one by one ---- */

static tp_value member(tp_scope *s, tp_value v, int64_t k)
{
    if (v.tag == TP_TENSOR)
        return tp_scope_call(s, &tp_op_select_int, (tp_value[]){ v, tp_int(0), tp_int(k) });
    if (v.tag != TP_LIST)
        return v;
    tp_values all = { 0 };
    for (uint32_t i = 0; i < v.list->count; i++)
        tp_values_add(s, &all, member(s, v.list->item[i], k));
    return tp_scope_values(s, &all);
}

/* `made` has a result for each member: tensors stacked, lists item by item. */
static tp_value stacked(tp_scope *s, const tp_op *op, tp_value made)
{
    char name[128];
    tp_value first = tp_length(made) ? made.list->item[0] : tp_none();
    if (s->failed || first.tag == TP_NONE)
        return first;
    if (first.tag == TP_TENSOR)
        return tp_scope_call(s, &tp_op_stack, (tp_value[]){ made, tp_int(0) });
    if (first.tag != TP_LIST) {
        s->failed = true;
        (void)tp_fail(TP_ERR_RUNTIME, "Batching rule not implemented for %s. We could not generate a fallback.", tp_op_full_name(op, name));
        return tp_none();
    }
    tp_values all = { 0 };
    for (uint32_t i = 0; i < first.list->count; i++) {
        tp_values item = { 0 };
        for (uint32_t k = 0; k < made.list->count; k++)
            tp_values_add(s, &item, i < tp_length(made.list->item[k]) ? made.list->item[k].list->item[i] : tp_none());
        tp_values_add(s, &all, stacked(s, op, tp_scope_values(s, &item)));
    }
    return tp_scope_values(s, &all);
}

/* What an in-place op gives back is what it was given. */
static bool keep_written(tp_scope *s, const tp_op *op, const tp_value *arg, tp_value *result)
{
    for (int i = 0; i < op->result_count; i++)
        for (int k = 0; k < op->arg_count; k++)
            if (op->arg[k].written && op->arg[k].alias == op->result[i].alias)
                tp_scope_keep(s, &result[i], arg[k]);
    return tp_scope_end(s);
}

bool tp_vmap_loop(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    tp_values made[MOST_RESULTS] = { { 0 } };
    char name[128];
    if (op->variant == TP_OUT)
        return tp_fail(TP_ERR_RUNTIME, "Batching rule not implemented for %s; the fallback path doesn't work on out= or view ops.",
                       tp_op_full_name(op, name));
    if (is_empty(size))
        return tp_fail(TP_ERR_RUNTIME, "Batching rule not implemented for %s. The fallback path does not support vmap over dims of size 0.",
                       tp_op_full_name(op, name));
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    int64_t count = tp_sym_fixed(size, &s.failed);
    for (int64_t k = 0; k < count && !s.failed; k++) {
        for (int i = 0; i < op->arg_count; i++)
            if (batched >> i & 1)
                changed[i] = member(&s, arg[i], k);
        tp_value all = tp_scope_call_all(&s, op, changed);
        for (int i = 0; op->variant == TP_FUNCTIONAL && i < op->result_count && !s.failed; i++)
            tp_values_add(&s, &made[i], all.list->item[i]);
    }
    if (op->variant == TP_INPLACE)
        return keep_written(&s, op, arg, result);
    for (int i = 0; i < op->result_count; i++)
        tp_scope_keep(&s, &result[i], stacked(&s, op, tp_scope_values(&s, &made[i])));
    return tp_scope_end(&s);
}

bool tp_vmap_dynamic(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    char name[128];
    (void)arg, (void)batched, (void)size, (void)result;
    return tp_fail(TP_ERR_RUNTIME, "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over %s. "
                   "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature.", tp_op_full_name(op, name));
}

/* ---- random numbers ---- */

/* No tensor says how many numbers there are: a list of sizes does, or the op is called for each member. */
static bool random_factory(const tp_op *op, const tp_value *arg, tp_sym size, tp_value *result)
{
    int sizes = tp_op_arg_index(op, "size");
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    if (sizes < 0)
        return tp_vmap_loop(op, arg, 0, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    tp_syms want = { .count = 0 }, have = tp_syms_read(arg[sizes], 0, &s.failed);
    tp_syms_add(&want, size);
    tp_syms_join(&want, &have);
    changed[sizes] = tp_scope_syms(&s, &want);
    return keep_all(&s, op, tp_scope_call_all(&s, op, changed), result);
}

bool tp_vmap_random(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    int rank = 0;
    bool tensors = false;
    if (op->variant == TP_INPLACE && batched && !(batched & 1))
        return tp_vmap_refuse_write(op);
    if (op->variant == TP_INPLACE && !batched)
        return tp_fail(TP_ERR_RUNTIME, "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. "
                       "If this is necessary for your usage, please file an issue with functorch.");
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR) {
            rank = (int)tp_int_max(rank, logical_rank(arg[i], batched >> i & 1));
            tensors = true;
        }
    if (!tensors)
        return random_factory(op, arg, size, result);
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR && !op->arg[i].written)
            changed[i] = tp_vmap_raised(&s, batched >> i & 1 ? arg[i] : tp_vmap_expanded(&s, arg[i], size), rank);
    return keep_all(&s, op, tp_scope_call_all(&s, op, changed), result);
}

bool tp_vmap_draw(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    return tp_vmap_random(op, arg, batched, size, result);
}

bool tp_vmap_random_same(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
{
    tp_scope s;
    tp_value changed[MOST_ARGUMENTS];
    bool fills = op->variant == TP_INPLACE && op->kind == TP_LIKE_RANDOM;
    if (batched != 1 || (!fills && op->vmap != tp_vmap_draw) || is_empty(size))
        return tp_fail(TP_ERR_RUNTIME, "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch");
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    changed[0] = member(&s, arg[0], 0);
    if (fills)
        changed[0] = tp_rule_call(&s, &tp_op_empty_like, 1, changed);
    tp_value all = tp_scope_call_all(&s, op, changed);
    if (!fills)
        return keep_all(&s, op, all, result);
    (void)tp_scope_call(&s, &tp_op_copy_, (tp_value[]){ arg[0], changed[0], tp_bool(false) });
    return keep_written(&s, op, arg, result);
}
