/* embedding_bag.c - bags of rows from a table, summed, averaged or reduced to their maxima; and the gradients.
 *
 *     indices   3 0 | 2 2 1 |          offsets 0 2 5: where bags begin; the last one ends with the indices, unless
 *     bags       0  |   1   | 2        offsets say so (include_last_offset)
 *
 * An index equal to padding_idx counts for nothing. Bags are shared over the pool; in gradients a chunk owns columns of the
 * table, so sums have one order. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/rows.h"

enum { SUM, MEAN, MAX };

typedef struct work {
    tp_row   row;
    int64_t  count, bags, width, table, padding;
    int      mode;
    const int64_t *index, *offset, *bag_of;     /* bag_of: the bag of each index */
    int64_t  offsets;
    const void *from, *scale;                   /* rows; scale: for each index, may be NULL */
    void    *to;
    int64_t *size, *top;                        /* of each bag: rows that count; for MAX the row of each maximum */
} work;

static int64_t bag_end(const work *w, int64_t bag)
{
    return bag + 1 < w->offsets ? w->offset[bag + 1] : w->count;
}

static bool check_places(const work *w)
{
    for (int64_t i = 0; i < w->count; i++)
        if (w->index[i] < 0 || w->index[i] >= w->table)
            return tp_fail(TP_ERR_RUNTIME, "Index %lld of input takes value %lld which is not in the valid range [0, %lld)", LL(i), LL(w->index[i]), LL(w->table));
    for (int64_t b = 0; b + 1 < w->offsets; b++)
        if (w->offset[b] > w->offset[b + 1])
            return tp_fail(TP_ERR_RUNTIME, "Expected i < index_size to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)");
    return true;
}

static void add_row(const work *w, void *to, int64_t i)
{
    const tp_row *r = &w->row;
    const void *row = tp_row_at(r, w->from, w->index[i] * w->width);
    double by = w->scale ? tp_row_get(r, tp_row_at(r, w->scale, i)) : 1;
    if (!w->scale) {
        tp_row_step(r, TP_PRIM_add, w->width, to, to, row);
        return;
    }
    for (int64_t c = 0; c < w->width; c++) {
        void *at = tp_row_at(r, to, c);
        tp_row_put(r, at, tp_row_get(r, at) + tp_row_get(r, tp_row_at(r, row, c)) * by);
    }
}

static void raise_row(const work *w, int64_t bag, void *to, int64_t i, bool first)
{
    const tp_row *r = &w->row;
    const void *row = tp_row_at(r, w->from, w->index[i] * w->width);
    for (int64_t c = 0; c < w->width; c++) {
        double x = tp_row_get(r, tp_row_at(r, row, c));
        if (first || x > tp_row_get(r, tp_row_at(r, to, c))) {
            tp_row_put(r, tp_row_at(r, to, c), x);
            w->top[bag * w->width + c] = w->index[i];
        }
    }
}

static void bag_chunk(void *pointer, int64_t index, int64_t count)
{
    const work *w = pointer;
    const tp_row *r = &w->row;
    for (int64_t b = tp_chunk_at(w->bags, index, count); b < tp_chunk_at(w->bags, index + 1, count); b++) {
        void *to = tp_row_at(r, w->to, b * w->width);
        int64_t counted = 0;
        bool wide = w->width;           /* else there is no memory, but bags are counted */
        if (wide)
            memset(to, 0, (size_t)(w->width * r->bytes));
        if (wide && w->mode == MAX)
            memset(w->top + b * w->width, 0, (size_t)w->width * sizeof *w->top);
        for (int64_t i = w->offset[b]; i < bag_end(w, b); i++) {
            if (w->index[i] == w->padding)
                continue;
            if (wide && w->mode == MAX)
                raise_row(w, b, to, i, !counted);
            else if (wide)
                add_row(w, to, i);
            counted++;
        }
        w->size[b] = counted;
        tp_row_number by = tp_row_make(r, (double)counted);
        if (wide && w->mode == MEAN && counted > 1)
            tp_row_step_one(r, TP_PRIM_div, w->width, to, to, &by);
    }
}

