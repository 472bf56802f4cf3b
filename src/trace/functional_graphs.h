/* functional_graphs.h - what the functionaliser does with ops that take functions.
 *
 *     cond(p, f, g, [x])     =>     cond(p, f', g', [x'])     x' the value behind x; f' wraps its operands, calls f, unwraps
 *
 * While f runs the functionaliser is one deeper. States made outside may be looked at there, not written, and nothing that f
 * gives may look into one: that is an error, as it is in PyTorch. */
#ifndef TP_TRACE_FUNCTIONAL_GRAPHS_H
#define TP_TRACE_FUNCTIONAL_GRAPHS_H

#include "trace/functional_state.h"

TP_CHECK bool tp_functional_graphs(tp_functional *f, const tp_op *op, const tp_value *arg, tp_value *result);

#endif
