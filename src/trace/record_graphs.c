/* record_graphs.c - functions traced into children of a graph. */
#include "trace/record_graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { MOST_ARGS = 8, NAME_ROOM = 48 };

/* A function that is recorded when it is called. Stands on the stack of the call that it belongs to. */
typedef struct probe {
    tp_handle    head;
    tp_recorder *outer;         /* borrowed */
    tp_handle   *function;      /* borrowed */
    tp_layer_id  layer;
    tp_gives     gives;
    tp_recorder *inner;         /* owned, NULL until it was called */
} probe;

/* ---- recording a function ---- */
static bool add_inputs(const probe *p, const tp_value *arg, uint32_t count)
{
    bool keeps = tp_recorder_host(p->outer)->keeps_names;
    for (uint32_t i = 0; i < count; i++) {
        char name[NAME_ROOM];
        const tp_node *operand = keeps && arg[i].tag == TP_TENSOR ? tp_record_node_of(p->outer, arg[i].tensor) : NULL;
        snprintf(name, sizeof name, "arg%u_1", i);
        if (!tp_record_input(p->inner, operand ? operand->name : name, arg[i]))
            return false;
    }
    return true;
}

static bool add_output(tp_recorder *r, tp_value given, tp_gives gives)
{
    tp_value lowered;
    if (!tp_record_lower(r, given, &lowered))
        return false;
    bool one = gives == TP_GIVES_ONE && lowered.list->count == 1;
    tp_value shown = one ? lowered.list->item[0] : (tp_value){ .tag = gives == TP_GIVES_LIST ? TP_LIST : TP_TUPLE, .list = lowered.list };
    bool ok = tp_record_output(r, shown) && tp_graph_check(tp_recorder_graph(r));
    tp_value_unref(lowered);
    return ok;
}

static bool probe_call(tp_handle *h, const tp_value *arg, uint32_t count, tp_value *out)
{
    probe *p = (probe *)(void *)h;
    if (p->inner)
        return p->function->type->call(p->function, arg, count, out);
    if (!(p->inner = tp_recorder_new(tp_recorder_host(p->outer))) || !add_inputs(p, arg, count))
        return false;
    uint32_t allowed = tp_self.allowed;
    tp_self.allowed = TP_ALL_LAYERS;        /* the function is code of the program: all that is switched on sees it */
    tp_recorder_enter(p->inner, p->layer);
    bool ok = p->function->type->call(p->function, arg, count, out);
    tp_recorder_leave(p->inner);
    tp_self.allowed = allowed;
    if (!ok || add_output(p->inner, *out, p->gives))
        return ok;
    tp_value_unref(*out);
    return false;
}

static void probe_free(tp_handle *h) { (void)h; }
static bool probe_equal(const tp_handle *a, const tp_handle *b) { return a == b; }
static uint64_t probe_hash(const tp_handle *h) { return (uint64_t)(uintptr_t)h; }

static const tp_handle_type probe_type = {
    .free = probe_free, .equal = probe_equal, .hash = probe_hash, .call = probe_call, .brief = true, .probes = true,
};

/* ---- what functions read from outside ---- */
typedef struct captured {
    tp_tensor *tensor;          /* borrowed from the inner recorders */
    tp_node   *node;            /* of the outer graph */
} captured;
typedef tp_array(captured) captured_list;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const captured *)a)->node->name, ((const captured *)b)->node->name);
}

static bool gather(tp_recorder *r, const probe *p, captured_list *all)
{
    for (size_t i = 0; i < tp_recorder_constant_count(p->inner); i++) {
        const char *name;
        tp_tensor *t = tp_recorder_constant(p->inner, i, &name);
        bool known = false;
        for (size_t k = 0; k < all->count; k++)
            known |= all->item[k].tensor == t;
        tp_value node;
        if (!known && (!tp_record_lower(r, tp_of_tensor(t), &node) || !tp_array_push(all, ((captured){ t, tp_as_node(node) }))))
            return false;
    }
    return true;
}

static const char *constant_name(const tp_recorder *r, const tp_tensor *t)
{
    for (size_t i = 0; i < tp_recorder_constant_count(r); i++) {
        const char *name;
        if (tp_recorder_constant(r, i, &name) == t)
            return name;
    }
    return NULL;
}

/* Every get_attr of this constant is the input instead. */
static bool read_input(tp_graph *g, const char *constant, tp_node *input)
{
    for (tp_node *n = g->root.next, *next; n != &g->root; n = next) {
        next = n->next;
        if (n->kind != TP_GET_ATTR || strcmp(n->target.name, constant) != 0)
            continue;
        if (tp_node_replace_uses(n, input, NULL, NULL) < 0)
            return false;
        tp_node_erase(n);
    }
    return true;
}

static bool rename_inputs(tp_graph *g)
{
    uint32_t i = 0;
    tp_graph_each(g, n) {
        char name[NAME_ROOM];
        if (n->kind != TP_PLACEHOLDER)
            continue;
        snprintf(name, sizeof name, "arg%u_1", i++);
        if (!tp_node_set_name(n, name))
            return false;
        tp_node_set_target(n, tp_target_name(n->name));
    }
    return true;
}