/* Writes integers to a result of any integral type; a result that is longer gets zeros. */
static bool put_integers(tp_tensor *to, const int64_t *from, int64_t count)
{
    tp_tensor *dense = tp_dense_out(to, TP_i64);
    int64_t *at = dense ? tp_tensor_data(dense) : NULL;
    for (int64_t i = 0; dense && i < dense->numel; i++)
        at[i] = from && i < count ? from[i] : 0;
    return tp_dense_done(dense, to, true);
}

/* The bag of each index, as an array the caller owns. */
static int64_t *bags_of(const work *w)
{
    int64_t *bag = tp_alloc_array((size_t)w->count + 1, sizeof *bag);
    for (int64_t i = 0, b = 0; bag && i < w->count; i++) {
        while (b + 1 < w->offsets && w->offset[b + 1] <= i)
            b++;
        bag[i] = b;
    }
    return bag;
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx) */
TP_HOOK_K(tp_k_embedding_bag)
{
    const tp_tensor *weight = arg[0].tensor, *given = tp_as_tensor(arg[6]);
    tp_dtype d = tp_row_dtype((tp_dtype)weight->dtype);
    tp_tensor *from = tp_dense(weight, d), *index = from ? tp_dense(arg[1].tensor, TP_i64) : NULL, *offset = index ? tp_dense(arg[2].tensor, TP_i64) : NULL;
    tp_tensor *scale = offset && given ? tp_dense(given, d) : NULL, *to = offset && (scale || !given) ? tp_dense_out(out[0], d) : NULL;
    work w = { .row = tp_row_of(d), .mode = (int)tp_as_int(arg[4]), .padding = tp_as_int(arg[8]) };
    int64_t *bag = NULL;
    bool ok = to != NULL;
    if (ok) {
        w.count = index->numel;
        w.bags = to->size[0];
        w.offsets = offset->numel;
        w.width = to->size[1];
        w.table = from->size[0];
        w.index = tp_tensor_data(index);
        w.offset = tp_tensor_data(offset);
        w.from = tp_tensor_data(from);
        w.scale = scale ? tp_tensor_data(scale) : NULL;
        w.to = tp_tensor_data(to);
        ok = check_places(&w) && (w.size = tp_alloc_array((size_t)w.bags + 1, sizeof *w.size)) && (bag = bags_of(&w)) &&
             (w.top = tp_alloc_array((size_t)(w.mode == MAX ? w.bags * w.width : 0) + 1, sizeof *w.top));
    }
    if (ok) {
        tp_pool_run(tp_chunks_of(w.bags, (w.count / (w.bags + 1) + 1) * w.width), bag_chunk, &w);
        const int64_t *size = w.mode == SUM ? NULL : w.size;
        ok = put_integers(out[1], bag, w.count) && put_integers(out[2], size, w.bags) &&
             (w.mode == MAX ? put_integers(out[3], w.top, w.bags * w.width) : put_integers(out[3], size, w.bags));
    }
    tp_free(w.size);
    tp_free(w.top);
    tp_free(bag);
    tp_tensor_unref(from);
    tp_tensor_unref(index);
    tp_tensor_unref(offset);
    tp_tensor_unref(scale);
    return tp_dense_done(to, out[0], ok);
}

/* ---- the gradient of the table ---- */
typedef struct spread {
    work           w;
    const int64_t *size, *top;      /* of each bag, as the forward call gave them */
    const int64_t *uses;            /* of each row of the table; NULL: gradients are not divided by it */
} spread;

