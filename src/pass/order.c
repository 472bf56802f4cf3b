/* order.c - see order.h. */
#include "pass/order.h"

#include <string.h>

#include "base/array.h"

typedef tp_array(tp_node *) node_stack;

typedef struct ordering {
    uint8_t  *placed;                   /* by node id, as the next three */
    uint32_t *waits;                    /* breadth: how many of its inputs have no place yet */
    tp_node **first, **other;           /* stable: nodes that wait for this one, and the next in that list */
    tp_node **made;                     /* the new order */
    uint32_t  count;
    tp_node  *missing;
    uint32_t  inputs, reader;
    uint32_t *seen;                     /* 1 + id of the last reader that counted it */
} ordering;

/* ---- breadth ---- */
static void count_input(tp_node *input, void *data)
{
    ordering *o = data;
    if (o->seen[input->id] == o->reader)
        return;
    o->seen[input->id] = o->reader;
    o->inputs++;
}

static void breadth(const tp_graph *g, ordering *o)
{
    tp_graph_each(g, n) {
        o->inputs = 0;
        o->reader = n->id + 1;
        tp_node_each_input(n, count_input, o);
        o->waits[n->id] = o->inputs;
        if (!o->inputs)
            o->made[o->count++] = n;
    }
    for (uint32_t i = 0; i < o->count; i++) {
        tp_node *n = o->made[i];
        o->placed[n->id] = 1;
        for (uint32_t u = 0; u < n->user_count; u++)
            if (--o->waits[n->user[u]->id] == 0)
                o->made[o->count++] = n->user[u];
    }
}

/* ---- stable ---- */
static void find_missing(tp_node *input, void *data)
{
    ordering *o = data;
    if (!o->placed[input->id])
        o->missing = input;
}

/* A heap: the node that stood first in the graph is on top. */
static bool heap_push(node_stack *h, tp_node *n)
{
    if (!tp_array_push(h, n))
        return false;
    size_t i = h->count - 1;
    for (; i && n->place < h->item[(i - 1) / 2]->place; i = (i - 1) / 2)
        h->item[i] = h->item[(i - 1) / 2];
    h->item[i] = n;
    return true;
}

static tp_node *heap_pop(node_stack *h)
{
    tp_node *top = h->item[0], *last = tp_array_pop(h);
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        child += child + 1 < h->count && h->item[child + 1]->place < h->item[child]->place;
        if (last->place <= h->item[child]->place)
            break;
        h->item[i] = h->item[child];
    }
    if (h->count)
        h->item[i] = last;
    return top;
}

/* Places n, then what waited for it and waits for nothing else, those first that stood first. */
static bool place(ordering *o, tp_node *n, node_stack *ready)
{
    ready->count = 0;
    if (!heap_push(ready, n))
        return false;
    while (ready->count) {
        n = heap_pop(ready);
        o->missing = NULL;
        tp_node_each_input(n, find_missing, o);
        if (o->missing) {
            o->other[n->id] = o->first[o->missing->id];
            o->first[o->missing->id] = n;
            continue;
        }
        o->placed[n->id] = 1;
        o->made[o->count++] = n;
        for (tp_node *w = o->first[n->id], *next; w; w = next) {
            next = o->other[w->id];
            if (!heap_push(ready, w))
                return false;
        }
    }
    return true;
}

static bool stable(const tp_graph *g, ordering *o)
{
    node_stack ready = { 0 };
    bool ok = true;
    for (tp_node *n = g->root.next; ok && n != &g->root; n = n->next)
        ok = place(o, n, &ready);
    tp_array_fini(&ready);
    return ok;
}

bool tp_order_nodes(tp_graph *g, tp_order_kind kind, uint8_t *placed, bool *whole)
{
    size_t count = g->node_count + 1;
    ordering o = { .placed = placed };
    memset(placed, 0, count);
    o.waits = tp_alloc_zero(count * sizeof *o.waits);
    o.seen = tp_alloc_zero(count * sizeof *o.seen);
    o.first = tp_alloc_zero(count * sizeof *o.first);
    o.other = tp_alloc_zero(count * sizeof *o.other);
    o.made = tp_alloc_zero(count * sizeof *o.made);
    bool ok = o.waits && o.seen && o.first && o.other && o.made;
    if (ok && kind == TP_ORDER_BREADTH)
        breadth(g, &o);
    else if (ok)
        ok = stable(g, &o);
    *whole = ok && o.count == g->live_count;
    for (uint32_t i = 0; *whole && i < o.count; i++)
        tp_node_move_before(&g->root, o.made[i]);
    tp_free(o.waits);
    tp_free(o.seen);
    tp_free(o.first);
    tp_free(o.other);
    tp_free(o.made);
    return ok;
}
