/* pool2d.h - max pooling in one to three dims on raw memory, with the places of the maxima, and its gradient.
 *
 * Tensors are views of conv.h: [batch, channel, space…] with strides in elements; missing dims come first with size,
 * kernel, stride and dilation 1 and padding 0. An index is the place in its channel's plane, counted in row-major order
 * of the input's sizes whatever its strides.
 * Always: the first of equal maxima is taken; NaN counts as larger than anything, and of several the last is taken; a
 * window of nothing but the lowest value gives its first place. Windows may hang over the input (ceil_mode), but each
 * must touch it: out_size is the caller's to check.
 * Nothing is owned or allocated. Fails with TP_ERR_UNIMPLEMENTED for b8 and complex types; the gradient fails with
 * TP_ERR_RUNTIME when an index lies outside the plane, and what it has written is then undefined. */
#ifndef TP_KERNELS_POOL2D_H
#define TP_KERNELS_POOL2D_H

#include "kernels/conv.h"

typedef struct tp_maxpool {
    int64_t batch, channels;
    int64_t in_size[3], out_size[3], kernel[3];
    int64_t stride[3], padding[3], dilation[3];
} tp_maxpool;

TP_API TP_CHECK bool tp_maxpool_forward(tp_dtype d, const tp_maxpool *p, const tp_conv_view *x, const tp_conv_view *y,
                                        const tp_conv_view *index /* i64, may be NULL */);
TP_API TP_CHECK bool tp_maxpool_backward(tp_dtype d, const tp_maxpool *p, const tp_conv_view *grad_y,
                                         const tp_conv_view *index, const tp_conv_view *grad_x);

#endif
