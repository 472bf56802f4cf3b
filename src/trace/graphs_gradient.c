/* graphs_gradient.c - the tape over ops that take functions, while a tracer below it wants them whole.
 *
 *     y = cond(p, f, g, [x])        node CondBackward: x, p, f, g
 *     dx = cond(p, f', g', [x, dy])      f'(x, dy): f again with a tape of its own, run back from dy
 *
 * Tensors with a gradient that a function reads from outside are inputs of the node as operands are; a spy sees them while the
 * function runs. map_impl goes back as map_impl over slices of operands and gradients: what it gives for an operand that all
 * steps share has one gradient a step, which the engine sums. Loops that carry a state have no such rule. */
#include <string.h>

#include "base/array.h"
#include "gen/ops.h"
#include "grad/tape.h"
#include "trace/mount.h"

enum { MOST_ARGS = 8 };
typedef tp_array(tp_tensor *) tensor_list;

/* ---- what functions read from outside ---- */
typedef struct spy {
    tp_mount     mount;
    tensor_list *seen;          /* counted tensors, each once */
    bool         failed;
} spy;

static bool note(tensor_list *l, tp_tensor *t)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->item[i] == t)
            return true;
    if (!tp_array_push(l, t))
        return false;
    tp_tensor_ref(t);
    return true;
}

static bool note_value(tensor_list *l, tp_value v)
{
    if (v.tag == TP_TENSOR)
        return !tp_requires_grad(v.tensor) || note(l, v.tensor);
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (!note_value(l, v.list->item[i]))
            return false;
    return true;
}

static bool spy_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    for (int i = 0; i < op->arg_count; i++)
        if (!note_value(((spy *)(void *)m)->seen, arg[i]))
            return false;
    return tp_mount_next(m, op, arg, result);
}

typedef struct spied {
    tp_handle    head;
    tp_handle   *function;      /* borrowed */
    tensor_list *seen;
} spied;

static bool spied_call(tp_handle *h, const tp_value *arg, uint32_t count, tp_value *out)
{
    const spied *s = (const spied *)(const void *)h;
    spy watching = { .mount.call = spy_call, .seen = s->seen };
    tp_mount_push(&watching.mount, TP_LAYER_TRACE_P);
    bool ok = s->function->type->call(s->function, arg, count, out);
    tp_mount_pop(&watching.mount);
    return ok;
}

static void brief_free(tp_handle *h) { (void)h; }
static bool brief_equal(const tp_handle *a, const tp_handle *b) { return a == b; }
static uint64_t brief_hash(const tp_handle *h) { return (uint64_t)(uintptr_t)h; }
static const tp_handle_type spied_type = { .free = brief_free, .equal = brief_equal, .hash = brief_hash, .call = spied_call, .brief = true };

/* ---- the node ---- */
typedef struct graphs_node {
    tp_grad_node node;
    const tp_op *op;
    uint32_t     operands;      /* tensors and numbers in the lists of `arg`; edges stand for those, then for `captured` */
    tensor_list  captured;
    tp_value     arg[MOST_ARGS];        /* owned */
} graphs_node;

/* A function run back. */
typedef struct reverse {
    tp_handle          head;
    tp_handle         *function;        /* borrowed from the node */
    const graphs_node *node;
    const bool        *given;           /* by slot: is there a gradient? */
    uint32_t           before, gradients;       /* operands before the gradients; how many of those */
} reverse;

static bool wanted(const graphs_node *n, uint32_t edge)
{
    return n->node.edge[edge].node != NULL;
}

static bool zeros_like(const tp_tensor *t, tp_value *out)
{
    tp_value arg[MOST_ARGS];
    for (int i = 0; i < tp_op_zeros_like.arg_count; i++)
        arg[i] = tp_arg_default(&tp_op_zeros_like.arg[i]);
    arg[0] = tp_of_tensor(t);
    return tp_call(&tp_op_zeros_like, arg, out);
}

