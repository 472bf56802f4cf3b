/* index.c - sizes of indexing and joining, and the gradients that no formula of the op language says. */
#include <string.h>

#include "gen/ops.h"
#include "ops/emit.h"
#include "tile/tile.h"

/* ---- index.Tensor(self, indices) ----
 * Outer dims, the common shape of the indices, inner dims; the common shape comes first when indexed dims are apart. A mask
 * of k dims stands for k vectors as long as it has true elements. */
static bool is_mask(const tp_tensor *t) { return t->dtype == TP_b8 || t->dtype == TP_u8; }

static int dims_of(const tp_tensor *index) { return index && is_mask(index) ? index->ndim : 1; }

static int64_t count_nonzero(const tp_tensor *t)
{
    static const tp_tile_program element = { .input_count = 1, .register_count = 1, .output_count = 1 };
    static const int64_t still[TP_MAX_DIMS];
    int64_t count = 0, stride[TP_MAX_DIMS];
    tp_tile_loop loop = { .ndim = t->ndim, .size = t->size, .compute = (uint8_t)tp_tile_compute((tp_dtype)t->dtype) };
    for (int i = 0; i < t->ndim; i++)
        stride[i] = t->stride[i] * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
    loop.operand[0] = (tp_tile_operand){ &count, TP_i64, still };
    loop.operand[1] = (tp_tile_operand){ tp_tensor_data(t), t->dtype, stride };
    if (t->numel)
        tp_tile_reduce(&element, TP_REDUCE_count_nonzero, 0, t->ndim == 64 ? ~(uint64_t)0 : ((uint64_t)1 << t->ndim) - 1, &loop);
    return count;
}

/* How many elements of a mask are true: counted when there are data, else a size of its own. */
static tp_sym count_true(const tp_tensor *mask, bool *bad)
{
    if (mask->storage->kind == TP_MEMORY_NONE)
        return tp_sym_fresh(tp_sym_int(0), tp_syms_numel(mask), bad);
    return tp_sym_int(*bad ? 0 : count_nonzero(mask));
}

static bool check_mask(const tp_tensor *mask, const tp_tensor *self, int dim)
{
    for (int i = 0; i < mask->ndim; i++)
        if (dim + i >= self->ndim || mask->size[i] != self->size[dim + i]) {
            tp_syms theirs = tp_syms_sizes(mask), own = tp_syms_sizes(self);
            return tp_fail_with(TP_ERR_INDEX, "The shape of the mask {} at index {} does not match the shape of the indexed tensor {} at index {}", 4,
                                (tp_value[]){ tp_value_of_syms(&theirs), tp_int(i), tp_value_of_syms(&own), tp_int(dim + i) });
        }
    return true;
}

