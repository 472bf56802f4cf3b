/* c_write.c - calls that write into a tensor, which is a value as any other: strides and offset into a buffer.
 *
 *     select = select(zeros, 0, 1)              t_zeros[3 + i] = …
 *     relu_ = relu_(select)
 *
 * The functional form of the call is written with the tensor's own place for its result. Where an operand lies in the same
 * buffer in another way, and for calls that are not element-wise, the result is computed aside and copied there: a call reads
 * all that it reads before it writes. What views and bases read later is the buffer itself, so they see the new elements.
 * An input that is written is no pointer to const: the caller's array changes, as the tensor does. Weights and buffers are
 * constant in C: a program that writes to them is refused, and so are calls that write otherwise than to their first argument. */
#include <string.h>

#include "base/alloc.h"
#include "fuse/c_internal.h"
#include "ops/hooks.h"

bool tp_c_is_view(const tp_op *op)
{
    return op->variant != TP_OUT && (op->run == tp_run_view || op->run == tp_run_list_view);
}

bool tp_c_writes(const tp_op *op)
{
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].written)
            return true;
    return false;
}

bool tp_c_can_write(const tp_op *op)
{
    bool others = false;
    for (int i = 1; i < op->arg_count; i++)
        others |= op->arg[i].written;
    return op->variant == TP_INPLACE && op->arg[0].written && !op->arg[0].list && !others && op->result_count == 1;
}

/* The node whose memory a value is: where a chain of views and of calls in place begins. */
static const tp_node *root_of(const tp_node *n)
{
    for (const tp_node *from; n->kind == TP_CALL_FUNCTION && n->arg_count; n = from) {
        bool item = n->target.kind == TP_TARGET_BUILTIN, op = n->target.kind == TP_TARGET_OP;
        from = tp_as_node(n->arg[0]);
        if (!from || !(item || (op && (tp_c_is_view(n->target.op) || tp_c_can_write(n->target.op)))))
            break;
        if (item && !(from->kind == TP_CALL_FUNCTION && from->target.kind == TP_TARGET_OP && tp_c_is_view(from->target.op)))
            break;
    }
    return n;
}

bool tp_c_find_written(tp_c *c, const tp_graph *g)
{
    c->written = tp_alloc_zero(g->node_count + 1);
    if (!c->written)
        return false;
    tp_graph_each(g, n)
        if (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP && tp_c_can_write(n->target.op) &&
            !tp_c_is_view(n->target.op) && n->arg_count && tp_as_node(n->arg[0]))
            c->written[root_of(n)->id] = true;
    return true;
}

/* ---- memory that is written later begins with what its factory gives ---- */

bool tp_c_is_uniform(const tp_tensor *t)
{
    const char *data = t->numel ? tp_tensor_data(t) : NULL;
    size_t size = tp_dtype_bytes((tp_dtype)t->dtype);
    for (int64_t i = 1; i < t->numel; i++)
        if (memcmp(data, data + (size_t)i * size, size) != 0)
            return false;
    return true;
}

tp_c_value tp_c_filled(tp_c *c, const char *name, const tp_tensor *fact, const tp_tensor *data, tp_c_value from)
{
    tp_c_value to = tp_c_memory(c, name, fact);
    tp_c_nest n = { .count = tp_c_has(from) ? 2 : 1, .operand = { to, from } };
    tp_dtype d = (tp_dtype)fact->dtype;
    if (c->failed)
        return to;
    tp_c_nest_open(c, &n, fact->ndim, fact->size);
    tp_c_line(c, "%s = %s;", n.at[0],
              tp_c_has(from) ? n.at[1] : tp_c_number(c, data->numel ? tp_scalar_read(tp_tensor_data(data), d) : tp_scalar_int(0), d));
    tp_c_nest_close(c, &n);
    return to;
}

/* ---- the call ---- */

static bool overlaps_itself(const tp_tensor *t)
{
    for (int d = 0; d < t->ndim; d++)
        if (t->stride[d] == 0 && t->size[d] > 1)
            return true;
    return false;
}

static bool lies_alike(const tp_tensor *a, const tp_tensor *b)
{
    bool same = a->ndim == b->ndim && a->offset == b->offset;
    for (int d = 0; same && d < a->ndim; d++)
        same = a->size[d] == b->size[d] && (a->stride[d] == b->stride[d] || a->size[d] < 2);
    return same;
}

/* Is an element read that an earlier turn of the loops may have written? */
static bool reads_what_it_writes(tp_c *c, const tp_op *op, tp_c_value to)
{
    for (int i = 0; i < op->arg_count; i++) {
        if (c->raw[i].tag != TP_NODE)
            continue;
        tp_c_value v = tp_c_arg(c, i);
        if (tp_c_has(v) && v.buffer == to.buffer && !lies_alike(v.fact, to.fact))
            return true;
    }
    return false;
}

/* Memory of the form of `like`, row by row. */
static tp_c_value aside(tp_c *c, const tp_tensor *like)
{
    tp_tensor *rows = tp_arena_take(&c->arena, sizeof *rows);
    int64_t *stride = tp_arena_take(&c->arena, sizeof *stride * TP_MAX_DIMS);
    if (!rows || !stride) {
        c->failed = true;
        return (tp_c_value){ -1, NULL };
    }
    *rows = *like;
    tp_strides_row_major(rows->ndim, rows->size, stride);
    rows->stride = stride;
    rows->offset = 0;
    return tp_c_memory(c, tp_c_text(c, "%s_aside", c->node->name), rows);
}

static bool copy_back(tp_c *c, tp_c_value to, tp_c_value from)
{
    tp_c_nest n = { .count = 2, .operand = { to, from } };
    tp_c_nest_open(c, &n, to.fact->ndim, to.fact->size);
    tp_c_line(c, "%s = %s;", n.at[0], n.at[1]);
    tp_c_nest_close(c, &n);
    return !c->failed;
}

bool tp_c_write_into(tp_c *c, const tp_op *op)
{
    tp_c_value to = tp_c_arg(c, 0);
    if (c->failed)
        return false;
    if (c->buffer.item[to.buffer].kind == TP_C_CONSTANT) {
        c->failed = true;
        return tp_fail(TP_ERR_UNIMPLEMENTED, "the program writes to '%s': in C weights and buffers are constant",
                       c->buffer.item[to.buffer].wish);
    }
    c->buffer.item[to.buffer].written = true;
    if (overlaps_itself(to.fact))
        return tp_c_unsupported(c, "a tensor whose elements share memory is written");
    bool elementwise = tp_c_has_pointwise(op, c->arg), direct = elementwise && !reads_what_it_writes(c, op, to);
    c->into = direct ? to : aside(c, to.fact);
    bool ok = !c->failed && (elementwise ? tp_c_pointwise(c, op) : tp_c_kernel(c, op)) && (direct || copy_back(c, to, c->into));
    c->into = (tp_c_value){ -1, NULL };
    return ok;
}
