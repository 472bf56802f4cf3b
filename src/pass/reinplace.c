/* reinplace.c - see reinplace.h.
 *
 * Nodes whose tensors share memory are a family; a call that comes to write joins the family of what it writes into, and its readers
 * read that instead. Geometry is compared through values: views behind a changed call are called again, for they now look into other
 * memory; what other calls make lies in memory of its own either way. */
#include "pass/reinplace.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ir/builtin.h"
#include "ops/dispatch.h"

typedef struct writing {
    tp_graph  *graph;
    tp_value  *value;           /* by node id, owned: what the node gives now */
    uint32_t  *family;          /* by node id, 0: no tensor */
    tp_node  **first, **next;   /* by family: one of its nodes; by node id: another one */
    uint8_t   *outside;         /* by family: it is memory of an input or an attribute */
    uint8_t   *stale;           /* by node id: a view that has to be called again */
    uint32_t   count;           /* of ids when the pass began: later nodes are its own */
} writing;

/* The scatter ops and the views whose elements they replace. */
static const struct scatter { const char *name, *view, *overload; } scatters[] = {
    { "select_scatter", "select", "int" }, { "slice_scatter", "slice", "Tensor" }, { "diagonal_scatter", "diagonal", "" },
    { "as_strided_scatter", "as_strided", "" },
};

static const tp_op *op_of(const tp_node *n)
{
    return n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP ? n->target.op : NULL;
}

static const tp_op *view_of_scatter(const tp_node *n)
{
    const tp_op *op = op_of(n);
    for (size_t i = 0; op && i < TP_COUNT(scatters); i++)
        if (strcmp(op->space, "aten") == 0 && strcmp(op->name, scatters[i].name) == 0 && !*op->overload && n->arg_count >= 2)
            return tp_op_find("aten", scatters[i].view, scatters[i].overload);
    return NULL;
}

static bool is_view(const tp_node *n)
{
    const tp_op *op = op_of(n);
    if (!op)
        return n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN && n->target.builtin == tp_builtin_getitem;
    return op->arg_count && op->result_count && op->arg[0].alias && !op->arg[0].written && op->result[0].alias == op->arg[0].alias;
}

static const tp_tensor *first_tensor(tp_value v)
{
    if (v.tag == TP_TENSOR)
        return v.tensor;
    const tp_tensor *found = NULL;
    for (uint32_t i = 0; (v.tag == TP_LIST || v.tag == TP_TUPLE) && !found && i < v.list->count; i++)
        found = first_tensor(v.list->item[i]);
    return found;
}

static tp_node *node_argument(const tp_node *n, uint32_t i) { return i < n->arg_count ? tp_as_node(n->arg[i]) : NULL; }

static const tp_tensor *tensor_of(const writing *w, const tp_node *n)
{
    return n && w->value[n->id].tag == TP_TENSOR ? w->value[n->id].tensor : NULL;
}

/* ---- geometry ---- */
static bool same_place(const tp_tensor *a, const tp_tensor *b)
{
    bool same = a->storage == b->storage && a->offset == b->offset && a->ndim == b->ndim && a->dtype == b->dtype;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->size[i] == b->size[i] && (a->size[i] < 2 || a->stride[i] == b->stride[i]);
    return same;
}

static bool same_kind(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && (!a->ndim || memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) == 0);
}

static bool has_element_twice(const tp_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->size[i] > 1 && t->stride[i] == 0)
            return true;
    return false;
}

/* ---- values ---- */
static tp_value value_of(tp_node *n, void *data)
{
    return tp_value_ref(((const writing *)data)->value[n->id]);
}

/* Calls `op` with the arguments of `n`, without the one at `left_out` (-1: with all). */
static bool call_with(writing *w, const tp_node *n, const tp_op *op, int left_out, tp_value *out)
{
    tp_value arg[256], filled[256];
    uint32_t count = n->target.op->arg_count, done = 0;
    if (!tp_node_op_args(n, filled))
        return false;
    while (done < count && tp_value_map_nodes(filled[done], value_of, w, &arg[done]))
        done++;
    bool ok = done == count;
    if (ok && left_out >= 0) {
        tp_value_unref(arg[left_out]);
        memmove(arg + left_out, arg + left_out + 1, (--done - (uint32_t)left_out) * sizeof *arg);
    }
    ok = ok && tp_call(op, arg, out);
    tp_values_unref(arg, done);
    return ok;
}

