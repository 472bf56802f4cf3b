/* fold.h - how two elements are combined, and the shape that every fold of a block has (fold.c draws it). */
#ifndef TP_TILE_FOLD_H
#define TP_TILE_FOLD_H

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "tile/isa/isa.h"

enum { LANES = 16, RUNS = 4, RUN = TP_TILE / RUNS };

#define SUM(a, b) ((a) + (b))
#define SUM_one SUM
#define PROD(a, b) ((a) * (b))
#define PROD_one PROD
/* A vector comparison gives lanes of all ones or none: choose by bits. NaN wins in both. */
#define MAX(a, b) MASKED(a, b, ((a) > (b)) | ((a) != (a)))
#define MIN(a, b) MASKED(a, b, ((a) < (b)) | ((a) != (a)))
#define MAX_one(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define MIN_one(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MASKED(a, b, mask)                                                                              \
    __extension__({                                                                                     \
        __typeof__((a) > (b)) m_ = (mask);                                                              \
        (__typeof__(a))((m_ & (__typeof__(m_))(a)) | (~m_ & (__typeof__(m_))(b)));                      \
    })

/* op##_in is the operation on whole vectors, in the loops that read memory. Masks as vectors cost more there than all
 * else, so floats compare as the instruction set likes it: a stays unless it is less or equal, and b wins when it is NaN.
 * op##_quick may lose a NaN; it is right when op##_misses(b, c) is 0 for all that is folded, in pairs.
 * SAME_type(x, v): a bit for each lane at x that equals v. */
