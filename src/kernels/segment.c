/* segment.c - segment_reduce: neighbouring elements along an axis, in pieces of given lengths, become one element each. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/dense.h"
#include "ops/emit.h"

typedef enum how { SUM, MEAN, MAX, MIN, PROD } how;

static how how_of(const char *reduce)
{
    return strcmp(reduce, "sum") == 0 ? SUM : strcmp(reduce, "mean") == 0 ? MEAN : strcmp(reduce, "max") == 0 ? MAX : strcmp(reduce, "min") == 0 ? MIN : PROD;
}

/* The pieces of every row: offset[row * (count + 1) + k] is where piece k begins. */
typedef struct pieces {
    int64_t *offset;            /* owned */
    int64_t  rows, count;
} pieces;

static const char *fault_of(const int64_t *begin, int64_t count, int64_t n, bool exact)
{
    for (int64_t k = 0; k < count; k++)
        if (begin[k + 1] < begin[k])
            return "lengths contains negative value!";
    if (begin[0] < 0 || begin[count] > n || (exact && begin[count] != n))
        return "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.";
    return NULL;
}

/* A piece outside the data is refused even when the caller vouches for the sums: it would read foreign memory. */
static bool read_pieces(pieces *p, const tp_tensor *lengths, const tp_tensor *offsets, int64_t n, bool exact)
{
    const tp_tensor *given = lengths ? lengths : offsets;
    if (!given || !given->ndim)
        return tp_fail(TP_ERR_RUNTIME, "%s", given ? "segment_reduce(): lengths and offsets must have at least one dimension"
                                                   : "segment_reduce(): Either lengths or offsets must be defined.");
    int64_t last = given->size[given->ndim - 1];
    if (given->dtype != TP_i64 && given->dtype != TP_i32)
        return tp_fail_dtype("_segment_reduce_lengths_cpu_kernel1", (tp_dtype)given->dtype);
    tp_tensor *dense = tp_dense(given, TP_i64);
    *p = (pieces){ .count = lengths ? last : last - 1, .rows = last ? given->numel / last : 0 };
    bool ok = dense && (p->count >= 0 || tp_fail(TP_ERR_RUNTIME, "segment_reduce(): offsets must have at least one element"))
              && (p->offset = tp_alloc_array((size_t)(p->rows * (p->count + 1)) + 1, sizeof *p->offset));
    for (int64_t r = 0; ok && r < p->rows; r++) {
        const int64_t *from = (const int64_t *)tp_tensor_data(dense) + r * last;
        int64_t *to = p->offset + r * (p->count + 1);
        to[0] = 0;
        for (int64_t k = 0; k < p->count + !lengths; k++)
            if (!lengths)
                to[k] = from[k];
            else if (__builtin_add_overflow(to[k], from[k], &to[k + 1]))
                to[k + 1] = INT64_MAX;
        const char *fault = fault_of(to, p->count, n, exact && lengths);
        ok = !fault || tp_fail(TP_ERR_RUNTIME, "%s", fault);
    }
    tp_tensor_unref(dense);
    return ok;
}

static double join(how h, double a, double x)
{
    switch (h) {
    case SUM: case MEAN: return a + x;
    case MAX: return isnan(a) || a > x ? a : x;
    case MIN: return isnan(a) || a < x ? a : x;
    case PROD: return a * x;
    }
    return a;
}

static double start_of(how h, tp_value initial)
{
    if (initial.tag != TP_NONE)
        return tp_scalar_to_double(tp_as_scalar(initial));
    return h == MAX ? -INFINITY : h == MIN ? INFINITY : h == PROD ? 1 : 0;
}

static double element(const tp_tensor *t, int64_t i)
{
    return t->dtype == TP_f64 ? ((const double *)tp_tensor_data(t))[i] : (double)((const float *)tp_tensor_data(t))[i];
}

static void put(tp_tensor *t, int64_t i, double x)
{
    if (t->dtype == TP_f64)
        ((double *)tp_tensor_data(t))[i] = x;
    else
        ((float *)tp_tensor_data(t))[i] = (float)x;
}

/* segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial) */
TP_HOOK_K(tp_k_segment_reduce)
{
    const tp_tensor *data = arg[0].tensor;
    how h = how_of(arg[1].string->text);
    tp_dtype d = tp_row_dtype((tp_dtype)data->dtype);
    tp_along a = tp_along_dim(data, tp_as_int(arg[5]));
    tp_tensor *from = tp_dense(data, d), *to = from ? tp_dense_out(out[0], d) : NULL;
    pieces p = { 0 };
    bool ok = to && read_pieces(&p, tp_as_tensor(arg[2]), tp_as_tensor(arg[4]), a.size, !tp_as_bool(arg[6]));
    ok = ok && (tp_dtype_is_float((tp_dtype)data->dtype) || tp_fail_dtype("_segment_reduce_cpu", (tp_dtype)data->dtype));
    for (int64_t o = 0; ok && o < a.outer; o++)
        for (int64_t k = 0; k < p.count; k++) {
            const int64_t *at = p.offset + o % tp_int_max(p.rows, 1) * (p.count + 1) + k;
            for (int64_t i = 0; i < a.inner; i++) {
                double sum = start_of(h, arg[7]);
                for (int64_t j = at[0]; j < at[1]; j++)
                    sum = join(h, sum, element(from, (o * a.size + j) * a.inner + i));
                if (h == MEAN && (at[1] > at[0] || arg[7].tag == TP_NONE))
                    sum = at[1] > at[0] ? sum / (double)(at[1] - at[0]) : NAN;
                put(to, (o * p.count + k) * a.inner + i, sum);
            }
        }
    tp_free(p.offset);
    tp_tensor_unref(from);
    return tp_dense_done(to, out[0], ok);
}

/* The product of the other elements of a piece. */
static double product_without(const tp_tensor *data, tp_along a, int64_t o, int64_t i, const int64_t *at, int64_t skip, double start)
{
    for (int64_t j = at[0]; j < at[1]; j++)
        if (j != skip)
            start *= element(data, (o * a.size + j) * a.inner + i);
    return start;
}

/* _segment_reduce_backward(grad, output, data, reduce, lengths, offsets, axis, initial): extremes share their gradient evenly. */
TP_HOOK_K(tp_k_segment_reduce_backward)
{
    how h = how_of(arg[3].string->text);
    tp_dtype d = tp_row_dtype((tp_dtype)arg[2].tensor->dtype);
    tp_along a = tp_along_dim(arg[2].tensor, tp_as_int(arg[6]));
    if (!tp_dtype_is_float((tp_dtype)arg[2].tensor->dtype))
        return tp_fail_dtype("_segment_reduce_cpu", (tp_dtype)arg[2].tensor->dtype);
    tp_tensor *grad = tp_dense(arg[0].tensor, d), *made = grad ? tp_dense(arg[1].tensor, d) : NULL, *data = made ? tp_dense(arg[2].tensor, d) : NULL;
    tp_tensor *to = data ? tp_dense_out(out[0], d) : NULL;
    pieces p = { 0 };
    bool ok = to && read_pieces(&p, tp_as_tensor(arg[4]), tp_as_tensor(arg[5]), a.size, false);
    int64_t places = a.outer * p.count * a.inner;
    ok = ok && ((grad->numel == places && made->numel == places) ||
                tp_fail(TP_ERR_RUNTIME, "_segment_reduce_backward: grad and output must have %lld elements, got %lld and %lld", LL(places), LL(grad->numel), LL(made->numel)));
    if (ok && to->numel)
        memset(tp_tensor_data(to), 0, (size_t)to->numel * tp_dtype_bytes(d));
    for (int64_t o = 0; ok && o < a.outer; o++)
        for (int64_t k = 0; k < p.count; k++) {
            const int64_t *at = p.offset + o % tp_int_max(p.rows, 1) * (p.count + 1) + k;
            for (int64_t i = 0; i < a.inner; i++) {
                double g = element(grad, (o * p.count + k) * a.inner + i), y = element(made, (o * p.count + k) * a.inner + i);
                int64_t equal = 0;
                for (int64_t j = at[0]; j < at[1]; j++) {
                    double x = element(data, (o * a.size + j) * a.inner + i);
                    equal += isnan(x) || x == y;
                }
                for (int64_t j = at[0]; j < at[1]; j++) {
                    int64_t place = (o * a.size + j) * a.inner + i;
                    double x = element(data, place), part = h == MEAN ? g / (double)(at[1] - at[0]) : g;
                    if (h == MAX || h == MIN)
                        part = isnan(x) || x == y ? g / (double)equal : 0;
                    else if (h == PROD)
                        part = x == 0 || isnan(x) ? g * product_without(data, a, o, i, at, j, start_of(h, arg[7])) : g * y / x;
                    put(to, place, part);
                }
            }
        }
    tp_free(p.offset);
    tp_tensor_unref(grad);
    tp_tensor_unref(made);
    tp_tensor_unref(data);
    return tp_dense_done(to, out[0], ok);
}
