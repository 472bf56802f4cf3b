/* layer_norm.c - rows brought to mean 0 and variance 1, and the gradient.
 *
 *     xh = (x - mean) rstd          y = xh w + b
 *     dx = rstd (gw - mean(gw) - xh mean(gw xh)),  gw = g w          dw = sum over rows of g xh        db = sum of g
 *
 * The sums over rows run in a fixed number of bands, added in order: the bits do not depend on threads. */
#include <math.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/rows.h"

enum { MOST_BANDS = 16 };

typedef struct work {
    tp_row   row;
    int64_t  rows, n;
    double   eps;
    const void *x, *w, *b, *g;          /* w, b may be NULL */
    void    *y, *mean, *rstd;           /* y: the output, or dx; NULL: not wanted */
    void    *scratch;                   /* gradients: 2 n a band for sums, then 2 n a band for work */
} work;

static void forward_row(const work *w, int64_t i)
{
    const tp_row *r = &w->row;
    int64_t n = w->n;
    const void *x = tp_row_at(r, w->x, i * n);
    void *y = tp_row_at(r, w->y, i * n);
    tp_row_number mean = tp_row_make(r, tp_row_sum(r, n, x) / (double)n);
    double variance = tp_row_deviation(r, n, tp_row_get(r, &mean), x) / (double)n;
    tp_row_number rstd = tp_row_make(r, tp_row_rstd(r, variance, w->eps));
    tp_row_put(r, tp_row_at(r, w->mean, i), tp_row_get(r, &mean));
    tp_row_put(r, tp_row_at(r, w->rstd, i), tp_row_get(r, &rstd));
    tp_row_normalise(r, n, y, x, &mean, &rstd, w->w, w->b);
}

static void forward_chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t end = tp_chunk_at(w->rows, index + 1, count);
    for (int64_t i = tp_chunk_at(w->rows, index, count); i < end; i++)
        forward_row(w, i);
}

/* native_layer_norm(input, normalized_shape, weight, bias, eps) -> (output, mean, rstd) */
TP_HOOK_K(tp_k_layer_norm)
{
    const tp_tensor *input = arg[0].tensor, *weight = tp_as_tensor(arg[2]), *bias = tp_as_tensor(arg[3]);
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    tp_tensor *x = tp_dense(input, d), *w = weight && x ? tp_dense(weight, d) : NULL, *b = bias && x ? tp_dense(bias, d) : NULL;
    bool ok = x && (w || !weight) && (b || !bias);
    tp_tensor *y = ok ? tp_dense_out(out[0], d) : NULL, *mean = y ? tp_dense_out(out[1], d) : NULL, *rstd = mean ? tp_dense_out(out[2], d) : NULL;
    ok = rstd != NULL;
    if (ok && mean->numel) {
        work job = { tp_row_of(d), mean->numel, x->numel / mean->numel, tp_as_double(arg[4]), tp_tensor_data(x),
                     w ? tp_tensor_data(w) : NULL, b ? tp_tensor_data(b) : NULL, NULL, tp_tensor_data(y), tp_tensor_data(mean), tp_tensor_data(rstd), NULL };
        if (job.n)
            tp_pool_run(tp_chunks_of(job.rows, job.n), forward_chunk, &job);
        else {
            tp_fill(mean, tp_scalar_float(NAN));
            tp_fill(rstd, tp_scalar_float(NAN));
        }
    }
    tp_tensor_unref(x);
    tp_tensor_unref(w);
    tp_tensor_unref(b);
    ok = tp_dense_done(rstd, out[2], ok);
    ok = tp_dense_done(mean, out[1], ok);
    return tp_dense_done(y, out[0], ok);
}

