/* softmax.c - softmax and log_softmax along a dim, and their gradients.
 *
 *     rows      the dim is innermost: each row is a few passes in cache
 *     columns   it is not: the same passes over strips of neighbouring columns, one vector operation a line
 *
 * Both subtract the maximum first, so that no exponential overflows. */
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/rows.h"

enum { STRIP = 512 };

typedef struct work work;
typedef void strip_fn(const work *w, int64_t n, int64_t step, int64_t width, int64_t at);
typedef void row_fn(const work *w, int64_t n, int64_t at);

/* `out` from `a` (the input, or the incoming gradient) and `b` (the forward result, in gradients). */
struct work {
    tp_row   row;
    tp_along along;
    void    *out;
    const void *a, *b;
    row_fn  *by_row;
    strip_fn *by_strip;
};

static inline void *at(const work *w, const void *base, int64_t element) { return tp_row_at(&w->row, base, element); }

/* ---- rows ---- */
static void softmax_row(const work *w, int64_t n, int64_t first)
{
    const tp_row *r = &w->row;
    const void *x = at(w, w->a, first);
    void *y = at(w, w->out, first);
    tp_row_number top = tp_row_make(r, tp_row_max(r, n, x));
    tp_row_exponentials(r, n, y, x, &top);
    tp_row_number sum = tp_row_make(r, tp_row_sum(r, n, y));
    tp_row_step_one(r, TP_PRIM_div, n, y, y, &sum);
}

static void log_softmax_row(const work *w, int64_t n, int64_t first)
{
    const tp_row *r = &w->row;
    const void *x = at(w, w->a, first);
    void *y = at(w, w->out, first);
    _Alignas(64) char block[TP_ROW_BLOCK * sizeof(double)];
    tp_row_number top = tp_row_make(r, tp_row_max(r, n, x)), sum = tp_row_make(r, 0);
    tp_row_step_one(r, TP_PRIM_sub, n, y, x, &top);
    for (int64_t i = 0; i < n; i += TP_ROW_BLOCK) {
        int64_t some = n - i < TP_ROW_BLOCK ? n - i : TP_ROW_BLOCK;
        tp_row_step(r, TP_PRIM_exp, some, block, at(w, y, i), NULL);
        tp_row_put(r, &sum, tp_row_get(r, &sum) + tp_row_sum(r, some, block));
    }
    tp_row_step(r, TP_PRIM_log, 1, &sum, &sum, NULL);
    tp_row_step_one(r, TP_PRIM_sub, n, y, y, &sum);
}

/* out = g y - y sum(g y) */
static void softmax_gradient_row(const work *w, int64_t n, int64_t first)
{
    const tp_row *r = &w->row;
    const void *g = at(w, w->a, first), *y = at(w, w->b, first);
    void *out = at(w, w->out, first);
    _Alignas(64) char block[TP_TILE * sizeof(double)];
    tp_row_step(r, TP_PRIM_mul, n, out, g, y);
    tp_row_number sum = tp_row_make(r, tp_row_sum(r, n, out));
    for (int64_t i = 0; i < n; i += TP_TILE) {
        int64_t some = n - i < TP_TILE ? n - i : TP_TILE;
        tp_row_step_one(r, TP_PRIM_mul, some, block, at(w, y, i), &sum);
        tp_row_step(r, TP_PRIM_sub, some, at(w, out, i), at(w, out, i), block);
    }
}

/* out = g - exp(y) sum(g) */
static void log_softmax_gradient_row(const work *w, int64_t n, int64_t first)
{
    const tp_row *r = &w->row;
    const void *g = at(w, w->a, first), *y = at(w, w->b, first);
    void *out = at(w, w->out, first);
    _Alignas(64) char block[TP_TILE * sizeof(double)];
    tp_row_number sum = tp_row_make(r, tp_row_sum(r, n, g));
    for (int64_t i = 0; i < n; i += TP_TILE) {
        int64_t some = n - i < TP_TILE ? n - i : TP_TILE;
        tp_row_step(r, TP_PRIM_exp, some, block, at(w, y, i), NULL);
        tp_row_step_one(r, TP_PRIM_mul, some, block, block, &sum);
        tp_row_step(r, TP_PRIM_sub, some, at(w, out, i), at(w, g, i), block);
    }
}

