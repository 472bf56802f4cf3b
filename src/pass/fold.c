/* fold.c - compute what needs no input once.
 *
 *     graph(%x):                                        graph(%x):
 *         %add = _operator.add(2, 3)                        %_folded_0 = get_attr _folded_0
 *         %w = get_attr w                            =>     %view = aten.view.default(%x, [5])
 *         %neg = aten.neg.default(%w)                       %mul = aten.mul.Tensor(%view, %_folded_0)
 *         %view = aten.view.default(%x, [%add])             return (%mul,)
 *         %mul = aten.mul.Tensor(%view, %neg)
 *         return (%mul,)
 *
 * Arithmetic on numbers becomes the number, in the arguments of its readers. A call of an op whose tensors are all attributes becomes an attribute
 * of its own, when the pass has been lent a store of them (tp_pass.constants) and the result is not larger than its limit. Random ops, writers
 * and what Python does are left alone, and so is everything when some node writes.
 *
 * Needs: topological order.  Keeps: topological order.  Spoils: nothing. */
#include "base/alloc.h"
#include "ops/dispatch.h"
#include "pass/pass.h"

typedef struct folding {
    tp_graph *graph;
    tp_pass  *pass;
    tp_value *known;                /* owned, by node id: numbers and tensors; `has` says which */
    uint8_t  *has;
    bool      all;                  /* all nodes among the arguments at hand are known */
} folding;

static void look(tp_node *input, void *data)
{
    folding *f = data;
    f->all &= f->has[input->id];
}

static tp_value value_of(tp_node *n, void *data)
{
    return tp_value_ref(((folding *)data)->known[n->id]);
}

static void keep(folding *f, const tp_node *n, tp_value taken)
{
    f->known[n->id] = taken;
    f->has[n->id] = 1;
}

/* ---- numbers ---- */
static bool is_number(tp_value v)
{
    return v.tag == TP_BOOL || v.tag == TP_INT || v.tag == TP_FLOAT;
}

static tp_value number_for(tp_node *n, void *data)
{
    const folding *f = data;
    return f->has[n->id] && is_number(f->known[n->id]) ? f->known[n->id] : tp_of_node(n);
}

/* Its readers get the number itself. */
static bool give_number(folding *f, tp_node *n)
{
    while (n->user_count) {
        tp_node *user = n->user[n->user_count - 1];
        uint32_t count = user->arg_count + 2 * user->keyword_count, done = 0;
        tp_value *arg = tp_alloc_array(count, sizeof *arg);
        while (arg && done < count && tp_value_map_nodes(user->arg[done], number_for, f, &arg[done]))
            done++;
        bool ok = arg && done == count && tp_node_set_args(user, arg, user->arg_count, user->keyword_count);
        if (arg)
            tp_values_unref(arg, done);
        tp_free(arg);
        if (!ok)
            return false;
    }
    f->pass->changed = true;
    return true;
}

static bool fold_builtin(folding *f, tp_node *n)
{
    tp_value arg[4], out;
    if (n->keyword_count || n->arg_count != n->target.builtin->arity || n->arg_count > TP_COUNT(arg))
        return true;
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (!is_number(arg[i] = n->arg[i]))
            return true;
    if (!n->target.builtin->run(arg, &out)) {               /* division by zero: it fails when it runs, if it runs */
        bool memory = tp_error_kind() == TP_ERR_MEMORY;
        if (!memory)
            tp_error_clear();
        return !memory;
    }
    keep(f, n, out);
    return !is_number(out) || give_number(f, n);
}

/* ---- tensors ---- */
static bool run_call(folding *f, const tp_node *n, tp_value *out)
{
    tp_value arg[256];
    uint32_t count = (uint32_t)n->target.op->arg_count, done = 0;
    tp_value borrowed[256];
    if (!tp_node_op_args(n, borrowed))
        return false;
    while (done < count && tp_value_map_nodes(borrowed[done], value_of, f, &arg[done]))
        done++;
    bool ok = done == count && tp_call(n->target.op, arg, out);
    tp_values_unref(arg, done);
    return ok;
}

static bool fold_call(folding *f, tp_node *n)
{
    const tp_constants *c = f->pass->constants;
    f->all = true;
    tp_node_each_input(n, look, f);
    if (!c || !f->all || tp_node_has_effect(n) || n->target.op->result_count != 1 || n->target.op->flags & TP_OP_SYNC)
        return true;
    tp_value result = tp_none();
    if (!run_call(f, n, &result)) {                         /* it fails where it stands, if it runs */
        bool memory = tp_error_kind() == TP_ERR_MEMORY;
        if (!memory)
            tp_error_clear();
        return !memory;
    }
    tp_tensor *t = tp_as_tensor(result);
    if (t && (size_t)t->numel * tp_dtype_bytes((tp_dtype)t->dtype) <= c->limit)
        keep(f, n, result);
    else
        tp_value_unref(result);
    return true;
}

/* Is it where the known ends: does somebody read it who is not known? */
static bool is_edge(const folding *f, const tp_node *n)
{
    if (n->kind != TP_CALL_FUNCTION || !f->has[n->id] || f->known[n->id].tag != TP_TENSOR)
        return false;
    for (uint32_t u = 0; u < n->user_count; u++)
        if (!f->has[n->user[u]->id])
            return true;
    return false;
}

static bool store(folding *f, tp_node *n)
{
    const tp_constants *c = f->pass->constants;
    const char *path = c->store(c->data, f->known[n->id].tensor);
    if (!path)
        return false;
    f->graph->insert = n;
    tp_node *made = tp_graph_get_attr(f->graph, path);
    f->graph->insert = &f->graph->root;
    if (!made || tp_node_replace_uses(n, made, NULL, NULL) < 0)
        return false;
    tp_node_set_fact(made, n->fact);
    f->pass->changed = true;
    return true;
}

static bool fold_attribute(folding *f, const tp_node *n)
{
    const tp_constants *c = f->pass->constants;
    tp_tensor *t = c ? c->read(c->data, n->target.name) : NULL;
    if (t)
        keep(f, n, tp_of_tensor(tp_tensor_ref(t)));
    return true;
}

bool tp_pass_fold(tp_graph *g, tp_pass *p)
{
    uint32_t count = g->node_count + 1;
    folding f = { .graph = g, .pass = p };
    bool ok = (f.known = tp_alloc_zero(count * sizeof *f.known)) && (f.has = tp_alloc_zero(count));
    bool calls = true;
    tp_graph_each(g, n)
        calls &= !tp_stage_fault(n, TP_STAGE_FUNCTIONAL);
    for (tp_node *n = g->root.next; ok && n != &g->root; n = n->next) {
        if (n->kind == TP_GET_ATTR)
            ok = fold_attribute(&f, n);
        else if (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN)
            ok = fold_builtin(&f, n);
        else if (calls && n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP)
            ok = fold_call(&f, n);
    }
    for (tp_node *n = g->root.prev; ok && n != &g->root; n = n->prev)      /* backwards: the readers of an edge are still who they were */
        ok = n->id + 1 >= count || !is_edge(&f, n) || store(&f, n);
    for (uint32_t i = 0; f.known && f.has && i < count; i++)
        tp_value_unref(f.known[i]);
    tp_free(f.known);
    tp_free(f.has);
    return ok;
}
