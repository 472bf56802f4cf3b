/* promote.h - the common type and shape of operands: what every element-wise op begins with. */
#ifndef TP_OPS_PROMOTE_H
#define TP_OPS_PROMOTE_H

#include "ops/op.h"

/* Collects operands one by one. Tensors with dims outrank 0-d tensors, which outrank numbers: a lower rank decides only
 * when its kind (bool, integer, float, complex) is above that of the higher ones. */
typedef struct tp_common {
    uint8_t with_dims, without_dims, number;    /* tp_dtype, TP_DTYPE_NONE: none seen */
} tp_common;

#define TP_COMMON_START ((tp_common){ TP_DTYPE_NONE, TP_DTYPE_NONE, TP_DTYPE_NONE })
TP_API void tp_common_add(tp_common *c, tp_value operand);      /* a tensor or a number; anything else is ignored */
TP_API void tp_common_add_without_dims(tp_common *c, const tp_tensor *t);       /* as if t had none */
TP_API tp_dtype tp_common_dtype(const tp_common *c);            /* torch.result_type */
TP_API tp_dtype tp_dtype_of_number(tp_value v);                 /* i64, the default float, its complex, b8 */

/* Broadcasts `size` into out/ndim. False with PyTorch's message when a dim does not match. */
TP_API TP_CHECK bool tp_broadcast(int *ndim, int64_t *out, int other_ndim, const int64_t *other);

#endif
