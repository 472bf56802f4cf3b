/* complex.c - the steps of c64 and c128; sums and products by the textbook formulas, functions by libm.
 *
 * The file includes itself, once for each type. A truth value is 1 or 0 in the real part. No vectors here: gcc 12 makes
 * fused multiply-adds of vectorised complex products although contraction is off. */
#ifndef T
#include <complex.h>
#include <math.h>

#include "tile/isa/isa.h"

#define REAL(x) ((T){ (x), 0 })
#define COMPLEX_STEPS(UNARY, CALLED, TERNARY)                                                   \
    CALLED(add, ((T){ a.re + b.re, a.im + b.im }))                                              \
    CALLED(sub, ((T){ a.re - b.re, a.im - b.im }))                                              \
    CALLED(mul, NAME(product)(a, b))                                                            \
    CALLED(div, NAME(quotient)(a, b))                                                           \
    UNARY(neg, ((T){ -a.re, -a.im }))                                                           \
    UNARY(cabs, REAL(LIBM(hypot)(a.re, a.im)))                                                  \
    UNARY(reciprocal, NAME(quotient)(REAL(1), a))                                               \
    UNARY(square, NAME(product)(a, a))                                                          \
    CALLED(pow, NAME(power)(a, b))                                                              \
    UNARY(conj, ((T){ a.re, -a.im }))                                                           \
    UNARY(real, REAL(a.re))                                                                     \
    UNARY(imag, REAL(a.im))                                                                     \
    CALLED(pair, ((T){ a.re, b.re }))                                                           \
    UNARY(phase, REAL(LIBM(atan2)(a.im, a.re)))                                                 \
    CALLED(eq, REAL((a.re == b.re) & (a.im == b.im)))                                           \
    CALLED(ne, REAL((a.re != b.re) | (a.im != b.im)))                                           \
    TERNARY(where, TRUE(a) ? b : c)                                                             \
    UNARY(logical_not, REAL(!TRUE(a)))                                                          \
    CALLED(logical_and, REAL(TRUE(a) & TRUE(b)))                                                \
    CALLED(logical_or, REAL(TRUE(a) | TRUE(b)))                                                 \
    CALLED(logical_xor, REAL(TRUE(a) ^ TRUE(b)))                                                \
    UNARY(isnan, REAL((a.re != a.re) | (a.im != a.im)))                                         \
    UNARY(isinf, REAL((LIBM(fabs)(a.re) == (R)INFINITY) | (LIBM(fabs)(a.im) == (R)INFINITY)))   \
    UNARY(isfinite, REAL((LIBM(fabs)(a.re) < (R)INFINITY) & (LIBM(fabs)(a.im) < (R)INFINITY)))  \
    UNARY(sqrt, NAME(out)(LIBM(csqrt)(NAME(in)(a))))                                            \
    UNARY(rsqrt, NAME(quotient)(REAL(1), NAME(out)(LIBM(csqrt)(NAME(in)(a)))))                  \
    UNARY(exp, NAME(out)(LIBM(cexp)(NAME(in)(a))))                                              \
    UNARY(log, NAME(out)(LIBM(clog)(NAME(in)(a))))                                              \
    UNARY(sin, NAME(out)(LIBM(csin)(NAME(in)(a))))                                              \
    UNARY(cos, NAME(out)(LIBM(ccos)(NAME(in)(a))))                                              \
    UNARY(exp2, NAME(out)(LIBM(cexp)(NAME(in)((T){ a.re * LN2, a.im * LN2 }))))                 \
    UNARY(expm1, NAME(expm1)(a))                                                              \
    UNARY(log2, NAME(scaled)(NAME(out)(LIBM(clog)(NAME(in)(a))), 1 / LN2))                    \
    UNARY(log10, NAME(scaled)(NAME(out)(LIBM(clog)(NAME(in)(a))), 1 / LN10))                  \
    UNARY(log1p, NAME(log1p)(a))                                                              \
    UNARY(tan, NAME(out)(LIBM(ctan)(NAME(in)(a))))                                              \
    UNARY(asin, NAME(out)(LIBM(casin)(NAME(in)(a))))                                            \
    UNARY(acos, NAME(out)(LIBM(cacos)(NAME(in)(a))))                                            \
    UNARY(atan, NAME(out)(LIBM(catan)(NAME(in)(a))))                                            \
    UNARY(sinh, NAME(out)(LIBM(csinh)(NAME(in)(a))))                                            \
    UNARY(cosh, NAME(out)(LIBM(ccosh)(NAME(in)(a))))                                            \
    UNARY(asinh, NAME(out)(LIBM(casinh)(NAME(in)(a))))                                          \
    UNARY(acosh, NAME(out)(LIBM(cacosh)(NAME(in)(a))))                                          \
    UNARY(atanh, NAME(out)(LIBM(catanh)(NAME(in)(a))))                                          \
    UNARY(tanh, NAME(out)(LIBM(ctanh)(NAME(in)(a))))                                            \
    UNARY(sigmoid, NAME(sigmoid)(a))                                                            \
    UNARY(silu, NAME(quotient)(a, NAME(one_plus_exp)(a)))
