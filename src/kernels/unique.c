/* unique.c - each value, or each slice along a dim, once.
 *
 * Slices become rows of keys (one key for a slice of one element). Rows are sorted, or left in order for the consecutive
 * form; then each row either equals the one before it or begins a new group. A row with a NaN equals nothing. */
#include <string.h>

#include "base/alloc.h"
#include "kernels/dense.h"
#include "kernels/keys.h"

typedef struct groups {
    int64_t  rows, width;       /* `rows` slices of `width` elements */
    tp_dtype dtype;
    uint64_t *key;              /* owned: rows * width */
    int64_t *order;             /* owned: rows in order of their groups */
    int64_t *group;             /* owned: the group of each row, by its original place */
    int64_t *first, *size;      /* owned: of each group, a row of it and how many it has */
    int64_t  count;             /* of groups */
} groups;

static int compare_rows(const groups *g, int64_t a, int64_t b)
{
    const uint64_t *x = g->key + a * g->width, *y = g->key + b * g->width;
    for (int64_t i = 0; i < g->width; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* A merge sort from below, stable. */
static bool sort_rows(groups *g)
{
    int64_t *from = g->order, *to = tp_alloc_array((size_t)g->rows + 1, sizeof *to), *spare = to;
    if (!to)
        return false;
    for (int64_t run = 1; run < g->rows; run *= 2) {
        for (int64_t low = 0; low < g->rows; low += 2 * run) {
            int64_t middle = low + run < g->rows ? low + run : g->rows, high = middle + run < g->rows ? middle + run : g->rows;
            for (int64_t i = low, j = middle, k = low; k < high; k++)
                to[k] = i < middle && (j >= high || compare_rows(g, from[i], from[j]) <= 0) ? from[i++] : from[j++];
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != g->order)
        memcpy(g->order, from, (size_t)g->rows * sizeof *from);
    tp_free(spare);
    return true;
}

/* Rows of one element: by radix. */
static bool sort_values(groups *g)
{
    tp_key *e = tp_alloc_array((size_t)g->rows + 1, sizeof *e), *spare = e ? tp_alloc_array((size_t)g->rows + 1, sizeof *spare) : NULL;
    if (spare) {
        for (int64_t i = 0; i < g->rows; i++)
            e[i] = (tp_key){ g->key[i], i };
        const tp_key *sorted = tp_keys_sort(g->rows, e, spare);
        for (int64_t i = 0; i < g->rows; i++)
            g->order[i] = sorted[i].at;
    }
    tp_free(e);
    tp_free(spare);
    return spare != NULL;
}

static bool has_nan(const groups *g, int64_t row)
{
    for (int64_t i = 0; i < g->width; i++)
        if (tp_key_is_nan(g->dtype, g->key[row * g->width + i]))
            return true;
    return false;
}

static void groups_fini(groups *g)
{
    tp_free(g->key);
    tp_free(g->order);
    tp_free(g->group);
    tp_free(g->first);
    tp_free(g->size);
}

static bool read_rows(groups *g, const tp_tensor *dense, tp_along a)
{
    int64_t bytes = (int64_t)tp_dtype_bytes(g->dtype);
    tp_key *line = tp_alloc_array((size_t)a.inner + 1, sizeof *line);
    if (!line)
        return false;
    for (int64_t o = 0; o < a.outer && dense->numel; o++)
        for (int64_t r = 0; r < a.size; r++) {
            tp_keys_read(g->dtype, a.inner, (const char *)tp_tensor_data(dense) + (o * a.size + r) * a.inner * bytes, bytes, false, line);
            for (int64_t i = 0; i < a.inner; i++)
                g->key[r * g->width + o * a.inner + i] = line[i].key;
        }
    tp_free(line);
    return true;
}

/* Finds the groups of the slices that `a` cuts a row-major tensor into. */
static bool groups_find(groups *g, const tp_tensor *dense, tp_along a, bool sorted)
{
    *g = (groups){ .rows = a.size, .width = a.outer * a.inner, .dtype = (tp_dtype)dense->dtype };
    size_t room = (size_t)g->rows + 1;
    bool ok = (g->key = tp_alloc_array((size_t)(g->rows * g->width) + 1, sizeof *g->key)) && (g->order = tp_alloc_array(room, sizeof *g->order))
              && (g->group = tp_alloc_array(room, sizeof *g->group)) && (g->first = tp_alloc_array(room, sizeof *g->first))
              && (g->size = tp_alloc_array(room, sizeof *g->size)) && read_rows(g, dense, a);
    if (!ok)
        return false;
    for (int64_t i = 0; i < g->rows; i++)
        g->order[i] = i;
    if (sorted && !(g->width == 1 ? sort_values(g) : sort_rows(g)))
        return false;
    for (int64_t i = 0; i < g->rows; i++) {
        int64_t row = g->order[i];
        if (!i || compare_rows(g, g->order[i - 1], row) || has_nan(g, row)) {
            g->first[g->count] = row;
            g->size[g->count++] = 0;
        }
        g->size[g->count - 1]++;
        g->group[row] = g->count - 1;
    }
    return true;
}

/* ---- results ---- */

/* A vector of these numbers, empty when they are not asked for; kept if it is there already (its size was known). */
static bool fill_numbers(tp_tensor **out, const int64_t *number, int64_t count, bool asked)
{
    int64_t n = asked ? count : 0;
    if (!*out && !(*out = tp_tensor_new(TP_i64, 1, &n)))
        return false;
    if (asked && (*out)->numel)
        memcpy(tp_tensor_data(*out), number, (size_t)(*out)->numel * sizeof *number);
    return true;
}

/* The first slice of each group: `dim` stands first in memory, then the others. */
static tp_tensor *chosen_slices(const groups *g, const tp_tensor *dense, int dim, tp_along a)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS], bytes = (int64_t)tp_dtype_bytes(g->dtype), step = 1;
    for (int i = dense->ndim - 1; i >= 0; i--) {
        size[i] = i == dim ? g->count : dense->size[i];
        stride[i] = step;
        step *= i == dim ? 1 : dense->size[i] > 1 ? dense->size[i] : 1;
    }
    stride[dim] = step;
    tp_tensor *out = tp_tensor_new_on(dense->device, g->dtype, dense->ndim, size, stride);
    for (int64_t k = 0; out && out->numel && k < g->count; k++)
        for (int64_t o = 0; o < a.outer; o++)
            memcpy((char *)tp_tensor_data(out) + (k * g->width + o * a.inner) * bytes,
                   (const char *)tp_tensor_data(dense) + (o * a.size + g->first[k]) * a.inner * bytes, (size_t)(a.inner * bytes));
    return out;
}

static bool of_values(const tp_tensor *self, bool sorted, bool inverse, bool counted, tp_tensor **out, int results)
{
    tp_tensor *dense = tp_contiguous(self);
    groups g = { 0 };
    bool ok = dense && groups_find(&g, dense, (tp_along){ 1, dense->numel, 1 }, sorted);
    ok = ok && (out[0] = tp_tensor_new(g.dtype, 1, &g.count));
    size_t bytes = tp_dtype_bytes(g.dtype);
    for (int64_t k = 0; ok && k < g.count; k++)
        memcpy((char *)tp_tensor_data(out[0]) + (size_t)k * bytes, (const char *)tp_tensor_data(dense) + (size_t)g.first[k] * bytes, bytes);
    ok = ok && (out[1] || !inverse || (out[1] = tp_tensor_new(TP_i64, self->ndim, self->size)));
    ok = ok && fill_numbers(&out[1], g.group, g.rows, inverse) && (results < 3 || fill_numbers(&out[2], g.size, g.count, counted));
    groups_fini(&g);
    tp_tensor_unref(dense);
    return ok;
}

static bool of_slices(const tp_tensor *self, int64_t along, bool sorted, tp_tensor **out)
{
    tp_tensor *dense = tp_contiguous(self);
    groups g = { 0 };
    int dim = tp_wrap_dim(along, self->ndim);
    tp_along a = tp_along_dim(self, along);
    bool ok = dense && groups_find(&g, dense, a, sorted) && (out[0] = chosen_slices(&g, dense, dim, a))
              && fill_numbers(&out[1], g.group, g.rows, true) && fill_numbers(&out[2], g.size, g.count, true);
    groups_fini(&g);
    tp_tensor_unref(dense);
    return ok;
}

/* _unique(self, sorted, return_inverse), _unique2(self, sorted, return_inverse, return_counts) */
TP_HOOK_K(tp_k_unique)
{
    return of_values(arg[0].tensor, true, tp_as_bool(arg[2]), false, out, 2);
}

TP_HOOK_K(tp_k_unique2)
{
    return of_values(arg[0].tensor, true, tp_as_bool(arg[2]), tp_as_bool(arg[3]), out, 3);
}

/* unique_dim(self, dim, sorted, return_inverse, return_counts) */
TP_HOOK_K(tp_k_unique_dim)
{
    return of_slices(arg[0].tensor, tp_as_int(arg[1]), true, out);
}

/* unique_consecutive(self, return_inverse, return_counts, dim) */
TP_HOOK_K(tp_k_unique_consecutive)
{
    if (arg[3].tag != TP_NONE && arg[0].tensor->ndim > 1)
        return of_slices(arg[0].tensor, tp_as_int(arg[3]), false, out);
    return of_values(arg[0].tensor, false, tp_as_bool(arg[1]), tp_as_bool(arg[2]), out, 3);
}
