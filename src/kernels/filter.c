/* filter.c - compiled once for each instruction set.
 *
 * An element is written and the next one over it unless it counted. AVX-512 moves those that count to the front of a
 * register and stores all of it, while there is room for all of it; the general loop does the rest. */
#include "kernels/filter.h"

#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

/* Counts in lanes of one byte, as often as a byte can count. */
static int64_t count_true(int64_t n, const uint8_t *byte)
{
    enum { LANES = 64, MOST = 255 };
    int64_t total = 0;
    while (n >= LANES) {
        uint8_t lane[LANES] = { 0 };
        int64_t rows = n / LANES < MOST ? n / LANES : MOST;
        for (int64_t r = 0; r < rows; r++)
            for (int l = 0; l < LANES; l++)
                lane[l] = (uint8_t)(lane[l] + (byte[r * LANES + l] != 0));
        for (int l = 0; l < LANES; l++)
            total += lane[l];
        byte += rows * LANES;
        n -= rows * LANES;
    }
    for (int64_t i = 0; i < n; i++)
        total += byte[i] != 0;
    return total;
}

/* What vectors can do before the general loop: from element i on, `found` written so far. */
#if defined(__AVX512F__)
#define VECTORS(lanes, load, compressed)                                                                    \
    for (; i + 64 <= n && found + 64 <= count; i += 64) {                                                   \
        __m512i bytes = _mm512_loadu_si512(byte + i);                                                       \
        uint64_t chosen = _mm512_test_epi8_mask(bytes, bytes);                                              \
        for (int part = 0; part < 64; part += (lanes), chosen >>= (lanes)) {                                \
            uint64_t some = chosen & (((uint64_t)1 << (lanes)) - 1);                                        \
            _mm512_storeu_si512(at + found, compressed(some, load(part)));                                  \
            found += __builtin_popcountll(some);                                                            \
        }                                                                                                   \
    }
#define FROM_MEMORY(part) _mm512_loadu_si512(x + i + (part))
#define COMPRESSED_4(mask, v) _mm512_maskz_compress_epi32((__mmask16)(mask), v)
#define COMPRESSED_8(mask, v) _mm512_maskz_compress_epi64((__mmask8)(mask), v)
#define NUMBERS(part) _mm512_add_epi64(_mm512_set1_epi64(i + (part)), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0))
#define VECTORS_4 VECTORS(16, FROM_MEMORY, COMPRESSED_4)
#define VECTORS_8 VECTORS(8, FROM_MEMORY, COMPRESSED_8)
#define VECTORS_OF_NUMBERS VECTORS(8, NUMBERS, COMPRESSED_8)
#else
#define VECTORS_4
#define VECTORS_8
#define VECTORS_OF_NUMBERS
#endif

#define COMPRESS(bytes, T, vectors)                                                                         \
    static void compress_##bytes(int64_t n, const uint8_t *byte, int64_t count, const void *from, void *to) \
    {                                                                                                       \
        const T *x = from;                                                                                  \
        T *at = to;                                                                                         \
        int64_t i = 0, found = 0;                                                                           \
        vectors                                                                                             \
        for (; i < n && found < count; i++) {                                                               \
            at[found] = x[i];                                                                               \
            found += byte[i] != 0;                                                                          \
        }                                                                                                   \
    }
typedef struct pair { uint64_t half[2]; } pair;
COMPRESS(1, uint8_t, )
COMPRESS(2, uint16_t, )
COMPRESS(4, uint32_t, VECTORS_4)
COMPRESS(8, uint64_t, VECTORS_8)
COMPRESS(16, pair, )

static void positions(int64_t n, const uint8_t *byte, int64_t count, int64_t *at)
{
    int64_t i = 0, found = 0;
    VECTORS_OF_NUMBERS
    for (; i < n && found < count; i++) {
        at[found] = i;
        found += byte[i] != 0;
    }
}

static int64_t keys_f32(int64_t n, const float *restrict x, uint32_t flip, uint32_t bound, uint32_t *restrict key)
{
    uint32_t within = 0;
    for (int64_t i = 0; i < n; i++) {
        key[i] = tp_key_of_f32(x[i]) ^ flip;
        within += key[i] <= bound;
    }
    return within;
}

const tp_filter JOIN(tp_filter, TP_ISA_NAME) = {
    .count = count_true, .compress = { compress_1, compress_2, compress_4, compress_8, compress_16 },
    .positions = positions, .keys_f32 = keys_f32,
};
