/* draw.h - a graph as a picture (SVG) that needs no other program to be made.
 *
 * Nodes are boxes in rows: each stands one row below the lowest of what it reads, in the order of the graph. Lines lead from a value to its readers.
 * Linear in nodes and arguments.  Fails: no memory. */
#ifndef TP_IR_DRAW_H
#define TP_IR_DRAW_H

#include "ir/graph.h"

typedef struct tp_draw_host {
    /* What stands in a node's box, lines apart by '\n', and its colour; borrowed until the next question. NULL: the node is left out. */
    const char *(*label)(const tp_node *n, void *data);
    const char *(*fill)(const tp_node *n, void *data);
    void *data;
} tp_draw_host;

TP_API TP_CHECK bool tp_graph_draw(const tp_graph *g, const tp_draw_host *host, tp_text *out);

#endif
