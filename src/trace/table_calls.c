/* table_calls.c - gradients, tangents and batches of a call as calls themselves, so that whoever records a call can record these.
 *
 * What they need beside the arguments (a gradient that comes in, a direction, other members) is made of them by ops, and so has the right
 * size wherever a graph is run. */
#include "gen/ops.h"
#include "grad/tape.h"
#include "trace/jvp_level.h"
#include "trace/table.h"
#include "trace/vmap_level.h"

enum { MOST_INPUTS = 8, MEMBERS = 3 };

/* The list, taken, as the first result of the op; the others are none. */
static bool give(const tp_op *op, tp_list *list, bool ok, tp_value *result)
{
    for (int i = 1; i < op->result_count; i++)
        result[i] = tp_none();
    result[0] = list ? tp_of_list(list) : tp_none();
    if (!ok)
        tp_value_unref(result[0]);
    return ok;
}

/* Some tensor of the same size and type. Owned; none: an error is set. */
static tp_value seed_of(tp_value like)
{
    tp_value plain = tp_none(), seed = tp_none();
    if (tp_call(&tp_op_detach, &like, &plain) && !tp_call(&tp_op_cos, &plain, &seed))
        seed = tp_none();
    tp_value_unref(plain);
    return seed;
}

static bool is_float(tp_value v)
{
    return v.tag == TP_TENSOR && tp_dtype_is_float((tp_dtype)v.tensor->dtype);
}

/* ---- gradients ---- */
/* Inputs that may have a gradient, their edges counted; false: an error is set. */
static bool want_gradients(const tp_op *op, const tp_value *arg, tp_edge *input, size_t *count)
{
    for (int i = 0; i < op->arg_count; i++) {
        if (!is_float(arg[i]) || *count == MOST_INPUTS)
            continue;
        if (!tp_set_requires_grad(arg[i].tensor, true) || !tp_gradient_edge(arg[i].tensor, &input[(*count)++]))
            return false;
    }
    return *count > 0 || tp_fail(TP_ERR_RUNTIME, "no input to have a gradient of");
}

bool tp_table_call_back(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_edge root[8] = { { NULL, 0 } }, input[MOST_INPUTS] = { { NULL, 0 } };
    tp_value made[8] = { 0 }, seed[8] = { 0 };
    size_t roots = 0, inputs = 0;
    tp_list *gradients = NULL;
    bool called = op->result_count && want_gradients(op, arg, input, &inputs) && tp_call(op, arg, made), ok = called;
    for (int i = 0; ok && i < op->result_count; i++)
        if (made[i].tag == TP_TENSOR && tp_requires_grad(made[i].tensor)) {
            seed[roots] = seed_of(made[i]);
            ok = !tp_is_none(seed[roots]) && tp_gradient_edge(made[i].tensor, &root[roots]);
            roots++;
        }
    ok = ok && (roots || tp_fail(TP_ERR_RUNTIME, "no result has a gradient")) && (gradients = tp_list_new(inputs));
    ok = ok && tp_backward_run(&(tp_backward_request){ .root = root, .gradient = seed, .root_count = roots, .input = input, .input_count = inputs,
                                                      .captured = gradients->item });
    for (size_t i = 0; i < TP_COUNT(root); i++)
        tp_grad_node_unref(root[i].node);
    for (size_t i = 0; i < TP_COUNT(input); i++)
        tp_grad_node_unref(input[i].node);
    tp_values_unref(seed, roots);
    if (called)
        tp_values_unref(made, op->result_count);
    return give(op, gradients, ok, result);
}

/* ---- levels ---- */

/* Arguments of which some are replaced: `in` is owned, as `made`, the results of the call. */
typedef struct level_call {
    tp_value in[TP_SAMPLES_ARGS], made[8];
    bool     called;
} level_call;

static void level_call_fini(level_call *c, const tp_op *op)
{
    tp_values_unref(c->in, op->arg_count);
    if (c->called)
        tp_values_unref(c->made, op->result_count);
}

