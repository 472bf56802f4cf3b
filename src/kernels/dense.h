/* dense.h - what most kernels begin and end with: row-major operands of the type they compute in.
 *
 * A kernel whose work is along rows is written for row-major data of f32 or f64 alone: tp_dense makes it so (or lends the
 * tensor itself), tp_dense_out gives a place for results, tp_dense_done moves them where they belong. Copies and casts are
 * tile programs (ops/copy.h). Anything that allocates can fail. */
#ifndef TP_KERNELS_DENSE_H
#define TP_KERNELS_DENSE_H

#include "ops/copy.h"
#include "ops/hooks.h"

/* Row-major elements of type d, counted for the caller: the tensor itself when it is so already. */
TP_CHECK tp_tensor *tp_dense(const tp_tensor *t, tp_dtype d);
/* Where to write results that shall end in `out`: itself, or a fresh row-major tensor of type d. */
TP_CHECK tp_tensor *tp_dense_out(tp_tensor *out, tp_dtype d);
/* Takes `dense` and copies it into `out` unless it is `out`. `ok`: was it computed? Gives whether all went well. */
TP_CHECK bool tp_dense_done(tp_tensor *take, tp_tensor *out, bool ok);

/* The type a kernel along rows computes in: f64, else f32 for every other real type. */
static inline tp_dtype tp_row_dtype(tp_dtype d) { return d == TP_f64 ? TP_f64 : TP_f32; }

static inline int tp_wrap_dim(int64_t dim, int ndim)
{
    return (int)(dim < 0 ? dim + (ndim ? ndim : 1) : dim);
}

/* A row-major tensor seen along one dim: outer x size x inner. A 0-d tensor is one row of one element. */
typedef struct tp_along {
    int64_t outer, size, inner;
} tp_along;

static inline tp_along tp_along_dim(const tp_tensor *t, int64_t dim)
{
    tp_along a = { 1, 1, 1 };
    int at = tp_wrap_dim(dim, t->ndim);
    for (int i = 0; i < t->ndim; i++)
        *(i < at ? &a.outer : i == at ? &a.size : &a.inner) *= t->size[i];
    return a;
}

/* How many chunks for `items` of `each` elements: about 16k elements a chunk, from 32k elements on. Never depends on the
 * number of threads. */
static inline int64_t tp_chunks_of(int64_t items, int64_t each)
{
    int64_t chunks = items > 0 && each > 0 ? items * each / 16384 : 1;
    return chunks < 2 ? 1 : chunks < items ? chunks : items;
}

/* The first item of a chunk; that of chunk + 1 is where it ends. */
static inline int64_t tp_chunk_at(int64_t items, int64_t index, int64_t count)
{
    return items / count * index + items % count * index / count;
}

#endif
