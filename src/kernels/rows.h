/* rows.h - arithmetic on short rows: the primitives of the tile set, called directly.
 *
 * A kernel along rows (softmax, norms, losses) does several passes over a row that stays in the first-level cache. Each
 * pass is one primitive, so the result has the same bits on every instruction set, and equals what the op's decomposition
 * into element-wise ops and reductions computes on rows of up to TP_ROW_BLOCK elements. */
#ifndef TP_KERNELS_ROWS_H
#define TP_KERNELS_ROWS_H

#include <math.h>
#include <string.h>

#include "base/runtime.h"
#include "tile/set.h"

/* Sums are folded in blocks of so many elements, what a fold takes, and the blocks added in order. Rows that fit into one
 * run of a fold (tile/isa/fold.c) are folded here in the same order, without the fold's cost of starting up. */
enum { TP_ROW_BLOCK = TP_TILE, TP_SHORT_ROW = 256, TP_TINY_ROW = 32 };

typedef struct tp_row {
    const tp_tile_set *set;
    uint8_t compute;            /* TP_COMPUTE_f32 or TP_COMPUTE_f64 */
    uint8_t bytes;
} tp_row;

static inline tp_row tp_row_of(tp_dtype d)
{
    return (tp_row){ tp_the_runtime.tile, d == TP_f64 ? TP_COMPUTE_f64 : TP_COMPUTE_f32, d == TP_f64 ? 8 : 4 };
}

/* One number of the row's type. */
typedef union tp_row_number {
    float  f32;
    double f64;
} tp_row_number;

static inline double tp_row_get(const tp_row *r, const void *p)
{
    return r->bytes == 8 ? *(const double *)p : *(const float *)p;
}

static inline void tp_row_put(const tp_row *r, void *p, double value)
{
    if (r->bytes == 8)
        *(double *)p = value;
    else
        *(float *)p = (float)value;
}

static inline tp_row_number tp_row_make(const tp_row *r, double value)
{
    tp_row_number x;
    tp_row_put(r, &x, value);
    return x;
}

static inline void *tp_row_at(const tp_row *r, const void *base, int64_t element)
{
    return (char *)base + element * r->bytes;
}

/* to = prim(a, b): both rows. */
static inline void tp_row_step(const tp_row *r, tp_prim prim, int64_t n, void *to, const void *a, const void *b)
{
    r->set->step[r->compute][prim][TP_FORM_VECTORS](n, to, a, b, NULL);
}

#define TP_TINY_STEP(T)                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                                       \
        T x = ((const T *)a)[i], y = *(const T *)one;                                                       \
        ((T *)to)[i] = prim == TP_PRIM_add ? x + y : prim == TP_PRIM_sub ? x - y : prim == TP_PRIM_mul ? x * y : x / y; \
    }

/* to = prim(a, *one). A few elements are not worth a call: the four operations are done here, to the same bits. */
static inline void tp_row_step_one(const tp_row *r, tp_prim prim, int64_t n, void *to, const void *a, const void *one)
{
    if (n <= TP_TINY_ROW && (prim == TP_PRIM_add || prim == TP_PRIM_sub || prim == TP_PRIM_mul || prim == TP_PRIM_div)) {
        if (r->bytes == 8)
            TP_TINY_STEP(double)
        else
            TP_TINY_STEP(float)
        return;
    }
    r->set->step[r->compute][prim][TP_FORM_RIGHT_ONE](n, to, a, one, NULL);
}

#define TP_SHORT_FOLD(name, T, first, op)                                       \
    static inline T name(int64_t n, const T *x)                                 \
    {                                                                           \
        T lane[16];                                                             \
        int64_t i = 0;                                                          \
        for (int l = 0; l < 16; l++)                                            \
            lane[l] = (T)(first);                                               \
        for (; i + 16 <= n; i += 16)                                            \
            for (int l = 0; l < 16; l++)                                        \
                lane[l] = op(lane[l], x[i + l]);                                \
        for (int l = 0; i + l < n; l++)                                         \
            lane[l] = op(lane[l], x[i + l]);                                    \
        for (int half = 8; half; half /= 2)                                     \
            for (int l = 0; l < half; l++)                                      \
                lane[l] = op(lane[l], lane[l + half]);                          \
        return lane[0];                                                         \
    }
