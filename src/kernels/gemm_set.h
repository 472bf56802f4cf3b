/* gemm_set.h - the micro-kernels of matrix products: what gemm.c asks of an instruction set.
 *
 * One tp_gemm_set for each instruction set, built from the same text (gemm_kernels.c) by three compiler options. Every
 * kernel gives the same bits in every set: a product is summed along k in blocks of TP_GEMM_K, in order, by fused
 * multiply-adds, one chain an output; dots run in 64 bytes of lanes and a fixed tree.
 * Nothing here allocates or fails; what is packed goes to memory of the caller. */
#ifndef TP_KERNELS_GEMM_SET_H
#define TP_KERNELS_GEMM_SET_H

#include "base/api.h"

/* The block of k after which a chain is added to C. The same in every instruction set, for it shows in the bits. */
enum { TP_GEMM_K = 256 };
enum { TP_GEMM_PACKED_ROWS = 256 };
enum { TP_GEMM_SAME_SET = 1024 };       /* rows so many bytes apart, or a multiple: 256 of them push each other out of the first cache */
enum { TP_SQUARE_ROWS = 4 };

/* Fills rows k0 … k0+kc of B at columns j0 … j0+columns, `width` elements a row, anything beyond `columns`. */
typedef void tp_gemm_fill(const void *source, int64_t k0, int64_t kc, int64_t j0, int columns, int width, void *to);

/* Neighbours of a panel's row that are neighbours in memory too. */
typedef struct tp_gemm_stretch {
    int64_t position;           /* of the first in memory */
    int     start, count;       /* in the row */
} tp_gemm_stretch;

/* C = alpha A B + beta C; strides in elements of A, B and C. C is not read when beta is 0. */
typedef struct tp_gemm_problem {
    int64_t       m, n, k;
    const void   *a, *b;                /* borrowed; b may be NULL when there is a fill */
    void         *c;                    /* borrowed */
    int64_t       a_row, a_column, b_row, b_column, c_row, c_column;
    const int64_t *a_offset;            /* borrowed, may be NULL: where column p of A begins, instead of p * a_column */
    double        alpha, beta;
    const void   *packed_a, *packed_b;  /* borrowed, may be NULL: taken from a and b as they lie. A caller may give a packed A of
                                           at most TP_GEMM_PACKED_ROWS rows */
    tp_gemm_fill *fill;                 /* may be NULL: B is in memory */
    const void   *source;               /* borrowed: first argument of fill */
    int64_t       fill_k, fill_n;       /* where this problem begins in the one that fill knows */
} tp_gemm_problem;

/*  packed A: for each block of k, panels of `rows` rows        packed B: for each block of k, panels of `columns`
 *      a00 a10 … a50 | a01 a11 … a51 | …                           b00 b01 … b0f | b10 b11 … b1f | …                */
typedef struct tp_gemm_kernels {
    int rows, columns;                  /* of a micro-tile */
    void (*tile)(const tp_gemm_problem *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1);
    void (*pack_a)(const tp_gemm_problem *g, int64_t panel, void *packed);
    void (*pack_b)(const tp_gemm_problem *g, int64_t panel, void *packed);
    void (*dot)(const tp_gemm_problem *g, int64_t j0, int64_t j1);      /* a_column == 1, b_row == 1 */
    void (*sweep)(const tp_gemm_problem *g, int64_t j0, int64_t j1);    /* m small, b_column == 1 */
    void (*tiny)(const tp_gemm_problem *g);
    /* lanes[t] += y times x at offset[t], for n neighbours, in 64 bytes of lanes a tap; depthwise weight gradient.
     * Reads up to 64 bytes beyond x's last element. */
    void (*correlate)(int64_t n, int64_t count, const void *x, const int64_t *offset, const void *y, void *lanes);
    double (*sum_lanes)(const void *lanes);
    /* to[j] = start + the sum over t of weight[t] * x[offset[t] + j], for n outputs; depthwise convolution. */
    void (*taps)(int64_t n, int64_t count, const void *x, const int64_t *offset, const void *weight, double start,
                 void *to);
    /* Rows of a panel, `width` wide, cut from x: run i of row p begins at x[offset[p] + run[i].position]. A run is copied
     * in whole vectors: what it writes beyond its end is written again by the next run or row, or by the caller. */
    void (*cut)(int64_t rows, const void *x, const int64_t *offset, const tp_gemm_stretch *run, int runs, int width, void *panel);
    /* `taps` for TP_SQUARE_ROWS rows of a 3 x 3 kernel, `to_row` apart, whose taps lie at offset[0 … 2] in each of three rows
     * of x, `row` apart, one further down for each row of outputs. n is at least 64 bytes of elements. */
    void (*square)(int64_t n, const void *x, const int64_t *offset, int64_t row, const void *weight, double start, void *to,
                   int64_t to_row);
} tp_gemm_kernels;

typedef struct tp_gemm_set {
    const char     *name;               /* "plain", "avx2", "avx512": what TAPER_ISA calls it */
    tp_gemm_kernels f32, f64;
} tp_gemm_set;

extern const tp_gemm_set tp_gemm_set_plain, tp_gemm_set_avx2, tp_gemm_set_avx512;

#endif
