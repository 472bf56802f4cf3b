/* draw_gradient.c - how a draw moves when its parameter does: _standard_gamma_grad, _dirichlet_grad.
 *
 * A draw x with distribution function F(x; a) and density f stays at the same quantile while a moves, so dx/da = -F_a / f. Both are
 * written as one integral of the density's ratio to f(x), weighed with log t less its mean; below the mean it is taken from the left
 * end, above it from the right one, so that nothing cancels. */
#include <math.h>

#include "base/pool.h"
#include "kernels/dense.h"

/* ---- the integral of g over [0, 1], ends included where g has logarithms (tanh-sinh) ---- */
typedef double integrand(const double *c, double u, double rest);      /* rest = 1 - u, without cancellation */

static double integrate(integrand *g, const double *c)
{
    enum { NODES = 48 };
    const double step = 3.3 / NODES, half_pi = 1.57079632679489661923;
    double sum = 0;
    for (int i = -NODES; i <= NODES; i++) {
        double t = i * step, s = half_pi * sinh(t), e = exp(-2 * fabs(s));
        double near = e / (1 + e), weight = half_pi * cosh(t) * 2 * e / ((1 + e) * (1 + e));   /* near: the distance from the closer end */
        double u = i < 0 ? near : 1 - near, rest = i < 0 ? 1 - near : near;
        double v = u > 0 && rest > 0 ? g(c, u, rest) : 0;
        sum += isfinite(v) ? weight * v : 0;
    }
    return sum * step;
}

/* ---- digamma of positive numbers ---- */
static double digamma(double x)
{
    double sum = 0;
    for (; x < 10; x++)
        sum -= 1 / x;
    double z = 1 / (x * x);
    return sum + log(x) - 0.5 / x - z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132)))));
}

/* ---- gamma ---- */

/* From x to the right: (1 + s/x)^(a - 1) e^-s (log(x + s) - digamma(a)), s = u c[3]. */
static double gamma_right(const double *c, double u, double rest)
{
    double a = c[0], x = c[1], s = u * c[3];
    (void)rest;
    return exp((a - 1) * log1p(s / x) - s) * (log(x + s) - c[2]) * c[3];
}

static double gamma_gradient(double a, double x)
{
    if (!(a > 0) || !(x > 0))
        return a > 0 && x == 0 ? 0 : NAN;
    if (x <= a) {                               /* a series of terms of one sign */
        double term = 1 / a, psi = digamma(a + 1), sum = 0, logarithm = log(x);
        for (int64_t n = 1; n < 1000000; n++) {
            double add = term * (logarithm - psi);
            sum += add;
            if (fabs(add) < 1e-17 * fabs(sum))
                break;
            term *= x / (a + (double)n);
            psi += 1 / (a + (double)n);
        }
        return -x * sum;
    }
    double end = 1;
    while ((a - 1) * log1p(end / x) - end > -42)
        end *= 1.5;
    return integrate(gamma_right, (double[]){ a, x, digamma(a), end });
}

/* ---- beta: the first of two parts, a against b ---- */

/* t = x u^(1/a) takes t^(a - 1) away; the other side mirrors it. c: a, b, x, 1 - x, mean of log t */
static double beta_left(const double *c, double u, double rest)
{
    double a = c[0], b = c[1], root = log(u) / a, t = c[2] * exp(root), other = rest < 0.5 ? c[3] - c[2] * expm1(log1p(-rest) / a) : 1 - t;
    return -c[2] / a * pow(other / c[3], b - 1) * (log(c[2]) + (rest < 0.5 ? log1p(-rest) / a : root) - c[4]);
}

static double beta_right(const double *c, double u, double rest)
{
    double a = c[0], b = c[1], grow = rest < 0.5 ? log1p(-rest) / b : log(u) / b, other = c[3] * exp(grow), t = 1 - other;
    t = rest < 0.5 ? c[2] - c[3] * expm1(grow) : t;
    return c[3] / b * pow(t / c[2], a - 1) * (log(t) - c[4]);
}

static double dirichlet_gradient(double x, double a, double total)
{
    double b = total - a;
    if (!(x > 0 && x < 1 && a > 0 && b > 0))
        return x == 1 || x == 0 ? 0 : NAN;
    double c[5] = { a, b, x, 1 - x, digamma(a) - digamma(total) };
    return integrate(x < a / total ? beta_left : beta_right, c) / (1 - x);
}

/* ---- tensors ---- */
typedef struct work {
    const double *a, *b, *c;        /* c may be NULL */
    double       *to;
    int64_t       n;
} work;

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t end = tp_chunk_at(w->n, index + 1, count);
    for (int64_t i = tp_chunk_at(w->n, index, count); i < end; i++)
        w->to[i] = w->c ? dirichlet_gradient(w->a[i], w->b[i], w->c[i]) : gamma_gradient(w->a[i], w->b[i]);
}

static bool run(const tp_value *arg, int count, tp_tensor *out)
{
    tp_tensor *x[3] = { 0 }, *to = NULL;
    bool ok = true;
    for (int i = 0; i < count && ok; i++) {
        ok = (x[i] = tp_tensor_new(TP_f64, out->ndim, out->size)) != NULL;
        if (ok)
            tp_copy(x[i], arg[i].tensor);
    }
    if (ok && (to = tp_dense_out(out, TP_f64))) {
        work w = { tp_tensor_data(x[0]), tp_tensor_data(x[1]), x[2] ? tp_tensor_data(x[2]) : NULL, tp_tensor_data(to), to->numel };
        tp_pool_run(tp_chunks_of(w.n, 1024), chunk, &w);
    }
    for (int i = 0; i < 3; i++)
        tp_tensor_unref(x[i]);
    return to ? tp_dense_done(to, out, ok) : false;
}

/* _standard_gamma_grad(self, output) */
TP_HOOK_K(tp_k_standard_gamma_grad)
{
    return run(arg, 2, out[0]);
}

/* _dirichlet_grad(x, alpha, total) */
TP_HOOK_K(tp_k_dirichlet_grad)
{
    return run(arg, 3, out[0]);
}
