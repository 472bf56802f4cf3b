/* select.c - one vector of indices along one dim: index_select, embedding, index_add, index_copy, index_fill, take, put.
 *
 * Rows are moved as they lie: an inner run that is dense on both sides is one memcpy. */
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"
#include "ops/run.h"

/* Row-major i64 indices, each checked to lie in [0, n) and, where allowed, [-n, 0) brought there. */
static int64_t *read_indices(const tp_tensor *index, int64_t n, bool negative_allowed, const char *error)
{
    tp_tensor *dense = tp_dense(index, TP_i64);
    int64_t *out = dense ? tp_alloc_array((size_t)index->numel + 1, sizeof *out) : NULL;
    const int64_t *from = dense ? tp_tensor_data(dense) : NULL;
    for (int64_t i = 0; out && i < index->numel; i++) {
        int64_t k = from[i] < 0 && negative_allowed ? from[i] + n : from[i];
        if (k < 0 || k >= n) {
            tp_fail(TP_ERR_INDEX, error, LL(from[i]), LL(n));
            tp_free(out);
            out = NULL;
            break;
        }
        out[i] = k;
    }
    tp_tensor_unref(dense);
    return out;
}

/* ---- rows of a row-major table ---- */
typedef struct rows {
    const int64_t *index;
    const char    *from;
    char          *to;
    int64_t        outer, from_size, to_size;   /* sizes along the dim */
    size_t         bytes;                       /* of a row: the inner dims */
    int64_t        chunks;
} rows;

static const char *row_at(const rows *r, int64_t i)
{
    return r->from + (size_t)(i / r->to_size * r->from_size + r->index[i % r->to_size]) * r->bytes;
}

/* Rows are in no order the processor could foresee: a row is asked for a few rows before it is copied. */
enum { AHEAD = 2, AHEAD_BYTES = 4096 };

static void pick_range(void *pointer, int64_t first, int64_t last)
{
    const rows *r = pointer;
    int64_t items = r->outer * r->to_size, end = tp_chunk_at(items, last, r->chunks), i = tp_chunk_at(items, first, r->chunks);
#define PICK(size)                                                                                         \
    for (; i < end; i++)                                                                                   \
        memcpy(r->to + (size_t)i * (size), r->from + (size_t)(i / r->to_size * r->from_size + r->index[i % r->to_size]) * (size), size); \
    break
    switch (r->bytes) {
    case 1: PICK(1);
    case 2: PICK(2);
    case 4: PICK(4);
    case 8: PICK(8);
    default: break;
    }
#undef PICK
    for (; i < end; i++) {
        const char *from = row_at(r, i);
        for (size_t b = 0; i + AHEAD < end && b < r->bytes && b < AHEAD_BYTES; b += 64)
            __builtin_prefetch(row_at(r, i + AHEAD) + b);
        memcpy(r->to + (size_t)i * r->bytes, from, r->bytes);
    }
}

static bool pick_rows(const tp_tensor *from, int64_t dim, const tp_tensor *index, const char *error, tp_tensor *out)
{
    tp_along a = tp_along_dim(from, dim);
    size_t element = tp_dtype_bytes((tp_dtype)from->dtype);
    int64_t *place = read_indices(index, a.size, false, error);
    tp_tensor *dense = place ? tp_contiguous(from) : NULL, *to = dense ? tp_dense_out(out, (tp_dtype)from->dtype) : NULL;
    if (to && to->numel) {
        rows r = { place, tp_tensor_data(dense), tp_tensor_data(to), a.outer, a.size, index->numel, (size_t)a.inner * element,
                   tp_chunks_of(a.outer * index->numel, a.inner) };
        tp_pool_run_ranges(r.chunks, pick_range, &r);
    }
    tp_free(place);
    tp_tensor_unref(dense);
    return tp_dense_done(to, out, true);
}

/* index_select(self, dim, index) */
TP_HOOK_K(tp_k_index_select)
{
    const char *error = arg[0].tensor->ndim > 1 ? "INDICES element is out of DATA bounds, id=%lld axis_dim=%lld" : "index out of range in self";
    return pick_rows(arg[0].tensor, tp_as_int(arg[1]), arg[2].tensor, error, out[0]);
}

/* embedding(weight, indices, …) */
TP_HOOK_K(tp_k_embedding)
{
    return pick_rows(arg[0].tensor, 0, arg[1].tensor, "index out of range in self", out[0]);
}

/* ---- gradients of embedding: rows are summed into a table ---- */
typedef struct table {
    const int64_t *index;
    const char    *from;
    char          *to;
    const double  *scale;               /* by table row; NULL: none */
    tp_combine_fn *add;
    int64_t        rows, columns, padding;
    size_t         element;
} table;

