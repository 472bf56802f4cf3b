/* set.h - the primitives of one instruction set, as tables of functions.
 *
 * isa/ is compiled once for each instruction set; each copy fills one tp_tile_set. The executor (loop.c, reduce.c,
 * scan.c) is compiled once and calls through tp_the_runtime.tile, which choose.c sets when the library is loaded.
 * Always: equal inputs give equal bits from every set, except that a NaN may be any NaN. */
#ifndef TP_TILE_SET_H
#define TP_TILE_SET_H

#include "tile/tile.h"

/* n elements: to = step(a, b, c). `to` may be the same memory as an operand. */
typedef void tp_tile_fn(int64_t n, void *to, const void *a, const void *b, const void *c);

/* A step has up to three forms: all operands are vectors, the right one is a single element, the left one is. */
enum { TP_FORM_VECTORS, TP_FORM_RIGHT_ONE, TP_FORM_LEFT_ONE, TP_FORM_COUNT };
typedef tp_tile_fn *tp_tile_forms[TP_FORM_COUNT];       /* NULL: no such form */

typedef void tp_convert_fn(int64_t n, void *to, const void *from);      /* dense to dense */

/* Moves a patch of elements of one size between two layouts; strides in bytes. */
typedef void tp_move_fn(int64_t rows, int64_t columns, char *to, int64_t to_row, int64_t to_column, const char *from,
                        int64_t from_row, int64_t from_column);

/* Folds n elements to one, in the order that isa/fold.c draws; of none it makes the neutral element. */
typedef void tp_fold_fn(int64_t n, void *to, const void *from);
/* Folds 1 <= rows <= TP_TILE rows of n elements, at most TP_STRIP bytes wide, to one row: each column as tp_fold_fn does. */
typedef void tp_fold_rows_fn(int64_t rows, int64_t n, void *to, const void *from, int64_t stride);
enum { TP_STRIP = 4096 };
/* Where `value` is first among n elements that hold it, or the first NaN if it is one. */
typedef int64_t tp_find_fn(int64_t n, const void *from, const void *value);
enum { TP_FOLD_SUM, TP_FOLD_PROD, TP_FOLD_MAX, TP_FOLD_MIN, TP_FOLD_COUNT };

typedef struct tp_tile_set {
    const tp_tile_forms *step[TP_COMPUTE_COUNT];                        /* by tp_prim */
    const tp_tile_forms *logic;                                         /* by tp_prim, on bytes of b8; few have it */
    tp_convert_fn *const (*load)[TP_COMPUTE_COUNT];                           /* by storage type, by compute type */
    tp_convert_fn *const (*store)[TP_DTYPE_COUNT];                            /* by compute type, by storage type */
    tp_move_fn *const *move;                                            /* by log2 of the element's bytes, 0 to 4 */
    tp_fold_fn *const (*fold)[TP_FOLD_COUNT];                                 /* by compute type; NULL for i32 */
    tp_fold_rows_fn *const (*fold_rows)[TP_FOLD_COUNT];                       /* NULL for i32 and complex */
    tp_find_fn *const *find;                                            /* by compute type; f32, f64 and i64 */
    void (*deviation_f32)(int64_t n, float mean, const float *x, float *to);    /* sum of (x - mean)², as a fold */
    void (*deviation_f64)(int64_t n, double mean, const double *x, double *to);
    void (*exponentials_f32)(int64_t n, float top, const float *x, float *to);      /* exp(x - top), no x above top */
    void (*exponentials_f64)(int64_t n, double top, const double *x, double *to);
    /* (x - mean) scale w + b, each step rounded; w and b may be NULL: left out. */
    void (*normalise_f32)(int64_t n, float mean, float scale, const float *x, const float *w, const float *b, float *to);
    void (*normalise_f64)(int64_t n, double mean, double scale, const double *x, const double *w, const double *b, double *to);
    void (*running_f32)(int64_t n, const float *x, float *to);     /* sums so far, in order in f64; `to` may be x */
} tp_tile_set;

/* Steps that no instruction set changes (special.c). */
#define TP_PRIM(name, operands, types)
#define TP_SPECIAL(name, operands) tp_tile_fn tp_special_##name##_f32, tp_special_##name##_f64;
#include "tile/prims.def"
#undef TP_PRIM

extern const tp_tile_set tp_tile_set_plain, tp_tile_set_avx2, tp_tile_set_avx512;

/* The set of an instruction set, NULL when this machine cannot run it. For tests and for choose.c. */
TP_API const tp_tile_set *tp_tile_set_of(tp_isa isa);

static inline int tp_tile_operands(int prim)
{
    static const uint8_t operands[] = {
#define TP_PRIM(name, count, types) count,
#include "tile/prims.def"
#undef TP_PRIM
    };
    return operands[prim];
}

static inline tp_dtype tp_compute_dtype(int compute)
{
    static const uint8_t dtype[] = { TP_f32, TP_f64, TP_i32, TP_i64, TP_c64, TP_c128 };
    return (tp_dtype)dtype[compute];
}

#endif
