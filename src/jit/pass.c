/* pass.c - the small passes over jit graphs that users reach by name. */
#include "base/alloc.h"
#include "jit/graph.h"

/* ---- dead code ---- */
bool tp_jit_has_effect(const tp_node *n)
{
    if (n->kind != TP_CALL_FUNCTION || n->flags & TP_NODE_IMPURE || n->target.kind == TP_TARGET_HANDLE)
        return true;
    if (n->target.kind == TP_TARGET_NAME)
        return tp_jit_is(n, "prim::CallMethod") || tp_jit_is(n, "prim::CallFunction") || tp_jit_is(n, "prim::SetAttr");
    const tp_op *op = n->target.op;
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].written)
            return true;
    return op->rare->hidden_writes || op->flags & TP_OP_IO;
}

/*     %1 = mul(%x, %x)                     return (%x)
 *     %2 = neg(%1)                  =>
 *     return (%x)
 * From the end, so that a node dies with its last reader. */
bool tp_jit_eliminate_dead(tp_graph *g)
{
    for (tp_node *n = g->root.prev, *before; n != &g->root; n = before) {
        before = n->prev;
        if (n->user_count == 0 && n->kind == TP_CALL_FUNCTION && !tp_jit_is(n, "prim::Result") && !tp_jit_has_effect(n))
            tp_node_erase(n);
        else if (tp_jit_is(n, "prim::Result") && n->user_count == 0) {
            /* A result nobody reads stays while another of its node is read: the node prints all or none. */
            tp_node *of = tp_as_node(n->arg[0]);
            bool read = tp_jit_has_effect(of);
            for (uint32_t i = 0; i < of->user_count && !read; i++)
                read = of->user[i]->user_count > 0;
            if (!read)
                tp_node_erase(n);
        }
    }
    return tp_graph_check(g);
}

/* ---- shapes and names ---- */
bool tp_jit_erase_shapes(tp_graph *g)
{
    tp_graph_each(g, n)
        if (n->type && !tp_jit_retype(n, tp_jit_type_erase(tp_jit_type_of(n))))
            return false;
    return true;
}

bool tp_jit_canonicalize(tp_graph *g)
{
    uint32_t next = 0;
    tp_graph_each(g, n) {
        tp_jit_note *note = n->type ? tp_jit_note_of(n) : NULL;
        if (!note || note->results)
            continue;
        tp_free(note->name);
        note->name = NULL;
        note->number = next++;
    }
    return true;
}

/* ---- constants ---- */
static bool same_constant(const tp_node *a, const tp_node *b)
{
    const tp_value *x = tp_node_keyword(a, "value"), *y = tp_node_keyword(b, "value");
    if (!tp_jit_type_equal(tp_jit_type_of(a), tp_jit_type_of(b)) || !x != !y)
        return false;
    return !x || (x->tag == y->tag && tp_value_equal(*x, *y));
}

/*     %1 : int = prim::Constant[value=1]()         %1 : int = prim::Constant[value=1]()
 *     %2 = add(%x, %1)                        =>   %2 = add(%x, %1)
 *     %3 : int = prim::Constant[value=1]()         %4 = add(%2, %1)
 *     %4 = add(%2, %3) */
bool tp_jit_pool_constants(tp_graph *g)
{
    tp_node *first = g->root.next;
    while (first->kind == TP_PLACEHOLDER)
        first = first->next;
    tp_node *pooled = NULL;             /* the first of the constants, which stand together before `first` */
    for (tp_node *n = first, *next; n != &g->root; n = next) {
        next = n->next;
        if (!tp_jit_is(n, "prim::Constant"))
            continue;
        const tp_value *v = tp_node_keyword(n, "value");
        if (v && tp_is_number(*v) && !tp_jit_retype(n, tp_jit_type_of_value(*v)))
            return false;
        tp_node *same = pooled;
        while (same && same != first && !same_constant(same, n))
            same = same->next;
        bool found = same && same != first;
        if (n == first)
            first = next;
        else if (!found)
            tp_node_move_before(first, n);
        if (found) {
            if (tp_node_replace_uses(n, same, NULL, NULL) < 0)
                return false;
            tp_node_erase(n);
        } else if (!pooled) {
            pooled = n;
        }
    }
    return true;
}

bool tp_jit_is_random(const tp_node *n)
{
    if (n->kind != TP_CALL_FUNCTION || n->target.kind != TP_TARGET_OP || !(n->target.op->flags & TP_OP_RNG))
        return false;
    /* Dropout that does not train draws nothing. */
    int train = tp_op_arg_index(n->target.op, "train");
    const tp_node *given = train >= 0 && (uint32_t)train < n->arg_count ? tp_as_node(n->arg[train]) : NULL;
    const tp_value *value = given ? tp_node_keyword(given, "value") : NULL;
    return !value || value->tag != TP_BOOL || value->b;
}

/* ---- copies ---- */
static tp_value mapped(tp_node *n, void *data)
{
    return tp_of_node(((tp_node **)data)[n->id]);
}

static tp_node *copy_node(tp_graph *g, tp_jit_names *names, tp_node *n, tp_node **map)
{
    uint32_t count = n->arg_count + 2 * n->keyword_count, done = 0;
    tp_value *arg = tp_alloc_array(count + 1, sizeof *arg);
    tp_node *copy = NULL;
    while (arg && done < count && tp_value_map_nodes(n->arg[done], mapped, map, &arg[done]))
        done++;
    if (arg && done == count && !n->type) {
        copy = tp_node_new(g, (tp_node_kind)n->kind, n->target, arg, n->arg_count, n->keyword_count, n->name);
    } else if (arg && done == count) {
        tp_jit_type *type = tp_jit_type_ref(tp_jit_type_of(n));
        if (n->kind == TP_PLACEHOLDER)
            copy = tp_jit_input(g, names, NULL, type);
        else if (n->target.kind == TP_TARGET_OP)
            copy = tp_jit_call(g, names, n->target.op, arg, n->arg_count, type);
        else
            copy = tp_jit_prim(g, names, n->target.kind == TP_TARGET_NAME ? n->target.name : "^", arg, n->arg_count, n->keyword_count, type);
        if (copy && (n->target.kind == TP_TARGET_HANDLE || n->kind == TP_PLACEHOLDER))
            tp_node_set_target(copy, n->target);
        const tp_jit_note *note = tp_jit_note_of(n);
        if (copy && note->name && !(tp_jit_note_of(copy)->name = tp_alloc_text(note->name)))
            copy = NULL;
        if (copy) {
            tp_jit_note_of(copy)->number = note->number;
            tp_jit_note_of(copy)->results = note->results;
            if (note->scope)
                tp_jit_note_of(copy)->scope = tp_value_ref((tp_value){ .tag = TP_STRING, .string = note->scope }).string;
        }
    }
    tp_values_unref(arg, done);
    tp_free(arg);
    if (copy) {
        copy->flags = n->flags;
        tp_node_set_origin(copy, n->origin);
    }
    return copy;
}

tp_graph *tp_jit_copy(const tp_graph *from)
{
    tp_graph *g = tp_graph_new();
    tp_jit_names names = { 0 };
    tp_node **map = tp_alloc_array(from->node_count + 1, sizeof *map);
    bool ok = g && map;
    if (ok)
        tp_graph_each(from, n)
            if (!(ok = (map[n->id] = copy_node(g, &names, n, map))))
                break;
    tp_free(map);
    tp_jit_names_fini(&names);
    if (ok)
        return g;
    tp_graph_unref(g);
    return NULL;
}
