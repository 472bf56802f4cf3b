/* index.c - x[i, j] and x[i, j] = v: blocks of elements moved between a tensor and the places a plan names.
 *
 * Work is cut along outer dims x places; a block is the inner dims, a memcpy when both sides are dense there. Writes that
 * accumulate run serially unless outer dims keep them apart, so that sums have one order. */
#include <string.h>

#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"
#include "kernels/index_plan.h"
#include "kernels/nonzero.h"

/* One side is x, seen through the plan; the other a tensor of the result's shape (strides 0 where values broadcast). */
typedef struct work {
    const tp_index_plan *plan;
    char          *x, *other;
    int64_t        other_stride[TP_MAX_DIMS];   /* bytes, by result dim */
    size_t         bytes;
    bool           to_x;
    tp_combine_fn *combine;                     /* NULL: plain move */
    int            inner_ndim;                  /* inner dims after joining those that are one run on both sides */
    int64_t        inner_size[TP_MAX_DIMS], inner_x[TP_MAX_DIMS], inner_other[TP_MAX_DIMS];
} work;

static void join_inner(work *w)
{
    const tp_index_plan *p = w->plan;
    int base = p->outer_ndim + p->place_ndim, n = 0;
    for (int i = base; i < base + p->inner_ndim; i++) {
        if (p->size[i] == 1)
            continue;
        int64_t size = p->size[i], x = p->stride[i], other = w->other_stride[i];
        if (n && w->inner_x[n - 1] == size * x && w->inner_other[n - 1] == size * other) {
            w->inner_size[n - 1] *= size;
            w->inner_x[n - 1] = x;
            w->inner_other[n - 1] = other;
            continue;
        }
        w->inner_size[n] = size;
        w->inner_x[n] = x;
        w->inner_other[n++] = other;
    }
    w->inner_ndim = n;
}

static void move_line(const work *w, int64_t n, char *x, int64_t x_step, char *other, int64_t other_step)
{
    if (w->combine)
        w->combine(n, x, x_step, other, other_step);
    else if (w->to_x)
        tp_move_elements(w->bytes, n, x, x_step, other, other_step);
    else
        tp_move_elements(w->bytes, n, other, other_step, x, x_step);
}

static void move_block(const work *w, char *x, char *other)
{
    int last = w->inner_ndim - 1;
    if (last < 0) {
        move_line(w, 1, x, (int64_t)w->bytes, other, (int64_t)w->bytes);
        return;
    }
    int64_t at[TP_MAX_DIMS] = { 0 }, x_offset = 0, other_offset = 0;
    int64_t *const moving[3] = { &x_offset, &other_offset };
    const int64_t *const moves[3] = { w->inner_x, w->inner_other };
    do
        move_line(w, w->inner_size[last], x + x_offset, w->inner_x[last], other + other_offset, w->inner_other[last]);
    while (tp_next(last, w->inner_size, at, moving, moves));
}

/* Byte offsets of item number `k` of some leading dims. */
static void locate(int ndim, const int64_t *size, const int64_t *stride, int64_t k, int64_t *offset)
{
    for (int d = ndim - 1; d >= 0; d--) {
        *offset += k % size[d] * stride[d];
        k /= size[d];
    }
}

/* Single elements at places that need no joining: the common x[i] of vectors, and x[i, j]. */
static bool is_simple(const work *w)
{
    const tp_index_plan *p = w->plan;
    return !w->inner_ndim && !w->combine && p->place_ndim == 1;
}

static void simple_places(const work *w, char *x, char *other, int64_t from, int64_t to)
{
    const int64_t *offset = w->plan->offset;
    int64_t step = w->other_stride[w->plan->outer_ndim];
#define PLACES(size)                                                                        \
    for (int64_t i = from; i < to; i++)                                                     \
        w->to_x ? memcpy(x + offset[i], other + i * step, size) : memcpy(other + i * step, x + offset[i], size); \
    break
    switch (w->bytes) {
    case 1: PLACES(1);
    case 2: PLACES(2);
    case 4: PLACES(4);
    case 8: PLACES(8);
    default: PLACES(16);
    }
#undef PLACES
}

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    const tp_index_plan *p = w->plan;
    int64_t items = p->outer_count * p->place_count, end = tp_chunk_at(items, index + 1, count);
    for (int64_t i = tp_chunk_at(items, index, count); i < end;) {
        int64_t outer = i / p->place_count, first = i % p->place_count, last = first + end - i;
        last = last < p->place_count ? last : p->place_count;
        int64_t x = 0, other = 0;
        locate(p->outer_ndim, p->size, p->stride, outer, &x);
        locate(p->outer_ndim, p->size, w->other_stride, outer, &other);
        if (is_simple(w))
            simple_places(w, w->x + x, w->other + other, first, last);
        else {
            for (int64_t k = first; k < last; k++) {
                int64_t place = other;
                locate(p->place_ndim, p->size + p->outer_ndim, w->other_stride + p->outer_ndim, k, &place);
                move_block(w, w->x + x + p->offset[k], w->other + place);
            }
        }
        i += last - first;
    }
}

