/* attention.c - softmax(scale Q K^T + mask) V and its gradients, without the whole matrix of scores.
 *
 * Forward: a block of queries meets one block of keys after the other. Of each query's scores it keeps the largest so far,
 * the sum of exponentials under it, and the sum of values they weigh; when a later block has a larger score, both sums
 * are scaled down. Backward: scores are computed again, block by block, from the logarithm of that sum (logsumexp).
 *
 *               keys 0..512   512..1024                Q, out: batch x heads x queries x width
 *     queries   [ S  block ][ S  block ]               K, V:   batch x key heads x keys x width
 *     0..128                                           a key head serves heads / key heads heads
 *
 * Queries without a key to see (all masked) get zeros. Blocks are the same for every number of threads. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/dense.h"
#include "kernels/each.h"
#include "kernels/element.h"
#include "kernels/gemm.h"
#include "kernels/rows.h"

enum { QUERIES = 128, KEYS = 512 };

/* A tensor of four dims seen from its data: strides in elements. */
typedef struct grid {
    char   *data;
    int64_t step[4];
} grid;

typedef struct work {
    tp_row   row;
    tp_dtype dtype;
    int64_t  heads, key_heads, queries, keys, width;
    double   scale;
    bool     causal;
    grid     q, k, v, mask, out, grad, dq, dk, dv;      /* mask.data may be NULL */
    grid     sums;                                      /* logsumexp */
} work;

static grid grid_of(const tp_tensor *t)
{
    grid g = { .data = t ? tp_tensor_data(t) : NULL };
    for (int i = 0; t && i < t->ndim && i < 4; i++)
        g.step[i] = t->size[i] == 1 ? 0 : t->stride[i];
    return g;
}

/* A mask broadcasts: [queries, keys] or with batch and heads in front. */
static grid mask_grid(const tp_tensor *t)
{
    grid g = grid_of(t);
    if (t && t->ndim == 2)
        g = (grid){ g.data, { 0, 0, g.step[0], g.step[1] } };
    return g;
}

static void *place(const work *w, const grid *g, int64_t batch, int64_t head, int64_t line)
{
    return tp_row_at(&w->row, g->data, batch * g->step[0] + head * g->step[1] + line * g->step[2]);
}

/* C = alpha A B + beta C, with row and column steps of each. */
static bool product(const work *w, int64_t m, int64_t n, int64_t k, double alpha, const void *a, int64_t a_row, int64_t a_column,
                    const void *b, int64_t b_row, int64_t b_column, double beta, void *c, int64_t c_row, int64_t c_column)
{
    return tp_gemm_run(w->dtype, &(tp_gemm){ .m = m, .n = n, .k = k, .a = a, .a_row = a_row, .a_column = a_column, .b = b, .b_row = b_row,
        .b_column = b_column, .c = c, .c_row = c_row, .c_column = c_column, .batch = 1, .alpha = tp_scalar_float(alpha), .beta = tp_scalar_float(beta) });
}

/* How many of n keys from `key` on the query may see. */
static int64_t seen(const work *w, int64_t query, int64_t key, int64_t n)
{
    int64_t most = query - key + 1;
    return !w->causal || most > n ? n : most < 0 ? 0 : most;
}

/* Scores of m queries with n keys: scale Q K^T + mask. */
static bool scores(const work *w, int64_t batch, int64_t head, int64_t query, int64_t m, int64_t key, int64_t n, void *s)
{
    int64_t key_head = head / (w->heads / w->key_heads);
    if (!product(w, m, n, w->width, w->scale, place(w, &w->q, batch, head, query), w->q.step[2], w->q.step[3],
                 place(w, &w->k, batch, key_head, key), w->k.step[3], w->k.step[2], 0, s, n, 1))
        return false;
    for (int64_t i = 0; w->mask.data && i < m; i++) {
        void *line = tp_row_at(&w->row, s, i * n);
        const void *hidden = tp_row_at(&w->row, place(w, &w->mask, batch, head, query + i), key * w->mask.step[3]);
        if (w->mask.step[3] == 1)
            tp_row_step(&w->row, TP_PRIM_add, n, line, line, hidden);
        else
            for (int64_t j = 0; j < n; j++) {
                void *one = tp_row_at(&w->row, line, j);
                tp_row_put(&w->row, one, tp_row_get(&w->row, one) + tp_row_get(&w->row, tp_row_at(&w->row, hidden, j * w->mask.step[3])));
            }
    }
    return true;
}

