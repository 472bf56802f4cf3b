/* polynomials.h - printed by tools/polynomial.py, which says where the coefficients come from. */
#ifndef TP_TILE_POLYNOMIALS_H
#define TP_TILE_POLYNOMIALS_H

#include <math.h>

/* One rounding. A call where the instruction set has no such instruction, with the same result. */
static inline float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }

/* A constant in pieces; a whole number times a piece is exact, but for the last. */
#define LN2_f32_0 0x1.62e4000000000p-1f
#define LN2_f32_1 0x1.7f7d1c0000000p-20f
#define LN2_f64_0 0x1.62e42fee00000p-1
#define LN2_f64_1 0x1.a39ef35793c76p-33
#define QUARTER_f64_0 0x1.921fb54400000p+0
#define QUARTER_f64_1 0x1.0b4611a600000p-34
#define QUARTER_f64_2 0x1.3198a2e037073p-69

/* (exp(r) - 1 - r) / r^2; error 3.3e-09 */
static inline float polynomial_exp_f32(float t1)
{
    float t2 = t1 * t1;
    float t4 = t2 * t2;
    const float c0 = 0x1.fffffc0000000p-2f;
    const float c1 = 0x1.55548a0000000p-3f;
    const float c2 = 0x1.5559160000000p-5f;
    const float c3 = 0x1.123fc80000000p-7f;
    const float c4 = 0x1.6a1a620000000p-10f;
    return fma_f32(t4, c4, fma_f32(t2, fma_f32(t1, c3, c2), fma_f32(t1, c1, c0)));
}

/* (exp(r) - 1 - r) / r^2; error 4.1e-18 */
static inline double polynomial_exp_f64(double t1)
{
    double t2 = t1 * t1;
    double t4 = t2 * t2;
    double t8 = t4 * t4;
    const double c0 = 0x1.000000000000bp-1;
    const double c1 = 0x1.55555555554f0p-3;
    const double c2 = 0x1.555555555024bp-5;
    const double c3 = 0x1.111111112998ap-7;
    const double c4 = 0x1.6c16c1859c68fp-10;
    const double c5 = 0x1.a01a01232e3bbp-13;
    const double c6 = 0x1.a01995ede3a16p-16;
    const double c7 = 0x1.71df2eca5dd2ap-19;
    const double c8 = 0x1.28b16760f7803p-22;
    const double c9 = 0x1.ad7aca8e43a5cp-26;
    return ((((c0 + t1 * c1) + t2 * (c2 + t1 * c3)) + t4 * ((c4 + t1 * c5) + t2 * (c6 + t1 * c7))) + t8 * (c8 + t1 * c9));
}

/* (log(1 + f) - f + f^2/2) / f^3; error 5.9e-09 */
static inline float polynomial_log_f32(float t1)
{
    float t2 = t1 * t1;
    float t4 = t2 * t2;
    const float c0 = 0x1.55554a0000000p-2f;
    const float c1 = -0x1.0002200000000p-2f;
    const float c2 = 0x1.99a5960000000p-3f;
    const float c3 = -0x1.54788a0000000p-3f;
    const float c4 = 0x1.226e460000000p-3f;
    const float c5 = -0x1.0ce0860000000p-3f;
    const float c6 = 0x1.07d1060000000p-3f;
    const float c7 = -0x1.41ee020000000p-4f;
    return fma_f32(t4, fma_f32(t2, fma_f32(t1, c7, c6), fma_f32(t1, c5, c4)), fma_f32(t2, fma_f32(t1, c3, c2), fma_f32(t1, c1, c0)));
}

/* (log((1 + s) / (1 - s)) - 2 s) / s^3 in z = s^2; error 2.5e-18 */
static inline double polynomial_log_ratio_f64(double t1)
{
    double t2 = t1 * t1;
    double t4 = t2 * t2;
    const double c0 = 0x1.5555555555592p-1;
    const double c1 = 0x1.999999997fe05p-2;
    const double c2 = 0x1.24924941ed739p-2;
    const double c3 = 0x1.c71c520bc0f10p-3;
    const double c4 = 0x1.74663e8e947efp-3;
    const double c5 = 0x1.39a1c0169fa52p-3;
    const double c6 = 0x1.2f0551a5e40d9p-3;
    return (((c0 + t1 * c1) + t2 * (c2 + t1 * c3)) + t4 * ((c4 + t1 * c5) + t2 * c6));
}

