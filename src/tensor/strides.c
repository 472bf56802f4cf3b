/* strides.c - orders of dims in memory: row-major, channels last, like another tensor, and views without copying. */
#include <string.h>

#include "tensor/tensor.h"

int64_t tp_sizes_numel(int ndim, const int64_t *size)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
        if (size[i] == 0)
            return 0;
    for (int i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(n, size[i], &n))
            return -1;
    return n;
}

/* The next stride. A size of zero counts as one, so that strides of empty tensors are what PyTorch shows; theirs may wrap,
 * others are refused when memory is asked for. */
static int64_t past(int64_t step, int64_t n)
{
    return n > 1 ? (int64_t)((uint64_t)step * (uint64_t)n) : step;
}

void tp_strides_row_major(int ndim, const int64_t *size, int64_t *stride)
{
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step = past(step, size[i]);
    }
}

void tp_strides_channels_last(int ndim, const int64_t *size, int64_t *stride)
{
    int64_t step = 1;
    stride[1] = step;
    step = past(step, size[1]);
    for (int i = ndim - 1; i >= 2; i--) {
        stride[i] = step;
        step = past(step, size[i]);
    }
    stride[0] = step;
}

/* Should dim a stand inside dim b? 1 yes, -1 no, 0 no operand can tell. */
static int inside(const int64_t *size, int count, const int64_t *const *stride, int a, int b)
{
    for (int i = 0; i < count; i++) {
        int64_t sa = stride[i][a], sb = stride[i][b];
        if (!sa || !sb)
            continue;
        if (sa != sb)
            return sa < sb ? 1 : -1;
        if (size[a] < size[b])
            return 1;
    }
    return 0;
}

void tp_strides_order(int ndim, const int64_t *size, int count, const int64_t *const *stride, int *order)
{
    for (int i = 0; i < ndim; i++)
        order[i] = ndim - 1 - i;
    for (int i = 1; i < ndim; i++)
        for (int j = i, k = i - 1; k >= 0; k--) {
            int answer = inside(size, count, stride, order[j], order[k]);
            if (answer < 0)
                break;
            if (answer > 0) {           /* a dim that nobody can tell stays where it is */
                int swap = order[j];
                order[j] = order[k];
                order[k] = swap;
                j = k;
            }
        }
}

void tp_strides_like(const tp_tensor *x, int ndim, const int64_t *size, int64_t *stride)
{
    /* For the very sizes of x its strides are kept to the letter, also those of dims of size 1, which say nothing. */
    if (ndim == x->ndim && memcmp(size, x->size, (size_t)ndim * sizeof *size) == 0 && (!x->numel || tp_tensor_is_dense(x))) {
        memmove(stride, x->stride, (size_t)ndim * sizeof *stride);
        return;
    }
    if (ndim != x->ndim || tp_tensor_is_contiguous(x)) {
        tp_strides_row_major(ndim, size, stride);
        return;
    }
    if (tp_tensor_is_channels_last(x)) {
        tp_strides_channels_last(ndim, size, stride);
        return;
    }
    int order[TP_MAX_DIMS];
    tp_strides_order(ndim, x->size, 1, &(const int64_t *){ x->stride }, order);
    int64_t step = 1;
    for (int i = 0; i < ndim; i++) {
        stride[order[i]] = step;
        step = past(step, size[order[i]]);
    }
}

/* Walks both shapes from the inside: each run of old dims that is contiguous among itself must be used up exactly by a
 * run of wanted dims. */
bool tp_strides_view(int ndim, const int64_t *size, const int64_t *stride, int want_ndim, const int64_t *want, int64_t *out)
{
    if (tp_sizes_numel(ndim, size) == 0) {
        if (ndim == want_ndim && memcmp(size, want, (size_t)ndim * sizeof *size) == 0)
            memcpy(out, stride, (size_t)ndim * sizeof *stride);
        else
            tp_strides_row_major(want_ndim, want, out);
        return true;
    }
    if (ndim == 0) {
        for (int i = 0; i < want_ndim; i++)
            out[i] = 1;
        return true;
    }
    int at = want_ndim - 1;
    int64_t base = stride[ndim - 1], run = 1, used = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        run *= size[i];
        bool ends = i == 0 || (size[i - 1] != 1 && stride[i - 1] != run * base);
        if (!ends)
            continue;
        while (at >= 0 && (used < run || want[at] == 1)) {
            out[at] = used * base;
            used *= want[at];
            at--;
        }
        if (used != run)
            return false;
        if (i > 0) {
            base = stride[i - 1];
            run = used = 1;
        }
    }
    return at == -1;
}
