/* order.c - one element of each row by its rank: median, nanmedian, kthvalue, mode.
 *
 * A row becomes keys (kernels/keys.h). The element of a given rank is found digit by digit, the highest first: in each round
 * the keys that share the known digits are counted by their next one. Among equal elements the rank goes by position. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/keys.h"

typedef struct work work;
/* The position in the row of the element that is wanted; `spare` has room for a row. */
typedef int64_t choose_fn(const work *w, tp_key *row, tp_key *spare);

struct work {
    choose_fn  *choose;
    tp_along    along;
    tp_dtype    dtype;
    size_t      bytes;
    int64_t     rank;               /* kthvalue */
    bool        skip_nan;           /* nanmedian */
    const char *from;
    char       *values;
    int64_t    *indices;            /* may be NULL */
    tp_key     *scratch;            /* owned: two rows a chunk */
};

/* ---- choices ---- */
static int64_t place_of_rank(int64_t n, int64_t rank, const tp_key *e)
{
    uint64_t known = 0, mask = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        int64_t count[256] = { 0 };
        int digit = 0;
        for (int64_t i = 0; i < n; i++)
            if ((e[i].key & mask) == known)
                count[e[i].key >> shift & 255]++;
        while (rank >= count[digit])
            rank -= count[digit++];
        known |= (uint64_t)digit << shift;
        mask |= (uint64_t)255 << shift;
    }
    for (int64_t i = 0;; i++)
        if (e[i].key == known && rank-- == 0)
            return i;
}

static int64_t choose_rank(const work *w, tp_key *row, tp_key *spare)
{
    (void)spare;
    return place_of_rank(w->along.size, w->rank, row);
}

/* The lower of two middle elements. A NaN is the median of its row, unless they are skipped and something else is there. */
static int64_t choose_median(const work *w, tp_key *row, tp_key *spare)
{
    int64_t n = w->along.size, nans = 0, first = 0;
    (void)spare;
    for (int64_t i = n - 1; i >= 0; i--)
        if (tp_key_is_nan(w->dtype, row[i].key)) {
            nans++;
            first = i;
        }
    if (nans && (!w->skip_nan || nans == n))
        return first;
    return place_of_rank(n, (n - nans - 1) / 2, row);
}

/* The smallest of the most frequent values, where it stands last. NaNs are unlike each other. */
static int64_t choose_mode(const work *w, tp_key *row, tp_key *spare)
{
    int64_t best = 0, most = 0, n = w->along.size;
    const tp_key *e = tp_keys_sort(n, row, spare);
    for (int64_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && e[i + run].key == e[i].key && !tp_key_is_nan(w->dtype, e[i].key);)
            run++;
        if (run > most) {
            most = run;
            best = e[i + run - 1].at;
        }
    }
    return best;
}

/* ---- rows ---- */
static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t rows = w->along.outer * w->along.inner, end = tp_chunk_at(rows, index + 1, count), step = w->along.inner * (int64_t)w->bytes;
    tp_key *keys = w->scratch + index * 2 * w->along.size;
    for (int64_t row = tp_chunk_at(rows, index, count); row < end; row++) {
        int64_t first = row / w->along.inner * w->along.size * w->along.inner + row % w->along.inner;
        const char *from = w->from + first * (int64_t)w->bytes;
        tp_keys_read(w->dtype, w->along.size, from, step, false, keys);
        int64_t at = w->choose(w, keys, keys + w->along.size);
        memcpy(w->values + row * (int64_t)w->bytes, from + at * step, w->bytes);
        if (w->indices)
            w->indices[row] = at;
    }
}

static bool run(const tp_tensor *self, work w, tp_tensor **out, bool indices)
{
    w.dtype = (tp_dtype)self->dtype;
    w.bytes = tp_dtype_bytes(w.dtype);
    int64_t rows = w.along.outer * w.along.inner, chunks = tp_chunks_of(rows, w.along.size);
    chunks = chunks < 64 ? chunks : 64;
    tp_tensor *from = tp_dense(self, w.dtype), *values = from ? tp_dense_out(out[0], w.dtype) : NULL;
    tp_tensor *places = values && indices ? tp_dense_out(out[1], TP_i64) : NULL;
    w.scratch = values ? tp_alloc_array((size_t)(chunks * 2 * w.along.size) + 1, sizeof *w.scratch) : NULL;
    bool ok = w.scratch && (places || !indices);
    if (ok && rows) {
        w.from = tp_tensor_data(from);
        w.values = tp_tensor_data(values);
        w.indices = indices ? tp_tensor_data(places) : NULL;
        tp_pool_run(chunks, chunk, &w);
    }
    tp_free(w.scratch);
    tp_tensor_unref(from);
    if (indices)
        ok = tp_dense_done(places, out[1], ok);
    return tp_dense_done(values, out[0], ok);
}

/* ---- median(self), nanmedian(self) ---- */
static bool median_of_all(const tp_tensor *self, tp_tensor **out, bool skip_nan)
{
    if (!self->numel) {
        tp_fill(out[0], tp_dtype_is_float((tp_dtype)self->dtype) ? tp_scalar_float(NAN) : tp_scalar_int(INT64_MIN));
        return true;
    }
    return run(self, (work){ .choose = choose_median, .along = { 1, self->numel, 1 }, .skip_nan = skip_nan }, out, false);
}

TP_HOOK_K(tp_k_median)
{
    return median_of_all(arg[0].tensor, out, false);
}

TP_HOOK_K(tp_k_nanmedian)
{
    return median_of_all(arg[0].tensor, out, true);
}

/* ---- median.dim(self, dim, keepdim), nanmedian.dim ---- */
TP_HOOK_K(tp_k_median_dim)
{
    work w = { .choose = choose_median, .along = tp_along_dim(arg[0].tensor, tp_as_int(arg[1])) };
    return run(arg[0].tensor, w, out, true);
}

TP_HOOK_K(tp_k_nanmedian_dim)
{
    work w = { .choose = choose_median, .along = tp_along_dim(arg[0].tensor, tp_as_int(arg[1])), .skip_nan = true };
    return run(arg[0].tensor, w, out, true);
}

/* kthvalue(self, k, dim, keepdim) */
TP_HOOK_K(tp_k_kthvalue)
{
    work w = { .choose = choose_rank, .along = tp_along_dim(arg[0].tensor, tp_as_int(arg[2])), .rank = tp_as_int(arg[1]) - 1 };
    return run(arg[0].tensor, w, out, true);
}

/* mode(self, dim, keepdim) */
TP_HOOK_K(tp_k_mode)
{
    return run(arg[0].tensor, (work){ .choose = choose_mode, .along = tp_along_dim(arg[0].tensor, tp_as_int(arg[1])) }, out, true);
}
