/* grad_modes.c - what a program computed without gradients gives none when its graph runs.
 *
 *     with no_grad():                        %sin = sin(%x)
 *         a = x.sin()             =>         %detach = detach(%sin)
 *     return a * x                           %mul = mul(%detach, %x)
 *
 * A node knows whether gradients were off when it was recorded (TP_NODE_NO_GRAD). Where its value goes on to a node with gradients, or
 * out of the graph, it goes detached; inside the region nothing changes. So gradients of the graph are the module's, in Python, after
 * decompositions and from files alike, whoever runs it. Values that no gradient reaches stay as they are. */
#include "base/alloc.h"
#include "export/signature.h"
#include "grad/tape.h"

typedef struct marking {
    tp_graph *graph;
    bool *reached;              /* owned: by node id, before detaching: a gradient could reach what the node yields */
    size_t count;
    bool found;                 /* an input that is reached */
} marking;

static bool yields_floats(tp_value fact)
{
    if (fact.tag == TP_TENSOR)
        return tp_dtype_is_float((tp_dtype)fact.tensor->dtype) || tp_dtype_is_complex((tp_dtype)fact.tensor->dtype);
    for (uint32_t i = 0; i < tp_length(fact); i++)
        if (yields_floats(fact.list->item[i]))
            return true;
    return false;
}

static bool is_without(const tp_node *n)
{
    const tp_node *of = n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN && n->arg_count ? tp_as_node(n->arg[0]) : NULL;
    return (n->flags & TP_NODE_NO_GRAD) || (of && of->fact.tag != TP_TENSOR && (of->flags & TP_NODE_NO_GRAD));
}

static void look(tp_node *input, void *data)
{
    marking *m = data;
    m->found = m->found || (input->id < m->count && m->reached[input->id]);
}

static bool wants_detached(tp_node *user, void *data)
{
    (void)data;
    return !is_without(user) || user->kind == TP_OUTPUT;
}

static bool has_such_user(const tp_node *n)
{
    for (uint32_t i = 0; i < n->user_count; i++)
        if (wants_detached(n->user[i], NULL))
            return true;
    return false;
}

static bool detach_after(tp_graph *g, tp_node *n)
{
    const tp_op *detach = tp_op_find("aten", "detach", "");
    if (!detach)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "aten::detach is not there");
    tp_node *insert = g->insert;
    g->insert = n->next;
    tp_node *made = tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(detach), (tp_value[]){ tp_of_node(n) }, 1, 0, "detach");
    g->insert = insert;
    if (!made)
        return tp_graph_check(g);
    tp_node_set_fact(made, n->fact);
    tp_node_set_origin(made, n->origin);
    made->flags |= TP_NODE_NO_GRAD;         /* it reads the value itself: replacing uses passes it by */
    return tp_node_replace_uses(n, made, wants_detached, NULL) >= 0;
}

/* Writing without gradients to what has them leaves these as they were: no graph without writes says that. */
static bool writes_reached(const marking *m, const tp_node *n)
{
    const tp_op *op = n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP ? n->target.op : NULL;
    for (uint32_t i = 0; op && i < n->arg_count && i < op->arg_count; i++) {
        const tp_node *of = op->arg[i].written ? tp_as_node(n->arg[i]) : NULL;
        if (of && of->id < m->count && m->reached[of->id] && !is_without(of))
            return true;
    }
    return false;
}

static bool keep(marking *m, size_t state, bool outside)
{
    size_t place = 0;
    for (tp_node *n = tp_graph_first(m->graph), *next; !tp_node_is_root(n); n = next) {
        next = n->next;
        if (n->kind == TP_PLACEHOLDER) {
            bool own = place++ < state && n->fact.tag == TP_TENSOR;
            m->reached[n->id] = own ? tp_requires_grad(n->fact.tensor) : yields_floats(n->fact);
            continue;
        }
        m->found = false;
        tp_node_each_input(n, look, m);
        m->reached[n->id] = m->found && n->kind != TP_OUTPUT && yields_floats(n->fact);
        if (!m->reached[n->id])
            continue;
        if (!outside && !is_without(n) && n->target.kind == TP_TARGET_OP)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "export, while gradients are off, of a program that turns them on (at %s) is not "
                           "implemented in Taper yet", n->name);
        if (!outside || !is_without(n))
            continue;
        if (writes_reached(m, n))
            return tp_fail(TP_ERR_UNIMPLEMENTED, "export of a program that writes, with gradients off, to a tensor that has them (at %s) is "
                           "not implemented in Taper yet", n->name);
        if (n->fact.tag == TP_TENSOR && has_such_user(n) && !detach_after(m->graph, n))
            return false;
        if (n->fact.tag == TP_TENSOR)
            m->reached[n->id] = true;
    }
    return true;
}

bool tp_graph_keep_grad_modes(tp_graph *g, size_t state, bool outside)
{
    marking m = { .graph = g, .count = g->node_count };
    m.reached = tp_alloc_zero((m.count + 1) * sizeof *m.reached);
    bool ok = m.reached && keep(&m, state, outside);
    for (uint32_t i = 0; ok && i < g->child_count; i++)
        ok = tp_graph_keep_grad_modes(g->child[i].graph, 0, outside);
    tp_free(m.reached);
    return ok && tp_graph_check(g);
}
