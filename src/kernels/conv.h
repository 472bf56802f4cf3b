/* conv.h - convolution in one to three dims on raw memory, and its gradients.
 *
 * A tensor is a pointer and strides in elements, so channels may lie first or last. Spatial dims are always three; a
 * missing one comes first with size, kernel, stride and dilation 1 and padding 0 (tp_conv_widen fills them in).
 *
 *     y[n, o, p] = bias[o] + sum over i, t of w[o, i, t] * x[n, i, p * stride + t * dilation - padding]
 *
 * Always: the same bits whatever the number of threads and the instruction set. f32 and f64 are summed by fused
 * multiply-adds over input channels and taps in order, in blocks of 256; halves as f32, rounded once.
 * A transposed convolution is tp_conv_backward_input with x and y changing places.
 * Nothing is owned; scratch can fail with TP_ERR_MEMORY, other dtypes fail with TP_ERR_UNIMPLEMENTED. Sizes are the
 * caller's to check: out_size must be what the formula gives. */
#ifndef TP_KERNELS_CONV_H
#define TP_KERNELS_CONV_H

#include "tensor/dtype.h"

typedef struct tp_conv {
    int64_t batch, groups, in_channels, out_channels;   /* channels of all groups together */
    int64_t in_size[3], out_size[3], kernel[3];
    int64_t stride[3], padding[3], dilation[3];
} tp_conv;

/* An image tensor [batch, channel, space…] or a weight [out, in / groups, taps…]. */
typedef struct tp_conv_view {
    void   *data;               /* borrowed */
    int64_t outer, channel, space[3];
} tp_conv_view;

TP_API TP_CHECK bool tp_conv_forward(tp_dtype d, const tp_conv *c, const tp_conv_view *x, const tp_conv_view *w,
                                     const void *bias /* contiguous, may be NULL */, const tp_conv_view *y);
TP_API TP_CHECK bool tp_conv_backward_input(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y,
                                            const tp_conv_view *w, const tp_conv_view *grad_x);
TP_API TP_CHECK bool tp_conv_backward_weight(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y,
                                             const tp_conv_view *x, const tp_conv_view *grad_w);
TP_API TP_CHECK bool tp_conv_backward_bias(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y, void *grad_bias);

/* The view of a tensor whose dims lie without gaps, channels first or last; and the first, missing dims of sizes. */
TP_API tp_conv_view tp_conv_view_of(void *data, int64_t channels, const int64_t space[3], bool channels_last);
TP_API void tp_conv_widen(tp_conv *c, int ndim);

#endif
