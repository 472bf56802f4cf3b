/* math_f32.h - functions of one f32; the rules of math_f64.h hold, but multiply-adds are fused: they are a third of the
 * time of these functions, and every processor of the last ten years has them.
 *
 * Hot functions stay in f32. Those that lose digits on the way (sin, log1p, pow …) are computed in f64 and rounded once:
 * half as many elements a vector, but short polynomials and results within 0.51 ulp. */
#ifndef TP_TILE_MATH_F32_H
#define TP_TILE_MATH_F32_H

#include "tile/isa/math_f64.h"

typedef union { float f; int32_t i; uint32_t u; } bits_f32;

#define ROUNDER_f32 0x1.8p23f
#define LOG2E_f32 0x1.715476p+0f

static inline float power_of_two_f32(int32_t n)
{
    bits_f32 x = { .u = (uint32_t)(n + 127) << 23 };
    return x.f;
}

/* exp for |x| < 87: a normal result. */
static inline float exp_narrow_f32(float x)
{
    bits_f32 turn = { fma_f32(x, LOG2E_f32, ROUNDER_f32) }, rounder = { ROUNDER_f32 };
    float n = turn.f - ROUNDER_f32, r = fma_f32(n, -LN2_f32_1, fma_f32(n, -LN2_f32_0, x));
    float y = 1 + fma_f32(r * r, polynomial_exp_f32(r), r);
    return y * power_of_two_f32((int32_t)(turn.u - rounder.u));
}

/* exp for x in [-104, 89]; `lost` is what the last rounding took, relative to the result. */
static inline float exp_and_lost_f32(float x, float *lost)
{
    bits_f32 turn = { fma_f32(x, LOG2E_f32, ROUNDER_f32) }, rounder = { ROUNDER_f32 };
    float n = turn.f - ROUNDER_f32, r = fma_f32(n, -LN2_f32_1, fma_f32(n, -LN2_f32_0, x));
    float t = fma_f32(r * r, polynomial_exp_f32(r), r), y = 1 + t;
    int32_t k = (int32_t)(turn.u - rounder.u), half = k >> 1;
    *lost = t - (y - 1);
    return y * power_of_two_f32(half) * power_of_two_f32(k - half);
}

static inline float exp_f32(float x)
{
    float lost, c = x < -104 ? -104 : x;
    return exp_and_lost_f32(c > 89 ? 89 : c, &lost);
}

/* exp for x <= 0 and NaN, to the same bits: one power of two serves all results, 2^32 too large. */
#define RAISED_ROUNDER_f32 (ROUNDER_f32 + (127 + 32))       /* the low bits of a sum with it are the exponent of the power */
static inline float exp_below_f32(float x)
{
    float c = x < -104 ? -104 : x;
    bits_f32 turn = { fma_f32(c, LOG2E_f32, RAISED_ROUNDER_f32) }, power = { .u = turn.u << 23 };
    float n = turn.f - RAISED_ROUNDER_f32, r = fma_f32(n, -LN2_f32_1, fma_f32(n, -LN2_f32_0, c));
    float y = 1 + fma_f32(r * r, polynomial_exp_f32(r), r);
    return y * power.f * 0x1p-32f;
}

static inline float exp2_f32(float x)
{
    float c = x < -151 ? -151 : x;
    c = c > 129 ? 129 : c;
    bits_f32 turn = { c + ROUNDER_f32 }, rounder = { ROUNDER_f32 };
    float r = (c - (turn.f - ROUNDER_f32)) * 0x1.62e43p-1f;
    float y = 1 + fma_f32(r * r, polynomial_exp_f32(r), r);
    int32_t k = (int32_t)(turn.u - rounder.u), half = k >> 1;
    return y * power_of_two_f32(half) * power_of_two_f32(k - half);
}

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). */
static inline float log_f32(float x)
{
    bool small = x < 0x1p-126f;
    bits_f32 b = { small ? x * 0x1p24f : x }, low = { 0x1.6a09e6p-1f };
    int32_t exponent = (int32_t)(b.u - low.u) >> 23;
    b.u -= (uint32_t)exponent << 23;
    float k = (float)exponent - (small ? 24.0f : 0.0f), f = b.f - 1, square = f * f;
    float tail = fma_f32(k, LN2_f32_1, fma_f32(f * square, polynomial_log_f32(f), -0.5f * square));
    float y = fma_f32(k, LN2_f32_0, f + tail);
    y = x == (float)INFINITY ? x : y;
    y = x == 0 ? -(float)INFINITY : y;
    return x >= 0 ? y : (float)NAN;
}

