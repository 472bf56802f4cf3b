/* nonzero.h - where the elements are that are not zero. */
#ifndef TP_KERNELS_NONZERO_H
#define TP_KERNELS_NONZERO_H

#include "tensor/tensor.h"

TP_CHECK tp_tensor *tp_nonzero(const tp_tensor *t);     /* i64 [count, ndim]; memory holds one column after the other */
/* Elements of t where a mask of its sizes is true, into the row-major *out, whose size says how many; NULL: a fresh one. */
TP_CHECK bool tp_mask_select(const tp_tensor *t, const tp_tensor *mask, tp_tensor **out);
TP_CHECK bool tp_count_nonzero(const tp_tensor *t, int64_t *count);

#endif
