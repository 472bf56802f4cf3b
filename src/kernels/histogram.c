/* histogram.c - elements counted: bincount, histc, histogram, histogramdd.
 *
 * A histogram of D dims counts rows of D numbers. The edges of a dim are either evenly spaced, and the bin is computed and then
 * corrected by looking at the edges beside it, or given, and the bin is searched. All numbers are doubles here, which hold those
 * of f32 exactly; only where histc divides is the element's own type used, because it looks at no edges afterwards. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/dense.h"

typedef enum way { EVEN, EVEN_BY_EDGES, SEARCHED } way;

typedef struct axis {
    double *edge;               /* owned: bins + 1 */
    int64_t bins;
} axis;

typedef struct histogram {
    way      how;
    int      dims;
    bool     single;            /* of f32 */
    int64_t  rows;
    axis    *axis;              /* owned: one a dim */
    const double *x, *weight;   /* rows x dims; rows, may be NULL */
    double  *count;             /* row-major over the bins */
} histogram;

/* ---- which bin ---- */

/* -1: outside, or a NaN. The last bin holds its right edge. */
static int64_t bin_of(const histogram *h, const axis *a, double v)
{
    double low = a->edge[0], high = a->edge[a->bins];
    int64_t bin;
    if (!(v >= low && v <= high))
        return -1;
    if (h->how == SEARCHED) {
        int64_t from = 0, to = a->bins + 1;             /* the first edge above v */
        while (from < to) {
            int64_t middle = from + (to - from) / 2;
            if (a->edge[middle] > v)
                to = middle;
            else
                from = middle + 1;
        }
        bin = from - 1;
    } else {
        bin = h->single ? (int64_t)(((float)v - (float)low) * (float)a->bins / ((float)high - (float)low))
                        : (int64_t)((v - low) * (double)a->bins / (high - low));
        if (h->how == EVEN_BY_EDGES) {
            int64_t first = bin > 0 ? bin - 1 : 0, last = bin + 2 < a->bins + 1 ? bin + 2 : a->bins + 1;
            for (bin = first; bin + 1 < last && a->edge[bin + 1] <= v;)
                bin++;
        }
    }
    return bin >= a->bins ? a->bins - 1 : bin;
}

static void count_rows(const histogram *h)
{
    for (int64_t r = 0; r < h->rows; r++) {
        int64_t at = 0;
        for (int d = 0; d < h->dims && at >= 0; d++) {
            int64_t bin = bin_of(h, &h->axis[d], h->x[r * h->dims + d]);
            at = bin < 0 ? -1 : at * h->axis[d].bins + bin;
        }
        if (at >= 0)
            h->count[at] += h->weight ? h->weight[r] : 1;
    }
}

/* Counts become densities: divided by their sum and by the volume of the bin. */
static void make_density(const histogram *h, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += h->count[i];
    for (int64_t i = 0; i < n; i++) {
        double volume = sum;
        int64_t at = i;
        for (int d = h->dims - 1; d >= 0; d--) {
            const axis *a = &h->axis[d];
            volume *= a->edge[at % a->bins + 1] - a->edge[at % a->bins];
            at /= a->bins;
        }
        h->count[i] /= volume;
    }
}

/* ---- edges ---- */
static void space_evenly(axis *a, double low, double high, bool single)
{
    int64_t n = a->bins;
    double step = single ? ((float)high - (float)low) / (float)n : (high - low) / (double)n;
    for (int64_t i = 0; i <= n; i++) {
        double e = i < (n + 1) / 2 ? low + step * (double)i : high - step * (double)(n - i);
        a->edge[i] = single ? (float)e : e;
    }
}

/* The least and the largest of a column; a NaN is both. */
static void extremes_of(const histogram *h, int d, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int64_t r = 0; r < h->rows; r++) {
        double v = h->x[r * h->dims + d];
        *low = v < *low || isnan(v) ? v : *low;
        *high = v > *high || isnan(v) ? v : *high;
        if (isnan(v))
            return;
    }
}

static bool range_of(const histogram *h, tp_value range, int d, double *low, double *high)
{
    *low = 0;
    *high = 1;
    if (range.tag == TP_LIST) {
        if ((int)tp_length(range) != 2 * h->dims)
            return tp_fail(TP_ERR_RUNTIME, "torch.histogramdd: for a %d-dimensional histogram range should have %d elements, but got %u", h->dims,
                           2 * h->dims, tp_length(range));
        *low = tp_as_double(range.list->item[2 * d]);
        *high = tp_as_double(range.list->item[2 * d + 1]);
    } else if (h->rows) {
        extremes_of(h, d, low, high);
    }
    if (!isfinite(*low) || !isfinite(*high))
        return tp_fail(TP_ERR_RUNTIME, "torch.histogramdd: dimension %d's range [%g, %g] is not finite", d, *low, *high);
    if (*low > *high)
        return tp_fail(TP_ERR_RUNTIME, "torch.histogramdd: min should not exceed max, but got min %g max %g for dimension %d", *low, *high, d);
    if (*low == *high) {
        *low -= 0.5;
        *high += 0.5;
    }
    return true;
}

