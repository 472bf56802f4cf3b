/* record.h - writes calls down as the nodes of a graph while they run.
 *
 *     x.relu() + x      %relu = aten.relu.default(%x_1)      %add = aten.add.Tensor(%relu, %x_1)
 *
 * A recorder is mounted at R (below autograd: what make_fx and AOT see) or at P (above it, composites whole). It knows the
 * node of each tensor of the trace; a tensor that it meets for the first time is a constant of the graph, named
 * `_tensor_constant0` or, where the host says it is a parameter, `_param_constant0`, with a get_attr node at each use.
 * Arguments are in normal form: trailing defaults dropped, keyword-only ones by name. Several results have a getitem node
 * each, lists among them too. An op that writes into a tensor becomes that tensor's node. Facts are fake tensors of their own.
 * Sizes that are expressions get nodes when an argument mentions them: sym_size of the first tensor of the trace that has
 * the symbol as a size, then arithmetic, each word once.
 *
 * Owners: a recorder counts its graph and holds every tensor it has a node for, so an address means one tensor while the
 * trace lasts. It may be entered and left several times.
 * Fails: what the ops fail with; TP_ERR_RUNTIME where the value of a traced tensor is asked for. A failed call leaves the
 * graph as it was, but for constants and sizes that its arguments named. */
#ifndef TP_TRACE_RECORD_H
#define TP_TRACE_RECORD_H

#include "ir/graph.h"
#include "trace/fake.h"
#include "trace/mount.h"

typedef struct tp_recorder tp_recorder;

/* What the user of a recorder lends to it; every function may be NULL. */
typedef struct tp_record_host {
    void *context;                      /* borrowed */
    /* The decomposition table: 1: done, `result` is filled; 0: none for this op; -1: failed. Ops it calls are recorded. */
    int (*decompose)(void *context, const tp_op *op, const tp_value *arg, tp_value *result);
    bool (*is_parameter)(void *context, const tp_tensor *t);
    tp_origin *(*origin)(void *context);        /* of the node being made, counted; NULL: none */
    /* How graphs show a derived op (ops/derived.h): its target, and the op it was made of, which stands before the arguments; both
     * counted. NULL: the node's target is the derived op. */
    bool (*derived)(void *context, const tp_op *op, tp_target *target, tp_value *of);
    bool keeps_names;                   /* graphs of functions call their inputs as the operands are called, not arg0_1 … */
} tp_record_host;

TP_API TP_CHECK tp_recorder *tp_recorder_new(const tp_record_host *host);      /* host: copied, may be NULL */
TP_API void tp_recorder_free(tp_recorder *r);                                  /* NULL is fine; must not be entered */
TP_API void tp_recorder_enter(tp_recorder *r, tp_layer_id layer);              /* TP_LAYER_TRACE_R or _P */
TP_API void tp_recorder_leave(tp_recorder *r);                                 /* must be the innermost there */
TP_API const tp_record_host *tp_recorder_host(const tp_recorder *r);           /* borrowed */
TP_API tp_graph *tp_recorder_graph(const tp_recorder *r);                      /* borrowed */

/* A placeholder that starts as `name`; a tensor among the inputs is known by it from now on. */
TP_API TP_CHECK tp_node *tp_record_input(tp_recorder *r, const char *name, tp_value v);
/* An input that is there only when the program has run: no size is read from it before tp_record_tangent_sizes; from then on compound
 * ones are, which need not be kept then. */
TP_API TP_CHECK tp_node *tp_record_tangent(tp_recorder *r, const char *name, tp_tensor *t);
TP_API TP_CHECK bool tp_record_tangent_sizes(tp_recorder *r, const tp_tensor *t);
/* `v` with nodes for tensors and symbols, owned. */
TP_API TP_CHECK bool tp_record_lower(tp_recorder *r, tp_value v, tp_value *out);
TP_API TP_CHECK tp_node *tp_record_output(tp_recorder *r, tp_value lowered);   /* borrows what tp_record_lower gave */
/* The node of a tensor; NULL: it has none (nothing is made, no error set). */
TP_API tp_node *tp_record_node_of(const tp_recorder *r, const tp_tensor *t);
/* From now on the tensor is what this node yields. */
TP_API TP_CHECK bool tp_record_track(tp_recorder *r, tp_tensor *t, tp_node *n);
/* Is a tensor of a Python class (its key is DISPATCH) among the arguments a value of the trace? Such a call is recorded whole.
 * `r` NULL: of the recorder at R that has the next call, if there is one. */
TP_API bool tp_record_holds(const tp_op *op, const tp_value *arg, const tp_recorder *r);
/* A snapshot of what a value is, for a node's fact: fake tensors without history. Owned. */
TP_API TP_CHECK bool tp_record_fact(tp_value v, tp_value *out);

/* Before the output: what was declared of numbers read from tensors, as nodes that assert it (record_asserts.c). */
TP_API TP_CHECK bool tp_record_asserts(tp_recorder *r);

TP_API size_t tp_recorder_constant_count(const tp_recorder *r);
TP_API tp_tensor *tp_recorder_constant(const tp_recorder *r, size_t i, const char **name);     /* both borrowed */

#endif
