/* views.c - views whose rule or gradient is no expression: lists of pieces, orders of dims, overlapping strides. */
#include "ops/copy.h"
#include "ops/rules/rules.h"

static bool wraps(int64_t *dim, int64_t n)
{
    bool bad = false;
    *dim = tp_wrap(*dim, n, &bad);
    return !bad;
}

/* ---- orders of dims ---- */

/* arg: dims. The order that undoes it. */
TP_HOOK_S(tp_s_inverse_order)
{
    int64_t dim[TP_MAX_DIMS];
    int n = tp_as_ints(arg[0], dim, TP_MAX_DIMS, 0);
    if (n < 0)
        return false;
    out->count = n;
    for (int i = 0; i < n; i++) {
        if (!wraps(&dim[i], n))
            return false;
        out->item[dim[i]] = tp_sym_int(i);
    }
    return true;
}

TP_HOOK_D(tp_d_movedim)
{
    tp_tensor *self = arg[0].tensor;
    int64_t from[TP_MAX_DIMS], to[TP_MAX_DIMS];
    int n = tp_as_ints(arg[1], from, TP_MAX_DIMS, 0), m = tp_as_ints(arg[2], to, TP_MAX_DIMS, 0), ndim = self->ndim;
    tp_value order[TP_MAX_DIMS];
    bool moved[TP_MAX_DIMS] = { 0 }, filled[TP_MAX_DIMS] = { 0 };
    (void)op;
    if (n < 0 || m < 0)
        return false;
    if (n != m)
        return tp_fail_with(TP_ERR_RUNTIME, "movedim: Invalid source or destination dims: source ({} dims) should contain the same number "
                            "of dims as destination ({} dims)", 2, (tp_value[]){ tp_value_ref(arg[1]), tp_value_ref(arg[2]) });
    for (int i = 0; i < n; i++) {
        if (!wraps(&from[i], ndim) || !wraps(&to[i], ndim))
            return false;
        if (moved[from[i]] || filled[to[i]])
            return tp_fail(TP_ERR_RUNTIME, "movedim: repeated dim in `%s`", moved[from[i]] ? "source" : "destination");
        moved[from[i]] = filled[to[i]] = true;
        order[to[i]] = tp_int(from[i]);
    }
    for (int i = 0, next = 0; i < ndim; i++) {
        if (filled[i])
            continue;
        while (moved[next])
            next++;
        order[i] = tp_int(next++);
    }
    tp_scope s = { 0 };
    return tp_rule_done(&s, CALL(permute, arg[0], tp_scope_list(&s, (uint32_t)ndim, order)), result);
}

/* ---- dims that a squeeze or a reduction took away ---- */

static tp_value unsqueezed(tp_scope *scope, tp_value g, uint64_t mask)
{
    for (; mask && !scope->failed; mask &= mask - 1)
        g = tp_rule_call(scope, &tp_op_unsqueeze, 2, (tp_value[]){ g, tp_int(__builtin_ctzll(mask)) });
    return g;
}

static bool mask_of(tp_value dims, int64_t ndim, uint64_t *mask)
{
    int64_t dim[TP_MAX_DIMS];
    int n = tp_as_ints(dims, dim, TP_MAX_DIMS, 0);
    *mask = 0;
    for (int i = 0; i < n; i++) {
        if (!wraps(&dim[i], ndim))
            return false;
        *mask |= (uint64_t)1 << dim[i];
    }
    return n >= 0;
}

/* arg: g, dims, ndim. */
TP_HOOK_D(tp_d_unsqueeze_dims)
{
    tp_scope s = { 0 };
    uint64_t mask;
    (void)op;
    return mask_of(arg[1], tp_as_int(arg[2]), &mask) && tp_rule_done(&s, unsqueezed(&s, arg[0], mask), result);
}

static uint64_t ones_of(tp_value sizes)
{
    uint64_t mask = 0;
    for (uint32_t i = 0; i < tp_length(sizes); i++)
        if (sizes.list->item[i].tag == TP_INT && sizes.list->item[i].i == 1)
            mask |= (uint64_t)1 << i;
    return mask;
}

/* arg: g, sizes. */
TP_HOOK_D(tp_d_unsqueeze_to)
{
    tp_scope s = { 0 };
    (void)op;
    return tp_rule_done(&s, unsqueezed(&s, arg[0], ones_of(arg[1])), result);
}

/* arg: g, dims, sizes: those of the dims that had size one. */
TP_HOOK_D(tp_d_unsqueeze_dims_if)
{
    tp_scope s = { 0 };
    uint64_t mask;
    (void)op;
    return mask_of(arg[1], tp_length(arg[2]), &mask) && tp_rule_done(&s, unsqueezed(&s, arg[0], mask & ones_of(arg[2])), result);
}

