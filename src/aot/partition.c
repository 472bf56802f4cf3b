/* partition.c - a joint graph in two. The plain way: the forward computes its results and hands over all that the backward
 * reads of it; what neither needs for that is left to the backward. The thrifty way: the backward computes again what is cheap
 * to compute, so that what is handed over is as small as can be (min_cut.h).
 *
 *     sin = sin(p); mul = sin * p; cos = cos(p); d = tangent * …        joint: [mul, d]
 *     forward: sin, mul => [mul, p, sin]      backward(p, sin, tangent): cos, d => [d]
 *
 * A value of several parts is never handed over, its parts are. A tensor of which the backward reads sizes only stays
 * behind, its sizes are handed over. A write belongs to the forward unless the tape made it. */
#include "aot/min_cut.h"
#include "aot/trace.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

enum { FAR = 1000000, MOST_STEPS = 100 };

typedef struct split {
    const tp_graph *joint;
    bool *forward;                  /* by node id: computed there */
    bool *backward;
    tp_array(tp_node *) tensors, sizes;     /* what is handed over, in the order of the forward */
} split;

/* ---- marking ---- */
static void mark_input(tp_node *input, void *data)
{
    ((bool *)data)[input->id] = true;
}

static bool is_size(const tp_node *n)
{
    return n->fact.tag == TP_SYM;
}

static bool is_tangent(const tp_node *n)
{
    return n->kind == TP_PLACEHOLDER && strstr(n->target.name, "tangents");
}

static bool has_parts(const tp_node *n)
{
    return n->kind == TP_CALL_FUNCTION && (n->fact.tag == TP_LIST || n->fact.tag == TP_TUPLE);
}

static bool in_backward(const tp_node *n)
{
    return n->origin && n->origin->backward;
}

static bool writes(const tp_node *n)
{
    bool written = false;
    if (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP)
        for (int i = 0; i < n->target.op->arg_count; i++)
            written |= n->target.op->arg[i].written;
    return written;
}

static void mark_forward(split *s, tp_value results)
{
    tp_value_each_node(results, mark_input, s->forward);
    for (tp_node *n = s->joint->root.prev; n != &s->joint->root; n = n->prev) {
        if (writes(n) && !in_backward(n))
            s->forward[n->id] = true;
        if (n->kind == TP_PLACEHOLDER)
            s->forward[n->id] = !is_tangent(n);
        else if (s->forward[n->id])
            tp_node_each_input(n, mark_input, s->forward);
    }
    /* The parts of a value of several are the forward's, whoever reads them. */
    tp_graph_each(s->joint, n)
    {
        const tp_node *of = n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN && n->arg_count ? tp_as_node(n->arg[0]) : NULL;
        if (of && has_parts(of) && s->forward[of->id])
            s->forward[n->id] = true;
    }
}

/* Do nodes of the backward that read this tensor ask for its sizes only? */
static bool only_sizes_read(const split *s, const tp_node *n)
{
    for (uint32_t i = 0; i < n->user_count; i++) {
        const tp_node *u = n->user[i];
        if (u->kind != TP_OUTPUT && s->backward[u->id] && !s->forward[u->id] && !is_size(u))
            return false;
    }
    return true;
}

static void mark_backward_input(tp_node *input, void *data)
{
    const split *s = data;
    s->backward[input->id] = true;
}

static void mark_backward(split *s, tp_value gradients)
{
    tp_value_each_node(gradients, mark_backward_input, s);
    for (tp_node *n = s->joint->root.prev; n != &s->joint->root; n = n->prev) {
        if (in_backward(n))
            s->backward[n->id] = true;
        if (n->kind != TP_OUTPUT && s->backward[n->id] && !s->forward[n->id])
            tp_node_each_input(n, mark_backward_input, s);
    }
}

static bool is_gradient(tp_value gradients, const tp_node *n)
{
    for (uint32_t i = 0; i < tp_length(gradients); i++)
        if (tp_as_node(gradients.list->item[i]) == n)
            return true;
    return false;
}

/* Sizes that the backward reads of forward tensors are computed in the forward when nothing else is read of them. */
static void move_sizes(split *s, tp_value gradients)
{
    tp_graph_each(s->joint, n)
    {
        tp_node *of = s->backward[n->id] && !s->forward[n->id] && is_size(n) && n->arg_count ? tp_as_node(n->arg[0]) : NULL;
        if (of && s->forward[of->id] && of->fact.tag == TP_TENSOR && !is_gradient(gradients, of) && only_sizes_read(s, of))
            s->forward[n->id] = true;
    }
}

