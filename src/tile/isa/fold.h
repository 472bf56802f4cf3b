/* fold.h - how two elements are combined, and the shape that every fold of a block has (fold.c draws it). */
#ifndef TP_TILE_FOLD_H
#define TP_TILE_FOLD_H

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

/* Folds of types that make vectors: FOLD(name, type, neutral element, operation). */
#define FOLDS(FOLD)                                     \
    FOLD(sum_f32, float, 0, SUM)                        \
    FOLD(sum_f64, double, 0, SUM)                       \
    FOLD(prod_f32, float, 1, PROD)                      \
    FOLD(prod_f64, double, 1, PROD)                     \
    FOLD(max_f32, float, -__builtin_inff(), MAX)        \
    FOLD(max_f64, double, -__builtin_inf(), MAX)        \
    FOLD(max_i64, int64_t, INT64_MIN, MAX)              \
    FOLD(min_f32, float, __builtin_inff(), MIN)         \
    FOLD(min_f64, double, __builtin_inf(), MIN)         \
    FOLD(min_i64, int64_t, INT64_MAX, MIN)              \
    FOLD(sum_u64, uint64_t, 0, SUM)                     \
    FOLD(prod_u64, uint64_t, 1, PROD)

#endif