#define LN2 ((R)0.69314718055994530942)
#define LN10 ((R)2.30258509299404568402)
#define TRUE(x) (((x).re != 0) | ((x).im != 0))

#pragma GCC optimize("no-tree-vectorize")

#define T tp_c64
#define R float
#define LIBM(name) name##f
#define NAME(name) c64_##name
#define COMPLEX_TABLE TP_ISA(tp_tile_steps_c64)
#define UNARY_FN(name, e) UNARY_FUNCTION(c64_##name, e)
#define CALLED_FN(name, e) CALLED_FUNCTION(c64_##name, e)
#define TERNARY_FN(name, e) TERNARY_FUNCTION(c64_##name, e)
#define ENTRY(name, e) [TP_PRIM_##name] = { c64_##name##_step, NULL, NULL },
#include "tile/isa/complex.c"

#define T tp_c128
#define R double
#define LIBM(name) name
#define NAME(name) c128_##name
#define COMPLEX_TABLE TP_ISA(tp_tile_steps_c128)
#define UNARY_FN(name, e) UNARY_FUNCTION(c128_##name, e)
#define CALLED_FN(name, e) CALLED_FUNCTION(c128_##name, e)
#define TERNARY_FN(name, e) TERNARY_FUNCTION(c128_##name, e)
#define ENTRY(name, e) [TP_PRIM_##name] = { c128_##name##_step, NULL, NULL },
#include "tile/isa/complex.c"

#else /* T */

static inline R _Complex NAME(in)(T a)
{
    union { T parts; R _Complex number; } x = { a };
    return x.number;
}

static inline T NAME(out)(R _Complex a)
{
    union { R _Complex number; T parts; } x = { a };
    return x.parts;
}

static inline T NAME(product)(T a, T b)
{
    return (T){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

/* Divides by the larger part of b first, so that b's square need not fit. */
static inline T NAME(quotient)(T a, T b)
{
    R re = LIBM(fabs)(b.re), im = LIBM(fabs)(b.im);
    if (re >= im) {
        if (re == 0 && im == 0)
            return (T){ a.re / re, a.im / re };
        R ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
        return (T){ (a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale };
    }
    R ratio = b.re / b.im, scale = 1 / (b.re * ratio + b.im);
    return (T){ (a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale };
}

static inline T NAME(power)(T a, T b)
{
    if (!TRUE(b))
        return REAL(1);
    return NAME(out)(LIBM(cpow)(NAME(in)(a), NAME(in)(b)));
}

/* 1 + exp(-a) */
static inline T NAME(one_plus_exp)(T a)
{
    T e = NAME(out)(LIBM(cexp)(NAME(in)((T){ -a.re, -a.im })));
    return (T){ 1 + e.re, e.im };
}

static inline T NAME(sigmoid)(T a)
{
    return NAME(quotient)(REAL(1), NAME(one_plus_exp)(a));
}

static inline T NAME(scaled)(T a, R by)
{
    return (T){ a.re * by, a.im * by };
}

/* exp(re) * cos(im) - 1 without losing the digits of a small a: cos(im) - 1 is -2 sin(im/2)^2. */
static inline T NAME(expm1)(T a)
{
    R half = LIBM(sin)(a.im / 2), grown = LIBM(exp)(a.re);
    return (T){ LIBM(expm1)(a.re) * LIBM(cos)(a.im) - 2 * half * half, grown * LIBM(sin)(a.im) };
}

/* |1 + a|^2 - 1 is re * (2 + re) + im^2, which keeps the digits of a small a. */
static inline T NAME(log1p)(T a)
{
    R angle = LIBM(atan2)(a.im, 1 + a.re);
    if (LIBM(fabs)(a.re) < (R)0.5 && LIBM(fabs)(a.im) < (R)0.5)
        return (T){ LIBM(log1p)(a.re * (2 + a.re) + a.im * a.im) / 2, angle };
    return (T){ LIBM(log)(LIBM(hypot)(1 + a.re, a.im)), angle };
}

COMPLEX_STEPS(UNARY_FN, CALLED_FN, TERNARY_FN)

extern const tp_tile_forms COMPLEX_TABLE[TP_PRIM_COUNT];
const tp_tile_forms COMPLEX_TABLE[TP_PRIM_COUNT] = {
    COMPLEX_STEPS(ENTRY, ENTRY, ENTRY)
};

#undef T
#undef R
#undef LIBM
#undef NAME
#undef COMPLEX_TABLE
#undef UNARY_FN
#undef CALLED_FN
#undef TERNARY_FN
#undef ENTRY
#endif