#define TP_SHORT_ADD(a, b) ((a) + (b))
#define TP_SHORT_MAX(a, b) (((a) > (b)) | ((a) != (a)) ? (a) : (b))
TP_SHORT_FOLD(tp_short_sum_f32, float, 0, TP_SHORT_ADD)
TP_SHORT_FOLD(tp_short_sum_f64, double, 0, TP_SHORT_ADD)
TP_SHORT_FOLD(tp_short_max_f32, float, -__builtin_inf(), TP_SHORT_MAX)
TP_SHORT_FOLD(tp_short_max_f64, double, -__builtin_inf(), TP_SHORT_MAX)

static inline double tp_row_fold(const tp_row *r, int fold, int64_t n, const void *row)
{
    tp_row_number total;
    r->set->fold[r->compute][fold](n < TP_ROW_BLOCK ? n : TP_ROW_BLOCK, &total, row);
    for (int64_t at = TP_ROW_BLOCK; at < n; at += TP_ROW_BLOCK) {
        tp_row_number next[2] = { total, total };
        r->set->fold[r->compute][fold](n - at < TP_ROW_BLOCK ? n - at : TP_ROW_BLOCK, &total, tp_row_at(r, row, at));
        double a = tp_row_get(r, next), b = tp_row_get(r, &total);
        tp_row_put(r, &total, fold == TP_FOLD_SUM ? a + b : fold == TP_FOLD_MAX ? (a > b || a != a ? a : b) : a * b);
    }
    return tp_row_get(r, &total);
}

static inline double tp_row_sum(const tp_row *r, int64_t n, const void *row)
{
    if (n > TP_SHORT_ROW)
        return tp_row_fold(r, TP_FOLD_SUM, n, row);
    return r->bytes == 8 ? tp_short_sum_f64(n, row) : (double)tp_short_sum_f32(n, row);
}

static inline double tp_row_max(const tp_row *r, int64_t n, const void *row)
{
    if (n > TP_SHORT_ROW)
        return tp_row_fold(r, TP_FOLD_MAX, n, row);
    return r->bytes == 8 ? tp_short_max_f64(n, row) : (double)tp_short_max_f32(n, row);
}

/* 1 / sqrt(variance + eps), each step in the row's type: so does PyTorch, and gradients of rows without variance show it. */
static inline double tp_row_rstd(const tp_row *r, double variance, double eps)
{
    return r->bytes == 8 ? 1 / sqrt(variance + eps) : (double)(1 / sqrtf((float)variance + (float)eps));
}

/* The sum of (x - mean)². A tile at a time, for that is what the primitive takes. */
static inline double tp_row_deviation(const tp_row *r, int64_t n, double mean, const void *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += TP_TILE) {
        int64_t some = n - i < TP_TILE ? n - i : TP_TILE;
        tp_row_number part;
        if (r->bytes == 8)
            r->set->deviation_f64(some, mean, (const double *)x + i, &part.f64);
        else
            r->set->deviation_f32(some, (float)mean, (const float *)x + i, &part.f32);
        sum += tp_row_get(r, &part);
    }
    return sum;
}

/* to = exp(x - *top) */
static inline void tp_row_exponentials(const tp_row *r, int64_t n, void *to, const void *x, const void *top)
{
    if (r->bytes == 8)
        r->set->exponentials_f64(n, *(const double *)top, x, to);
    else
        r->set->exponentials_f32(n, *(const float *)top, x, to);
}

/* to = (x - *mean) *scale w + b; w and b are rows and may be NULL. */
static inline void tp_row_normalise(const tp_row *r, int64_t n, void *to, const void *x, const void *mean, const void *scale,
                                    const void *w, const void *b)
{
    if (r->bytes == 8)
        r->set->normalise_f64(n, *(const double *)mean, *(const double *)scale, x, w, b, to);
    else
        r->set->normalise_f32(n, *(const float *)mean, *(const float *)scale, x, w, b, to);
}

#endif
