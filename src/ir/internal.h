/* internal.h - what graph.c and edit.c share; nobody else writes nodes. */
#ifndef TP_IR_INTERNAL_H
#define TP_IR_INTERNAL_H

#include "ir/graph.h"

void *tp_graph_fail(tp_graph *g);               /* keeps the thread's error as the graph's first; NULL */
void  tp_node_link(tp_node *at, tp_node *n);    /* puts n, which is in no ring, before `at` */
void  tp_node_drop_args(tp_node *n);            /* gives the arguments back; users are the caller's business */
TP_CHECK bool tp_names_copy(tp_graph *g, const tp_graph *from);    /* into a fresh graph */

/* Whatever may have a handle comes in through here, so that the collector need not look through graphs that have none. */
void tp_graph_notice(tp_graph *g, tp_value v);

/* Before any change of order, targets, arguments, names or types. */
static inline void tp_graph_edit(tp_graph *g)
{
    if (!g->before_edit)
        return;
    void (*tell)(tp_graph *g) = g->before_edit;
    g->before_edit = NULL;
    tell(g);
}

#endif
