/* order.h - nodes put in an order in which each stands behind what it reads.
 *
 * Linear; where stable, what moves is also sorted by its old place. Fails: no memory. A graph whose nodes wait for each other has no such order: then nothing is moved, and
 * `placed` tells which could not be. */
#ifndef TP_PASS_ORDER_H
#define TP_PASS_ORDER_H

#include "ir/graph.h"

typedef enum tp_order_kind {
    TP_ORDER_BREADTH,               /* what is ready first comes first, in the order of their readers */
    TP_ORDER_STABLE,                /* as it is; only what stands too early moves, right behind what it waited for */
} tp_order_kind;

/* placed[id], with room for g->node_count + 1, says which nodes have a place; *whole: all of them. */
TP_API TP_CHECK bool tp_order_nodes(tp_graph *g, tp_order_kind kind, uint8_t *placed, bool *whole);

#endif
