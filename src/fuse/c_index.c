/* c_index.c - calls that move elements: copies, joins, and results whose elements are chosen by indices or by their
 * place. */
#include "fuse/c_internal.h"

bool tp_c_write_copy(tp_c *c)
{
    tp_c_nest n = { .count = 2, .operand = { tp_c_result(c, 0), tp_c_arg(c, 0) } };
    if (c->failed || !tp_c_has(n.operand[0]))
        return !c->failed;
    tp_dtype from = (tp_dtype)n.operand[1].fact->dtype, to = (tp_dtype)n.operand[0].fact->dtype;
    tp_c_nest_open(c, &n, n.operand[0].fact->ndim, n.operand[0].fact->size);
    tp_c_line(c, "%s = %s;", n.at[0], tp_c_store(c, n.at[1], from, to));
    tp_c_nest_close(c, &n);
    return !c->failed;
}

bool tp_c_write_cat(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    int64_t dim = tp_as_int(c->arg[1]), start = 0;
    dim = dim < 0 ? dim + out.fact->ndim : dim;
    for (uint32_t k = 0; k < tp_length(c->raw[0]); k++) {
        tp_c_value x = tp_c_item(c, c->raw[0].list->item[k]);
        if (c->failed)
            return false;
        const tp_tensor *t = x.fact;
        if (t->ndim != out.fact->ndim) /* an empty one of one dim is nothing */
            continue;
        const char *at[8];
        for (int d = 0; d < t->ndim; d++) {
            tp_c_loop(c, tp_c_letters[d], t->size[d]);
            at[d] = d == dim && start ? tp_c_text(c, "%s + %lld", tp_c_letters[d], (long long)start) : tp_c_letters[d];
        }
        tp_c_line(c, "%s = %s;", tp_c_at(c, out, at),
                  tp_c_store(c, tp_c_at(c, x, tp_c_letters), (tp_dtype)t->dtype, (tp_dtype)out.fact->dtype));
        tp_c_close_all(c, t->ndim);
        start += t->size[dim];
    }
    return !c->failed;
}

/* Does an index of this dim change the element? */
static bool moves(tp_c_value x, int64_t dim)
{
    return dim >= 0 && dim < x.fact->ndim && x.fact->stride[dim] != 0;
}

/* out[…, i…, …] = x[…, index[i…], …]: embedding and index_select. */
static bool chosen(tp_c *c, tp_c_value x, tp_c_value index, int64_t dim)
{
    tp_c_value out = tp_c_result(c, 0);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    const char *at_x[8] = { 0 };
    int more = index.fact->ndim;
    for (int d = 0; d < out.fact->ndim; d++)
        tp_c_loop(c, tp_c_letters[d], out.fact->size[d]);
    for (int d = 0; d < x.fact->ndim; d++)
        at_x[d] = d < dim ? tp_c_letters[d] : d == dim ? "at" : tp_c_letters[d + more - 1];
    if (moves(x, dim))
        tp_c_line(c, "const int64_t at = %s;", tp_c_at(c, index, tp_c_letters + dim));
    tp_c_line(c, "%s = %s;", tp_c_at(c, out, tp_c_letters), tp_c_at(c, x, at_x));
    tp_c_close_all(c, out.fact->ndim);
    return !c->failed;
}

bool tp_c_write_embedding(tp_c *c)
{
    return chosen(c, tp_c_arg(c, 0), tp_c_arg(c, 1), 0);
}

bool tp_c_write_index_select(tp_c *c)
{
    tp_c_value x = tp_c_arg(c, 0);
    int64_t dim = tp_as_int(c->arg[1]);
    return !c->failed && chosen(c, x, tp_c_arg(c, 2), dim < 0 ? dim + x.fact->ndim : dim);
}

/* Index tensors count from the end when they are negative. */
static void read_place(tp_c *c, const char *name, tp_c_value index, const char *const *at, int64_t size)
{
    const char *e = tp_c_at(c, index, at);
    tp_c_line(c, "const int64_t %s = %s < 0 ? %s + %lld : %s;", name, e, e, (long long)size, e);
}

bool tp_c_write_gather(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0), index = tp_c_arg(c, 2);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    int64_t dim = tp_as_int(c->arg[1]);
    const char *at[8];
    dim = dim < 0 ? dim + x.fact->ndim : dim;
    for (int d = 0; d < out.fact->ndim; d++) {
        tp_c_loop(c, tp_c_letters[d], out.fact->size[d]);
        at[d] = d == dim ? "at" : tp_c_letters[d];
    }
    if (moves(x, dim))
        read_place(c, "at", index, tp_c_letters, x.fact->size[dim]);
    tp_c_line(c, "%s = %s;", tp_c_at(c, out, tp_c_letters), tp_c_at(c, x, at));
    tp_c_close_all(c, out.fact->ndim);
    return !c->failed;
}

