/* keys.c - keys of all real types, and the radix sort over them. */
#include "kernels/keys.h"

#include <string.h>

#include "kernels/filter.h"

enum { SHORT = 32, DIGITS = 256 };

/* ---- keys ---- */
static uint64_t key_of_signed(int64_t v) { return (uint64_t)v ^ (uint64_t)1 << 63; }

void tp_keys_read(tp_dtype d, int64_t n, const char *from, int64_t step, bool descending, tp_key *out)
{
    uint64_t flip = descending ? UINT64_MAX : 0;
#define KEYS(T, expression)                                             \
    for (int64_t i = 0; i < n; i++, from += step) {                     \
        T v;                                                            \
        memcpy(&v, from, sizeof v);                                     \
        out[i] = (tp_key){ (expression) ^ flip, i };                     \
    }                                                                   \
    break
    switch (d) {
    case TP_u8: case TP_b8: KEYS(uint8_t, v);
    case TP_i8:   KEYS(int8_t, key_of_signed(v));
    case TP_i16:  KEYS(int16_t, key_of_signed(v));
    case TP_i32:  KEYS(int32_t, key_of_signed(v));
    case TP_i64:  KEYS(int64_t, key_of_signed(v));
    case TP_f16:  KEYS(uint16_t, tp_key_of_f32(tp_half_to_float(v)));
    case TP_bf16: KEYS(uint16_t, tp_key_of_f32(tp_bfloat_to_float(v)));
    case TP_f32:  KEYS(float, tp_key_of_f32(v));
    default:      KEYS(double, tp_key_of_f64(v));
    }
#undef KEYS
}

/* ---- sorting ---- */
void tp_keys_sort_few(int64_t n, tp_key *e)
{
    for (int64_t i = 1; i < n; i++) {
        tp_key moving = e[i];
        int64_t j = i;
        for (; j > 0 && e[j - 1].key > moving.key; j--)
            e[j] = e[j - 1];
        e[j] = moving;
    }
}

tp_key *tp_keys_sort(int64_t n, tp_key *e, tp_key *spare)
{
    uint64_t all_or = 0, all_and = UINT64_MAX;
    if (n <= SHORT) {
        tp_keys_sort_few(n, e);
        return e;
    }
    for (int64_t i = 0; i < n; i++) {
        all_or |= e[i].key;
        all_and &= e[i].key;
    }
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t start[DIGITS] = { 0 }, total = 0;
        if (!((all_or ^ all_and) >> shift & 255))
            continue;
        for (int64_t i = 0; i < n; i++)
            start[e[i].key >> shift & 255]++;
        for (int i = 0; i < DIGITS; i++) {
            int64_t count = start[i];
            start[i] = total;
            total += count;
        }
        for (int64_t i = 0; i < n; i++)
            spare[start[e[i].key >> shift & 255]++] = e[i];
        tp_key *swap = e;
        e = spare;
        spare = swap;
    }
    return e;
}
