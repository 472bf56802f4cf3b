/* conv_half.h - convolutions of f16 and bf16: widened to f32, computed there, rounded once. For conv.c.
 *
 * Copies have channels first and no gaps. Scratch can fail with TP_ERR_MEMORY. */
#ifndef TP_KERNELS_CONV_HALF_H
#define TP_KERNELS_CONV_HALF_H

#include "kernels/conv.h"

TP_CHECK bool tp_conv_half_forward(tp_dtype d, const tp_conv *c, const tp_conv_view *x, const tp_conv_view *w,
                                   const void *bias, const tp_conv_view *y);
TP_CHECK bool tp_conv_half_backward_input(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y,
                                          const tp_conv_view *w, const tp_conv_view *grad_x);
TP_CHECK bool tp_conv_half_backward_weight(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y,
                                           const tp_conv_view *x, const tp_conv_view *grad_w);

#endif
