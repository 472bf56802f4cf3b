/* remap.c - copies and sums through one table of places per dim. */
#include "kernels/remap.h"

#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/element.h"

bool tp_remap_init(tp_remap *m, int dims, const tp_tensor *narrow, const tp_tensor *wide)
{
    *m = (tp_remap){ .planes = 1 };
    for (int i = 0; i < wide->ndim - dims; i++)
        m->planes *= wide->size[i];
    int64_t total = 0;
    for (int d = 0; d < 3; d++) {
        bool there = d >= 3 - dims;
        m->from[d] = there ? narrow->size[narrow->ndim - 3 + d] : 1;
        m->to[d] = there ? wide->size[wide->ndim - 3 + d] : 1;
        total += m->to[d];
    }
    m->at[0] = tp_alloc_zero((size_t)total * sizeof(int64_t));
    m->at[1] = m->at[0] ? m->at[0] + m->to[0] : NULL;
    m->at[2] = m->at[0] ? m->at[1] + m->to[1] : NULL;
    return m->at[0] != NULL;
}

void tp_remap_fini(tp_remap *m)
{
    tp_free(m->at[0]);
}

typedef struct work {
    const tp_remap *m;
    const char    *from;
    char          *to;
    size_t         bytes;
    tp_combine_fn *add;         /* NULL: copy */
} work;

#define COPY_ROW(type)                              \
    for (int64_t k = 0; k < n; k++)                 \
        ((type *)to)[k] = ((const type *)from)[at[k]]
static void copy_row(size_t bytes, int64_t n, const int64_t *at, const char *from, char *to)
{
    switch (bytes) {
    case 1: COPY_ROW(uint8_t); break;
    case 2: COPY_ROW(uint16_t); break;
    case 4: COPY_ROW(uint32_t); break;
    case 8: COPY_ROW(uint64_t); break;
    default:
        for (int64_t k = 0; k < n; k++)
            memcpy(to + k * 16, from + at[k] * 16, 16);
    }
}
#undef COPY_ROW

/* Entries that step evenly are added by one call: the middle of a padding, the repeats of a neighbour. */
static void spread_row(const work *w, int64_t n, const int64_t *at, const char *from, char *to)
{
    int64_t bytes = (int64_t)w->bytes;
    for (int64_t k = 0, end; k < n; k = end) {
        int64_t step = k + 1 < n ? at[k + 1] - at[k] : 0;
        for (end = k + 1; end < n && at[end] - at[end - 1] == step; end++)
            ;
        w->add(end - k, to + at[k] * bytes, step * bytes, from + k * bytes, bytes);
    }
}

static void plane(const work *w, int64_t p)
{
    const tp_remap *m = w->m;
    int64_t small = m->from[0] * m->from[1] * m->from[2], large = m->to[0] * m->to[1] * m->to[2], bytes = (int64_t)w->bytes;
    const char *from = w->from + p * (w->add ? large : small) * bytes;
    char *to = w->to + p * (w->add ? small : large) * bytes;
    if (w->add)
        memset(to, 0, (size_t)(small * bytes));
    for (int64_t i = 0; i < m->to[0]; i++)
        for (int64_t j = 0; j < m->to[1]; j++) {
            int64_t mapped = (m->at[0][i] * m->from[1] + m->at[1][j]) * m->from[2] * bytes, plain = (i * m->to[1] + j) * m->to[2] * bytes;
            if (w->add)
                spread_row(w, m->to[2], m->at[2], from + plain, to + mapped);
            else
                copy_row(w->bytes, m->to[2], m->at[2], from + mapped, to + plain);
        }
}

static void chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    for (int64_t p = tp_chunk_at(w->m->planes, index, count); p < tp_chunk_at(w->m->planes, index + 1, count); p++)
        plane(w, p);
}

static bool run(const tp_remap *m, const tp_tensor *from, tp_tensor *to, tp_dtype d, tp_combine_fn *add)
{
    tp_tensor *source = tp_dense(from, d), *target = source ? tp_dense_out(to, d) : NULL;
    bool ok = target != NULL;
    if (ok) {
        work w = { m, tp_tensor_data(source), tp_tensor_data(target), tp_dtype_bytes(d), add };
        tp_pool_run(tp_chunks_of(m->planes, m->to[0] * m->to[1] * m->to[2]), chunk, &w);
        ok = tp_dense_done(target, to, true);
    }
    tp_tensor_unref(source);
    return ok;
}

bool tp_remap_copy(const tp_remap *m, const tp_tensor *from, tp_tensor *to)
{
    return run(m, from, to, (tp_dtype)from->dtype, NULL);
}

bool tp_remap_spread(const tp_remap *m, const tp_tensor *from, tp_tensor *to, tp_dtype d)
{
    return run(m, from, to, d, tp_combine_of(TP_COMBINE_ADD, d));
}
