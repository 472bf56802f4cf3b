/* linalg_qr.c - orthogonal factors by Householder reflections. */
#define TP_LINALG_BODY "kernels/linalg_qr.inc"
#include "kernels/linalg_types.inc"
