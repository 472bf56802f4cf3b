/* element.h - single elements of any type: moved by size, combined by type.
 *
 * Indexing kernels move elements they know only by their size; those that combine (accumulate, scatter_reduce) look up a
 * function of the type once and call it for each element. Halves combine in f32 and round each time, as PyTorch does. */
#ifndef TP_KERNELS_ELEMENT_H
#define TP_KERNELS_ELEMENT_H

#include <string.h>

#include "tensor/tensor.h"

typedef enum tp_combine { TP_COMBINE_ADD, TP_COMBINE_MUL, TP_COMBINE_MAX, TP_COMBINE_MIN, TP_COMBINE_COUNT } tp_combine;

/* to[i] = to[i] (combined with) from[i], strides in bytes. */
typedef void tp_combine_fn(int64_t n, char *to, int64_t to_step, const char *from, int64_t from_step);
tp_combine_fn *tp_combine_of(tp_combine how, tp_dtype d);       /* NULL: the type has no such combination (complex max) */

/* to[i] = from[i] for n elements of `bytes` (1, 2, 4, 8, 16); steps in bytes. */
static inline void tp_move_elements(size_t bytes, int64_t n, char *to, int64_t to_step, const char *from, int64_t from_step)
{
    if (to_step == (int64_t)bytes && from_step == (int64_t)bytes) {
        memcpy(to, from, (size_t)n * bytes);
        return;
    }
#define MOVE(size)                                                          \
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step)       \
        memcpy(to, from, size);                                             \
    break
    switch (bytes) {
    case 1: MOVE(1);
    case 2: MOVE(2);
    case 4: MOVE(4);
    case 8: MOVE(8);
    default: MOVE(16);
    }
#undef MOVE
}

/* Reads an index of an i64, i32, u8 … tensor's element. */
static inline int64_t tp_read_index(const char *at, size_t bytes)
{
    if (bytes == 8) {
        int64_t i;
        memcpy(&i, at, 8);
        return i;
    }
    int32_t i;
    memcpy(&i, at, 4);
    return i;
}

/* Steps a counter over `ndim` dims, last dim fastest, moving up to three offsets by their strides. False: wrapped around. */
static inline bool tp_next(int ndim, const int64_t *size, int64_t *at, int64_t *const offset[3], const int64_t *const stride[3])
{
    for (int d = ndim - 1; d >= 0; d--) {
        bool more = ++at[d] < size[d];
        for (int k = 0; k < 3; k++)
            if (offset[k])
                *offset[k] += more ? stride[k][d] : stride[k][d] * (1 - size[d]);
        if (more)
            return true;
        at[d] = 0;
    }
    return false;
}

#endif