/* ---- forward: one block of queries ---- */
typedef struct state {
    double top, sum;                /* largest score so far; sum of exp(score - top) */
} state;

/* Scores of a query become weights under the new top; gives what older sums are multiplied by. */
static double weigh(const work *w, state *st, void *line, int64_t n, int64_t shown)
{
    const tp_row *r = &w->row;
    double top = shown ? tp_row_max(r, shown, line) : -INFINITY, older = 1;
    if (st->top > top || st->top != st->top)
        top = st->top;
    if (top == -INFINITY) {
        memset(line, 0, (size_t)(n * r->bytes));
        return older;
    }
    tp_row_number one = tp_row_make(r, top);
    tp_row_step_one(r, TP_PRIM_sub, shown, line, line, &one);
    tp_row_step(r, TP_PRIM_exp, shown, line, line, NULL);
    memset(tp_row_at(r, line, shown), 0, (size_t)((n - shown) * r->bytes));
    older = st->top == top ? 1 : exp(st->top - top);
    st->sum = st->sum * older + tp_row_sum(r, shown, line);
    st->top = top;
    return older;
}

static void finish(const work *w, int64_t batch, int64_t head, int64_t query, const state *st, void *line)
{
    const tp_row *r = &w->row;
    tp_row_number by = tp_row_make(r, st->sum == 0 ? 1 : st->sum);
    char *to = place(w, &w->out, batch, head, query);
    tp_row_step_one(r, TP_PRIM_div, w->width, line, line, &by);
    tp_move_elements(r->bytes, w->width, to, w->out.step[3] * r->bytes, line, r->bytes);
    tp_row_put(r, place(w, &w->sums, batch, head, query), st->sum == 0 ? 0 : st->top + log(st->sum));
}

static bool forward_item(void *pointer, int64_t item)
{
    const work *w = pointer;
    const tp_row *r = &w->row;
    int64_t blocks = (w->queries + QUERIES - 1) / QUERIES, query = item % blocks * QUERIES, head = item / blocks % w->heads, batch = item / blocks / w->heads;
    int64_t m = w->queries - query < QUERIES ? w->queries - query : QUERIES, key_head = head / (w->heads / w->key_heads);
    int64_t keys = w->causal && query + m < w->keys ? query + m : w->keys, widest = keys < KEYS ? keys : KEYS;
    state st[QUERIES];
    char *s = tp_alloc_array((size_t)(m * (widest + w->width) + 1), r->bytes), *sum = s + m * widest * r->bytes;
    if (!s)
        return false;
    bool ok = true;
    for (int64_t i = 0; i < m; i++)
        st[i] = (state){ -INFINITY, 0 };
    memset(sum, 0, (size_t)(m * w->width * r->bytes));
    for (int64_t key = 0; ok && key < keys; key += KEYS) {
        int64_t n = keys - key < KEYS ? keys - key : KEYS;
        ok = scores(w, batch, head, query, m, key, n, s);
        for (int64_t i = 0; ok && i < m; i++) {
            double older = weigh(w, &st[i], s + i * n * r->bytes, n, seen(w, query + i, key, n));
            tp_row_number by = tp_row_make(r, older);
            void *line = sum + i * w->width * r->bytes;
            if (older != 1 && key)
                tp_row_step_one(r, TP_PRIM_mul, w->width, line, line, &by);
        }
        ok = ok && product(w, m, w->width, n, 1, s, n, 1, place(w, &w->v, batch, key_head, key), w->v.step[2], w->v.step[3], key ? 1 : 0, sum, w->width, 1);
    }
    for (int64_t i = 0; ok && i < m; i++)
        finish(w, batch, head, query + i, &st[i], sum + i * w->width * r->bytes);
    tp_free(s);
    return ok;
}

