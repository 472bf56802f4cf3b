/* scan_log.c - logcumsumexp: the running logarithm of a sum of exponentials, along one dim.
 *
 * Each step adds one element to the running value: the larger plus log1p of the exponential of the distance. The work is in f64
 * (c128 for complex numbers), rounded when stored. */
#include <complex.h>
#undef complex                  /* a field of tp_value */
#include <math.h>

#include "base/pool.h"
#include "kernels/dense.h"

typedef struct work {
    tp_along    along;
    const void *from;
    void       *to;
    bool        complex;
} work;

static double add_logs(double a, double b)
{
    double low = a < b ? a : b, high = a < b ? b : a;
    if (isnan(a) || isnan(b))
        return NAN;
    if (low == high && isinf(low))
        return low;
    return high + log1p(exp(low - high));
}

/* Of complex numbers, the one with the larger real part stands in front. */
static double _Complex add_complex_logs(double _Complex a, double _Complex b)
{
    double _Complex low = creal(a) < creal(b) ? a : b, high = creal(a) < creal(b) ? b : a;
    if (isnan(creal(a)) || isnan(cimag(a)) || isnan(creal(b)) || isnan(cimag(b)))
        return CMPLX(NAN, NAN);
    if (isinf(creal(high)) && creal(high) < 0)
        return CMPLX(creal(high), 0);
    double _Complex rest = cexp(low - high);
    return high + clog(1 + rest);
}

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t rows = w->along.outer * w->along.inner, end = tp_chunk_at(rows, index + 1, count), step = w->along.inner;
    for (int64_t row = tp_chunk_at(rows, index, count); row < end; row++) {
        int64_t first = row / step * w->along.size * step + row % step;
        if (w->complex) {
            const double _Complex *x = (const double _Complex *)w->from + first;
            double _Complex *y = (double _Complex *)w->to + first, sum = x[0];
            for (int64_t i = 0; i < w->along.size; i++)
                y[i * step] = sum = i ? add_complex_logs(sum, x[i * step]) : sum;
        } else {
            const double *x = (const double *)w->from + first;
            double *y = (double *)w->to + first, sum = x[0];
            for (int64_t i = 0; i < w->along.size; i++)
                y[i * step] = sum = i ? add_logs(sum, x[i * step]) : sum;
        }
    }
}

/* logcumsumexp(self, dim) */
TP_HOOK_K(tp_k_logcumsumexp)
{
    const tp_tensor *self = arg[0].tensor;
    bool complex = tp_dtype_is_complex((tp_dtype)self->dtype);
    tp_dtype d = complex ? TP_c128 : TP_f64;
    tp_tensor *from = tp_dense(self, d), *to = from ? tp_dense_out(out[0], d) : NULL;
    if (to && to->numel) {
        work w = { tp_along_dim(self, tp_as_int(arg[1])), tp_tensor_data(from), tp_tensor_data(to), complex };
        tp_pool_run(tp_chunks_of(w.along.outer * w.along.inner, w.along.size), chunk, &w);
    }
    tp_tensor_unref(from);
    return tp_dense_done(to, out[0], true);
}
