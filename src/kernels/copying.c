/* copying.c - clones and conversions, and ops that change what a tensor looks at. */
#include "ops/copy.h"
#include "ops/hooks.h"

/* clone and _to_copy: the result was laid out by the shape rule. */
TP_HOOK_K(tp_k_clone)
{
    tp_copy(out[0], arg[0].tensor);
    return true;
}

TP_HOOK_K(tp_k_resize_)
{
    int64_t size[TP_MAX_DIMS];
    int n = tp_as_ints(arg[1], size, TP_MAX_DIMS, 0);
    (void)out;
    return n >= 0 && tp_tensor_resize(arg[0].tensor, n, size);
}

TP_HOOK_K(tp_k_set_)
{
    tp_tensor *self = arg[0].tensor;
    const tp_tensor *source = arg[1].tensor;
    (void)out;
    if (self->dtype != source->dtype)
        return tp_fail(TP_ERR_RUNTIME, "Could not set tensor of type %s to a tensor of type %s", tp_dtypes[source->dtype].cpp, tp_dtypes[self->dtype].cpp);
    if (!tp_tensor_set_geometry(self, source->ndim, source->size, source->stride, source->offset))
        return false;
    tp_tensor_set_storage(self, tp_storage_ref(source->storage));
    return true;
}
