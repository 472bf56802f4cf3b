/* partition.h - the largest groups of marked nodes that could each run as one call.
 *
 *     a: marked    b = f(a): marked    c = g(b): not    d = h(a, c): marked        {a, b}, {d}
 *
 * A group may be one call when nothing outside it stands between two of its nodes: d cannot join, for it waits for c, which waits
 * for b. Nodes are taken from the last to the first; each becomes a group and joins the others, oldest first, as far as
 * that holds, whether they read each other or not. A joined group has the number of the larger one, of the newer one if they are equal, and the
 * age of the older one.
 *
 * Cost: nodes times groups / 64, and for each attempt to join a walk over the groups: groups are few where this is used.
 * Fails: no memory. */
#ifndef TP_PASS_PARTITION_H
#define TP_PASS_PARTITION_H

#include "ir/graph.h"

/* `marked`: by node id. out[id] gets 1 + the number of its group, 0: none. Numbers count marked nodes from the end.
 * `readers_only`: a node joins groups that read it, no others. */
TP_API TP_CHECK bool tp_partition(const tp_graph *g, const uint8_t *marked, bool readers_only, uint32_t *out);

#endif
