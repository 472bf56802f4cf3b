/* known.h - ops that C code calls by name though they are defined in *.op files above it.
 *
 * Pieces shared by the engine and hand-written decompositions. tp_call1 is the plain way to call an op with one result. */
#ifndef TP_OPS_KNOWN_H
#define TP_OPS_KNOWN_H

#include "ops/dispatch.h"

extern const tp_op tp_op_add_Tensor, tp_op_add__Tensor, tp_op_sum_dim_IntList, tp_op_view, tp_op__to_copy, tp_op_as_strided,
    tp_op_clone, tp_op_detach, tp_op_ones_like, tp_op_zeros, tp_op_copy_, tp_op_new_empty_strided, tp_op_resize_;

/* Calls an op of one result; `arg` has as many values as given, the rest are the schema's defaults. None: it failed. */
TP_API TP_CHECK bool tp_call1(const tp_op *op, size_t count, const tp_value *arg, tp_value *result);

#endif
