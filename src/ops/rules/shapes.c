/* shapes.c - joining, splitting and spreading where the entry's formula is not enough: numbers read from tensors, blocks, masks. */
#include "ops/rules/rules.h"

/* ---- lists ---- */

/* (tensors): the shape all of them broadcast to. */
TP_HOOK_S(tp_s_broadcast_all)
{
    bool bad = false;
    out->count = 0;
    for (uint32_t i = 0; i < tp_length(arg[0]) && !bad; i++) {
        tp_syms one = tp_syms_sizes(arg[0].list->item[i].tensor);
        *out = tp_syms_broadcast(out, &one, &bad);
    }
    return !bad;
}

/* (tensors) */
TP_HOOK_C(tp_c_vectors)
{
    for (uint32_t i = 0; i < tp_length(arg[0]); i++) {
        tp_syms s = tp_syms_sizes(arg[0].list->item[i].tensor);
        if (s.count != 1)
            return tp_fail_with(TP_ERR_RUNTIME, "Expect a 1D vector, but got shape {}", 1, (tp_value[]){ tp_value_of_syms(&s) });
    }
    return true;
}

/* (self, dims): dims of self, none of them twice. */
TP_HOOK_C(tp_c_dims)
{
    int64_t dim[TP_MAX_DIMS];
    int count = tp_as_ints(arg[1], dim, TP_MAX_DIMS, 0);
    bool bad = count < 0;
    (void)tp_wrap_all(dim, count, arg[0].tensor->ndim, &bad);
    return !bad;
}

TP_HOOK_C(tp_c_block_diag)
{
    for (uint32_t i = 0; i < tp_length(arg[0]); i++)
        if (arg[0].list->item[i].tensor->ndim > 2)
            return tp_fail(TP_ERR_RUNTIME, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %u has %d dimensions", i,
                           arg[0].list->item[i].tensor->ndim);
    return true;
}

/* Inside a transform nothing may be written that is not of its level: rows of blocks, padded and put below each other. */
static tp_value padded_blocks(tp_scope *scope, const tp_list *l, tp_sym columns)
{
    tp_values rows = { 0 };
    tp_sym left = tp_sym_int(0);
    for (uint32_t i = 0; i < l->count && !scope->failed; i++) {
        const tp_tensor *t = l->item[i].tensor;
        tp_sym width = t->ndim ? tp_tensor_sym_size(t, t->ndim - 1) : tp_sym_int(1), next = tp_sym_add(left, width);
        tp_value pads[2] = { tp_of_sym(left), tp_of_sym(tp_sym_sub(columns, next)) }, block = l->item[i];
        for (int d = t->ndim; d < 2; d++)
            block = RUN(unsqueeze, block, tp_int(0));
        tp_values_add(scope, &rows, RUN(constant_pad_nd, block, tp_scope_list(scope, 2, pads), tp_int(0)));
        left = next;
    }
    tp_value all = tp_scope_values(scope, &rows);
    return RUN(cat, all);
}

