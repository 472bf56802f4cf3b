/* fold_rows.c - a block of rows to one row: each column as fold.c folds a block.
 *
 *     row 0    x x x x x x x x ──► lane 0          rows of one lane are taken four at a time, so that a lane is
 *     row 16   x x x x x x x x ──► lane 0          read and written once for four rows
 *     row 1    x x x x x x x x ──► lane 1
 *
 * A lane that no row reaches is neutral: it is left out. Lanes do not lie a power of two apart: they would share one set of
 * the first cache. */
#include "tile/isa/fold.h"

enum { TOGETHER = 4, UNROLL = 4 };

#define FOLD_ROWS(name, T, first, op)                                                                                   \
    typedef T name##_vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));                  \
    /* lane[j] op= each of `count` rows in turn; a fresh lane holds the neutral element. */                             \
    static inline void name##_lane(int count, int64_t n, T *lane, const char *row, int64_t stride, bool fresh)          \
    {                                                                                                                   \
        enum { WIDTH = VECTOR_BYTES / sizeof(T) };                                                                      \
        int64_t j = 0;                                                                                                  \
        for (; j + UNROLL * WIDTH <= n; j += UNROLL * WIDTH) {                                                          \
            name##_vector value[UNROLL];                                                                                \
            _Pragma("GCC unroll 4") for (int u = 0; u < UNROLL; u++) {                                                  \
                value[u] = (name##_vector){ 0 } + (T)first;                                                             \
                if (!fresh)                                                                                             \
                    value[u] = *(name##_vector *)(lane + j + u * WIDTH);                                                \
            }                                                                                                           \
            _Pragma("GCC unroll 4") for (int k = 0; k < count; k++)                                                     \
                _Pragma("GCC unroll 4") for (int u = 0; u < UNROLL; u++) {                                              \
                    const T *at = (const T *)(const void *)(row + k * stride) + j + u * WIDTH;                          \
                    value[u] = op##_in(value[u], *(const name##_vector *)at);                                           \
                }                                                                                                       \
            _Pragma("GCC unroll 4") for (int u = 0; u < UNROLL; u++)                                                    \
                *(name##_vector *)(lane + j + u * WIDTH) = value[u];                                                    \
        }                                                                                                               \
        for (; j < n; j++) {                                                                                            \
            T value = fresh ? (T)first : lane[j];                                                                       \
            for (int k = 0; k < count; k++)                                                                             \
                value = op##_one(value, ((const T *)(const void *)(row + k * stride))[j]);                              \
            lane[j] = value;                                                                                            \
        }                                                                                                               \
    }                                                                                                                   \
    static void name##_meet(int64_t n, T *a, const T *b)                                                                \
    {                                                                                                                   \
        EACH(n)                                                                                                         \
            a[i] = op##_one(a[i], b[i]);                                                                                \
    }                                                                                                                   \
    static void name(int64_t rows, int64_t n, void *to, const void *from, int64_t stride)                               \
    {                                                                                                                   \
        _Alignas(64) T lanes[RUNS * LANES * (TP_STRIP + 64) / sizeof(T)];                                               \
        int64_t pitch = (n * (int64_t)sizeof(T) / 64 * 64 + 64) / (int64_t)sizeof(T);                                   \
        int reached[RUNS];                                                                                              \
        for (int r = 0; r < RUNS; r++) {                                                                                \
            int64_t left = rows - r * RUN;                                                                              \
            left = left < 0 ? 0 : left < RUN ? left : RUN;                                                              \
            reached[r] = left < LANES ? (int)left : LANES;                                                              \
            for (int l = 0; l < reached[r]; l++) {                                                                      \
                const char *row = (const char *)from + (r * RUN + l) * stride;                                          \
                T *lane = lanes + (r * LANES + l) * pitch;                                                              \
                int64_t i = l;                                                                                          \
                for (; i + (TOGETHER - 1) * LANES < left; i += TOGETHER * LANES, row += TOGETHER * LANES * stride)      \
                    name##_lane(TOGETHER, n, lane, row, LANES * stride, i == l);                                        \
                for (; i < left; i += LANES, row += LANES * stride)                                                     \
                    name##_lane(1, n, lane, row, 0, i == l);                                                            \
            }                                                                                                           \
        }                                                                                                               \
        for (int apart = 1; apart < RUNS; apart *= 2)                                                                   \
            for (int r = 0; r < RUNS; r += 2 * apart)                                                                   \
                for (int l = 0; l < reached[r + apart]; l++)                                                            \
                    name##_meet(n, lanes + (r * LANES + l) * pitch, lanes + ((r + apart) * LANES + l) * pitch);         \
        for (int half = LANES / 2; half; half /= 2)                                                                     \
            for (int l = 0; l < half && l + half < reached[0]; l++)                                                     \
                name##_meet(n, lanes + l * pitch, lanes + (l + half) * pitch);                                          \
        __builtin_memcpy(to, lanes, (size_t)n * sizeof(T));                                                             \
    }

FOLDS(FOLD_ROWS)

extern tp_fold_rows_fn *const TP_ISA(tp_tile_row_folds)[TP_COMPUTE_COUNT][TP_FOLD_COUNT];
tp_fold_rows_fn *const TP_ISA(tp_tile_row_folds)[TP_COMPUTE_COUNT][TP_FOLD_COUNT] = {
    [TP_COMPUTE_f32] = { sum_f32, prod_f32, max_f32, min_f32 },
    [TP_COMPUTE_f64] = { sum_f64, prod_f64, max_f64, min_f64 },
    [TP_COMPUTE_i64] = { sum_u64, prod_u64, max_i64, min_i64 },
};
