/* dce.c - drop nodes nobody reads.
 *
 *     graph(%x):                               graph(%x):
 *         %exp = aten.exp.default(%x)              %exp = aten.exp.default(%x)
 *         %log = aten.log.default(%exp)     =>     return (%exp,)
 *         return (%exp,)
 *
 * From the end to the start: what a dropped node read has one reader fewer by the time it is looked at itself.
 *
 * Needs: topological order.  Keeps: topological order, names.  Spoils: nothing. */
#include "pass/pass.h"

bool tp_pass_dce(tp_graph *g, tp_pass *p)
{
    for (tp_node *n = g->root.prev, *before; n != &g->root; n = before) {
        before = n->prev;
        if (n->user_count || tp_node_has_effect(n))
            continue;
        tp_node_erase(n);
        p->changed = true;
    }
    return true;
}
