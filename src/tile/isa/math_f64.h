/* math_f64.h - functions of one f64, in operations that round the same in every instruction set.
 *
 * No fused multiply-add and no tables: reduce the argument, evaluate a polynomial (polynomials.h), put the result back
 * together. Errors are measured by math_test.c; docs/numerics.md lists them. What is not here goes to libm, the same
 * call whatever the instruction set. */
#ifndef TP_TILE_MATH_F64_H
#define TP_TILE_MATH_F64_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE     /* lgamma_r */
#endif
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "tile/isa/polynomials.h"

typedef union { double f; int64_t i; uint64_t u; } bits_f64;

/* Adding 1.5 * 2^52 rounds to a whole number, whose low bits are then the low bits of the sum. */
#define ROUNDER_f64 0x1.8p52

static inline double power_of_two_f64(int64_t n)
{
    bits_f64 x = { .u = (uint64_t)(n + 1023) << 52 };
    return x.f;
}

/* exp for |x| < 700: a normal result. */
static inline double exp_narrow_f64(double x)
{
    bits_f64 turn = { x * 0x1.71547652b82fep+0 + ROUNDER_f64 }, rounder = { ROUNDER_f64 };
    double n = turn.f - ROUNDER_f64, r = (x - n * LN2_f64_0) - n * LN2_f64_1;
    double y = 1 + (r + r * r * polynomial_exp_f64(r));
    return y * power_of_two_f64(turn.i - rounder.i);
}

/* exp for x in [-746, 710]; `lost` is what the last rounding took, relative to the result. The scale is applied in two
 * halves: a result below the normal ones is rounded once, one beyond the largest is inf. */
static inline double exp_and_lost_f64(double x, double *lost)
{
    bits_f64 turn = { x * 0x1.71547652b82fep+0 + ROUNDER_f64 }, rounder = { ROUNDER_f64 };
    double n = turn.f - ROUNDER_f64, r = (x - n * LN2_f64_0) - n * LN2_f64_1;
    double t = r + r * r * polynomial_exp_f64(r), y = 1 + t;
    uint64_t k = turn.u - rounder.u, half = ((k + 2048) >> 1) - 1024;
    *lost = t - (y - 1);
    return y * power_of_two_f64((int64_t)half) * power_of_two_f64((int64_t)(k - half));
}

static inline double exp_f64(double x)
{
    double lost, c = x < -746 ? -746 : x;
    return exp_and_lost_f64(c > 710 ? 710 : c, &lost);
}

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); s = f / (2 + f); log(1 + f) = f - f²/2 + s (f²/2 + s² P(s²)). */
static inline double log_f64(double x)
{
    bool small = x < 0x1p-1022;
    bits_f64 b = { small ? x * 0x1p54 : x }, low = { 0x1.6a09e667f3bcdp-1 };
    uint64_t exponent = (b.u - low.u + (1024ull << 52)) >> 52;          /* of k, and 1024 */
    b.u -= (exponent - 1024) << 52;
    bits_f64 whole = { .u = exponent | 0x4330000000000000u };          /* 2^52 + exponent */
    double k = whole.f - (0x1p52 + 1024) - (small ? 54.0 : 0.0), f = b.f - 1;
    double s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
    double tail = s * (half_square + z * polynomial_log_ratio_f64(z)) + k * LN2_f64_1;
    double y = k * LN2_f64_0 - ((half_square - tail) - f);
    y = x == (double)INFINITY ? x : y;
    y = x == 0 ? -(double)INFINITY : y;
    return x >= 0 ? y : (double)NAN;
}

static inline double tanh_f64(double x)
{
    double a = fabs(x), z = x * x, bound = a > 22 ? 22 : a;
    double small = a + a * z * polynomial_tanh_f64(z), large = 1 - 2 / (exp_narrow_f64(2 * bound) + 1);
    return copysign(a < 0.625 ? small : large, x);
}