/* ---- the gradient ---- */
static void backward_row(const work *w, int64_t i, void *dw, void *db, void *xh, void *gw)
{
    const tp_row *r = &w->row;
    int64_t n = w->n;
    const void *g = tp_row_at(r, w->g, i * n);
    const void *rstd = tp_row_at(r, w->rstd, i);
    tp_row_normalise(r, n, xh, tp_row_at(r, w->x, i * n), tp_row_at(r, w->mean, i), rstd, NULL, NULL);
    if (dw) {
        tp_row_step(r, TP_PRIM_mul, n, gw, g, xh);
        tp_row_step(r, TP_PRIM_add, n, dw, dw, gw);
        tp_row_step(r, TP_PRIM_add, n, db, db, g);
    }
    if (!w->y)
        return;
    void *dx = tp_row_at(r, w->y, i * n);
    if (w->w)
        tp_row_step(r, TP_PRIM_mul, n, gw, g, w->w);
    else
        memcpy(gw, g, (size_t)(n * r->bytes));
    tp_row_step(r, TP_PRIM_mul, n, dx, gw, xh);
    tp_row_number product = tp_row_make(r, tp_row_sum(r, n, dx) / (double)n), plain = tp_row_make(r, tp_row_sum(r, n, gw) / (double)n);
    tp_row_step_one(r, TP_PRIM_sub, n, gw, gw, &plain);
    tp_row_step_one(r, TP_PRIM_mul, n, xh, xh, &product);
    tp_row_step(r, TP_PRIM_sub, n, dx, gw, xh);
    tp_row_step_one(r, TP_PRIM_mul, n, dx, dx, rstd);
}

static void backward_chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    const tp_row *r = &w->row;
    void *sums = tp_row_at(r, w->scratch, index * 4 * w->n);
    int64_t end = tp_chunk_at(w->rows, index + 1, count);
    memset(sums, 0, (size_t)(2 * w->n * r->bytes));
    for (int64_t i = tp_chunk_at(w->rows, index, count); i < end; i++)
        backward_row(w, i, sums, tp_row_at(r, sums, w->n), tp_row_at(r, sums, 2 * w->n), tp_row_at(r, sums, 3 * w->n));
}

/* Adds the bands' sums, in order, into a result of n elements. */
static void collect(const work *w, int64_t bands, int64_t offset, tp_tensor *to)
{
    memset(tp_tensor_data(to), 0, (size_t)(w->n * w->row.bytes));
    for (int64_t k = 0; k < bands; k++)
        tp_row_step(&w->row, TP_PRIM_add, w->n, tp_tensor_data(to), tp_tensor_data(to), tp_row_at(&w->row, w->scratch, k * 4 * w->n + offset));
}

/* native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask); an unwanted
 * result is left as it is. */
TP_HOOK_K(tp_k_layer_norm_backward)
{
    const tp_tensor *input = arg[1].tensor, *weight = tp_as_tensor(arg[5]);
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    tp_tensor *g = tp_dense(arg[0].tensor, d), *x = g ? tp_dense(input, d) : NULL, *mean = x ? tp_dense(arg[3].tensor, d) : NULL;
    tp_tensor *rstd = mean ? tp_dense(arg[4].tensor, d) : NULL, *w = rstd && weight ? tp_dense(weight, d) : NULL;
    bool ok = rstd && (w || !weight);
    tp_tensor *result[3] = { NULL };
    void *scratch = NULL;
    for (int i = 0; ok && i < 3; i++)
        if (out[i])
            ok = (result[i] = tp_dense_out(out[i], d)) != NULL;
    if (ok) {
        int64_t rows = mean->numel, n = rows ? x->numel / rows : result[1] ? result[1]->numel : result[2] ? result[2]->numel : 0;
        int64_t bands = tp_chunks_of(rows, n) < MOST_BANDS ? tp_chunks_of(rows, n) : MOST_BANDS;
        ok = (scratch = tp_alloc_array((size_t)(bands * 4 * n + 1), tp_dtype_bytes(d))) != NULL;
        if (ok) {
            work job = { tp_row_of(d), rows, n, 0, tp_tensor_data(x), w ? tp_tensor_data(w) : NULL, NULL, tp_tensor_data(g),
                         result[0] ? tp_tensor_data(result[0]) : NULL, tp_tensor_data(mean), tp_tensor_data(rstd), scratch };
            tp_pool_run(bands, backward_chunk, &job);
            if (result[1])
                collect(&job, bands, 0, result[1]);
            if (result[2])
                collect(&job, bands, n, result[2]);
        }
    }
    tp_free(scratch);
    tp_tensor_unref(g);
    tp_tensor_unref(x);
    tp_tensor_unref(mean);
    tp_tensor_unref(rstd);
    tp_tensor_unref(w);
    for (int i = 0; i < 3; i++)
        if (out[i])
            ok = tp_dense_done(result[i], out[i], ok);
    return ok;
}
