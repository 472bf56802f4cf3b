/* distance.c - distances of all pairs of rows, and their gradients: _cdist_forward, _pdist_forward.
 *
 * The norm is a small set of cases: how many differ (0), sums of absolute values (1), of squares (2), the largest (inf), any
 * other power. A row of the result belongs to one row of the first matrix, and so does a row of the gradient, so rows are
 * shared over the pool and nothing is added up between threads. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernels/dense.h"

typedef struct pairs {
    const void *a, *b;          /* rows of `columns` numbers */
    const void *g, *distance;   /* in gradients: one number a pair */
    void       *out;
    double      p;
    int64_t     batches, rows, others, columns;
    bool        single, triangle;           /* of f32; pairs i < j of one matrix */
} pairs;

/* ---- one pair, in either type ---- */
#define DEFINE(T, NAME, ABS, POW, SQRT)                                                               \
    static T NAME##_distance(int64_t n, const T *restrict a, const T *restrict b, T p)                      \
    {                                                                                                       \
        T sum = 0;                                                                                          \
        if (p == 0)                                                                                         \
            for (int64_t i = 0; i < n; i++)                                                                 \
                sum += a[i] != b[i];                                                                        \
        else if (p == 1)                                                                                    \
            for (int64_t i = 0; i < n; i++)                                                                 \
                sum += ABS(a[i] - b[i]);                                                                    \
        else if (p == 2)                                                                                    \
            for (int64_t i = 0; i < n; i++)                                                                 \
                sum += (a[i] - b[i]) * (a[i] - b[i]);                                                       \
        else if (isinf(p))                                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                 \
                sum = isnan(a[i] - b[i]) || ABS(a[i] - b[i]) > sum ? ABS(a[i] - b[i]) : sum;                \
        else                                                                                                \
            for (int64_t i = 0; i < n; i++)                                                                 \
                sum += POW(ABS(a[i] - b[i]), p);                                                            \
        return p == 2 ? SQRT(sum) : p == 0 || p == 1 || isinf(p) ? sum : POW(sum, 1 / p);                   \
    }                                                                                                       \
                                                                                                            \
    /* to += g d(distance)/da */                                                                            \
    static void NAME##_gradient(int64_t n, const T *restrict a, const T *restrict b, T p, T g, T distance, T *restrict to) \
    {                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            T d = a[i] - b[i], sign = (T)((d > 0) - (d < 0)), step;                                         \
            if (p == 0 || (distance == 0 && p != 1))                                                        \
                step = 0;                                                                                   \
            else if (p == 1)                                                                                \
                step = g * sign;                                                                            \
            else if (p == 2)                                                                                \
                step = g * d / distance;                                                                    \
            else if (isinf(p))                                                                              \
                step = g * sign * (ABS(d) == distance);                                                     \
            else if (p < 1 && d == 0)                                                                       \
                step = 0;                                                                                   \
            else                                                                                            \
                step = sign * POW(ABS(d), p - 1) * g / POW(distance, p - 1);                                \
            to[i] += step;                                                                                  \
        }                                                                                                   \
    }
DEFINE(float, f32, fabsf, powf, sqrtf)
DEFINE(double, f64, fabs, pow, sqrt)

/* ---- one row of the first matrix against all of the second ---- */

/* Where pair (i, j), i < j, of n rows stands in the triangle. */
static int64_t triangle_at(int64_t n, int64_t i, int64_t j)
{
    return i * n - i * (i + 1) / 2 + j - i - 1;
}

static void distances_of_row(const pairs *w, int64_t row)
{
    int64_t batch = row / w->rows, i = row % w->rows, n = w->columns;
    int64_t a = row * n, b = batch * w->others * n;
    for (int64_t j = w->triangle ? i + 1 : 0; j < w->others; j++) {
        int64_t to = w->triangle ? triangle_at(w->rows, i, j) : row * w->others + j;
        if (w->single)
            ((float *)w->out)[to] = f32_distance(n, (const float *)w->a + a, (const float *)w->b + b + j * n, (float)w->p);
        else
            ((double *)w->out)[to] = f64_distance(n, (const double *)w->a + a, (const double *)w->b + b + j * n, w->p);
    }
}

static void gradient_of_row(const pairs *w, int64_t row)
{
    int64_t batch = row / w->rows, i = row % w->rows, n = w->columns;
    int64_t a = row * n, b = batch * w->others * n;
    for (int64_t j = 0; j < w->others; j++) {
        if (w->triangle && i == j)
            continue;
        int64_t at = !w->triangle ? row * w->others + j : i < j ? triangle_at(w->rows, i, j) : triangle_at(w->rows, j, i);
        if (w->single)
            f32_gradient(n, (const float *)w->a + a, (const float *)w->b + b + j * n, (float)w->p, ((const float *)w->g)[at],
                         ((const float *)w->distance)[at], (float *)w->out + row * n);
        else
            f64_gradient(n, (const double *)w->a + a, (const double *)w->b + b + j * n, w->p, ((const double *)w->g)[at],
                         ((const double *)w->distance)[at], (double *)w->out + row * n);
    }
}

