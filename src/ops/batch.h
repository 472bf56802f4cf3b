/* batch.h - batching rules that many ops share: what the `vmap` column names, and the defaults of the kinds.
 *
 * A rule is handed the arguments of one call; `batched` masks those that have a batch dim, of `size`, at front: tensors, and
 * lists all of whose tensors have it. Results have it at front, too. Rules call ops through the dispatcher, so levels below
 * see plain ops. */
#ifndef TP_OPS_BATCH_H
#define TP_OPS_BATCH_H

#include "ops/op.h"
#include "ops/scope.h"

/* Operands are brought to one rank behind the batch dim, then broadcasting does the rest. */
bool tp_vmap_pointwise(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result);
/* The first argument alone is batched: dims that the arguments of `dims` name move by one. An absent or empty list of dims
 * that stands for all becomes all but the batch dim. Other arguments batched: tp_vmap_loop. */
bool tp_vmap_shift(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result, uint64_t dims);
/* Of the arguments of `folded` the batch dim is merged into the first dim, and split off the results again; a list of sizes
 * among them is changed alike. Other arguments batched: tp_vmap_loop. */
bool tp_vmap_fold(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result, uint64_t folded);
/* All tensors get a batch dim and the op carries it along; dims that the arguments of `dims` name move by one. Members of several ranks: tp_vmap_loop. */
bool tp_vmap_align(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result, uint64_t dims);
/* One call for each member of the batch; results are stacked, writes go to the members. Right for every op but views. */
bool tp_vmap_loop(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result);
/* Sizes depend on data: refused. */
bool tp_vmap_dynamic(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result);

/* ---- random ops, `batched` may be 0 ---- */
/* Numbers of its own for each member, in the order of the whole batch. */
bool tp_vmap_random(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result);
/* The same for an op that only takes the sizes of its first argument: it can also give all members the same numbers. */
bool tp_vmap_draw(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result);
/* One draw for all: the result has no batch dim; in place it is written to all members. */
bool tp_vmap_random_same(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result);

/* The first member, in the batch's storage: the sizes and strides behind the batch dim (of an empty batch, too). No layer
 * but that of fake tensors has a part in it. Counted; NULL: an error is set. */
TP_CHECK tp_tensor *tp_vmap_member(tp_tensor *batch);

/* ---- for rules ---- */
bool tp_vmap_refuse_write(const tp_op *op);                                 /* of a batch into a tensor that has none */
/* The batch dim, then as many ones as are missing to members of `rank`, then the dims the tensor has. */
tp_value tp_vmap_raised(tp_scope *s, tp_value v, int rank);
tp_value tp_vmap_expanded(tp_scope *s, tp_value v, tp_sym size);           /* a tensor without a batch dim gets one, of stride 0 */

#endif
