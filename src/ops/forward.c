/* forward.c - rules of forward mode that need no formula of their own.
 *
 * An op that is linear is applied to the tangents; an element-wise one uses the formula of its gradient, run on what a call
 * would have saved for it. */
#include <string.h>

#include "gen/ops.h"
#include "ops/scope.h"
#include "ops/symbolic.h"

enum { MOST_ARGS = 64, MOST_RESULTS = 16 };

/* ---- what a call saves ---- */

/* The sizes or strides of a tensor, expressions where they are. */
static tp_value numbers_of(const tp_tensor *t, bool strides)
{
    if (TP_LIKELY(!tp_tensor_is_symbolic(t)))
        return tp_value_ints(strides ? t->stride : t->size, t->ndim);
    tp_list *l = tp_list_new(t->ndim);
    for (int i = 0; l && i < t->ndim; i++)
        l->item[i] = tp_of_sym(strides ? tp_tensor_sym_stride(t, i) : tp_tensor_sym_size(t, i));
    return l ? tp_of_list(l) : tp_none();
}

tp_value tp_save_describe(uint8_t what, tp_value v)
{
    if (v.tag == TP_LIST) {
        tp_list *all = tp_list_new(v.list->count);
        for (uint32_t i = 0; all && i < all->count; i++) {
            all->item[i] = tp_save_describe(what, v.list->item[i]);
            if (all->item[i].tag == TP_NONE && v.list->item[i].tag != TP_NONE) {
                tp_value_unref(tp_of_list(all));
                all = NULL;
            }
        }
        return all ? tp_of_list(all) : tp_none();
    }
    const tp_tensor *t = tp_as_tensor(v);
    if (!t)
        return tp_none();
    switch (what) {
    case TP_SAVE_SIZES:   return numbers_of(t, false);
    case TP_SAVE_STRIDES: return numbers_of(t, true);
    case TP_SAVE_DTYPE:   return tp_of_dtype((tp_dtype)t->dtype);
    case TP_SAVE_OPTIONS: {
        tp_list *l = tp_list_new(4);
        if (!l)
            return tp_none();
        l->item[0] = tp_of_dtype((tp_dtype)t->dtype);
        l->item[1] = (tp_value){ .tag = TP_LAYOUT };
        l->item[2] = tp_of_device(t->device);
        return tp_of_list(l);
    }
    default: {
        tp_list *l = tp_list_new(3);
        if (!l)
            return tp_none();
        l->item[0] = numbers_of(t, false);
        l->item[1] = numbers_of(t, true);
        l->item[2] = tp_of_sym(tp_tensor_sym_offset(t));
        if (l->item[0].tag == TP_LIST && l->item[1].tag == TP_LIST)
            return tp_of_list(l);
        tp_value_unref(tp_of_list(l));
        return tp_none();
    }
    }
}

tp_value tp_scope_saved(tp_scope *s, const tp_op *op, const tp_value *arg, const tp_value *result)
{
    tp_values all = { 0 };
    for (int i = 0; i < op->gradient->save_count; i++) {
        const tp_save *save = &op->gradient->save[i];
        tp_values_add(s, &all, save->what == TP_SAVE_ARG ? arg[save->index] : save->what == TP_SAVE_RESULT ? result[save->index]
                                                         : tp_scope_own(s, tp_save_describe(save->what, arg[save->index])));
    }
    return tp_scope_values(s, &all);
}

/* ---- linear ops ---- */
static void keep_all(tp_scope *s, const tp_op *op, tp_value all, tp_value *out)
{
    for (int i = 0; i < op->result_count; i++)
        if (!(op->gradient->nondifferentiable_results >> i & 1))
            tp_scope_keep(s, &out[i], s->failed ? tp_none() : all.list->item[i]);
}

static tp_value zeros_like(tp_scope *s, tp_value t)
{
    return tp_rule_call(s, &tp_op_zeros_like, 1, &t);
}

static tp_value zero_for(tp_scope *s, const tp_value *arg, int i)
{
    if (arg[i].tag == TP_NONE || arg[i].tag == TP_TENSOR)
        return arg[i].tag == TP_TENSOR ? zeros_like(s, arg[i]) : arg[i];
    if (arg[i].tag != TP_LIST)          /* a number, in a Scalar's or a Tensor's slot */
        return tp_int(0);
    tp_values all = { 0 };
    for (uint32_t k = 0; k < arg[i].list->count; k++)
        tp_values_add(s, &all, arg[i].list->item[k].tag == TP_TENSOR ? zeros_like(s, arg[i].list->item[k]) : arg[i].list->item[k]);
    return tp_scope_values(s, &all);
}

