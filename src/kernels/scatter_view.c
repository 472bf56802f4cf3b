/* scatter_view.c - gradients of views: zeros with the gradient written where the view looked. */
#include "ops/copy.h"
#include "ops/hooks.h"

static int64_t wrapped(int64_t i, int64_t n)
{
    return i < 0 ? i + n : i;
}

/* The entries have checked that the gradient can be broadcast to the view. */
static bool write_into(tp_tensor *out, int ndim, const int64_t *size, const int64_t *stride, int64_t offset, const tp_tensor *g)
{
    tp_fill(out, tp_scalar_int(0));
    tp_tensor *view = tp_tensor_view(out, ndim, size, stride, offset);
    if (!view)
        return false;
    tp_copy(view, g);
    tp_tensor_unref(view);
    return true;
}

/* grad_output, input_sizes, dim, index */
TP_HOOK_K(tp_k_select_backward)
{
    tp_tensor *t = out[0];
    int d = (int)wrapped(tp_as_int(arg[2]), t->ndim), n = 0;
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    for (int i = 0; i < t->ndim; i++)
        if (i != d) {
            size[n] = t->size[i];
            stride[n++] = t->stride[i];
        }
    return write_into(t, n, size, stride, t->offset + wrapped(tp_as_int(arg[3]), t->size[d]) * t->stride[d], arg[0].tensor);
}

/* grad_output, input_sizes, dim, start, end, step */
TP_HOOK_K(tp_k_slice_backward)
{
    tp_tensor *t = out[0];
    int d = (int)wrapped(tp_as_int(arg[2]), t->ndim);
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS], n = t->size[d], start = wrapped(tp_as_int(arg[3]), n), step = tp_as_int(arg[5]);
    int64_t end = wrapped(tp_as_int(arg[4]), n);
    start = start < 0 ? 0 : start > n ? n : start;
    end = end < start ? start : end > n ? n : end;
    for (int i = 0; i < t->ndim; i++) {
        size[i] = i == d ? (end - start) / step + ((end - start) % step != 0) : t->size[i];
        stride[i] = i == d ? (size[i] > 1 ? t->stride[i] * step : 1) : t->stride[i];
    }
    return write_into(t, t->ndim, size, stride, t->offset + start * t->stride[d], arg[0].tensor);
}

/* grad_output, input_sizes, offset, dim1, dim2 */
TP_HOOK_K(tp_k_diagonal_backward)
{
    tp_tensor *t = out[0];
    const tp_tensor *g = arg[0].tensor;
    int a = (int)wrapped(tp_as_int(arg[3]), t->ndim), b = (int)wrapped(tp_as_int(arg[4]), t->ndim), n = 0;
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS], offset = tp_as_int(arg[2]);
    for (int i = 0; i < t->ndim; i++)
        if (i != a && i != b) {
            size[n] = t->size[i];
            stride[n++] = t->stride[i];
        }
    int64_t rows = t->size[a] + (offset < 0 ? offset : 0), columns = t->size[b] - (offset > 0 ? offset : 0);
    size[n] = rows < columns ? rows : columns;
    size[n] = size[n] < 0 ? 0 : size[n];
    stride[n] = t->stride[a] + t->stride[b];
    int64_t at = size[n] == 0 ? 0 : offset >= 0 ? offset * t->stride[b] : -offset * t->stride[a];
    return write_into(t, n + 1, size, stride, t->offset + at, g);
}
