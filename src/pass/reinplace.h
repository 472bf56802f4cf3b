/* reinplace.h - calls that write into their first argument instead of making a tensor, where nobody can tell.
 *
 *     %a = aten.clone(%x)                        %a = aten.clone(%x)
 *     %b = aten.add.Tensor(%a, 1)          =>    %b = aten.add_.Tensor(%a, 1)
 *     return (%b,)                               return (%a,)
 *
 * A call may write when its first argument has the type and sizes of the result and no element twice, shares no memory with an input
 * or an attribute nor with another argument, and no node behind the call reads that memory, save to write over it: what a program that
 * was made functional does with `select_scatter(base, changed, …)`. Such a call becomes a copy into the view, or nothing at all when
 * the view is what was changed.
 *
 * Owners: values are borrowed; the graph's nodes are changed.  Fails: no memory, or what calling a view fails with. */
#ifndef TP_PASS_REINPLACE_H
#define TP_PASS_REINPLACE_H

#include "ir/graph.h"

/* value[id], of g->node_count + 1 values: what each node gives, fake tensors that share storages as the real ones would; none: unknown. */
TP_API TP_CHECK bool tp_reinplace(tp_graph *g, const tp_value *value);

#endif
