/* fft_kernels.c - the loops of Fourier transforms, compiled once for each instruction set. */
#include "kernels/fft_set.h"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#ifdef TP_SMALL
#define INLINE static void
#else
#define INLINE static inline __attribute__((always_inline)) void
#endif

#define T float
#define PLACE int32_t
#define SQUARE_LANES 8
#define LIST_LANES(f, d) f(0, d), f(1, d), f(2, d), f(3, d), f(4, d), f(5, d), f(6, d), f(7, d)
#define NAME(x) CAT(x, _f32)
#include "kernels/fft_kernels.inc"

#define T double
#define PLACE int64_t
#define SQUARE_LANES 4
#define LIST_LANES(f, d) f(0, d), f(1, d), f(2, d), f(3, d)
#define NAME(x) CAT(x, _f64)
#include "kernels/fft_kernels.inc"

#define KERNELS(type)                                                                                                           \
    { .pass = pass_##type, .turn = turn_##type, .split = split_##type, .join = join_##type, .multiply = multiply_##type,        \
      .unpack = unpack_##type, .pack = pack_##type }

const tp_fft_set CAT(tp_fft_set_, TP_ISA_NAME) = { .f32 = KERNELS(f32), .f64 = KERNELS(f64) };
