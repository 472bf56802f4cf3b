/* crc.c - CRC-32 of RFC 1952, as fast as memory is read: a checkpoint's sums must not slow its loading down.
 *
 * Long blocks are folded by carry-less products where the processor has them: 64 bytes are a polynomial a of degree below 512, and
 * a x^512 + b leaves the same remainder as (a mod P') + b for a shorter stand-in of a x^512, which two products make per 16 bytes. What
 * remains of a block after folding are 16 bytes with the same remainder, which the tables finish. */
#include "format/zip.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SLICES = 16, WORTH_TABLES = 1 << 14 };

static uint32_t crc_nibbles(uint32_t crc, const uint8_t *p, size_t count)
{
    static const uint32_t table[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
    for (; count; count--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

/* Sixteen bytes a step. The tables are made on the stack: 4096 words, a few microseconds, and no state anywhere. */
static uint32_t crc_slices(uint32_t crc, const uint8_t *p, size_t count)
{
    uint32_t table[SLICES][256];
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        table[0][i] = crc_nibbles(0, &byte, 1);
    }
    for (int k = 1; k < SLICES; k++)
        for (unsigned i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
    for (; count >= SLICES; count -= SLICES, p += SLICES) {
        uint32_t next = 0;
        for (int k = 0; k < SLICES; k++)
            next ^= table[SLICES - 1 - k][p[k] ^ (k < 4 ? crc >> 8 * k & 255 : 0)];
        crc = next;
    }
    return crc_nibbles(crc, p, count);
}

#if defined(__x86_64__)

/* x^(d+32) and x^(d-32) modulo the polynomial, reflected, for distances d of 512 and 128 bits. */
static const uint64_t FOLD_512[2] = { 0x154442bd4, 0x1c6e41596 }, FOLD_128[2] = { 0x1751997d0, 0x0ccaa009e };
enum { LANES = 4, LANE = 16, WORTH_FOLDING = 2 * LANES * LANE };

__attribute__((target("pclmul,sse4.1"))) static __m128i fold(__m128i a, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(a, by, 0x00), high = _mm_clmulepi64_si128(a, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t crc_folds(uint32_t crc, const uint8_t *p, size_t count)
{
    const __m128i far = _mm_loadu_si128((const __m128i *)FOLD_512), near = _mm_loadu_si128((const __m128i *)FOLD_128);
    __m128i lane[LANES];
    uint8_t rest[LANE];
    for (int i = 0; i < LANES; i++)
        lane[i] = _mm_loadu_si128((const __m128i *)(p + i * LANE));
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)crc));
    p += LANES * LANE, count -= LANES * LANE;
    for (; count >= LANES * LANE; p += LANES * LANE, count -= LANES * LANE)
        for (int i = 0; i < LANES; i++)
            lane[i] = fold(lane[i], far, _mm_loadu_si128((const __m128i *)(p + i * LANE)));
    for (int i = 1; i < LANES; i++)
        lane[i] = fold(lane[i - 1], near, lane[i]);
    for (; count >= LANE; p += LANE, count -= LANE)
        lane[LANES - 1] = fold(lane[LANES - 1], near, _mm_loadu_si128((const __m128i *)p));
    _mm_storeu_si128((__m128i *)rest, lane[LANES - 1]);
    return crc_nibbles(crc_nibbles(0, rest, LANE), p, count);
}

static bool can_fold(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

#else
enum { WORTH_FOLDING = 0 };
static uint32_t crc_folds(uint32_t crc, const uint8_t *p, size_t count) { return crc_slices(crc, p, count); }
static bool can_fold(void) { return false; }
#endif

uint32_t tp_crc32(uint32_t crc, const void *bytes, size_t count)
{
    if (count >= WORTH_FOLDING && can_fold())
        return ~crc_folds(~crc, bytes, count);
    return ~(count < WORTH_TABLES ? crc_nibbles : crc_slices)(~crc, bytes, count);
}
