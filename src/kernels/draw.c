/* draw.c - draws whose parameters are tensors: gamma, Dirichlet, Poisson, binomial numbers, in PyTorch's order of words.
 *
 * Elements are visited row-major. Each sampler is the published rejection method that PyTorch's stream was found to follow, with
 * uniform numbers u53 and normal numbers from the serial path; all arithmetic is in double, rounded at the end. */
#include <float.h>
#include <math.h>

#include "kernels/dense.h"
#include "tensor/generator.h"

typedef struct sampler sampler;
typedef double sample_fn(const sampler *w, double a, double b);
struct sampler {
    tp_generator *g;            /* locked */
    bool          single;       /* parameters are f32 */
    sample_fn    *sample;
};

/* ---- gamma, by Marsaglia and Tsang ---- */
static double gamma_of(const sampler *w, double a, double unused)
{
    double scale = 1;
    (void)unused;
    if (a < 1) {
        if (a == 0)
            return 0;
        scale = pow(1 - tp_draw_u53(w->g), 1 / a);
        a += 1;
    }
    double d = w->single ? (float)a - 1.0f / 3 : a - 1.0f / 3, c = 1 / sqrt(9 * d);     /* a third, as f32 has it */
    for (;;) {
        double x, y;
        do {
            x = tp_draw_normal(w->g);
            y = 1 + c * x;
        } while (y <= 0);
        double v = y * y * y, u = 1 - tp_draw_u53(w->g), square = x * x;
        if (u < 1 - 0.0331 * square * square || log(u) < 0.5 * square + d * (1 - v + log(v)))
            return scale * d * v;
    }
}

/* ---- Poisson: waiting times, or Hörmann's PTRS ---- */
static double poisson_of(const sampler *w, double rate, double unused)
{
    (void)unused;
    if (rate == 0)
        return 0;
    if (rate < 10) {
        double product = 1, end = exp(-rate);
        for (int64_t k = 0;; k++)
            if ((product *= tp_draw_u53(w->g)) <= end)
                return (double)k;
    }
    double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, inverse = 1.1239 + 1.1328 / (b - 3.4), quick = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = tp_draw_u53(w->g) - 0.5, v = tp_draw_u53(w->g), edge = 0.5 - fabs(u);
        double k = floor((2 * a / edge + b) * u + rate + 0.43);
        if (edge >= 0.07 && v <= quick)
            return k;
        if (k < 0 || (edge < 0.013 && v > edge))
            continue;
        if (log(v) + log(inverse) - log(a / (edge * edge) + b) <= -rate + k * log(rate) - lgamma(k + 1))
            return k;
    }
}

/* ---- binomial: waiting times, or Hörmann's BTRS ---- */

