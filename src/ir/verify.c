/* verify.c - is a graph what graph.h promises?
 *
 * Order, users, inputs of this graph only, one output at the end, unique names, arguments that fit the schema. What it
 * finds only a pass of ours, or an edit from Python, can have caused; the text names the node. */
#include <string.h>

#include "base/alloc.h"
#include "ir/text.h"

typedef struct checking {
    const tp_graph *graph;
    const tp_node *node;
    uint8_t *seen;                  /* by id: 1 stands above */
    uint32_t *reads;                /* by id: how many nodes read it */
    uint32_t *reader;               /* by id: 1 + the last node counted in `reads` */
    const char *fault;
    const tp_node *where;
} checking;

static void check_input(tp_node *input, void *data)
{
    checking *c = data;
    if (c->fault)
        return;
    c->where = input;
    if (input->graph != c->graph)
        c->fault = "belongs to another graph";
    else if (input->flags & TP_NODE_ERASED)
        c->fault = "was erased";
    else if (input->kind == TP_ROOT || !c->seen[input->id])
        c->fault = "does not stand above it";
    else if (c->reader[input->id] != c->node->id + 1) {
        c->reader[input->id] = c->node->id + 1;
        c->reads[input->id]++;
    }
}

static bool check_target(const tp_node *n)
{
    if ((n->kind == TP_CALL_FUNCTION) == (n->target.kind == TP_TARGET_NAME))
        return tp_fail(TP_ERR_RUNTIME, "verify: the target of node '%s' does not fit a %s", n->name,
                       tp_node_kind_names[n->kind]);
    if (n->target.kind != TP_TARGET_OP)
        return true;
    tp_value arg[256];              /* an op has at most 255 */
    return tp_node_op_args(n, arg);
}

static bool check_users(const tp_node *n)
{
    for (uint32_t i = 0; i < n->user_count; i++)
        if (n->user[i]->graph != n->graph || n->user[i]->flags & TP_NODE_ERASED)
            return tp_fail(TP_ERR_RUNTIME, "verify: node '%s' lists a user that is not in the graph", n->name);
    return true;
}

static bool check_node(checking *c, tp_node *n, tp_text_map *names)
{
    uint64_t one;
    c->node = n;
    if (n->next->prev != n || n->prev->next != n || n->flags & TP_NODE_ERASED)
        return tp_fail(TP_ERR_RUNTIME, "verify: node '%s' is not linked in", n->name);
    if (n->kind == TP_OUTPUT && n->next->kind != TP_ROOT)
        return tp_fail(TP_ERR_RUNTIME, "verify: nodes stand behind the output '%s'", n->name);
    tp_node_each_input(n, check_input, c);
    if (c->fault)
        return tp_fail(TP_ERR_RUNTIME, "verify: node '%s' reads '%s', which %s", n->name, c->where->name, c->fault);
    if (tp_text_map_get(names, n->name, &one))
        return tp_fail(TP_ERR_RUNTIME, "verify: two nodes have the name '%s'", n->name);
    c->seen[n->id] = 1;
    return tp_text_map_put(names, n->name, 1) && check_target(n) && check_users(n);
}

bool tp_graph_verify(const tp_graph *g)
{
    size_t count = g->node_count + 1;
    checking c = { .graph = g };
    tp_text_map names = { 0 };
    uint32_t live = 0;
    c.seen = tp_alloc_zero(count);
    c.reads = tp_alloc_zero(count * sizeof *c.reads);
    c.reader = tp_alloc_zero(count * sizeof *c.reader);
    bool ok = c.seen && c.reads && c.reader && tp_graph_check(g);
    for (tp_node *n = g->root.next; ok && n != &g->root; n = n->next, live++)
        ok = check_node(&c, n, &names);
    for (tp_node *n = g->root.next; ok && n != &g->root; n = n->next)
        if (c.reads[n->id] != n->user_count)
            ok = tp_fail(TP_ERR_RUNTIME, "verify: node '%s' lists %u users, but %u nodes read it", n->name,
                         n->user_count, c.reads[n->id]) != NULL;
    if (ok && live != g->live_count)
        ok = tp_fail(TP_ERR_RUNTIME, "verify: the graph counts %u nodes, but has %u", g->live_count, live) != NULL;
    tp_text_map_fini(&names);
    tp_free(c.seen);
    tp_free(c.reads);
    tp_free(c.reader);
    return ok;
}
