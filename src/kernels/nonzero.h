/* nonzero.h - where the elements are that are not zero. */
#ifndef TP_KERNELS_NONZERO_H
#define TP_KERNELS_NONZERO_H

#include "tensor/tensor.h"

TP_CHECK tp_tensor *tp_nonzero(const tp_tensor *t);     /* i64 [count, ndim]; memory holds one column after the other */
TP_CHECK bool tp_count_nonzero(const tp_tensor *t, int64_t *count);

#endif
