/* open.h - a graph in smaller words: calls that a writer has no words for are opened by their decompositions.
 *
 *     %s = aten.softplus_like(%x)       =>       %a = aten.exp(%x)   %b = aten.log1p(%a) …
 *
 * The graph is run on fake tensors under a recorder; what an opened call calls is asked about again. A call that is unknown
 * and has no decomposition stays: its writer says so.
 * Always: the first placeholders of the new graph are those of the old one, in order; then comes one for each path that
 * get_attr nodes read, in order of the first. Facts are there for every node. */
#ifndef TP_FUSE_OPEN_H
#define TP_FUSE_OPEN_H

#include "ir/graph.h"

/* Is the call with these arguments (fake tensors) to stay as it is? 1 yes, 0 no, -1 failed. */
typedef int tp_open_keep(const tp_op *op, const tp_value *arg);

/* NULL: failed. */
TP_API TP_CHECK tp_graph *tp_fuse_open(tp_graph *g, tp_open_keep *keep);
/* What was known by the node ids of the old graph, by those of the new one: `from` may be NULL, `to` has room for all. */
TP_API void tp_fuse_open_map(const tp_graph *old, const void *const *from, const tp_graph *made, const void **to);

#endif
