/* copy.h - moving elements between tensors, below every layer: no gradient, no version, no recording.
 *
 * Kernels and variants stand on these; users' copies are the ops copy_, clone and contiguous. Fresh tensors have no signs
 * (signs.h): elements are in memory as they are meant. */
#ifndef TP_OPS_COPY_H
#define TP_OPS_COPY_H

#include "base/runtime.h"
#include "tensor/tensor.h"

/* to[...] = from[...], converted and broadcast; `from` must broadcast to the sizes of `to`. Overlap is the caller's care. */
TP_API void tp_copy(tp_tensor *to, const tp_tensor *from);
TP_API void tp_fill(tp_tensor *to, tp_scalar value);
/* Is new memory filled, and with what: nan, the largest integer, true (torch.utils.deterministic)? */
static inline bool tp_fills_uninitialized(void)
{
    return atomic_load_explicit(&tp_the_runtime.deterministic, memory_order_relaxed) && !atomic_load(&tp_the_runtime.leave_uninitialized);
}
TP_API void tp_fill_uninitialized(tp_tensor *to);
/* A fresh tensor with the same elements; PRESERVE keeps a dense order of dims. */
TP_API TP_CHECK tp_tensor *tp_clone(const tp_tensor *t, tp_format format);
TP_API TP_CHECK tp_tensor *tp_contiguous(const tp_tensor *t);       /* itself, counted, when it is row-major already */
TP_API TP_CHECK tp_tensor *tp_cast(const tp_tensor *t, tp_dtype d); /* itself, counted, when it has the type already */

#endif
