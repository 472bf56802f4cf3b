/* run.c - plans: see run.h.
 *
 *     x, y           slots 0, 1: inputs, borrowed
 *     add = x + y    step: arguments [slot 0, slot 1, 1], result slot 2
 *     mul = add * 2  step: arguments [slot 2, 2], result slot 3, then slot 2 is free
 *     (mul,)         output: built from slot 3
 *
 * A step has a template of its arguments, constants in place; before the call slots are patched in. Arguments that hold
 * nodes inside lists are built for the call. */
#include "ir/run.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/runtime.h"
#include "ops/arguments.h"
#include "ops/dispatch.h"

enum { FEW_SLOTS = 64, MOST_ARGS = 64, POLL_EVERY = 64 };

typedef struct patch {
    uint32_t arg;
    uint32_t slot;              /* of a plain argument */
    bool     nested;            /* the template's value at `arg` has nodes inside */
} patch;

typedef struct step {
    const tp_node *node;        /* borrowed from the plan's graph: kind, target */
    uint32_t slot;              /* of its result */
    uint32_t arg_count, keyword_count;
    uint32_t patch_count, free_count;
    tp_value *arg;              /* arena, borrowed from the graph: template */
    patch    *patch;            /* arena */
    uint32_t *free;             /* arena: slots nobody reads after this step */
} step;

/* An attribute read when the plan was made. */
typedef struct held {
    tp_value value;             /* owned */
    uint32_t slot;
} held;

struct tp_plan {
    tp_graph *graph;            /* counted: owns what the templates name */
    tp_arena  arena;
    tp_run_host host;
    bool      has_host, checked;
    uint32_t  input_count, slot_count, step_count;
    step     *step;             /* arena */
    held     *held;             /* arena */
    uint32_t  held_count;
    tp_array(tp_value) spread;  /* owned: lists that stand for single numbers of the graph */
    uint32_t *slot_of;          /* arena: by node id */
    tp_value  output;           /* borrowed from the graph */
};

/* ---- graphs as functions ---- */
typedef struct function {
    tp_handle head;
    tp_plan  *plan;             /* owned */
} function;

static void function_free(tp_handle *h)
{
    tp_plan_free(((function *)(void *)h)->plan);
    tp_free(h);
}

static bool function_equal(const tp_handle *a, const tp_handle *b) { return a == b; }
static uint64_t function_hash(const tp_handle *h) { return (uint64_t)(uintptr_t)h; }

static bool function_repr(const tp_handle *h, tp_text *out)
{
    (void)h;
    tp_text_add(out, "<graph>");
    return !out->failed || tp_fail_memory();
}

/* One value is a list of one. */
static bool function_call(tp_handle *h, const tp_value *arg, uint32_t count, tp_value *out)
{
    tp_value given;
    if (!tp_plan_run(((function *)(void *)h)->plan, arg, count, &given))
        return false;
    if (given.tag == TP_TUPLE)
        given.tag = TP_LIST;
    *out = given;
    if (given.tag == TP_LIST)
        return true;
    tp_list *l = tp_list_new(1);
    if (l)
        l->item[0] = given;
    else
        tp_value_unref(given);
    *out = l ? tp_of_list(l) : tp_none();
    return l;
}

static const tp_handle_type function_type = {
    .free = function_free, .equal = function_equal, .hash = function_hash, .repr = function_repr, .call = function_call,
};

bool tp_graph_function(tp_graph *g, const tp_run_host *host, tp_value *out)
{
    function *f = tp_alloc_zero(sizeof *f);
    if (!f || !(f->plan = tp_plan_new(g, host))) {
        tp_free(f);
        return false;
    }
    atomic_init(&f->head.refs, 1);
    f->head.type = &function_type;
    *out = (tp_value){ .tag = TP_HANDLE, .handle = &f->head };
    return true;
}

/* ---- making ---- */
typedef struct making {
    tp_plan  *plan;
    uint32_t *last;             /* by slot: the last step that reads it, +1; 0: none */
    uint32_t  at;               /* step being made */
} making;

static void note_read(tp_node *input, void *data)
{
    making *m = data;
    m->last[m->plan->slot_of[input->id]] = m->at + 1;
}

static bool has_nodes(tp_value v)
{
    if (v.tag >= TP_LIST && v.tag <= TP_SLICE)
        for (uint32_t i = 0; i < v.list->count; i++)
            if (v.list->item[i].tag == TP_NODE || has_nodes(v.list->item[i]))
                return true;
    return false;
}

