/* places.c - the largest element of windows of any size with its place, and values put at given places of a plane.
 *
 * Adaptive and fractional max pooling choose their windows; their gradients and max unpooling put elements at the places
 * that were found. A place counts in row-major order of the plane: the last two or three dims. Of equal elements the first
 * is taken, of several NaN the last. */
#include <math.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"

/* A window of one dim: from … to. */
typedef struct span {
    int64_t from, to;
} span;

typedef struct pooling {
    bool     wide;                      /* f64 */
    int64_t  planes, in[3], out[3], kernel[3];
    const void *x, *samples;            /* samples: planes x dims, NULL when adaptive */
    void    *y;
    int64_t *index;
    int      dims;
} pooling;

static double sample(const pooling *p, int64_t plane, int d)
{
    int64_t at = plane * p->dims + d;
    return p->wide ? ((const double *)p->samples)[at] : ((const float *)p->samples)[at];
}

/* Steps of a fractional pooling: as even as the sample lets them be, the last one ends with the input. Computed in the type
 * of the samples. */
static span fractional(const pooling *p, int axis, int64_t at, double u)
{
    int64_t last = p->in[axis] - p->kernel[axis], begin = last;
    if (at + 1 < p->out[axis]) {
        double step = (double)last / (double)(p->out[axis] - 1);
        if (p->wide)
            begin = (int64_t)(((double)at + u) * step) - (int64_t)(u * step);
        else
            begin = (int64_t)((float)((float)at + (float)u) * (float)step) - (int64_t)((float)u * (float)step);
    }
    return (span){ begin, begin + p->kernel[axis] };
}

static span adaptive(const pooling *p, int axis, int64_t at)
{
    int64_t size = p->in[axis], out = p->out[axis];
    return (span){ at * size / out, ((at + 1) * size + out - 1) / out };
}

/* Samples of three dims stand in the order of the dims, those of two the other way round. */
static span window(const pooling *p, int64_t plane, int axis, int64_t at)
{
    if (axis < 3 - p->dims)
        return (span){ 0, 1 };
    if (!p->samples)
        return adaptive(p, axis, at);
    return fractional(p, axis, at, sample(p, plane, p->dims == 3 ? axis : 2 - axis));
}

#define LARGEST(T)                                                                                  \
    static int64_t largest_##T(const pooling *p, const T *x, const span w[3], T *value)             \
    {                                                                                               \
        int64_t best = (w[0].from * p->in[1] + w[1].from) * p->in[2] + w[2].from;                   \
        T most = -(T)INFINITY;                                                                      \
        for (int64_t i = w[0].from; i < w[0].to; i++)                                               \
            for (int64_t j = w[1].from; j < w[1].to; j++)                                           \
                for (int64_t k = w[2].from; k < w[2].to; k++) {                                     \
                    int64_t at = (i * p->in[1] + j) * p->in[2] + k;                                 \
                    if (x[at] > most || x[at] != x[at])                                             \
                        most = x[at], best = at;                                                    \
                }                                                                                   \
        *value = most;                                                                              \
        return best;                                                                                \
    }
LARGEST(float)
LARGEST(double)
#undef LARGEST

static void pool_plane(const pooling *p, int64_t plane)
{
    int64_t in = p->in[0] * p->in[1] * p->in[2], out = p->out[0] * p->out[1] * p->out[2];
    for (int64_t o = 0; o < out; o++) {
        span w[3] = { window(p, plane, 0, o / p->out[2] / p->out[1]), window(p, plane, 1, o / p->out[2] % p->out[1]),
                      window(p, plane, 2, o % p->out[2]) };
        int64_t to = plane * out + o;
        p->index[to] = p->wide ? largest_double(p, (const double *)p->x + plane * in, w, (double *)p->y + to)
                               : largest_float(p, (const float *)p->x + plane * in, w, (float *)p->y + to);
    }
}

static void pool_chunk(void *work, int64_t index, int64_t count)
{
    const pooling *p = work;
    for (int64_t i = tp_chunk_at(p->planes, index, count); i < tp_chunk_at(p->planes, index + 1, count); i++)
        pool_plane(p, i);
}

static int64_t last_sizes(const tp_tensor *t, int dims, int64_t size[3])
{
    size[0] = 1;
    for (int i = 0; i < dims; i++)
        size[3 - dims + i] = t->size[t->ndim - dims + i];
    return size[0] * size[1] * size[2];
}

static bool pool(pooling *p, int dims, const tp_tensor *x, const tp_tensor *samples, tp_tensor **out)
{
    tp_dtype d = tp_row_dtype((tp_dtype)x->dtype);
    int64_t area = last_sizes(x, dims, p->in);
    p->wide = d == TP_f64;
    p->dims = dims;
    p->planes = last_sizes(out[0], dims, p->out) && area ? x->numel / area : 0;
    tp_tensor *from = tp_dense(x, d), *draws = from && samples ? tp_dense(samples, d) : NULL;
    tp_tensor *y = from && (draws || !samples) ? tp_dense_out(out[0], d) : NULL, *index = y ? tp_dense_out(out[1], TP_i64) : NULL;
    bool ok = index != NULL;
    if (ok) {
        p->x = tp_tensor_data(from);
        p->samples = draws ? tp_tensor_data(draws) : NULL;
        p->y = tp_tensor_data(y);
        p->index = tp_tensor_data(index);
        tp_pool_run(tp_chunks_of(p->planes, area), pool_chunk, p);
    }
    tp_tensor_unref(from);
    tp_tensor_unref(draws);
    ok = tp_dense_done(index, out[1], ok);
    return tp_dense_done(y, out[0], ok);
}

