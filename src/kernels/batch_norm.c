/* batch_norm.c - channels brought to mean 0 and variance 1 over batch and space, and the gradient.
 *
 * A channel is a set of runs: one for each item of the batch, `inner` elements long. Where runs are short (a batch of
 * vectors) the tensor is first turned so that a channel is one run. Channels share nothing, so they are what is split. */
#include <math.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/rows.h"

enum { SHORT_RUN = 32 };

typedef struct work {
    tp_row   row;
    int64_t  batch, channels, inner;            /* memory: batch x channels x inner, or turned: channels x (batch inner) */
    bool     training;
    double   momentum, eps;
    const void *x, *g;
    void    *y;                                 /* output, or dx; may be NULL */
    const void *weight, *bias;                  /* may be NULL */
    void    *running_mean, *running_var;        /* may be NULL */
    void    *mean, *invstd;                     /* saved; NULL outside training */
    void    *dw, *db;                           /* may be NULL */
} work;

static void *run_at(const work *w, const void *base, int64_t item, int64_t channel)
{
    return tp_row_at(&w->row, base, (item * w->channels + channel) * w->inner);
}

static double number(const work *w, const void *vector, int64_t channel, double otherwise)
{
    return vector ? tp_row_get(&w->row, tp_row_at(&w->row, vector, channel)) : otherwise;
}

static double channel_sum(const work *w, const void *x, int64_t channel)
{
    double sum = 0;
    for (int64_t i = 0; i < w->batch; i++)
        sum += tp_row_sum(&w->row, w->inner, run_at(w, x, i, channel));
    return sum;
}

static double channel_deviation(const work *w, double mean, int64_t channel)
{
    double sum = 0;
    for (int64_t i = 0; i < w->batch; i++)
        sum += tp_row_deviation(&w->row, w->inner, mean, run_at(w, w->x, i, channel));
    return sum;
}

static void blend(const work *w, void *running, int64_t channel, double fresh)
{
    if (running)
        tp_row_put(&w->row, tp_row_at(&w->row, running, channel), (1 - w->momentum) * number(w, running, channel, 0) + w->momentum * fresh);
}

static void forward_channel(const work *w, int64_t c)
{
    const tp_row *r = &w->row;
    int64_t n = w->batch * w->inner;
    double mean = number(w, w->running_mean, c, 0), variance = number(w, w->running_var, c, 1);
    if (w->training) {
        mean = tp_row_get(r, &(tp_row_number[]){ tp_row_make(r, channel_sum(w, w->x, c) / (double)n) });
        double spread = channel_deviation(w, mean, c);
        variance = spread / (double)n;
        blend(w, w->running_mean, c, mean);
        blend(w, w->running_var, c, spread / (double)(n - 1));
    }
    double invstd = 1 / sqrt(variance + w->eps);
    if (w->training) {
        tp_row_put(r, tp_row_at(r, w->mean, c), mean);
        tp_row_put(r, tp_row_at(r, w->invstd, c), invstd);
    }
    double scale = tp_row_get(r, &(tp_row_number[]){ tp_row_make(r, invstd * number(w, w->weight, c, 1)) });
    tp_row_number factor = tp_row_make(r, scale), term = tp_row_make(r, number(w, w->bias, c, 0) - mean * scale);
    for (int64_t i = 0; i < w->batch; i++) {
        void *y = run_at(w, w->y, i, c);
        tp_row_step_one(r, TP_PRIM_mul, w->inner, y, run_at(w, w->x, i, c), &factor);
        tp_row_step_one(r, TP_PRIM_add, w->inner, y, y, &term);
    }
}

/* sum of g (x - mean) over a channel, in blocks. */
static double channel_product(const work *w, double mean, int64_t c)
{
    const tp_row *r = &w->row;
    _Alignas(64) char block[TP_TILE * sizeof(double)];
    tp_row_number m = tp_row_make(r, mean);
    double sum = 0;
    for (int64_t i = 0; i < w->batch; i++)
        for (int64_t j = 0; j < w->inner; j += TP_TILE) {
            int64_t some = w->inner - j < TP_TILE ? w->inner - j : TP_TILE;
            tp_row_step_one(r, TP_PRIM_sub, some, block, tp_row_at(r, run_at(w, w->x, i, c), j), &m);
            tp_row_step(r, TP_PRIM_mul, some, block, block, tp_row_at(r, run_at(w, w->g, i, c), j));
            sum += tp_row_sum(r, some, block);
        }
    return sum;
}