/* A gradient that is one of those given, or looks into it, as a value of its own: results of functions are no aliases. */
static bool unalias(tp_value *v, const tp_value *g, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (v->tensor->storage == g[i].tensor->storage) {
            tp_value arg[2] = { *v, tp_none() }, copy;
            if (!tp_call(&tp_op_clone, arg, &copy))
                return false;
            tp_value_unref(*v);
            *v = copy;
            return true;
        }
    return true;
}

/* The gradients of `inputs` from those of the results; zeros where a result does not depend on an input. */
static bool run_back(const reverse *r, tp_value results, const tp_value *g, tensor_list *inputs, tp_value *out)
{
    uint32_t count = tp_length(results), roots = 0, at = 0;
    tp_edge *root = tp_alloc_zero((count + 1) * sizeof *root), *input = tp_alloc_zero((inputs->count + 1) * sizeof *input);
    tp_value *seed = tp_alloc_array(count + 1, sizeof *seed);
    tp_list *l = tp_list_new(inputs->count);
    bool ok = root && input && seed && l;
    for (uint32_t i = 0; ok && i < count; i++) {
        if (!r->given[i])
            continue;
        seed[roots] = g[at++];
        tp_tensor *t = tp_as_tensor(results.list->item[i]);
        if (t && (ok = tp_gradient_edge(t, &root[roots])) && root[roots].node)
            roots++;
    }
    for (size_t i = 0; ok && i < inputs->count; i++)
        ok = tp_gradient_edge(inputs->item[i], &input[i]);
    tp_backward_request request = { .root = root, .gradient = seed, .root_count = roots, .input = input, .input_count = inputs->count,
                                    .captured = l ? l->item : NULL };
    ok = ok && (!roots || tp_backward_run(&request));
    for (size_t i = 0; ok && i < inputs->count; i++)
        ok = l->item[i].tag == TP_TENSOR ? unalias(&l->item[i], g, r->gradients) : zeros_like(inputs->item[i], &l->item[i]);
    for (uint32_t i = 0; root && i < count; i++)
        tp_grad_node_unref(root[i].node);
    for (size_t i = 0; input && i < inputs->count; i++)
        tp_grad_node_unref(input[i].node);
    tp_free(root);
    tp_free(input);
    tp_free(seed);
    if (!ok && l)
        tp_value_unref(tp_of_list(l));
    *out = ok ? tp_of_list(l) : tp_none();
    return ok;
}

/* Calls the function with operands that want a gradient, whatever the layers above made of them meanwhile. */
static bool reverse_call(tp_handle *h, const tp_value *arg, uint32_t count, tp_value *out)
{
    const reverse *r = (const reverse *)(const void *)h;
    uint32_t operands = count - r->gradients;
    tp_value *operand = tp_alloc_array(operands + 1, sizeof *operand), results = tp_none();
    tensor_list inputs = { 0 }, raised = { 0 };
    bool ok = operand, grad_mode = tp_self.grad_mode;
    for (uint32_t i = 0; ok && i < operands; i++) {
        operand[i] = arg[i < r->before ? i : i + r->gradients];
        if (!wanted(r->node, i))
            continue;
        tp_tensor *t = operand[i].tensor;
        ok = tp_array_push(&inputs, t) && (tp_requires_grad(t) || (tp_array_push(&raised, t) && tp_set_requires_grad(t, true)));
    }
    for (size_t i = 0; ok && i < r->node->captured.count; i++)
        ok = tp_array_push(&inputs, r->node->captured.item[i]);
    tp_self.grad_mode = true;
    ok = ok && r->function->type->call(r->function, operand, operands, &results);
    tp_self.grad_mode = false;
    ok = ok && run_back(r, results, arg + r->before, &inputs, out);
    tp_self.grad_mode = grad_mode;
    for (size_t i = 0; i < raised.count; i++)
        (void)!tp_set_requires_grad(raised.item[i], false);
    tp_value_unref(results);
    tp_array_fini(&inputs);
    tp_array_fini(&raised);
    tp_free(operand);
    return ok;
}

static const tp_handle_type reverse_type = { .free = brief_free, .equal = brief_equal, .hash = brief_hash, .call = reverse_call, .brief = true };

