/* internal.h - what graph.c and edit.c share; nobody else writes nodes. */
#ifndef TP_IR_INTERNAL_H
#define TP_IR_INTERNAL_H

#include "ir/graph.h"

void *tp_graph_fail(tp_graph *g);               /* keeps the thread's error as the graph's first; NULL */
void  tp_node_link(tp_node *at, tp_node *n);    /* puts n, which is in no ring, before `at` */
void  tp_node_drop_args(tp_node *n);            /* gives the arguments back; users are the caller's business */

#endif
