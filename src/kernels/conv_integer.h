/* conv_integer.h - convolutions of integers: plain sums in i64, which wrap. For convolution.c.
 *
 * Arrays are row-major, channels first; `image` is the side a plain convolution reads, `feature` the one it writes. Sums go
 * from `image` to `feature`, or back for a transposed convolution. Nothing is allocated, nothing fails. */
#ifndef TP_KERNELS_CONV_INTEGER_H
#define TP_KERNELS_CONV_INTEGER_H

#include "kernels/conv.h"

void tp_conv_integer_forward(const tp_conv *c, const int64_t *image, const int64_t *weight, int64_t *feature);
void tp_conv_integer_backward_input(const tp_conv *c, const int64_t *feature, const int64_t *weight, int64_t *image);

#endif