static void backward_channel(const work *w, int64_t c)
{
    const tp_row *r = &w->row;
    double n = (double)(w->batch * w->inner), weight = number(w, w->weight, c, 1);
    double mean = w->training ? number(w, w->mean, c, 0) : number(w, w->running_mean, c, 0);
    double invstd = w->training ? number(w, w->invstd, c, 0) : 1 / sqrt(number(w, w->running_var, c, 1) + w->eps);
    double sum = channel_sum(w, w->g, c), product = channel_product(w, mean, c);
    if (w->dw)
        tp_row_put(r, tp_row_at(r, w->dw, c), product * invstd);
    if (w->db)
        tp_row_put(r, tp_row_at(r, w->db, c), sum);
    tp_row_number scale = tp_row_make(r, invstd * weight), centre = tp_row_make(r, mean), average = tp_row_make(r, sum / n);
    tp_row_number slope = tp_row_make(r, product * invstd * invstd / n);
    _Alignas(64) char block[TP_TILE * sizeof(double)];
    for (int64_t i = 0; w->y && i < w->batch; i++)
        for (int64_t j = 0; j < w->inner; j += TP_TILE) {
            int64_t some = w->inner - j < TP_TILE ? w->inner - j : TP_TILE;
            void *dx = tp_row_at(r, run_at(w, w->y, i, c), j);
            const void *g = tp_row_at(r, run_at(w, w->g, i, c), j);
            if (!w->training) {
                tp_row_step_one(r, TP_PRIM_mul, some, dx, g, &scale);
                continue;
            }
            tp_row_step_one(r, TP_PRIM_sub, some, block, tp_row_at(r, run_at(w, w->x, i, c), j), &centre);
            tp_row_step_one(r, TP_PRIM_mul, some, block, block, &slope);
            tp_row_step(r, TP_PRIM_sub, some, dx, g, block);
            tp_row_step_one(r, TP_PRIM_sub, some, dx, dx, &average);
            tp_row_step_one(r, TP_PRIM_mul, some, dx, dx, &scale);
        }
}

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t end = tp_chunk_at(w->channels, index + 1, count);
    for (int64_t c = tp_chunk_at(w->channels, index, count); c < end; c++)
        w->g ? backward_channel(w, c) : forward_channel(w, c);
}

/* ---- operands ---- */

/* channels x batch x inner: the tensor seen with its first two dims exchanged. */
static tp_tensor *turned_view(const tp_tensor *t)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    memcpy(size, t->size, (size_t)t->ndim * sizeof *size);
    memcpy(stride, t->stride, (size_t)t->ndim * sizeof *stride);
    size[0] = t->size[1], size[1] = t->size[0];
    stride[0] = t->stride[1], stride[1] = t->stride[0];
    return tp_tensor_view(t, t->ndim, size, stride, t->offset);
}

static tp_tensor *operand(const tp_tensor *t, tp_dtype d, bool turned)
{
    if (!turned)
        return tp_dense(t, d);
    tp_tensor *view = turned_view(t), *dense = view ? tp_dense(view, d) : NULL;
    tp_tensor_unref(view);
    return dense;
}

/* A fresh tensor for a big result, moved where it belongs by finish. */
static bool finish(tp_tensor *take, tp_tensor *out, bool turned, bool ok)
{
    if (!turned)
        return tp_dense_done(take, out, ok);
    tp_tensor *view = take && ok ? turned_view(out) : NULL;
    return tp_dense_done(take, view, view != NULL) ? (tp_tensor_unref(view), true) : (tp_tensor_unref(view), false);
}

