/* copying.c - clones and conversions, and ops that change what a tensor looks at. */
#include "ops/copy.h"
#include "ops/hooks.h"

/* clone and _to_copy: the result was laid out by the shape rule. */
TP_HOOK_K(tp_k_clone)
{
    tp_copy(out[0], arg[0].tensor);
    return true;
}

/* What a longer storage has behind its old end, as one vector. */
static bool fill_new_part(const tp_tensor *t, size_t old_bytes)
{
    int64_t bytes = (int64_t)tp_dtype_bytes((tp_dtype)t->dtype), at = (int64_t)old_bytes / bytes, stride = 1;
    int64_t count = (int64_t)t->storage->bytes / bytes - at;
    if (count <= 0 || !t->storage->data)
        return true;
    tp_tensor *part = tp_tensor_take_storage(tp_storage_ref(t->storage), (tp_dtype)t->dtype, 1, &count, &stride, at);
    if (part)
        tp_fill_uninitialized(part);
    tp_tensor_unref(part);
    return part != NULL;
}

TP_HOOK_K(tp_k_resize_)
{
    int64_t size[TP_MAX_DIMS];
    int n = tp_as_ints(arg[1], size, TP_MAX_DIMS, 0);
    size_t before = arg[0].tensor->storage->bytes;
    (void)out;
    int rank = arg[2].tag == TP_NONE ? n : arg[2].i == TP_FORMAT_CHANNELS_LAST ? 4 : arg[2].i == TP_FORMAT_CHANNELS_LAST_3D ? 5 : n;
    if (n >= 0 && n != rank)
        return tp_fail(TP_ERR_RUNTIME, "required rank %d tensor to use %s format", rank, rank == 4 ? "channels_last" : "channels_last_3d");
    if (arg[2].tag != TP_NONE && arg[2].i == TP_FORMAT_PRESERVE)
        return tp_fail(TP_ERR_RUNTIME, "Unsupported memory formatPreserve");
    if (n < 0 || !tp_tensor_resize(arg[0].tensor, n, size))
        return false;
    if (TP_UNLIKELY(tp_fills_uninitialized()) && !fill_new_part(arg[0].tensor, before))
        return false;
    if (arg[2].tag == TP_NONE)
        return true;
    int64_t stride[TP_MAX_DIMS];
    (arg[2].i == TP_FORMAT_CONTIGUOUS ? tp_strides_row_major : tp_strides_channels_last)(n, size, stride);
    /* sizes that were its sizes before made no room for other strides */
    size_t needed = arg[0].tensor->numel ? (size_t)(arg[0].tensor->offset + arg[0].tensor->numel) * tp_dtype_bytes((tp_dtype)arg[0].tensor->dtype) : 0;
    if (needed > arg[0].tensor->storage->bytes && !tp_storage_resize(arg[0].tensor->storage, needed))
        return false;
    return tp_tensor_set_geometry(arg[0].tensor, n, size, stride, arg[0].tensor->offset);
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

/* ---- tensors put onto other memory ---- */

/* set_(self): no elements, a storage of its own. */
TP_HOOK_K(tp_k_set_empty)
{
    tp_tensor *self = arg[0].tensor;
    int64_t size = 0, stride = 1;
    tp_storage *s = tp_storage_new(0);
    (void)out;
    if (!s || !tp_tensor_set_geometry(self, 1, &size, &stride, 0)) {
        tp_storage_unref(s);
        return false;
    }
    tp_tensor_set_storage(self, s);
    return true;
}

/* set_.source_Storage(self, source): all of it, as a vector. */
TP_HOOK_K(tp_k_set_storage)
{
    tp_tensor *self = arg[0].tensor;
    tp_storage *s = arg[1].tensor->storage;
    int64_t size = (int64_t)(s->bytes / tp_dtype_bytes((tp_dtype)self->dtype)), stride = 1;
    (void)out;
    if (!tp_tensor_set_geometry(self, 1, &size, &stride, 0))
        return false;
    tp_tensor_set_storage(self, tp_storage_ref(s));
    return true;
}

/* How many elements a storage must have for these strides; -1: that is no size. */
static int64_t reach_of(int n, const int64_t *size, const int64_t *stride, int64_t offset)
{
    int64_t last = offset;
    for (int i = 0; i < n; i++) {
        int64_t step;
        if (size[i] < 0 || stride[i] < 0)
            return -1;
        if (!size[i])
            return 0;
        if (__builtin_mul_overflow(size[i] - 1, stride[i], &step) || __builtin_add_overflow(last, step, &last))
            return -1;
    }
    return last < INT64_MAX / 64 ? last + 1 : -1;
}

/* set_(self, source, storage_offset, size, stride): a storage that is too small grows. */
TP_HOOK_K(tp_k_set_strided)
{
    tp_tensor *self = arg[0].tensor;
    tp_storage *s = arg[1].tensor->storage;
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS], offset = tp_as_int(arg[2]);
    int n = tp_as_ints(arg[3], size, TP_MAX_DIMS, 0), m = tp_as_ints(arg[4], stride, TP_MAX_DIMS, 0);
    (void)out;
    if (n < 0 || m < 0)
        return false;
    if (offset < 0)
        return tp_fail(TP_ERR_RUNTIME, "Tensor: invalid storage offset %lld", LL(offset));
    if (m && n != m)
        return tp_fail(TP_ERR_RUNTIME, "unequal size length (%d) and stride length (%d)", n, m);
    if (!m)
        tp_strides_row_major(n, size, stride);
    int64_t needed = reach_of(n, size, stride, offset);
    size_t bytes = (size_t)needed * tp_dtype_bytes((tp_dtype)self->dtype);
    if (needed < 0)
        return tp_fail(TP_ERR_RUNTIME, "Storage size calculation overflowed with the given sizes and strides");
    if (bytes > s->bytes && s->kind != TP_MEMORY_NONE && !tp_storage_resize(s, bytes))
        return false;
    if (!tp_tensor_set_geometry(self, n, size, stride, offset))
        return false;
    tp_tensor_set_storage(self, tp_storage_ref(s));
    return true;
}
