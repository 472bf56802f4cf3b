/* known.h - calling ops by name from C that stands below their definitions: gen/ops.h declares them all. */
#ifndef TP_OPS_KNOWN_H
#define TP_OPS_KNOWN_H

#include "gen/ops.h"
#include "ops/dispatch.h"

/* Calls an op of one result; `arg` has as many values as given, the rest are the schema's defaults. None: it failed. */
TP_API TP_CHECK bool tp_call1(const tp_op *op, size_t count, const tp_value *arg, tp_value *result);

#endif
