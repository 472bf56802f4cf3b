/* conv_grid.h - the one loop behind convolutions and their input gradients: sums over taps of a padded copy.
 *
 * An image is copied once, with its padding, so that no later step looks at borders. Where the last dim is strided, the
 * copy keeps the columns of each remainder together: neighbours in an output row are then neighbours in the copy.
 *
 *     row of the copy, stride 2:   z0 z2 z4 z6 … | z1 z3 z5 z7 …        phases of `quotient` columns
 *
 * Output (c, p) is the sum over k of weight[c][k] * copy[offset[k] + position(p)]: a product of matrices whose B is
 * never stored, or, for a single input channel, a sweep over taps.
 * The copy is the caller's, from tp_conv_copy_bytes; everything else is borrowed. */
#ifndef TP_KERNELS_CONV_GRID_H
#define TP_KERNELS_CONV_GRID_H

#include "kernels/conv.h"
#include "kernels/gemm_set.h"

/* Which coordinates of an image the copy holds, and how. */
typedef struct tp_conv_copy {
    int64_t low[3], size[3];            /* coordinates low … low + size; those outside the image are 0 */
    int64_t phases, quotient;           /* of the last dim */
    int64_t row, plane, channel;        /* elements from one row, plane, channel of the copy to the next */
    int64_t channels;
} tp_conv_copy;

/* low, size, phases, channels are set; the rest follows. False: the product does not fit, TP_ERR_MEMORY. */
TP_CHECK bool tp_conv_copy_plan(tp_conv_copy *p, size_t *bytes, size_t element_bytes);
/* Channels `first` … of one image of `view`, whose sizes are `image`, into `to`. Splits over the pool. */
void tp_conv_copy_run(const tp_conv_copy *p, const char *image_data, const tp_conv_view *view, const int64_t image[3],
                      size_t element_bytes, void *to);

/* Sums over taps for a grid of outputs. */
typedef struct tp_conv_grid {
    const tp_gemm_kernels *kernels;
    size_t         element_bytes;
    const void    *copy;                /* borrowed: at the first channel of this group */
    int64_t        copy_channel, sharing;   /* one_channel: `sharing` outputs look at each channel of the copy */
    const int64_t *offset;              /* borrowed: k of them */
    int64_t        k;
    int64_t        plane_step, row_step;    /* in the copy, from one output plane or row to the next */
    int64_t        size[3];             /* outputs of a channel */
    const void    *weight;              /* borrowed: rows x k, weight_row apart */
    const int64_t *weight_offset;       /* borrowed: where column k of it begins; NULL: at k. Not for one_channel */
    int64_t        rows, weight_row;
    const void    *bias;                /* borrowed, rows, may be NULL */
    void          *out;                 /* borrowed */
    int64_t        channel, space[3];   /* strides of out */
} tp_conv_grid;

/* one_channel: each output looks at one channel, and `rows` are the outputs of all groups. */
TP_CHECK bool tp_conv_grid_run(const tp_conv_grid *g, bool one_channel);

/* The step from each pixel to the next when it is one for all of them, 0 when it is not or when all are one element. */
int64_t tp_conv_even_step(const int64_t size[3], const int64_t space[3]);

/* B of the weight gradient: row p is an output position, column j an offset. */
tp_gemm_fill *tp_conv_fill_turned(size_t element_bytes);

#endif
