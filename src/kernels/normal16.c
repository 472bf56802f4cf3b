/* normal16.c - compiled once for each instruction set; loops of 8 x BATCH that become vectors. */
#include "kernels/normal16.h"

#include <math.h>
#include <string.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

enum { BATCH = 32, LANES = 8 * BATCH };

static inline int32_t bits_of(float f)
{
    int32_t i;
    memcpy(&i, &f, 4);
    return i;
}

static inline float of_bits(int32_t i)
{
    float f;
    memcpy(&f, &i, 4);
    return f;
}

static inline float natural_log(float x)
{
    float start = x < 0x1p-126f ? 0x1p-126f : x;
    int32_t b = bits_of(start);
    float e = (float)((b >> 23) - 127) + 1.0f;
    float m = of_bits((b & ~0x7f800000) | 0x3f000000);
    float below = m < 0.707106781186547524f ? 1.0f : 0.0f, again = m < 0.707106781186547524f ? m : 0.0f;
    m = m - 1.0f;
    e = e - below;
    m = m + again;
    float z = m * m, y = 7.0376836292e-2f;
    y = __builtin_fmaf(y, m, -1.1514610310e-1f);
    y = __builtin_fmaf(y, m, 1.1676998740e-1f);
    y = __builtin_fmaf(y, m, -1.2420140846e-1f);
    y = __builtin_fmaf(y, m, 1.4249322787e-1f);
    y = __builtin_fmaf(y, m, -1.6668057665e-1f);
    y = __builtin_fmaf(y, m, 2.0000714765e-1f);
    y = __builtin_fmaf(y, m, -2.4999993993e-1f);
    y = __builtin_fmaf(y, m, 3.3333331174e-1f);
    y = y * m;
    y = __builtin_fmaf(y, z, e * -2.12194440e-4f);
    y = __builtin_fmaf(-z, 0.5f, y);
    m = m + y;
    return x <= 0 ? of_bits(0x7fc00000) : __builtin_fmaf(e, 0.693359375f, m);
}

/* x >= 0 */
static inline void sine_cosine(float x, float *sine, float *cosine)
{
    int32_t i = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)i;
    x = __builtin_fmaf(y, -0.78515625f, x);
    x = __builtin_fmaf(y, -2.4187564849853515625e-4f, x);
    x = __builtin_fmaf(y, -3.77489497744594108e-8f, x);
    float z = x * x;
    float c = __builtin_fmaf(__builtin_fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f) * z;
    c = __builtin_fmaf(c, z, -(z * 0.5f)) + 1.0f;
    float s = __builtin_fmaf(__builtin_fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z;
    s = __builtin_fmaf(s, x, x);
    float sn = i & 2 ? c : s, cs = i & 2 ? s : c;
    *sine = of_bits(bits_of(sn) ^ (int32_t)((uint32_t)(i & 4) << 29));
    *cosine = of_bits(bits_of(cs) ^ (int32_t)((uint32_t)(~(i - 2) & 4) << 29));
}

static void batch(int64_t blocks, float *restrict data, float mean, float deviation)
{
    float u[LANES], v[LANES];
    for (int64_t k = 0; k < blocks; k++) {
        memcpy(u + 8 * k, data + 16 * k, 8 * sizeof *u);
        memcpy(v + 8 * k, data + 16 * k + 8, 8 * sizeof *v);
    }
    _Pragma("GCC ivdep") for (int64_t i = 0; i < 8 * blocks; i++) {
        float s, c, radius = sqrtf(-2.0f * natural_log(1.0f - u[i]));
        sine_cosine(6.283185307179586f * v[i], &s, &c);
        u[i] = __builtin_fmaf(radius * c, deviation, mean);
        v[i] = __builtin_fmaf(radius * s, deviation, mean);
    }
    for (int64_t k = 0; k < blocks; k++) {
        memcpy(data + 16 * k, u + 8 * k, 8 * sizeof *u);
        memcpy(data + 16 * k + 8, v + 8 * k, 8 * sizeof *v);
    }
}

void JOIN(tp_normal16, TP_ISA_NAME)(int64_t blocks, float *data, float mean, float deviation)
{
    for (int64_t k = 0; k < blocks; k += BATCH)
        batch(blocks - k < BATCH ? blocks - k : BATCH, data + 16 * k, mean, deviation);
}