/* Integer indices of neighbouring dims; masks and gaps have no words. */
bool tp_c_index_has(const tp_value *arg)
{
    int first = -1, count = 0;
    for (uint32_t i = 0; i < tp_length(arg[1]); i++) {
        const tp_tensor *t = tp_as_tensor(arg[1].list->item[i]);
        if (!t)
            continue;
        if (t->dtype != TP_i64 && t->dtype != TP_i32)
            return false;
        if (count && first + count != (int)i)
            return false;
        first = count ? first : (int)i;
        count++;
    }
    return count > 0;
}

/* out[a…, i…, b…] = x[a…, first[i…], second[i…], b…], the indices broadcast to each other. */
bool tp_c_write_index(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    int first = 0, count = 0;
    uint32_t given = tp_length(c->raw[1]);
    const char *at[8] = { 0 }, *in_index[8];
    while (first < (int)given && tp_is_none(c->raw[1].list->item[first]))
        first++;
    while (first + count < (int)given && !tp_is_none(c->raw[1].list->item[first + count]))
        count++;
    int wide = out.fact->ndim - (x.fact->ndim - count);
    for (int d = 0; d < out.fact->ndim; d++)
        tp_c_loop(c, tp_c_letters[d], out.fact->size[d]);
    for (int d = 0; d < x.fact->ndim; d++)
        at[d] = d < first           ? tp_c_letters[d]
                : d < first + count ? tp_c_text(c, "at%d", d)
                                    : tp_c_letters[d - count + wide];
    for (int k = 0; k < count && !c->failed; k++) {
        tp_c_value index = tp_c_item(c, c->raw[1].list->item[first + k]);
        for (int d = 0; !c->failed && d < index.fact->ndim; d++)
            in_index[d] = index.fact->size[d] == 1 ? NULL : tp_c_letters[first + wide - index.fact->ndim + d];
        if (!c->failed && moves(x, first + k))
            read_place(c, at[first + k], index, in_index, x.fact->size[first + k]);
    }
    tp_c_line(c, "%s = %s;", tp_c_at(c, out, tp_c_letters), tp_c_at(c, x, at));
    tp_c_close_all(c, out.fact->ndim);
    return !c->failed;
}

/* ---- chosen by place ---- */

/* out[i…] = x at the indices of `at`. */
static bool moved(tp_c *c, tp_c_value out, tp_c_value x, const char *const *at)
{
    for (int d = 0; d < out.fact->ndim; d++)
        tp_c_loop(c, tp_c_letters[d], out.fact->size[d]);
    tp_c_line(c, "%s = %s;", tp_c_at(c, out, tp_c_letters), tp_c_at(c, x, at));
    tp_c_close_all(c, out.fact->ndim);
    return !c->failed;
}

bool tp_c_write_flip(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0);
    int64_t dims[8];
    const char *at[8];
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    int count = tp_as_ints(c->arg[1], dims, 8, 0);
    for (int d = 0; d < x.fact->ndim; d++)
        at[d] = tp_c_letters[d];
    for (int i = 0; i < count; i++) {
        int64_t d = dims[i] < 0 ? dims[i] + x.fact->ndim : dims[i];
        at[d] = tp_c_text(c, "%lld - %s", (long long)x.fact->size[d] - 1, tp_c_letters[d]);
    }
    return count >= 0 && moved(c, out, x, at);
}

bool tp_c_write_repeat(tp_c *c)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0);
    const char *at[8];
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    if (out.fact->ndim > 8)
        return tp_c_unsupported(c, "so many dims");
    for (int d = 0; d < x.fact->ndim; d++)
        at[d] = tp_c_text(c, "%s %% %lld", tp_c_letters[d + out.fact->ndim - x.fact->ndim], (long long)x.fact->size[d]);
    return moved(c, out, x, at);
}

static bool triangle(tp_c *c, bool upper)
{
    tp_c_value out = tp_c_result(c, 0), x = tp_c_arg(c, 0);
    if (c->failed || !tp_c_has(out))
        return !c->failed;
    int n = out.fact->ndim;
    for (int d = 0; d < n; d++)
        tp_c_loop(c, tp_c_letters[d], out.fact->size[d]);
    tp_c_line(c, "%s = %s - %s %s %lld ? %s : 0;", tp_c_at(c, out, tp_c_letters), tp_c_letters[n - 1],
              tp_c_letters[n - 2], upper ? ">=" : "<=", (long long)tp_as_int(c->arg[1]), tp_c_at(c, x, tp_c_letters));
    tp_c_close_all(c, n);
    return !c->failed;
}

bool tp_c_write_tril(tp_c *c)
{
    return triangle(c, false);
}
bool tp_c_write_triu(tp_c *c)
{
    return triangle(c, true);
}
