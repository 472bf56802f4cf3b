/* text.h - a graph as text for people, tests and the pass runner, and back.
 *
 *     graph(%x: f32[2, 3], %y: f32[3]):
 *         %add: f32[2, 3] = aten.add.Tensor(%x, %y, alpha=2)
 *         return (%add,)
 *
 * One node a line; facts are printed after the name where they are known, with strides where they are not row by row,
 * sizes that are expressions in quotes of their own text. Attributes, methods and modules: `%w = get_attr fc.weight`,
 * `call_method relu(%x)`, `call_module fc(%x)`; builtins as `_operator.getitem(%x, 0)`; an expression among arguments
 * as `sym("s0 + 1")`; an input whose target is not its name as `%_args as "*args"`, with a default `= 3`.
 * A child of the graph stands in braces behind the get_attr that reads it.
 * Handles print as their repr between backquotes and cannot be read back. Names are kept by reading; tensors of facts
 * are read as tensors without data on the meta device, and those with symbolic sizes not yet (TP_ERR_UNIMPLEMENTED).
 * Fails: TP_ERR_VALUE with line and column. */
#ifndef TP_IR_TEXT_H
#define TP_IR_TEXT_H

#include "ir/graph.h"

TP_API void tp_graph_print(const tp_graph *g, tp_text *out);
TP_API void tp_node_print(const tp_node *n, tp_text *out);
TP_API TP_CHECK tp_graph *tp_graph_parse(const char *text, size_t length);
/* TP_ERR_RUNTIME names the node. Order, users, inputs of this graph only, one output at the end, names unique, op
 * arguments that fit the schema. */
TP_API TP_CHECK bool tp_graph_verify(const tp_graph *g);

#endif