#if defined(__AVX512F__)
#define IN_(a, b, m, p, predicate)                                                                      \
    ((__typeof__(a))_mm512_mask_mov_##p(                                                                \
        (m)(b), _mm512_mask_cmp_##p##_mask(_mm512_cmp_##p##_mask((m)(b), (m)(b), _CMP_ORD_Q), (m)(a), (m)(b), predicate), (m)(a)))
#define QUICK_(name, a, b, m, p) ((__typeof__(a))_mm512_##name##_##p((m)(a), (m)(b)))
#define MISSES_(b, c, m, p) ((unsigned)_mm512_cmp_##p##_mask((m)(b), (m)(c), _CMP_UNORD_Q))
#define M_f32 __m512
#define M_f64 __m512d
#define SAME_f32(x, v) _mm512_cmp_ps_mask(_mm512_loadu_ps(x), _mm512_set1_ps(v), _CMP_EQ_OQ)
#define SAME_f64(x, v) _mm512_cmp_pd_mask(_mm512_loadu_pd(x), _mm512_set1_pd(v), _CMP_EQ_OQ)
#define MAX_quick(a, b) ((__typeof__(a))_mm512_max_epi64((__m512i)(a), (__m512i)(b)))
#define MIN_quick(a, b) ((__typeof__(a))_mm512_min_epi64((__m512i)(a), (__m512i)(b)))
#define SAME_i64(x, v) _mm512_cmpeq_epi64_mask(_mm512_loadu_si512(x), _mm512_set1_epi64(v))
#elif defined(__AVX2__)
#define IN_(a, b, m, p, predicate)                                                                      \
    ((__typeof__(a))_mm256_blendv_##p(                                                                  \
        (m)(b), (m)(a), _mm256_and_##p(_mm256_cmp_##p((m)(a), (m)(b), predicate), _mm256_cmp_##p((m)(b), (m)(b), _CMP_ORD_Q))))
#define QUICK_(name, a, b, m, p) ((__typeof__(a))_mm256_##name##_##p((m)(a), (m)(b)))
#define MISSES_(b, c, m, p) ((unsigned)_mm256_movemask_##p(_mm256_cmp_##p((m)(b), (m)(c), _CMP_UNORD_Q)))
#define M_f32 __m256
#define M_f64 __m256d
#define MAX_quick MAX
#define MIN_quick MIN
#define SAME_f32(x, v) (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_set1_ps(v), _CMP_EQ_OQ))
#define SAME_f64(x, v) (unsigned)_mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(x), _mm256_set1_pd(v), _CMP_EQ_OQ))
#define SAME_i64(x, v) (unsigned)_mm256_movemask_pd((__m256d)_mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *)(x)), _mm256_set1_epi64x(v)))
#else
#define IN_(a, b, m, p, predicate) (predicate((a), (b)))
#define QUICK_(name, a, b, m, p) (name##_quick_((a), (b)))
#define MISSES_(b, c, m, p) 0u
#define M_f32
#define M_f64
#define _CMP_NLE_UQ MAX
#define _CMP_NGE_UQ MIN
#define max_quick_ MAX
#define min_quick_ MIN
#define MAX_quick MAX
#define MIN_quick MIN
#define SAME_f32(x, v) same_of_four((x)[0] == (v), (x)[1] == (v), (x)[2] == (v), (x)[3] == (v))
#define SAME_f64(x, v) same_of_four((x)[0] == (v), (x)[1] == (v), 0, 0)
#define SAME_i64 SAME_f64
static inline unsigned same_of_four(int a, int b, int c, int d) { return (unsigned)(a | b << 1 | c << 2 | d << 3); }
#endif
#define SUM_in SUM
#define PROD_in PROD
#define MAX_in MAX
#define MIN_in MIN
#define MAX_f32_in(a, b) IN_(a, b, M_f32, ps, _CMP_NLE_UQ)
#define MIN_f32_in(a, b) IN_(a, b, M_f32, ps, _CMP_NGE_UQ)
#define MAX_f64_in(a, b) IN_(a, b, M_f64, pd, _CMP_NLE_UQ)
#define MIN_f64_in(a, b) IN_(a, b, M_f64, pd, _CMP_NGE_UQ)
#define SUM_quick SUM
#define PROD_quick PROD
#define MAX_f32_quick(a, b) QUICK_(max, a, b, M_f32, ps)
#define MIN_f32_quick(a, b) QUICK_(min, a, b, M_f32, ps)
#define MAX_f64_quick(a, b) QUICK_(max, a, b, M_f64, pd)
#define MIN_f64_quick(a, b) QUICK_(min, a, b, M_f64, pd)
#define SUM_misses(b, c) 0u
#define PROD_misses SUM_misses
#define MAX_misses SUM_misses
#define MIN_misses SUM_misses
#define MAX_f32_misses(b, c) MISSES_(b, c, M_f32, ps)
#define MIN_f32_misses MAX_f32_misses
#define MAX_f64_misses(b, c) MISSES_(b, c, M_f64, pd)
#define MIN_f64_misses MAX_f64_misses
#define MAX_f32 MAX
#define MIN_f32 MIN
#define MAX_f64 MAX
#define MIN_f64 MIN
#define MAX_f32_one MAX_one
#define MIN_f32_one MIN_one
#define MAX_f64_one MAX_one
#define MIN_f64_one MIN_one

/* The lanes of one vector to one element: lane l op= lane l + half, half by half. Written out by width, for gcc keeps neither
 * a loop over halves nor a copy to memory in registers. */
#define LANES_2(v, op) op##_one((v)[0], (v)[1])
#define LANES_4(v, op)                                                                                  \
    __extension__({                                                                                     \
        __typeof__(__builtin_shufflevector(v, v, 0, 1)) two_ =                                          \
            op(__builtin_shufflevector(v, v, 0, 1), __builtin_shufflevector(v, v, 2, 3));               \
        LANES_2(two_, op);                                                                              \
    })
#define LANES_8(v, op)                                                                                  \
    __extension__({                                                                                     \
        __typeof__(__builtin_shufflevector(v, v, 0, 1, 2, 3)) four_ =                                   \
            op(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7));   \
        LANES_4(four_, op);                                                                             \
    })
#define LANES_16(v, op)                                                                                 \
    __extension__({                                                                                     \
        __typeof__(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)) eight_ =                      \
            op(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),                                   \
               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));                            \
        LANES_8(eight_, op);                                                                            \
    })
#if defined(__AVX512F__)
#define LANES_OF_float LANES_16
#define LANES_OF_double LANES_8
#elif defined(__AVX2__)
#define LANES_OF_float LANES_8
#define LANES_OF_double LANES_4
#else
#define LANES_OF_float LANES_4
#define LANES_OF_double LANES_2
#endif
#define LANES_OF_int64_t LANES_OF_double
#define LANES_OF_uint64_t LANES_OF_double

/* Folds of types that make vectors: FOLD(name, type, neutral element, operation). */
#define FOLDS(FOLD)                                     \
    FOLD(sum_f32, float, 0, SUM)                        \
    FOLD(sum_f64, double, 0, SUM)                       \
    FOLD(prod_f32, float, 1, PROD)                      \
    FOLD(prod_f64, double, 1, PROD)                     \
    FOLD(max_f32, float, -__builtin_inff(), MAX_f32)       \
    FOLD(max_f64, double, -__builtin_inf(), MAX_f64)       \
    FOLD(max_i64, int64_t, INT64_MIN, MAX)              \
    FOLD(min_f32, float, __builtin_inff(), MIN_f32)        \
    FOLD(min_f64, double, __builtin_inf(), MIN_f64)        \
    FOLD(min_i64, int64_t, INT64_MAX, MIN)              \
    FOLD(sum_u64, uint64_t, 0, SUM)                     \
    FOLD(prod_u64, uint64_t, 1, PROD)

#endif
