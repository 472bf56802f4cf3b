/* split.c - see split.h. One walk over the graph records every value that crosses from part to part; a second one, over the
 * parts, puts them in order. */
#include "pass/split.h"

#include <string.h>

#include "base/map.h"

struct tp_split_edge {
    struct tp_split_edge *next;
    uint32_t part;
};

typedef struct splitting {
    const uint32_t *part;               /* by node id */
    tp_arena *arena;
    tp_split *out;
    tp_map known;                       /* crossings that were recorded */
    const tp_node *reader;
    bool failed;
} splitting;

static bool push(splitting *s, tp_split_list *l, tp_node *n)
{
    if (l->count == l->room) {
        uint32_t room = l->room ? 2 * l->room : 4;
        tp_node **item = tp_arena_take_array(s->arena, room, sizeof *item);
        if (!item)
            return false;
        if (l->count)
            memcpy(item, l->item, l->count * sizeof *item);
        l->item = item;
        l->room = room;
    }
    l->item[l->count++] = n;
    return true;
}

/* Is it the first time? Parts and nodes share the keys: 2 * id is a node, 2 * part + 1 a part. */
static bool is_new(splitting *s, uint32_t reader, uint64_t what)
{
    uint64_t key = (uint64_t)reader << 33 | what, one;
    if (tp_map_get(&s->known, key, &one))
        return false;
    s->failed |= !tp_map_put(&s->known, key, 1);
    return !s->failed;
}

static bool add_edge(splitting *s, uint32_t from, uint32_t to)
{
    struct tp_split_edge *e = tp_arena_take(s->arena, sizeof *e);
    if (!e)
        return false;
    *e = (struct tp_split_edge){ .part = to };
    *s->out->part[from].last = e;
    s->out->part[from].last = &e->next;
    s->out->part[to].waits++;
    return true;
}

static void cross(tp_node *input, void *data)
{
    splitting *s = data;
    uint32_t from = s->part[input->id], to = s->part[s->reader->id];
    if (s->failed || from == to)
        return;
    if (from && is_new(s, 0, 2 * (uint64_t)input->id))
        s->failed |= !push(s, &s->out->part[from - 1].output, input);
    if (to && is_new(s, to, 2 * (uint64_t)input->id))
        s->failed |= !push(s, &s->out->part[to - 1].input, input);
    if (from && to && is_new(s, to, 2 * (uint64_t)from + 1))
        s->failed |= !add_edge(s, from - 1, to - 1);
}

static bool put_in_order(splitting *s)
{
    tp_split *out = s->out;
    uint32_t *ready = tp_arena_take_array(s->arena, out->count + 1, sizeof *ready), waiting = 0, done = 0;
    out->order = tp_arena_take_array(s->arena, out->count + 1, sizeof *out->order);
    if (!ready || !out->order)
        return false;
    for (uint32_t p = 0; p < out->count; p++)
        if (!out->part[p].waits)
            ready[waiting++] = p;
    while (waiting) {
        uint32_t p = ready[--waiting];
        out->order[done++] = p;
        for (struct tp_split_edge *e = out->part[p].next; e; e = e->next)
            if (--out->part[e->part].waits == 0)
                ready[waiting++] = e->part;
    }
    return done == out->count || tp_fail(TP_ERR_RUNTIME, "cycle exists between partitions!");
}

bool tp_split_plan(const tp_graph *g, const uint32_t *part, uint32_t count, tp_arena *arena, tp_split *out)
{
    splitting s = { .part = part, .arena = arena, .out = out };
    *out = (tp_split){ .part = tp_arena_take_array(arena, count + 1, sizeof *out->part), .count = count };
    if (!out->part)
        return false;
    memset(out->part, 0, (count + 1) * sizeof *out->part);
    for (uint32_t p = 0; p < count; p++)
        out->part[p].last = &out->part[p].next;
    tp_graph_each(g, n) {
        s.reader = n;
        if (part[n->id])
            s.failed |= !push(&s, &out->part[part[n->id] - 1].node, n);
        tp_node_each_input(n, cross, &s);
    }
    tp_map_fini(&s.known);
    return !s.failed && put_in_order(&s);
}
