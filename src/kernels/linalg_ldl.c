/* linalg_ldl.c - factors of a symmetric or Hermitian matrix that need not be definite. */
#include <stdlib.h>

#define TP_LINALG_BODY "kernels/linalg_ldl.inc"
#include "kernels/linalg_types.inc"