/* Inputs for all captured tensors, behind the first `before` inputs. */
static bool add_captured(const probe *p, const captured_list *all, uint32_t before)
{
    tp_graph *g = tp_recorder_graph(p->inner);
    tp_node *at = tp_graph_first(g), *insert = g->insert;
    for (; before && at->kind == TP_PLACEHOLDER; before--)
        at = at->next;
    bool ok = true, keeps = tp_recorder_host(p->outer)->keeps_names;
    for (size_t i = 0; ok && i < all->count; i++) {
        g->insert = at;
        tp_node *input = tp_graph_placeholder(g, keeps ? all->item[i].node->name : "captured");
        g->insert = insert;
        if (!input)
            return tp_graph_check(g);
        tp_node_set_target(input, tp_target_name(input->name));
        tp_node_set_fact(input, all->item[i].node->fact);
        const char *constant = constant_name(p->inner, all->item[i].tensor);
        ok = !constant || read_input(g, constant, input);
    }
    return ok && (keeps || rename_inputs(g));
}

/* ---- the node ---- */

/* The first name of this prefix that no child has. */
static void child_name(const tp_graph *g, const char *prefix, char out[NAME_ROOM])
{
    unsigned i = 0;
    do
        snprintf(out, NAME_ROOM, "%s_%u", prefix, i++);
    while (tp_graph_child(g, out));
}

static tp_node *add_child(tp_graph *g, const char *prefix, tp_graph *child)
{
    char name[NAME_ROOM];
    child_name(g, prefix, name);
    return tp_graph_set_child(g, name, child) ? tp_graph_get_attr(g, name) : NULL;
}

static bool lower_operands(tp_recorder *r, tp_value list, const captured_list *all, tp_value *out)
{
    size_t more = all ? all->count : 0;
    tp_list *l = tp_list_new(more + tp_length(list));
    bool ok = l;
    for (size_t i = 0; ok && i < more; i++)
        l->item[i] = tp_of_node(all->item[i].node);
    for (uint32_t i = 0; ok && i < tp_length(list); i++)
        ok = tp_record_lower(r, list.list->item[i], &l->item[more + i]);
    *out = ok ? tp_of_list(l) : tp_none();
    if (!ok && l)
        tp_value_unref(tp_of_list(l));
    return ok;
}

static tp_node *write_node(tp_recorder *r, const tp_op *op, const tp_value *arg, const probe *probes, const captured_list *all)
{
    tp_graph *g = tp_recorder_graph(r);
    tp_value lowered[MOST_ARGS] = { 0 };
    bool ok = op->arg[0].list || op->rare->graphs->item[0].arg == 0 || tp_record_lower(r, arg[0], &lowered[0]);    /* a condition is computed first */
    for (int i = 0; ok && i < op->rare->graphs->count; i++) {
        tp_node *n = add_child(g, op->rare->graphs->item[i].prefix, tp_recorder_graph(probes[i].inner));
        lowered[op->rare->graphs->item[i].arg] = tp_of_node(n);
        ok = n;
    }
    for (int i = 0; ok && i < op->arg_count; i++)
        if (lowered[i].tag == TP_NONE)
            ok = op->arg[i].list ? lower_operands(r, arg[i], i == op->arg_count - 1 ? all : NULL, &lowered[i]) : tp_record_lower(r, arg[i], &lowered[i]);
    tp_node *n = ok ? tp_node_new(g, TP_CALL_FUNCTION, tp_target_op(op), lowered, op->arg_count, 0, op->rare->graphs->node) : NULL;
    tp_values_unref(lowered, op->arg_count);
    return n;
}

/* How many values stand before the last list of operands. */
static uint32_t values_before(const tp_op *op, const tp_value *arg)
{
    uint32_t count = 0;
    for (int i = 0; i < op->arg_count - 1; i++)
        if (op->arg[i].list)
            count += tp_length(arg[i]);
    return count;
}

tp_node *tp_record_graphs(tp_recorder *r, tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    probe probes[2] = { 0 };
    tp_value traced[MOST_ARGS], typical = tp_none();
    captured_list all = { 0 };
    memcpy(traced, arg, op->arg_count * sizeof *traced);
    for (int i = 0; i < op->rare->graphs->count; i++) {
        tp_value *function = &traced[op->rare->graphs->item[i].arg];
        probes[i] = (probe){ .head.type = &probe_type, .outer = r, .function = function->handle, .layer = (tp_layer_id)m->layer,
                             .gives = op->rare->graphs->item[i].gives };
        atomic_init(&probes[i].head.refs, 1);
        function->handle = &probes[i].head;
    }
    bool ok = op->open(op, traced, &typical);
    for (int i = 0; ok && i < op->rare->graphs->count; i++)
        ok = gather(r, &probes[i], &all);
    if (ok && all.count)
        qsort(all.item, all.count, sizeof *all.item, by_name);
    for (int i = 0; ok && i < op->rare->graphs->count; i++)
        ok = add_captured(&probes[i], &all, values_before(op, arg));
    bool fake = (tp_self.active | tp_keys_of(op, arg)) & TP_LAYER_BIT(TP_LAYER_FAKE);
    if (ok && !fake) {                      /* there is data: the results are those of the call itself */
        tp_value_unref(typical);
        typical = tp_none();
        ok = tp_mount_next(m, op, arg, &typical);
    }
    tp_node *n = ok ? write_node(r, op, arg, probes, &all) : NULL;
    if (n)
        *result = typical;
    else
        tp_value_unref(typical);
    tp_array_fini(&all);
    for (int i = 0; i < op->rare->graphs->count; i++)
        tp_recorder_free(probes[i].inner);
    return n;
}
