/* normal16.h - normal numbers by sixteens from uniform ones, in place, with the bits of PyTorch's f32 stream.
 *
 * A block of 16 uniforms u gives 16 normals: for j < 8, radius sqrt(-2 log(1 - u[j])) and angle 2 pi u[j+8] give
 * fma(radius cos, deviation, mean) at j and fma(radius sin, deviation, mean) at j + 8. log, sin and cos are the single
 * precision polynomials of the Cephes library, every multiply-add fused: what the stream was defined with. One function
 * for each instruction set, all with the same bits. */
#ifndef TP_KERNELS_NORMAL16_H
#define TP_KERNELS_NORMAL16_H

#include "base/api.h"

void tp_normal16_plain(int64_t blocks, float *data, float mean, float deviation);
void tp_normal16_avx2(int64_t blocks, float *data, float mean, float deviation);
void tp_normal16_avx512(int64_t blocks, float *data, float mean, float deviation);

#endif
