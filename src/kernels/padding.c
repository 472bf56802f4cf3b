/* padding.c - padding with a number, by reflection at the border or by its last element, and the gradients. */
#include "kernels/dense.h"
#include "kernels/remap.h"

/* ---- with a number ---- */

/* The part of a tensor that both sides of a padding share: `low` elements fewer at the front of each dim, sizes as given. */
static tp_tensor *part(const tp_tensor *t, const int64_t *low, const int64_t *size)
{
    int64_t offset = t->offset;
    for (int i = 0; i < t->ndim; i++)
        offset += low[i] * t->stride[i];
    return tp_tensor_view(t, t->ndim, size, t->stride, offset);
}

/* constant_pad_nd(self, pad, value); negative pads cut. Pads come in pairs, last dim first. */
TP_HOOK_K(tp_k_constant_pad)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t pad[2 * TP_MAX_DIMS], cut[TP_MAX_DIMS] = { 0 }, skip[TP_MAX_DIMS] = { 0 }, size[TP_MAX_DIMS];
    int count = tp_as_ints(arg[1], pad, 2 * TP_MAX_DIMS, 0);
    if (count < 0)
        return false;
    bool empty = false;
    for (int i = 0; i < self->ndim; i++) {
        int k = 2 * (self->ndim - 1 - i);
        int64_t low = k < count ? pad[k] : 0, high = k < count ? pad[k + 1] : 0;
        cut[i] = low < 0 ? -low : 0;
        skip[i] = low > 0 ? low : 0;
        size[i] = self->size[i] - cut[i] + (high < 0 ? high : 0);
        empty |= size[i] <= 0;
    }
    tp_fill(out[0], tp_as_scalar(arg[2]));
    if (empty)
        return true;
    tp_tensor *from = part(self, cut, size), *to = from ? part(out[0], skip, size) : NULL;
    if (to)
        tp_copy(to, from);
    bool ok = to != NULL;
    tp_tensor_unref(from);
    tp_tensor_unref(to);
    return ok;
}

/* ---- from the border ---- */

/* Where place `at` of a padded dim reads in one of `size` elements; no padding is wider than the dim when it reflects. */
static int64_t reflected(int64_t at, int64_t size)
{
    at = at < 0 ? -at : at;
    return at < size ? at : 2 * (size - 1) - at;
}

static int64_t replicated(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at < size ? at : size - 1;
}

/* Pads stand in pairs, last dim first. */
static bool map_init(tp_remap *m, const tp_tensor *narrow, const tp_tensor *wide, tp_value padding, int64_t (*place)(int64_t, int64_t))
{
    int64_t pad[6];
    int count = tp_as_ints(padding, pad, 6, 0);
    if (count < 0 || !tp_remap_init(m, count / 2, narrow, wide))
        return false;
    for (int d = 3 - count / 2; d < 3; d++)
        for (int64_t i = 0; i < m->to[d]; i++)
            m->at[d][i] = place(i - pad[2 * (2 - d)], m->from[d]);
    return true;
}

static bool pad(const tp_value *arg, tp_tensor *out, int64_t (*place)(int64_t, int64_t))
{
    tp_remap m;
    if (!map_init(&m, arg[0].tensor, out, arg[1], place))
        return false;
    bool ok = tp_remap_copy(&m, arg[0].tensor, out);
    tp_remap_fini(&m);
    return ok;
}

/* (grad_output, self, padding) */
static bool pad_backward(const tp_value *arg, tp_tensor *out, int64_t (*place)(int64_t, int64_t))
{
    tp_remap m;
    if (!map_init(&m, out, arg[0].tensor, arg[2], place))
        return false;
    bool ok = tp_remap_spread(&m, arg[0].tensor, out, (tp_dtype)out->dtype);
    tp_remap_fini(&m);
    return ok;
}

TP_HOOK_K(tp_k_reflection_pad) { return pad(arg, out[0], reflected); }
TP_HOOK_K(tp_k_replication_pad) { return pad(arg, out[0], replicated); }
TP_HOOK_K(tp_k_reflection_pad_backward) { return pad_backward(arg, out[0], reflected); }
TP_HOOK_K(tp_k_replication_pad_backward) { return pad_backward(arg, out[0], replicated); }
