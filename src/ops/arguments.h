/* arguments.h - do values fit the arguments of an op? Python's parser and our own writers see to it; who runs a graph that came from
 * a file, which may put a number where a kernel expects the address of a tensor, has to ask. */
#ifndef TP_OPS_ARGUMENTS_H
#define TP_OPS_ARGUMENTS_H

#include "ops/op.h"

/* `arg` has op->arg_count values, no nodes among them. Fails: TP_ERR_RUNTIME, in PyTorch's words. */
TP_API TP_CHECK bool tp_op_check_args(const tp_op *op, const tp_value *arg);

#endif
