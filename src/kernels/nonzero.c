/* nonzero.c - nonzero, masked_select and masked_scatter: sizes that depend on data.
 *
 * Any type is first brought to a row of bytes, 0 or 1, by a cast; counting and collecting go over those. */
#include "kernels/nonzero.h"

#include <string.h>

#include "kernels/dense.h"
#include "kernels/filter.h"
#include "ops/promote.h"

/* Bytes 0 or 1 in row-major order. A bool from foreign memory may hold other bytes: they are only compared with 0. */
static tp_tensor *truths(const tp_tensor *t)
{
    return tp_dense(t, TP_b8);
}

static int64_t count_true(const tp_tensor *bytes)
{
    return tp_filter_chosen()->count(bytes->numel, tp_tensor_data(bytes));
}

bool tp_count_nonzero(const tp_tensor *t, int64_t *count)
{
    tp_tensor *b = truths(t);
    if (b)
        *count = count_true(b);
    tp_tensor_unref(b);
    return b != NULL;
}

/* Turns flat positions, kept in the last column, into coordinates, one column a dim. */
static void unravel(const tp_tensor *t, int64_t count, int64_t *column)
{
    int64_t *flat = column + (t->ndim - 1) * count;
    for (int d = 0; d + 1 < t->ndim; d++) {
        int64_t inner = 1;
        for (int i = d + 1; i < t->ndim; i++)
            inner *= t->size[i];
        for (int64_t i = 0; i < count; i++) {
            column[d * count + i] = flat[i] / inner;
            flat[i] %= inner;
        }
    }
}

tp_tensor *tp_nonzero(const tp_tensor *t)
{
    tp_tensor *b = truths(t), *out = NULL;
    if (b) {
        int64_t count = count_true(b);
        int64_t size[2] = { count, t->ndim }, stride[2] = { 1, count > 1 ? count : 1 };
        out = tp_tensor_new_on(t->device, TP_i64, 2, size, stride);
        if (out && count && t->ndim) {
            tp_filter_chosen()->positions(b->numel, tp_tensor_data(b), count, (int64_t *)tp_tensor_data(out) + (t->ndim - 1) * count);
            unravel(t, count, tp_tensor_data(out));
        }
    }
    tp_tensor_unref(b);
    return out;
}

TP_HOOK_K(tp_k_nonzero)
{
    return (out[0] = tp_nonzero(arg[0].tensor)) != NULL;
}

/* ---- masks that choose elements ---- */

bool tp_mask_select(const tp_tensor *t, const tp_tensor *mask, tp_tensor **out)
{
    tp_tensor *values = tp_contiguous(t), *chosen = values ? truths(mask) : NULL;
    bool ok = chosen != NULL;
    if (ok && !*out) {
        int64_t count = count_true(chosen), stride = 1;
        ok = (*out = tp_tensor_new_on(t->device, (tp_dtype)t->dtype, 1, &count, &stride)) != NULL;
    }
    if (ok && (*out)->numel) {
        int power = __builtin_ctz((unsigned)tp_dtype_bytes((tp_dtype)t->dtype));
        tp_filter_chosen()->compress[power](chosen->numel, tp_tensor_data(chosen), (*out)->numel, tp_tensor_data(values),
                                            tp_tensor_data(*out));
    }
    tp_tensor_unref(values);
    tp_tensor_unref(chosen);
    return ok;
}

/* Both broadcast to one shape, as row-major tensors. */
static bool broadcast_pair(const tp_tensor *self, const tp_tensor *mask, tp_tensor **values, tp_tensor **chosen)
{
    int ndim = 0;
    int64_t size[TP_MAX_DIMS];
    *values = *chosen = NULL;
    if (!tp_broadcast(&ndim, size, self->ndim, self->size) || !tp_broadcast(&ndim, size, mask->ndim, mask->size))
        return false;
    if (!(*values = tp_tensor_new((tp_dtype)self->dtype, ndim, size)) || !(*chosen = tp_tensor_new(TP_b8, ndim, size)))
        return false;
    tp_copy(*values, self);
    tp_copy(*chosen, mask);
    return true;
}