/* (tanh(x) - x) / x^3 in z = x^2; error 4.1e-09 */
static inline float polynomial_tanh_f32(float t1)
{
    float t2 = t1 * t1;
    float t4 = t2 * t2;
    const float c0 = -0x1.5555340000000p-2f;
    const float c1 = 0x1.11076a0000000p-3f;
    const float c2 = -0x1.b844760000000p-5f;
    const float c3 = 0x1.52579c0000000p-6f;
    const float c4 = -0x1.76ae3e0000000p-8f;
    return fma_f32(t4, c4, fma_f32(t2, fma_f32(t1, c3, c2), fma_f32(t1, c1, c0)));
}

/* (tanh(x) - x) / x^3 in z = x^2; error 3.5e-19 */
static inline double polynomial_tanh_f64(double t1)
{
    double t2 = t1 * t1;
    double t4 = t2 * t2;
    double t8 = t4 * t4;
    const double c0 = -0x1.5555555555552p-2;
    const double c1 = 0x1.1111111110c38p-3;
    const double c2 = -0x1.ba1ba1b9d10dfp-5;
    const double c3 = 0x1.664f4870bfb66p-6;
    const double c4 = -0x1.226e32d11495ep-7;
    const double c5 = 0x1.d6d35aa2b8e55p-9;
    const double c6 = -0x1.7d9c3a01045bap-10;
    const double c7 = 0x1.350bcbe746ecap-11;
    const double c8 = -0x1.f116929d4e032p-13;
    const double c9 = 0x1.8027ca18c701cp-14;
    const double c10 = -0x1.faf92665e1355p-16;
    const double c11 = 0x1.9662f962ed86dp-18;
    return ((((c0 + t1 * c1) + t2 * (c2 + t1 * c3)) + t4 * ((c4 + t1 * c5) + t2 * (c6 + t1 * c7))) + t8 * ((c8 + t1 * c9) + t2 * (c10 + t1 * c11)));
}

/* (sin(r) - r) / r^3 in z = r^2; error 3.7e-18 */
static inline double polynomial_sin_f64(double t1)
{
    double t2 = t1 * t1;
    double t4 = t2 * t2;
    const double c0 = -0x1.5555555555548p-3;
    const double c1 = 0x1.111111110f740p-7;
    const double c2 = -0x1.a01a019be88d2p-13;
    const double c3 = 0x1.71de3552c2c2ep-19;
    const double c4 = -0x1.ae5e4854db517p-26;
    const double c5 = 0x1.5d8a147d32039p-33;
    return (((c0 + t1 * c1) + t2 * (c2 + t1 * c3)) + t4 * (c4 + t1 * c5));
}

/* the same for f32; error 3.7e-09 */
static inline double polynomial_sin_short_f64(double t1)
{
    double t2 = t1 * t1;
    const double c0 = -0x1.55554520eb61ap-3;
    const double c1 = 0x1.11072eb220718p-7;
    const double c2 = -0x1.993d6081cd0c0p-13;
    return ((c0 + t1 * c1) + t2 * c2);
}

/* (cos(r) - 1 + r^2/2) / r^4 in z = r^2; error 5.1e-20 */
static inline double polynomial_cos_f64(double t1)
{
    double t2 = t1 * t1;
    double t4 = t2 * t2;
    const double c0 = 0x1.555555555554bp-5;
    const double c1 = -0x1.6c16c16c1502bp-10;
    const double c2 = 0x1.a01a019c8f275p-16;
    const double c3 = -0x1.27e4f7efed973p-22;
    const double c4 = 0x1.1ee9d9979d6a8p-29;
    const double c5 = -0x1.8fa4d258cccc7p-37;
    return (((c0 + t1 * c1) + t2 * (c2 + t1 * c3)) + t4 * (c4 + t1 * c5));
}