/* ---- strips of columns: line j of the strip begins at `first + j step` ---- */
static void strip_top(const work *w, int64_t n, int64_t step, int64_t width, int64_t first, void *top)
{
    memcpy(top, at(w, w->a, first), (size_t)(width * w->row.bytes));
    for (int64_t j = 1; j < n; j++)
        tp_row_step(&w->row, TP_PRIM_maximum, width, top, top, at(w, w->a, first + j * step));
}

static void softmax_strip(const work *w, int64_t n, int64_t step, int64_t width, int64_t first)
{
    const tp_row *r = &w->row;
    _Alignas(64) char top[STRIP * sizeof(double)], sum[STRIP * sizeof(double)];
    strip_top(w, n, step, width, first, top);
    for (int64_t j = 0; j < n; j++) {
        void *y = at(w, w->out, first + j * step);
        tp_row_step(r, TP_PRIM_sub, width, y, at(w, w->a, first + j * step), top);
        tp_row_step(r, TP_PRIM_exp, width, y, y, NULL);
        if (j == 0)
            memcpy(sum, y, (size_t)(width * r->bytes));
        else
            tp_row_step(r, TP_PRIM_add, width, sum, sum, y);
    }
    for (int64_t j = 0; j < n; j++)
        tp_row_step(r, TP_PRIM_div, width, at(w, w->out, first + j * step), at(w, w->out, first + j * step), sum);
}

static void log_softmax_strip(const work *w, int64_t n, int64_t step, int64_t width, int64_t first)
{
    const tp_row *r = &w->row;
    _Alignas(64) char top[STRIP * sizeof(double)], sum[STRIP * sizeof(double)], e[STRIP * sizeof(double)];
    strip_top(w, n, step, width, first, top);
    memset(sum, 0, sizeof sum);
    for (int64_t j = 0; j < n; j++) {
        void *y = at(w, w->out, first + j * step);
        tp_row_step(r, TP_PRIM_sub, width, y, at(w, w->a, first + j * step), top);
        tp_row_step(r, TP_PRIM_exp, width, e, y, NULL);
        tp_row_step(r, TP_PRIM_add, width, sum, sum, e);
    }
    tp_row_step(r, TP_PRIM_log, width, sum, sum, NULL);
    for (int64_t j = 0; j < n; j++)
        tp_row_step(r, TP_PRIM_sub, width, at(w, w->out, first + j * step), at(w, w->out, first + j * step), sum);
}

static void softmax_gradient_strip(const work *w, int64_t n, int64_t step, int64_t width, int64_t first)
{
    const tp_row *r = &w->row;
    _Alignas(64) char sum[STRIP * sizeof(double)], part[STRIP * sizeof(double)];
    memset(sum, 0, sizeof sum);
    for (int64_t j = 0; j < n; j++) {
        void *out = at(w, w->out, first + j * step);
        tp_row_step(r, TP_PRIM_mul, width, out, at(w, w->a, first + j * step), at(w, w->b, first + j * step));
        tp_row_step(r, TP_PRIM_add, width, sum, sum, out);
    }
    for (int64_t j = 0; j < n; j++) {
        void *out = at(w, w->out, first + j * step);
        tp_row_step(r, TP_PRIM_mul, width, part, at(w, w->b, first + j * step), sum);
        tp_row_step(r, TP_PRIM_sub, width, out, out, part);
    }
}

static void log_softmax_gradient_strip(const work *w, int64_t n, int64_t step, int64_t width, int64_t first)
{
    const tp_row *r = &w->row;
    _Alignas(64) char sum[STRIP * sizeof(double)], part[STRIP * sizeof(double)];
    memset(sum, 0, sizeof sum);
    for (int64_t j = 0; j < n; j++)
        tp_row_step(r, TP_PRIM_add, width, sum, sum, at(w, w->a, first + j * step));
    for (int64_t j = 0; j < n; j++) {
        tp_row_step(r, TP_PRIM_exp, width, part, at(w, w->b, first + j * step), NULL);
        tp_row_step(r, TP_PRIM_mul, width, part, part, sum);
        tp_row_step(r, TP_PRIM_sub, width, at(w, w->out, first + j * step), at(w, w->a, first + j * step), part);
    }
}

