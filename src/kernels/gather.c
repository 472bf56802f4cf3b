/* gather.c - an index for every element: gather, scatter and their like.
 *
 *     gather   out[i, j] = x[index[i, j], j]            dim 0
 *     scatter  out[index[i, j], j] = source[i, j]       or combined: add, multiply, max, min, mean
 *
 * Both walk the index tensor line by line along its last dim. An index that is broadcast along that dim (stride 0) moves
 * whole lines. Scatters run serially, so that equal indices combine in order. */
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"
#include "ops/run.h"

enum { MOST_DIMS = TP_MAX_DIMS };

typedef struct work work;
/* Moves a line of n elements; gives how many were done before an index out of range. */
typedef int64_t line_fn(const work *w, int64_t n, const char *index, char *x, char *other);

/* `x` is addressed through the index, `other` has the index's shape. Strides in bytes, by dim of the index; x's stride of
 * the dim itself is 0 there and stands in dim_stride. */
struct work {
    char    *x, *other;
    const char *index;
    int      ndim, dim;
    int64_t  size[MOST_DIMS], x_stride[MOST_DIMS], other_stride[MOST_DIMS], index_stride[MOST_DIMS];
    int64_t  limit, dim_stride;
    int64_t  x_step, other_step, index_step;    /* along the line */
    size_t   bytes, index_bytes;
    bool     to_x;
    line_fn *line;
    tp_combine_fn *combine;
    _Atomic int64_t bad;                        /* an index out of range */
    _Atomic bool    failed;
};

/* One function for each type of index; `at` is the place the index names. */
#define TYPED_LINE(name, I, ...)                                                                           \
    static int64_t name(const work *w, int64_t n, const char *index, char *x, char *other)                 \
    {                                                                                                      \
        const int64_t index_step = w->index_step, other_step = w->other_step, x_step = w->x_step;          \
        const int64_t dim_stride = w->dim_stride;                                                          \
        const uint64_t limit = (uint64_t)w->limit;                                                         \
        for (int64_t i = 0; i < n; i++, index += index_step, other += other_step, x += x_step) {           \
            int64_t k = *(const I *)index;                                                                 \
            if (TP_UNLIKELY((uint64_t)k >= limit))                                                         \
                return i;                                                                                  \
            char *at = x + k * dim_stride;                                                                 \
            __VA_ARGS__;                                                                                   \
        }                                                                                                  \
        return n;                                                                                          \
    }
