/* transposed.c - forward mode from reverse mode: what the gradient's formula makes of u is linear in u, and the gradient of that
 * along the tangent v is J v.
 *
 *     w = J* u           the formula of the gradient, in a level of its own so that it can be differentiated by u
 *     J v = d<w, v>/du
 *
 * For ops whose tangent has no shorter formula; needs formulas that can be differentiated again, which all of them are. */
#include "gen/ops.h"
#include "grad/tape.h"
#include "ops/scope.h"
#include "trace/grad_level.h"

enum { MOST_ARGS = 64, MOST_RESULTS = 16 };

static tp_tensor *leaf(tp_scope *s, tp_grad_level *l, tp_value like)
{
    tp_value zero = tp_rule_call(s, &tp_op_zeros_like, 1, &like);
    tp_tensor *u = s->failed ? NULL : tp_grad_level_wrap(l, zero.tensor);
    if (u)
        (void)tp_scope_own(s, tp_of_tensor(u));
    s->failed |= !u || !tp_set_requires_grad(u, true);
    return u;
}

static bool no_zeros(const tp_backward *b, int result, tp_value *out)
{
    const tp_value *u = b->node;
    return u[result].tag == TP_TENSOR && tp_call(&tp_op_zeros_like, (tp_value[]){ u[result], tp_none(), tp_none(), tp_none(), tp_none(), tp_none() }, out);
}

/* One root for each gradient that depends on u and meets a tangent. */
static size_t roots_of(tp_scope *s, tp_grad_level *l, const tp_op *op, const tp_value *grad, const tp_value *tangent, tp_edge *root, tp_value *seed)
{
    size_t count = 0;
    for (int i = 0; i < op->arg_count && !s->failed; i++) {
        if (grad[i].tag != TP_TENSOR || tangent[i].tag != TP_TENSOR || !tp_requires_grad(grad[i].tensor))
            continue;
        /* What a formula gives for an argument that was broadcast is not summed yet. */
        tp_value sizes = tp_scope_own(s, tp_save_describe(TP_SAVE_SIZES, grad[i]));
        tp_value wide = tp_rule_call(s, &tp_op_expand, 2, (tp_value[]){ tangent[i], sizes });
        tp_tensor *v = s->failed ? NULL : tp_grad_level_wrap(l, wide.tensor);
        seed[count] = tp_none();
        if (v)
            seed[count] = tp_scope_own(s, tp_of_tensor(v));
        s->failed |= !v || !tp_gradient_edge(grad[i].tensor, &root[count]);
        count += !s->failed;
    }
    return count;
}

/* Inside the level. `create`: somebody outside records what happens here. */
static void differentiate(tp_scope *s, tp_grad_level *l, const tp_op *op, tp_value saved, const tp_value *u, const tp_value *tangent, bool create,
                          tp_value *found)
{
    tp_value grad[MOST_ARGS], seed[MOST_ARGS];
    tp_edge root[MOST_ARGS], input[MOST_RESULTS] = { { NULL, 0 } };
    size_t inputs = 0;
    uint64_t wanted = 0;
    for (int i = 0; i < op->arg_count; i++) {
        grad[i] = tp_none();
        wanted |= (uint64_t)(tangent[i].tag == TP_TENSOR) << i;
    }
    tp_backward b = { .op = op, .saved = saved.list->item, .g = u, .wanted = wanted & op->differentiable, .grad = grad, .zeros = no_zeros, .node = (void *)u };
    s->failed |= !op->gradient->backward(&b);
    for (int i = 0; i < op->arg_count && !s->failed; i++)
        (void)tp_scope_own(s, grad[i]);
    size_t roots = roots_of(s, l, op, grad, tangent, root, seed);
    for (int i = 0; i < op->result_count && !s->failed; i++)
        if (u[i].tag == TP_TENSOR)
            s->failed |= !tp_gradient_edge(u[i].tensor, &input[inputs++]);
    s->failed |= !s->failed && roots && !tp_backward_run(&(tp_backward_request){ .root = root, .gradient = seed, .root_count = roots, .input = input,
                                                          .input_count = inputs, .captured = found, .create_graph = create });
    for (size_t i = 0; i < roots; i++)
        tp_grad_node_unref(root[i].node);
    for (size_t i = 0; i < inputs; i++)
        tp_grad_node_unref(input[i].node);
}

TP_HOOK_J(tp_j_transposed)
{
    tp_scope s;
    tp_value u[MOST_RESULTS], found[MOST_RESULTS];
    tp_grad_level *l = tp_grad_level_new();
    if (!l)
        return false;
    tp_scope_start(&s);
    tp_value saved = tp_scope_saved(&s, op, arg, result);
    for (int i = 0; i < op->result_count; i++) {
        const tp_tensor *r = tp_as_tensor(result[i]);       /* empty where a call did not ask for it */
        bool counts = r && r->numel && tp_dtype_is_inexact((tp_dtype)r->dtype) && !(op->gradient->nondifferentiable_results >> i & 1);
        tp_tensor *t = counts ? leaf(&s, l, result[i]) : NULL;
        u[i] = t ? tp_of_tensor(t) : tp_none();
        found[i] = tp_none();
    }
    if (!s.failed) {
        bool create = tp_self.grad_mode;
        tp_grad_level_enter(l);
        differentiate(&s, l, op, saved, u, tangent, create, found);
        tp_grad_level_leave(l);
    }
    for (int i = 0, at = 0; i < op->result_count; i++) {
        tp_value v = u[i].tag == TP_TENSOR ? tp_scope_own(&s, found[at++]) : tp_none();
        if (!s.failed && v.tag == TP_TENSOR)
            tp_scope_keep(&s, &out[i], tp_scope_own(&s, tp_of_tensor(tp_grad_level_unwrap(l, v.tensor))));
    }
    bool ok = tp_scope_end(&s);
    tp_grad_level_free(l);
    return ok;
}
