/* filter.h - loops that ask each element whether it counts: masks and the first look of topk.
 *
 * One tp_filter for each instruction set, from one text; all give the same results. Which elements count is anybody's
 * guess, so no loop branches on it. */
#ifndef TP_KERNELS_FILTER_H
#define TP_KERNELS_FILTER_H

#include "base/runtime.h"

typedef struct tp_filter {
    int64_t (*count)(int64_t n, const uint8_t *byte);       /* how many bytes are not 0 */
    /* The first `count` of n elements whose byte is not 0; by log2 of the element's bytes, 0 to 4. */
    void (*compress[5])(int64_t n, const uint8_t *byte, int64_t count, const void *from, void *to);
    /* The positions of the first `count` of n bytes that are not 0. */
    void (*positions)(int64_t n, const uint8_t *byte, int64_t count, int64_t *to);
    /* Keys in the order of floats, 0 and -0 the same, NaN last, each xor `flip`; how many are at most `bound`. */
    int64_t (*keys_f32)(int64_t n, const float *x, uint32_t flip, uint32_t bound, uint32_t *key);
} tp_filter;

extern const tp_filter tp_filter_plain, tp_filter_avx2, tp_filter_avx512;

static inline const tp_filter *tp_filter_chosen(void)
{
    static const tp_filter *const by_isa[] = { &tp_filter_plain, &tp_filter_avx2, &tp_filter_avx512 };
    return by_isa[tp_the_runtime.instruction_set];
}

static inline uint32_t tp_key_of_f32(float f)
{
    uint32_t u;
    __builtin_memcpy(&u, &f, 4);
    uint32_t folded = u ^ ((uint32_t)((int32_t)u >> 31) | 0x80000000u), some = f == 0 ? 0x80000000u : folded;
    return f != f ? UINT32_MAX : some;
}

static inline uint64_t tp_key_of_f64(double f)
{
    uint64_t u;
    f = f == 0 ? 0 : f;
    __builtin_memcpy(&u, &f, 8);
    return f != f ? UINT64_MAX : u >> 63 ? ~u : u | (uint64_t)1 << 63;
}

#endif