/* What Stirling's formula leaves of log k!. */
static double stirling_rest(double k)
{
    static const double few[] = {
        0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650, 0.0166446911898211,
        0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.0092554621827127, 0.0083305634333628,
    };
    if (k <= 9)
        return few[(int)k];
    double square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

static double binomial_of(const sampler *w, double n, double p)
{
    if (n <= 0 || p <= 0)
        return 0;
    if (isnan(n) || isnan(p))
        return NAN;
    if (p >= 1)
        return n;
    if (p > 0.5)
        return n - binomial_of(w, n, w->single ? (double)(1.0f - (float)p) : 1 - p);
    if (w->single ? (float)n * (float)p < 10 : n * p < 10) {
        double sum = 0, log_miss = log1p(-p);
        for (int64_t k = 0;; k++)
            if ((sum += ceil(log(tp_draw_u53(w->g)) / log_miss)) > n)
                return (double)k;
    }
    double deviation = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5;
    double quick = 0.92 - 4.2 / b, odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation, m = floor((n + 1) * p);
    for (;;) {
        double u = tp_draw_u53(w->g) - 0.5, v = tp_draw_u53(w->g), edge = 0.5 - fabs(u), k = floor((2 * a / edge + b) * u + c);
        if (edge >= 0.07 && v <= quick)
            return k;
        if (k < 0 || k > n)
            continue;
        v = log(v * alpha / (a / (edge * edge) + b));
        double bound = (m + 0.5) * log((m + 1) / (odds * (n - m + 1))) + (n + 1) * log((n - m + 1) / (n - k + 1))
                       + (k + 0.5) * log(odds * (n - k + 1) / (k + 1)) + stirling_rest(m) + stirling_rest(n - m) - stirling_rest(k) - stirling_rest(n - k);
        if (v <= bound)
            return k;
    }
}

/* ---- tensors ---- */

/* An argument with the sizes of the result, in double. */
static tp_tensor *wide(const tp_tensor *t, const tp_tensor *out)
{
    tp_tensor *x = tp_tensor_new(TP_f64, out->ndim, out->size);
    if (x)
        tp_copy(x, t);
    return x;
}

static bool draw(sampler w, tp_value generator, const tp_tensor *a, const tp_tensor *b, double least, tp_tensor *out)
{
    w.g = generator.tag == TP_GENERATOR ? generator.generator : tp_generator_default();
    w.single = a->dtype != TP_f64;
    tp_tensor *x = w.g ? wide(a, out) : NULL, *y = x && b ? wide(b, out) : NULL, *to = x && (y || !b) ? tp_dense_out(out, TP_f64) : NULL;
    if (to) {
        const double *first = tp_tensor_data(x), *second = y ? tp_tensor_data(y) : NULL;
        double *made = tp_tensor_data(to);
        tp_generator_lock(w.g);
        for (int64_t i = 0; i < to->numel; i++) {
            double v = w.sample(&w, first[i], second ? second[i] : 0);
            made[i] = v < least ? least : v;
        }
        tp_generator_unlock(w.g);
    }
    tp_tensor_unref(x);
    tp_tensor_unref(y);
    return tp_dense_done(to, out, true);
}

static double smallest(const tp_tensor *t) { return t->dtype == TP_f64 ? DBL_MIN : FLT_MIN; }

/* _standard_gamma(self, generator): never zero. */
TP_HOOK_K(tp_k_standard_gamma)
{
    return draw((sampler){ .sample = gamma_of }, arg[1], arg[0].tensor, NULL, smallest(arg[0].tensor), out[0]);
}

/* _sample_dirichlet(self, generator): gamma numbers in double, over their sum along the last dim. */
TP_HOOK_K(tp_k_sample_dirichlet)
{
    const tp_tensor *self = arg[0].tensor;
    tp_tensor *x = tp_tensor_new(TP_f64, self->ndim, self->size), *made = x ? tp_tensor_new(TP_f64, self->ndim, self->size) : NULL;
    bool ok = made != NULL;
    if (ok)
        tp_copy(x, self);
    ok = ok && draw((sampler){ .sample = gamma_of }, arg[1], x, NULL, DBL_MIN, made);
    int64_t n = self->ndim ? self->size[self->ndim - 1] : 1;
    double top = self->dtype == TP_f64 ? nextafter(1, 0) : (double)nextafterf(1, 0), least = smallest(self);
    for (int64_t r = 0; ok && n && r < self->numel / n; r++) {
        double *row = (double *)tp_tensor_data(made) + r * n, sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += row[i];
        for (int64_t i = 0; i < n; i++) {
            double v = row[i] / sum;
            row[i] = v < least ? least : v > top ? top : v;
        }
    }
    if (ok)
        tp_copy(out[0], made);
    tp_tensor_unref(x);
    tp_tensor_unref(made);
    return ok;
}

/* poisson(self, generator) */
TP_HOOK_K(tp_k_poisson)
{
    tp_tensor *rate = tp_dense(arg[0].tensor, TP_f64);
    bool ok = rate != NULL;
    for (int64_t i = 0; ok && i < rate->numel; i++)
        ok = ((const double *)tp_tensor_data(rate))[i] >= 0 || tp_fail(TP_ERR_RUNTIME, "invalid Poisson rate, expected rate to be non-negative");
    tp_tensor_unref(rate);
    return ok && draw((sampler){ .sample = poisson_of }, arg[1], arg[0].tensor, NULL, 0, out[0]);
}

/* binomial(count, prob, generator) */
TP_HOOK_K(tp_k_binomial)
{
    return draw((sampler){ .sample = binomial_of }, arg[2], arg[0].tensor, arg[1].tensor, 0, out[0]);
}
