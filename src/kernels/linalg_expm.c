/* linalg_expm.c - the exponential of one matrix. */
#define TP_LINALG_BODY "kernels/linalg_expm.inc"
#include "kernels/linalg_types.inc"
