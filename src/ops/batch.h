/* batch.h - batching rules that many ops share: what the `vmap` column names, and the defaults of the kinds.
 *
 * A rule is handed the arguments of one call; `batched` masks those tensors that have a batch dim, of `size`, at front.
 * Results have it at front, too. Rules call ops through the dispatcher, so levels below see plain ops. */
#ifndef TP_OPS_BATCH_H
#define TP_OPS_BATCH_H

#include "ops/op.h"

/* Operands are brought to one rank behind the batch dim, then broadcasting does the rest. */
bool tp_vmap_pointwise(const tp_op *op, const tp_value *arg, uint64_t batched, int64_t size, tp_value *result);
/* The first argument alone is batched: dims that the arguments of `dims` name move by one. An absent or empty list of dims
 * that stands for all becomes all but the batch dim. Other arguments batched: tp_vmap_loop. */
bool tp_vmap_shift(const tp_op *op, const tp_value *arg, uint64_t batched, int64_t size, tp_value *result, uint64_t dims);
/* Argument `fold` alone is batched: its batch dim is merged into its first dim, and split off the results again. */
bool tp_vmap_fold(const tp_op *op, const tp_value *arg, uint64_t batched, int64_t size, tp_value *result, int fold);
/* One call for each member of the batch; results are stacked. Right for every op that writes nothing. */
bool tp_vmap_loop(const tp_op *op, const tp_value *arg, uint64_t batched, int64_t size, tp_value *result);

#endif
