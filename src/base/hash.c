/* hash.c - eight bytes at a time, each word folded in by a 64 x 64 -> 128 bit product. */
#include "base/hash.h"

#include <string.h>

static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

uint64_t tp_hash_bytes(const void *bytes, size_t count, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = seed ^ 0x9e3779b97f4a7c15u ^ count, word;
    for (; count >= 8; p += 8, count -= 8) {
        memcpy(&word, p, 8);
        h = fold(h ^ word, 0xa0761d6478bd642fu);
    }
    word = 0;
    if (count)
        memcpy(&word, p, count);
    return tp_hash_word(fold(h ^ word, 0xe7037ed1a0b428dbu));
}

uint64_t tp_hash_text(const char *text)
{
    return tp_hash_bytes(text, strlen(text), 0);
}
