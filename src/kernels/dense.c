/* dense.c - operands brought to the form kernels want, and results brought back. */
#include "kernels/dense.h"

tp_tensor *tp_dense(const tp_tensor *t, tp_dtype d)
{
    if (t->dtype == d)
        return tp_contiguous(t);
    tp_tensor *fresh = tp_tensor_new(d, t->ndim, t->size);
    if (fresh)
        tp_copy(fresh, t);
    return fresh;
}

tp_tensor *tp_dense_out(tp_tensor *out, tp_dtype d)
{
    return out->dtype == d && tp_tensor_is_contiguous(out) ? tp_tensor_ref(out) : tp_tensor_new(d, out->ndim, out->size);
}

bool tp_dense_done(tp_tensor *take, tp_tensor *out, bool ok)
{
    bool made = take && ok;
    if (made && take != out)
        tp_copy(out, take);
    tp_tensor_unref(take);
    return made;
}
