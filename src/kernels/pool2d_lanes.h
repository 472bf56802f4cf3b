/* pool2d_lanes.h - max pooling's inner loops: one tap of a window, seen by many outputs at once.
 *
 * A lane is an output; it keeps its best value and how far from where its window begins that value lies. Lanes of f32, of
 * halves (compared as f32) and of narrow integers count that distance in i32, those of f64 and i64 in i64. One set of
 * functions for each instruction set, from one text; all give the same results. */
#ifndef TP_KERNELS_POOL2D_LANES_H
#define TP_KERNELS_POOL2D_LANES_H

#include "tensor/dtype.h"

enum { TP_POOL_STRIP = 256, TP_POOL_VECTOR = 16 };      /* lanes at most; lanes that windows() needs */

typedef struct tp_pool_lanes {
    /* n lanes that have seen nothing but a lowest value `reach` from where their window begins. */
    void (*start)(int64_t n, int64_t reach, void *best, void *from);
    /* They see x[0], x[step] … at `reach`: what is greater is taken, NaN always. */
    void (*tap)(int64_t n, const void *x, int64_t step, int64_t reach, void *best, void *from);
    /* n lanes see whole windows of `count` taps: x[offset[t] + j * step] at reach[t]. NULL, or for step 1 or 2 and at least
     * TP_POOL_VECTOR lanes. */
    void (*windows)(int64_t n, int64_t count, const void *x, int64_t step, const int64_t *offset, const int64_t *reach, void *best,
                    void *from);
    /* to[j] = begin + j * step + the distance kept. */
    void (*places)(int64_t n, const void *from, int64_t begin, int64_t step, int64_t *to);
    bool wide;                      /* distances are i64 */
} tp_pool_lanes;

typedef tp_pool_lanes tp_pool_lanes_set[TP_DTYPE_COUNT];        /* empty for types that are not pooled */
extern const tp_pool_lanes_set tp_pool_lanes_plain, tp_pool_lanes_avx2, tp_pool_lanes_avx512;

#endif