/* The first list of operands with the gradients that there are behind it. */
static bool with_gradients(tp_value list, const tp_value *g, uint32_t slots, uint32_t gradients, tp_value *out)
{
    tp_list *l = tp_list_new(list.list->count + gradients);
    if (!l)
        return false;
    uint32_t at = 0;
    for (uint32_t i = 0; i < list.list->count; i++)
        l->item[at++] = tp_value_ref(list.list->item[i]);
    for (uint32_t i = 0; i < slots; i++)
        if (g[i].tag == TP_TENSOR)
            l->item[at++] = tp_value_ref(g[i]);
    *out = tp_of_list(l);
    return true;
}

static int first_list(const tp_op *op)
{
    int i = 0;
    while (!op->arg[i].list)
        i++;
    return i;
}

static bool graphs_apply(tp_grad_node *node, const tp_value *g, tp_value *out)
{
    const graphs_node *n = (const graphs_node *)(const void *)node;
    const tp_op *op = n->op;
    int at = first_list(op);
    bool *given = tp_alloc_zero(node->slot_count + 1);
    reverse back[2] = { 0 };
    tp_value arg[MOST_ARGS], result = tp_none();
    uint32_t gradients = 0;
    for (uint32_t i = 0; given && i < node->slot_count; i++)
        gradients += given[i] = g[i].tag == TP_TENSOR;
    memcpy(arg, n->arg, op->arg_count * sizeof *arg);
    for (int i = 0; i < op->rare->graphs->count; i++) {
        tp_value *function = &arg[op->rare->graphs->item[i].arg];
        back[i] = (reverse){ .head.type = &reverse_type, .function = function->handle, .node = n, .given = given,
                             .before = tp_length(arg[at]), .gradients = gradients };
        atomic_init(&back[i].head.refs, 1);
        function->handle = &back[i].head;
    }
    bool ok = given && with_gradients(n->arg[at], g, node->slot_count, gradients, &arg[at]);
    if (ok) {
        ok = tp_call(op, arg, &result);
        tp_value_unref(arg[at]);
    }
    for (uint32_t i = 0, k = 0; ok && i < node->edge_count && k < tp_length(result); i++)
        if (i >= n->operands || wanted(n, i))
            out[i] = tp_value_ref(result.list->item[k++]);
    tp_value_unref(result);
    tp_free(given);
    return ok;
}

static void graphs_free(tp_grad_node *node)
{
    graphs_node *n = (graphs_node *)(void *)node;
    tp_values_unref(n->arg, MOST_ARGS);
    for (size_t i = 0; i < n->captured.count; i++)
        tp_tensor_unref(n->captured.item[i]);
    tp_array_fini(&n->captured);
}

static const char *graphs_name(const tp_grad_node *node)
{
    return strcmp(((const graphs_node *)(const void *)node)->op->name, "cond") == 0 ? "CondAutogradOpBackward" : "MapAutogradOpBackward";
}

static const tp_grad_kind graphs_kind = { .apply = graphs_apply, .free = graphs_free, .name = graphs_name, .undefined_ok = true };

/* ---- recording ---- */
static bool fill_edges(graphs_node *n)
{
    uint32_t at = 0;
    bool ok = true;
    for (int i = 0; i < n->op->arg_count; i++)
        for (uint32_t k = 0; ok && n->op->arg[i].list && k < tp_length(n->arg[i]); k++, at++)
            if (n->arg[i].list->item[k].tag == TP_TENSOR)
                ok = tp_gradient_edge(n->arg[i].list->item[k].tensor, &n->node.edge[at]);
    for (size_t i = 0; ok && i < n->captured.count; i++)
        ok = tp_gradient_edge(n->captured.item[i], &n->node.edge[at++]);
    return ok;
}

static bool attach(graphs_node *n, tp_value results)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < tp_length(results); i++) {
        tp_tensor *t = tp_as_tensor(results.list->item[i]);
        if (t && tp_dtype_is_inexact((tp_dtype)t->dtype))
            ok = tp_slot_describe(&n->node, i, t) && tp_set_history(t, &n->node, i);
    }
    return ok;
}

