/* upsample.c - images made larger or smaller: by the nearest element, by linear or cubic weights, by weights over all that a
 * result covers (antialiased), and the gradients.
 *
 * Every kind but the nearest is one matrix per dim, kept as rows of few entries; dims are resampled one after the other, last
 * dim first. A gradient is the same with the matrices turned. Places and weights are computed in f32 (f64 for f64), because
 * the last bit of a place decides which elements are read; not those of a cubic, which is smooth where it goes on to the next ones. */
#include <math.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/remap.h"

typedef enum kind { NEAREST, EXACT, LINEAR, CUBIC, LINEAR_AA, CUBIC_AA, LANCZOS_AA } kind;

/* One dim of a call. */
typedef struct axis {
    kind    how;
    bool    single, corners;        /* single: computed in f32 */
    int64_t from, to;               /* sizes of the small print: read, made */
    double  step;                   /* in elements read for an element made */
} axis;

static double rounded(const axis *a, double x)
{
    return a->single ? (float)x : x;
}

static axis axis_of(kind how, bool single, bool corners, int64_t from, int64_t to, tp_value scale)
{
    axis a = { how, single && how != CUBIC, corners, from, to, 0 };
    double given = scale.tag == TP_NONE ? 0 : tp_as_double(scale);
    if (corners)
        a.step = to > 1 ? rounded(&a, (double)(from - 1) / (double)(to - 1)) : 0;
    else
        a.step = rounded(&a, given > 0 ? 1 / given : rounded(&a, (double)from) / rounded(&a, (double)to));
    return a;
}

/* ---- nearest ---- */

/* The element at a place; scales may be any numbers, and none. */
static int64_t element_at(const axis *a, double place)
{
    return !(place > 0) ? 0 : place < (double)(a->from - 1) ? (int64_t)place : a->from - 1;
}

static int64_t nearest(const axis *a, int64_t at)
{
    return element_at(a, rounded(a, (a->how == EXACT ? (double)at + 0.5 : (double)at) * a->step));
}

/* ---- weights ---- */

/* A matrix of `to` rows: entries start[i] … start[i + 1] of row i. One block. */
typedef struct taps {
    int64_t  from, to;
    int64_t *start, *place;         /* start is owned, and the block */
    double  *weight;
    bool     plain;                 /* row i is 1 at place i: nothing to do */
} taps;

static bool taps_init(taps *t, int64_t from, int64_t to, int64_t entries)
{
    *t = (taps){ .from = from, .to = to };
    t->start = tp_alloc_zero((size_t)(to + 1) * sizeof *t->start + (size_t)entries * (sizeof *t->place + sizeof *t->weight));
    if (!t->start)
        return false;
    t->place = t->start + to + 1;
    t->weight = (double *)(t->place + entries);
    return true;
}

/* Appends an entry to the row that begins at entry `begin`; neighbours beyond the border are one entry. */
static void put(taps *t, int64_t begin, int64_t *n, int64_t place, double weight)
{
    if (*n > begin && t->place[*n - 1] == place) {
        t->weight[*n - 1] += weight;
        return;
    }
    t->place[*n] = place;
    t->weight[(*n)++] = weight;
}

static double source(const axis *a, int64_t at)
{
    if (a->corners)
        return rounded(a, a->step * (double)at);
    return rounded(a, a->step * ((double)at + 0.5) - 0.5);
}

static void linear_row(const axis *a, taps *t, int64_t at, int64_t *n)
{
    double place = source(a, at);
    place = place < 0 ? 0 : place;
    int64_t low = element_at(a, place), high = low < a->from - 1 ? low + 1 : low;
    double share = rounded(a, place - (double)low);
    share = share > 1 ? 1 : share;
    int64_t begin = *n;
    put(t, begin, n, low, rounded(a, 1 - share));
    put(t, begin, n, high, share);
}