TP_HOOK_K(tp_k_adaptive_max_pool2d) { return pool(&(pooling){ 0 }, 2, arg[0].tensor, NULL, out); }
TP_HOOK_K(tp_k_adaptive_max_pool3d) { return pool(&(pooling){ 0 }, 3, arg[0].tensor, NULL, out); }

/* (self, kernel_size, output_size, random_samples) */
static bool fractional_pool(int dims, const tp_value *arg, tp_tensor **out)
{
    pooling p = { .kernel = { 1, 1, 1 } };
    return tp_as_ints(arg[1], p.kernel + 3 - dims, dims, dims) == dims && pool(&p, dims, arg[0].tensor, arg[3].tensor, out);
}
TP_HOOK_K(tp_k_fractional_max_pool2d) { return fractional_pool(2, arg, out); }
TP_HOOK_K(tp_k_fractional_max_pool3d) { return fractional_pool(3, arg, out); }

/* ---- elements put at places ---- */

typedef struct putting {
    size_t         bytes;
    int64_t        planes, small, large;    /* elements of a plane: given, made */
    const char    *from;
    const int64_t *index;
    char          *to;
    tp_combine_fn *add;                     /* NULL: the last element put at a place stays */
    atomic_bool    bad;                     /* an index is no place */
} putting;

static void put_chunk(void *work, int64_t chunk, int64_t count)
{
    putting *p = work;
    int64_t bytes = (int64_t)p->bytes;
    for (int64_t i = tp_chunk_at(p->planes, chunk, count); i < tp_chunk_at(p->planes, chunk + 1, count); i++) {
        char *to = p->to + i * p->large * bytes;
        memset(to, 0, (size_t)(p->large * bytes));
        for (int64_t k = i * p->small; k < (i + 1) * p->small; k++) {
            if ((uint64_t)p->index[k] >= (uint64_t)p->large) {
                p->bad = true;
                return;
            }
            if (p->add)
                p->add(1, to + p->index[k] * bytes, bytes, p->from + k * bytes, bytes);
            else
                memcpy(to + p->index[k] * bytes, p->from + k * bytes, p->bytes);
        }
    }
}

/* Gives the index that is no place in *bad, when there is one; false then, and when memory is short. */
static bool put(int dims, bool add, const tp_tensor *from, const tp_tensor *index, tp_tensor *out, int64_t *bad)
{
    tp_dtype d = add ? tp_row_dtype((tp_dtype)from->dtype) : (tp_dtype)from->dtype;
    int64_t size[3];
    putting p = { .bytes = tp_dtype_bytes(d), .small = last_sizes(from, dims, size), .large = last_sizes(out, dims, size),
                  .add = add ? tp_combine_of(TP_COMBINE_ADD, d) : NULL };
    p.planes = p.large ? out->numel / p.large : 0;
    tp_tensor *x = tp_dense(from, d), *places = x ? tp_dense(index, TP_i64) : NULL, *y = places ? tp_dense_out(out, d) : NULL;
    bool ok = y != NULL;
    if (ok) {
        p.from = tp_tensor_data(x);
        p.index = tp_tensor_data(places);
        p.to = tp_tensor_data(y);
        tp_pool_run(tp_chunks_of(p.planes, p.small + p.large), put_chunk, &p);
        for (int64_t k = 0; p.bad && ok; k++)       /* the first of them, whichever chunk met one */
            if ((uint64_t)p.index[k] >= (uint64_t)p.large) {
                *bad = p.index[k];
                ok = false;
            }
    }
    tp_tensor_unref(x);
    tp_tensor_unref(places);
    return tp_dense_done(y, out, ok);
}

static bool gradient(int dims, const tp_tensor *g, const tp_tensor *index, tp_tensor *out)
{
    int64_t bad = INT64_MAX;
    if (put(dims, true, g, index, out, &bad))
        return true;
    return bad == INT64_MAX ? false : tp_fail(TP_ERR_RUNTIME, "Found an invalid max index: %lld", LL(bad));
}

/* adaptive: (grad_output, self, indices); fractional: (grad_output, self, kernel_size, output_size, indices) */
TP_HOOK_K(tp_k_adaptive_max_pool2d_backward) { return gradient(2, arg[0].tensor, arg[2].tensor, out[0]); }
TP_HOOK_K(tp_k_adaptive_max_pool3d_backward) { return gradient(3, arg[0].tensor, arg[2].tensor, out[0]); }
TP_HOOK_K(tp_k_fractional_max_pool2d_backward) { return gradient(2, arg[0].tensor, arg[4].tensor, out[0]); }
TP_HOOK_K(tp_k_fractional_max_pool3d_backward) { return gradient(3, arg[0].tensor, arg[4].tensor, out[0]); }

/* (self, indices, output_size, …) */
static bool unpool(int dims, const tp_value *arg, tp_tensor *out)
{
    int64_t bad = INT64_MAX, size[3];
    if (put(dims, false, arg[0].tensor, arg[1].tensor, out, &bad))
        return true;
    last_sizes(out, dims, size);
    if (bad == INT64_MAX)
        return false;
    if (dims == 2)
        return tp_fail(TP_ERR_RUNTIME, "Found an invalid max index: %lld (output volumes are of size %lldx%lld)", LL(bad), LL(size[1]), LL(size[2]));
    return tp_fail(TP_ERR_RUNTIME, "Found an invalid max index: %lld (output volumes are of size %lldx%lldx%lld)",
                   LL(bad), LL(size[0]), LL(size[1]), LL(size[2]));
}
TP_HOOK_K(tp_k_max_unpool2d) { return unpool(2, arg, out[0]); }
TP_HOOK_K(tp_k_max_unpool3d) { return unpool(3, arg, out[0]); }