/* (tensors): zeros, each tensor written into its block. */
TP_HOOK_D(tp_d_block_diag)
{
    tp_scope s = { 0 };
    const tp_list *l = arg[0].list;
    tp_sym row = tp_sym_int(0), column = tp_sym_int(0);
    tp_common common = TP_COMMON_START;
    (void)op;
    tp_common_add_list(&common, arg[0]);
    for (uint32_t i = 0; i < l->count; i++) {
        const tp_tensor *t = l->item[i].tensor;
        row = tp_sym_add(row, t->ndim == 2 ? tp_tensor_sym_size(t, 0) : tp_sym_int(1));
        column = tp_sym_add(column, t->ndim ? tp_tensor_sym_size(t, t->ndim - 1) : tp_sym_int(1));
    }
    for (uint32_t i = 0; i < l->count; i++)
        if (l->item[i].tensor->keys & TP_LAYER_BIT(TP_LAYER_TRANSFORM))
            return tp_rule_done(&s, padded_blocks(&s, l, column), result);
    tp_value size[2] = { tp_of_sym(l->count ? row : tp_sym_int(1)), tp_of_sym(column) };
    tp_value whole = CALL(zeros, tp_scope_list(&s, 2, size), tp_of_dtype(l->count ? tp_common_dtype(&common) : (tp_dtype)tp_the_runtime.default_dtype));
    row = column = tp_sym_int(0);
    for (uint32_t i = 0; i < l->count && !s.failed; i++) {
        const tp_tensor *t = l->item[i].tensor;
        tp_sym below = tp_sym_add(row, t->ndim == 2 ? tp_tensor_sym_size(t, 0) : tp_sym_int(1));
        tp_sym right = tp_sym_add(column, t->ndim ? tp_tensor_sym_size(t, t->ndim - 1) : tp_sym_int(1));
        tp_value part = CALL(slice_Tensor, whole, tp_int(0), tp_of_sym(row), tp_of_sym(below));
        part = CALL(slice_Tensor, part, tp_int(1), tp_of_sym(column), tp_of_sym(right));
        (void)CALL(copy_, part, l->item[i]);
        row = below;
        column = right;
    }
    return tp_rule_done(&s, whole, result);
}

/* ---- _chunk_cat(tensors, dim, num_chunks) ---- */
TP_HOOK_C(tp_c_chunk_cat)
{
    const tp_list *l = arg[0].list;
    const tp_tensor *first = l->item[0].tensor;
    bool bad = false;
    int64_t dim = tp_wrap(tp_as_int(arg[1]), first->ndim, &bad);
    for (uint32_t i = 0; i < l->count && !bad; i++) {
        const tp_tensor *t = l->item[i].tensor;
        if (t->ndim <= dim)
            return tp_fail(TP_ERR_RUNTIME, "_chunk_cat expects dim < ndim for all tensors");
        for (int k = 0; k < dim && !bad; k++)
            if (!tp_guard(tp_sym_eq(tp_tensor_sym_size(t, k), tp_tensor_sym_size(first, k)), &bad) && !bad)
                return tp_fail(TP_ERR_RUNTIME, "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors");
    }
    return !bad;
}

/* Each tensor is cut into equal chunks along dim, the last ones filled with zeros; chunks of one number lie side by side. */
TP_HOOK_D(tp_d_chunk_cat)
{
    tp_scope s = { 0 };
    const tp_list *l = arg[0].list;
    int64_t chunks = tp_as_int(arg[2]), dim = tp_wrap(tp_as_int(arg[1]), l->item[0].tensor->ndim, &s.failed);
    tp_values rows = { 0 };
    (void)op;
    for (uint32_t i = 0; i < l->count && !s.failed; i++) {
        tp_value x = l->item[i];
        tp_syms size = tp_syms_sizes(x.tensor);
        int64_t n = tp_sym_fixed(size.item[dim], &s.failed), missing = (chunks - n % chunks) % chunks;
        if (missing) {
            size.item[dim] = tp_sym_int(missing);
            tp_value both[2] = { x, CALL(new_zeros, x, tp_scope_syms(&s, &size)) };
            x = CALL(cat, tp_scope_list(&s, 2, both), tp_int(dim));
        }
        size.item[dim] = tp_sym_int(chunks);
        size.count = (int)dim + 1;
        tp_syms_add(&size, tp_sym_int(-1));
        tp_values_add(&s, &rows, CALL(reshape, x, tp_scope_syms(&s, &size)));
    }
    return tp_rule_done(&s, CALL(cat, tp_scope_values(&s, &rows), tp_int(dim + 1)), result);
}

/* ---- numbers that come as tensors ---- */

/* The elements of a tensor of integers, read as a program reads them: by item. */
static tp_value read_number(tp_scope *scope, tp_value t)
{
    return tp_rule_call(scope, &tp_op_item, 1, &t);
}

