/* scatter.c - gradients of scatter_reduce and index_reduce: one formula, over an index for every element or one along a dim.
 *
 *     (g, self, dim, index, src, reduce, include_self, result) -> [gradient of self, gradient of src]
 *
 * Both are made together because they share counts and masks, and graphs show each of these once. */
#include "ops/rules/rules.h"

/* The ops that read and write through the index. */
typedef struct through {
    const tp_op *read, *add, *reduce, *clear;
    tp_value dim, index, include_self;
    bool along;                         /* one index along a dim */
} through;

static const through by_element = { .read = &tp_op_gather, .add = &tp_op_scatter_add, .reduce = &tp_op_scatter_reduce_two,
                                    .clear = &tp_op_scatter_value };
static const through by_row = { .read = &tp_op_index_select, .add = &tp_op_index_add, .reduce = &tp_op_index_reduce,
                                .clear = &tp_op_index_fill_int_Scalar, .along = true };

static tp_value read_back(tp_scope *s, const through *t, tp_value x)
{
    return tp_rule_call(s, t->read, 3, (tp_value[]){ x, t->dim, t->index });
}

static tp_value add_up(tp_scope *s, const through *t, tp_value to, tp_value x)
{
    return tp_rule_call(s, t->add, 4, (tp_value[]){ to, t->dim, t->index, x });
}

static tp_value multiply_up(tp_scope *s, const through *t, tp_value to, tp_value x)
{
    return tp_rule_call(s, t->reduce, 6, (tp_value[]){ to, t->dim, t->index, x, tp_scope_text(s, "prod"), t->include_self });
}

static tp_value as_numbers(tp_scope *scope, tp_value mask, tp_value like)
{
    return scope->failed ? tp_none() : RUN(_to_copy, mask, tp_of_dtype((tp_dtype)like.tensor->dtype));
}

/* How many elements came to each place, at least 1. */
static void of_mean(tp_scope *scope, const through *t, tp_value g, tp_value src, tp_value out[2])
{
    tp_value start = tp_as_bool(t->include_self) ? RUN(ones_like, g) : RUN(zeros_like, g);
    tp_value count = add_up(scope, t, start, RUN(ones_like, src));
    count = RUN(masked_fill__Scalar, count, RUN(eq_Scalar, count, tp_int(0)), tp_int(1));
    out[0] = RUN(div_Tensor, g, count);
    tp_value own = read_back(scope, t, count);
    out[1] = RUN(div_Tensor, read_back(scope, t, g), own);
}

/* The gradient is shared evenly by all elements equal to the result. */
static void of_extreme(tp_scope *scope, const through *t, tp_value g, tp_value self, tp_value src, tp_value made, tp_value out[2])
{
    tp_value chosen = read_back(scope, t, made);
    tp_value own = as_numbers(scope, RUN(eq_Tensor, self, made), self), theirs = as_numbers(scope, RUN(eq_Tensor, src, chosen), src);
    tp_value share = RUN(div_Tensor, g, add_up(scope, t, own, theirs));
    out[0] = RUN(mul_Tensor, t->along ? own : RUN(eq_Tensor, self, made), share);
    tp_value part = read_back(scope, t, share);
    out[1] = RUN(mul_Tensor, t->along ? theirs : RUN(eq_Tensor, src, chosen), part);
}

/* A place whose only zero is this element gets the product of the others, else the result divided by the element. */
static void of_product(tp_scope *scope, const through *t, tp_value g, tp_value self, tp_value src, tp_value made, tp_value out[2])
{
    tp_value filled = RUN(masked_fill_Scalar, self, RUN(eq_Scalar, self, tp_int(0)), tp_int(1));
    out[0] = RUN(div_Tensor, RUN(mul_Tensor, g, multiply_up(scope, t, filled, src)), filled);
    tp_value zero = RUN(eq_Scalar, src, tp_int(0)), none = RUN(zeros_like, self);
    tp_value zeros = read_back(scope, t, add_up(scope, t, none, as_numbers(scope, zero, self)));
    tp_value lone = RUN(bitwise_and_Tensor, zero, RUN(eq_Scalar, zeros, tp_int(1)));
    tp_value others = multiply_up(scope, t, self, RUN(masked_fill_Scalar, src, lone, tp_int(1)));
    tp_value divisor = RUN(masked_fill_Scalar, src, zero, tp_int(1));
    tp_value quotient = RUN(div_Tensor, read_back(scope, t, RUN(mul_Tensor, g, made)), divisor);
    out[1] = RUN(where_self, lone, read_back(scope, t, RUN(mul_Tensor, g, others)), quotient);
}

static bool backward(through t, const tp_value *arg, tp_value *result)
{
    tp_scope s = { 0 }, *scope = &s;
    tp_value g = arg[0], self = arg[1], src = arg[4], out[2] = { arg[0], tp_none() };
    const char *reduce = arg[5].string->text;
    t.dim = arg[2];
    t.index = arg[3];
    t.include_self = arg[6];
    if (strcmp(reduce, "sum") == 0)
        out[1] = read_back(&s, &t, g);
    else if (strcmp(reduce, "mean") == 0)
        of_mean(&s, &t, g, src, out);
    else if (strcmp(reduce, "prod") == 0)
        of_product(&s, &t, g, self, src, arg[7], out);
    else
        of_extreme(&s, &t, g, self, src, arg[7], out);
    if (!tp_as_bool(t.include_self))
        out[0] = tp_rule_call(scope, t.clear, 4, (tp_value[]){ out[0], t.dim, t.index, tp_int(0) });
    return tp_rule_done(&s, tp_scope_list(&s, 2, out), result);
}

TP_HOOK_D(tp_d_scatter_reduce_backward)
{
    (void)op;
    return backward(by_element, arg, result);
}

TP_HOOK_D(tp_d_index_reduce_backward)
{
    (void)op;
    return backward(by_row, arg, result);
}
