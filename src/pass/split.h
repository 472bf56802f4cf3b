/* split.h - what it takes to cut a graph into parts that become graphs of their own.
 *
 * Given the part of each node, a plan says for each part which values come in, which go out and which parts must have run
 * before it. Nodes of no part (inputs, attributes, the output) stay outside: their values come in where they are read.
 * Inputs and outputs stand in the order in which the nodes of the graph ask for them.
 *
 * Owners: all is in the caller's arena and borrows nodes.  Linear in nodes and arguments.
 * Fails: no memory; TP_ERR_RUNTIME when parts wait for each other. */
#ifndef TP_PASS_SPLIT_H
#define TP_PASS_SPLIT_H

#include "ir/graph.h"

typedef struct tp_split_list {
    tp_node **item;
    uint32_t count, room;
} tp_split_list;

typedef struct tp_split_part {
    tp_split_list node;                 /* in the order of the graph */
    tp_split_list input, output;
    struct tp_split_edge *next;         /* the parts that read this one, in order of first use */
    struct tp_split_edge **last;        /* where the next edge goes */
    uint32_t waits;                     /* how many parts it reads */
} tp_split_part;

typedef struct tp_split {
    tp_split_part *part;
    uint32_t *order;                    /* parts so that each comes after those it reads; the newest ready one first */
    uint32_t  count;
} tp_split;

/* `part`: by node id, 0: outside, else 1 + its part, of `count`. */
TP_API TP_CHECK bool tp_split_plan(const tp_graph *g, const uint32_t *part, uint32_t count, tp_arena *arena, tp_split *out);

#endif