/* What `show` says of each result that is a tensor. */
typedef tp_tensor *shower(void *level, tp_tensor *t, bool *ok);
static bool show_results(const tp_op *op, const level_call *c, shower *show, void *level, tp_value *result)
{
    tp_list *shown = tp_list_new(op->result_count);
    bool ok = shown;
    for (int i = 0; ok && i < op->result_count; i++)
        if (c->made[i].tag == TP_TENSOR)
            shown->item[i] = tp_of_tensor(show(level, c->made[i].tensor, &ok));
    return give(op, shown, ok, result);
}

static tp_tensor *tangent_of(void *level, tp_tensor *t, bool *ok)
{
    tp_tensor *tangent = NULL;
    *ok = tp_jvp_level_tangent(level, t, &tangent);
    return tangent;
}

static tp_value with_tangent(tp_jvp_level *l, tp_value v)
{
    tp_value seed = is_float(v) ? seed_of(v) : tp_none();
    tp_value dual = is_float(v) ? tp_is_none(seed) ? seed : tp_of_tensor(tp_jvp_level_wrap(l, v.tensor, seed.tensor)) : tp_value_ref(v);
    tp_value_unref(seed);
    return dual;
}

bool tp_table_call_forward(const tp_op *op, const tp_value *arg, tp_value *result)
{
    level_call c = { 0 };
    tp_jvp_level *l = tp_jvp_level_new(true);
    bool ok = l && op->result_count, moves = false;
    for (int i = 0; ok && i < op->arg_count; i++) {
        moves |= is_float(arg[i]);
        ok = (c.in[i] = with_tangent(l, arg[i])).tag == arg[i].tag;
    }
    if (ok && (ok = moves || tp_fail(TP_ERR_RUNTIME, "no input to move"))) {
        tp_jvp_level_enter(l);
        ok = c.called = tp_call(op, c.in, c.made);
        tp_jvp_level_leave(l);
    }
    ok = ok && show_results(op, &c, tangent_of, l, result);
    level_call_fini(&c, op);
    tp_jvp_level_free(l);
    return ok;
}

static tp_tensor *batch_of(void *level, tp_tensor *t, bool *ok)
{
    tp_tensor *batch = tp_vmap_level_unwrap(level, t, 0);
    *ok = batch;
    return batch;
}

static tp_value with_members(const tp_vmap_level *l, tp_value v)
{
    tp_value members = tp_none(), arg[2] = { tp_none(), tp_int(0) };
    if (v.tag != TP_TENSOR)
        return tp_value_ref(v);
    tp_list *list = tp_list_new(MEMBERS);
    for (int i = 0; list && i < MEMBERS; i++)
        list->item[i] = tp_value_ref(v);
    arg[0] = list ? tp_of_list(list) : tp_none();
    bool ok = list && tp_call(&tp_op_stack, arg, &members);
    tp_value_unref(arg[0]);
    tp_value batch = ok ? tp_of_tensor(tp_vmap_level_wrap(l, members.tensor, 0)) : tp_none();
    if (ok)
        tp_value_unref(members);
    return batch;
}

bool tp_table_call_batched(const tp_op *op, const tp_value *arg, tp_value *result)
{
    level_call c = { 0 };
    tp_vmap_level *l = tp_vmap_level_new(tp_sym_int(MEMBERS), TP_RANDOM_SAME);
    bool ok = l && op->result_count;
    for (int i = 0; ok && i < op->arg_count; i++)
        ok = (c.in[i] = with_members(l, arg[i])).tag == arg[i].tag;
    if (ok) {
        tp_vmap_level_enter(l);
        ok = c.called = tp_call(op, c.in, c.made);
        tp_vmap_level_leave(l);
    }
    ok = ok && show_results(op, &c, batch_of, l, result);
    level_call_fini(&c, op);
    tp_vmap_level_free(l);
    return ok;
}
