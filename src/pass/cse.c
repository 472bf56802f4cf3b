/* cse.c - compute equal things once.
 *
 *     graph(%x, %y):                                graph(%x, %y):
 *         %add = aten.add.Tensor(%x, %y)                %add = aten.add.Tensor(%x, %y)
 *         %add_1 = aten.add.Tensor(%y, %x)       =>     %mul = aten.mul.Tensor(%add, %add)
 *         %mul = aten.mul.Tensor(%add, %add_1)          return (%mul,)
 *         return (%mul,)
 *
 * Equal: the same target, and arguments that are the same after their own merging. Operands of an op that commutes may
 * stand in either order. Nodes with an effect, random ones among them, and calls of Python are left alone; so is the
 * whole graph when some node writes into a tensor, for then equal calls may see different data.
 *
 * Needs: topological order.  Keeps: topological order, names.  Spoils: nothing. */
#include <string.h>

#include "base/hash.h"
#include "pass/pass.h"

static bool may_merge(const tp_node *n, void *unused)
{
    (void)unused;
    if (n->kind == TP_GET_ATTR)
        return true;
    return n->kind == TP_CALL_FUNCTION && n->target.kind != TP_TARGET_HANDLE && !tp_node_has_effect(n);
}

static bool commutes(const tp_node *n)
{
    return n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP && n->target.op->flags & TP_OP_COMMUTES &&
           n->arg_count >= 2;
}

static uint64_t hash_of(const tp_node *n)
{
    bool either = commutes(n);
    uint32_t count = n->arg_count + 2 * n->keyword_count;
    uint64_t h = n->kind == TP_GET_ATTR ? tp_hash_text(n->target.name)
        : tp_hash_word(n->target.kind == TP_TARGET_HANDLE ? (uintptr_t)n->target.handle->object : (uintptr_t)n->target.op);
    if (either)
        h ^= tp_hash_word(tp_value_hash(n->arg[0]) + tp_value_hash(n->arg[1]));
    for (uint32_t i = either ? 2 : 0; i < count; i++)
        h = tp_hash_word(h ^ tp_value_hash(n->arg[i])) + 1;
    return h;
}

static bool same_target(const tp_node *a, const tp_node *b)
{
    if (a->kind != b->kind || a->target.kind != b->target.kind)
        return false;
    if (a->target.kind == TP_TARGET_HANDLE)
        return a->target.handle->object == b->target.handle->object;
    return a->kind == TP_GET_ATTR ? strcmp(a->target.name, b->target.name) == 0 : a->target.op == b->target.op;
}

static bool equal(const tp_node *a, const tp_node *b)
{
    if (!same_target(a, b) || a->arg_count != b->arg_count || a->keyword_count != b->keyword_count)
        return false;
    uint32_t count = a->arg_count + 2 * a->keyword_count, from = 0;
    if (commutes(a) && tp_value_equal(a->arg[0], b->arg[1]) && tp_value_equal(a->arg[1], b->arg[0]))
        from = 2;
    for (uint32_t i = from; i < count; i++)
        if (!tp_value_equal(a->arg[i], b->arg[i]))
            return false;
    return true;
}

bool tp_cse(tp_graph *g, bool (*may)(const tp_node *n, void *data), void *data, bool *changed)
{
    /* hash -> the node met first; another of the same hash takes the next free one */
    tp_map first = { 0 };
    bool ok = true;
    for (tp_node *n = g->root.next, *next; ok && n != &g->root; n = next) {
        next = n->next;
        if (!may(n, data))
            continue;
        uint64_t h = hash_of(n), known;
        while (tp_map_get(&first, h, &known) && !equal((tp_node *)(uintptr_t)known, n))
            h++;
        if (!tp_map_get(&first, h, &known)) {
            ok = tp_map_put(&first, h, (uintptr_t)n);
            continue;
        }
        ok = tp_node_replace_uses(n, (tp_node *)(uintptr_t)known, NULL, NULL) >= 0;
        if (ok) {
            tp_node_erase(n);
            *changed = true;
        }
    }
    tp_map_fini(&first);
    return ok;
}

bool tp_pass_cse(tp_graph *g, tp_pass *p)
{
    tp_graph_each(g, n)
        if (tp_stage_fault(n, TP_STAGE_FUNCTIONAL))
            return true;
    return tp_cse(g, may_merge, NULL, &p->changed);
}