static bool axes_by_count(histogram *h, const int64_t *bins, tp_value range)
{
    for (int d = 0; d < h->dims; d++) {
        double low, high;
        h->axis[d].bins = bins[d];
        if (!range_of(h, range, d, &low, &high) || !(h->axis[d].edge = tp_alloc_array((size_t)bins[d] + 1, sizeof(double))))
            return false;
        space_evenly(&h->axis[d], low, high, h->single);
    }
    return true;
}

static bool axis_of_tensor(axis *a, const tp_tensor *edges)
{
    tp_tensor *wide = tp_dense(edges, TP_f64);
    a->edge = wide ? tp_alloc_array((size_t)edges->numel + 1, sizeof(double)) : NULL;
    a->bins = edges->numel - 1;
    if (a->edge)
        memcpy(a->edge, tp_tensor_data(wide), (size_t)edges->numel * sizeof(double));
    tp_tensor_unref(wide);
    return a->edge != NULL;
}

/* ---- a whole histogram ---- */
typedef bool axes_fn(histogram *h, const void *context);

/* Sees self as rows of `dims` numbers, makes the axes, counts into out[0]; edges of one dim go to `edges` when asked for. */
static bool fill(const tp_tensor *self, int dims, way how, axes_fn *make, const void *context, const tp_tensor *weight, bool density,
                 tp_tensor *out, tp_tensor *edges)
{
    tp_tensor *x = tp_dense(self, TP_f64), *w = x && weight ? tp_dense(weight, TP_f64) : NULL, *to = NULL;
    histogram h = { .how = how, .dims = dims, .single = self->dtype != TP_f64, .rows = dims ? self->numel / dims : 0 };
    bool ok = x && (w || !weight) && (h.axis = tp_alloc_zero(((size_t)dims + 1) * sizeof *h.axis));
    if (ok) {
        h.x = tp_tensor_data(x);
        h.weight = w ? tp_tensor_data(w) : NULL;
        ok = make(&h, context) && (to = tp_dense_out(out, TP_f64));
    }
    if (ok) {
        h.count = tp_tensor_data(to);
        if (to->numel)
            memset(h.count, 0, (size_t)to->numel * sizeof *h.count);
        count_rows(&h);
        if (density)
            make_density(&h, to->numel);
    }
    if (ok && edges) {
        tp_tensor *given = tp_dense_out(edges, TP_f64);
        if (given)
            memcpy(tp_tensor_data(given), h.axis[0].edge, (size_t)edges->numel * sizeof(double));
        ok = tp_dense_done(given, edges, true);
    }
    for (int d = 0; h.axis && d < dims; d++)
        tp_free(h.axis[d].edge);
    tp_free(h.axis);
    tp_tensor_unref(x);
    tp_tensor_unref(w);
    return to ? tp_dense_done(to, out, ok) : false;
}

/* ---- histc(self, bins, min, max) ---- */
static bool histc_axis(histogram *h, const void *context)
{
    const tp_value *arg = context;
    double low = tp_as_double(arg[2]), high = tp_as_double(arg[3]);
    if (low == high && h->rows)
        extremes_of(h, 0, &low, &high);
    if (low == high) {
        low -= 1;
        high += 1;
    }
    if (!isfinite(low) || !isfinite(high))
        return tp_fail(TP_ERR_RUNTIME, "torch.histc: range of [%g, %g] is not finite", low, high);
    if (low > high)
        return tp_fail(TP_ERR_RUNTIME, "torch.histc: max must be larger than min");
    h->axis[0].bins = tp_as_int(arg[1]);
    if (!(h->axis[0].edge = tp_alloc_array((size_t)h->axis[0].bins + 1, sizeof(double))))
        return false;
    space_evenly(&h->axis[0], low, high, h->single);
    return true;
}

TP_HOOK_K(tp_k_histc)
{
    return fill(arg[0].tensor, 1, EVEN, histc_axis, arg, NULL, false, out[0], NULL);
}

/* ---- histogram.bin_ct(self, bins, *, range, weight, density) ---- */
static bool counted_axes(histogram *h, const void *context)
{
    const tp_value *arg = context;
    int64_t bins[TP_MAX_DIMS];
    return tp_as_ints(arg[1], bins, TP_MAX_DIMS, 1) >= 0 && axes_by_count(h, bins, arg[2]);
}

TP_HOOK_K(tp_k_histogram_counts)
{
    return fill(arg[0].tensor, 1, EVEN_BY_EDGES, counted_axes, arg, tp_as_tensor(arg[3]), tp_as_bool(arg[4]), out[0], out[1]);
}