/* ---- gradients of lists of views: missing ones are zeros, all are joined ---- */

static const tp_tensor *first_defined(tp_value list)
{
    for (uint32_t i = 0; i < tp_length(list); i++)
        if (list.list->item[i].tag == TP_TENSOR)
            return list.list->item[i].tensor;
    return NULL;
}

static tp_value zeros_like_piece(tp_scope *scope, const tp_tensor *like, uint32_t n, const tp_value *size)
{
    return tp_rule_call(scope, &tp_op_zeros, 4, (tp_value[]){ tp_scope_list(scope, n, size), tp_of_dtype((tp_dtype)like->dtype),
                                                              (tp_value){ .tag = TP_LAYOUT }, tp_of_device(like->device) });
}

/* Joins pieces whose sizes along `dim` are given; `sizes` are those of the whole. */
static bool joined(tp_value pieces, const tp_value *length, int64_t dim, tp_value sizes, tp_value *result)
{
    tp_scope s = { 0 };
    const tp_tensor *like = first_defined(pieces);
    uint32_t count = tp_length(pieces), n = tp_length(sizes);
    tp_value size[TP_MAX_DIMS];
    if (!like || !wraps(&dim, n))
        return like ? false : (result[0] = tp_none(), true);
    tp_list *all = tp_list_new(count);
    if (!all)
        return false;
    for (uint32_t i = 0; i < n; i++)
        size[i] = sizes.list->item[i];
    for (uint32_t i = 0; i < count; i++) {
        size[dim] = length[i];
        tp_value g = pieces.list->item[i];
        all->item[i] = tp_value_ref(g.tag == TP_TENSOR ? g : zeros_like_piece(&s, like, n, size));
    }
    return tp_rule_done(&s, CALL(cat, tp_scope_own(&s, tp_of_list(all)), tp_int(dim)), result);
}

/* arg: g (a list), split_size, dim, sizes. */
TP_HOOK_D(tp_d_split_backward)
{
    uint32_t count = tp_length(arg[0]);
    int64_t dim = tp_as_int(arg[2]);
    (void)op;
    if (!wraps(&dim, tp_length(arg[3])))
        return false;
    tp_sym step = tp_sym_read(arg[1]), whole = tp_sym_read(arg[3].list->item[dim]);
    tp_list *length = tp_list_new(count);
    if (!length)
        return false;
    for (uint32_t i = 0; i < count; i++)
        length->item[i] = tp_of_sym(i + 1 < count ? step : tp_sym_sub(whole, tp_sym_mul(step, tp_sym_int(i))));
    bool ok = joined(arg[0], length->item, dim, arg[3], result);
    tp_value_unref(tp_of_list(length));
    return ok;
}

/* arg: g (a list), split_sizes, dim, sizes. */
TP_HOOK_D(tp_d_split_sizes_backward)
{
    (void)op;
    return joined(arg[0], arg[1].list->item, tp_as_int(arg[2]), arg[3], result);
}

/* arg: g (a list), dim, sizes. */
TP_HOOK_D(tp_d_unbind_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *like = first_defined(arg[0]);
    int64_t dim = tp_as_int(arg[1]);
    uint32_t count = tp_length(arg[0]), n = tp_length(arg[2]), left = 0;
    tp_value size[TP_MAX_DIMS];
    (void)op;
    if (!like || !wraps(&dim, n))
        return like ? false : (result[0] = tp_none(), true);
    for (uint32_t i = 0; i < n; i++)
        if (i != dim)
            size[left++] = arg[2].list->item[i];
    tp_list *all = tp_list_new(count);
    if (!all)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        tp_value g = arg[0].list->item[i];
        if (g.tag != TP_TENSOR) {
            tp_value zero = zeros_like_piece(&s, like, 0, NULL);
            g = CALL(expand, zero, tp_scope_list(&s, left, size));
        }
        all->item[i] = tp_value_ref(g);
    }
    return tp_rule_done(&s, CALL(stack, tp_scope_own(&s, tp_of_list(all)), tp_int(dim)), result);
}

/* ---- strides of any kind ---- */

static int64_t reach(tp_value size, tp_value stride)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < tp_length(size); i++) {
        if (tp_as_int(size.list->item[i]) == 0)
            return 0;
        last += (tp_as_int(size.list->item[i]) - 1) * tp_as_int(stride.list->item[i]);
    }
    return last + 1;
}

