/* factory.c - tensors from nothing: filled, counted up, with ones on the diagonal.
 *
 * Counting computes each element from its position, never from its neighbour, in i64 for integers and f64 for floats. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/dense.h"
#include "ops/run.h"

/* full(size, fill_value, …), full_like(self, fill_value, …) */
TP_HOOK_K(tp_k_full)
{
    if (!tp_check_representable(tp_as_scalar(arg[1]), (tp_dtype)out[0]->dtype))
        return false;
    tp_fill(out[0], tp_as_scalar(arg[1]));
    return true;
}

/* new_full(self, size, fill_value, …) */
TP_HOOK_K(tp_k_new_full)
{
    if (!tp_check_representable(tp_as_scalar(arg[2]), (tp_dtype)out[0]->dtype))
        return false;
    tp_fill(out[0], tp_as_scalar(arg[2]));
    return true;
}

TP_HOOK_K(tp_k_zeros)
{
    (void)arg;
    tp_fill(out[0], tp_scalar_int(0));
    return true;
}

TP_HOOK_K(tp_k_ones)
{
    (void)arg;
    tp_fill(out[0], tp_scalar_int(1));
    return true;
}

TP_HOOK_K(tp_k_empty)
{
    (void)arg;
    if (TP_UNLIKELY(tp_fills_uninitialized()))
        tp_fill_uninitialized(out[0]);
    return true;
}

/* PyTorch counts floats in vectors of 32 bytes, two at a time: the first of a vector is rounded to the type, the others are
 * counted from it. The rest at the end, and halves, are counted from the start. */
static double count_up(double start, double step, int64_t i, int64_t n, tp_dtype d)
{
    int64_t lanes = d == TP_f32 ? 8 : d == TP_f64 ? 4 : 0;
    if (!lanes || i >= n - n % (2 * lanes))
        return __builtin_fma(step, (double)i, start);
    double first = __builtin_fma(step, (double)(i - i % lanes), start);
    return __builtin_fma(step, (double)(i % lanes), d == TP_f32 ? (double)(float)first : first);
}

/* Whole numbers below 2^53 need no care with rounding: the common case, and a fast one. */
static bool count_up_whole(double start, double step, int64_t n, tp_dtype d, void *out)
{
    if (start != floor(start) || step != floor(step) || fabs(start) + fabs(step) * (double)n >= 0x1p53 || (d != TP_f32 && d != TP_f64))
        return false;
    if (d == TP_f64)
        for (int64_t i = 0; i < n; i++)
            ((double *)out)[i] = start + step * (double)i;
    else
        for (int64_t i = 0; i < n; i += 8) {
            bool lanes = i + 8 <= n - n % 16;
            double first = start + step * (double)i, base = lanes ? (double)(float)first : first;
            for (int64_t k = 0; k < 8 && i + k < n; k++)
                ((float *)out)[i + k] = (float)(base + step * (double)k);
        }
    return true;
}

static bool arange(tp_scalar start, tp_scalar step, tp_tensor *out)
{
    tp_dtype d = (tp_dtype)out->dtype;
    int64_t n = out->numel, stride = out->ndim ? out->stride[0] : 1;
    size_t bytes = tp_dtype_bytes(d);
    char *to = tp_tensor_data(out);
    int64_t first = tp_scalar_to_int(start), by = tp_scalar_to_int(step);
    double real_first = tp_scalar_to_double(start), real_by = tp_scalar_to_double(step);
    if (stride == 1 && count_up_whole(real_first, real_by, n, d, to))
        return true;
    for (int64_t i = 0; i < n; i++, to += (size_t)stride * bytes)
        if (d == TP_i64)
            *(int64_t *)to = (int64_t)((uint64_t)first + (uint64_t)by * (uint64_t)i);
        else if (tp_dtype_is_integral(d))
            tp_scalar_write(tp_scalar_int((int64_t)((uint64_t)first + (uint64_t)by * (uint64_t)i)), to, d);
        else
            tp_scalar_write(tp_scalar_float(count_up(real_first, real_by, i, n, d)), to, d);
    return true;
}

