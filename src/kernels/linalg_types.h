/* linalg_types.h - includes TP_LINALG_BODY once for real and once for complex matrices.
 *
 * In the body S is the element type, L(name) the function's full name, IS_COMPLEX 0 or 1; CONJ, RE, IM, SIZE (the modulus) and
 * SIZE1 (|re| + |im|, by which LAPACK compares pivots) work on elements. */
#include "kernels/linalg.h"

#include <float.h>
#include <math.h>

#define S          double
#define L(name)    tp_lin_##name##_f64
#define DTYPE      TP_f64
#define IS_COMPLEX 0
#define CONJ(x)    (x)
#define RE(x)      (x)
#define IM(x)      0.0
#define SIZE(x)    fabs(x)
#define SIZE1(x)   fabs(x)
#include TP_LINALG_BODY
#undef S
#undef L
#undef DTYPE
#undef IS_COMPLEX
#undef CONJ
#undef RE
#undef IM
#undef SIZE
#undef SIZE1

#define S          tp_z
#define L(name)    tp_lin_##name##_c128
#define DTYPE      TP_c128
#define IS_COMPLEX 1
#define CONJ(x)    conj(x)
#define RE(x)      creal(x)
#define IM(x)      cimag(x)
#define SIZE(x)    cabs(x)
#define SIZE1(x)   (fabs(creal(x)) + fabs(cimag(x)))
#include TP_LINALG_BODY
#undef S
#undef L
#undef DTYPE
#undef IS_COMPLEX
#undef CONJ
#undef RE
#undef IM
#undef SIZE
#undef SIZE1
