/* each.c - ops over lists of tensors: another op, called for each member (`each` in op entries).
 *
 * In place, the other op's in-place form writes each member; an out form, or an op without an in-place form, copies what was
 * made. Lists of numbers go along with the tensors, and so do the elements of a tensor where the other op wants a number.
 * At the end: the functional and out forms of steps that write whole lists. */
#include <string.h>

#include "ops/hooks.h"
#include "ops/known.h"
#include "ops/scope.h"

static bool same_length(const tp_op *op, const tp_value *arg, uint32_t *count)
{
    bool first = true;
    for (int i = 0; i < op->arg_count; i++) {
        if (!op->arg[i].list)
            continue;
        uint32_t length = tp_length(arg[i]);
        if (first)
            *count = length;
        else if (length != *count && op->arg[i].type != TP_TYPE_TENSOR)
            return tp_fail(TP_ERR_RUNTIME, "Tensor list must have same number of elements as scalar list.");
        else if (length != *count)
            return tp_fail(TP_ERR_RUNTIME, "Tensor lists must have the same number of tensors, got %u and %u", *count, length);
        first = false;
    }
    return *count || tp_fail(TP_ERR_RUNTIME, "Tensor list must have at least one tensor.");
}

/* Element `k` of a tensor of numbers. */
static bool number_at(tp_value tensor, uint32_t k, tp_value *out)
{
    tp_value element;
    if (!tp_call1(&tp_op_select_int, 3, (tp_value[]){ tensor, tp_int(0), tp_int(k) }, &element))
        return false;
    bool ok = tp_call1(&tp_op__local_scalar_dense, 1, &element, out);
    tp_value_unref(element);
    return ok;
}

static bool call_one(const tp_op *op, const tp_value *arg, uint32_t k, tp_value *made)
{
    const tp_op *other = op->rare->same_as;
    tp_value given[64], number = tp_none();
    for (int i = 0; i < other->arg_count; i++) {
        int from = op->rare->each[i];
        if (from < 0)
            given[i] = tp_arg_default(&other->arg[i]);
        else if (op->arg[from].list)
            given[i] = arg[from].list->item[k];
        else if (other->arg[i].type != TP_TYPE_SCALAR || arg[from].tag != TP_TENSOR)
            given[i] = arg[from];
        else if (number_at(arg[from], k, &number))
            given[i] = number;
        else
            return false;
    }
    bool ok = tp_call(other, given, made);
    tp_value_unref(number);
    return ok;
}

bool tp_open_each(const tp_op *op, const tp_value *arg, tp_value *result)
{
    uint32_t count = 0;
    if ((op->work->check && !op->work->check(arg)) || !same_length(op, arg, &count))
        return false;
    const tp_list *into = op->variant == TP_OUT ? arg[op->arg_count - 1].list : NULL;
    if (op->variant == TP_INPLACE && op->rare->same_as->variant != TP_INPLACE)
        into = arg[0].list;
    tp_list *all = tp_list_new(count);
    bool ok = all;
    for (uint32_t k = 0; ok && k < count; k++) {
        tp_value copied = tp_none();
        ok = call_one(op, arg, k, &all->item[k]) &&
             (!into || tp_call1(&tp_op_copy_, 2, (tp_value[]){ into->item[k], all->item[k] }, &copied));
        tp_value_unref(copied);
    }
    if (ok && op->result_count)
        *result = tp_of_list(all);
    else if (all)
        tp_value_unref(tp_of_list(all));
    return ok;
}

/* ---- steps that write lists ---- */
static tp_value copies_of(tp_scope *s, tp_value list)
{
    tp_values all = { 0 };
    for (uint32_t k = 0; k < tp_length(list); k++)
        tp_values_add(s, &all, tp_scope_call(s, &tp_op_clone, (tp_value[]){ list.list->item[k], tp_none() }));
    return tp_scope_values(s, &all);
}

/* The step runs on copies of the lists it writes: its functional form gives them all, its out form the first. */
bool tp_open_on_copies(const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_op *step = op->base;
    tp_value changed[64], made[8];
    int written = 0;
    tp_scope s;
    tp_scope_start(&s);
    memcpy(changed, arg, step->arg_count * sizeof *arg);
    for (int i = 0; i < step->arg_count; i++)
        if (step->arg[i].written)
            changed[i] = made[written++] = copies_of(&s, arg[i]);
    tp_scope_call_all(&s, step, changed);
    for (int i = 0; i < op->result_count; i++)
        tp_scope_keep(&s, &result[i], made[i]);
    if (op->variant == TP_OUT)
        tp_scope_copy_out(&s, op, arg[op->arg_count - 1], made[0]);
    return tp_scope_end(&s);
}