/* arange.start_step(start, end, step, …); the size is known already. */
TP_HOOK_K(tp_k_arange)
{
    return arange(tp_as_scalar(arg[0]), tp_as_scalar(arg[2]), out[0]);
}

TP_HOOK_K(tp_k_arange_start)
{
    return arange(tp_as_scalar(arg[0]), tp_scalar_int(1), out[0]);
}

TP_HOOK_K(tp_k_arange_end)
{
    (void)arg;
    return arange(tp_scalar_int(0), tp_scalar_int(1), out[0]);
}

/* eye(n, …), eye.m(n, m, …) */
TP_HOOK_K(tp_k_eye)
{
    (void)arg;
    tp_dtype d = (tp_dtype)out[0]->dtype;
    size_t bytes = tp_dtype_bytes(d);
    tp_fill(out[0], tp_scalar_int(0));
    for (int64_t i = 0; i < out[0]->size[0] && i < out[0]->size[1]; i++)
        tp_scalar_write(tp_scalar_int(1), (char *)tp_tensor_data(out[0]) + (size_t)(i * (out[0]->stride[0] + out[0]->stride[1])) * bytes, d);
    return true;
}

/* scalar_tensor(s, …) */
TP_HOOK_K(tp_k_scalar_tensor)
{
    tp_dtype d = (tp_dtype)out[0]->dtype;
    if (!tp_dtype_is_half(d) && !tp_check_representable(tp_as_scalar(arg[0]), d))      /* halves become infinite, in PyTorch too */
        return false;
    tp_scalar_write(tp_as_scalar(arg[0]), tp_tensor_data(out[0]), (tp_dtype)out[0]->dtype);
    return true;
}

__extension__ typedef __int128 wide;

/* The coordinates of a triangle, row by row: row numbers first, then column numbers. */
static bool triangle_indices(const tp_value *arg, tp_tensor *out, bool lower)
{
    int64_t rows = tp_as_int(arg[0]), columns = tp_as_int(arg[1]), offset = tp_as_int(arg[2]), n = out->size[1], k = 0;
    tp_tensor *to = tp_dense_out(out, TP_i64);
    int64_t *at = to ? tp_tensor_data(to) : NULL;
    int64_t begin = lower && offset < 0 ? offset == INT64_MIN ? rows : -offset : 0;      /* the rows before and behind have no place */
    for (int64_t i = begin; to && k < n && i < rows; i++) {
        wide edge = (wide)i + offset;
        int64_t first = lower || edge < 0 ? 0 : edge > columns ? columns : (int64_t)edge;
        int64_t last = lower && edge + 1 < columns ? (int64_t)(edge + 1) : columns;
        for (int64_t j = first; j < last; j++, k++) {
            at[k] = i;
            at[n + k] = j;
        }
    }
    return tp_dense_done(to, out, true);
}

TP_HOOK_K(tp_k_tril_indices)
{
    return triangle_indices(arg, out[0], true);
}

TP_HOOK_K(tp_k_triu_indices)
{
    return triangle_indices(arg, out[0], false);
}

/* from_file(filename, shared, size, …): the first elements of a file. */
TP_HOOK_K(tp_k_from_file)
{
    const char *name = arg[0].string->text;
    size_t bytes = (size_t)out[0]->numel * tp_dtype_bytes((tp_dtype)out[0]->dtype);
    FILE *file = fopen(name, "rb");
    if (!file)
        return tp_fail(TP_ERR_RUNTIME, "unable to open file <%s> in read-only mode: %s (%d)", name, strerror(errno), errno);
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    bool ok = length >= 0 && fseek(file, 0, SEEK_SET) == 0;
    if (!ok)
        (void)tp_fail(TP_ERR_RUNTIME, "unable to stat the file <%s>: %s (%d)", name, strerror(errno), errno);
    else if ((size_t)length < bytes)
        ok = tp_fail(TP_ERR_RUNTIME, "file <%s> size <%ld> is smaller than the required mapping size <%zu>", name, length, bytes);
    else if (bytes && fread(tp_tensor_data(out[0]), 1, bytes, file) != bytes)
        ok = tp_fail(TP_ERR_RUNTIME, "unable to read the file <%s>", name);
    fclose(file);
    return ok;
}
