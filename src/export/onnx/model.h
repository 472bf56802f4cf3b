/* model.h - an ATen graph as an ONNX model: opset 18, weights inside.
 *
 * Each call becomes the nodes that its op's `onnx` column says, or those of its tile program; a call without either is opened
 * by its decomposition first (fuse/open.h); what then is left is refused, all of it in one message. Calls of nothing but
 * constants (factories) are run, their results are constants.
 *
 * Always: every input of the source is an input of the model, read or not; outputs are in the order of the graph's output,
 * nested ones flat, none left out; no two outputs share a name.
 * Fails: TP_ERR_UNIMPLEMENTED naming what has no rule; TP_ERR_VALUE for a graph that is none of an exported program (nodes
 * without facts, symbolic sizes, modules inside). */
#ifndef TP_EXPORT_ONNX_MODEL_H
#define TP_EXPORT_ONNX_MODEL_H

#include "base/text.h"
#include "ir/graph.h"

/* All borrowed. The arrays are by node id of the graph. */
typedef struct tp_onnx_source {
    tp_graph *graph;
    const tp_tensor *const *constant;       /* of get_attr nodes, and of placeholders that hold weights; NULL: an input */
    const char *const *name;                /* what inputs and constants are called; NULL, or a NULL in it: as their node */
    const char *const *output_name;         /* in the order of the outputs; may be NULL */
    uint32_t output_count;                  /* of output_name */
} tp_onnx_source;

TP_API TP_CHECK bool tp_onnx_write(const tp_onnx_source *s, tp_text *out);

/* Is there a rule for a call with these arguments (facts)? -1: failed. */
TP_API int tp_onnx_has_rule(const tp_op *op, const tp_value *arg);

#endif