static uint32_t operand_count(const tp_op *op, const tp_value *arg)
{
    uint32_t count = 0;
    for (int i = 0; i < op->arg_count; i++)
        count += op->arg[i].list ? tp_length(arg[i]) : 0;
    return count;
}

/* The call itself, without a tape; `captured` gets the tensors with a gradient that functions read from outside. */
static bool call_untaped(const tp_op *op, const tp_value *arg, tensor_list *captured, tp_value *result)
{
    spied watched[2] = { 0 };
    tp_value with[MOST_ARGS];
    tensor_list seen = { 0 }, operands = { 0 };
    bool grad_mode = tp_self.grad_mode, ok = true;
    memcpy(with, arg, op->arg_count * sizeof *with);
    for (int i = 0; i < op->rare->graphs->count; i++) {
        tp_value *function = &with[op->rare->graphs->item[i].arg];
        watched[i] = (spied){ .head.type = &spied_type, .function = function->handle, .seen = &seen };
        atomic_init(&watched[i].head.refs, 1);
        function->handle = &watched[i].head;
    }
    for (int i = 0; ok && i < op->arg_count; i++)
        ok = !op->arg[i].list || note_value(&operands, arg[i]);
    tp_self.grad_mode = false;
    ok = ok && tp_call_past(TP_LAYER_GRAD, op, with, result);
    tp_self.grad_mode = grad_mode;
    for (size_t i = 0; ok && i < seen.count; i++) {
        bool known = false;
        for (size_t k = 0; k < operands.count; k++)
            known |= operands.item[k] == seen.item[i];
        ok = known || note(captured, seen.item[i]) || tp_call_take_back(op, result);
    }
    for (size_t i = 0; i < seen.count; i++)
        tp_tensor_unref(seen.item[i]);
    for (size_t i = 0; i < operands.count; i++)
        tp_tensor_unref(operands.item[i]);
    tp_array_fini(&seen);
    tp_array_fini(&operands);
    return ok;
}

static bool has_rule(const tp_op *op)
{
    return op == &tp_op_higher_order_cond || op == &tp_op_higher_order_map_impl;
}

static bool differentiate(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tensor_list captured = { 0 };
    if (!tp_self.grad_mode)
        return tp_call_past(TP_LAYER_GRAD, op, arg, result);
    if (!call_untaped(op, arg, &captured, result))
        return false;
    uint32_t operands = operand_count(op, arg);
    bool any = captured.count, brief = false;
    for (int i = 0; i < op->arg_count; i++)
        for (uint32_t k = 0; op->arg[i].list && k < tp_length(arg[i]); k++)
            any |= arg[i].list->item[k].tag == TP_TENSOR && tp_requires_grad(arg[i].list->item[k].tensor);
    for (int i = 0; i < op->rare->graphs->count; i++)
        brief |= arg[op->rare->graphs->item[i].arg].handle->type->brief;
    graphs_node *n = NULL;
    bool ok = true;
    if (any && (brief || !has_rule(op)))
        ok = tp_fail(TP_ERR_UNIMPLEMENTED, "the gradient of %s while it is traced", op->name);
    else if (any)
        ok = (n = (graphs_node *)(void *)tp_grad_node_new(&graphs_kind, sizeof *n, operands + (uint32_t)captured.count, tp_length(*result)));
    if (n) {
        n->op = op;
        n->operands = operands;
        n->captured.item = captured.item;
        n->captured.count = captured.count;
        captured.count = 0;
        captured.item = NULL;
        for (int i = 0; i < op->arg_count; i++)
            n->arg[i] = tp_value_ref(arg[i]);
        ok = fill_edges(n) && attach(n, *result);
        tp_grad_node_unref(&n->node);
    }
    for (size_t i = 0; i < captured.count; i++)
        tp_tensor_unref(captured.item[i]);
    tp_array_fini(&captured);
    return ok || tp_call_take_back(op, result);
}

__attribute__((constructor)) static void mount(void)
{
    tp_the_runtime.differentiate = differentiate;
}
