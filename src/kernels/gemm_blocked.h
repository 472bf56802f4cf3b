/* gemm_blocked.h - how one product of f32 or f64 is cut into pieces and run; for gemm.c and conv.c.
 *
 * The problem is described in gemm_set.h. Scratch is taken here, so a call can fail with TP_ERR_MEMORY. */
#ifndef TP_KERNELS_GEMM_BLOCKED_H
#define TP_KERNELS_GEMM_BLOCKED_H

#include "kernels/gemm_set.h"
#include "tensor/dtype.h"

/* The micro-kernels for f32 or f64 of the chosen instruction set. */
const tp_gemm_kernels *tp_gemm_kernels_for(tp_dtype d);
/* May split over the pool. alpha is not 0 and k is not 0: gemm.c has dealt with them. */
TP_CHECK bool tp_gemm_solve(const tp_gemm_problem *g, const tp_gemm_kernels *kernels, size_t element_bytes);

#endif
