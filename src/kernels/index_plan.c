/* index_plan.c - from a list of index tensors to offsets. */
#include "kernels/index_plan.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/dense.h"
#include "kernels/element.h"
#include "kernels/nonzero.h"
#include "ops/promote.h"

/* The index of each dim of x: i64 tensors, counted; NULL where the dim is taken whole. */
typedef struct expanded {
    tp_tensor *index[TP_MAX_DIMS];
    int        dims;                    /* how many dims of x the list speaks about */
} expanded;

static void expanded_fini(expanded *e)
{
    for (int i = 0; i < e->dims; i++)
        tp_tensor_unref(e->index[i]);
}

static const char *sizes_text(int ndim, const int64_t *size, tp_text *t)
{
    tp_text_add(t, "[");
    for (int i = 0; i < ndim; i++)
        tp_text_add(t, "%s%lld", i ? ", " : "", LL(size[i]));
    tp_text_add(t, "]");
    return tp_text_read(t);
}

static bool fail_mask(const tp_tensor *mask, int at, const tp_tensor *x, int dim)
{
    tp_text a = { 0 }, b = { 0 };
    tp_fail(TP_ERR_INDEX, "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d",
            sizes_text(mask->ndim, mask->size, &a), at, sizes_text(x->ndim, x->size, &b), dim);
    tp_text_fini(&a);
    tp_text_fini(&b);
    return false;
}

static bool is_mask(const tp_tensor *t) { return t->dtype == TP_b8 || t->dtype == TP_u8; }

static bool check_mask(const tp_tensor *mask, const tp_tensor *x, int dim)
{
    for (int i = 0; i < mask->ndim; i++)
        if (dim + i >= x->ndim || mask->size[i] != x->size[dim + i])
            return fail_mask(mask, i, x, dim + i);
    return true;
}

/* A mask of k dims gives k index vectors: the columns of its nonzero(). A 0-d mask is not a list of coordinates. */
static bool expand_mask(expanded *e, const tp_tensor *mask, const tp_tensor *x)
{
    if (!mask->ndim)
        return tp_fail(TP_ERR_INDEX, "index: a mask without dims marks nothing: unsqueeze it");
    if (!check_mask(mask, x, e->dims))
        return false;
    tp_tensor *found = tp_nonzero(mask);
    if (!found)
        return false;
    int64_t count = found->size[0];
    bool ok = true;
    for (int i = 0; ok && i < mask->ndim; i++) {
        tp_tensor *column = tp_tensor_view(found, 1, &count, &found->stride[0], found->offset + i * found->stride[1]);
        ok = column && (e->index[e->dims++] = column);
    }
    tp_tensor_unref(found);
    return ok;
}