/* e / (1 + e) or 1 / (1 + e), whichever does not cancel, then mended by what e and the divisor lost to rounding. */
static inline double sigmoid_f64(double x)
{
    double a = fabs(x), lost_e, e = exp_and_lost_f64(a > 746 ? -746 : -a, &lost_e);
    double d = 1 + e, lost_d = e - (d - 1), y = (x < 0 ? e : 1) / d;
    return y + y * (x < 0 ? (lost_e - lost_d) * (1 - y) : -lost_d * y);
}

/* x less the nearest multiple of a quarter turn, as r + tail; the multiple's low bits. For |x| <= SIN_LIMIT. */
#define SIN_LIMIT_f64 1e6
static inline int64_t reduce_f64(double x, double *r, double *tail)
{
    bits_f64 turn = { x * 0x1.45f306dc9c883p-1 + ROUNDER_f64 };
    double n = turn.f - ROUNDER_f64, w = x - n * QUARTER_f64_0, t = n * QUARTER_f64_1;
    double first = w - t, lost = ((w - first) - t) - n * QUARTER_f64_2;
    *r = first + lost;
    *tail = (first - *r) + lost;
    return turn.i;
}

static inline double sin_or_cos_f64(double x, int64_t quarters)
{
    double r, tail;
    quarters += reduce_f64(x, &r, &tail);
    double z = r * r, half = 0.5 * z, w = 1 - half;
    double sine = r + (r * z * polynomial_sin_f64(z) + tail * w);
    double cosine = w + (((1 - w) - half) + (z * z * polynomial_cos_f64(z) - r * tail));
    bits_f64 y = { quarters & 1 ? cosine : sine };
    y.u ^= (uint64_t)(quarters & 2) << 62;
    return y.f;
}

static inline double sin_f64(double x) { return sin_or_cos_f64(x, 0); }
static inline double cos_f64(double x) { return sin_or_cos_f64(x, 1); }

static inline double lgamma_f64(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

static inline double gelu_f64(double x) { return 0.5 * x * (1 + erf(x * 0x1.6a09e667f3bcdp-1)); }

static inline double gelu_tanh_f64(double x)
{
    double inner = 0x1.9884533d43651p-1 * (x + 0.044715 * (x * x * x));     /* sqrt(2 / pi) */
    return 0.5 * x * (1 + tanh_f64(inner));
}

/* Which step is which function; GUARDED ones go element by element to libm where |x| is beyond the limit. */
#define REAL_FUNCTIONS_f64(UNARY, GUARDED)          \
    UNARY(exp, exp_f64(a))                          \
    UNARY(exp2, exp2(a))                            \
    UNARY(expm1, expm1(a))                          \
    UNARY(log, log_f64(a))                          \
    UNARY(log2, log2(a))                            \
    UNARY(log10, log10(a))                          \
    UNARY(log1p, log1p(a))                          \
    GUARDED(sin, sin_f64(a), sin(a))                \
    GUARDED(cos, cos_f64(a), cos(a))                \
    UNARY(tan, tan(a))                              \
    UNARY(asin, asin(a))                            \
    UNARY(acos, acos(a))                            \
    UNARY(atan, atan(a))                            \
    UNARY(sinh, sinh(a))                            \
    UNARY(cosh, cosh(a))                            \
    UNARY(tanh, tanh_f64(a))                        \
    UNARY(asinh, asinh(a))                          \
    UNARY(acosh, acosh(a))                          \
    UNARY(atanh, atanh(a))                          \
    UNARY(erf, erf(a))                              \
    UNARY(erfc, erfc(a))                            \
    UNARY(lgamma, lgamma_f64(a))                    \
    UNARY(sigmoid, sigmoid_f64(a))                  \
    UNARY(gelu, gelu_f64(a))                        \
    UNARY(gelu_tanh, gelu_tanh_f64(a))              \
    UNARY(silu, a * sigmoid_f64(a))

#endif