/* The cubic that passes through its samples, with slope parameter s: at distance x < 1, and from 1 to 2. */
static double cubic_near(double x, double s) { return ((s + 2) * x - (s + 3)) * x * x + 1; }
static double cubic_far(double x, double s) { return ((s * x - 5 * s) * x + 8 * s) * x - 4 * s; }

static void cubic_row(const axis *a, taps *t, int64_t at, int64_t *n)
{
    static const double slope = -0.75;
    double place = source(a, at), low = floor(place), x = rounded(a, place - low);
    double weight[4] = { cubic_far(x + 1, slope), cubic_near(x, slope), cubic_near(1 - x, slope), cubic_far(2 - x, slope) };
    int64_t begin = *n;
    for (int k = 0; k < 4; k++) {
        put(t, begin, n, element_at(a, low - 1 + k), weight[k]);
    }
}

/* Half of the width that a result covers: one, two or three elements, or as many results. */
static double support(const axis *a)
{
    return (a->how - LINEAR_AA + 1) * (a->step >= 1 ? a->step : 1);
}

static double sinc(double x)
{
    static const double pi = 3.14159265358979323846;
    return x == 0 ? 1 : sin(pi * x) / (pi * x);
}

static double covering(const axis *a, double x)
{
    static const double slope = -0.5;
    x = fabs(x);
    if (a->how == LINEAR_AA)
        return x < 1 ? 1 - x : 0;
    if (a->how == LANCZOS_AA)
        return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    return x < 1 ? cubic_near(x, slope) : x < 2 ? cubic_far(x, slope) : 0;
}

static void covering_row(const axis *a, taps *t, int64_t at, int64_t *n)
{
    double reach = support(a), narrow = a->step >= 1 ? 1 / a->step : 1, middle = rounded(a, a->step * ((double)at + 0.5)), total = 0;
    double to = middle + reach + 0.5;
    int64_t first = element_at(a, middle - reach + 0.5), end = !(to > 0) ? 0 : to < (double)a->from ? (int64_t)to : a->from, begin = *n;
    for (int64_t i = first; i < end; i++) {
        put(t, begin, n, i, rounded(a, covering(a, ((double)(i) - middle + 0.5) * narrow)));
        total += t->weight[*n - 1];
    }
    for (int64_t k = begin; k < *n && total != 0; k++)
        t->weight[k] = rounded(a, t->weight[k] / total);
}

static bool taps_of(const axis *a, taps *t)
{
    double reach = ceil(support(a));            /* a step may be as large as a number can be: then every place counts */
    int64_t width = a->how == LINEAR ? 2 : a->how == CUBIC ? 4 : reach < (double)a->from ? 2 * (int64_t)reach + 2 : a->from + 2, n = 0;
    if (!taps_init(t, a->from, a->to, a->to * width))
        return false;
    t->plain = a->from == a->to && (a->corners || a->step == 1);
    for (int64_t i = 0; i < a->to; i++) {
        t->start[i] = n;
        if (a->how == LINEAR)
            linear_row(a, t, i, &n);
        else if (a->how == CUBIC)
            cubic_row(a, t, i, &n);
        else
            covering_row(a, t, i, &n);
    }
    t->start[a->to] = n;
    return true;
}

/* The turned matrix, entries of a row in order of their columns. */
static bool taps_turned(const taps *t, taps *out)
{
    int64_t entries = t->start[t->to];
    if (!taps_init(out, t->to, t->from, entries))
        return false;
    out->plain = t->plain;
    for (int64_t k = 0; k < entries; k++)
        out->start[t->place[k] + 1]++;
    for (int64_t i = 0; i < out->to; i++)
        out->start[i + 1] += out->start[i];
    for (int64_t i = 0; i < t->to; i++)
        for (int64_t k = t->start[i]; k < t->start[i + 1]; k++) {
            int64_t at = out->start[t->place[k]]++;
            out->place[at] = i;
            out->weight[at] = t->weight[k];
        }
    for (int64_t i = out->to; i > 0; i--)      /* each start has run to the next one's place */
        out->start[i] = out->start[i - 1];
    out->start[0] = 0;
    return true;
}

