/* keys.h - elements as unsigned 64-bit keys with the same order.
 *
 * Floats go by their bits, sign folded, -0 equal to 0, NaN above all (all NaNs have one key); descending flips the key. So one radix
 * sort serves all types: it goes over the bytes in which keys differ, least significant first, and carries positions along. It
 * is stable. Complex types have no order and no keys. */
#ifndef TP_KERNELS_KEYS_H
#define TP_KERNELS_KEYS_H

#include "tensor/tensor.h"

typedef struct tp_key {
    uint64_t key;
    int64_t  at;                /* where the element stood */
} tp_key;

/* n elements, `step` bytes apart; at = 0 … n - 1. */
void tp_keys_read(tp_dtype d, int64_t n, const char *from, int64_t step, bool descending, tp_key *out);
/* Sorts e by key; `spare` has the same room. Gives which of the two holds the result. */
tp_key *tp_keys_sort(int64_t n, tp_key *e, tp_key *spare);
/* In place, for a few. */
void tp_keys_sort_few(int64_t n, tp_key *e);

static inline bool tp_key_is_nan(tp_dtype d, uint64_t key)
{
    return tp_dtype_is_float(d) && key == (d == TP_f64 ? UINT64_MAX : UINT32_MAX);
}

#endif
