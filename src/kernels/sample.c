/* sample.c - dropout and multinomial: draws that are worked with at once. */
#include <math.h>

#include "base/alloc.h"
#include "kernels/dense.h"
#include "tensor/generator.h"

/* A number as the tensor's type holds it. */
static double as_stored(double value, tp_dtype d)
{
    _Alignas(16) char element[16];
    if (d == TP_f64)
        return value;
    if (d == TP_f32)
        return (float)value;
    tp_scalar_write(tp_scalar_float(value), element, d);
    return tp_scalar_to_double(tp_scalar_read(element, d));
}

/* native_dropout(input, p, train) -> (output, mask). The mask is drawn in row-major order. */
TP_HOOK_K(tp_k_native_dropout)
{
    const tp_tensor *input = arg[0].tensor;
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    double p = tp_as_double(arg[1]), keep = 1 - p;
    bool train = tp_is_none(arg[2]) || tp_as_bool(arg[2]);
    tp_generator *g = tp_generator_default();
    tp_tensor *x = g ? tp_dense(input, d) : NULL, *y = x ? tp_dense_out(out[0], d) : NULL, *mask = y ? tp_dense_out(out[1], TP_b8) : NULL;
    bool ok = mask != NULL;
    if (ok && !train) {
        tp_copy(y, x);
        tp_fill(mask, tp_scalar_int(1));
    } else if (ok) {
        double scale = as_stored(p == 1 ? 0 : 1 / keep, (tp_dtype)input->dtype);
        uint8_t *m = tp_tensor_data(mask);
        tp_generator_lock(g);
        for (int64_t i = 0; i < x->numel; i++)
            m[i] = tp_draw_u53(g) < keep;
        tp_generator_unlock(g);
        if (d == TP_f64)
            for (int64_t i = 0; i < x->numel; i++)
                ((double *)tp_tensor_data(y))[i] = ((const double *)tp_tensor_data(x))[i] * m[i] * scale;
        else
            for (int64_t i = 0; i < x->numel; i++)
                ((float *)tp_tensor_data(y))[i] = ((const float *)tp_tensor_data(x))[i] * (float)m[i] * (float)scale;
    }
    tp_tensor_unref(x);
    ok = tp_dense_done(mask, out[1], ok);
    return tp_dense_done(y, out[0], ok);
}

/* ---- multinomial ---- */
static bool check_probabilities(const tp_tensor *p)
{
    const double *row = tp_tensor_data(p);
    int64_t n = p->size[p->ndim - 1];
    for (int64_t i = 0; i < p->numel; i++)
        if (!(row[i] >= 0) || isinf(row[i]))
            return tp_fail(TP_ERR_RUNTIME, "probability tensor contains either `inf`, `nan` or element < 0");
    for (int64_t r = 0; n && r < p->numel / n; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += row[r * n + i];
        if (sum <= 0)
            return tp_fail(TP_ERR_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    return true;
}

/* The k largest of p / exponential, largest first; q is scratch of n. */
static void race(const double *q, int64_t n, int64_t k, int64_t *out, double *left)
{
    for (int64_t i = 0; i < n; i++)
        left[i] = q[i];
    for (int64_t s = 0; s < k; s++) {
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++)
            if (left[i] > left[best])
                best = i;
        out[s] = best;
        left[best] = -1;
    }
}

static void without_replacement(tp_generator *g, const double *p, int64_t rows, int64_t n, int64_t k, tp_dtype d, int64_t *out, double *scratch)
{
    double *q = scratch;
    for (int64_t i = 0; i < rows * n; i++)
        q[i] = as_stored(p[i] / as_stored(-log1p(-tp_draw_u53(g)), d), d);
    for (int64_t r = 0; r < rows; r++)
        race(q + r * n, n, k, out + r * k, scratch + rows * n);
}

static void with_replacement(tp_generator *g, const double *p, int64_t rows, int64_t n, int64_t k, tp_dtype d, int64_t *out, double *scratch)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            scratch[i] = sum = as_stored(sum + p[r * n + i], d);
        for (int64_t i = 0; i < n; i++)
            scratch[i] = as_stored(scratch[i] / sum, d);
        scratch[n - 1] = 1;
        for (int64_t s = 0; s < k; s++) {
            double u = tp_draw_u53(g);
            int64_t low = 0, high = n - 1;
            while (low < high) {
                int64_t middle = low + (high - low) / 2;
                if (scratch[middle] < u)
                    low = middle + 1;
                else
                    high = middle;
            }
            out[r * k + s] = low;
        }
    }
}

/* multinomial(self, num_samples, replacement, *, generator) */
TP_HOOK_K(tp_k_multinomial)
{
    const tp_tensor *self = arg[0].tensor;
    tp_generator *g = arg[3].tag == TP_GENERATOR ? arg[3].generator : tp_generator_default();
    int64_t n = self->size[self->ndim - 1], rows = n ? self->numel / n : 0, k = tp_as_int(arg[1]);
    tp_tensor *p = g ? tp_dense(self, TP_f64) : NULL, *to = p ? tp_dense_out(out[0], TP_i64) : NULL;
    double *scratch = to ? tp_alloc_array((size_t)(self->numel + n + 1), sizeof *scratch) : NULL;
    bool ok = scratch && check_probabilities(p);
    if (ok && rows) {
        tp_generator_lock(g);
        if (tp_as_bool(arg[2]) && k > 1)
            with_replacement(g, tp_tensor_data(p), rows, n, k, (tp_dtype)self->dtype, tp_tensor_data(to), scratch);
        else
            without_replacement(g, tp_tensor_data(p), rows, n, k, (tp_dtype)self->dtype, tp_tensor_data(to), scratch);
        tp_generator_unlock(g);
    }
    tp_free(scratch);
    tp_tensor_unref(p);
    return tp_dense_done(to, out[0], ok);
}
