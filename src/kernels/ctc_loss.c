/* ctc_loss.c - minus the logarithm of the probability that a sequence of labels was said, whatever the pauses.
 *
 * A label sequence a b of length L becomes 2L + 1 states, blank a blank b blank. alpha[t][s] is the probability of having
 * said, at time t, what leads to state s; a state follows itself, the one before, and the one before that unless a blank
 * would be skipped between two equal labels. beta is the same from the end. All in logarithms.
 *     log_probs: time x batch x classes; log_alpha: batch x time x states. */
#include <math.h>

#include "base/alloc.h"
#include "kernels/dense.h"
#include "kernels/each.h"
#include "kernels/rows.h"
#include "ops/rules/losses.h"

typedef struct work {
    tp_row   row;
    tp_ctc   ctc;
    int64_t  time, batch, classes, states;
    const void *x, *nll;            /* log_probs; nll: the loss, for the gradient alone */
    const void *grad;
    int64_t  grad_step;
    void    *loss, *alpha, *dx;     /* loss NULL: the gradient is wanted */
    bool     zero_infinity;
} work;

static double at(const work *w, const void *base, int64_t i)
{
    return tp_row_get(&w->row, tp_row_at(&w->row, base, i));
}

static void put(const work *w, void *base, int64_t i, double value)
{
    tp_row_put(&w->row, tp_row_at(&w->row, base, i), value);
}

/* A number as the row's type holds it: sums of logarithms are rounded step by step, as PyTorch's are. */
static double as_held(const work *w, double x)
{
    return w->row.bytes == 4 ? (double)(float)x : x;
}

/* log(exp(a) + exp(b) + exp(c)) */
static double log_sum(const work *w, double a, double b, double c)
{
    double top = a > b ? a : b;
    top = top > c ? top : c;
    if (top == -INFINITY)
        return top;
    double sum = as_held(w, as_held(w, exp(as_held(w, a - top))) + as_held(w, exp(as_held(w, b - top))));
    sum = as_held(w, sum + as_held(w, exp(as_held(w, c - top))));
    return as_held(w, as_held(w, log(sum)) + top);
}

static int64_t label_of(const work *w, int64_t item, int64_t state)
{
    return state % 2 ? w->ctc.target[w->ctc.from[item] + state / 2 * w->ctc.step] : w->ctc.blank;
}

static double said(const work *w, int64_t t, int64_t item, int64_t state)
{
    int64_t label = label_of(w, item, state);
    return label >= 0 && label < w->classes ? at(w, w->x, (t * w->batch + item) * w->classes + label) : -INFINITY;
}

/* May a path step from state s - 2 to s? */
static bool skips(const work *w, int64_t item, int64_t s)
{
    return s % 2 && s >= 2 && label_of(w, item, s) != label_of(w, item, s - 2);
}

static void forward_item(const work *w, int64_t item)
{
    int64_t length = w->ctc.input_length[item], states = 2 * w->ctc.target_length[item] + 1, rows = item * w->time;
    for (int64_t i = rows * w->states; i < (rows + w->time) * w->states; i++)
        put(w, w->alpha, i, -INFINITY);
    if (!length) {
        put(w, w->loss, item, states == 1 ? 0 : INFINITY);
        return;
    }
    for (int64_t s = 0; s < 2 && s < states; s++)
        put(w, w->alpha, rows * w->states + s, said(w, 0, item, s));
    for (int64_t t = 1; t < length; t++)
        for (int64_t s = 0; s < states; s++) {
            int64_t before = (rows + t - 1) * w->states + s;
            double one = s > 0 ? at(w, w->alpha, before - 1) : -INFINITY, two = skips(w, item, s) ? at(w, w->alpha, before - 2) : -INFINITY;
            put(w, w->alpha, before + w->states, log_sum(w, at(w, w->alpha, before), one, two) + said(w, t, item, s));
        }
    int64_t last = (rows + length - 1) * w->states + states - 1;
    put(w, w->loss, item, -log_sum(w, at(w, w->alpha, last), states > 1 ? at(w, w->alpha, last - 1) : -INFINITY, -INFINITY));
}

/* The logarithm of the probability of all that follows from time t on in each state, x[t] included; `later` is that of t + 1. */
static void beta_at(const work *w, int64_t item, int64_t t, int64_t states, const double *later, double *beta)
{
    bool end = t == w->ctc.input_length[item] - 1;
    for (int64_t s = 0; s < states; s++) {
        double one = !end && s + 1 < states ? later[s + 1] : -INFINITY, two = !end && s + 2 < states && skips(w, item, s + 2) ? later[s + 2] : -INFINITY;
        double rest = end ? s >= states - 2 ? 0 : -INFINITY : log_sum(w, later[s], one, two);
        beta[s] = as_held(w, rest + said(w, t, item, s));
    }
}

