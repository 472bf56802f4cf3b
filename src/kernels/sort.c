/* sort.c - sort and topk along a dim, stable, NaN last, over keys. */
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"
#include "kernels/keys.h"

enum { DIGITS = 256, FEW = 64 };

/* The few smallest keys, sorted, at the front: most elements only meet the comparison with the k-th best so far. */
static void keep_few(int64_t n, int64_t k, tp_key *e)
{
    tp_keys_sort_few(k, e);
    for (int64_t i = k; i < n; i++) {
        if (e[i].key >= e[k - 1].key)
            continue;
        tp_key moving = e[i];
        int64_t j = k - 1;
        for (; j > 0 && e[j - 1].key > moving.key; j--)
            e[j] = e[j - 1];
        e[j] = moving;
    }
}

/* Brings the k smallest keys to the front, in order of position: those below the k-th key, then as many equal to it as fit. */
static void keep_smallest(int64_t n, int64_t k, tp_key *e, tp_key *spare)
{
    uint64_t known = 0, mask = 0;
    int64_t wanted = k;                             /* rank of the k-th key among those that share the known digits */
    for (int shift = 56; shift >= 0; shift -= 8) {
        int64_t count[DIGITS] = { 0 };
        for (int64_t i = 0; i < n; i++)
            if ((e[i].key & mask) == known)
                count[e[i].key >> shift & 255]++;
        int digit = 0;
        while (wanted > count[digit])
            wanted -= count[digit++];
        known |= (uint64_t)digit << shift;
        mask |= (uint64_t)255 << shift;
    }
    int64_t below = 0, equal = 0;
    for (int64_t i = 0; i < n; i++)
        if (e[i].key < known)
            e[below++] = e[i];
        else if (e[i].key == known && equal < wanted)
            spare[equal++] = e[i];
    memcpy(e + below, spare, (size_t)equal * sizeof *e);
}

/* ---- rows ---- */
typedef struct work {
    const tp_tensor *from;
    tp_tensor *values, *indices;    /* either may be NULL */
    tp_key     *scratch;             /* owned: two rows for each chunk */
    int64_t    n, keep, rows;       /* elements a row, how many are kept, rows */
    int        dim;
    bool       descending, sorted;
} work;

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

static void write_row(const work *w, int64_t row, const tp_key *e, const char *from, int64_t from_step)
{
    size_t bytes = tp_dtype_bytes((tp_dtype)w->from->dtype);
    if (w->values) {
        int64_t step = w->values->ndim ? w->values->stride[w->dim] * (int64_t)bytes : 0;
        char *to = (char *)tp_tensor_data(w->values) + row_offset(w->values, w->dim, row) * (int64_t)bytes;
        for (int64_t i = 0; i < w->keep; i++)
            memcpy(to + i * step, from + e[i].at * from_step, bytes);
    }
    if (w->indices) {
        int64_t step = w->indices->ndim ? w->indices->stride[w->dim] : 0;
        int64_t *to = (int64_t *)tp_tensor_data(w->indices) + row_offset(w->indices, w->dim, row);
        for (int64_t i = 0; i < w->keep; i++)
            to[i * step] = e[i].at;
    }
}

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    tp_dtype d = (tp_dtype)w->from->dtype;
    int64_t bytes = (int64_t)tp_dtype_bytes(d), step = w->from->ndim ? w->from->stride[w->dim] * bytes : 0;
    tp_key *e = w->scratch + index * 2 * w->n, *spare = e + w->n;
    int64_t end = tp_chunk_at(w->rows, index + 1, count);
    for (int64_t row = tp_chunk_at(w->rows, index, count); row < end; row++) {
        const char *from = (const char *)tp_tensor_data(w->from) + row_offset(w->from, w->dim, row) * bytes;
        tp_keys_read(d, w->n, from, step, w->descending, e);
        if (w->keep < w->n && w->keep <= FEW) {
            keep_few(w->n, w->keep, e);
            write_row(w, row, e, from, step);
            continue;
        }
        if (w->keep < w->n)
            keep_smallest(w->n, w->keep, e, spare);
        write_row(w, row, w->sorted ? tp_keys_sort(w->keep, e, spare) : e, from, step);
    }
}

static bool run(work *w)
{
    int64_t numel = w->from->numel;
    w->n = w->from->ndim ? w->from->size[w->dim] : 1;
    w->rows = w->n ? numel / w->n : 0;
    if (!w->rows || !w->keep)
        return true;
    int64_t chunks = tp_chunks_of(w->rows, w->n);
    chunks = chunks < 64 ? chunks : 64;
    w->scratch = tp_alloc_array((size_t)(chunks * 2 * w->n), sizeof *w->scratch);
    if (!w->scratch)
        return false;
    tp_pool_run(chunks, chunk, w);
    tp_free(w->scratch);
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
               .descending = tp_as_bool(arg[2]), .sorted = true };
    w.keep = self->ndim ? self->size[w.dim] : 1;
    return check_real("Sort", self) && run(&w);
}

/* sort.stable(self, *, stable, dim, descending) */
TP_HOOK_K(tp_k_sort_stable)
{
    tp_value plain[3] = { arg[0], arg[2], arg[3] };
    return tp_k_sort(plain, out);
}

/* topk(self, k, dim, largest, sorted) */
TP_HOOK_K(tp_k_topk)
{
    const tp_tensor *self = arg[0].tensor;
    work w = { .from = self, .values = out[0], .indices = out[1], .keep = tp_as_int(arg[1]),
               .dim = tp_wrap_dim(tp_as_int(arg[2]), self->ndim), .descending = tp_as_bool(arg[3]), .sorted = tp_as_bool(arg[4]) };
    if (self->dtype == TP_b8)
        return tp_fail(TP_ERR_RUNTIME, "topk does not support bool dtypes on CPU");
    return check_real("topk", self) && run(&w);
}
