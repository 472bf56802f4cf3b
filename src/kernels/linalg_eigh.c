/* linalg_eigh.c - eigenvalues and vectors of one Hermitian matrix. */
#define TP_LINALG_BODY "kernels/linalg_eigh.inc"
#include "kernels/linalg_types.inc"
