/* search.c - places in sorted rows, membership in sets, elements counted out. */
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "kernels/dense.h"
#include "kernels/keys.h"
#include "kernels/nonzero.h"
#include "ops/promote.h"

/* A tensor argument, or a number as a 0-d tensor; counted for the caller. */
static tp_tensor *as_operand(tp_value v)
{
    if (v.tag == TP_TENSOR)
        return tp_tensor_ref(v.tensor);
    tp_scalar s = tp_as_scalar(v);
    tp_tensor *t = tp_tensor_new(s.kind <= TP_KIND_INTEGER ? TP_i64 : s.kind == TP_KIND_FLOAT ? TP_f64 : TP_c128, 0, NULL);
    if (t)
        tp_scalar_write(s, tp_tensor_data(t), (tp_dtype)t->dtype);
    return t;
}

/* ---- searchsorted, bucketize ---- */
typedef struct search {
    const void    *row, *value;         /* both f64, or both i64 */
    const int64_t *sorter;              /* may be NULL */
    void          *to;
    int64_t        n, each, values;     /* elements of a row, values that share a row, values */
    bool           right, floats, narrow;
} search;

/* A comparison with NaN does not hold, so a NaN is placed behind everything. */
#define PLACE(T)                                                                                            \
    do {                                                                                                    \
        const T *row = (const T *)w->row + base, v = ((const T *)w->value)[i];                              \
        while (low < high) {                                                                                \
            int64_t middle = low + (high - low) / 2;                                                        \
            T x = row[order ? order[middle] : middle];                                                      \
            if (w->right ? x > v : x >= v)                                                                  \
                high = middle;                                                                              \
            else                                                                                            \
                low = middle + 1;                                                                           \
        }                                                                                                   \
    } while (0)

static void search_chunk(void *pointer, int64_t index, int64_t count)
{
    const search *w = pointer;
    int64_t end = tp_chunk_at(w->values, index + 1, count);
    for (int64_t i = tp_chunk_at(w->values, index, count); i < end; i++) {
        int64_t base = w->each ? i / w->each * w->n : 0, low = 0, high = w->n;
        const int64_t *order = w->sorter ? w->sorter + base : NULL;
        if (w->floats)
            PLACE(double);
        else
            PLACE(int64_t);
        if (w->narrow)
            ((int32_t *)w->to)[i] = (int32_t)low;
        else
            ((int64_t *)w->to)[i] = low;
    }
}

static bool find_places(const tp_tensor *rows, tp_value values, const tp_tensor *sorter, bool right, tp_tensor *out)
{
    tp_tensor *given = as_operand(values), *row = NULL, *value = NULL, *order = NULL, *to = NULL;
    bool ok = given != NULL;
    if (ok) {
        bool floats = tp_dtype_is_float((tp_dtype)rows->dtype) || tp_dtype_is_float((tp_dtype)given->dtype);
        tp_dtype d = floats ? TP_f64 : TP_i64;
        ok = (row = tp_dense(rows, d)) && (value = tp_dense(given, d)) && (!sorter || (order = tp_dense(sorter, TP_i64)))
             && (to = tp_dense_out(out, (tp_dtype)out->dtype));
        if (ok && value->numel) {
            int64_t n = rows->ndim ? rows->size[rows->ndim - 1] : 1;
            search w = { tp_tensor_data(row), tp_tensor_data(value), order ? tp_tensor_data(order) : NULL, tp_tensor_data(to), n,
                         rows->ndim > 1 ? given->size[given->ndim - 1] : 0, value->numel, right, floats, out->dtype == TP_i32 };
            tp_pool_run(tp_chunks_of(w.values, 16), search_chunk, &w);
        }
    }
    tp_tensor_unref(given);
    tp_tensor_unref(row);
    tp_tensor_unref(value);
    tp_tensor_unref(order);
    return tp_dense_done(to, out, ok);
}

/* searchsorted(sorted_sequence, self, out_int32, right, side, sorter) */
TP_HOOK_K(tp_k_searchsorted)
{
    bool right = tp_as_bool(arg[3]) || (arg[4].tag == TP_STRING && strcmp(arg[4].string->text, "right") == 0);
    const tp_tensor *sorter = tp_as_tensor(arg[5]);
    if (sorter) {
        int64_t n = sorter->ndim ? sorter->size[sorter->ndim - 1] : 1;
        tp_tensor *order = tp_dense(sorter, TP_i64);
        bool inside = order != NULL;
        for (int64_t i = 0; inside && i < order->numel; i++) {
            int64_t at = ((const int64_t *)tp_tensor_data(order))[i];
            inside = (at >= 0 && at < n) || tp_fail(TP_ERR_RUNTIME, "torch.searchsorted(): sorter index out of range");
        }
        tp_tensor_unref(order);
        if (!inside)
            return false;
    }
    return find_places(arg[0].tensor, arg[1], sorter, right, out[0]);
}

/* bucketize(self, boundaries, out_int32, right) */
TP_HOOK_K(tp_k_bucketize)
{
    return find_places(arg[1].tensor, arg[0], NULL, tp_as_bool(arg[3]), out[0]);
}