/* ---- one dim after the other ---- */

/* [outer, from, inner] becomes [outer, to, inner]. */
typedef struct pass {
    const taps *t;
    bool        wide;               /* f64 */
    int64_t     outer, inner;
    const void *from;
    void       *to;
} pass;

#define ROWS(name, T)                                                                                                \
    static void name(const pass *p, int64_t begin, int64_t end)                                                      \
    {                                                                                                                \
        const taps *t = p->t;                                                                                        \
        for (int64_t r = begin; r < end; r++) {                                                                      \
            int64_t i = r % t->to, first = t->start[i], last = t->start[i + 1];                                      \
            const T *from = (const T *)p->from + r / t->to * t->from * p->inner;                                     \
            T *restrict to = (T *)p->to + r * p->inner;                                                              \
            if (p->inner == 1) {                                                                                     \
                T sum = 0;                                                                                           \
                for (int64_t k = first; k < last; k++)                                                               \
                    sum += (T)t->weight[k] * from[t->place[k]];                                                      \
                *to = sum;                                                                                           \
                continue;                                                                                            \
            }                                                                                                        \
            for (int64_t x = 0; x < p->inner; x++)                                                                   \
                to[x] = 0;                                                                                           \
            for (int64_t k = first; k < last; k++) {                                                                 \
                const T weight = (T)t->weight[k], *line = from + t->place[k] * p->inner;                             \
                for (int64_t x = 0; x < p->inner; x++)                                                               \
                    to[x] += weight * line[x];                                                                       \
            }                                                                                                        \
        }                                                                                                            \
    }
ROWS(rows_f32, float)
ROWS(rows_f64, double)
#undef ROWS

static void pass_chunk(void *work, int64_t index, int64_t count)
{
    const pass *p = work;
    int64_t rows = p->outer * p->t->to, begin = tp_chunk_at(rows, index, count), end = tp_chunk_at(rows, index + 1, count);
    if (p->wide)
        rows_f64(p, begin, end);
    else
        rows_f32(p, begin, end);
}

/* Bytes are resampled with weights of 16 bits and rounded after each dim: sums of such products are exact in f64. */
static void quantise(taps *t)
{
    double most = 0;
    int bits = 0;
    for (int64_t k = 0; k < t->start[t->to]; k++)
        most = fmax(most, t->weight[k]);
    while (bits < 22 && floor(0.5 + most * (double)(1 << (bits + 1))) < 1 << 15)
        bits++;
    for (int64_t k = 0; k < t->start[t->to]; k++)
        t->weight[k] = round(t->weight[k] * (double)(1 << bits)) / (double)(1 << bits);
}

static void settle_bytes(tp_tensor *x)
{
    double *v = tp_tensor_data(x);
    for (int64_t i = 0; i < x->numel; i++)
        v[i] = v[i] <= 0 ? 0 : v[i] >= 255 ? 255 : floor(v[i] + 0.5);
}

/* Resamples the last dims of a row-major tensor, dim by dim; matrices of the dims in order. Gives a counted tensor. */
static tp_tensor *resampled(const tp_tensor *x, int dims, const taps *t, bool bytes)
{
    tp_tensor *now = tp_tensor_ref(x);
    for (int d = x->ndim - 1; now && d >= x->ndim - dims; d--) {
        const taps *m = &t[d - (x->ndim - dims)];
        if (m->plain)
            continue;
        int64_t size[TP_MAX_DIMS];
        pass p = { .t = m, .wide = x->dtype == TP_f64, .outer = 1, .inner = 1, .from = tp_tensor_data(now) };
        for (int i = 0; i < x->ndim; i++) {
            size[i] = i == d ? m->to : now->size[i];
            *(i < d ? &p.outer : &p.inner) *= i == d ? 1 : now->size[i];
        }
        tp_tensor *next = tp_tensor_new((tp_dtype)x->dtype, x->ndim, size);
        if (next) {
            p.to = tp_tensor_data(next);
            tp_pool_run(tp_chunks_of(p.outer * m->to, 4 * p.inner), pass_chunk, &p);
        }
        if (next && bytes)
            settle_bytes(next);
        tp_tensor_unref(now);
        now = next;
    }
    return now;
}