#define LINE(name, ...)                                 \
    TYPED_LINE(name##_i32, int32_t, __VA_ARGS__)        \
    TYPED_LINE(name##_i64, int64_t, __VA_ARGS__)
#define LINES(bytes)                                    \
    LINE(gather_##bytes, memcpy(other, at, bytes))      \
    LINE(scatter_##bytes, memcpy(at, other, bytes))
LINES(1)
LINES(2)
LINES(4)
LINES(8)
LINES(16)
LINE(combine, w->combine(1, at, 0, other, 0))
LINE(add_f32, *(float *)at += *(const float *)other)
LINE(add_f64, *(double *)at += *(const double *)other)

/* The index stands still: one place for the whole line. */
static int64_t whole_line(const work *w, int64_t n, const char *index, char *x, char *other)
{
    int64_t k = tp_read_index(index, w->index_bytes);
    if (k < 0 || k >= w->limit)
        return 0;
    char *at = x + k * w->dim_stride;
    if (w->combine)
        w->combine(n, at, w->x_step, other, w->other_step);
    else if (w->to_x)
        tp_move_elements(w->bytes, n, at, w->x_step, other, w->other_step);
    else
        tp_move_elements(w->bytes, n, other, w->other_step, at, w->x_step);
    return n;
}

static line_fn *choose_line(const work *w, tp_dtype d)
{
#define PAIR(name) { name##_i32, name##_i64 }
    static line_fn *const by_size[5][2][2] = {
        { PAIR(gather_1), PAIR(scatter_1) }, { PAIR(gather_2), PAIR(scatter_2) }, { PAIR(gather_4), PAIR(scatter_4) },
        { PAIR(gather_8), PAIR(scatter_8) }, { PAIR(gather_16), PAIR(scatter_16) },
    };
    static line_fn *const combining[3][2] = { PAIR(combine), PAIR(add_f32), PAIR(add_f64) };
#undef PAIR
    bool wide = w->index_bytes == 8, adds = w->combine == tp_combine_of(TP_COMBINE_ADD, d);
    if (w->ndim && w->dim != w->ndim - 1 && w->index_step == 0)
        return whole_line;
    if (w->combine)
        return combining[adds && d == TP_f32 ? 1 : adds && d == TP_f64 ? 2 : 0][wide];
    return by_size[__builtin_ctzl(w->bytes)][w->to_x][wide];
}

static void chunk(void *pointer, int64_t number, int64_t count)
{
    work *w = pointer;
    int outer = w->ndim ? w->ndim - 1 : 0;
    int64_t n = w->ndim ? w->size[outer] : 1, lines = 1, at[MOST_DIMS], x = 0, other = 0, index = 0;
    for (int i = 0; i < outer; i++)
        lines *= w->size[i];
    int64_t first = tp_chunk_at(lines, number, count), end = tp_chunk_at(lines, number + 1, count), k = first;
    for (int d = outer - 1; d >= 0; d--) {
        at[d] = k % w->size[d];
        k /= w->size[d];
        x += at[d] * w->x_stride[d];
        other += at[d] * w->other_stride[d];
        index += at[d] * w->index_stride[d];
    }
    int64_t *const moving[3] = { &x, &other, &index };
    const int64_t *const moves[3] = { w->x_stride, w->other_stride, w->index_stride };
    for (int64_t i = first; i < end; i++) {
        int64_t done = w->line(w, n, w->index + index, w->x + x, w->other + other);
        if (done < n) {
            w->bad = tp_read_index(w->index + index + done * w->index_step, w->index_bytes);
            w->failed = true;
            return;
        }
        tp_next(outer, w->size, at, moving, moves);
    }
}

/* `other` NULL: one value for all, at `value`. */
static bool run(tp_tensor *x, int64_t dim, const tp_tensor *index, const tp_tensor *other, const char *value, bool to_x, tp_combine_fn *combine)
{
    work w = { .x = tp_tensor_data(x), .other = other ? tp_tensor_data(other) : (char *)value, .index = tp_tensor_data(index) };
    int64_t bytes = (int64_t)tp_dtype_bytes((tp_dtype)x->dtype), index_bytes = (int64_t)tp_dtype_bytes((tp_dtype)index->dtype);
    if (!index->numel)
        return true;
    w.ndim = index->ndim;
    w.dim = tp_wrap_dim(dim, x->ndim);
    w.bytes = (size_t)bytes;
    w.index_bytes = (size_t)index_bytes;
    w.to_x = to_x;
    w.combine = combine;
    w.limit = x->ndim ? x->size[w.dim] : 1;
    w.dim_stride = x->ndim ? x->stride[w.dim] * bytes : 0;
    for (int i = 0; i < w.ndim; i++) {
        w.size[i] = index->size[i];
        w.index_stride[i] = index->stride[i] * index_bytes;
        w.x_stride[i] = i == w.dim || !x->ndim ? 0 : x->stride[i] * bytes;
        w.other_stride[i] = other && other->ndim ? other->stride[i] * bytes : 0;
    }
    int last = w.ndim - 1;
    if (last >= 0) {
        w.x_step = w.x_stride[last];
        w.other_step = w.other_stride[last];
        w.index_step = w.index_stride[last];
    }
    w.line = choose_line(&w, (tp_dtype)x->dtype);
    int64_t n = last < 0 ? 1 : w.size[last];
    tp_pool_run(to_x ? 1 : tp_chunks_of(index->numel / n, n), chunk, &w);
    if (w.failed)
        return tp_fail(TP_ERR_RUNTIME, "index %lld is out of bounds for dimension %d with size %lld", LL(w.bad), w.dim, LL(w.limit));
    return true;
}

/* gather(self, dim, index, sparse_grad) */
TP_HOOK_K(tp_k_gather)
{
    return run(arg[0].tensor, tp_as_int(arg[1]), arg[2].tensor, out[0], NULL, false, NULL);
}

/* ---- scatters write out[0], which is self or holds its elements already ---- */

/* The number or 0-d value of an argument as an element of type d. */
static void write_value(tp_value v, tp_dtype d, char *to)
{
    const tp_tensor *t = tp_as_tensor(v);
    tp_scalar_write(t ? tp_scalar_read(tp_tensor_data(t), (tp_dtype)t->dtype) : tp_as_scalar(v), to, d);
}

static bool scatter(const tp_value *arg, tp_tensor *out, tp_combine_fn *combine)
{
    if (!tp_check_written(out))
        return false;
    const tp_tensor *source = tp_as_tensor(arg[3]);
    _Alignas(16) char value[16];
    if (!source)
        write_value(arg[3], (tp_dtype)out->dtype, value);
    return run(out, tp_as_int(arg[1]), arg[2].tensor, source, value, true, combine);
}

/* scatter_.src(self, dim, index, src), scatter_.value(self, dim, index, value) */
TP_HOOK_K(tp_k_scatter)
{
    return scatter(arg, out[0], NULL);
}

/* scatter_add_(self, dim, index, src) */
TP_HOOK_K(tp_k_scatter_add)
{
    return scatter(arg, out[0], tp_combine_of(TP_COMBINE_ADD, (tp_dtype)out[0]->dtype));
}

static bool is(tp_value v, const char *text)
{
    return v.tag == TP_STRING && strcmp(v.string->text, text) == 0;
}

/* scatter_.reduce(self, dim, index, src, *, reduce): add or multiply */
TP_HOOK_K(tp_k_scatter_combine)
{
    bool add = is(arg[4], "add");
    if (!add && !is(arg[4], "multiply"))
        return tp_fail(TP_ERR_RUNTIME, "reduce argument must be either add or multiply.");
    return scatter(arg, out[0], tp_combine_of(add ? TP_COMBINE_ADD : TP_COMBINE_MUL, (tp_dtype)out[0]->dtype));
}

/* ---- scatter_reduce: five reductions, with or without the elements that stood there ---- */

/* What an untouched element counts as when `self` shall not. */
static tp_scalar neutral(const char *reduce, tp_dtype d)
{
    if (strcmp(reduce, "prod") == 0)
        return tp_scalar_int(1);
    if (strcmp(reduce, "amax") == 0 || strcmp(reduce, "amin") == 0) {
        bool lowest = reduce[2] == 'a';
        if (tp_dtype_is_float(d))
            return tp_scalar_float(lowest ? -__builtin_inf() : __builtin_inf());
        int64_t bits = (int64_t)tp_dtype_bytes(d) * 8, top = d == TP_b8 ? 1 : d == TP_u8 ? 255 : (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
        return tp_scalar_int(!lowest ? top : d == TP_u8 || d == TP_b8 ? 0 : -top - 1);
    }
    return tp_scalar_int(0);
}

/* Divides sums by their counts: integers round down, as PyTorch's mean of integers does. */
static void divide(tp_tensor *t, const int64_t *count)
{
    tp_dtype d = (tp_dtype)t->dtype;
    char *at = tp_tensor_data(t);
    for (int64_t i = 0; i < t->numel; i++, at += tp_dtype_bytes(d)) {
        if (count[i] < 2)
            continue;
        tp_scalar s = tp_scalar_read(at, d);
        if (s.kind <= TP_KIND_INTEGER)
            s.i = tp_int_floordiv(s.i, count[i]);
        else if (s.kind == TP_KIND_FLOAT)
            s.f /= (double)count[i];
        else
            s.c = (tp_c128){ s.c.re / (double)count[i], s.c.im / (double)count[i] };
        tp_scalar_write(s, at, d);
    }
}

/* How many elements went into each place, in the shape of `self`. */
static tp_tensor *count_places(const tp_tensor *self, int64_t dim, const tp_tensor *index, bool include_self)
{
    static const int64_t one = 1;
    tp_tensor *count = tp_tensor_new(TP_i64, self->ndim, self->size);
    if (!count)
        return NULL;
    tp_fill(count, tp_scalar_int(include_self));
    if (run(count, dim, index, NULL, (const char *)&one, true, tp_combine_of(TP_COMBINE_ADD, TP_i64)))
        return count;
    tp_tensor_unref(count);
    return NULL;
}

/* Combines src into out, which holds the elements of self. */
static bool reduce_into(tp_tensor *out, int64_t dim, const tp_tensor *index, const tp_tensor *src, const char *reduce, bool include_self)
{
    if (!tp_check_written(out))
        return false;
    tp_dtype d = (tp_dtype)out->dtype;
    bool mean = strcmp(reduce, "mean") == 0;
    tp_combine how = strcmp(reduce, "prod") == 0 ? TP_COMBINE_MUL : strcmp(reduce, "amax") == 0 ? TP_COMBINE_MAX
                   : strcmp(reduce, "amin") == 0 ? TP_COMBINE_MIN : TP_COMBINE_ADD;
    tp_combine_fn *combine = tp_combine_of(how, d);
    tp_tensor *sums = combine ? tp_dense(out, d) : tp_fail(TP_ERR_UNIMPLEMENTED, "\"scatter_reduce\" not implemented for '%s'", tp_dtypes[d].title);
    tp_tensor *count = NULL;
    bool ok = sums != NULL;
    if (ok && !include_self) {
        _Alignas(16) char start[16];
        tp_scalar_write(neutral(reduce, d), start, d);
        ok = run(sums, dim, index, NULL, start, true, NULL);
    }
    ok = ok && run(sums, dim, index, src, NULL, true, combine);
    if (ok && mean) {
        ok = (count = count_places(sums, dim, index, include_self)) != NULL;
        if (ok)
            divide(sums, tp_tensor_data(count));
    }
    tp_tensor_unref(count);
    return tp_dense_done(sums, out, ok);
}

/* scatter_reduce_.two(self, dim, index, src, reduce, *, include_self) */
TP_HOOK_K(tp_k_scatter_reduce)
{
    return reduce_into(out[0], tp_as_int(arg[1]), arg[2].tensor, arg[3].tensor, arg[4].string->text, tp_as_bool(arg[5]));
}

/* index_reduce_(self, dim, index, source, reduce, *, include_self): a scatter whose index is the same for all other dims. */
TP_HOOK_K(tp_k_index_reduce)
{
    const tp_tensor *source = arg[3].tensor;
    int dim = tp_wrap_dim(tp_as_int(arg[1]), source->ndim);
    int64_t limit = out[0]->ndim ? out[0]->size[dim] : 1;
    tp_tensor *index = tp_dense(arg[2].tensor, TP_i64);
    bool ok = index != NULL;
    for (int64_t i = 0; ok && i < index->numel; i++)
        ok = (uint64_t)((const int64_t *)tp_tensor_data(index))[i] < (uint64_t)limit || tp_fail(TP_ERR_INDEX, "index out of range in self");
    if (ok) {
        tp_geometry g = { .dtype = TP_i64, .ndim = source->ndim, .device = source->device, .offset = index->offset };
        for (int i = 0; i < source->ndim; i++) {
            g.size[i] = source->size[i];
            g.stride[i] = i == dim;
        }
        tp_tensor *spread = tp_tensor_view_as(index, &g);
        ok = spread && reduce_into(out[0], dim, spread, source, arg[4].string->text, tp_as_bool(arg[5]));
        tp_tensor_unref(spread);
    }
    tp_tensor_unref(index);
    return ok;
}