/* (self, tensor_indices_or_sections, dim) */
TP_HOOK_D(tp_d_tensor_split)
{
    tp_scope s = { 0 };
    const tp_tensor *t = arg[1].tensor;
    (void)op;
    if (t->ndim == 0)
        return tp_rule_done(&s, CALL(tensor_split_sections, arg[0], read_number(&s, arg[1]), arg[2]), result);
    tp_values at = { 0 };
    int64_t count = tp_sym_fixed(tp_tensor_sym_size(t, 0), &s.failed);
    for (int64_t i = 0; i < count && !s.failed; i++)
        tp_values_add(&s, &at, read_number(&s, CALL(select_int, arg[1], tp_int(0), tp_int(i))));
    tp_value list = tp_scope_values(&s, &at);
    return tp_rule_done(&s, CALL(tensor_split_indices, arg[0], list, arg[2]), result);
}

/* (self, dim, start, length) */
TP_HOOK_D(tp_d_narrow_tensor)
{
    tp_scope s = { 0 };
    (void)op;
    return tp_rule_done(&s, CALL(narrow, arg[0], arg[1], read_number(&s, arg[2]), arg[3]), result);
}

/* (self, r, with_replacement): of all r-tuples those whose positions rise. */
TP_HOOK_D(tp_d_combinations)
{
    tp_scope s = { 0 };
    if (tp_as_int(arg[1]) > TP_MAX_DIMS)            /* each takes a dim of the grid */
        return tp_fail(TP_ERR_RUNTIME, "combinations of more than %d elements are not supported, got %lld", TP_MAX_DIMS, LL(tp_as_int(arg[1])));
    uint32_t r = (uint32_t)tp_as_int(arg[1]);
    bool repeats = tp_as_bool(arg[2]);
    tp_values grid = { 0 }, places = { 0 }, chosen = { 0 };
    tp_value size = CALL(sym_size_int, arg[0], tp_int(0));
    (void)op;
    for (uint32_t i = 0; i < r; i++)
        tp_values_add(&s, &grid, arg[0]);
    tp_value values = CALL(meshgrid, tp_scope_values(&s, &grid));
    tp_value position = CALL(arange, size, tp_of_dtype(TP_i64));
    for (uint32_t i = 0; i < r; i++)
        tp_values_add(&s, &places, position);
    tp_value at = CALL(meshgrid, tp_scope_values(&s, &places));
    tp_values sizes = { 0 };
    for (uint32_t i = 0; i < r; i++)
        tp_values_add(&s, &sizes, size);
    tp_value mask = CALL(full, tp_scope_values(&s, &sizes), tp_bool(true), tp_of_dtype(TP_b8));
    for (uint32_t i = 0; i + 1 < r && !s.failed; i++) {
        tp_value a = at.list->item[i], b = at.list->item[i + 1];
        mask = CALL(mul__Tensor, mask, repeats ? CALL(le_Tensor, a, b) : CALL(lt_Tensor, a, b));
    }
    for (uint32_t i = 0; i < r && !s.failed; i++)
        tp_values_add(&s, &chosen, CALL(masked_select, values.list->item[i], mask));
    return tp_rule_done(&s, CALL(stack, tp_scope_values(&s, &chosen), tp_int(1)), result);
}

/* ---- strides of any kind ---- */

/* (g, geometry of self, size, stride, storage_offset): what PyTorch gives, which is the gradient where src was written and zeros
 * elsewhere. */
TP_HOOK_D(tp_d_as_strided_scatter_backward)
{
    tp_scope s = { 0 };
    tp_value sizes = arg[1].list->item[0], strides = arg[1].list->item[1];
    (void)op;
    tp_value part = CALL(as_strided, arg[0], arg[2], arg[3], arg[4]), flat = CALL(new_zeros, arg[0], sizes);
    tp_value whole = CALL(as_strided, flat, sizes, strides), place = CALL(as_strided, flat, arg[2], arg[3], arg[4]);
    (void)CALL(copy_, place, part);
    return tp_rule_done(&s, whole, result);
}