static tp_tensor *result_place(tp_tensor *out, const tp_tensor *x, tp_dtype d, bool turned)
{
    return turned ? tp_tensor_new(d, x->ndim, x->size) : tp_dense_out(out, d);
}

static void shape(work *w, const tp_tensor *input, bool turned)
{
    w->batch = input->size[0];
    w->channels = input->ndim > 1 ? input->size[1] : 0;     /* an empty vector is a batch without channels */
    w->inner = input->numel ? input->numel / (w->batch * w->channels) : 0;
    if (turned) {
        w->inner *= w->batch;
        w->batch = 1;
    }
}

static bool has_short_runs(const tp_tensor *t)
{
    return t->size[0] > 1 && t->numel && t->numel / (t->size[0] * t->size[1]) < SHORT_RUN;
}

/* Optional vectors, brought to the computing type; `back` copies those that were written. */
typedef struct vectors {
    tp_tensor *at[8];
    tp_tensor *home[8];
    int        count;
    bool       ok;
} vectors;

static void *vector_in(vectors *v, const tp_tensor *t, tp_dtype d, bool written)
{
    tp_tensor *dense = t && v->ok ? tp_dense(t, d) : NULL;
    if (!t || !v->ok)
        return NULL;
    v->ok = dense != NULL;
    if (!dense)
        return NULL;
    v->home[v->count] = written ? (tp_tensor *)t : NULL;
    v->at[v->count++] = dense;
    return tp_tensor_data(dense);
}

static void *vector_out(vectors *v, tp_tensor *out, tp_dtype d)
{
    tp_tensor *dense = out && v->ok ? tp_dense_out(out, d) : NULL;
    if (!out || !v->ok)
        return NULL;
    v->ok = dense != NULL;
    if (!dense)
        return NULL;
    v->home[v->count] = out;
    v->at[v->count++] = dense;
    return tp_tensor_data(dense);
}

static bool vectors_fini(vectors *v, bool ok)
{
    for (int i = 0; i < v->count; i++) {
        if (ok && v->home[i] && v->home[i] != v->at[i])
            tp_copy(v->home[i], v->at[i]);
        tp_tensor_unref(v->at[i]);
    }
    return ok;
}

/* ---- forward ---- */
typedef struct forward {
    const tp_tensor *input, *weight, *bias;
    tp_tensor *running_mean, *running_var;      /* written when training; may be NULL */
    bool   training;
    double momentum, eps;
} forward;

static bool run_forward(const forward *f, tp_tensor **out)
{
    tp_dtype d = tp_row_dtype((tp_dtype)f->input->dtype);
    bool turned = has_short_runs(f->input);
    work w = { .row = tp_row_of(d), .training = f->training, .momentum = f->momentum, .eps = f->eps };
    vectors v = { .ok = true };
    tp_tensor *x = operand(f->input, d, turned), *y = x ? result_place(out[0], x, d, turned) : NULL;
    w.weight = vector_in(&v, f->weight, d, false);
    w.bias = vector_in(&v, f->bias, d, false);
    w.running_mean = vector_in(&v, f->running_mean, d, f->training);
    w.running_var = vector_in(&v, f->running_var, d, f->training);
    if (f->training) {
        w.mean = vector_out(&v, out[1], d);
        w.invstd = vector_out(&v, out[2], d);
    }
    bool ok = y && v.ok;
    if (ok && x->numel) {
        shape(&w, f->input, turned);
        w.x = tp_tensor_data(x);
        w.y = tp_tensor_data(y);
        tp_pool_run(tp_chunks_of(w.channels, w.batch * w.inner), chunk, &w);
    }
    tp_tensor_unref(x);
    ok = vectors_fini(&v, ok);
    return finish(y, out[0], turned, ok);
}

/* native_batch_norm, _native_batch_norm_legit(input, weight, bias, running_mean, running_var, training, momentum, eps) */
TP_HOOK_K(tp_k_batch_norm)
{
    forward f = { arg[0].tensor, tp_as_tensor(arg[1]), tp_as_tensor(arg[2]), tp_as_tensor(arg[3]), tp_as_tensor(arg[4]),
                  tp_as_bool(arg[5]), tp_as_double(arg[6]), tp_as_double(arg[7]) };
    return run_forward(&f, out);
}

