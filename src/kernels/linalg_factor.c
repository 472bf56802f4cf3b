/* linalg_factor.c - triangular systems, LU and Cholesky of one matrix. */
#include "kernels/gemm.h"

enum { SMALL = 24 };            /* below that, products cost more to call than to do */

#define TP_LINALG_BODY "kernels/linalg_factor.inc"
#include "kernels/linalg_types.inc"