/* A chunk owns a range of columns, so sums have one order and no two threads write one place. */
static void table_chunk(void *pointer, int64_t index, int64_t count)
{
    const table *t = pointer;
    int64_t first = tp_chunk_at(t->columns, index, count), n = tp_chunk_at(t->columns, index + 1, count) - first;
    int64_t step = (int64_t)t->element;
    for (int64_t i = 0; i < t->rows; i++)
        if (t->index[i] != t->padding)
            t->add(n, t->to + (size_t)(t->index[i] * t->columns + first) * t->element, step,
                   t->from + (size_t)(i * t->columns + first) * t->element, step);
}

/* Divides the rows of a table by how often they were used. */
static bool scale_by_frequency(const int64_t *index, int64_t count, tp_tensor *to)
{
    int64_t n = to->size[0], width = to->size[1], *uses = tp_alloc_zero((size_t)(n + 1) * sizeof *uses);
    if (!uses)
        return false;
    for (int64_t i = 0; i < count; i++)
        uses[index[i]]++;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; uses[i] > 1 && j < width; j++) {
            char *at = (char *)tp_tensor_data(to) + (size_t)(i * width + j) * tp_dtype_bytes((tp_dtype)to->dtype);
            tp_scalar_write(tp_scalar_float(tp_scalar_to_double(tp_scalar_read(at, (tp_dtype)to->dtype)) / (double)uses[i]), at, (tp_dtype)to->dtype);
        }
    tp_free(uses);
    return true;
}

/* embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
TP_HOOK_K(tp_k_embedding_backward)
{
    const tp_tensor *grad = arg[0].tensor, *index = arg[1].tensor;
    tp_dtype d = tp_row_dtype((tp_dtype)grad->dtype);
    int64_t *place = read_indices(index, tp_as_int(arg[2]), false, "index out of range in self");
    tp_tensor *from = place ? tp_dense(grad, d) : NULL, *to = from ? tp_dense_out(out[0], d) : NULL;
    bool ok = to != NULL;
    if (ok && to->numel) {
        table t = { place, tp_tensor_data(from), tp_tensor_data(to), NULL, tp_combine_of(TP_COMBINE_ADD, d), index->numel,
                    to->size[1], tp_as_int(arg[3]), tp_dtype_bytes(d) };
        memset(t.to, 0, (size_t)to->numel * t.element);
        int64_t chunks = tp_chunks_of(t.columns, t.rows);
        tp_pool_run(chunks < (t.columns + 31) / 32 ? chunks : (t.columns + 31) / 32, table_chunk, &t);
        ok = !tp_as_bool(arg[4]) || scale_by_frequency(place, index->numel, to);
    }
    tp_free(place);
    tp_tensor_unref(from);
    return tp_dense_done(to, out[0], ok);
}

/* ---- writes along a dim ---- */

/* Calls `line` for each run of inner elements: x[outer, index[k], inner] and source[outer, k, inner]. */
typedef struct writer {
    tp_tensor     *self;
    const tp_tensor *source;            /* dense; 0-d or with the sizes of self but for the dim; NULL: `value` */
    const char    *value;
    tp_combine_fn *add;                 /* NULL: plain write */
    const int64_t *index;
    int64_t        count;
    int            dim;
} writer;

static void write_rows(const writer *w)
{
    tp_tensor *x = w->self;
    size_t bytes = tp_dtype_bytes((tp_dtype)x->dtype);
    int64_t step = (int64_t)bytes, size[TP_MAX_DIMS], x_stride[TP_MAX_DIMS], s_stride[TP_MAX_DIMS], at[TP_MAX_DIMS] = { 0 };
    int64_t x_offset = 0, s_offset = 0, n = 1, x_step = 0, s_step = 0, dim_stride = 0, s_dim_stride = 0;
    int rest = 0, last;
    for (int i = 0; i < x->ndim; i++) {
        int64_t s = w->source && w->source->ndim ? w->source->stride[i] * step : 0;
        if (i == w->dim) {
            dim_stride = x->stride[i] * step;
            s_dim_stride = s;
            continue;
        }
        size[rest] = x->size[i];
        x_stride[rest] = x->stride[i] * step;
        s_stride[rest++] = s;
    }
    last = rest - 1;
    if (last >= 0) {
        n = size[last];
        x_step = x_stride[last];
        s_step = s_stride[last];
    }
    const char *source = w->source ? tp_tensor_data(w->source) : w->value;
    int64_t *const moving[3] = { &x_offset, &s_offset };
    const int64_t *const moves[3] = { x_stride, s_stride };
    do {
        for (int64_t k = 0; k < w->count; k++) {
            char *to = (char *)tp_tensor_data(x) + x_offset + w->index[k] * dim_stride;
            const char *from = source + s_offset + k * s_dim_stride;
            if (w->add)
                w->add(n, to, x_step, from, s_step);
            else
                tp_move_elements(bytes, n, to, x_step, from, s_step);
        }
    } while (last > 0 && tp_next(last, size, at, moving, moves));
}