/* ---- isin ---- */
typedef struct membership {
    const tp_key *element, *set;        /* the set is sorted */
    uint8_t      *to;
    int64_t       elements, size;
    tp_dtype      dtype;
    bool          invert;
} membership;

static void member_chunk(void *pointer, int64_t index, int64_t count)
{
    const membership *m = pointer;
    int64_t end = tp_chunk_at(m->elements, index + 1, count);
    for (int64_t i = tp_chunk_at(m->elements, index, count); i < end; i++) {
        uint64_t key = m->element[i].key;
        int64_t low = 0, high = m->size;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (m->set[middle].key < key)
                low = middle + 1;
            else
                high = middle;
        }
        bool found = low < m->size && m->set[low].key == key && !tp_key_is_nan(m->dtype, key);
        m->to[i] = found != m->invert;
    }
}

/* isin(elements, test_elements, assume_unique, invert); either side may be a number */
TP_HOOK_K(tp_k_isin)
{
    tp_common common = TP_COMMON_START;
    tp_common_add(&common, arg[0]);
    tp_common_add(&common, arg[1]);
    tp_dtype d = tp_common_dtype(&common);
    tp_tensor *given[2] = { as_operand(arg[0]), as_operand(arg[1]) }, *dense[2] = { NULL }, *to = NULL;
    tp_key *key[2] = { NULL }, *spare = NULL;
    bool ok = given[0] && given[1] && (to = tp_dense_out(out[0], TP_b8));
    for (int k = 0; k < 2 && ok; k++) {
        ok = (dense[k] = tp_dense(given[k], d)) && (key[k] = tp_alloc_array((size_t)dense[k]->numel + 1, sizeof *key[k]));
        if (ok)
            tp_keys_read(d, dense[k]->numel, tp_tensor_data(dense[k]), (int64_t)tp_dtype_bytes(d), false, key[k]);
    }
    if (ok && (ok = (spare = tp_alloc_array((size_t)dense[1]->numel + 1, sizeof *spare)) != NULL) && to->numel) {
        membership m = { key[0], tp_keys_sort(dense[1]->numel, key[1], spare), tp_tensor_data(to), dense[0]->numel, dense[1]->numel, d,
                         tp_as_bool(arg[3]) };
        tp_pool_run(tp_chunks_of(m.elements, 16), member_chunk, &m);
    }
    tp_free(spare);
    for (int k = 0; k < 2; k++) {
        tp_free(key[k]);
        tp_tensor_unref(dense[k]);
        tp_tensor_unref(given[k]);
    }
    return tp_dense_done(to, out[0], ok);
}

/* ---- repeat_interleave(repeats, output_size): each position as often as its count says ---- */
TP_HOOK_K(tp_k_repeat_interleave)
{
    tp_tensor *counts = tp_dense(arg[0].tensor, TP_i64), *wide = NULL;
    bool ok = counts != NULL;
    int64_t total = 0;
    const int64_t *count = ok ? tp_tensor_data(counts) : NULL;
    for (int64_t i = 0; ok && i < counts->numel; i++) {
        if (count[i] < 0)
            ok = tp_fail(TP_ERR_RUNTIME, "repeats can not be negative");
        else if (__builtin_add_overflow(total, count[i], &total))
            ok = tp_fail(TP_ERR_RUNTIME, "repeats are too large");
    }
    if (ok && arg[1].tag != TP_NONE && tp_as_int(arg[1]) != total)
        ok = tp_fail(TP_ERR_RUNTIME, "allocated size does not match required size");
    if (ok && !out[0])
        ok = (out[0] = tp_tensor_new((tp_dtype)arg[0].tensor->dtype, 1, &total)) != NULL;
    if (ok && (ok = (wide = tp_dense_out(out[0], TP_i64)) != NULL) && total) {
        int64_t *to = tp_tensor_data(wide);
        for (int64_t i = 0; i < counts->numel; i++)
            for (int64_t k = 0; k < count[i]; k++)
                *to++ = i;
    }
    tp_tensor_unref(counts);
    return wide ? tp_dense_done(wide, out[0], ok) : ok;
}

/* ---- nonzero_static(self, size, fill_value): as many coordinates as are asked for ---- */
TP_HOOK_K(tp_k_nonzero_static)
{
    int64_t size = tp_as_int(arg[1]), fill = tp_as_int(arg[2]), n = arg[0].tensor->ndim;
    tp_tensor *found = tp_nonzero(arg[0].tensor), *to = found ? tp_dense_out(out[0], TP_i64) : NULL;
    if (to && to->numel) {
        const int64_t *column = tp_tensor_data(found);
        int64_t *row = tp_tensor_data(to), count = found->size[0];
        for (int64_t i = 0; i < size; i++)
            for (int64_t d = 0; d < n; d++)
                *row++ = i < count ? column[d * count + i] : fill;
    }
    tp_tensor_unref(found);
    return tp_dense_done(to, out[0], true);
}