/* Short rows lie side by side: one exponential serves many of them. */
static void softmax_short_rows(const work *w, int64_t first, int64_t rows)
{
    const tp_row *r = &w->row;
    int64_t n = w->along.size;
    void *y = at(w, w->out, first * n);
    for (int64_t i = 0; i < rows; i++) {
        const void *x = at(w, w->a, (first + i) * n);
        tp_row_number top = tp_row_make(r, tp_row_max(r, n, x));
        tp_row_step_one(r, TP_PRIM_sub, n, at(w, y, i * n), x, &top);
    }
    tp_row_step(r, TP_PRIM_exp, rows * n, y, y, NULL);
    for (int64_t i = 0; i < rows; i++) {
        tp_row_number sum = tp_row_make(r, tp_row_sum(r, n, at(w, y, i * n)));
        tp_row_step_one(r, TP_PRIM_div, n, at(w, y, i * n), at(w, y, i * n), &sum);
    }
}

/* ---- splitting ---- */
static void rows_chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t end = tp_chunk_at(w->along.outer, index + 1, count), i = tp_chunk_at(w->along.outer, index, count);
    if (w->by_row == softmax_row && w->along.size <= STRIP / 2)
        for (int64_t some, most = TP_ROW_BLOCK / w->along.size; i < end; i += some) {
            some = end - i < most ? end - i : most;
            softmax_short_rows(w, i, some);
        }
    for (; i < end; i++)
        w->by_row(w, w->along.size, i * w->along.size);
}

static void strips_chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    int64_t inner = w->along.inner, size = w->along.size, strips = (inner + STRIP - 1) / STRIP;
    int64_t end = tp_chunk_at(w->along.outer * strips, index + 1, count);
    for (int64_t i = tp_chunk_at(w->along.outer * strips, index, count); i < end; i++) {
        int64_t column = i % strips * STRIP, width = inner - column < STRIP ? inner - column : STRIP;
        w->by_strip(w, size, inner, width, i / strips * size * inner + column);
    }
}

static bool run(const tp_tensor *a, const tp_tensor *b, int64_t dim, tp_tensor *out, row_fn *by_row, strip_fn *by_strip)
{
    tp_dtype d = tp_row_dtype((tp_dtype)(b ? b : a)->dtype);
    tp_tensor *dense_a = tp_dense(a, d), *dense_b = b && dense_a ? tp_dense(b, d) : NULL;
    tp_tensor *result = dense_a && (dense_b || !b) ? tp_dense_out(out, d) : NULL;
    if (result && result->numel) {
        work w = { tp_row_of(d), tp_along_dim(dense_a, dim), tp_tensor_data(result), tp_tensor_data(dense_a),
                   b ? tp_tensor_data(dense_b) : NULL, by_row, by_strip };
        if (w.along.inner == 1)
            tp_pool_run(tp_chunks_of(w.along.outer, w.along.size), rows_chunk, &w);
        else
            tp_pool_run(tp_chunks_of(w.along.outer * ((w.along.inner + STRIP - 1) / STRIP), w.along.size * STRIP), strips_chunk, &w);
    }
    tp_tensor_unref(dense_a);
    tp_tensor_unref(dense_b);
    return tp_dense_done(result, out, true);
}

TP_HOOK_K(tp_k_softmax)
{
    return run(arg[0].tensor, NULL, tp_as_int(arg[1]), out[0], softmax_row, softmax_strip);
}

TP_HOOK_K(tp_k_log_softmax)
{
    return run(arg[0].tensor, NULL, tp_as_int(arg[1]), out[0], log_softmax_row, log_softmax_strip);
}

TP_HOOK_K(tp_k_softmax_backward)
{
    return run(arg[0].tensor, arg[1].tensor, tp_as_int(arg[2]), out[0], softmax_gradient_row, softmax_gradient_strip);
}

TP_HOOK_K(tp_k_log_softmax_backward)
{
    return run(arg[0].tensor, arg[1].tensor, tp_as_int(arg[2]), out[0], log_softmax_gradient_row, log_softmax_gradient_strip);
}