static bool call_view(writing *w, const tp_node *n, tp_value *out)
{
    *out = tp_none();
    if (op_of(n))
        return n->target.op->result_count == 1 ? call_with(w, n, n->target.op, -1, out) : true;
    tp_value of = n->arg_count == 2 && tp_as_node(n->arg[0]) ? w->value[tp_as_node(n->arg[0])->id] : tp_none();
    bool item = (of.tag == TP_LIST || of.tag == TP_TUPLE) && n->arg[1].tag == TP_INT && n->arg[1].i >= 0 && n->arg[1].i < of.list->count;
    *out = item ? tp_value_ref(of.list->item[n->arg[1].i]) : tp_none();
    return true;
}

static void mark_views(writing *w, const tp_node *of, uint32_t *count)
{
    for (uint32_t i = 0; i < of->user_count; i++)
        if (is_view(of->user[i]) && !w->stale[of->user[i]->id]) {
            w->stale[of->user[i]->id] = 1;
            ++*count;
        }
}

/* The views of `of`, and theirs. */
static bool look_again(writing *w, tp_node *of)
{
    uint32_t count = 0;
    mark_views(w, of, &count);
    for (tp_node *n = of->next; count && !tp_node_is_root(n); n = n->next) {
        tp_value fresh;
        if (!w->stale[n->id])
            continue;
        if (!call_view(w, n, &fresh))
            return false;
        tp_value_unref(w->value[n->id]);
        w->value[n->id] = fresh;
        w->stale[n->id] = 0;
        count--;
        mark_views(w, n, &count);
    }
    return true;
}

/* ---- families ---- */
static bool find_families(writing *w)
{
    tp_map known = { 0 };
    uint64_t family;
    uint32_t count = 0;
    bool ok = true;
    for (tp_node *n = w->graph->root.next; ok && !tp_node_is_root(n); n = n->next) {
        const tp_tensor *t = first_tensor(w->value[n->id]);
        if (!t)
            continue;
        if (!tp_map_get(&known, (uintptr_t)t->storage, &family))
            ok = tp_map_put(&known, (uintptr_t)t->storage, family = ++count);
        w->family[n->id] = (uint32_t)family;
        w->next[n->id] = w->first[family];
        w->first[family] = n;
        w->outside[family] |= n->kind == TP_PLACEHOLDER || n->kind == TP_GET_ATTR;
    }
    tp_map_fini(&known);
    return ok;
}

static void join_families(writing *w, uint32_t to, uint32_t from)
{
    if (!from || from == to)
        return;
    for (tp_node *n = w->first[from], *next; n; n = next) {
        next = w->next[n->id];
        w->family[n->id] = to;
        w->next[n->id] = w->first[to];
        w->first[to] = n;
    }
    w->first[from] = NULL;
}

typedef struct sharing { const writing *w; uint32_t family; bool found; } sharing;

static void note_sharing(tp_node *input, void *data)
{
    sharing *s = data;
    s->found |= s->w->family[input->id] == s->family;
}

/* Does an argument other than the first lie in this memory? */
static bool others_share(const writing *w, const tp_node *n, uint32_t family)
{
    sharing s = { w, family, false };
    for (uint32_t i = 1; i < n->arg_count + 2 * n->keyword_count; i++)
        tp_value_each_node(n->arg[i], note_sharing, &s);
    return s.found;
}

/* ---- who reads it later ---- */

/* Does the scatter write over all that was changed? The part changed is `changed`, or a view of what `from` and its bases give. */
static bool writes_over(writing *w, const tp_node *scatter, const tp_tensor *changed, const tp_node *from, bool *over)
{
    tp_value part;
    *over = false;
    if (!call_with(w, scatter, view_of_scatter(scatter), 1, &part))
        return false;
    const tp_tensor *t = first_tensor(part), *base = tensor_of(w, node_argument(scatter, 0));
    if (!base || has_element_twice(base))       /* what is changed shows in parts that are not written over */
        t = NULL;
    *over = t && changed && same_place(t, changed);
    for (; t && !*over && from && tensor_of(w, from); from = is_view(from) ? node_argument(from, 0) : NULL)
        *over = same_place(t, tensor_of(w, from));
    tp_value_unref(part);
    return true;
}

static bool is_read_later(writing *w, const tp_node *at, uint32_t family, const tp_tensor *changed, const tp_node *from, bool *read)
{
    *read = false;
    for (tp_node *a = w->first[family]; a && !*read; a = w->next[a->id])
        for (uint32_t i = 0; a != at && i < a->user_count && !*read; i++) {
            const tp_node *user = a->user[i];
            bool over = false;
            if (user->place <= at->place || is_view(user))
                continue;
            if (view_of_scatter(user) && node_argument(user, 0) == a && !others_share(w, user, family) &&
                !writes_over(w, user, changed, from, &over))
                return false;
            *read = !over;
        }
    return true;
}