/* ---- backward: one key head of one item of the batch ---- */
/* p: scores become weights exp(score - logsumexp); ds: the gradient of weights becomes that of scores, p (ds - delta). */
static void score_gradients(const work *w, int64_t batch, int64_t head, int64_t query, int64_t m, int64_t key, int64_t n, const double *delta, char *p, char *ds)
{
    const tp_row *r = &w->row;
    for (int64_t i = 0; i < m; i++) {
        void *line = p + i * n * r->bytes, *to = ds + i * n * r->bytes;
        int64_t shown = seen(w, query + i, key, n);
        tp_row_number sum = tp_row_make(r, tp_row_get(r, place(w, &w->sums, batch, head, query + i))), by = tp_row_make(r, delta[i]);
        tp_row_step_one(r, TP_PRIM_sub, shown, line, line, &sum);
        tp_row_step(r, TP_PRIM_exp, shown, line, line, NULL);
        tp_row_step_one(r, TP_PRIM_sub, shown, to, to, &by);
        tp_row_step(r, TP_PRIM_mul, shown, to, to, line);
        memset(tp_row_at(r, line, shown), 0, (size_t)((n - shown) * r->bytes));
        memset(tp_row_at(r, to, shown), 0, (size_t)((n - shown) * r->bytes));
    }
}

/* sum over the width of grad * out, for each of m queries */
static void deltas(const work *w, int64_t batch, int64_t head, int64_t query, int64_t m, double *delta)
{
    const tp_row *r = &w->row;
    for (int64_t i = 0; i < m; i++) {
        const char *g = place(w, &w->grad, batch, head, query + i), *o = place(w, &w->out, batch, head, query + i);
        double sum = 0;
        for (int64_t c = 0; c < w->width; c++)
            sum += tp_row_get(r, g + c * w->grad.step[3] * r->bytes) * tp_row_get(r, o + c * w->out.step[3] * r->bytes);
        delta[i] = sum;
    }
}

static bool backward_block(const work *w, int64_t batch, int64_t head, int64_t query, int64_t m, char *p, char *ds)
{
    double delta[QUERIES];
    int64_t key_head = head / (w->heads / w->key_heads), keys = w->causal && query + m < w->keys ? query + m : w->keys;
    const void *g = place(w, &w->grad, batch, head, query), *q = place(w, &w->q, batch, head, query);
    bool ok = true;
    deltas(w, batch, head, query, m, delta);
    for (int64_t key = 0; ok && key < keys; key += KEYS) {
        int64_t n = keys - key < KEYS ? keys - key : KEYS;
        const void *k = place(w, &w->k, batch, key_head, key), *v = place(w, &w->v, batch, key_head, key);
        ok = scores(w, batch, head, query, m, key, n, p) &&
             product(w, m, n, w->width, 1, g, w->grad.step[2], w->grad.step[3], v, w->v.step[3], w->v.step[2], 0, ds, n, 1);
        if (ok)
            score_gradients(w, batch, head, query, m, key, n, delta, p, ds);
        ok = ok && product(w, n, w->width, m, 1, p, 1, n, g, w->grad.step[2], w->grad.step[3], 1, place(w, &w->dv, batch, key_head, key), w->dv.step[2], w->dv.step[3]) &&
             product(w, m, w->width, n, w->scale, ds, n, 1, k, w->k.step[2], w->k.step[3], key ? 1 : 0, place(w, &w->dq, batch, head, query), w->dq.step[2], w->dq.step[3]) &&
             product(w, n, w->width, m, w->scale, ds, 1, n, q, w->q.step[2], w->q.step[3], 1, place(w, &w->dk, batch, key_head, key), w->dk.step[2], w->dk.step[3]);
    }
    return ok;
}

static bool backward_item(void *pointer, int64_t item)
{
    const work *w = pointer;
    int64_t key_head = item % w->key_heads, batch = item / w->key_heads, group = w->heads / w->key_heads;
    int64_t m = w->queries < QUERIES ? w->queries : QUERIES, n = w->keys < KEYS ? w->keys : KEYS;
    char *p = tp_alloc_array((size_t)(2 * m * n + 1), w->row.bytes);
    bool ok = p != NULL;
    for (int64_t head = key_head * group; ok && head < (key_head + 1) * group; head++)
        for (int64_t query = 0; ok && query < w->queries; query += QUERIES)
            ok = backward_block(w, batch, head, query, w->queries - query < QUERIES ? w->queries - query : QUERIES, p, p + m * n * w->row.bytes);
    tp_free(p);
    return ok;
}

