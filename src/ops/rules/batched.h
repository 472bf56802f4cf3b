/* batched.h - what hand-written batching rules share: which arguments have a batch, and giving one to those that have none. */
#ifndef TP_OPS_RULES_BATCHED_H
#define TP_OPS_RULES_BATCHED_H

#include "ops/batch.h"
#include "ops/rules/rules.h"

static inline bool has(uint64_t batched, int i) { return batched >> i & 1; }

/* Of a member of argument `i`, a tensor. */
static inline int rank_of(const tp_value *arg, uint64_t batched, int i)
{
    return (int)tp_dim(tp_as_tensor(arg[i])) - has(batched, i);
}

static inline tp_value with_batch(tp_scope *s, const tp_value *arg, uint64_t batched, int i, tp_sym size)
{
    return has(batched, i) ? arg[i] : tp_vmap_expanded(s, arg[i], size);
}

#endif
