/* gemm_kernels.c - the micro-kernels, compiled once for each instruction set.
 *
 * Vectors are gcc's, TP_VECTOR bytes wide. A fused multiply-add is spelled out, for -ffp-contract=off holds everywhere:
 * the hardware's where there is one, fma() lane by lane in the plain set, which is slow but rounds the same. */
#include <string.h>

#include "kernels/gemm_set.h"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#ifdef TP_SMALL                 /* the plain set of a processor that has others: its text is not repeated for each shape */
#define INLINE static
#else
#define INLINE static inline __attribute__((always_inline))
#endif
enum { SQUARE_ROWS = TP_SQUARE_ROWS };

#if TP_VECTOR == 64
#define FMA_f32(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4)
#define FMA_f64(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4)
#define MICRO_ROWS 14
#elif TP_VECTOR == 32
#define FMA_f32(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#define FMA_f64(a, b, c) __builtin_ia32_vfmaddpd256(a, b, c)
#define MICRO_ROWS 6
#else
#define FMA_f32(a, b, c) fma_lanes_f32(a, b, c)
#define FMA_f64(a, b, c) fma_lanes_f64(a, b, c)
#define MICRO_ROWS 4
#endif

#define T float
#define NAME(x) CAT(x, _f32)
#define FMA_VECTOR FMA_f32
#define FMA_NARROW __builtin_ia32_vfmaddps256
#define FMA_SCALAR __builtin_fmaf
#define ELEMENT_BYTES 4
#include "kernels/gemm_kernels.inc"

#define T double
#define NAME(x) CAT(x, _f64)
#define FMA_VECTOR FMA_f64
#define FMA_NARROW __builtin_ia32_vfmaddpd256
#define FMA_SCALAR __builtin_fma
#define ELEMENT_BYTES 8
#include "kernels/gemm_kernels.inc"

#define KERNELS(type, bytes)                                                                                        \
    { .rows = MICRO_ROWS, .columns = 2 * TP_VECTOR / bytes, .tile = tile_##type, .pack_a = pack_a_##type,           \
      .pack_b = pack_b_##type, .dot = dot_##type, .sweep = sweep_##type, .tiny = tiny_##type,           \
      .taps = taps_##type, .square = square_##type, .cut = cut_##type, .correlate = correlate_##type, .sum_lanes = sum_lanes_##type }
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const tp_gemm_set CAT(tp_gemm_set_, TP_ISA_NAME) = {
    .name = TEXT(TP_ISA_NAME), .f32 = KERNELS(f32, 4), .f64 = KERNELS(f64, 8)
};