static bool list_saved(split *s, tp_value gradients)
{
    (void)memset(s->backward, 0, s->joint->node_count * sizeof *s->backward);
    mark_backward(s, gradients);
    tp_graph_each(s->joint, n)
    {
        if (!s->forward[n->id] || !s->backward[n->id] || n->kind == TP_OUTPUT)
            continue;
        bool ok = is_size(n) ? tp_array_push(&s->sizes, n) : tp_array_push(&s->tensors, n);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- building ---- */

/* A part of the joint graph: what its outputs are computed from. */
typedef struct part {
    tp_graph *graph;
    tp_node **twin;                 /* owned, by id of the joint's node: what stands for it, NULL: nothing does */
    bool     *live;                 /* owned, likewise: computed in this part */
} part;

static bool part_init(part *p, const tp_graph *joint)
{
    *p = (part){ .graph = tp_graph_new(), .twin = tp_alloc_zero((joint->node_count + 1) * sizeof *p->twin),
                 .live = tp_alloc_zero((joint->node_count + 1) * sizeof *p->live) };
    if (!p->graph || !p->twin || !p->live)
        return false;
    p->graph->env = joint->env ? tp_shape_env_ref(joint->env) : NULL;
    return true;
}

static void part_fini(part *p, bool ok, tp_graph **out)
{
    tp_free(p->twin);
    tp_free(p->live);
    if (ok)
        *out = p->graph;
    else
        tp_graph_unref(p->graph);
}

/* Copies what is live by itself and all that it reads, up to what something stands for already. */
static bool copy_live(part *p, const tp_graph *joint)
{
    for (tp_node *n = joint->root.prev; n != &joint->root; n = n->prev) {
        p->live[n->id] = p->live[n->id] && n->kind != TP_OUTPUT && !p->twin[n->id];
        if (p->live[n->id])
            tp_node_each_input(n, mark_input, p->live);
    }
    tp_graph_each(joint, n)
        if (p->live[n->id] && !tp_node_copy(p->graph, n, p->twin))
            return tp_graph_check(p->graph);
    return true;
}

static tp_value twin_of(const part *p, tp_value v)
{
    tp_node *n = tp_as_node(v);
    return n ? tp_of_node(p->twin[n->id]) : tp_value_ref(v);
}

/* Some values of the joint's output, then what is handed over, if anything is. */
static bool add_output(part *p, const tp_value *value, uint32_t count, const split *saved)
{
    uint32_t at = 0;
    tp_list *items = tp_list_new(count + (saved ? saved->tensors.count + saved->sizes.count : 0));
    if (!items)
        return false;
    while (at < count) {
        items->item[at] = twin_of(p, value[at]);
        at++;
    }
    for (size_t i = 0; saved && i < saved->tensors.count; i++)
        items->item[at++] = tp_of_node(p->twin[saved->tensors.item[i]->id]);
    for (size_t i = 0; saved && i < saved->sizes.count; i++)
        items->item[at++] = tp_of_node(p->twin[saved->sizes.item[i]->id]);
    bool ok = tp_graph_output(p->graph, tp_of_list(items)) || tp_graph_check(p->graph);
    tp_value_unref(tp_of_list(items));
    return ok;
}

static bool build_forward(const split *s, tp_value results, tp_graph **out)
{
    part p;
    bool ok = part_init(&p, s->joint);
    if (ok) {
        tp_graph_each(s->joint, n)
            p.live[n->id] = s->forward[n->id] && (n->kind == TP_PLACEHOLDER || writes(n));
        tp_value_each_node(results, mark_input, p.live);
        for (size_t i = 0; i < s->tensors.count; i++)
            p.live[s->tensors.item[i]->id] = true;
        for (size_t i = 0; i < s->sizes.count; i++)
            p.live[s->sizes.item[i]->id] = true;
        ok = copy_live(&p, s->joint) && add_output(&p, results.list->item, results.list->count, s);
    }
    part_fini(&p, ok, out);
    return ok;
}

/* A placeholder in the place of a saved node. */
static bool receive(part *p, const tp_node *saved)
{
    tp_node *n = p->twin[saved->id] = tp_graph_placeholder(p->graph, saved->name);
    if (!n)
        return tp_graph_check(p->graph);
    tp_node_set_fact(n, saved->fact);
    return true;
}

static bool receive_all(part *p, const split *s)
{
    for (size_t i = 0; i < s->sizes.count; i++)
        if (!receive(p, s->sizes.item[i]))
            return false;
    for (size_t i = 0; i < s->tensors.count; i++)
        if (!receive(p, s->tensors.item[i]))
            return false;
    return true;
}

static bool build_backward(const split *s, tp_value gradients, tp_graph **out)
{
    part p;
    bool ok = part_init(&p, s->joint) && receive_all(&p, s);
    if (ok) {
        tp_graph_each(s->joint, n)
            p.live[n->id] = is_tangent(n) || (writes(n) && in_backward(n));
        tp_value_each_node(gradients, mark_input, p.live);
        ok = copy_live(&p, s->joint) && add_output(&p, gradients.list->item, gradients.list->count, NULL);
    }
    part_fini(&p, ok, out);
    return ok;
}

/* ---- handing over little ---- */

/* May the backward compute it again? What runs over the elements once, and what computes nothing. */
static bool is_cheap(const tp_node *n)
{
    if (n->kind != TP_CALL_FUNCTION)
        return false;
    if (n->target.kind != TP_TARGET_OP)
        return n->target.kind == TP_TARGET_BUILTIN;
    const tp_op *op = n->target.op;
    if (op->variant != TP_FUNCTIONAL || (op->flags & (TP_OP_RNG | TP_OP_SYNC | TP_OP_IO)))
        return false;
    return op->kind == TP_LIKE_POINTWISE || op->kind == TP_LIKE_VIEW || op->kind == TP_LIKE_FACTORY || n->fact.tag == TP_SYM;
}

/* How many calls lie between each node and the first of the backward that needs it. */
static void measure(const tp_graph *g, const bool *late, uint32_t *distance)
{
    for (const tp_node *n = g->root.prev; n != &g->root; n = n->prev) {
        distance[n->id] = late[n->id] ? 0 : FAR;
        for (uint32_t i = 0; !late[n->id] && i < n->user_count; i++)
            if (n->user[i]->kind != TP_OUTPUT && distance[n->user[i]->id] < distance[n->id])
                distance[n->id] = distance[n->user[i]->id] + 1;
    }
}

/* Bytes; twice as many for a value that would never be in memory if its readers ran along with it, and a tenth more for each
 * call between it and the backward: of equal sets the later one saves more work. */
static int64_t cost_of(const tp_node *n, uint32_t distance)
{
    double cost = 0;
    if (n->fact.tag == TP_SYM || n->fact.tag == TP_INT || n->fact.tag == TP_FLOAT || n->fact.tag == TP_BOOL)
        return 1;
    const tp_tensor *t = tp_as_tensor(n->fact);
    if (!t)
        return TP_CUT_INFINITE;
    bool along = n->kind != TP_PLACEHOLDER && is_cheap(n);
    for (uint32_t i = 0; along && i < n->user_count; i++)
        along = n->user[i]->kind != TP_OUTPUT && is_cheap(n->user[i]);
    cost = (double)t->numel * (double)tp_dtype_bytes((tp_dtype)t->dtype) * (along ? 2 : 1);
    for (uint32_t i = 0; i < (distance < 1 ? 1 : distance > MOST_STEPS ? MOST_STEPS : distance); i++)
        cost *= 1.1;
    return cost < (double)TP_CUT_INFINITE / 4 ? (int64_t)cost + 1 : TP_CUT_INFINITE / 4;
}

/* An input that the graph overwrites is gone by the time of the backward. */
static bool is_overwritten(const tp_node *n)
{
    for (uint32_t i = 0; n->kind == TP_PLACEHOLDER && i < n->user_count; i++)
        if (writes(n->user[i]) && !in_backward(n->user[i]) && tp_as_node(n->user[i]->arg[0]) == n)
            return true;
    return false;
}

/* What depends on tangents can be computed in the backward only. */
static void mark_late(const tp_graph *g, bool *late)
{
    tp_graph_each(g, n)
    {
        late[n->id] = late[n->id] || is_tangent(n) || in_backward(n);
        for (uint32_t i = 0; late[n->id] && i < n->user_count; i++)
            late[n->user[i]->id] = true;
    }
}

static bool add_to_cut(tp_min_cut *c, const split *s, const bool *late, uint32_t distance, tp_value gradients, const tp_node *n)
{
    if (n->kind == TP_OUTPUT || is_tangent(n))
        return true;
    if (late[n->id])
        return tp_min_cut_sink(c, n->id);
    if (!tp_min_cut_cost(c, n->id, is_overwritten(n) ? TP_CUT_INFINITE : cost_of(n, distance)))
        return false;
    if ((n->kind == TP_PLACEHOLDER || n->kind == TP_GET_ATTR || !is_cheap(n)) && !tp_min_cut_source(c, n->id))
        return false;
    for (uint32_t i = 0; i < n->user_count; i++)
        if (n->user[i]->kind != TP_OUTPUT && !tp_min_cut_link(c, n->id, n->user[i]->id))
            return false;
    /* A gradient that is a forward value must be handed over: a place of its own stands for the output. */
    return !is_gradient(gradients, n) || (tp_min_cut_link(c, n->id, s->joint->node_count) && tp_min_cut_sink(c, s->joint->node_count));
}

/* Fills what is handed over; false with *found unset: there is no cut. */
static bool list_cheapest(split *s, tp_value gradients, bool *found)
{
    tp_min_cut c = { 0 };
    uint32_t count = s->joint->node_count;
    bool *late = tp_alloc_zero((count + 1) * sizeof *late), *cut = tp_alloc_zero((count + 1) * sizeof *cut);
    uint32_t *distance = tp_alloc_array(count + 1, sizeof *distance);
    bool ok = late && cut && distance && tp_min_cut_init(&c, count + 1);
    *found = false;
    if (ok) {
        mark_late(s->joint, late);
        measure(s->joint, late, distance);
    }
    if (ok)
        tp_graph_each(s->joint, n)
            ok = ok && add_to_cut(&c, s, late, distance[n->id], gradients, n);
    if (ok)
        *found = tp_min_cut_run(&c, cut) < TP_CUT_INFINITE;
    if (ok && *found)
        tp_graph_each(s->joint, n)
            if (ok && cut[n->id])
                ok = is_size(n) ? tp_array_push(&s->sizes, n) : tp_array_push(&s->tensors, n);
    tp_min_cut_fini(&c);
    tp_free(distance);
    tp_free(late);
    tp_free(cut);
    return ok;
}

static bool list_handed_over(split *s, tp_value results, tp_value gradients, bool thrifty)
{
    bool found = false;
    mark_forward(s, results);
    if (thrifty && !list_cheapest(s, gradients, &found))
        return false;
    if (found)
        return true;
    mark_backward(s, gradients);
    move_sizes(s, gradients);
    return list_saved(s, gradients);
}

bool tp_aot_partition(const tp_graph *joint, uint32_t result_count, bool thrifty, tp_graph **forward, tp_graph **backward,
                      uint32_t *saved_tensors, uint32_t *saved_sizes)
{
    tp_node *output = tp_graph_output_node(joint);
    *forward = *backward = NULL;
    if (!output || !output->arg_count || tp_length(output->arg[0]) < result_count)
        return tp_fail(TP_ERR_RUNTIME, "a joint graph gives at least its %u forward results", result_count);
    tp_value all = output->arg[0];
    tp_list *results = tp_list_new(result_count), *gradients = tp_list_new(all.list->count - result_count);
    split s = { .joint = joint, .forward = tp_alloc_zero((joint->node_count + 1) * sizeof(bool)),
                .backward = tp_alloc_zero((joint->node_count + 1) * sizeof(bool)) };
    bool ok = results && gradients && s.forward && s.backward;
    if (ok) {
        for (uint32_t i = 0; i < all.list->count; i++)
            *(i < result_count ? &results->item[i] : &gradients->item[i - result_count]) = tp_value_ref(all.list->item[i]);
        ok = list_handed_over(&s, tp_of_list(results), tp_of_list(gradients), thrifty) && build_forward(&s, tp_of_list(results), forward) &&
             build_backward(&s, tp_of_list(gradients), backward);
    }
    if (!ok) {
        tp_graph_unref(*forward);
        *forward = NULL;
    }
    *saved_tensors = (uint32_t)s.tensors.count;
    *saved_sizes = (uint32_t)s.sizes.count;
    if (results)
        tp_value_unref(tp_of_list(results));
    if (gradients)
        tp_value_unref(tp_of_list(gradients));
    tp_array_fini(&s.tensors);
    tp_array_fini(&s.sizes);
    tp_free(s.forward);
    tp_free(s.backward);
    return ok;
}