/* histogram.bins_tensor(self, bins, *, weight, density) */
static bool given_axes(histogram *h, const void *context)
{
    const tp_value *arg = context;
    for (int d = 0; d < h->dims; d++)
        if (!axis_of_tensor(&h->axis[d], arg[1].tag == TP_TENSOR ? arg[1].tensor : arg[1].list->item[d].tensor))
            return false;
    return true;
}

TP_HOOK_K(tp_k_histogram_edges)
{
    return fill(arg[0].tensor, 1, SEARCHED, given_axes, arg, tp_as_tensor(arg[2]), tp_as_bool(arg[3]), out[0], out[1]);
}

/* ---- _histogramdd_from_bin_cts(self, bins, *, range, weight, density), _from_bin_tensors(self, bins, *, weight, density) ---- */
TP_HOOK_K(tp_k_histogramdd_counts)
{
    return fill(arg[0].tensor, (int)tp_length(arg[1]), EVEN_BY_EDGES, counted_axes, arg, tp_as_tensor(arg[3]), tp_as_bool(arg[4]), out[0], NULL);
}

TP_HOOK_K(tp_k_histogramdd_edges)
{
    return fill(arg[0].tensor, (int)tp_length(arg[1]), SEARCHED, given_axes, arg, tp_as_tensor(arg[2]), tp_as_bool(arg[3]), out[0], NULL);
}

/* _histogramdd_bin_edges(self, bins, *, range, weight, density) -> Tensor[] */
TP_HOOK_D(tp_k_histogramdd_bin_edges)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t bins[TP_MAX_DIMS];
    int dims = tp_as_ints(arg[1], bins, TP_MAX_DIMS, 0);
    tp_tensor *x = dims < 0 ? NULL : tp_dense(self, TP_f64);
    tp_list *list = x ? tp_list_new((size_t)dims) : NULL;
    histogram h = { .dims = dims, .single = self->dtype != TP_f64, .rows = dims > 0 ? self->numel / dims : 0 };
    bool ok = list && (h.axis = tp_alloc_zero(((size_t)dims + 1) * sizeof *h.axis));
    (void)op;
    h.x = x ? tp_tensor_data(x) : NULL;
    ok = ok && axes_by_count(&h, bins, arg[2]);
    for (int d = 0; ok && d < dims; d++) {
        int64_t n = bins[d] + 1;
        tp_tensor *edges = tp_tensor_new((tp_dtype)self->dtype, 1, &n), *wide = edges ? tp_dense_out(edges, TP_f64) : NULL;
        if (wide && n > 0)
            memcpy(tp_tensor_data(wide), h.axis[d].edge, (size_t)n * sizeof(double));
        ok = tp_dense_done(wide, edges, wide != NULL);
        list->item[d] = tp_of_tensor(edges);
    }
    for (int d = 0; h.axis && d < dims; d++)
        tp_free(h.axis[d].edge);
    tp_free(h.axis);
    tp_tensor_unref(x);
    if (ok)
        result[0] = tp_of_list(list);
    else if (list)
        tp_value_unref(tp_of_list(list));
    return ok;
}

/* ---- bincount(self, weights, minlength) ---- */
TP_HOOK_K(tp_k_bincount)
{
    const tp_tensor *self = arg[0].tensor, *weight = self->numel ? tp_as_tensor(arg[1]) : NULL;
    tp_tensor *at = tp_dense(self, TP_i64), *to = NULL, *w = NULL;
    const int64_t *index = at ? tp_tensor_data(at) : NULL;
    int64_t n = tp_as_int(arg[2]);
    bool ok = at != NULL;
    for (int64_t i = 0; ok && i < at->numel; i++) {
        ok = index[i] >= 0 || tp_fail(TP_ERR_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
        n = ok && index[i] >= n ? index[i] + 1 : n;
    }
    tp_dtype d = !weight ? TP_i64 : weight->dtype == TP_f32 ? TP_f32 : TP_f64;
    if (ok && !out[0])
        ok = (out[0] = tp_tensor_new(d, 1, &n)) != NULL;
    ok = ok && (to = tp_dense_out(out[0], d)) && (!weight || (w = tp_dense(weight, d)));
    if (ok && n)
        memset(tp_tensor_data(to), 0, (size_t)n * tp_dtype_bytes(d));
    for (int64_t i = 0; ok && i < at->numel; i++)
        if (d == TP_i64)
            ((int64_t *)tp_tensor_data(to))[index[i]]++;
        else if (d == TP_f32)
            ((float *)tp_tensor_data(to))[index[i]] += ((const float *)tp_tensor_data(w))[i];
        else
            ((double *)tp_tensor_data(to))[index[i]] += ((const double *)tp_tensor_data(w))[i];
    tp_tensor_unref(at);
    tp_tensor_unref(w);
    return to ? tp_dense_done(to, out[0], ok) : false;
}