static void spread_chunk(void *pointer, int64_t index, int64_t count)
{
    const spread *s = pointer;
    const work *w = &s->w;
    const tp_row *r = &w->row;
    int64_t first = tp_chunk_at(w->width, index, count), end = tp_chunk_at(w->width, index + 1, count);
    for (int64_t i = 0; w->mode != MAX && i < w->count; i++) {
        int64_t bag = w->bag_of[i], row = w->index[i];
        if (row == w->padding)
            continue;
        double by = w->scale ? tp_row_get(r, tp_row_at(r, w->scale, i)) : 1;
        if (w->mode == MEAN)
            by /= (double)(s->size[bag] > 0 ? s->size[bag] : 1);
        if (s->uses)
            by /= (double)s->uses[row];
        for (int64_t c = first; c < end; c++) {
            void *at = tp_row_at(r, w->to, row * w->width + c);
            tp_row_put(r, at, tp_row_get(r, at) + tp_row_get(r, tp_row_at(r, w->from, bag * w->width + c)) * by);
        }
    }
    for (int64_t b = 0; w->mode == MAX && b < w->bags; b++)
        for (int64_t c = first; s->size[b] > 0 && c < end; c++) {
            void *at = tp_row_at(r, w->to, s->top[b * w->width + c] * w->width + c);
            tp_row_put(r, at, tp_row_get(r, at) + tp_row_get(r, tp_row_at(r, w->from, b * w->width + c)));
        }
}

static bool check_spread(const spread *s)
{
    const work *w = &s->w;
    for (int64_t i = 0; i < w->count; i++)
        if (w->index[i] < 0 || w->index[i] >= w->table || (w->mode != MAX && (w->bag_of[i] < 0 || w->bag_of[i] >= w->bags)))
            return tp_fail(TP_ERR_INDEX, "index out of range in self");
    for (int64_t i = 0; w->mode == MAX && i < w->bags * w->width; i++)
        if (s->top[i] < 0 || s->top[i] >= w->table)
            return tp_fail(TP_ERR_INDEX, "index out of range in self");
    return true;
}

static int64_t *uses_of(const work *w)
{
    int64_t *uses = tp_alloc_zero((size_t)(w->table + 1) * sizeof *uses);
    for (int64_t i = 0; uses && i < w->count; i++)
        uses[w->index[i]]++;
    return uses;
}

/* (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx) */
TP_HOOK_K(tp_k_embedding_bag_backward)
{
    const tp_tensor *grad = arg[0].tensor, *given = tp_as_tensor(arg[8]);
    tp_dtype d = tp_row_dtype((tp_dtype)grad->dtype);
    const tp_tensor *wanted[5] = { arg[1].tensor, arg[2].tensor, arg[3].tensor, arg[4].tensor };
    tp_tensor *have[4] = { NULL }, *from = tp_dense(grad, d), *scale = from && given ? tp_dense(given, d) : NULL, *to = NULL;
    spread s = { .w = { .row = tp_row_of(d), .mode = (int)tp_as_int(arg[7]), .padding = tp_as_int(arg[9]) } };
    int64_t *uses = NULL;
    bool ok = from && (scale || !given);
    for (int i = 0; ok && i < 4; i++)
        ok = (have[i] = tp_dense(wanted[i], TP_i64)) != NULL;
    ok = ok && (to = tp_dense_out(out[0], d));
    if (ok) {
        work *w = &s.w;
        w->count = have[0]->numel;
        w->bags = from->size[0];
        w->width = from->size[1];
        w->table = to->size[0];
        w->index = tp_tensor_data(have[0]);
        w->bag_of = tp_tensor_data(have[1]);
        s.size = tp_tensor_data(have[2]);
        s.top = tp_tensor_data(have[3]);
        w->from = tp_tensor_data(from);
        w->scale = scale ? tp_tensor_data(scale) : NULL;
        w->to = tp_tensor_data(to);
        if (to->numel)
            memset(w->to, 0, (size_t)(to->numel * w->row.bytes));
        ok = check_spread(&s) && (!tp_as_bool(arg[6]) || (s.uses = uses = uses_of(w)));
        if (ok)
            tp_pool_run(tp_chunks_of(w->width, w->count + w->bags), spread_chunk, &s);
    }
    tp_free(uses);
    tp_tensor_unref(from);
    tp_tensor_unref(scale);
    for (int i = 0; i < 4; i++)
        tp_tensor_unref(have[i]);
    return tp_dense_done(to, out[0], ok);
}

