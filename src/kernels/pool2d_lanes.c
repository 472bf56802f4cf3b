/* pool2d_lanes.c - compiled once for each instruction set. The loops over lanes have no branches. */
#include "kernels/pool2d_lanes.h"

#include <math.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

/* D: type of distances. lowest: what every value beats or equals. F is 1 for types with NaN. */
#define LANES(name, T, D, lowest, F)                                                                                \
    static inline __attribute__((always_inline)) void take_##name(int64_t n, const T *x, int64_t step, D reach,     \
                                                                  T *restrict best, D *restrict from)               \
    {                                                                                                               \
        for (int64_t j = 0; j < n; j++) {                                                                           \
            T v = x[j * step], old = best[j];                                                                       \
            D other = from[j];                                                                                      \
            bool take = (v > old) | (F && v != v);                                                                  \
            best[j] = take ? v : old;                                                                               \
            from[j] = take ? reach : other;                                                                         \
        }                                                                                                           \
    }                                                                                                               \
    static void tap_##name(int64_t n, const void *x, int64_t step, int64_t reach, void *best, void *from)           \
    {                                                                                                               \
        if (step == 1)                                                                                              \
            take_##name(n, x, 1, (D)reach, best, from);                                                             \
        else if (step == 2)                                                                                         \
            take_##name(n, x, 2, (D)reach, best, from);                                                             \
        else                                                                                                        \
            take_##name(n, x, step, (D)reach, best, from);                                                          \
    }                                                                                                               \
    static void start_##name(int64_t n, int64_t reach, void *best, void *from)                                      \
    {                                                                                                               \
        for (int64_t j = 0; j < n; j++) {                                                                           \
            ((T *)best)[j] = lowest;                                                                                \
            ((D *)from)[j] = (D)reach;                                                                              \
        }                                                                                                           \
    }
LANES(f32, float, int32_t, -INFINITY, 1)
LANES(f64, double, int64_t, -INFINITY, 1)
LANES(u8, uint8_t, int32_t, 0, 0)
LANES(i8, int8_t, int32_t, INT8_MIN, 0)
LANES(i16, int16_t, int32_t, INT16_MIN, 0)
LANES(i32, int32_t, int32_t, INT32_MIN, 0)
LANES(i64, int64_t, int64_t, INT64_MIN, 0)

#define HALF_LANES(name, widen)                                                                                     \
    static void tap_##name(int64_t n, const void *x, int64_t step, int64_t reach, void *best, void *from)           \
    {                                                                                                               \
        float wide[TP_POOL_STRIP];                                                                                  \
        for (int64_t j = 0; j < n; j++)                                                                             \
            wide[j] = widen(((const uint16_t *)x)[j * step]);                                                       \
        tap_f32(n, wide, 1, reach, best, from);                                                                     \
    }
HALF_LANES(f16, tp_half_to_float)
HALF_LANES(bf16, tp_bfloat_to_float)

/* A window at a time in registers; the last vector is shifted, and makes some lanes again. */
#if defined(__AVX512F__)
static inline __m512 every(const float *x, int64_t step)
{
    if (step == 1)
        return _mm512_loadu_ps(x);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_ps(_mm512_loadu_ps(x), even, _mm512_maskz_loadu_ps(0x7fff, x + 16));
}

static void windows_f32(int64_t n, int64_t count, const void *from, int64_t step, const int64_t *offset, const int64_t *reach,
                        void *best, void *place)
{
    for (int64_t j = 0; j < n; j += 16) {
        int64_t at = j + 16 <= n ? j : n - 16;
        __m512 top = _mm512_set1_ps(-INFINITY);
        __m512i where = _mm512_set1_epi32((int)reach[0]);
        for (int64_t t = 0; t < count; t++) {
            __m512 v = every((const float *)from + offset[t] + at * step, step);
            __mmask16 take = _mm512_cmp_ps_mask(v, top, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
            top = _mm512_mask_mov_ps(top, take, v);
            where = _mm512_mask_mov_epi32(where, take, _mm512_set1_epi32((int)reach[t]));
        }
        _mm512_storeu_ps((float *)best + at, top);
        _mm512_storeu_si512((int32_t *)place + at, where);
    }
}
#else
#define windows_f32 NULL
#endif

#define PLACES(name, D)                                                                                             \
    static void name(int64_t n, const void *from, int64_t begin, int64_t step, int64_t *restrict to)                \
    {                                                                                                               \
        for (int64_t j = 0; j < n; j++)                                                                             \
            to[j] = begin + j * step + ((const D *)from)[j];                                                        \
    }
PLACES(places_narrow, int32_t)
PLACES(places_wide, int64_t)

const tp_pool_lanes_set JOIN(tp_pool_lanes, TP_ISA_NAME) = {
    [TP_f32] = { .start = start_f32, .tap = tap_f32, .windows = windows_f32, .places = places_narrow, .wide = false },
    [TP_f64] = { .start = start_f64, .tap = tap_f64, .places = places_wide, .wide = true },
    [TP_f16] = { .start = start_f32, .tap = tap_f16, .places = places_narrow, .wide = false },
    [TP_bf16] = { .start = start_f32, .tap = tap_bf16, .places = places_narrow, .wide = false },
    [TP_u8] = { .start = start_u8, .tap = tap_u8, .places = places_narrow, .wide = false },
    [TP_i8] = { .start = start_i8, .tap = tap_i8, .places = places_narrow, .wide = false },
    [TP_i16] = { .start = start_i16, .tap = tap_i16, .places = places_narrow, .wide = false },
    [TP_i32] = { .start = start_i32, .tap = tap_i32, .places = places_narrow, .wide = false },
    [TP_i64] = { .start = start_i64, .tap = tap_i64, .places = places_wide, .wide = true },
};
