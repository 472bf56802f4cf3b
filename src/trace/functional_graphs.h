/* functional_graphs.h - the functionaliser inside, and what it does with ops that take functions.
 *
 *     cond(p, f, g, [x])     =>     cond(p, f', g', [x'])     x' the value behind x; f' wraps its operands, calls f, unwraps
 *
 * While f runs the functionaliser is one deeper. States made outside may be looked at there, not written, and nothing that f
 * gives may look into one: that is an error, as it is in PyTorch. */
#ifndef TP_TRACE_FUNCTIONAL_GRAPHS_H
#define TP_TRACE_FUNCTIONAL_GRAPHS_H

#include "base/array.h"
#include "trace/functional.h"

struct tp_functional {
    tp_mount mount;
    uint64_t id;                /* never given twice in a process: wrappers outlive their functionaliser */
    uint32_t depth;             /* functions being traced */
    const char *function;       /* borrowed: what the innermost is called; NULL: none */
    tp_array(tp_tensor *) held; /* counted: values of tensors from outside the innermost function, looked at anew inside it */
};

uint32_t tp_functional_depth(const tp_tensor *wrapper);     /* at which its state was made */
TP_CHECK bool tp_functional_graphs(tp_functional *f, const tp_op *op, const tp_value *arg, tp_value *result);

#endif