static inline float tanh_f32(float x)
{
    float a = fabsf(x), z = x * x, bound = a > 10 ? 10 : a;
    float small = fma_f32(a * z, polynomial_tanh_f32(z), a), large = 1 - 2 / (exp_narrow_f32(2 * bound) + 1);
    return copysignf(a < 0.625f ? small : large, x);
}

/* 1 / (1 + exp(-x)) with exp(-x) = s (1 + t), s a power of two: the divisor is s and 1 and s t, the larger of the first two
 * last, and y is mended by what that addition lost. All is scaled by 2^-32, so that s neither overflows nor underflows
 * and a result below the normal ones is rounded once. */
#define SCALED_ROUNDER_f32 (ROUNDER_f32 + (127 - 32))       /* the low bits of a sum with it are the exponent of s */
static inline float sigmoid_f32(float x)
{
    float low = x < -104 ? -104 : x, c = low > 60 ? 60 : low;
    bits_f32 turn = { fma_f32(c, -LOG2E_f32, SCALED_ROUNDER_f32) }, s = { .u = turn.u << 23 }, one = { 0x1p-32f };
    float n = turn.f - SCALED_ROUNDER_f32, r = fma_f32(n, -LN2_f32_1, fma_f32(n, -LN2_f32_0, -c));
    float t = fma_f32(r * r, polynomial_exp_f32(r), r);
    bits_f32 large = { .i = s.i > one.i ? s.i : one.i }, small = { .i = s.i > one.i ? one.i : s.i };
    float rest = fma_f32(t, s.f, small.f), d = large.f + rest, y = 0x1p-32f / d;
    return fma_f32(-y, (rest - (d - large.f)) * (y * 0x1p32f), y);
}

/* Near 0 an odd polynomial; further out 1 - exp(log(erfc)), whose error shrinks with erfc. */
static inline float erf_f32(float x)
{
    float a = fabsf(x), z = x * x, bound = a > 3.93f ? 3.93f : a;
    float small = fma_f32(a, polynomial_erf_f32(z), a), large = 1 - exp_narrow_f32(polynomial_erfc_log_f32(bound - 1));
    return copysignf(a < 0.95f ? small : large, x);
}

/* x times the normal distribution's mass below x, by the upper tail u of |x|: max(x, 0) - |x| u, in halves of x. From
 * TAIL_FAR on the tail's power of two is 0. The maximum is written so that -inf gives NaN, as inf * 0 does. */
#define TAIL_ROUNDER_f32 (ROUNDER_f32 + (127 + 1))
static inline float gelu_f32(float x)
{
    bits_f32 half = { 0.5f * x }, a = { .u = half.u & 0x7fffffff }, far = { TAIL_FAR_f32 };
    bits_f32 bound = { .i = a.i < far.i ? a.i : far.i };        /* positive floats are ordered as their bits are */
    float q = polynomial_tail_log2_f32(bound.f);
    bits_f32 turn = { q + TAIL_ROUNDER_f32 }, power = { .u = turn.u << 23 };
    float r = q - (turn.f - TAIL_ROUNDER_f32), u = fma_f32(r, polynomial_exp2_f32(r), 1);
    return fma_f32(-bound.f, u * power.f, half.f + a.f);
}

/* 1 + tanh(y) is twice the sigmoid of 2 y, which does not cancel. */
static inline float gelu_tanh_f32(float x)
{
    float twice = 0x1.988454p+0f * fma_f32(0.044715f, x * x * x, x);        /* 2 sqrt(2 / pi) */
    return x * sigmoid_f32(twice);
}

/* Two pieces of a quarter turn are enough: f64 has digits to spare. */
#define SIN_LIMIT_f32 1e6f
static inline double reduce_for_f32(float x, int64_t *quarters)
{
    bits_f64 turn = { (double)x * 0x1.45f306dc9c883p-1 + ROUNDER_f64 };
    double n = turn.f - ROUNDER_f64;
    *quarters += turn.i;
    return ((double)x - n * QUARTER_f64_0) - n * QUARTER_f64_1;
}

static inline double sine_short(double r, double z) { return r + r * z * polynomial_sin_short_f64(z); }
static inline double cosine_short(double z) { return 1 - 0.5 * z + z * z * polynomial_cos_short_f64(z); }