static void run(work *w, const tp_tensor *other)
{
    const tp_index_plan *p = w->plan;
    int ndim = p->outer_ndim + p->place_ndim + p->inner_ndim;
    if (p->outer_count * p->place_count * p->inner_count == 0)
        return;
    w->bytes = tp_dtype_bytes((tp_dtype)other->dtype);
    for (int i = 0; i < ndim; i++) {
        int k = i - (ndim - other->ndim);
        w->other_stride[i] = k < 0 || other->size[k] != p->size[i] ? 0 : other->stride[k] * (int64_t)w->bytes;
    }
    join_inner(w);
    int64_t items = p->outer_count * p->place_count;
    bool serial = w->to_x && p->place_count > 1;        /* two places may be one: the last write wins, in order */
    tp_pool_run(serial ? 1 : tp_chunks_of(items, p->inner_count), chunk, w);
}

/* index.Tensor(self, indices) */
TP_HOOK_K(tp_k_index)
{
    tp_index_plan plan;
    const tp_tensor *self = arg[0].tensor, *mask = tp_index_mask(self, arg[1]);
    if (mask && out[0] && tp_tensor_is_contiguous(out[0]))      /* its sizes come from the shape rule, which has checked the mask */
        return tp_mask_select(self, mask, out);
    if (!tp_index_plan_init(&plan, self, arg[1]))
        return false;
    int ndim = plan.outer_ndim + plan.place_ndim + plan.inner_ndim;
    bool ok = out[0] || (out[0] = tp_tensor_new((tp_dtype)self->dtype, ndim, plan.size));
    if (ok) {
        work w = { .plan = &plan, .x = tp_tensor_data(self), .other = tp_tensor_data(out[0]) };
        run(&w, out[0]);
    }
    tp_index_plan_fini(&plan);
    return ok;
}

static bool check_values(const tp_index_plan *p, const tp_tensor *values)
{
    int ndim = p->outer_ndim + p->place_ndim + p->inner_ndim;
    bool fits = values->ndim <= ndim;
    for (int i = 0; fits && i < values->ndim; i++)
        fits = values->size[i] == 1 || values->size[i] == p->size[ndim - values->ndim + i];
    if (fits)
        return true;
    tp_text a = { 0 }, b = { 0 };
    for (int i = 0; i < values->ndim; i++)
        tp_text_add(&a, "%s%lld", i ? ", " : "", LL(values->size[i]));
    for (int i = 0; i < ndim; i++)
        tp_text_add(&b, "%s%lld", i ? ", " : "", LL(p->size[i]));
    tp_fail(TP_ERR_RUNTIME, "shape mismatch: value tensor of shape [%s] cannot be broadcast to indexing result of shape [%s]",
            tp_text_read(&a), tp_text_read(&b));
    tp_text_fini(&a);
    tp_text_fini(&b);
    return false;
}

/* index_put_(self, indices, values, accumulate); _index_put_impl_ has one argument more. Writes out[0], which is self or
 * holds its elements already. */
/* One index alone, a mask of bytes: PyTorch fills through it, and refuses to. */
static bool is_byte_mask(tp_value indices)
{
    const tp_tensor *only = NULL;
    for (uint32_t i = 0; i < tp_length(indices); i++) {
        const tp_tensor *t = tp_as_tensor(indices.list->item[i]);
        if (t && only)
            return false;
        only = t ? t : only;
    }
    return only && only->dtype == TP_u8;
}

TP_HOOK_K(tp_k_index_put)
{
    tp_index_plan plan;
    const tp_tensor *values = arg[2].tensor;
    tp_tensor *self = out[0], *cast = NULL;
    if (values->dtype != self->dtype)
        return tp_fail(TP_ERR_RUNTIME, "Index put requires the source and destination dtypes match, got %s for the destination and %s for the source.",
                       tp_dtypes[self->dtype].title, tp_dtypes[values->dtype].title);
    if (!tp_index_plan_init(&plan, self, arg[1]))
        return false;
    bool ok = check_values(&plan, values);
    if (ok && !tp_as_bool(arg[3]) && values->numel == 1 && is_byte_mask(arg[1]))
        ok = tp_fail(TP_ERR_RUNTIME, "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char");
    if (ok && tp_tensor_overlaps(self, values))
        ok = (cast = tp_clone(values, TP_FORMAT_CONTIGUOUS)) != NULL;
    if (ok) {
        values = cast ? cast : values;
        work w = { .plan = &plan, .x = tp_tensor_data(self), .other = tp_tensor_data(values), .to_x = true };
        w.combine = tp_as_bool(arg[3]) ? tp_combine_of(TP_COMBINE_ADD, (tp_dtype)self->dtype) : NULL;
        run(&w, values);
    }
    tp_tensor_unref(cast);
    tp_index_plan_fini(&plan);
    return ok;
}