static bool weighted(kind how, bool corners, bool backward, const tp_tensor *in, tp_tensor *out, int dims, const tp_value *scale)
{
    const tp_tensor *image = backward ? out : in, *made = backward ? in : out;
    bool bytes = in->dtype == TP_u8, ok = true;
    tp_dtype d = bytes ? TP_f64 : tp_row_dtype((tp_dtype)in->dtype);
    taps t[3] = { { 0 } };
    for (int i = 0; ok && i < dims; i++) {
        axis a = axis_of(how, d != TP_f64, corners, image->size[i + 2], made->size[i + 2], scale[i]);
        ok = taps_of(&a, &t[i]);
        if (ok && bytes)
            quantise(&t[i]);
        if (ok && backward) {
            taps forward = t[i];
            ok = taps_turned(&forward, &t[i]);
            tp_free(forward.start);
            if (!ok)
                t[i].start = NULL;
        }
    }
    tp_tensor *x = ok ? tp_dense(in, d) : NULL, *y = x ? resampled(x, dims, t, bytes) : NULL;
    if (y)
        tp_copy(out, y);
    ok = y != NULL;
    tp_tensor_unref(x);
    tp_tensor_unref(y);
    for (int i = 0; i < dims; i++)
        tp_free(t[i].start);
    return ok;
}

static bool by_nearest(kind how, bool backward, const tp_tensor *in, tp_tensor *out, int dims, const tp_value *scale)
{
    const tp_tensor *image = backward ? out : in, *made = backward ? in : out;
    tp_dtype d = (tp_dtype)in->dtype;
    tp_remap m;
    if (!tp_remap_init(&m, dims, image, made))
        return false;
    for (int i = 0; i < dims; i++) {
        axis a = axis_of(how, true, false, image->size[i + 2], made->size[i + 2], scale[i]);
        for (int64_t k = 0; k < a.to; k++)
            m.at[3 - dims + i][k] = nearest(&a, k);
    }
    bool ok = backward ? tp_remap_spread(&m, in, out, tp_dtype_is_float(d) ? tp_row_dtype(d) : d) : tp_remap_copy(&m, in, out);
    tp_remap_fini(&m);
    return ok;
}

/* (self, output_size, [align_corners,] scales…), and for gradients (grad_output, output_size, input_size, …). */
static bool run(kind how, bool backward, const tp_value *arg, tp_tensor *out)
{
    const tp_tensor *in = arg[0].tensor;
    const tp_value *rest = arg + (backward ? 3 : 2);
    int dims = in->ndim - 2;
    if (!in->numel || !out->numel)
        return true;
    if (how <= EXACT)
        return by_nearest(how, backward, in, out, dims, rest);
    return weighted(how, tp_as_bool(rest[0]), backward, in, out, dims, rest + 1);
}

#define HOOKS(name, how)                                                                    \
    TP_HOOK_K(tp_k_upsample_##name) { return run(how, false, arg, out[0]); }                \
    TP_HOOK_K(tp_k_upsample_##name##_backward) { return run(how, true, arg, out[0]); }
HOOKS(nearest, NEAREST)
HOOKS(nearest_exact, EXACT)
HOOKS(linear, LINEAR)
HOOKS(cubic, CUBIC)
HOOKS(linear_aa, LINEAR_AA)
HOOKS(cubic_aa, CUBIC_AA)
HOOKS(lanczos_aa, LANCZOS_AA)