/* Does some element of these strides stand twice? Sorted by stride, each must step over all that lies inside. */
static bool may_overlap(tp_value size, tp_value stride)
{
    uint32_t n = tp_length(size);
    int order[TP_MAX_DIMS];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = i;
        for (; j > 0 && tp_as_int(stride.list->item[order[j - 1]]) > tp_as_int(stride.list->item[i]); j--)
            order[j] = order[j - 1];
        order[j] = (int)i;
    }
    int64_t inside = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t count = tp_as_int(size.list->item[order[i]]), step = tp_as_int(stride.list->item[order[i]]);
        if (count < 2)
            continue;
        if (step <= inside)
            return true;
        inside += (count - 1) * step;
    }
    return false;
}

/* The place in a flat buffer of each element of a view of it, in order. */
static tp_value places(tp_scope *scope, int64_t flat, tp_value size, tp_value stride, int64_t offset)
{
    tp_value all = tp_int(-1), index = RUN(arange_start_step, tp_int(0), tp_int(flat), tp_int(1), tp_of_dtype(TP_i64));
    return RUN(reshape, RUN(as_strided, index, size, stride, tp_int(offset)), tp_scope_list(scope, 1, &all));
}

/* arg: g, geometry [sizes, strides, offset] of the input, size, stride, storage_offset. The gradient is laid out in a flat
 * buffer as the storage was: written (or added, where elements stand twice) through the view, read back as the input. Elements of
 * the input that stand at one place share what arrived there. */
TP_HOOK_D(tp_d_as_strided_backward)
{
    tp_scope s = { 0 };
    tp_value sizes = arg[1].list->item[0], strides = arg[1].list->item[1];
    int64_t input_at = tp_as_int(arg[1].list->item[2]), view_at = arg[4].tag == TP_NONE ? input_at : tp_as_int(arg[4]);
    int64_t base = input_at < view_at ? input_at : view_at;
    int64_t a = input_at - base + reach(sizes, strides), b = view_at - base + reach(arg[2], arg[3]), flat = a > b ? a : b;
    (void)op;
    tp_value length = tp_int(flat), storage = CALL(new_zeros, arg[0], tp_scope_list(&s, 1, &length)), all = tp_int(-1);
    if (may_overlap(arg[2], arg[3])) {
        tp_value where = places(&s, flat, arg[2], arg[3], view_at - base);
        storage = CALL(index_add, storage, tp_int(0), where, CALL(reshape, arg[0], tp_scope_list(&s, 1, &all)));
    } else {
        tp_value view = CALL(as_strided, storage, arg[2], arg[3], tp_int(view_at - base));
        (void)CALL(copy_, view, arg[0]);
    }
    if (may_overlap(sizes, strides)) {
        tp_value where = places(&s, flat, sizes, strides, input_at - base), one = CALL(ones_like, where, tp_of_dtype((tp_dtype)arg[0].tensor->dtype));
        tp_value count = CALL(index_add, CALL(zeros_like, storage), tp_int(0), where, one);
        storage = CALL(div_Tensor, storage, count);
    }
    return tp_rule_done(&s, CALL(as_strided, storage, sizes, strides, tp_int(input_at - base)), result);
}

/* ---- copies only when needed ---- */

TP_HOOK_D(tp_d_contiguous)
{
    tp_scope s = { 0 };
    tp_format format = arg[1].tag == TP_NONE ? TP_FORMAT_CONTIGUOUS : (tp_format)arg[1].i;
    (void)op;
    if (format == TP_FORMAT_PRESERVE)
        return tp_fail(TP_ERR_RUNTIME, "preserve memory format is unsupported by the contiguous operator");
    if (tp_tensor_has_format(arg[0].tensor, format)) {
        result[0] = tp_value_ref(arg[0]);
        return true;
    }
    return tp_rule_done(&s, CALL(clone, arg[0], tp_of_format(format)), result);
}

/* as_strided: strides that are known now lead forward. */
TP_HOOK_C(tp_c_strides)
{
    int64_t stride[TP_MAX_DIMS];
    bool backward = false;
    for (uint32_t i = 0; i < tp_length(arg[0]); i++)
        backward |= arg[0].list->item[i].tag == TP_INT && arg[0].list->item[i].i < 0;
    int count = backward ? tp_as_ints(arg[0], stride, TP_MAX_DIMS, 0) : 0;
    if (count <= 0)
        return count == 0;
    tp_text text = { 0 };
    tp_text_add_sizes(&text, count, stride);
    tp_fail(TP_ERR_RUNTIME, "as_strided: Negative strides are not supported at the moment, got strides: %s", tp_text_read(&text));
    tp_text_fini(&text);
    return false;
}
