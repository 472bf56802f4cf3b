/* sort.c - sort and topk along a dim, stable, NaN last.
 *
 * Every element becomes an unsigned key with the same order (floats by their bits, sign folded, -0 equal to 0, NaN above all;
 * descending flips the key): 32 bits for types of up to four bytes, 64 for the others. An entry is a key with its position
 * below it, one unsigned integer of twice the bits, so entries are never equal and their order is the stable one.
 *
 *     sort    radix sort over the digits in which the keys of a row differ, least significant first
 *     topk    entries that beat the k-th best so far are gathered; when there are as many again, the best k stay */
#include <string.h>

#include "base/block.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/filter.h"

enum { SHORT = 32, BLOCK = 256, SMALL_DIGIT = 8, LARGE_DIGIT = 11, LARGE_FROM = 16384 };

typedef struct work {
    const tp_tensor *from;
    tp_tensor *values, *indices;    /* either may be NULL */
    char      *scratch;             /* owned: room for two rows of entries for each chunk */
    int64_t    n, keep, rows;       /* elements a row, how many are kept, rows */
    int64_t    room;                /* entries held at a time: all of a row, or what topk gathers */
    int        dim;
    bool       descending;
} work;

/* ---- keys ---- */
/* The keys of n elements, and how many of them are at most `bound`. */
#define KEYS(T, expression)                                             \
    for (int64_t i = 0; i < n; i++, from += step) {                     \
        T v = *(const T *)from;                                         \
        key[i] = (expression) ^ flip;                                   \
        within += key[i] <= bound;                                      \
    }                                                                   \
    break

static int64_t read_keys_32(tp_dtype d, int64_t n, const char *from, int64_t step, bool descending, uint32_t bound, uint32_t *key)
{
    int64_t within = 0;
    uint32_t flip = descending ? UINT32_MAX : 0, high = 1u << 31;
    switch (d) {
    case TP_u8: case TP_b8: KEYS(uint8_t, v);
    case TP_i8:   KEYS(int8_t, (uint32_t)v ^ high);
    case TP_i16:  KEYS(int16_t, (uint32_t)v ^ high);
    case TP_i32:  KEYS(int32_t, (uint32_t)v ^ high);
    case TP_f16:  KEYS(uint16_t, tp_key_of_f32(tp_half_to_float(v)));
    case TP_bf16: KEYS(uint16_t, tp_key_of_f32(tp_bfloat_to_float(v)));
    default:
        if (step == sizeof(float))
            return tp_filter_chosen()->keys_f32(n, (const float *)from, flip, bound, key);
        KEYS(float, tp_key_of_f32(v));
    }
    return within;
}

static int64_t read_keys_64(tp_dtype d, int64_t n, const char *from, int64_t step, bool descending, uint64_t bound, uint64_t *key)
{
    int64_t within = 0;
    uint64_t flip = descending ? UINT64_MAX : 0, high = (uint64_t)1 << 63;
    switch (d) {
    case TP_i64:  KEYS(int64_t, (uint64_t)v ^ high);
    default:      KEYS(double, tp_key_of_f64(v));
    }
    return within;
}
#undef KEYS

/* ---- rows ---- */

/* Where row number `row` begins in a tensor: all coordinates but the dim's. */
static int64_t row_offset(const tp_tensor *t, int dim, int64_t row)
{
    int64_t offset = 0;
    for (int d = t->ndim - 1; d >= 0; d--)
        if (d != dim) {
            offset += row % t->size[d] * t->stride[d];
            row /= t->size[d];
        }
    return offset;
}

#define KEY uint32_t
#define ENTRY uint64_t
#define KEY_BITS 32
#define NAME(x) x##_32
#include "kernels/sort_rows.inc"

__extension__ typedef unsigned __int128 wide_entry;
#define KEY uint64_t
#define ENTRY wide_entry
#define KEY_BITS 64
#define NAME(x) x##_64
#include "kernels/sort_rows.inc"

static bool run(work *w)
{
    w->n = w->from->ndim ? w->from->size[w->dim] : 1;
    w->rows = w->n ? w->from->numel / w->n : 0;
    if (!w->rows || !w->keep)
        return true;
    bool wide = tp_dtype_bytes((tp_dtype)w->from->dtype) == 8 || w->n > UINT32_MAX;
    if (wide && tp_dtype_bytes((tp_dtype)w->from->dtype) < 8)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "sort: a row of more than 2^32 elements of four bytes or fewer");
    w->room = w->keep < (w->n - BLOCK) / 2 ? 2 * w->keep + BLOCK : w->n;
    int64_t chunks = tp_chunks_of(w->rows, w->n);
    chunks = chunks < 64 ? chunks : 64;
    size_t bytes = (size_t)(chunks * 2 * w->room) * (wide ? sizeof(wide_entry) : sizeof(uint64_t));
    if (!(w->scratch = tp_block_new(bytes)))
        return false;
    tp_pool_run(chunks, wide ? chunk_64 : chunk_32, w);
    tp_block_free(w->scratch, bytes);
    return true;
}

/* The messages begin with a space, as PyTorch's do. */
static bool check_real(const char *name, const tp_tensor *t)
{
    return !tp_dtype_is_complex((tp_dtype)t->dtype) || tp_fail(TP_ERR_RUNTIME, " %s does not support complex dtypes on CPU", name);
}

/* sort(self, dim, descending) */
TP_HOOK_K(tp_k_sort)
{
    const tp_tensor *self = arg[0].tensor;
    work w = { .from = self, .values = out[0], .indices = out[1], .dim = tp_wrap_dim(tp_as_int(arg[1]), self->ndim),
               .descending = tp_as_bool(arg[2]) };
    w.keep = self->ndim ? self->size[w.dim] : 1;
    return check_real("Sort", self) && run(&w);
}

/* sort.stable(self, *, stable, dim, descending) */
TP_HOOK_K(tp_k_sort_stable)
{
    tp_value plain[3] = { arg[0], arg[2], arg[3] };
    return tp_k_sort(plain, out);
}

/* topk(self, k, dim, largest, sorted): sorted, asked or not */
TP_HOOK_K(tp_k_topk)
{
    const tp_tensor *self = arg[0].tensor;
    work w = { .from = self, .values = out[0], .indices = out[1], .keep = tp_as_int(arg[1]),
               .dim = tp_wrap_dim(tp_as_int(arg[2]), self->ndim), .descending = tp_as_bool(arg[3]) };
    if (self->dtype == TP_b8)
        return tp_fail(TP_ERR_RUNTIME, "topk does not support bool dtypes on CPU");
    return check_real("topk", self) && run(&w);
}
