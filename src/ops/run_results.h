/* run_results.h - results laid out by a shape rule, filled by a function, in the variant the op is. */
#ifndef TP_OPS_RUN_RESULTS_H
#define TP_OPS_RUN_RESULTS_H

#include "ops/op.h"

/* Fills the results of the base op; out[i] is NULL where its size depends on data: the function makes it. */
typedef bool tp_fill_fn(const tp_op *op, const tp_value *arg, tp_tensor **out);

TP_CHECK bool tp_run_results(const tp_op *op, const tp_value *arg, tp_fill_fn *fill, tp_value *result);

#endif