/* d loss / d x[t][c] = exp(x) - (sum over states of label c of alpha beta / exp(x)) / p */
static bool backward_item(const work *w, int64_t item)
{
    int64_t length = w->ctc.input_length[item], states = 2 * w->ctc.target_length[item] + 1, rows = item * w->time;
    double nll = at(w, w->nll, item), g = at(w, w->grad, item * w->grad_step);
    double *room = tp_alloc_array((size_t)(2 * states + w->classes), sizeof *room), *share = room + 2 * states;
    if (!room)
        return false;
    for (int64_t t = w->time - 1; t >= 0; t--) {
        int64_t to = (t * w->batch + item) * w->classes;
        bool zero = t >= length || (w->zero_infinity && nll == INFINITY);
        double *beta = room + t % 2 * states;
        for (int64_t c = 0; c < w->classes; c++)
            share[c] = -INFINITY;
        if (!zero)
            beta_at(w, item, t, states, room + (t + 1) % 2 * states, beta);
        for (int64_t s = states - 1; !zero && s >= 0; s--) {
            int64_t label = label_of(w, item, s);
            if (label >= 0 && label < w->classes)
                share[label] = log_sum(w, share[label], as_held(w, at(w, w->alpha, (rows + t) * w->states + s) + beta[s]), -INFINITY);
        }
        for (int64_t c = 0; c < w->classes; c++) {
            double x = at(w, w->x, to + c);
            put(w, w->dx, to + c, zero ? 0 : (exp(x) - exp(as_held(w, as_held(w, share[c] + nll) - x))) * g);
        }
    }
    tp_free(room);
    return true;
}

static bool run_item(void *work_, int64_t item)
{
    const work *w = work_;
    if (!w->loss)
        return backward_item(w, item);
    forward_item(w, item);
    return true;
}

static void shape(work *w, const tp_tensor *log_probs, tp_dtype d)
{
    w->row = tp_row_of(d);
    w->time = log_probs->size[0];
    w->batch = log_probs->size[1];
    w->classes = log_probs->size[2];
}

/* _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity) */
TP_HOOK_K(tp_k_ctc_loss)
{
    const tp_tensor *input = arg[0].tensor;
    tp_dtype d = (tp_dtype)input->dtype;
    work w = { 0 };
    tp_tensor *x = NULL, *loss = NULL, *alpha = NULL;
    if (!tp_ctc_read(&w.ctc, arg))
        return false;
    shape(&w, input, d);
    if (!out[1])
        out[1] = tp_tensor_new(d, 3, (int64_t[]){ w.batch, w.time, 2 * w.ctc.longest + 1 });
    bool ok = out[1] && (x = tp_dense(input, d)) && (loss = tp_dense_out(out[0], d)) && (alpha = tp_dense_out(out[1], d));
    if (ok) {
        w.states = alpha->size[2];
        w.x = tp_tensor_data(x);
        w.loss = tp_tensor_data(loss);
        w.alpha = tp_tensor_data(alpha);
        ok = tp_each_run(w.batch, 1 + 4096 / (w.time * w.states + 1), run_item, &w);
    }
    tp_ctc_fini(&w.ctc);
    tp_tensor_unref(x);
    ok = tp_dense_done(loss, out[0], ok);
    return tp_dense_done(alpha, out[1], ok);
}

/* _ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity) */
TP_HOOK_K(tp_k_ctc_loss_backward)
{
    const tp_tensor *input = arg[1].tensor;
    tp_dtype d = (tp_dtype)input->dtype;
    work w = { .zero_infinity = tp_as_bool(arg[8]) };
    tp_tensor *x = NULL, *g = NULL, *nll = NULL, *alpha = NULL, *dx = NULL;
    if (!tp_ctc_read(&w.ctc, (tp_value[]){ arg[1], arg[2], arg[3], arg[4], arg[7] }))
        return false;
    shape(&w, input, d);
    bool ok = (x = tp_dense(input, d)) && (g = tp_dense(arg[0].tensor, d)) && (nll = tp_dense(arg[5].tensor, d)) &&
              (alpha = tp_dense(arg[6].tensor, d)) && (dx = tp_dense_out(out[0], d));
    if (ok) {
        w.states = alpha->size[alpha->ndim - 1];
        w.x = tp_tensor_data(x);
        w.grad = tp_tensor_data(g);
        w.grad_step = g->numel > 1;
        w.nll = tp_tensor_data(nll);
        w.alpha = tp_tensor_data(alpha);
        w.dx = tp_tensor_data(dx);
        ok = alpha->numel == w.batch * w.time * w.states && nll->numel == w.batch && (g->numel == 1 || g->numel == w.batch) && w.states >= 2 * w.ctc.longest + 1;
        if (!ok)
            tp_fail(TP_ERR_RUNTIME, "_ctc_loss_backward: sizes of grad, neg_log_likelihood and log_alpha do not match log_probs");
        ok = ok && tp_each_run(w.batch, 1 + 4096 / (w.time * w.states + 1), run_item, &w);
    }
    tp_ctc_fini(&w.ctc);
    tp_tensor_unref(x);
    tp_tensor_unref(g);
    tp_tensor_unref(nll);
    tp_tensor_unref(alpha);
    return tp_dense_done(dx, out[0], ok);
}