/* A number alone for T[n] is n of it: Python's parser sees to it, a graph may have it as it was written. */
static bool spread_numbers(tp_plan *p, const tp_op *op, tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++) {
        const tp_arg *a = &op->arg[i];
        if (!a->list || !a->length || a->type == TP_TYPE_TENSOR || !tp_is_number(arg[i]))
            continue;
        tp_list *l = tp_list_new(a->length);
        for (uint32_t k = 0; l && k < a->length; k++)
            l->item[k] = tp_value_ref(arg[i]);
        if (!l || !tp_array_push(&p->spread, tp_of_list(l))) {
            if (l)
                tp_value_unref(tp_of_list(l));
            return false;
        }
        arg[i] = tp_of_list(l);
    }
    return true;
}

static bool fill_step(tp_plan *p, step *s)
{
    const tp_node *n = s->node;
    bool op = n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP;
    if (!op && !p->has_host && !(n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN))
        return tp_fail(TP_ERR_RUNTIME, "the node '%s' (%s) needs Python to run", n->name, tp_node_kind_names[n->kind]);
    s->arg_count = op ? n->target.op->arg_count : n->arg_count;
    s->keyword_count = op ? 0 : n->keyword_count;
    uint32_t count = s->arg_count + 2 * s->keyword_count;
    if (count > MOST_ARGS)
        return tp_fail(TP_ERR_RUNTIME, "the node '%s' has more than %d arguments", n->name, MOST_ARGS);
    if (!(s->arg = tp_arena_take_array(&p->arena, count + 1, sizeof *s->arg)) ||
        !(s->patch = tp_arena_take_array(&p->arena, count + 1, sizeof *s->patch)))
        return tp_fail_memory();
    if (op && (!tp_node_op_args(n, s->arg) || !spread_numbers(p, n->target.op, s->arg)))
        return false;
    if (!op && count)
        memcpy(s->arg, n->arg, count * sizeof *s->arg);
    for (uint32_t i = 0; i < count; i++) {
        tp_node *input = tp_as_node(s->arg[i]);
        if (input)
            s->patch[s->patch_count++] = (patch){ i, p->slot_of[input->id], false };
        else if (has_nodes(s->arg[i]))
            s->patch[s->patch_count++] = (patch){ i, 0, true };
    }
    return true;
}

static bool make_steps(tp_plan *p, making *m)
{
    uint32_t steps = 0, attributes = 0;
    tp_graph_each(p->graph, n) {
        p->slot_of[n->id] = p->slot_count++;
        steps += n->kind != TP_PLACEHOLDER && n->kind != TP_OUTPUT;
        attributes += n->kind == TP_GET_ATTR;
    }
    if (!(p->step = tp_arena_take_array(&p->arena, steps + 1, sizeof *p->step)) ||
        !(p->held = tp_arena_take_array(&p->arena, attributes + 1, sizeof *p->held)) ||
        !(m->last = tp_arena_take_array(&p->arena, p->slot_count + 1, sizeof *m->last)))
        return tp_fail_memory();
    memset(p->step, 0, (steps + 1) * sizeof *p->step);
    memset(m->last, 0, (p->slot_count + 1) * sizeof *m->last);
    tp_graph_each(p->graph, n) {
        if (n->kind == TP_PLACEHOLDER)
            continue;
        m->at = n->kind == TP_OUTPUT ? UINT32_MAX - 1 : p->step_count;
        tp_node_each_input(n, note_read, m);
        if (n->kind == TP_OUTPUT) {
            p->output = n->arg_count ? n->arg[0] : tp_none();
            break;
        }
        tp_graph *child = n->kind == TP_GET_ATTR && !p->has_host ? tp_graph_child(p->graph, n->target.name) : NULL;
        if (child || (n->kind == TP_GET_ATTR && p->has_host && p->host.fixed)) {
            held *h = &p->held[p->held_count];
            h->slot = p->slot_of[n->id];
            if (child ? !tp_graph_function(child, NULL, &h->value) : !p->host.attribute(p->host.owner, n->target.name, &h->value))
                return false;
            p->held_count++;
            continue;
        }
        step *s = &p->step[p->step_count++];
        s->node = n;
        s->slot = p->slot_of[n->id];
        if (!fill_step(p, s))
            return false;
    }
    return true;
}

