/* embedding_bag.c - which op an embedding_bag call is, and what its arguments must be, in PyTorch's words. */
#include "base/alloc.h"
#include "ops/copy.h"
#include "ops/rules/rules.h"

#define IN_BAG " (while checking arguments for embedding_bag)"

static bool check_index(const char *name, const tp_tensor *t)
{
    if (t->dtype == TP_i64 || t->dtype == TP_i32)
        return true;
    return tp_fail(TP_ERR_RUNTIME, "Expected tensor for argument #1 '%s' to have one of the following scalar types: Long, Int; but got torch.%sTensor instead" IN_BAG,
                   name, tp_dtypes[t->dtype].title);
}

static bool check_offsets(const tp_tensor *offsets, int64_t count, bool last)
{
    if (offsets->storage->kind == TP_MEMORY_NONE || !offsets->numel)
        return offsets->numel || !last || tp_fail(TP_ERR_RUNTIME, "include_last_offset: number of offsets should be at least 1");
    tp_tensor *wide = tp_cast(offsets, TP_i64), *dense = wide ? tp_contiguous(wide) : NULL;
    tp_tensor_unref(wide);
    if (!dense)
        return false;
    const int64_t *at = tp_tensor_data(dense);
    bool ok = true;
    if (at[0])
        ok = tp_fail(TP_ERR_RUNTIME, "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got %lld", LL(at[0])) != NULL;
    else if (at[dense->numel - 1] > count)
        ok = tp_fail(TP_ERR_RUNTIME, "offsets[-1] can not be greater than input's length %lld but got offsets[-1] of %lld", LL(count), LL(at[dense->numel - 1])) != NULL;
    tp_tensor_unref(dense);
    return ok;
}

/* _embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx) */
TP_HOOK_C(tp_c_embedding_bag)
{
    const tp_tensor *weight = arg[0].tensor, *indices = arg[1].tensor, *offsets = arg[2].tensor, *given = tp_as_tensor(arg[6]);
    int64_t mode = tp_as_int(arg[4]);
    if (weight->ndim != 2)
        return tp_fail(TP_ERR_RUNTIME, "weight has to be a 2D Tensor, but got Tensor of dimension %d", weight->ndim);
    if (!check_index("indices", indices) || !check_index("offsets", offsets))
        return false;
    if (mode < 0 || mode > 2)
        return tp_fail(TP_ERR_RUNTIME, "`mode` must be sum, mean, or max.");
    if (!tp_dtype_is_float((tp_dtype)weight->dtype)) {      /* PyTorch has legacy names for integers alone */
        bool plain = weight->dtype == TP_b8 || tp_dtype_is_complex((tp_dtype)weight->dtype);
        return tp_fail(TP_ERR_RUNTIME, "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got %s%s%s instead" IN_BAG,
                       plain ? "CPU" : "torch.", tp_dtypes[weight->dtype].title, plain ? "Type" : "Tensor");
    }
    if (offsets->ndim != 1)
        return tp_fail(TP_ERR_RUNTIME, "offsets has to be a 1D Tensor, but got Tensor of dimension %d", offsets->ndim);
    if (!check_offsets(offsets, indices->numel, tp_as_bool(arg[7])))
        return false;
    if (given && mode != 0)
        return tp_fail(TP_ERR_RUNTIME, "embedding_bag: per_sample_weights only supported with mode='sum'");
    if (given && given->dtype != weight->dtype)
        return tp_fail(TP_ERR_RUNTIME, "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type torch.%sTensor does not equal torch.%sTensor" IN_BAG,
                       tp_dtypes[weight->dtype].title, tp_dtypes[given->dtype].title);
    if (given && (given->ndim != 1 || given->numel != indices->numel))
        return tp_fail(TP_ERR_RUNTIME, "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)");
    return true;
}

/* (grad, indices, offset2bag, bag_size, maximum_indices, mode, per_sample_weights): the kernel reads one element for each index or bag. */
TP_HOOK_C(tp_c_embedding_bag_backward)
{
    const tp_tensor *grad = arg[0].tensor, *indices = arg[1].tensor, *given = tp_as_tensor(arg[6]);
    int64_t mode = tp_as_int(arg[5]), bags = grad->size[0];
    bool enough = arg[3].tensor->numel >= bags && (mode != 2 || arg[4].tensor->numel >= grad->numel) && (mode == 2 || arg[2].tensor->numel >= indices->numel) &&
                  (!given || given->numel >= indices->numel) && mode >= 0 && mode <= 2;
    return enough || tp_fail(TP_ERR_INDEX, "index out of range in self");
}

/* embedding_bag(weight, …[, padding_idx]): what the gradient needs is kept where one is wanted. */
TP_HOOK_D(tp_d_embedding_bag)
{
    tp_scope s = { 0 };
    const tp_tensor *weight = arg[0].tensor, *given = tp_as_tensor(arg[6]);
    int64_t rows = weight->ndim ? weight->size[0] : 0, padding = -1;
    tp_value full[9];
    memcpy(full, arg, 8 * sizeof *arg);
    if (op->arg_count == 9 && arg[8].tag != TP_NONE) {
        padding = tp_as_int(arg[8]);
        if (padding < -rows || padding >= rows)
            return tp_fail(TP_ERR_RUNTIME, "padding_idx must be within the number of embeddings, %lld through %lld, but got %lld", LL(-rows), LL(rows - 1), LL(padding));
        padding += padding < 0 ? rows : 0;
    }
    full[8] = tp_int(padding);
    bool keeps = tp_wants_gradient(weight) || (given && tp_wants_gradient(given));
    tp_value all = tp_scope_call_all(&s, keeps ? &tp_op__embedding_bag : &tp_op__embedding_bag_forward_only, full);
    for (uint32_t i = 0; !s.failed && i < 4; i++)
        tp_scope_keep(&s, &result[i], all.list->item[i]);
    return tp_scope_end(&s);
}