/* The gradient of each index's weight: its row times the gradient of its bag.
 * (grad, weight, indices, offsets, offset2bag, mode, padding_idx) */
TP_HOOK_K(tp_k_embedding_bag_weights)
{
    const tp_tensor *grad = arg[0].tensor;
    tp_dtype d = tp_row_dtype((tp_dtype)grad->dtype);
    tp_tensor *g = tp_dense(grad, d), *table = g ? tp_dense(arg[1].tensor, d) : NULL, *index = table ? tp_dense(arg[2].tensor, TP_i64) : NULL;
    tp_tensor *offset = index ? tp_dense(arg[3].tensor, TP_i64) : NULL, *to = offset ? tp_dense_out(out[0], d) : NULL;
    int64_t *bag = NULL, padding = tp_as_int(arg[6]);
    bool ok = to != NULL;
    if (ok) {
        work w = { .row = tp_row_of(d), .count = index->numel, .offsets = offset->numel, .table = table->size[0],
                   .index = tp_tensor_data(index), .offset = tp_tensor_data(offset) };
        ok = check_places(&w) && (bag = bags_of(&w));
        for (int64_t i = 0; ok && i < w.count; i++) {
            double sum = 0;
            ok = bag[i] < g->size[0] || tp_fail(TP_ERR_INDEX, "index out of range in self");
            for (int64_t c = 0; ok && w.index[i] != padding && c < g->size[1]; c++)
                sum += tp_row_get(&w.row, tp_row_at(&w.row, tp_tensor_data(g), bag[i] * g->size[1] + c)) *
                       tp_row_get(&w.row, tp_row_at(&w.row, tp_tensor_data(table), w.index[i] * g->size[1] + c));
            tp_row_put(&w.row, tp_row_at(&w.row, tp_tensor_data(to), i), sum);
        }
    }
    tp_free(bag);
    tp_tensor_unref(g);
    tp_tensor_unref(table);
    tp_tensor_unref(index);
    tp_tensor_unref(offset);
    return tp_dense_done(to, out[0], ok);
}

/* Rows that are used and longer than max_norm are shortened to it: embedding_renorm_(self, indices, max_norm, norm_type). */
TP_HOOK_K(tp_k_embedding_renorm)
{
    tp_dtype d = tp_row_dtype((tp_dtype)out[0]->dtype);
    tp_row r = tp_row_of(d);
    double most = tp_as_double(arg[2]), p = tp_as_double(arg[3]);
    tp_tensor *index = tp_dense(arg[1].tensor, TP_i64), *table = index ? tp_dense(out[0], d) : NULL;
    int64_t rows = out[0]->size[0], width = out[0]->size[1];
    bool *done = table ? tp_alloc_zero((size_t)rows + 1) : NULL, ok = done != NULL;
    for (int64_t i = 0; ok && i < index->numel; i++) {
        int64_t row = ((const int64_t *)tp_tensor_data(index))[i];
        if (row < 0 || row >= rows) {
            ok = tp_fail(TP_ERR_INDEX, "select(): index %lld out of range for tensor of size [%lld, %lld] at dimension 0", LL(row), LL(rows), LL(width)) != NULL;
            break;
        }
        if (done[row])
            continue;
        done[row] = true;
        void *at = tp_row_at(&r, tp_tensor_data(table), row * width);
        double norm = 0;
        for (int64_t c = 0; c < width; c++) {
            double x = fabs(tp_row_get(&r, tp_row_at(&r, at, c)));
            norm = isinf(p) ? (x > norm ? x : norm) : norm + (p == 2 ? x * x : pow(x, p));
        }
        norm = isinf(p) ? norm : p == 2 ? sqrt(norm) : pow(norm, 1 / p);
        tp_row_number by = tp_row_make(&r, most / (norm + 1e-7));
        if (norm > most)
            tp_row_step_one(&r, TP_PRIM_mul, width, at, at, &by);
    }
    tp_free(done);
    tp_tensor_unref(index);
    return tp_dense_done(table, out[0], ok);
}