bool tp_jvp_linear_in(const tp_op *op, uint64_t together, const tp_value *arg, const tp_value *tangent, tp_value *out)
{
    tp_scope s;
    tp_value changed[MOST_ARGS];
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++)
        if (together >> i & 1)
            changed[i] = tangent[i].tag != TP_NONE ? tangent[i] : zero_for(&s, arg, i);
    keep_all(&s, op, tp_scope_call_all(&s, op, changed), out);
    return tp_scope_end(&s);
}

bool tp_jvp_linear(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out)
{
    (void)result;
    return tp_jvp_linear_in(op, op->differentiable, arg, tangent, out);
}

bool tp_jvp_product(const tp_op *op, uint64_t each, const tp_value *arg, const tp_value *tangent, tp_value *out)
{
    tp_scope s;
    tp_value changed[MOST_ARGS], sum = tp_none();
    tp_scope_start(&s);
    memcpy(changed, arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->arg_count; i++) {
        if (!(each >> i & 1) || tangent[i].tag == TP_NONE)
            continue;
        changed[i] = tangent[i];
        sum = tp_scope_sum(&s, sum, tp_scope_call(&s, op, changed));
        changed[i] = arg[i];
    }
    tp_scope_keep(&s, &out[0], sum);
    return tp_scope_end(&s);
}

/* ---- by the formula of the gradient ---- */
static bool no_zeros(const tp_backward *b, int result, tp_value *out)
{
    (void)out;
    return tp_fail(TP_ERR_RUNTIME, "%s: result %d has no tangent", b->op->name, result);
}

/* The gradient of argument i, were g that of the first result. */
static tp_value gradient(tp_scope *s, const tp_op *op, tp_value saved, tp_value g, int i)
{
    tp_value grad[MOST_ARGS], all[MOST_RESULTS];
    if (s->failed)
        return tp_none();
    for (int k = 0; k < op->arg_count; k++)
        grad[k] = tp_none();
    for (int k = 0; k < op->result_count; k++)
        all[k] = k ? tp_none() : g;
    tp_backward b = { .op = op, .saved = saved.list->item, .g = all, .wanted = (uint64_t)1 << i, .grad = grad, .zeros = no_zeros };
    if (!op->gradient->backward(&b)) {
        s->failed = true;
        return tp_none();
    }
    for (int k = 0; k < op->arg_count; k++)
        (void)tp_scope_own(s, grad[k]);
    return grad[i];
}

/* Of complex numbers the formula multiplies with the conjugate of the derivative: conj(f(conj(t))). */
bool tp_jvp_diagonal(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out)
{
    tp_scope s;
    tp_value sum = tp_none();
    tp_scope_start(&s);
    tp_value saved = tp_scope_saved(&s, op, arg, result);
    for (uint64_t left = op->differentiable; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        if (tangent[i].tag == TP_TENSOR)
            sum = tp_scope_sum(&s, sum, tp_scope_conj(&s, gradient(&s, op, saved, tp_scope_conj(&s, tangent[i]), i)));
    }
    tp_scope_keep(&s, &out[0], sum);
    return tp_scope_end(&s);
}

bool tp_jvp_rows(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out)
{
    tp_scope s;
    tp_scope_start(&s);
    int dim = op->work->reducing->dim, keep = op->work->reducing->keepdim;
    tp_value saved = tp_scope_saved(&s, op, arg, result), one = tp_rule_call(&s, &tp_op_ones_like, 1, result);
    tp_value row = tp_scope_conj(&s, gradient(&s, op, saved, one, 0));
    tp_value part = row.tag == TP_TENSOR ? tp_rule_call(&s, &tp_op_mul_Tensor, 2, (tp_value[]){ row, tangent[0] }) : tp_none();
    if (part.tag == TP_TENSOR) {
        tp_value dims = dim < 0 ? tp_none() : op->arg[dim].list ? arg[dim] : tp_scope_list(&s, 1, &arg[dim]);
        tp_value sum = tp_rule_call(&s, &tp_op_sum_dim_IntList, 3, (tp_value[]){ part, dims, keep < 0 ? tp_bool(false) : arg[keep] });
        tp_tensor *t = s.failed ? NULL : tp_scope_to_dtype(&s, sum.tensor, (tp_dtype)result[0].tensor->dtype);
        tp_scope_keep(&s, &out[0], t ? tp_of_tensor(t) : tp_none());
    }
    return tp_scope_end(&s);
}

bool tp_jvp_zero(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out)
{
    tp_scope s;
    (void)arg;
    (void)tangent;
    tp_scope_start(&s);
    for (int i = 0; i < op->result_count; i++)
        if (result[i].tag == TP_TENSOR && tp_dtype_is_inexact((tp_dtype)result[i].tensor->dtype))
            tp_scope_keep(&s, &out[i], zeros_like(&s, result[i]));
    return tp_scope_end(&s);
}
