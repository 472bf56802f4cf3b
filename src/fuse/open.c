/* open.c - see open.h. */
#include "fuse/open.h"

#include <string.h>

#include "base/array.h"
#include "ir/run.h"
#include "ops/dispatch.h"
#include "pass/pass.h"
#include "trace/record.h"

/* The context of the recorder's table. */
typedef struct opening {
    tp_open_keep *keep;
    int depth; /* calls that are being opened inside each other */
} opening;

/* Decompositions of this depth go in circles: one that is a call of the op itself, where eager calls run a kernel instead. */
enum { DEEPEST = 64 };

static int open_call(void *context, const tp_op *op, const tp_value *arg, tp_value *result)
{
    opening *o = context;
    int keep = op->open && o->depth < DEEPEST ? o->keep(op, arg) : 1;
    if (keep)
        return keep < 0 ? -1 : 0;
    o->depth++;
    bool ok = op->open(op, arg, result);
    o->depth--;
    return ok ? 1 : -1;
}

/* What stands for a get_attr node while the graph runs: the fake tensor by its path. */
typedef struct attributes {
    const tp_graph *graph;
    tp_value *of; /* by node id, owned */
} attributes;

static bool attribute(void *owner, const char *path, tp_value *out)
{
    const attributes *a = owner;
    tp_graph_each(a->graph, n) if (n->kind == TP_GET_ATTR && strcmp(n->target.name, path) == 0)
    {
        *out = tp_value_ref(a->of[n->id]);
        return true;
    }
    return tp_fail(TP_ERR_ATTRIBUTE, "no attribute '%s'", path);
}

static bool add_input(tp_recorder *r, tp_node *n, tp_value *out)
{
    tp_tensor *t = tp_as_tensor(n->fact);
    *out = tp_none();
    if (t && !(t = tp_fake_of(t)))
        return false;
    *out = t ? tp_of_tensor(t) : tp_value_ref(n->fact);
    return tp_record_input(r, n->name, *out) != NULL;
}

/* The second of two get_attr nodes of one path is the first one's tensor. */
static bool seen_before(const tp_node *n)
{
    for (const tp_node *p = n->prev; p->kind != TP_ROOT; p = p->prev)
        if (p->kind == TP_GET_ATTR && strcmp(p->target.name, n->target.name) == 0)
            return true;
    return false;
}

static bool run(tp_graph *g, tp_recorder *r, attributes *a)
{
    tp_array(tp_value) input = { 0 };
    tp_run_host host = { .owner = a, .attribute = attribute };
    tp_value result = tp_none(), lowered = tp_none();
    tp_plan *p = NULL;
    bool ok = true;
    tp_graph_each(g, n) if (ok && n->kind == TP_PLACEHOLDER)
        ok = add_input(r, n, &a->of[n->id]) && tp_array_push(&input, a->of[n->id]);
    tp_graph_each(g, n) if (ok && n->kind == TP_GET_ATTR && !seen_before(n)) ok = add_input(r, n, &a->of[n->id]);
    if (ok && (p = tp_plan_new(g, &host))) {
        tp_plan_check_args(p);
        tp_fake_mode fake = { .allow_real = true }; /* factories of the program make fake tensors too */
        tp_fake_enter(&fake);
        tp_recorder_enter(r, TP_LAYER_TRACE_R);
        ok = tp_plan_run(p, input.item, (uint32_t)input.count, &result);
        tp_recorder_leave(r);
        tp_fake_leave(&fake);
        ok = ok && tp_record_lower(r, result, &lowered) && tp_record_output(r, lowered) &&
             tp_graph_check(tp_recorder_graph(r));
    } else {
        ok = false;
    }
    tp_value_unref(lowered);
    tp_value_unref(result);
    tp_plan_free(p);
    tp_array_fini(&input);
    return ok;
}

tp_graph *tp_fuse_open(tp_graph *g, tp_open_keep *keep)
{
    opening context = { keep, 0 };
    tp_record_host host = { .context = &context, .decompose = open_call };
    attributes a = { g, tp_alloc_zero(sizeof *a.of * (g->node_count + 1)) };
    tp_recorder *r = a.of ? tp_recorder_new(&host) : NULL;
    bool ok = r && run(g, r, &a) &&
              tp_passes_run(tp_recorder_graph(r), tp_pipeline_simplify, tp_pipeline_simplify_count, NULL, NULL);
    tp_graph *made = ok ? tp_graph_ref(tp_recorder_graph(r)) : NULL;
    tp_recorder_free(r);
    for (uint32_t i = 0; a.of && i < g->node_count; i++)
        tp_value_unref(a.of[i]);
    tp_free(a.of);
    return made;
}

void tp_fuse_open_map(const tp_graph *old, const void *const *from, const tp_graph *made, const void **to)
{
    const tp_node *n = tp_graph_first(made);
    for (int pass = TP_PLACEHOLDER; pass <= TP_GET_ATTR; pass++)
        tp_graph_each(old, o) if (o->kind == pass && (pass == TP_PLACEHOLDER || !seen_before(o)))
        {
            to[n->id] = from ? from[o->id] : NULL;
            n = n->next;
        }
}
