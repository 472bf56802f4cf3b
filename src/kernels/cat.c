/* cat.c - joining tensors along a dim.
 *
 * Row-major operands of the result's type are runs of bytes: each outer row of the result is the inner runs of all of
 * them in turn. Others are copied, converted, into the slice of the result they fill. */
#include <string.h>

#include "base/pool.h"
#include "kernels/dense.h"

/* A 1-d tensor without elements joins anything and adds nothing: PyTorch keeps this for old programs. */
static bool is_nothing(const tp_tensor *t)
{
    return t->ndim == 1 && t->size[0] == 0;
}

typedef struct work {
    const tp_list *tensors;
    char    *to;
    int64_t  outer;
    int      dim;
    size_t   row_bytes;             /* of the result: everything from the dim inwards */
    size_t   element;
} work;

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t end = tp_chunk_at(w->outer, index + 1, count);
    for (int64_t i = tp_chunk_at(w->outer, index, count); i < end; i++) {
        char *to = w->to + (size_t)i * w->row_bytes;
        for (uint32_t k = 0; k < w->tensors->count; k++) {
            const tp_tensor *t = w->tensors->item[k].tensor;
            if (is_nothing(t) || !t->numel)
                continue;
            size_t run = (size_t)(t->numel / w->outer) * w->element;
            memcpy(to, (const char *)tp_tensor_data(t) + (size_t)i * run, run);
            to += run;
        }
    }
}

/* Large operands in few rows: each operand is cut, not the rows. */
static void copy_slices(const tp_list *tensors, int dim, tp_tensor *out)
{
    int64_t size[TP_MAX_DIMS], at = out->offset;
    memcpy(size, out->size, (size_t)out->ndim * sizeof *size);
    for (uint32_t k = 0; k < tensors->count; k++) {
        const tp_tensor *t = tensors->item[k].tensor;
        if (is_nothing(t))
            continue;
        size[dim] = t->size[dim];
        tp_tensor slice = *out;             /* a view on the stack: geometry alone is read */
        slice.size = size;
        slice.offset = at;
        slice.numel = t->numel;
        slice.keys &= ~(uint32_t)TP_KEY_CONTIGUOUS;
        tp_copy(&slice, t);
        at += t->size[dim] * out->stride[dim];
    }
}

/* cat(tensors, dim) */
TP_HOOK_K(tp_k_cat)
{
    const tp_list *tensors = arg[0].list;
    tp_tensor *to = out[0];
    int dim = tp_wrap_dim(tp_as_int(arg[1]), to->ndim);
    bool plain = tp_tensor_is_contiguous(to);
    for (uint32_t k = 0; plain && k < tensors->count; k++)
        plain = tensors->item[k].tensor->dtype == to->dtype && tp_tensor_is_contiguous(tensors->item[k].tensor);
    if (!to->numel)
        return true;
    tp_along a = tp_along_dim(to, dim);
    size_t element = tp_dtype_bytes((tp_dtype)to->dtype);
    if (plain && (a.outer >= 4 || to->numel < 32768)) {
        work w = { tensors, tp_tensor_data(to), a.outer, dim, (size_t)(a.size * a.inner) * element, element };
        tp_pool_run(tp_chunks_of(a.outer, a.size * a.inner), chunk, &w);
    } else
        copy_slices(tensors, dim, to);
    return true;
}
