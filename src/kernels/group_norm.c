/* group_norm.c - groups of channels of one item brought to mean 0 and variance 1, and the gradient.
 *
 * A group is one run of memory; each of its channels has a weight and a bias of its own. */
#include <math.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/rows.h"

typedef struct work {
    tp_row   row;
    int64_t  items, channels, inner, groups;
    double   eps;
    const void *x, *g, *weight, *bias;      /* weight, bias may be NULL */
    void    *y, *mean, *rstd;               /* mean, rstd: items x groups */
    double  *ds, *db;                       /* gradients: sums of g x and of g, items x channels */
} work;

static double number(const work *w, const void *vector, int64_t i, double otherwise)
{
    return vector ? tp_row_get(&w->row, tp_row_at(&w->row, vector, i)) : otherwise;
}

static void forward_group(const work *w, int64_t k)
{
    const tp_row *r = &w->row;
    int64_t each = w->channels / w->groups, n = each * w->inner, first = k % w->groups * each;
    const void *x = tp_row_at(r, w->x, k * n);
    double mean = tp_row_get(r, &(tp_row_number[]){ tp_row_make(r, tp_row_sum(r, n, x) / (double)n) });
    double rstd = tp_row_rstd(r, tp_row_deviation(r, n, mean, x) / (double)n, w->eps);
    tp_row_put(r, tp_row_at(r, w->mean, k), mean);
    tp_row_put(r, tp_row_at(r, w->rstd, k), rstd);
    for (int64_t c = 0; c < each; c++) {
        double scale = rstd * number(w, w->weight, first + c, 1);
        tp_row_number factor = tp_row_make(r, scale), term = tp_row_make(r, number(w, w->bias, first + c, 0) - mean * scale);
        void *y = tp_row_at(r, w->y, k * n + c * w->inner);
        tp_row_step_one(r, TP_PRIM_mul, w->inner, y, tp_row_at(r, x, c * w->inner), &factor);
        tp_row_step_one(r, TP_PRIM_add, w->inner, y, y, &term);
    }
}

static void channel_sums(const work *w, int64_t at)
{
    const tp_row *r = &w->row;
    _Alignas(64) char block[TP_TILE * sizeof(double)];
    double product = 0;
    for (int64_t j = 0; j < w->inner; j += TP_TILE) {
        int64_t some = w->inner - j < TP_TILE ? w->inner - j : TP_TILE;
        tp_row_step(r, TP_PRIM_mul, some, block, tp_row_at(r, w->g, at * w->inner + j), tp_row_at(r, w->x, at * w->inner + j));
        product += tp_row_sum(r, some, block);
    }
    w->ds[at] = product;
    w->db[at] = tp_row_sum(r, w->inner, tp_row_at(r, w->g, at * w->inner));
}

/* dx = g rstd weight + x c2 + c3, where c2 and c3 hold what mean and variance pass on. */
static void backward_group(const work *w, int64_t k)
{
    const tp_row *r = &w->row;
    int64_t each = w->channels / w->groups, first = k % w->groups * each, base = k / w->groups * w->channels + first;
    double mean = number(w, w->mean, k, 0), rstd = number(w, w->rstd, k, 0), ds = 0, db = 0, share = 1 / (double)(each * w->inner);
    for (int64_t c = 0; c < each; c++) {
        channel_sums(w, base + c);
        ds += w->ds[base + c] * number(w, w->weight, first + c, 1);
        db += w->db[base + c] * number(w, w->weight, first + c, 1);
    }
    if (!w->y)
        return;
    double c2 = (db * mean - ds) * rstd * rstd * rstd * share, c3 = -c2 * mean - db * rstd * share;
    tp_row_number slope = tp_row_make(r, c2), term = tp_row_make(r, c3);
    _Alignas(64) char block[TP_TILE * sizeof(double)];
    for (int64_t c = 0; c < each; c++) {
        tp_row_number factor = tp_row_make(r, rstd * number(w, w->weight, first + c, 1));
        for (int64_t j = 0; j < w->inner; j += TP_TILE) {
            int64_t some = w->inner - j < TP_TILE ? w->inner - j : TP_TILE, at = (base + c) * w->inner + j;
            void *dx = tp_row_at(r, w->y, at);
            tp_row_step_one(r, TP_PRIM_mul, some, block, tp_row_at(r, w->x, at), &slope);
            tp_row_step_one(r, TP_PRIM_add, some, block, block, &term);
            tp_row_step_one(r, TP_PRIM_mul, some, dx, tp_row_at(r, w->g, at), &factor);
            tp_row_step(r, TP_PRIM_add, some, dx, dx, block);
        }
    }
}

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t total = w->items * w->groups, end = tp_chunk_at(total, index + 1, count);
    for (int64_t k = tp_chunk_at(total, index, count); k < end; k++)
        w->g ? backward_group(w, k) : forward_group(w, k);
}

