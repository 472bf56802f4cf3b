/* gemm.h - products of matrices on raw memory: C = alpha A B + beta C, one product or a batch.
 *
 * A is m x k, B is k x n, C is m x n; each lies as its strides say (in elements, any value, 0 too for A and B). C must
 * not overlap A or B, nor itself. C is not read when beta is 0, A and B are not read when alpha is 0.
 * Always: the same bits whatever the number of threads and the instruction set. Floats are summed along k in order by
 * fused multiply-adds, in blocks of 256; where a matrix meets few vectors that lie along k, in lanes of 64 bytes and a
 * fixed tree. Halves are summed as f32 and rounded once, integers wrap.
 * Nothing is owned; scratch comes from base/block.h, so a call can fail with TP_ERR_MEMORY, and C is then undefined.
 * A dtype without a product (b8) fails with TP_ERR_UNIMPLEMENTED. */
#ifndef TP_KERNELS_GEMM_H
#define TP_KERNELS_GEMM_H

#include "tensor/dtype.h"

typedef struct tp_gemm {
    int64_t     m, n, k;
    const void *a, *b;                          /* borrowed */
    void       *c;                              /* borrowed */
    int64_t     a_row, a_column, b_row, b_column, c_row, c_column;
    int64_t     batch;                          /* 1 for a single product */
    int64_t     a_batch, b_batch, c_batch;      /* elements from one product's matrix to the next one's */
    tp_scalar   alpha, beta;
} tp_gemm;

TP_API TP_CHECK bool tp_gemm_run(tp_dtype d, const tp_gemm *g);

/* The two common types, C with unit column stride. */
TP_API TP_CHECK bool tp_gemm_f32(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row,
                                 int64_t a_column, const float *b, int64_t b_row, int64_t b_column, float beta,
                                 float *c, int64_t c_row);
TP_API TP_CHECK bool tp_gemm_f64(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t a_row,
                                 int64_t a_column, const double *b, int64_t b_row, int64_t b_column, double beta,
                                 double *c, int64_t c_row);

#endif