static inline float sin_or_cos_f32(float x, int64_t quarters)
{
    double r = reduce_for_f32(x, &quarters), z = r * r;
    bits_f64 y = { quarters & 1 ? cosine_short(z) : sine_short(r, z) };
    y.u ^= (uint64_t)(quarters & 2) << 62;
    return (float)y.f;
}

static inline float sin_f32(float x) { return copysignf(1, x) * sin_or_cos_f32(fabsf(x), 0); }
static inline float cos_f32(float x) { return sin_or_cos_f32(x, 1); }

static inline float tan_f32(float x)
{
    int64_t quarters = 0;
    double r = reduce_for_f32(fabsf(x), &quarters), z = r * r, s = sine_short(r, z), c = cosine_short(z);
    return copysignf(1, x) * (float)((quarters & 1 ? -c : s) / (quarters & 1 ? s : c));
}

static inline float expm1_f32(float x)
{
    double d = (double)x, bound = d > 100 ? 100 : d < -100 ? -100 : d;
    return (float)(fabs(d) < 1e-5 ? d + 0.5 * d * d : exp_narrow_f64(bound) - 1);
}

static inline float log1p_f32(float x)
{
    double d = (double)x;
    return (float)(fabs(d) < 1e-5 ? d - 0.5 * d * d : log_f64(1 + d));
}

static inline float log2_f32(float x) { return (float)(log_f64((double)x) * 0x1.71547652b82fep+0); }
static inline float log10_f32(float x) { return (float)(log_f64((double)x) * 0x1.bcb7b1526e50ep-2); }

static inline float sinh_f32(float x)
{
    double a = fabs((double)x), bound = a > 100 ? 100 : a, e = exp_narrow_f64(bound);
    return copysignf((float)(a < 1e-3 ? a + a * a * a * (1.0 / 6) : 0.5 * (e - 1 / e)), x);
}

static inline float cosh_f32(float x)
{
    double a = fabs((double)x), bound = a > 100 ? 100 : a, e = exp_narrow_f64(bound);
    return (float)(0.5 * (e + 1 / e));
}

static inline float asinh_f32(float x)
{
    double a = fabs((double)x);
    return copysignf((float)(a < 1e-5 ? a : log_f64(a + sqrt(a * a + 1))), x);
}

static inline float acosh_f32(float x)
{
    double d = (double)x;
    return (float)(d < 1 ? (double)NAN : log_f64(d + sqrt(d * d - 1)));
}

static inline float atanh_f32(float x)
{
    double a = fabs((double)x);
    return copysignf((float)(a < 1e-5 ? a : 0.5 * log_f64((1 + a) / (1 - a))), x);
}

static inline float lgamma_f32(float x)
{
    int sign;
    return lgammaf_r(x, &sign);
}

#define REAL_FUNCTIONS_f32(UNARY, GUARDED)          \
    UNARY(exp, exp_f32(a))                          \
    UNARY(exp2, exp2_f32(a))                        \
    UNARY(expm1, expm1_f32(a))                      \
    UNARY(log, log_f32(a))                          \
    UNARY(log2, log2_f32(a))                        \
    UNARY(log10, log10_f32(a))                      \
    UNARY(log1p, log1p_f32(a))                      \
    GUARDED(sin, sin_f32(a), sinf(a))               \
    GUARDED(cos, cos_f32(a), cosf(a))               \
    GUARDED(tan, tan_f32(a), tanf(a))               \
    UNARY(asin, asinf(a))                           \
    UNARY(acos, acosf(a))                           \
    UNARY(atan, atanf(a))                           \
    UNARY(sinh, sinh_f32(a))                        \
    UNARY(cosh, cosh_f32(a))                        \
    UNARY(tanh, tanh_f32(a))                        \
    UNARY(asinh, asinh_f32(a))                      \
    UNARY(acosh, acosh_f32(a))                      \
    UNARY(atanh, atanh_f32(a))                      \
    UNARY(erf, erf_f32(a))                          \
    UNARY(erfc, erfcf(a))                           \
    UNARY(lgamma, lgamma_f32(a))                    \
    UNARY(sigmoid, sigmoid_f32(a))                  \
    UNARY(gelu, gelu_f32(a))                        \
    UNARY(gelu_tanh, gelu_tanh_f32(a))              \
    UNARY(silu, a * sigmoid_f32(a))

#endif
