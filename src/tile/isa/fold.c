/* fold.c - a sequence to one element: blocks of a tile, runs of 256 in a block, 16 striped lanes in a run, then trees.
 *
 *     lane l of run r takes elements 256 r + l, + 16, + 32 …
 *     lanes of the four runs are combined, (0 1) (2 3);  then lane l op= lane l + 8, + 4, + 2, + 1
 *     blocks are the leaves of a binary tree, kept as a counter: level k holds 2^k blocks
 *
 * Memory is read in order, run after run: reading four runs side by side costs a seventh when they come from the last
 * cache, and a processor has begun the next run long before the additions of one are done. Lanes sit in as many vectors as
 * the instruction set needs for 16 of them; that is the whole difference between sets. A missing element is the neutral
 * one, which changes nothing. */
#include "tile/isa/fold.h"

enum { LEVELS = 54, GROUP_LEVEL = 3, GROUP = 1 << GROUP_LEVEL };
#ifdef TP_SMALL
enum { SMALL = true };          /* the plain set of a processor that has others: whole blocks are folded as short ones, to the same bits */
#else
enum { SMALL = false };
#endif

/* The tree over blocks, of elements of type T: block(n, x) folds n <= TP_TILE of them. A group of blocks is a node of it. */
#define FOLD_BLOCKS(name, T, block, combine)                                                                \
    static __attribute__((noinline)) T name##_long(int64_t n, const T *x)                                   \
    {                                                                                                       \
        T level[LEVELS], value[GROUP];                                                                      \
        uint64_t count = 0;                                                                                 \
        for (int64_t blocks; n > TP_TILE; n -= blocks * TP_TILE, x += blocks * TP_TILE) {                   \
            blocks = n > GROUP * TP_TILE ? GROUP : 1;                                                       \
            for (int64_t i = 0; i < blocks; i++)                                                            \
                value[i] = block(TP_TILE, x + i * TP_TILE);                                                 \
            for (int64_t apart = 1; apart < blocks; apart *= 2)                                             \
                for (int64_t i = 0; i < blocks; i += 2 * apart)                                             \
                    value[i] = combine(value[i], value[i + apart]);                                         \
            int k = blocks == GROUP ? GROUP_LEVEL : 0;                                                      \
            for (uint64_t bit = count >> k; bit & 1; bit >>= 1, k++)                                        \
                value[0] = combine(level[k], value[0]);                                                     \
            level[k] = value[0];                                                                            \
            count += (uint64_t)blocks;                                                                      \
        }                                                                                                   \
        T result = block(n, x);                                                                             \
        for (int k = 0; count; count >>= 1, k++)                                                            \
            if (count & 1)                                                                                  \
                result = combine(level[k], result);                                                         \
        return result;                                                                                      \
    }                                                                                                       \
    static void name(int64_t n, void *to, const void *from)                                                 \
    {                                                                                                       \
        const T *x = from;                                                                                  \
        *(T *)to = n <= TP_TILE ? block(n, x) : name##_long(n, x);                                          \
    }

