/* gemm_generic.h - products of the types without micro-kernels; for gemm.c, which has dealt with empty sizes.
 *
 * Each function does one item of the batch. Plain loops, split over the pool by rows; each output is summed along k in
 * order. Halves go by way of f32 copies. Only the scratch of halves and integers can fail. */
#ifndef TP_KERNELS_GEMM_GENERIC_H
#define TP_KERNELS_GEMM_GENERIC_H

#include "kernels/gemm.h"

TP_CHECK bool tp_gemm_generic(tp_dtype d, const tp_gemm *g, int64_t item);  /* integers and complex numbers */
TP_CHECK bool tp_gemm_half(tp_dtype d, const tp_gemm *g, int64_t item);     /* f16 and bf16 */
TP_CHECK bool tp_gemm_scale(tp_dtype d, const tp_gemm *g, int64_t item);    /* C = beta C; any dtype; C unread at 0 */

#endif
