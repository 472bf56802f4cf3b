/* min_cut.h - the cheapest set of vertices that parts a graph in two.
 *
 *     source ──► v ──► w ──► sink        each vertex costs what it costs to keep; the cut is where the costs are least
 *
 * Vertices are split into an arc of their cost between an entry and an exit; links between them cost nothing to follow and
 * cannot be cut. Of several cheapest sets the one nearest to the source is given.
 *
 * Owners: a zeroed struct is empty; the caller frees it. Fails: no memory. */
#ifndef TP_AOT_MIN_CUT_H
#define TP_AOT_MIN_CUT_H

#include "base/array.h"

enum { TP_CUT_NEVER = 1 << 30 };            /* times 2^20: a cost that no cut can afford */
#define TP_CUT_INFINITE ((int64_t)TP_CUT_NEVER << 20)

typedef struct tp_min_cut {
    uint32_t count;                         /* vertices */
    tp_array(struct tp_cut_arc { uint32_t to; int32_t next; int64_t room; }) arcs;     /* each beside its reverse */
    int32_t *first, *at, *level;            /* owned: by entry and exit of each vertex, source, sink */
    uint32_t *queue;                        /* owned */
} tp_min_cut;

TP_CHECK bool tp_min_cut_init(tp_min_cut *c, uint32_t count);
void tp_min_cut_fini(tp_min_cut *c);
TP_CHECK bool tp_min_cut_cost(tp_min_cut *c, uint32_t vertex, int64_t cost);
TP_CHECK bool tp_min_cut_link(tp_min_cut *c, uint32_t from, uint32_t to);
TP_CHECK bool tp_min_cut_source(tp_min_cut *c, uint32_t vertex);        /* what comes into it is free */
TP_CHECK bool tp_min_cut_sink(tp_min_cut *c, uint32_t vertex);          /* nothing it reads may be missing */
/* cut[v]: keep it. Gives the cost, TP_CUT_INFINITE or more: there is no cut. */
int64_t tp_min_cut_run(tp_min_cut *c, bool *cut);

#endif