/* ---- changes ---- */
static bool give_place(writing *w, tp_node *n, tp_node *to)
{
    if (tp_node_replace_uses(n, to, NULL, NULL) < 0)
        return false;
    join_families(w, w->family[to->id], w->family[n->id]);
    tp_value_unref(w->value[n->id]);
    w->value[n->id] = tp_value_ref(w->value[to->id]);
    return look_again(w, to);
}

static bool write_call(writing *w, tp_node *n)
{
    const tp_op *op = op_of(n);
    tp_node *self = node_argument(n, 0);
    const tp_tensor *t = tensor_of(w, self), *made = tensor_of(w, n);
    if (!op || op->variant != TP_FUNCTIONAL || !op->inplace || op->result_count != 1 || op->arg[0].alias || !t || !made)
        return true;
    uint32_t family = w->family[self->id];
    bool read;
    if (w->outside[family] || !same_kind(t, made) || has_element_twice(t) || others_share(w, n, family))
        return true;
    if (!is_read_later(w, n, family, NULL, self, &read))
        return false;
    if (read)
        return true;
    tp_node_set_target(n, tp_target_op(op->inplace));
    return give_place(w, n, self);
}

/* base = view(base, …).copy_(src), before the scatter. */
static bool add_copy(writing *w, tp_node *n, const tp_op *view)
{
    uint32_t count = n->arg_count + 2 * n->keyword_count;
    tp_graph *g = w->graph;
    tp_node *before = g->insert;
    tp_value arg[256];
    arg[0] = n->arg[0];
    memcpy(arg + 1, n->arg + 2, (count - 2) * sizeof *arg);
    g->insert = n;
    tp_node *part = tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(view), arg, n->arg_count - 1, n->keyword_count, NULL);
    tp_value pair[2] = { part ? tp_of_node(part) : tp_none(), n->arg[1] };
    tp_node *copy = part ? tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(tp_op_find("aten", "copy_", "")), pair, 2, 0, NULL) : NULL;
    g->insert = before;
    return copy || tp_graph_check(g);
}

static bool write_scatter(writing *w, tp_node *n, const tp_op *view)
{
    tp_node *base = node_argument(n, 0), *source = node_argument(n, 1);
    const tp_tensor *t = tensor_of(w, base), *s = tensor_of(w, source);
    if (!t || !s || n->arg_count + 2 * n->keyword_count > 256)
        return true;
    uint32_t family = w->family[base->id];
    tp_value part;
    bool read = true, same = false;
    if (w->outside[family] || has_element_twice(t))
        return true;
    if (!call_with(w, n, view, 1, &part))
        return false;
    const tp_tensor *changed = first_tensor(part);
    bool ok = true;
    if (changed && w->family[source->id] == family)
        same = same_place(s, changed);
    else if (changed)
        ok = is_read_later(w, n, family, changed, base, &read);
    if (ok && !same && !read)
        ok = add_copy(w, n, view);
    if (ok && (same || !read)) {
        ok = give_place(w, n, base);
        if (ok)
            tp_node_erase(n);
    }
    tp_value_unref(part);
    return ok;
}

static bool walk(writing *w)
{
    for (tp_node *n = w->graph->root.next, *next; !tp_node_is_root(n); n = next) {
        next = n->next;
        const tp_op *view = view_of_scatter(n);
        if (n->id < w->count && !(view ? write_scatter(w, n, view) : write_call(w, n)))
            return false;
    }
    return true;
}

bool tp_reinplace(tp_graph *g, const tp_value *value)
{
    /* A scatter gives way to two nodes. */
    size_t room = 3 * (size_t)g->node_count + 1;
    writing w = { .graph = g, .count = g->node_count, .value = tp_alloc_zero(room * sizeof *w.value),
                  .family = tp_alloc_zero(room * sizeof *w.family), .first = tp_alloc_zero(room * sizeof *w.first),
                  .next = tp_alloc_zero(room * sizeof *w.next), .outside = tp_alloc_zero(room), .stale = tp_alloc_zero(room) };
    bool ok = w.value && w.family && w.first && w.next && w.outside && w.stale;
    for (uint32_t i = 0; ok && i < w.count; i++)
        w.value[i] = tp_value_ref(value[i]);
    ok = ok && find_families(&w) && walk(&w);
    if (w.value)
        tp_values_unref(w.value, room);
    tp_free(w.value);
    tp_free(w.family);
    tp_free(w.first);
    tp_free(w.next);
    tp_free(w.outside);
    tp_free(w.stale);
    return ok;
}