/* the same for f32; error 1.0e-10 */
static inline double polynomial_cos_short_f64(double t1)
{
    double t2 = t1 * t1;
    const double c0 = 0x1.55554a632f400p-5;
    const double c1 = -0x1.6c0c57b366d93p-10;
    const double c2 = 0x1.99f2d8ccea120p-16;
    return ((c0 + t1 * c1) + t2 * c2);
}

/* erf(x) / x - 1 in z = x^2; error 6.0e-10 */
static inline float polynomial_erf_f32(float t1)
{
    float t2 = t1 * t1;
    float t4 = t2 * t2;
    const float c0 = 0x1.06eba80000000p-3f;
    const float c1 = -0x1.8127420000000p-2f;
    const float c2 = 0x1.ce2de20000000p-4f;
    const float c3 = -0x1.b80b120000000p-6f;
    const float c4 = 0x1.54a4b60000000p-8f;
    const float c5 = -0x1.a8fda00000000p-11f;
    const float c6 = 0x1.5898220000000p-14f;
    return fma_f32(t4, fma_f32(t2, c6, fma_f32(t1, c5, c4)), fma_f32(t2, fma_f32(t1, c3, c2), fma_f32(t1, c1, c0)));
}

/* (2^r - 1) / r; error 9.4e-08 */
static inline float polynomial_exp2_f32(float t1)
{
    float t2 = t1 * t1;
    float t4 = t2 * t2;
    const float c0 = 0x1.62e4320000000p-1f;
    const float c1 = 0x1.ebf9ae0000000p-3f;
    const float c2 = 0x1.c6ae640000000p-5f;
    const float c3 = 0x1.3cef5c0000000p-7f;
    const float c4 = 0x1.5f780e0000000p-10f;
    return fma_f32(t4, c4, fma_f32(t2, fma_f32(t1, c3, c2), fma_f32(t1, c1, c0)));
}

/* log2(erfc(h * sqrt(2)) / 2) in h; error 7.9e-08 */
static inline float polynomial_tail_log2_f32(float t1)
{
    float t2 = t1 * t1;
    float t4 = t2 * t2;
    float t8 = t4 * t4;
    const float c0 = -0x1.fffffe0000000p-1f;
    const float c1 = -0x1.26af100000000p+1f;
    const float c2 = -0x1.d632fe0000000p+0f;
    const float c3 = -0x1.aece360000000p-2f;
    const float c4 = 0x1.d819d40000000p-4f;
    const float c5 = -0x1.05cfd80000000p-7f;
    const float c6 = -0x1.1ffe0e0000000p-7f;
    const float c7 = 0x1.e0c24c0000000p-9f;
    const float c8 = -0x1.ff523a0000000p-12f;
    return fma_f32(t8, c8, fma_f32(t4, fma_f32(t2, fma_f32(t1, c7, c6), fma_f32(t1, c5, c4)), fma_f32(t2, fma_f32(t1, c3, c2), fma_f32(t1, c1, c0))));
}
#define TAIL_FAR_f32 0x1.4e514e0000000p+2f

/* log(erfc(x)) in x - 1; error 6.8e-11 */
static inline float polynomial_erfc_log_f32(float t1)
{
    float t2 = t1 * t1;
    float t4 = t2 * t2;
    const float c0 = -0x1.d97fc00000000p+0f;
    const float c1 = -0x1.51c9b00000000p+1f;
    const float c2 = -0x1.afabc60000000p-1f;
    const float c3 = -0x1.54782c0000000p-5f;
    const float c4 = 0x1.48feee0000000p-7f;
    const float c5 = -0x1.06a8780000000p-9f;
    const float c6 = 0x1.2aa4360000000p-12f;
    const float c7 = -0x1.5aac400000000p-16f;
    return fma_f32(t4, fma_f32(t2, fma_f32(t1, c7, c6), fma_f32(t1, c5, c4)), fma_f32(t2, fma_f32(t1, c3, c2), fma_f32(t1, c1, c0)));
}

#endif
