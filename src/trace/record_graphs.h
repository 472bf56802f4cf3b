/* record_graphs.h - calls of ops that take functions (torch.cond, map, while_loop, scan) as nodes with graphs of their own.
 *
 *     torch.cond(p, f, g, [x])      %true_graph_0 = get_attr true_graph_0        a child of the graph: f recorded
 *                                   %false_graph_0 = get_attr false_graph_0
 *                                   %conditional = higher_order.cond(%p, %true_graph_0, %false_graph_0, [%x])
 *
 * Each function is called once, with a recorder of its own. What it reads from outside, tensors of the trace and constants
 * alike, becomes an input of its graph, and of all graphs of the call: such tensors stand at the front of the last list of
 * operands, sorted by the names of their nodes. */
#ifndef TP_TRACE_RECORD_GRAPHS_H
#define TP_TRACE_RECORD_GRAPHS_H

#include "trace/record.h"

/* Inside the call of a recorder's mount: calls the op and gives its node, which yields result[0]; the caller tracks that. NULL: failed. */
TP_CHECK tp_node *tp_record_graphs(tp_recorder *r, tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result);

#endif
