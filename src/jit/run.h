/* run.h - running a jit function: its graph as a list of steps, each an op called through the dispatcher.
 *
 * Every layer sees the ops, so a run is taped, cast or traced as the same calls from Python would be. The plan is made at
 * the first call and read-only from then on. Arguments are borrowed; the result is owned by the caller.
 * Fails: what the ops say; TP_ERR_RUNTIME when an input lacks what the graph reads from it (a key of a dict). */
#ifndef TP_JIT_RUN_H
#define TP_JIT_RUN_H

#include "jit/module.h"

TP_API TP_CHECK bool tp_jit_run(tp_jit_function *f, const tp_value *arg, uint32_t count, tp_value *result);
void tp_jit_plan_free(tp_jit_plan *p);                      /* NULL is fine */

/* The value of an argument as an op wants it: numbers and words in their own tags. */
tp_value tp_jit_fit(const tp_arg *a, tp_value v);

#endif