static void distance_chunk(void *pointer, int64_t index, int64_t count)
{
    const pairs *w = pointer;
    int64_t rows = w->batches * w->rows, end = tp_chunk_at(rows, index + 1, count);
    for (int64_t row = tp_chunk_at(rows, index, count); row < end; row++)
        distances_of_row(w, row);
}

static void gradient_chunk(void *pointer, int64_t index, int64_t count)
{
    const pairs *w = pointer;
    int64_t rows = w->batches * w->rows, end = tp_chunk_at(rows, index + 1, count);
    for (int64_t row = tp_chunk_at(rows, index, count); row < end; row++)
        gradient_of_row(w, row);
}

/* ---- operands ---- */

/* The operand with the batch dims of the result: a copy where it is broadcast. */
static tp_tensor *spread(const tp_tensor *t, const tp_tensor *out)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    int missing = out->ndim - t->ndim;
    for (int i = 0; i < out->ndim; i++) {
        int own = i - missing;
        bool matrix = i >= out->ndim - 2;
        size[i] = matrix ? t->size[own] : out->size[i];
        stride[i] = own < 0 || (!matrix && t->size[own] == 1) ? 0 : t->stride[own];
    }
    tp_tensor *view = tp_tensor_view(t, out->ndim, size, stride, t->offset), *dense = view ? tp_dense(view, (tp_dtype)t->dtype) : NULL;
    tp_tensor_unref(view);
    return dense;
}

static bool run(pairs w, const tp_tensor *a, const tp_tensor *b, const tp_tensor *g, const tp_tensor *distance, tp_tensor *out)
{
    tp_dtype d = (tp_dtype)a->dtype;
    tp_tensor *x = w.triangle ? tp_dense(a, d) : spread(a, out), *y = x ? w.triangle ? tp_tensor_ref(x) : spread(b, out) : NULL;
    tp_tensor *dg = y && g ? tp_dense(g, d) : NULL, *dd = dg ? tp_dense(distance, d) : NULL, *to = y && (!g || dd) ? tp_dense_out(out, d) : NULL;
    bool ok = to != NULL;
    if (ok) {
        w.rows = a->size[a->ndim - 2];
        w.others = b->size[b->ndim - 2];
        w.columns = a->size[a->ndim - 1];
        w.batches = w.rows && w.columns ? x->numel / (w.rows * w.columns) : 0;
        w.single = d == TP_f32;
        w.a = tp_tensor_data(x);
        w.b = tp_tensor_data(y);
        w.out = tp_tensor_data(to);
        if (to->numel)
            memset(w.out, 0, (size_t)to->numel * tp_dtype_bytes(d));
    }
    if (ok && to->numel && w.columns) {
        w.g = dg ? tp_tensor_data(dg) : NULL;
        w.distance = dd ? tp_tensor_data(dd) : NULL;
        tp_pool_run(tp_chunks_of(w.batches * w.rows, w.others * w.columns), g ? gradient_chunk : distance_chunk, &w);
    }
    tp_tensor_unref(x);
    tp_tensor_unref(y);
    tp_tensor_unref(dg);
    tp_tensor_unref(dd);
    return tp_dense_done(to, out, ok);
}

/* _cdist_forward(x1, x2, p, compute_mode) */
TP_HOOK_K(tp_k_cdist)
{
    return run((pairs){ .p = tp_as_double(arg[2]) }, arg[0].tensor, arg[1].tensor, NULL, NULL, out[0]);
}

/* _cdist_backward(grad, x1, x2, p, cdist) */
TP_HOOK_K(tp_k_cdist_backward)
{
    return run((pairs){ .p = tp_as_double(arg[3]) }, arg[1].tensor, arg[2].tensor, arg[0].tensor, arg[4].tensor, out[0]);
}

/* _pdist_forward(self, p) */
TP_HOOK_K(tp_k_pdist)
{
    return run((pairs){ .p = tp_as_double(arg[1]), .triangle = true }, arg[0].tensor, arg[0].tensor, NULL, NULL, out[0]);
}

/* _pdist_backward(grad, self, p, pdist) */
TP_HOOK_K(tp_k_pdist_backward)
{
    return run((pairs){ .p = tp_as_double(arg[2]), .triangle = true }, arg[1].tensor, arg[1].tensor, arg[0].tensor, arg[3].tensor, out[0]);
}