static bool write_along(tp_tensor *self, int64_t dim, const tp_tensor *index, const tp_tensor *source, const char *value, tp_combine_fn *add)
{
    int at = tp_wrap_dim(dim, self->ndim);
    int64_t *place = read_indices(index, self->ndim ? self->size[at] : 1, !add, "index %lld is out of bounds for dimension with size %lld");
    if (!place)
        return false;
    if (self->numel) {
        writer w = { self, source, value, add, place, index->numel, at };
        write_rows(&w);
    }
    tp_free(place);
    return true;
}

/* index_add_(self, dim, index, source, alpha) */
TP_HOOK_K(tp_k_index_add)
{
    if (!tp_check_written(out[0]))
        return false;
    tp_dtype d = (tp_dtype)out[0]->dtype;
    const tp_tensor *source = arg[3].tensor;
    tp_tensor *scaled = tp_dense(source, d);
    tp_scalar alpha = tp_as_scalar(arg[4]);
    if (scaled && !(alpha.kind != TP_KIND_COMPLEX && tp_scalar_to_double(alpha) == 1)) {
        tp_tensor *factor = tp_tensor_new_scalar(d, alpha), *copy = factor ? tp_clone(scaled, TP_FORMAT_CONTIGUOUS) : NULL;
        if (copy)
            tp_combine_of(TP_COMBINE_MUL, d)(copy->numel, tp_tensor_data(copy), (int64_t)tp_dtype_bytes(d), tp_tensor_data(factor), 0);
        tp_tensor_unref(factor);
        tp_tensor_unref(scaled);
        scaled = copy;
    }
    bool ok = scaled && write_along(out[0], tp_as_int(arg[1]), arg[2].tensor, scaled, NULL, tp_combine_of(TP_COMBINE_ADD, d));
    tp_tensor_unref(scaled);
    return ok;
}

/* index_copy_(self, dim, index, source) */
TP_HOOK_K(tp_k_index_copy)
{
    if (!tp_check_written(out[0]))
        return false;
    tp_tensor *source = tp_contiguous(arg[3].tensor);
    bool ok = source && write_along(out[0], tp_as_int(arg[1]), arg[2].tensor, source, NULL, NULL);
    tp_tensor_unref(source);
    return ok;
}

/* index_fill_(self, dim, index, value): value is a number or a 0-d tensor. */
TP_HOOK_K(tp_k_index_fill)
{
    _Alignas(16) char value[16];
    const tp_tensor *t = tp_as_tensor(arg[3]);
    if (t && t->ndim)
        return tp_fail(TP_ERR_RUNTIME, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", t->ndim);
    tp_scalar_write(t ? tp_scalar_read(tp_tensor_data(t), (tp_dtype)t->dtype) : tp_as_scalar(arg[3]), value, (tp_dtype)out[0]->dtype);
    return write_along(out[0], tp_as_int(arg[1]), arg[2].tensor, NULL, value, NULL);
}

/* ---- the tensor as one row ---- */

/* take(self, index) */
TP_HOOK_K(tp_k_take)
{
    const tp_tensor *self = arg[0].tensor;
    size_t bytes = tp_dtype_bytes((tp_dtype)self->dtype);
    int64_t *place = read_indices(arg[1].tensor, self->numel, true, "out of range: tried to access index %lld on a tensor of %lld elements.");
    tp_tensor *dense = place ? tp_contiguous(self) : NULL, *to = dense ? tp_dense_out(out[0], (tp_dtype)self->dtype) : NULL;
    if (to && to->numel) {
        rows r = { place, tp_tensor_data(dense), tp_tensor_data(to), 1, self->numel, to->numel, bytes, tp_chunks_of(to->numel, 1) };
        tp_pool_run_ranges(r.chunks, pick_range, &r);
    }
    tp_free(place);
    tp_tensor_unref(dense);
    return tp_dense_done(to, out[0], true);
}

/* put_(self, index, source, accumulate) */
TP_HOOK_K(tp_k_put)
{
    if (!tp_check_written(out[0]))
        return false;
    tp_dtype d = (tp_dtype)out[0]->dtype;
    size_t bytes = tp_dtype_bytes(d);
    int64_t *place = read_indices(arg[1].tensor, out[0]->numel, true, "out of range: tried to access index %lld on a tensor of %lld elements.");
    tp_tensor *source = place ? tp_dense(arg[2].tensor, d) : NULL, *to = source ? tp_dense(out[0], d) : NULL;
    tp_combine_fn *add = tp_as_bool(arg[3]) ? tp_combine_of(TP_COMBINE_ADD, d) : NULL;
    for (int64_t i = 0; to && i < source->numel; i++) {
        char *at = (char *)tp_tensor_data(to) + (size_t)place[i] * bytes;
        const char *from = (const char *)tp_tensor_data(source) + (size_t)i * bytes;
        if (add)
            add(1, at, 0, from, 0);
        else
            memcpy(at, from, bytes);
    }
    tp_free(place);
    tp_tensor_unref(source);
    return tp_dense_done(to, out[0], true);
}
