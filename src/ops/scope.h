/* scope.h - what a formula over tensors makes on its way.
 *
 *     tp_scope s;
 *     tp_scope_start(&s);
 *     tp_value e = tp_scope_on(&s, &tp_op_exp, &x);
 *     tp_value d = tp_scope_on(&s, &tp_op_mul_Tensor, &g, &e);
 *     tp_scope_keep(&s, &result[0], d);
 *     return tp_scope_end(&s);
 *
 * The scope owns every value made through it until tp_scope_end. It is sticky: after the first failure calls do nothing
 * and give none or NULL, which all of emit.h accepts, so a formula reads like its entry and looks once, at the end.
 * When it failed, tp_scope_end also takes back what was kept. */
#ifndef TP_OPS_SCOPE_H
#define TP_OPS_SCOPE_H

#include "ops/op.h"
#include "ops/hooks.h"

enum { TP_SCOPE_INLINE = 24, TP_SCOPE_KEPT = 16 };

typedef struct tp_scope {
    bool      failed;
    uint32_t  count, room, kept_count;
    tp_value *more;             /* owned: values beyond the inline ones */
    tp_value  item[TP_SCOPE_INLINE];
    tp_value *kept[TP_SCOPE_KEPT];
} tp_scope;

static inline void tp_scope_start(tp_scope *s)
{
    s->failed = false;
    s->count = s->room = s->kept_count = 0;
    s->more = NULL;
}

/* Calls an op; the first result (none when it has none), borrowed from the scope. `arg` must have op->arg_count values. */
tp_value tp_scope_call(tp_scope *s, const tp_op *op, const tp_value *arg);
/* The same with the address of each argument in its place, TP_DEFAULT for the schema's default: what generated code says, for
 * it is half as long. */
tp_value tp_scope_on(tp_scope *s, const tp_op *op, ...);
tp_value tp_scope_all_on(tp_scope *s, const tp_op *op, ...);    /* all results, as a list that the scope owns */
#define TP_DEFAULT ((const tp_value *)NULL)
__attribute__((visibility("hidden"))) extern const tp_value tp_value_none, tp_value_true, tp_value_false, tp_value_0, tp_value_1,
    tp_value_minus_1;
tp_tensor *tp_scope_tensor(tp_scope *s, const tp_op *op, const tp_value *arg);
/* The same from the first `count` arguments; the rest are the schema's defaults. What CALL of rules/rules.h stands for. */
tp_value tp_rule_call(tp_scope *s, const tp_op *op, size_t count, const tp_value *arg);
/* All results, as a list that the scope owns. */
tp_value tp_scope_call_all(tp_scope *s, const tp_op *op, const tp_value *arg);
/* A piece of a formula that is written in C (`c tp_d_x(…)`): its one result, borrowed from the scope. */
tp_value tp_scope_piece(tp_scope *s, tp_open_fn *piece, const tp_value *arg);
/* A list of sizes that is computed in C (`c tp_s_x(…)`). */
tp_syms tp_scope_sizes(tp_scope *s, bool (*piece)(const tp_value *arg, tp_syms *out), const tp_value *arg);
/* Hands a value to the scope: it will be released. Gives it back, borrowed. */
tp_value tp_scope_own(tp_scope *s, tp_value v);
/* A list of these values. */
tp_value tp_scope_list(tp_scope *s, uint32_t count, const tp_value *item);
tp_value tp_scope_text(tp_scope *s, const char *text);
/* An owned copy of the value for the caller, written to *to; taken back if the scope fails later. */
void tp_scope_keep(tp_scope *s, tp_value *to, tp_value v);
bool tp_scope_end(tp_scope *s);

/* A list under construction. Zeroed it is empty; tp_scope_values ends it: the list is the scope's. */
typedef struct tp_values {
    tp_value *item;             /* owned, and the values in it */
    size_t    count, room;
} tp_values;
void tp_values_add(tp_scope *s, tp_values *l, tp_value v);
void tp_values_join(tp_scope *s, tp_values *l, tp_value list);
tp_value tp_scope_values(tp_scope *s, tp_values *l);

tp_value tp_scope_fail(tp_scope *s, tp_err kind, const char *text);
/* An op that no file defines: the formula fails, naming it. */
tp_value tp_scope_missing(tp_scope *s, const char *name);

/* ---- what formulas say ---- */
tp_tensor *tp_scope_to_dtype(tp_scope *s, tp_tensor *t, tp_dtype d);        /* itself when it has the type */
tp_tensor *tp_scope_to_options(tp_scope *s, tp_tensor *t, tp_dtype d, tp_device device);    /* the same, layout and device named too */
tp_tensor *tp_scope_sum_to(tp_scope *s, tp_tensor *t, const tp_syms *sizes);
tp_value   tp_scope_conj(tp_scope *s, tp_value v);                          /* of a tensor or a number; itself when it is real */
tp_value   tp_scope_sum(tp_scope *s, tp_value a, tp_value b);               /* none counts as zero */
tp_value   tp_scope_geometry(tp_scope *s, const tp_tensor *t);              /* [sizes, strides, offset] */
tp_syms    tp_scope_result_strides(tp_scope *s, const tp_op *op, const tp_value *arg);  /* of a view's result */
/* The gradient of a result, zeros when it is undefined. */
tp_value   tp_scope_gradient(tp_scope *s, const tp_backward *b, int result);
/* The n-th of several results becomes the gradient of an argument, if that is wanted. */
void       tp_scope_keep_wanted(tp_scope *s, tp_backward *b, int arg, tp_value results, int n);
/* The tangent of an argument, zeros when it has none. */
tp_value   tp_scope_tangent(tp_scope *s, const tp_value *arg, const tp_value *tangent, int i);
/* Of a list of sizes that was saved. */
tp_sym tp_sizes_at(tp_value sizes, int64_t i, bool *bad);
tp_sym tp_sizes_product(tp_value sizes);

/* An op that has no way to run yet says so. */
bool tp_run_missing(const tp_op *op, const tp_value *arg, tp_value *result);

/* ---- openings and rules that need no formula ---- */
bool tp_open_variant(const tp_op *op, const tp_value *arg, tp_value *result);   /* in-place and out twins of composites */
/* A result, or a list of them, into what an out form was given for it. */
void tp_scope_copy_out(tp_scope *s, const tp_op *op, tp_value to, tp_value from);

/* Forward mode. Linear in all that is differentiated: the op itself, of the tangents. */
bool tp_jvp_linear(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out);
/* Linear in these arguments together: tangents, or zero, in their places; the others stay. */
bool tp_jvp_linear_in(const tp_op *op, uint64_t together, const tp_value *arg, const tp_value *tangent, tp_value *out);
/* Linear in each of these arguments: the product rule. */
bool tp_jvp_product(const tp_op *op, uint64_t each, const tp_value *arg, const tp_value *tangent, tp_value *out);
/* Element-wise: the Jacobian is diagonal, so what the gradient's formula makes of a gradient it makes of a tangent. */
bool tp_jvp_diagonal(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out);
/* A reduction: each row of the Jacobian is the gradient of one element, so the sum of gradient times tangent over what is reduced. */
bool tp_jvp_rows(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out);
/* The result does not depend on what is differentiated. */
bool tp_jvp_zero(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out);
/* What op->gradient->save lists of a finished call: the scope's. */
tp_value tp_scope_saved(tp_scope *s, const tp_op *op, const tp_value *arg, const tp_value *result);

#endif