/* Slots whose last reader is a step are freed by it; a result that nobody reads by the step that made it. */
static bool note_ends(tp_plan *p, const uint32_t *last)
{
    uint32_t *count = tp_arena_take_array(&p->arena, p->step_count + 1, sizeof *count);
    if (!count)
        return tp_fail_memory();
    memset(count, 0, (p->step_count + 1) * sizeof *count);
    for (uint32_t i = 0; i < p->step_count; i++) {
        uint32_t end = last[p->step[i].slot];
        if (end <= p->step_count)
            count[end ? end - 1 : i]++;
    }
    for (uint32_t i = 0; i < p->step_count; i++)
        if (!(p->step[i].free = tp_arena_take_array(&p->arena, count[i] + 1, sizeof *count)))
            return tp_fail_memory();
    for (uint32_t i = 0; i < p->step_count; i++) {
        uint32_t end = last[p->step[i].slot];
        if (end <= p->step_count) {
            step *by = &p->step[end ? end - 1 : i];
            by->free[by->free_count++] = p->step[i].slot;
        }
    }
    return true;
}

tp_plan *tp_plan_new(tp_graph *g, const tp_run_host *host)
{
    if (!tp_graph_check(g))
        return NULL;
    tp_plan *p = tp_alloc_zero(sizeof *p);
    if (!p)
        return NULL;
    tp_arena_init(&p->arena);
    p->graph = tp_graph_ref(g);
    if ((p->has_host = host))
        p->host = *host;
    making m = { .plan = p };
    bool ok = (p->slot_of = tp_arena_take_array(&p->arena, g->node_count + 1, sizeof *p->slot_of)) || tp_fail_memory();
    if (ok)
        tp_graph_each(g, n)
            p->input_count += n->kind == TP_PLACEHOLDER;
    if (ok && make_steps(p, &m) && note_ends(p, m.last))
        return p;
    tp_plan_free(p);
    return NULL;
}

void tp_plan_check_args(tp_plan *p)
{
    p->checked = true;
    for (uint32_t i = 0; i < p->held_count; i++)
        if (p->held[i].value.tag == TP_HANDLE && p->held[i].value.handle->type == &function_type)
            tp_plan_check_args(((function *)(void *)p->held[i].value.handle)->plan);
}

void tp_plan_free(tp_plan *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < p->held_count; i++)
        tp_value_unref(p->held[i].value);
    for (size_t i = 0; i < p->spread.count; i++)
        tp_value_unref(p->spread.item[i]);
    tp_array_fini(&p->spread);
    tp_arena_fini(&p->arena);
    tp_graph_unref(p->graph);
    tp_free(p);
}

uint32_t tp_plan_input_count(const tp_plan *p)
{
    return p->input_count;
}

/* ---- running ---- */
typedef struct running {
    const tp_plan *plan;
    tp_value *slot;
} running;

static tp_value slot_value(tp_node *n, void *data)
{
    const running *r = data;
    return tp_value_ref(r->slot[r->plan->slot_of[n->id]]);
}

/* Several results stand in one slot as a tuple. */
static bool run_op(const tp_op *op, const tp_value *arg, tp_value *out)
{
    if (op->result_count == 1)
        return tp_call(op, arg, out);
    tp_value result[MOST_ARGS] = { 0 };
    if (op->result_count > MOST_ARGS)
        return tp_fail(TP_ERR_RUNTIME, "aten::%s has more than %d results", op->name, MOST_ARGS);
    if (!tp_call(op, arg, result))
        return false;
    if (!op->result_count) {
        *out = tp_none();
        return true;
    }
    tp_list *l = tp_list_new(op->result_count);
    if (l)
        memcpy(l->item, result, op->result_count * sizeof *result);
    else
        tp_values_unref(result, op->result_count);
    *out = (tp_value){ .tag = TP_TUPLE, .list = l };
    return l;
}

static bool is_pythonic(const tp_value *arg, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (arg[i].tag == TP_TENSOR || arg[i].tag == TP_HANDLE || arg[i].tag == TP_SLICE)
            return true;
    return false;
}

static bool run_call(const tp_plan *p, const step *s, const tp_value *arg, tp_value *out)
{
    const tp_node *n = s->node;
    const tp_run_host *h = &p->host;
    switch ((tp_node_kind)n->kind) {
    case TP_GET_ATTR:    return h->attribute(h->owner, n->target.name, out);
    case TP_CALL_METHOD: return h->method(n->target.name, arg, s->arg_count, s->keyword_count, out);
    case TP_CALL_MODULE: return h->module(h->owner, n->target.name, arg, s->arg_count, s->keyword_count, out);
    default: break;
    }
    switch ((tp_target_kind)n->target.kind) {
    case TP_TARGET_OP:
        return (!p->checked || tp_op_check_args(n->target.op, arg)) && run_op(n->target.op, arg, out);
    case TP_TARGET_BUILTIN:
        if (s->arg_count != n->target.builtin->arity)
            return tp_fail(TP_ERR_TYPE, "%s takes %d arguments (%u given)", n->target.builtin->name, n->target.builtin->arity, s->arg_count);
        if (!is_pythonic(arg, s->arg_count) || !h->builtin)
            return n->target.builtin->run(arg, out);
        return h->builtin(n->target.builtin, arg, out);
    case TP_TARGET_HANDLE: return h->call(n->target.handle, arg, s->arg_count, s->keyword_count, out);
    case TP_TARGET_NAME: break;
    }
    return tp_fail(TP_ERR_RUNTIME, "the node '%s' calls '%s', which only its own kind of graph can run", n->name, n->target.name);
}

