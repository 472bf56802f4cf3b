/* rules.h - what hand-written decompositions and pieces of formulas share.
 *
 * CALL runs an op inside the scope `s` of the function and gives its first result, borrowed from the scope; arguments that
 * are left out at the end are the schema's defaults. After a failure it does nothing, so a rule reads like a formula and
 * looks once, at the end. */
#ifndef TP_OPS_RULES_RULES_H
#define TP_OPS_RULES_RULES_H

#include <string.h>

#include "base/runtime.h"
#include "gen/ops.h"
#include "ops/emit.h"
#include "ops/scope.h"

#define CALL(op, ...) \
    tp_rule_call(&s, &tp_op_##op, sizeof((tp_value[]){ __VA_ARGS__ }) / sizeof(tp_value), (tp_value[]){ __VA_ARGS__ })

/* CALL, in helpers that are handed a scope. */
#define RUN(op, ...) \
    tp_rule_call(scope, &tp_op_##op, sizeof((tp_value[]){ __VA_ARGS__ }) / sizeof(tp_value), (tp_value[]){ __VA_ARGS__ })

/* The gradient of a norm (reductions.c); none where it does not depend on self. */
tp_value tp_rule_norm_gradient(tp_scope *s, tp_value g, tp_value self, tp_value norm, double p, tp_value dims);

/* Are there elements to look at, now and for good? Not of fake tensors, nor below a transform or a tracer. */
static inline bool tp_rule_readable(const tp_tensor *t)
{
    return t->storage->kind != TP_MEMORY_NONE && !t->extra;
}

/* The product of two operands of as many dims, which broadcast, summed over the dims of a mask: einsum's step (einsum.c). */
tp_value tp_rule_sum_product(tp_scope *s, tp_value a, tp_value b, uint64_t sums, bool keep);

/* The tape is above this folder; its key on the tensor says that it may have something to say. */
static inline bool tp_wants_gradient(const tp_tensor *t)
{
    return t && tp_self.grad_mode && (t->keys & TP_LAYER_BIT(TP_LAYER_GRAD)) && tp_the_runtime.requires_grad(t);
}

/* Ends a rule of one result. */
static inline bool tp_rule_done(tp_scope *s, tp_value made, tp_value *result)
{
    if (!s->failed)
        tp_scope_keep(s, &result[0], made);
    return tp_scope_end(s);
}

/* Along `dim`, the product of all other elements: of those before times of those behind. */
tp_value tp_product_of_others(tp_scope *scope, tp_value x, int64_t dim);

#endif