static void run(work *w)
{
    tp_pool_run(tp_chunks_of(w->items * w->groups, w->channels / w->groups * w->inner), chunk, w);
}

/* native_group_norm(input, weight, bias, N, C, HxW, group, eps) -> (output, mean, rstd) */
TP_HOOK_K(tp_k_group_norm)
{
    const tp_tensor *weight = tp_as_tensor(arg[1]), *bias = tp_as_tensor(arg[2]);
    tp_dtype d = tp_row_dtype((tp_dtype)arg[0].tensor->dtype);
    tp_tensor *x = tp_dense(arg[0].tensor, d), *wt = x && weight ? tp_dense(weight, d) : NULL, *bs = x && bias ? tp_dense(bias, d) : NULL;
    bool ok = x && (wt || !weight) && (bs || !bias);
    tp_tensor *y = ok ? tp_dense_out(out[0], d) : NULL, *mean = y ? tp_dense_out(out[1], d) : NULL, *rstd = mean ? tp_dense_out(out[2], d) : NULL;
    ok = rstd != NULL;
    if (ok && x->numel) {
        work w = { .row = tp_row_of(d), .items = tp_as_int(arg[3]), .channels = tp_as_int(arg[4]), .inner = tp_as_int(arg[5]),
                   .groups = tp_as_int(arg[6]), .eps = tp_as_double(arg[7]), .x = tp_tensor_data(x), .y = tp_tensor_data(y),
                   .weight = wt ? tp_tensor_data(wt) : NULL, .bias = bs ? tp_tensor_data(bs) : NULL,
                   .mean = tp_tensor_data(mean), .rstd = tp_tensor_data(rstd) };
        run(&w);
    }
    tp_tensor_unref(x);
    tp_tensor_unref(wt);
    tp_tensor_unref(bs);
    ok = tp_dense_done(rstd, out[2], ok);
    ok = tp_dense_done(mean, out[1], ok);
    return tp_dense_done(y, out[0], ok);
}

/* Gradients of weight and bias, summed over the items in order. */
static void parameter_gradients(const work *w, tp_tensor *dw, tp_tensor *db)
{
    int64_t each = w->channels / w->groups;
    for (int64_t c = 0; c < w->channels; c++) {
        double by_weight = 0, by_bias = 0;
        for (int64_t i = 0; i < w->items; i++) {
            int64_t k = i * w->groups + c / each, at = i * w->channels + c;
            by_weight += (w->ds[at] - w->db[at] * number(w, w->mean, k, 0)) * number(w, w->rstd, k, 0);
            by_bias += w->db[at];
        }
        if (dw)
            tp_row_put(&w->row, tp_row_at(&w->row, tp_tensor_data(dw), c), by_weight);
        if (db)
            tp_row_put(&w->row, tp_row_at(&w->row, tp_tensor_data(db), c), by_bias);
    }
}

/* native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask) */
TP_HOOK_K(tp_k_group_norm_backward)
{
    const tp_tensor *weight = tp_as_tensor(arg[4]);
    tp_dtype d = tp_row_dtype((tp_dtype)arg[1].tensor->dtype);
    tp_tensor *g = tp_dense(arg[0].tensor, d), *x = g ? tp_dense(arg[1].tensor, d) : NULL, *mean = x ? tp_dense(arg[2].tensor, d) : NULL;
    tp_tensor *rstd = mean ? tp_dense(arg[3].tensor, d) : NULL, *wt = rstd && weight ? tp_dense(weight, d) : NULL, *result[3] = { NULL };
    work w = { .row = tp_row_of(d), .items = tp_as_int(arg[5]), .channels = tp_as_int(arg[6]), .inner = tp_as_int(arg[7]), .groups = tp_as_int(arg[8]) };
    bool ok = rstd && (wt || !weight);
    for (int i = 0; ok && i < 3; i++)
        if (out[i])
            ok = (result[i] = tp_dense_out(out[i], d)) != NULL;
    ok = ok && (w.ds = tp_alloc_zero((size_t)(2 * w.items * w.channels + 1) * sizeof *w.ds));
    if (ok) {
        w.db = w.ds + w.items * w.channels;
        w.x = tp_tensor_data(x);
        w.g = tp_tensor_data(g);
        w.mean = tp_tensor_data(mean);
        w.rstd = tp_tensor_data(rstd);
        w.weight = wt ? tp_tensor_data(wt) : NULL;
        w.y = result[0] ? tp_tensor_data(result[0]) : NULL;
        run(&w);
        parameter_gradients(&w, result[1], result[2]);
    }
    tp_free(w.ds);
    tp_tensor_unref(g);
    tp_tensor_unref(x);
    tp_tensor_unref(mean);
    tp_tensor_unref(rstd);
    tp_tensor_unref(wt);
    for (int i = 0; i < 3; i++)
        if (out[i])
            ok = tp_dense_done(result[i], out[i], ok);
    return ok;
}
