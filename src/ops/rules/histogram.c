/* histogram.c - checks of histograms, and histogramdd as calls of ops. */
#include "ops/rules/rules.h"

static tp_value shape_of(const tp_tensor *t, int shown)
{
    tp_syms s = tp_syms_sizes(t);
    if (shown == 1) {                                   /* histogram sees all elements as rows of one number */
        s.item[0] = tp_syms_numel(t);
        s.count = 1;
    } else if (shown == 2) {
        s = (tp_syms){ .count = 2, .item = { tp_syms_numel(t), tp_sym_int(1) } };
    }
    return tp_value_of_syms(&s);
}

static bool check_weight(const tp_tensor *self, const tp_tensor *weight, bool flat)
{
    bool same = true;
    if (!weight)
        return true;
    if (weight->dtype != self->dtype)
        return tp_fail(TP_ERR_RUNTIME, "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, "
                       "but got input(%s), and weight(%s)", tp_dtypes[self->dtype].cpp, tp_dtypes[weight->dtype].cpp);
    if (flat) {
        same = weight->numel == self->numel;
    } else {
        same = weight->ndim == self->ndim - 1;
        for (int i = 0; same && i < weight->ndim; i++)
            same = weight->size[i] == self->size[i];
    }
    return same || tp_fail_with(TP_ERR_RUNTIME, "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
                                "excluding its innermost dimension, but got input with shape {} and weight with shape {}", 2,
                                (tp_value[]){ shape_of(self, flat ? 2 : 0), shape_of(weight, flat) });
}

static bool check_bins(const tp_tensor *self, tp_value bins, int dim)
{
    const tp_tensor *t = tp_as_tensor(bins);
    if (t && t->dtype != self->dtype)
        return tp_fail(TP_ERR_RUNTIME, "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype %s and "
                       "bins for dimension %d with dtype %s", tp_dtypes[self->dtype].cpp, dim, tp_dtypes[t->dtype].cpp);
    if (t && t->ndim != 1)
        return tp_fail(TP_ERR_RUNTIME, "torch.histogramdd: bins tensor should have one dimension, but got %d dimensions in the bins tensor for dimension %d",
                       t->ndim, dim);
    if (t && !t->numel)
        return tp_fail(TP_ERR_RUNTIME, "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension %d", dim);
    int64_t count = t ? t->numel - 1 : tp_as_int(bins);
    return count > 0 || tp_fail(TP_ERR_RUNTIME, "torch.histogram(): bins must be > 0, but got %lld for dimension %d", LL(count), dim);
}

/* (self, bins, weight) */
TP_HOOK_C(tp_c_histogram)
{
    return check_weight(arg[0].tensor, tp_as_tensor(arg[2]), true) && check_bins(arg[0].tensor, arg[1], 0);
}

TP_HOOK_C(tp_c_histogramdd)
{
    const tp_tensor *self = arg[0].tensor;
    for (uint32_t i = 0; i < tp_length(arg[1]); i++)
        if (!check_bins(self, arg[1].list->item[i], (int)i))
            return false;
    return check_weight(self, tp_as_tensor(arg[2]), false);
}

/* histogramdd(self, bins, range, weight, density): bins are numbers, one number for all dims, or edges. */
TP_HOOK_D(tp_d_histogramdd)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor;
    tp_value bins = arg[1], edges = bins, hist;
    (void)op;
    if (bins.tag == TP_INT) {
        tp_values all = { 0 };
        for (int64_t i = 0; i < (self->ndim ? self->size[self->ndim - 1] : 0); i++)
            tp_values_add(&s, &all, bins);
        bins = tp_scope_values(&s, &all);
    }
    if (tp_length(bins) && bins.list->item[0].tag == TP_TENSOR) {
        hist = CALL(_histogramdd_from_bin_tensors, arg[0], bins, arg[3], arg[4]);
    } else {
        edges = CALL(_histogramdd_bin_edges, arg[0], bins, arg[2], arg[3], arg[4]);
        hist = CALL(_histogramdd_from_bin_cts, arg[0], bins, arg[2], arg[3], arg[4]);
    }
    if (!s.failed) {
        tp_scope_keep(&s, &result[0], hist);
        tp_scope_keep(&s, &result[1], edges);
    }
    return tp_scope_end(&s);
}