/* Joins one index's shape into the common one; PyTorch's message names all of them. */
static bool join_shape(tp_syms *common, const tp_syms *shape, tp_value indices)
{
    bool bad = false;
    tp_syms joined = tp_syms_broadcast(common, shape, &bad);
    if (!bad) {
        *common = joined;
        return true;
    }
    tp_text all = { 0 };
    for (uint32_t k = 0; k < tp_length(indices); k++) {
        const tp_tensor *t = tp_as_tensor(indices.list->item[k]);
        if (!t)
            continue;
        if (is_mask(t) && t->storage->kind != TP_MEMORY_NONE) {
            for (int i = 0; i < t->ndim; i++)
                tp_text_add(&all, "%s[%lld]", all.length ? ", " : "", LL(count_nonzero(t)));
            continue;
        }
        tp_text_add(&all, "%s[", all.length ? ", " : "");
        for (int i = 0; i < t->ndim; i++)
            tp_text_add(&all, "%s%lld", i ? ", " : "", LL(t->size[i]));
        tp_text_add(&all, "]");
    }
    tp_fail(TP_ERR_INDEX, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", tp_text_read(&all));
    tp_text_fini(&all);
    return false;
}

/* Which dims of self are indexed, and before how many of the others the places stand. */
typedef struct places {
    bool indexed[TP_MAX_DIMS];
    int  outer;
} places;

static places places_of(const tp_tensor *self, tp_value indices)
{
    places p = { 0 };
    int dim = 0, first = -1, last = -1, count = 0;
    for (uint32_t k = 0; k < tp_length(indices); k++) {
        const tp_tensor *t = tp_as_tensor(indices.list->item[k]);
        for (int i = 0; i < dims_of(t) && dim < self->ndim; i++, dim++)
            if (t) {
                p.indexed[dim] = true;
                first = first < 0 ? dim : first;
                last = dim;
                count++;
            }
    }
    p.outer = count && last - first + 1 == count ? first : 0;
    return p;
}

TP_HOOK_S(tp_s_index)
{
    const tp_tensor *self = arg[0].tensor;
    tp_syms common = { 0 };
    bool bad = false;
    int dim = 0, given = 0;
    for (uint32_t k = 0; k < tp_length(arg[1]); k++)
        given += dims_of(tp_as_tensor(arg[1].list->item[k]));
    if (given > self->ndim)
        return tp_fail(TP_ERR_INDEX, "too many indices for tensor of dimension %d (got %d)", self->ndim, given);
    for (uint32_t k = 0; k < tp_length(arg[1]); k++) {
        const tp_tensor *t = tp_as_tensor(arg[1].list->item[k]);
        if (t) {
            tp_syms shape = tp_syms_sizes(t);
            if (is_mask(t)) {
                if (!t->ndim)
                    return tp_fail(TP_ERR_INDEX, "index: a mask without dims marks nothing: unsqueeze it");
                if (!check_mask(t, self, dim))
                    return false;
                shape = (tp_syms){ 1, { count_true(t, &bad) } };
            } else if (t->dtype != TP_i64 && t->dtype != TP_i32 && t->dtype != TP_i16 && t->dtype != TP_i8)
                return tp_fail(TP_ERR_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
            if (bad || !join_shape(&common, &shape, arg[1]))
                return false;
        }
        dim += dims_of(t);
    }
    places p = places_of(self, arg[1]);
    out->count = 0;
    for (int i = 0; i <= self->ndim; i++) {
        if (i == p.outer)
            tp_syms_join(out, &common);
        if (i < self->ndim && !p.indexed[i])
            tp_syms_add(out, tp_tensor_sym_size(self, i));
    }
    return true;
}

/* ---- how the result of index lies ----
 * As a result of operands of one shape: self with stride 0 where the places are, then each index, expanded to the common shape and seen
 * with a size of 1 for every other dim. */

/* Strides to the letter as row-major ones are: such operands leave the dims in their order. */
static bool is_plain(const tp_tensor *t)
{
    int64_t row_major[TP_MAX_DIMS];
    tp_strides_row_major(t->ndim, t->size, row_major);
    return memcmp(row_major, t->stride, (size_t)t->ndim * sizeof *row_major) == 0;
}

/* An index as the vector or tensor of integers that it stands for; -1: a count that nobody knows. */
typedef struct index_shape {
    int     ndim;
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
} index_shape;

static void read_shape(const tp_tensor *t, index_shape *out)
{
    if (is_mask(t)) {
        *out = (index_shape){ 1, { t->storage->kind == TP_MEMORY_NONE ? -1 : count_nonzero(t) }, { 1 } };
        return;
    }
    out->ndim = t->ndim;
    memcpy(out->size, t->size, (size_t)t->ndim * sizeof *out->size);
    memcpy(out->stride, t->stride, (size_t)t->ndim * sizeof *out->stride);
}

static void expand_shape(index_shape *s, int ndim, const int64_t *size)
{
    int added = ndim - s->ndim;
    memmove(s->size + added, s->size, (size_t)s->ndim * sizeof *s->size);
    memmove(s->stride + added, s->stride, (size_t)s->ndim * sizeof *s->stride);
    for (int i = ndim - 1; i >= 0; i--) {
        if (i < added) {                /* a new dim lies outside the next one */
            s->size[i] = 1;
            s->stride[i] = i + 1 < ndim ? s->size[i + 1] * s->stride[i + 1] : 1;
        }
        if (s->size[i] != size[i])
            s->stride[i] = 0;
        s->size[i] = size[i];
    }
    s->ndim = ndim;
}

/* The sizes of the result with the operands' strides; how many operands there are, 0: a failure. */
static int lay_operands(const tp_tensor *self, tp_list *indices, int *ndim, int64_t *size, int64_t (*stride)[TP_MAX_DIMS])
{
    places p = places_of(self, tp_of_list(indices));
    index_shape shape;
    int64_t common[TP_MAX_DIMS], seen[TP_MAX_DIMS];
    bool unknown = false;
    int place_ndim = 0, count = 1;
    for (uint32_t k = 0; k < indices->count; k++)
        if (tp_as_tensor(indices->item[k])) {
            read_shape(indices->item[k].tensor, &shape);
            if (shape.ndim && shape.size[0] < 0)
                unknown = true;
            else if (!tp_broadcast(&place_ndim, common, shape.ndim, shape.size))
                return 0;
        }
    if (unknown && place_ndim == 0)
        common[place_ndim++] = 2;       /* what is counted in a run is seldom 1 */
    *ndim = place_ndim;
    for (int i = 0; i < self->ndim; i++)
        *ndim += !p.indexed[i];
    if (*ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_RUNTIME, "a result of %d dimensions has more than the %d that are allowed here", *ndim, TP_MAX_DIMS) ? 1 : 0;
    *ndim = 0;
    for (int i = 0; i <= self->ndim; i++) {
        for (int k = 0; i == p.outer && k < place_ndim; k++) {
            seen[*ndim] = size[*ndim] = common[k];
            stride[0][(*ndim)++] = 0;
        }
        if (i < self->ndim && !p.indexed[i]) {
            seen[*ndim] = 1;
            size[*ndim] = self->size[i];
            stride[0][(*ndim)++] = self->stride[i];
        }
    }
    for (uint32_t k = 0; k < indices->count; k++)
        if (tp_as_tensor(indices->item[k])) {
            read_shape(indices->item[k].tensor, &shape);
            if (shape.ndim && shape.size[0] < 0)
                shape.size[0] = common[place_ndim - 1];
            expand_shape(&shape, place_ndim, common);
            if (!tp_strides_view(place_ndim, common, shape.stride, *ndim, seen, stride[count]))
                tp_strides_row_major(*ndim, seen, stride[count]);
            for (int i = 0; i < *ndim; i++)
                if (seen[i] != size[i])
                    stride[count][i] = 0;
            count++;
        }
    return count;
}

TP_HOOK_S(tp_s_index_order)
{
    const tp_tensor *self = arg[0].tensor;
    bool plain = is_plain(self);
    for (uint32_t k = 0; plain && k < tp_length(arg[1]); k++) {
        const tp_tensor *t = tp_as_tensor(arg[1].list->item[k]);
        plain = !t || is_mask(t) || is_plain(t);
    }
    out->count = 0;
    if (plain)          /* no order: row-major */
        return true;
    int ndim = 0, order[TP_MAX_DIMS];
    int64_t size[TP_MAX_DIMS], stride[1 + TP_MAX_DIMS][TP_MAX_DIMS];
    const int64_t *operand[1 + TP_MAX_DIMS];
    int count = lay_operands(self, arg[1].list, &ndim, size, stride);
    if (!count)
        return false;
    for (int i = 0; i < count; i++)
        operand[i] = stride[i];
    tp_strides_order(ndim, size, count, operand, order);
    for (int i = ndim - 1; i >= 0; i--)
        tp_syms_add(out, tp_sym_int(order[i]));
    return true;
}

/* ---- cat(tensors, dim) ---- */

/* A 1-d tensor without elements joins anything. A symbol is not asked: only what is known to be empty is nothing. */
static bool is_nothing(const tp_tensor *t)
{
    return t->ndim == 1 && tp_sym_same(tp_tensor_sym_size(t, 0), tp_sym_int(0));
}

static const tp_tensor *first_something(const tp_list *l)
{
    for (uint32_t k = 0; k < l->count; k++)
        if (!is_nothing(l->item[k].tensor))
            return l->item[k].tensor;
    return l->item[0].tensor;
}

TP_HOOK_C(tp_c_cat)
{
    const tp_list *l = arg[0].list;
    bool bad = false;
    if (!l->count)
        return tp_fail(TP_ERR_VALUE, "torch.cat(): expected a non-empty list of Tensors");
    for (uint32_t k = 0; k < l->count; k++)
        if (l->item[k].tensor->ndim == 0)
            return tp_fail(TP_ERR_RUNTIME, "zero-dimensional tensor (at position %u) cannot be concatenated", k);
    const tp_tensor *model = first_something(l);
    int64_t dim = tp_wrap(tp_as_int(arg[1]), model->ndim, &bad);
    for (uint32_t k = 0; k < l->count && !bad; k++) {
        const tp_tensor *t = l->item[k].tensor;
        if (is_nothing(t))
            continue;
        if (t->ndim != model->ndim)
            return tp_fail(TP_ERR_RUNTIME, "Tensors must have same number of dimensions: got %d and %d", model->ndim, t->ndim);
        for (int i = 0; i < t->ndim; i++)
            if (i != dim && !tp_guard(tp_sym_eq(tp_tensor_sym_size(t, i), tp_tensor_sym_size(model, i)), &bad) && !bad)
                return tp_fail(TP_ERR_RUNTIME, "Sizes of tensors must match except in dimension %lld. Expected size %lld but got size %lld for tensor number %u in the list.",
                               LL(dim), LL(model->size[i]), LL(t->size[i]), k);
    }
    return !bad;
}

TP_HOOK_S(tp_s_cat)
{
    const tp_list *l = arg[0].list;
    const tp_tensor *model = first_something(l);
    bool bad = false;
    int64_t dim = tp_wrap(tp_as_int(arg[1]), model->ndim, &bad);
    *out = tp_syms_sizes(model);
    out->item[dim] = tp_sym_int(0);
    for (uint32_t k = 0; k < l->count && !bad; k++)
        if (!is_nothing(l->item[k].tensor))
            out->item[dim] = tp_sym_add(out->item[dim], tp_tensor_sym_size(l->item[k].tensor, (int)dim));
    return !bad;
}

/* (g, sizes of the tensors, dim) -> a list: the slice of g that each tensor filled. */
TP_HOOK_D(tp_d_cat_backward)
{
    const tp_list *l = arg[1].list;
    tp_tensor *g = arg[0].tensor;
    tp_scope s;
    tp_values pieces = { 0 };
    (void)op;
    tp_scope_start(&s);
    tp_sym at = tp_sym_int(0);
    int64_t dim = tp_wrap(tp_as_int(arg[2]), g->ndim, &s.failed);
    for (uint32_t k = 0; k < l->count && !s.failed; k++) {
        tp_value sizes = l->item[k];
        if (tp_length(sizes) == 1 && tp_sym_same(tp_sizes_at(sizes, 0, &s.failed), tp_sym_int(0))) {
            tp_value zero = tp_of_list((tp_list *)&(struct { tp_count refs; uint32_t count; tp_value item[1]; }){ TP_STACK_LIST, 1, { tp_int(0) } });
            tp_values_add(&s, &pieces, tp_scope_call(&s, &tp_op_new_zeros, (tp_value[]){ arg[0], zero, tp_none(), tp_none(), tp_none(), tp_none() }));
            continue;
        }
        tp_sym end = tp_sym_add(at, tp_sizes_at(sizes, dim, &s.failed));
        tp_values_add(&s, &pieces, tp_scope_call(&s, &tp_op_slice_Tensor, (tp_value[]){ arg[0], tp_int(dim), tp_of_sym(at), tp_of_sym(end), tp_int(1) }));
        at = end;
    }
    tp_scope_keep(&s, &result[0], tp_scope_values(&s, &pieces));
    return tp_scope_end(&s);
}

TP_HOOK_C(tp_c_stack)
{
    const tp_list *l = arg[0].list;
    bool bad = false;
    if (!l->count)
        return tp_fail(TP_ERR_RUNTIME, "stack expects a non-empty TensorList");
    const tp_tensor *model = l->item[0].tensor;
    for (uint32_t k = 1; k < l->count && !bad; k++) {
        tp_syms a = tp_syms_sizes(model), b = tp_syms_sizes(l->item[k].tensor);
        if (!tp_syms_equal(&a, &b, &bad) && !bad)
            return tp_fail_with(TP_ERR_RUNTIME, "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {}", 3,
                                (tp_value[]){ tp_value_of_syms(&a), tp_value_of_syms(&b), tp_int(k) });
    }
    return !bad;
}

/* stack(tensors, dim): a new dim, as long as the list, where `dim` says. */
TP_HOOK_S(tp_s_stack)
{
    const tp_list *l = arg[0].list;
    const tp_tensor *model = l->item[0].tensor;
    bool bad = false;
    int64_t dim = tp_wrap(tp_as_int(arg[1]), model->ndim + 1, &bad);
    out->count = 0;
    for (int i = 0; i <= model->ndim && !bad; i++) {
        if (i == dim)
            tp_syms_add(out, tp_sym_int(l->count));
        if (i < model->ndim)
            tp_syms_add(out, tp_tensor_sym_size(model, i));
    }
    return !bad;
}

/* ---- repeat ----
 * (g, repeats, sizes): sums over the dims that repeat added, then over the copies of each dim, seen as a dim of its own. */
TP_HOOK_D(tp_d_repeat_backward)
{
    tp_scope s;
    tp_ints added = { 0 }, copies = { 0 };
    tp_syms shape = { 0 };
    (void)op;
    tp_scope_start(&s);
    tp_syms repeats = tp_syms_read(arg[1], 0, &s.failed), sizes = tp_syms_read(arg[2], 0, &s.failed);
    int extra = repeats.count - sizes.count;
    for (int i = 0; i < extra; i++)
        tp_ints_add(&added, i);
    for (int i = 0; i < sizes.count; i++) {
        if (!tp_sym_same(repeats.item[extra + i], tp_sym_int(1))) {
            tp_ints_add(&copies, shape.count);
            tp_syms_add(&shape, repeats.item[extra + i]);
        }
        tp_syms_add(&shape, sizes.item[i]);
    }
    tp_value g = arg[0];
    if (extra > 0)
        g = tp_scope_call(&s, &tp_op_sum_dim_IntList, (tp_value[]){ g, tp_scope_ints(&s, &added), tp_bool(false), tp_none() });
    if (copies.count) {
        g = tp_scope_call(&s, &tp_op_reshape, (tp_value[]){ g, tp_scope_syms(&s, &shape) });
        g = tp_scope_call(&s, &tp_op_sum_dim_IntList, (tp_value[]){ g, tp_scope_ints(&s, &copies), tp_bool(false), tp_none() });
    }
    tp_scope_keep(&s, &result[0], g);
    return tp_scope_end(&s);
}