/* ---- the ops ---- */
static void shape(work *w, const tp_tensor *q, const tp_tensor *k, bool causal, tp_value scale, tp_dtype d)
{
    *w = (work){ .row = tp_row_of(d), .dtype = d, .heads = q->size[1], .key_heads = k->size[1], .queries = q->size[2], .keys = k->size[2],
                 .width = q->size[3], .causal = causal };
    w->scale = scale.tag == TP_NONE ? 1 / sqrt((double)w->width) : tp_as_double(scale);
}

/* The tensor itself when it has the type, else a row-major copy; NULL: failed, or there is none. */
static tp_tensor *typed(const tp_tensor *t, tp_dtype d)
{
    return t ? tp_cast(t, d) : NULL;
}

/* (query, key, value, dropout_p, is_causal, attn_mask, scale) -> (output, logsumexp) */
TP_HOOK_K(tp_k_flash_attention)
{
    const tp_tensor *query = arg[0].tensor, *given = tp_as_tensor(arg[5]);
    tp_dtype d = tp_row_dtype((tp_dtype)query->dtype);
    work w;
    tp_tensor *q = typed(query, d), *k = q ? typed(arg[1].tensor, d) : NULL, *v = k ? typed(arg[2].tensor, d) : NULL, *mask = v ? typed(given, d) : NULL;
    tp_tensor *y = v && (mask || !given) ? out[0]->dtype == d ? tp_tensor_ref(out[0]) : tp_tensor_new(d, 4, out[0]->size) : NULL;
    bool ok = y != NULL;
    if (ok) {
        shape(&w, query, arg[1].tensor, tp_as_bool(arg[4]), arg[6], d);
        w.q = grid_of(q);
        w.k = grid_of(k);
        w.v = grid_of(v);
        w.mask = mask_grid(mask);
        w.out = grid_of(y);
        w.sums = grid_of(out[1]);
        int64_t blocks = (w.queries + QUERIES - 1) / QUERIES;
        ok = tp_each_run(query->size[0] * w.heads * blocks, 1 + 16384 / (QUERIES * (w.keys + 1)), forward_item, &w);
    }
    tp_tensor_unref(q);
    tp_tensor_unref(k);
    tp_tensor_unref(v);
    tp_tensor_unref(mask);
    return tp_dense_done(y, out[0], ok);
}

/* (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale) -> (grad_query, grad_key, grad_value) */
TP_HOOK_K(tp_k_flash_attention_backward)
{
    const tp_tensor *query = arg[1].tensor, *given = tp_as_tensor(arg[8]);
    tp_dtype d = tp_row_dtype((tp_dtype)query->dtype);
    const tp_tensor *wanted[] = { arg[0].tensor, query, arg[2].tensor, arg[3].tensor, arg[4].tensor, arg[5].tensor, given };
    tp_tensor *have[7] = { NULL }, *result[3] = { NULL };
    work w;
    bool ok = true;
    for (int i = 0; ok && i < 7; i++)
        ok = (have[i] = typed(wanted[i], d)) || !wanted[i];
    for (int i = 0; ok && i < 3; i++)
        if ((ok = (result[i] = out[i]->dtype == d ? tp_tensor_ref(out[i]) : tp_tensor_new(d, 4, out[i]->size)) != NULL))
            tp_fill(result[i], tp_scalar_float(0));
    if (ok) {
        shape(&w, query, arg[2].tensor, tp_as_bool(arg[7]), arg[9], d);
        w.grad = grid_of(have[0]);
        w.q = grid_of(have[1]);
        w.k = grid_of(have[2]);
        w.v = grid_of(have[3]);
        w.out = grid_of(have[4]);
        w.sums = grid_of(have[5]);
        w.mask = mask_grid(have[6]);
        w.dq = grid_of(result[0]);
        w.dk = grid_of(result[1]);
        w.dv = grid_of(result[2]);
        ok = tp_each_run(query->size[0] * w.key_heads, 1, backward_item, &w);
    }
    for (int i = 0; i < 7; i++)
        tp_tensor_unref(have[i]);
    for (int i = 0; i < 3; i++)
        ok = tp_dense_done(result[i], out[i], ok);
    return ok;
}