/* _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps); nothing is put into the reserve. */
TP_HOOK_K(tp_k_batch_norm_with_update)
{
    forward f = { arg[0].tensor, tp_as_tensor(arg[1]), tp_as_tensor(arg[2]), arg[3].tensor, arg[4].tensor, true, tp_as_double(arg[5]), tp_as_double(arg[6]) };
    return run_forward(&f, out);
}

/* The running statistics are results 4 and 5. */
TP_HOOK_K(tp_k_batch_norm_with_update_functional)
{
    tp_copy(out[4], arg[3].tensor);
    tp_copy(out[5], arg[4].tensor);
    forward f = { arg[0].tensor, tp_as_tensor(arg[1]), tp_as_tensor(arg[2]), out[4], out[5], true, tp_as_double(arg[5]), tp_as_double(arg[6]) };
    return run_forward(&f, out);
}

/* _native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps) */
TP_HOOK_K(tp_k_batch_norm_no_stats)
{
    forward f = { arg[0].tensor, tp_as_tensor(arg[1]), tp_as_tensor(arg[2]), NULL, NULL, tp_as_bool(arg[3]), tp_as_double(arg[4]), tp_as_double(arg[5]) };
    return run_forward(&f, out);
}

/* _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps) */
TP_HOOK_K(tp_k_batch_norm_no_training)
{
    forward f = { arg[0].tensor, tp_as_tensor(arg[1]), tp_as_tensor(arg[2]), tp_as_tensor(arg[3]), tp_as_tensor(arg[4]),
                  false, tp_as_double(arg[5]), tp_as_double(arg[6]) };
    return run_forward(&f, out);
}

/* _native_batch_norm_legit_functional: the running statistics are results 3 and 4. */
TP_HOOK_K(tp_k_batch_norm_functional)
{
    tp_copy(out[3], arg[3].tensor);
    tp_copy(out[4], arg[4].tensor);
    forward f = { arg[0].tensor, tp_as_tensor(arg[1]), tp_as_tensor(arg[2]), out[3], out[4], tp_as_bool(arg[5]), tp_as_double(arg[6]), tp_as_double(arg[7]) };
    return run_forward(&f, out);
}

/* native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
 * output_mask) */
TP_HOOK_K(tp_k_batch_norm_backward)
{
    const tp_tensor *input = arg[1].tensor;
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    bool turned = has_short_runs(input), training = tp_as_bool(arg[7]);
    work w = { .row = tp_row_of(d), .training = training, .eps = tp_as_double(arg[8]) };
    vectors v = { .ok = true };
    tp_tensor *x = operand(input, d, turned), *g = x ? operand(arg[0].tensor, d, turned) : NULL;
    tp_tensor *dx = g && out[0] ? result_place(out[0], x, d, turned) : NULL;
    w.weight = vector_in(&v, tp_as_tensor(arg[2]), d, false);
    w.running_mean = vector_in(&v, tp_as_tensor(arg[3]), d, false);
    w.running_var = vector_in(&v, tp_as_tensor(arg[4]), d, false);
    if (training) {
        w.mean = vector_in(&v, tp_as_tensor(arg[5]), d, false);
        w.invstd = vector_in(&v, tp_as_tensor(arg[6]), d, false);
    }
    w.dw = vector_out(&v, out[1], d);
    w.db = vector_out(&v, out[2], d);
    bool ok = g && v.ok && (dx || !out[0]);
    if (ok) {
        shape(&w, input, turned);
        w.x = tp_tensor_data(x);
        w.g = tp_tensor_data(g);
        w.y = dx ? tp_tensor_data(dx) : NULL;
        tp_pool_run(tp_chunks_of(w.channels, w.batch * w.inner), chunk, &w);
    }
    tp_tensor_unref(x);
    tp_tensor_unref(g);
    ok = vectors_fini(&v, ok);
    return out[0] ? finish(dx, out[0], turned, ok) : ok;
}
