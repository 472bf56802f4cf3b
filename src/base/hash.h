/* hash.h - one 64-bit hash for maps, interning and cache keys. Same bytes, same hash, on every machine. */
#ifndef TP_BASE_HASH_H
#define TP_BASE_HASH_H

#include "base/api.h"

TP_API uint64_t tp_hash_bytes(const void *bytes, size_t count, uint64_t seed);
TP_API uint64_t tp_hash_text(const char *text);

/* Scrambles one word; also joins two: tp_hash_word(a ^ tp_hash_word(b)). */
static inline uint64_t tp_hash_word(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

#endif
