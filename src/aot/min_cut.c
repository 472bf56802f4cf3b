/* min_cut.c - maximal flow by levels (Dinic), then what the source still reaches. */
#include "aot/min_cut.h"

#include <string.h>

static uint32_t entry_of(uint32_t vertex) { return 2 * vertex; }
static uint32_t exit_of(uint32_t vertex) { return 2 * vertex + 1; }
static uint32_t source_of(const tp_min_cut *c) { return 2 * c->count; }
static uint32_t sink_of(const tp_min_cut *c) { return 2 * c->count + 1; }

bool tp_min_cut_init(tp_min_cut *c, uint32_t count)
{
    size_t places = 2 * (size_t)count + 2;
    *c = (tp_min_cut){ .count = count };
    c->first = tp_alloc_array(places, sizeof *c->first);
    c->at = tp_alloc_array(places, sizeof *c->at);
    c->level = tp_alloc_array(places, sizeof *c->level);
    c->queue = tp_alloc_array(places, sizeof *c->queue);
    if (!c->first || !c->at || !c->level || !c->queue)
        return false;
    for (size_t i = 0; i < places; i++)
        c->first[i] = -1;
    return true;
}

void tp_min_cut_fini(tp_min_cut *c)
{
    tp_array_fini(&c->arcs);
    tp_free(c->first);
    tp_free(c->at);
    tp_free(c->level);
    tp_free(c->queue);
    *c = (tp_min_cut){ 0 };
}

static bool add_arc(tp_min_cut *c, uint32_t from, uint32_t to, int64_t room)
{
    if (!tp_array_reserve(&c->arcs, c->arcs.count + 2))
        return false;
    int32_t at = (int32_t)c->arcs.count;
    c->arcs.item[at] = (struct tp_cut_arc){ to, c->first[from], room };
    c->arcs.item[at + 1] = (struct tp_cut_arc){ from, c->first[to], 0 };
    c->first[from] = at;
    c->first[to] = at + 1;
    c->arcs.count += 2;
    return true;
}

bool tp_min_cut_cost(tp_min_cut *c, uint32_t vertex, int64_t cost) { return add_arc(c, entry_of(vertex), exit_of(vertex), cost); }
bool tp_min_cut_link(tp_min_cut *c, uint32_t from, uint32_t to) { return add_arc(c, exit_of(from), entry_of(to), TP_CUT_INFINITE); }
bool tp_min_cut_source(tp_min_cut *c, uint32_t vertex) { return add_arc(c, source_of(c), entry_of(vertex), TP_CUT_INFINITE); }
bool tp_min_cut_sink(tp_min_cut *c, uint32_t vertex) { return add_arc(c, entry_of(vertex), sink_of(c), TP_CUT_INFINITE); }

/* Numbers places by their distance from the source along arcs with room; false: the sink is out of reach. */
static bool number_levels(tp_min_cut *c)
{
    uint32_t head = 0, tail = 0;
    memset(c->level, -1, (2 * (size_t)c->count + 2) * sizeof *c->level);
    c->level[source_of(c)] = 0;
    c->queue[tail++] = source_of(c);
    while (head < tail) {
        uint32_t from = c->queue[head++];
        for (int32_t a = c->first[from]; a >= 0; a = c->arcs.item[a].next) {
            const struct tp_cut_arc *arc = &c->arcs.item[a];
            if (arc->room > 0 && c->level[arc->to] < 0) {
                c->level[arc->to] = c->level[from] + 1;
                c->queue[tail++] = arc->to;
            }
        }
    }
    return c->level[sink_of(c)] >= 0;
}

/* One way from the source to the sink, level by level, its arcs in `queue`; the flow it carries, 0: no way is left. */
static int64_t push_flow(tp_min_cut *c)
{
    uint32_t at = source_of(c), length = 0;
    while (at != sink_of(c)) {
        int32_t a = c->at[at];
        while (a >= 0 && !(c->arcs.item[a].room > 0 && c->level[c->arcs.item[a].to] == c->level[at] + 1))
            a = c->arcs.item[a].next;
        c->at[at] = a;
        if (a >= 0) {
            c->queue[length++] = (uint32_t)a;
            at = c->arcs.item[a].to;
            continue;
        }
        if (!length)
            return 0;
        uint32_t back = c->queue[--length];         /* a dead end: never enter it again */
        at = c->arcs.item[back ^ 1].to;
        c->at[at] = c->arcs.item[back].next;
    }
    int64_t flow = INT64_MAX;
    for (uint32_t i = 0; i < length; i++)
        if (c->arcs.item[c->queue[i]].room < flow)
            flow = c->arcs.item[c->queue[i]].room;
    for (uint32_t i = 0; i < length; i++) {
        c->arcs.item[c->queue[i]].room -= flow;
        c->arcs.item[c->queue[i] ^ 1].room += flow;
    }
    return flow;
}

int64_t tp_min_cut_run(tp_min_cut *c, bool *cut)
{
    int64_t total = 0, flow;
    while (total < TP_CUT_INFINITE && number_levels(c)) {
        memcpy(c->at, c->first, (2 * (size_t)c->count + 2) * sizeof *c->at);
        while (total < TP_CUT_INFINITE && (flow = push_flow(c)) > 0)
            total += flow;
    }
    for (uint32_t i = 0; i < c->count; i++)
        cut[i] = total < TP_CUT_INFINITE && c->level[entry_of(i)] >= 0 && c->level[exit_of(i)] < 0;
    return total;
}
