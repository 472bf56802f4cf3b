/* fft_plan.h - a Fourier transform of n numbers, planned once and used often.
 *
 *     n = n1 n2    the numbers are a matrix [n1][n2]: transforms of all columns at once, twiddles and a transposition, transforms of
 *                  all columns again. Every loop runs over neighbours.
 *     large prime  Bluestein: a convolution by transforms of a power of two.
 *     n real       for even n, n/2 pairs as complex numbers, then taken apart.
 *
 * A plan is one block. While a call uses it nobody else has it: the cache in tp_runtime hands it out and takes it back. */
#ifndef TP_KERNELS_FFT_PLAN_H
#define TP_KERNELS_FFT_PLAN_H

#include "kernels/fft_set.h"

/* Stages of a transform along the first dim. */
typedef struct tp_fft_part {
    int64_t     n;
    int         count;
    uint8_t     radix[40];
    const void *twiddle[40], *root[40];
} tp_fft_part;

typedef struct tp_fft_plan {
    int64_t n;
    bool    single, real;               /* of f32; from or to real numbers */
    const tp_fft_kernels *kernels;
    tp_fft_part part[2], whole;         /* n1, n2; n in one piece, for many transforms side by side */
    tp_fft_pair turn;                   /* exp(-2 pi i j k / n), [n1][n2] */
    tp_fft_pair root;                   /* real, even n: exp(-2 pi i k / n) for k < n/2 */
    tp_fft_pair chirp, filter;          /* Bluestein: exp(-pi i k² / n), and the transform of its inverse */
    struct tp_fft_plan *inner;          /* in the same block, may be NULL: of n/2 for real even n, of a power of two for Bluestein */
} tp_fft_plan;

/* Takes a plan from the cache, or makes it. NULL: no memory. */
TP_CHECK tp_fft_plan *tp_fft_take(int64_t n, bool single, bool real);
void tp_fft_give(tp_fft_plan *take);

/* How many elements each of the four arrays of x and y must have. A real plan of even n is run through its inner one. */
int64_t tp_fft_room(const tp_fft_plan *p);
/* Transforms x[0 … n), forwards; y is scratch. Gives the pair that holds the result. To go backwards, exchange the members of
 * x and y before and of the result after. */
tp_fft_pair tp_fft_run(const tp_fft_plan *p, tp_fft_pair x, tp_fft_pair y);
/* Can `side` transforms side by side, x[n][side], be done at once? And do it. */
static inline bool tp_fft_has_columns(const tp_fft_plan *p) { return p->whole.count > 0; }
tp_fft_pair tp_fft_run_columns(const tp_fft_plan *p, int64_t side, tp_fft_pair x, tp_fft_pair y);

#endif