#define FOLD(name, T, first, op)                                                                            \
    typedef T name##_vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));      \
    enum { name##_WIDTH = VECTOR_BYTES / sizeof(T), name##_VECTORS = LANES / name##_WIDTH };                \
    static inline T name##_lanes(name##_vector (*lane)[name##_VECTORS])                                     \
    {                                                                                                       \
        for (int v = 0; v < name##_VECTORS; v++) {                                                          \
            name##_vector left = op(lane[0][v], lane[1][v]), right = op(lane[2][v], lane[3][v]);            \
            lane[0][v] = op(left, right);                                                                   \
        }                                                                                                   \
        for (int half = name##_VECTORS / 2; half; half /= 2)                                                \
            for (int v = 0; v < half; v++)                                                                  \
                lane[0][v] = op(lane[0][v], lane[0][v + half]);                                             \
        return LANES_OF_##T(lane[0][0], op);                                                                \
    }                                                                                                       \
    static T name##_short(int64_t n, const T *x)                                                            \
    {                                                                                                       \
        name##_vector lane[RUNS][name##_VECTORS];                                                           \
        for (int64_t r = 0; r < RUNS; r++) {                                                                \
            name##_vector sum[name##_VECTORS];                                                              \
            _Pragma("GCC unroll 16") for (int v = 0; v < name##_VECTORS; v++)                               \
                sum[v] = (name##_vector){ 0 } + (T)first;                                                   \
            int64_t i = r * RUN, end = n < i + RUN ? n : i + RUN;                                           \
            for (; i + LANES <= end; i += LANES)                                                            \
                _Pragma("GCC unroll 16") for (int v = 0; v < name##_VECTORS; v++) {                         \
                    name##_vector b = *(const name##_vector *)(x + i + v * name##_WIDTH);                   \
                    sum[v] = op##_in(sum[v], b);                                                            \
                }                                                                                           \
            if (i < end) {                                                                                  \
                T rest[LANES];                                                                              \
                for (int l = 0; l < LANES; l++)                                                             \
                    rest[l] = i + l < end ? x[i + l] : (T)first;                                            \
                _Pragma("GCC unroll 16") for (int v = 0; v < name##_VECTORS; v++) {                         \
                    name##_vector b = *(const name##_vector *)(rest + v * name##_WIDTH);                    \
                    sum[v] = op##_in(sum[v], b);                                                            \
                }                                                                                           \
            }                                                                                               \
            _Pragma("GCC unroll 16") for (int v = 0; v < name##_VECTORS; v++)                               \
                lane[r][v] = sum[v];                                                                        \
        }                                                                                                   \
        return name##_lanes(lane);                                                                          \
    }                                                                                                       \
    static __attribute__((noinline)) T name##_whole(const T *x)                                             \
    {                                                                                                       \
        name##_vector lane[RUNS][name##_VECTORS];                                                           \
        unsigned missed = 0;                                                                                \
        _Pragma("GCC unroll 1") for (int r = 0; r < RUNS; r++) {                                            \
            name##_vector sum[name##_VECTORS];                                                              \
            _Pragma("GCC unroll 16") for (int v = 0; v < name##_VECTORS; v++)                               \
                sum[v] = (name##_vector){ 0 } + (T)first;                                                   \
            _Pragma("GCC unroll 16") for (int64_t i = 0; i < RUN; i += LANES)                               \
                _Pragma("GCC unroll 16") for (int v = 0; v < name##_VECTORS; v++) {                         \
                    const T *at = x + r * RUN + i + v * name##_WIDTH;                                       \
                    name##_vector b = *(const name##_vector *)at;                                           \
                    missed |= i / LANES % 2 ? op##_misses(b, *(const name##_vector *)(at - LANES)) : 0;     \
                    sum[v] = op##_quick(sum[v], b);                                                         \
                }                                                                                           \
            _Pragma("GCC unroll 16") for (int v = 0; v < name##_VECTORS; v++)                               \
                lane[r][v] = sum[v];                                                                        \
        }                                                                                                   \
        return missed ? name##_short(TP_TILE, x) : name##_lanes(lane);                                      \
    }                                                                                                       \
    static inline T name##_block(int64_t n, const T *x)                                                     \
    {                                                                                                       \
        return n < TP_TILE || SMALL ? name##_short(n, x) : name##_whole(x);                                 \
    }                                                                                                       \
    FOLD_BLOCKS(name, T, name##_block, op##_one)

FOLDS(FOLD)

/* The first element that is `value`, or the first NaN if it is one. */
#define FIND(name, T, SAME)                                                                                 \
    static int64_t name(int64_t n, const void *from, const void *value)                                     \
    {                                                                                                       \
        const T *x = from, v = *(const T *)value;                                                           \
        int64_t i = 0;                                                                                      \
        const int64_t step = VECTOR_BYTES / (int64_t)sizeof(T);                                             \
        for (unsigned same; v == v && i + step <= n; i += step)                                             \
            if ((same = SAME(x + i, v)))                                                                    \
                return i + __builtin_ctz(same);                                                             \
        while (i < n && !(x[i] == v || (v != v && x[i] != x[i])))                                           \
            i++;                                                                                            \
        return i;                                                                                           \
    }
FIND(find_f32, float, SAME_f32)
FIND(find_f64, double, SAME_f64)
FIND(find_i64, int64_t, SAME_i64)

/* Not as vectors, for the reason complex.c gives. */
#pragma GCC push_options
#pragma GCC optimize("no-tree-vectorize")
#define COMPLEX_FOLD(name, T, R, re0, combine)                                                              \
    static T name##_block(int64_t n, const T *x)                                                            \
    {                                                                                                       \
        T last[RUNS][LANES];                                                                                \
        for (int l = 0; l < RUNS * LANES; l++)                                                              \
            last[l / LANES][l % LANES] = (T){ re0, 0 };                                                     \
        for (int64_t i = 0; i < n; i++)                                                                     \
            last[i / RUN][i % LANES] = combine(last[i / RUN][i % LANES], x[i]);                             \
        for (int l = 0; l < LANES; l++) {                                                                   \
            T left = combine(last[0][l], last[1][l]), right = combine(last[2][l], last[3][l]);              \
            last[0][l] = combine(left, right);                                                              \
        }                                                                                                   \
        for (int half = LANES / 2; half; half /= 2)                                                         \
            for (int l = 0; l < half; l++)                                                                  \
                last[0][l] = combine(last[0][l], last[0][l + half]);                                        \
        return last[0][0];                                                                                  \
    }                                                                                                       \
    FOLD_BLOCKS(name, T, name##_block, combine)
#define COMPLEX_SUM(a, b) ((__typeof__(a)){ (a).re + (b).re, (a).im + (b).im })
#define COMPLEX_PROD(a, b) ((__typeof__(a)){ (a).re * (b).re - (a).im * (b).im, (a).re * (b).im + (a).im * (b).re })

COMPLEX_FOLD(sum_c64, tp_c64, float, 0, COMPLEX_SUM)
COMPLEX_FOLD(sum_c128, tp_c128, double, 0, COMPLEX_SUM)
COMPLEX_FOLD(prod_c64, tp_c64, float, 1, COMPLEX_PROD)
COMPLEX_FOLD(prod_c128, tp_c128, double, 1, COMPLEX_PROD)
#pragma GCC pop_options

#define DEVIATION(name, T, fold)                                                                            \
    void name(int64_t n, T mean, const T *x, T *to);                                                        \
    void name(int64_t n, T mean, const T *x, T *to)                                                         \
    {                                                                                                       \
        fold##_vector lane[RUNS][fold##_VECTORS];                                                           \
        for (int64_t r = 0; r < RUNS; r++) {                                                                \
            fold##_vector sum[fold##_VECTORS] = { 0 };                                                      \
            int64_t i = r * RUN, end = n < i + RUN ? n : i + RUN;                                           \
            for (; i + LANES <= end; i += LANES)                                                            \
                _Pragma("GCC unroll 16") for (int v = 0; v < fold##_VECTORS; v++) {                         \
                    fold##_vector apart = *(const fold##_vector *)(x + i + v * fold##_WIDTH) - mean;        \
                    sum[v] += apart * apart;                                                                \
                }                                                                                           \
            if (i < end) {                                                                                  \
                T rest[LANES];                                                                              \
                for (int l = 0; l < LANES; l++)                                                             \
                    rest[l] = i + l < end ? x[i + l] : mean;                                                \
                _Pragma("GCC unroll 16") for (int v = 0; v < fold##_VECTORS; v++) {                         \
                    fold##_vector apart = *(const fold##_vector *)(rest + v * fold##_WIDTH) - mean;         \
                    sum[v] += apart * apart;                                                                \
                }                                                                                           \
            }                                                                                               \
            _Pragma("GCC unroll 16") for (int v = 0; v < fold##_VECTORS; v++)                               \
                lane[r][v] = sum[v];                                                                        \
        }                                                                                                   \
        *to = fold##_lanes(lane);                                                                           \
    }
DEVIATION(TP_ISA(tp_tile_deviation_f32), float, sum_f32)
DEVIATION(TP_ISA(tp_tile_deviation_f64), double, sum_f64)

extern tp_fold_fn *const TP_ISA(tp_tile_folds)[TP_COMPUTE_COUNT][TP_FOLD_COUNT];
tp_fold_fn *const TP_ISA(tp_tile_folds)[TP_COMPUTE_COUNT][TP_FOLD_COUNT] = {
    [TP_COMPUTE_f32] = { sum_f32, prod_f32, max_f32, min_f32 },
    [TP_COMPUTE_f64] = { sum_f64, prod_f64, max_f64, min_f64 },
    [TP_COMPUTE_i64] = { sum_u64, prod_u64, max_i64, min_i64 },
    [TP_COMPUTE_c64] = { sum_c64, prod_c64, NULL, NULL },
    [TP_COMPUTE_c128] = { sum_c128, prod_c128, NULL, NULL },
};

extern tp_find_fn *const TP_ISA(tp_tile_finds)[TP_COMPUTE_COUNT];
tp_find_fn *const TP_ISA(tp_tile_finds)[TP_COMPUTE_COUNT] = {
    [TP_COMPUTE_f32] = find_f32, [TP_COMPUTE_f64] = find_f64, [TP_COMPUTE_i64] = find_i64,
};
