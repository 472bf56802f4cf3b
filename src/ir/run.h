/* run.h - the reference executor of graphs: a plan made once, run many times.
 *
 * A plan is the graph as a flat list of steps over numbered slots: op arguments completed, constants in place, each slot
 * released after its last reader. Running it calls ops through tp_call, so every layer that is on sees them: a plan run
 * under a tracer is traced, run with gradients it is taped.
 *
 * Owners: a plan counts its graph and what the steps name; it is read-only once made, so threads may share it.
 * Nodes that call Python (handles, methods, modules, attributes) need a host; without one making the plan fails. A get_attr
 * of a child of the graph yields a function (a handle) that runs a plan of its own.
 * Fails: what the ops say, naming nothing else; TP_ERR_TYPE when the count of inputs is wrong. */
#ifndef TP_IR_RUN_H
#define TP_IR_RUN_H

#include "ir/graph.h"

typedef struct tp_plan tp_plan;

/* What a program with Python lends: calls of what is no op. Results are owned by the caller. */
typedef struct tp_run_host {
    void *owner;                    /* borrowed: the module that get_attr and call_module look into */
    bool  fixed;                    /* attributes are read once, when the plan is made */
    bool (*attribute)(void *owner, const char *path, tp_value *out);
    bool (*call)(tp_handle *callable, const tp_value *arg, uint32_t arg_count, uint32_t keyword_count, tp_value *out);
    bool (*builtin)(const tp_builtin *f, const tp_value *arg, tp_value *out);   /* on tensors, slices, objects */
    bool (*method)(const char *name, const tp_value *arg, uint32_t arg_count, uint32_t keyword_count, tp_value *out);
    bool (*module)(void *owner, const char *path, const tp_value *arg, uint32_t arg_count, uint32_t keyword_count, tp_value *out);
} tp_run_host;

TP_API TP_CHECK tp_plan *tp_plan_new(tp_graph *g, const tp_run_host *host);     /* host: copied, may be NULL */
/* A graph as a function: a handle whose `call` runs it. Counts the graph. */
TP_API TP_CHECK bool tp_graph_function(tp_graph *g, const tp_run_host *host, tp_value *out);
/* From now on arguments of ops are checked before each call, in the functions of children too: the graph came from a file. */
TP_API void tp_plan_check_args(tp_plan *p);
TP_API void tp_plan_free(tp_plan *p);                                           /* NULL is fine */
TP_API uint32_t tp_plan_input_count(const tp_plan *p);
/* Inputs are borrowed, one for each placeholder. The result is what the output node holds: a tuple or list of values, or
 * one value; owned by the caller. */
TP_API TP_CHECK bool tp_plan_run(const tp_plan *p, const tp_value *input, uint32_t count, tp_value *result);
/* The same, filling `results` item by item when the output is a tuple or list of `result_count` values. */
TP_API TP_CHECK bool tp_plan_run_into(const tp_plan *p, const tp_value *input, uint32_t count, tp_value *results,
                                      uint32_t result_count);

#endif
