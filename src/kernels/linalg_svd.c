/* linalg_svd.c - singular values and vectors of one matrix. */
#define TP_LINALG_BODY "kernels/linalg_svd.inc"
#include "kernels/linalg_types.inc"
