/* trace.h - a program as a graph of functional ops: forward alone, or forward and backward in one.
 *
 *     inference                                  joint
 *     arg0_1 … ─► results                        primals_1 …, tangents_1 … ─► results, a gradient for each primal
 *
 * Results are those inputs that the wrapper writes back, the outputs, and intermediates that outputs are views of. Writes that
 * stay in the graph are a `copy_` (or `set_`) at its end. The joint graph is made by running the tape under the recorder.
 * Dead nodes are gone; their names are not given again.
 *
 * Owners: the trace counts its recorder's graph; constants live as long as the trace.
 * Fails: what the program fails with. */
#ifndef TP_AOT_TRACE_H
#define TP_AOT_TRACE_H

#include "aot/facts.h"
#include "trace/record.h"

typedef struct tp_aot_trace {
    tp_recorder *recorder;      /* owned: graph and constants */
    uint32_t result_count;      /* of the forward; in a joint graph the gradients follow */
} tp_aot_trace;

/* `in` as for tp_aot_analyse. `host` may be NULL. */
TP_API TP_CHECK bool tp_aot_trace_program(const tp_aot_program *p, const tp_value *in, const tp_aot_facts *facts, const tp_record_host *host,
                                          tp_aot_trace *out);
TP_API void tp_aot_trace_fini(tp_aot_trace *t);

/* ---- partition.c ---- */
/* Splits a joint graph: the forward keeps what its results need and returns what the backward reads of it: tensors, then
 * sizes. Inputs of the backward: saved sizes, saved tensors, then the placeholders of the joint named tangents. `thrifty`: as few
 * bytes as can be are saved, the backward computes cheap values again. */
TP_API TP_CHECK bool tp_aot_partition(const tp_graph *joint, uint32_t result_count, bool thrifty, tp_graph **forward,
                                      tp_graph **backward, uint32_t *saved_tensors, uint32_t *saved_sizes);

#endif