/* masked_select(self, mask) */
TP_HOOK_K(tp_k_masked_select)
{
    const tp_tensor *self = arg[0].tensor, *mask = arg[1].tensor;
    if (self->ndim == mask->ndim && memcmp(self->size, mask->size, (size_t)self->ndim * sizeof *self->size) == 0)
        return tp_mask_select(self, mask, out);
    tp_tensor *values, *chosen;
    bool ok = broadcast_pair(self, mask, &values, &chosen) && tp_mask_select(values, chosen, out);
    tp_tensor_unref(values);
    tp_tensor_unref(chosen);
    return ok;
}

/* masked_scatter(self, mask, source): elements of source, in order, go where the mask is true. */
TP_HOOK_K(tp_k_masked_scatter)
{
    const tp_tensor *source = arg[2].tensor;
    tp_tensor *values, *chosen, *supply = NULL;
    if (source->dtype != arg[0].tensor->dtype)
        return tp_fail(TP_ERR_RUNTIME, "masked_scatter: expected self and source to have same dtypes but got %s and %s",
                       tp_dtypes[arg[0].tensor->dtype].title, tp_dtypes[source->dtype].title);
    bool ok = broadcast_pair(arg[0].tensor, arg[1].tensor, &values, &chosen) && (supply = tp_contiguous(source));
    if (ok) {
        const uint8_t *byte = tp_tensor_data(chosen);
        size_t bytes = tp_dtype_bytes((tp_dtype)values->dtype);
        if (count_true(chosen) > supply->numel)
            ok = tp_fail(TP_ERR_RUNTIME, "Number of elements of source < number of ones in mask");
        else if (supply->numel) {
            const char *from = tp_tensor_data(supply);
            char *to = tp_tensor_data(values);
            for (int64_t i = 0; i < chosen->numel; i++)
                if (byte[i]) {
                    memcpy(to + (size_t)i * bytes, from, bytes);
                    from += bytes;
                }
        }
        if (ok)
            tp_copy(out[0], values);
    }
    tp_tensor_unref(supply);
    tp_tensor_unref(values);
    tp_tensor_unref(chosen);
    return ok;
}

/* ---- claims about one element ---- */
static bool assert_one(const tp_tensor *t, const char *text)
{
    if (t->numel != 1)
        return tp_fail(TP_ERR_RUNTIME, "Boolean value of Tensor with %s is ambiguous", t->numel ? "more than one value" : "no values");
    tp_tensor *bytes = truths(t);
    if (!bytes)
        return false;
    bool held = *(const uint8_t *)tp_tensor_data(bytes) != 0;
    tp_tensor_unref(bytes);
    return held || tp_fail(TP_ERR_RUNTIME, "%s", text);
}

TP_HOOK_K(tp_k_assert_async)
{
    (void)out;
    return assert_one(arg[0].tensor, "Expected Tensor with single nonzero value, but got zero");
}

TP_HOOK_K(tp_k_assert_async_msg)
{
    (void)out;
    return assert_one(arg[0].tensor, arg[1].string->text);
}

/* masked_scatter_backward(grad_output, mask, sizes): the marked gradients in order, zeros where the source had more. */
TP_HOOK_K(tp_k_masked_scatter_backward)
{
    tp_tensor *values, *chosen;
    bool ok = broadcast_pair(arg[0].tensor, arg[1].tensor, &values, &chosen);
    if (ok && count_true(chosen) > out[0]->numel)
        ok = tp_fail(TP_ERR_RUNTIME, "masked_scatter_backward: %lld marked gradients for %lld elements", LL(count_true(chosen)), LL(out[0]->numel));
    if (ok) {
        const uint8_t *byte = tp_tensor_data(chosen);
        size_t bytes = tp_dtype_bytes((tp_dtype)values->dtype);
        const char *from = tp_tensor_data(values);
        char *to = tp_tensor_data(out[0]);
        tp_fill(out[0], tp_scalar_int(0));
        for (int64_t i = 0; i < chosen->numel; i++)
            if (byte[i]) {
                memcpy(to, from + (size_t)i * bytes, bytes);
                to += bytes;
            }
    }
    tp_tensor_unref(values);
    tp_tensor_unref(chosen);
    return ok;
}