static bool expand(expanded *e, const tp_tensor *x, tp_value indices)
{
    e->dims = 0;
    for (uint32_t k = 0; k < tp_length(indices); k++) {
        const tp_tensor *t = tp_as_tensor(indices.list->item[k]);
        int needed = !t ? 1 : is_mask(t) ? t->ndim : 1;
        if (e->dims + needed > x->ndim)
            return tp_fail(TP_ERR_INDEX, "too many indices for tensor of dimension %d", x->ndim);
        if (!t)
            e->index[e->dims++] = NULL;
        else if (is_mask(t)) {
            if (!expand_mask(e, t, x))
                return false;
        } else if (t->dtype != TP_i64 && t->dtype != TP_i32 && t->dtype != TP_i16 && t->dtype != TP_i8)
            return tp_fail(TP_ERR_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
        else if (!(e->index[e->dims] = t->dtype == TP_i64 ? tp_tensor_ref(t) : tp_cast(t, TP_i64)))
            return false;
        else
            e->dims++;
    }
    return true;
}

static bool fail_broadcast(const expanded *e)
{
    tp_text all = { 0 };
    for (int i = 0; i < e->dims; i++)
        if (e->index[i]) {
            if (all.length)
                tp_text_add(&all, ", ");
            sizes_text(e->index[i]->ndim, e->index[i]->size, &all);
        }
    tp_fail(TP_ERR_INDEX, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", tp_text_read(&all));
    tp_text_fini(&all);
    return false;
}

/* Are the indexed dims neighbours? Then the places stand where they were, else in front. */
static bool neighbours(const expanded *e, int *first)
{
    int begin = -1, end = -1, count = 0;
    for (int i = 0; i < e->dims; i++)
        if (e->index[i]) {
            begin = begin < 0 ? i : begin;
            end = i;
            count++;
        }
    *first = begin < 0 ? 0 : begin;
    return end - begin + 1 == count;
}

static bool place_shape(const expanded *e, int *ndim, int64_t *size)
{
    *ndim = 0;
    for (int i = 0; i < e->dims; i++)
        if (e->index[i] && !tp_broadcast(ndim, size, e->index[i]->ndim, e->index[i]->size)) {
            tp_error_clear();
            return fail_broadcast(e);
        }
    return true;
}

static bool lay_out(tp_index_plan *p, const expanded *e, const tp_tensor *x)
{
    int64_t place[TP_MAX_DIMS], bytes = (int64_t)tp_dtype_bytes((tp_dtype)x->dtype);
    int first;
    if (!place_shape(e, &p->place_ndim, place))
        return false;
    bool inside = neighbours(e, &first);
    int whole = 0;
    for (int i = 0; i < x->ndim; i++)
        whole += i >= e->dims || !e->index[i];
    if (whole + p->place_ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_INDEX, "an index makes more than %d dimensions", TP_MAX_DIMS);
    p->outer_ndim = inside ? first : 0;
    p->inner_ndim = whole - p->outer_ndim;
    p->outer_count = p->place_count = p->inner_count = 1;
    int at = 0, x_dim = 0;
    for (; at < p->outer_ndim; at++, x_dim++) {
        p->outer_count *= p->size[at] = x->size[x_dim];
        p->stride[at] = x->stride[x_dim] * bytes;
    }
    for (int i = 0; i < p->place_ndim; i++, at++) {
        p->place_count *= p->size[at] = place[i];
        p->stride[at] = 0;
    }
    for (; x_dim < x->ndim; x_dim++) {
        if (x_dim < e->dims && e->index[x_dim])
            continue;
        p->inner_count *= p->size[at] = x->size[x_dim];
        p->stride[at++] = x->stride[x_dim] * bytes;
    }
    return true;
}

/* Adds one index tensor, broadcast to the shape of places, times the stride of its dim. Messages count indexed dims: `number`. */
static bool add_offsets(tp_index_plan *p, const tp_tensor *index, const tp_tensor *x, int dim, int number)
{
    const int64_t *size = p->size + p->outer_ndim, n = x->size[dim];
    int64_t stride[TP_MAX_DIMS], at[TP_MAX_DIMS] = { 0 }, from = 0, step = x->stride[dim] * (int64_t)tp_dtype_bytes((tp_dtype)x->dtype);
    const int64_t *data = tp_tensor_data(index);
    for (int i = 0; i < p->place_ndim; i++) {
        int k = i - (p->place_ndim - index->ndim);
        stride[i] = k < 0 || index->size[k] != size[i] ? 0 : index->stride[k];
    }
    int64_t *const moving[3] = { &from };
    const int64_t *const moves[3] = { stride };
    for (int64_t i = 0; i < p->place_count; i++) {
        int64_t value = data[from];
        if (value < -n || value >= n)
            return tp_fail(TP_ERR_INDEX, "index %lld is out of bounds for dimension %d with size %lld", LL(value), number, LL(n));
        p->offset[i] += (value < 0 ? value + n : value) * step;
        tp_next(p->place_ndim, size, at, moving, moves);
    }
    return true;
}

bool tp_index_plan_init(tp_index_plan *p, const tp_tensor *x, tp_value indices)
{
    expanded e;
    p->offset = NULL;
    bool ok = expand(&e, x, indices) && lay_out(p, &e, x);
    if (ok && p->outer_count * p->inner_count == 0)
        ok = (p->offset = tp_alloc_zero(sizeof *p->offset)) != NULL;
    else if (ok && (ok = p->place_count < INT64_MAX / 8 && (p->offset = tp_alloc_zero((size_t)(p->place_count + 1) * sizeof *p->offset)) != NULL))
        for (int i = 0, number = 0; ok && i < e.dims; i++)
            ok = !e.index[i] || add_offsets(p, e.index[i], x, i, number++);
    expanded_fini(&e);
    if (!ok)
        tp_index_plan_fini(p);
    return ok;
}

void tp_index_plan_fini(tp_index_plan *p)
{
    tp_free(p->offset);
    p->offset = NULL;
}

const tp_tensor *tp_index_mask(const tp_tensor *x, tp_value indices)
{
    const tp_tensor *t = tp_length(indices) == 1 ? tp_as_tensor(indices.list->item[0]) : NULL;
    return t && is_mask(t) && t->ndim == x->ndim && x->ndim ? t : NULL;
}

bool tp_index_shape(const tp_tensor *x, tp_value indices, int *ndim, int64_t *size)
{
    expanded e;
    tp_index_plan p;
    const tp_tensor *mask = tp_index_mask(x, indices);
    if (mask) {
        *ndim = 1;
        return check_mask(mask, x, 0) && tp_count_nonzero(mask, size);
    }
    bool ok = expand(&e, x, indices) && lay_out(&p, &e, x);
    expanded_fini(&e);
    if (ok) {
        *ndim = p.outer_ndim + p.place_ndim + p.inner_ndim;
        memcpy(size, p.size, (size_t)*ndim * sizeof *size);
    }
    return ok;
}