static bool run_step(running *r, const step *s)
{
    const tp_plan *p = r->plan;
    tp_value arg[MOST_ARGS], built[MOST_ARGS], result;
    uint32_t count = s->arg_count + 2 * s->keyword_count, built_count = 0;
    bool ok = true;
    memcpy(arg, s->arg, count * sizeof *arg);
    for (uint32_t i = 0; i < s->patch_count && ok; i++) {
        const patch *at = &s->patch[i];
        if (!at->nested) {
            arg[at->arg] = r->slot[at->slot];
        } else if ((ok = tp_value_map_nodes(arg[at->arg], slot_value, r, &built[built_count]))) {
            arg[at->arg] = built[built_count++];
        }
    }
    if (ok && (ok = run_call(p, s, arg, &result)))
        r->slot[s->slot] = result;
    tp_values_unref(built, built_count);
    if (!ok)
        return false;
    for (uint32_t i = 0; i < s->free_count; i++) {
        tp_value_unref(r->slot[s->free[i]]);
        r->slot[s->free[i]] = tp_none();
    }
    return true;
}

/* Runs the steps; the slots of results are owned afterwards, whether it succeeds or not. */
static bool run_steps(running *r, const tp_value *input, uint32_t count)
{
    const tp_plan *p = r->plan;
    if (count != p->input_count)
        return tp_fail(TP_ERR_TYPE, "the graph takes %u inputs but %u were given", p->input_count, count);
    uint32_t i = 0;
    tp_graph_each(p->graph, n) {
        if (n->kind != TP_PLACEHOLDER)
            break;
        r->slot[p->slot_of[n->id]] = input[i++];
    }
    for (uint32_t k = 0; k < p->held_count; k++)
        r->slot[p->held[k].slot] = p->held[k].value;
    for (uint32_t k = 0; k < p->step_count; k++) {
        if (k % POLL_EVERY == POLL_EVERY - 1 && tp_the_runtime.python.poll_interrupt && !tp_the_runtime.python.poll_interrupt())
            return false;
        if (!run_step(r, &p->step[k]))
            return false;
    }
    return true;
}

static bool run(const tp_plan *p, const tp_value *input, uint32_t count, bool (*finish)(running *r, void *data), void *data)
{
    tp_value few[FEW_SLOTS];
    running r = { p, p->slot_count <= FEW_SLOTS ? few : tp_alloc_array(p->slot_count, sizeof *few) };
    if (!r.slot)
        return false;
    for (uint32_t i = 0; i < p->slot_count; i++)
        r.slot[i] = tp_none();
    bool ok = run_steps(&r, input, count) && finish(&r, data);
    for (uint32_t k = 0; k < p->step_count; k++)
        tp_value_unref(r.slot[p->step[k].slot]);
    if (r.slot != few)
        tp_free(r.slot);
    return ok;
}

static bool finish_whole(running *r, void *data)
{
    return tp_value_map_nodes(r->plan->output, slot_value, r, data);
}

bool tp_plan_run(const tp_plan *p, const tp_value *input, uint32_t count, tp_value *result)
{
    return run(p, input, count, finish_whole, result);
}

typedef struct items {
    tp_value *result;
    uint32_t  count;
} items;

static bool finish_items(running *r, void *data)
{
    const items *want = data;
    tp_value output = r->plan->output;
    if ((output.tag != TP_TUPLE && output.tag != TP_LIST) || output.list->count != want->count)
        return tp_fail(TP_ERR_TYPE, "the graph does not give %u results", want->count);
    for (uint32_t i = 0; i < want->count; i++)
        if (!tp_value_map_nodes(output.list->item[i], slot_value, r, &want->result[i])) {
            tp_values_unref(want->result, i);
            return false;
        }
    return true;
}

bool tp_plan_run_into(const tp_plan *p, const tp_value *input, uint32_t count, tp_value *results, uint32_t result_count)
{
    return run(p, input, count, finish_items, &(items){ results, result_count });
}
