/* fft_set.h - the loops of Fourier transforms: what fft_plan.c asks of an instruction set.
 *
 * Complex numbers stand in two arrays, real and imaginary parts. All loops run over neighbours, so each becomes vectors of any
 * width; multiplications and additions are rounded one by one, so every set gives the same bits. Nothing allocates or fails. */
#ifndef TP_KERNELS_FFT_SET_H
#define TP_KERNELS_FFT_SET_H

#include "base/api.h"

enum { TP_FFT_MOST = 13 };      /* the largest prime that has a pass */

/* A pair of arrays. */
typedef struct tp_fft_pair {
    void *re, *im;
} tp_fft_pair;

typedef struct tp_fft_kernels {
    /* One stage of a transform along the first dim of [radix * m][s], sorted on the way (Stockham):
     *     y[(radix p + k) s + q] = w[p][k] * sum over j of x[(p + m j) s + q] exp(-2 pi i j k / radix)
     * twiddle: m rows of radix - 1 pairs re, im; root: exp(-2 pi i j / radix), pairs, for radices above 5. */
    void (*pass)(int radix, int64_t m, int64_t s, tp_fft_pair x, tp_fft_pair y, const void *twiddle, const void *root);
    /* y[j][i] = x[i][j] * twiddle[i][j]; twiddle is a pair of arrays too. */
    void (*turn)(int64_t rows, int64_t columns, tp_fft_pair x, tp_fft_pair y, tp_fft_pair twiddle);
    /* n complex numbers apart, and together again, scaled. */
    void (*split)(int64_t n, const void *from, tp_fft_pair to);
    void (*join)(int64_t n, tp_fft_pair from, double scale, void *to);
    /* to = a * b, element by element. */
    void (*multiply)(int64_t n, tp_fft_pair a, tp_fft_pair b, tp_fft_pair to);
    /* Between a transform of n/2 pairs of real numbers and the n/2 + 1 coefficients of the n numbers; root: exp(-2 pi i k / n). */
    void (*unpack)(int64_t half, tp_fft_pair z, tp_fft_pair root, tp_fft_pair to);
    void (*pack)(int64_t half, tp_fft_pair from, tp_fft_pair root, tp_fft_pair z);
} tp_fft_kernels;

typedef struct tp_fft_set {
    tp_fft_kernels f32, f64;
} tp_fft_set;

extern const tp_fft_set tp_fft_set_plain, tp_fft_set_avx2, tp_fft_set_avx512;

#endif
