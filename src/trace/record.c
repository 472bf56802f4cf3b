/* record.c - the recorder: who is which node, calls to nodes, results to nodes. */
#include "trace/record.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "ops/derived.h"
#include "ops/symbolic.h"
#include "trace/record_graphs.h"
#include "trace/record_sizes.h"

typedef struct constant {
    tp_tensor *tensor;              /* counted */
    char       name[40];
} constant;

struct tp_recorder {
    tp_mount  mount;
    tp_record_host host;
    tp_graph *graph;                /* counted */
    tp_map    node_of;              /* address of a held tensor -> node */
    tp_array(tp_tensor *) held;     /* counted */
    tp_array(constant) constants;
    tp_map    constant_at;          /* address of a constant -> its index */
    uint32_t  tensor_constants, parameter_constants;
    tp_size_nodes sizes;
    tp_shape_env *env;              /* counted, may be NULL: names the numbers that were read */
};

enum { MOST_ARGS = 64, MOST_RESULTS = 64 };

/* ---- tensors and their nodes ---- */
tp_node *tp_record_node_of(const tp_recorder *r, const tp_tensor *t)
{
    uint64_t node;
    return tp_map_get(&r->node_of, (uint64_t)(uintptr_t)t, &node) ? (tp_node *)(uintptr_t)node : NULL;
}

/* The tensor is what this node yields; where its sizes are read is another matter. */
static bool follow(tp_recorder *r, tp_tensor *t, tp_node *n)
{
    uint64_t known;
    if (!n)
        return tp_graph_check(r->graph);
    if (!tp_map_get(&r->node_of, (uint64_t)(uintptr_t)t, &known)) {
        if (!tp_array_reserve(&r->held, r->held.count + 1))
            return false;
        if (!tp_map_put(&r->node_of, (uint64_t)(uintptr_t)t, (uint64_t)(uintptr_t)n))
            return false;
        r->held.item[r->held.count++] = tp_tensor_ref(t);
    } else if (!tp_map_put(&r->node_of, (uint64_t)(uintptr_t)t, (uint64_t)(uintptr_t)n)) {
        return false;
    }
    return true;
}

bool tp_record_track(tp_recorder *r, tp_tensor *t, tp_node *n)
{
    return follow(r, t, n) && tp_sizes_note(&r->sizes, t, n);
}

static bool holds_value(const tp_recorder *r, tp_value v)
{
    if (v.tag == TP_TENSOR)
        return (v.tensor->keys & TP_LAYER_BIT(TP_LAYER_DISPATCH)) && tp_record_node_of(r, v.tensor);
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (holds_value(r, v.list->item[i]))
            return true;
    return false;
}

static bool record_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result);

bool tp_record_holds(const tp_op *op, const tp_value *arg, const tp_recorder *r)
{
    const tp_mount *top = tp_self.tracer[1];
    if (!r && (!(tp_self.allowed & TP_LAYER_BIT(TP_LAYER_TRACE_R)) || !top || top->call != record_call))
        return false;
    for (int i = 0; i < op->arg_count; i++)
        if (holds_value(r ? r : (const tp_recorder *)(const void *)top, arg[i]))
            return true;
    return false;
}

bool tp_record_fact(tp_value v, tp_value *out)
{
    *out = tp_none();
    if (v.tag == TP_TENSOR) {
        tp_tensor *fake = tp_fake_beside(v.tensor, tp_fake_mode_of(v.tensor) ? v.tensor : NULL);     /* views and their base share in facts too */
        *out = tp_of_tensor(fake);
        return fake != NULL;
    }
    if (v.tag != TP_LIST && v.tag != TP_TUPLE) {
        *out = tp_value_ref(v);
        return out->tag == v.tag;
    }
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++)
        ok = tp_record_fact(v.list->item[i], &l->item[i]);
    *out = (tp_value){ .tag = v.tag, .list = l };
    if (!ok && l)
        tp_value_unref(*out);
    if (!ok)
        *out = tp_none();
    return ok;
}

static bool describe(tp_recorder *r, tp_node *n, tp_value v)
{
    tp_value fact;
    if (!n)
        return tp_graph_check(r->graph);
    if (!tp_record_fact(v, &fact))
        return false;
    tp_node_set_fact(n, fact);
    tp_value_unref(fact);
    if (!tp_self.grad_mode || tp_self.inference_mode)
        n->flags |= TP_NODE_NO_GRAD;
    if (r->host.origin) {
        tp_origin *o = r->host.origin(r->host.context);
        tp_node_set_origin(n, o);
        tp_origin_unref(o);
    }
    return true;
}

static constant *constant_of(tp_recorder *r, tp_tensor *t)
{
    uint64_t at;
    if (tp_map_get(&r->constant_at, (uint64_t)(uintptr_t)t, &at))
        return &r->constants.item[at];
    bool parameter = r->host.is_parameter && r->host.is_parameter(r->host.context, t);
    constant c = { .tensor = t };
    snprintf(c.name, sizeof c.name, parameter ? "_param_constant%u" : "_tensor_constant%u",
             parameter ? r->parameter_constants : r->tensor_constants);
    if (!tp_array_reserve(&r->constants, r->constants.count + 1) ||
        !tp_map_put(&r->constant_at, (uint64_t)(uintptr_t)t, r->constants.count) || !tp_array_push(&r->constants, c))
        return NULL;
    ++*(parameter ? &r->parameter_constants : &r->tensor_constants);
    tp_tensor_ref(t);
    return &r->constants.item[r->constants.count - 1];
}

/* A constant is fetched anew at each use, as FX shows it. */
static tp_node *constant_node(tp_recorder *r, tp_tensor *t)
{
    constant *c = constant_of(r, t);
    tp_node *n = c ? tp_graph_get_attr(r->graph, c->name) : NULL;
    return n && describe(r, n, tp_of_tensor(t)) ? n : NULL;
}

/* A builder gave NULL: says why. */
static bool failed(const tp_recorder *r)
{
    bool fine = tp_graph_check(r->graph);
    (void)fine;
    return false;
}

/* ---- arguments ---- */
static bool lower_list(tp_recorder *r, tp_value v, tp_value *out)
{
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++)
        ok = tp_record_lower(r, v.list->item[i], &l->item[i]);
    if (ok)
        *out = (tp_value){ .tag = v.tag, .list = l };
    else if (l)
        tp_value_unref(tp_of_list(l));
    return ok;
}

static bool lower_tensor(tp_recorder *r, tp_tensor *t, tp_value *out)
{
    tp_node *n = tp_record_node_of(r, t);
    if (!n && (t->keys & TP_KEY_NUMBER) && t->storage->data) {      /* a Python number in the place of a tensor */
        *out = tp_value_scalar(tp_tensor_element(t, tp_tensor_data(t)));
        return out->tag != TP_NONE;
    }
    if (!n && !(n = constant_node(r, t)))
        return failed(r);
    *out = tp_of_node(n);
    return true;
}

bool tp_record_lower(tp_recorder *r, tp_value v, tp_value *out)
{
    *out = tp_none();
    switch ((tp_tag)v.tag) {
    case TP_TENSOR: return lower_tensor(r, v.tensor, out);
    case TP_LIST:
    case TP_TUPLE:
    case TP_DICT:
    case TP_SLICE: return lower_list(r, v, out);
    case TP_SYM:
        *out = tp_sizes_value(&r->sizes, r->graph, (tp_sym){ v.sym });
        return out->tag != TP_NODE || out->node;
    default: *out = tp_value_ref(v); return out->tag == v.tag;
    }
}

static bool is_default(const tp_op *op, int i, tp_value v)
{
    return op->arg[i].fallback && tp_value_equal(*op->arg[i].fallback, v);
}

/* The arguments of a node in normal form: `out` has room for two values each; all are owned. */
static bool lower_call(tp_recorder *r, const tp_op *op, const tp_value *arg, tp_value *out, uint32_t *positional, uint32_t *keywords)
{
    int by_place = 0, shown;
    uint32_t at = 0;
    while (by_place < op->arg_count && !op->arg[by_place].keyword_only)
        by_place++;
    for (shown = by_place; shown > 0 && is_default(op, shown - 1, arg[shown - 1]); shown--)
        ;
    bool ok = true;
    for (int i = 0; ok && i < shown; i++)
        ok = tp_record_lower(r, arg[i], &out[at++]);
    *positional = (uint32_t)shown;
    *keywords = 0;
    for (int i = by_place; ok && i < op->arg_count; i++) {
        if (is_default(op, i, arg[i]))
            continue;
        out[at] = tp_value_string(op->arg[i].name, strlen(op->arg[i].name));
        out[at + 1] = tp_none();
        ok = out[at].tag == TP_STRING && tp_record_lower(r, arg[i], &out[at + 1]);
        at += 2;
        ++*keywords;
    }
    if (!ok)
        tp_values_unref(out, at);
    return ok;
}

/* torch.ops.higher_order.auto_functionalized(testlib.foo, x=…): the op first, then every argument by name, or all by place as far as they
 * are no defaults. `target` is counted. */
static bool lower_derived(tp_recorder *r, const tp_op *op, const tp_value *arg, tp_target *target, tp_value *out, uint32_t *positional, uint32_t *keywords)
{
    uint32_t at = 1;
    int count = op->arg_count;
    bool by_name = tp_derivations[op->rare->derivation].by_name, ok = true;
    if (!r->host.derived(r->host.context, op, target, &out[0]))
        return false;
    while (!by_name && count && is_default(op, count - 1, arg[count - 1]))
        count--;
    for (int i = 0; ok && i < count; i++) {
        if (by_name) {
            out[at] = tp_value_string(op->arg[i].name, strlen(op->arg[i].name));
            ok = out[at++].tag == TP_STRING;
        }
        out[at] = tp_none();
        ok = ok && tp_record_lower(r, arg[i], &out[at++]);
    }
    *positional = by_name ? 1 : at;
    *keywords = by_name ? (uint32_t)count : 0;
    if (!ok) {
        tp_values_unref(out, at);
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = target->handle });
    }
    return ok;
}

/* ---- results ---- */
static bool track_item(tp_recorder *r, tp_node *whole, int64_t index, tp_value v)
{
    tp_node *item = tp_graph_getitem(r->graph, whole, index);
    if (!item || !describe(r, item, v) || (v.tag == TP_TENSOR && !tp_record_track(r, v.tensor, item)))
        return false;
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (!track_item(r, item, i, v.list->item[i]))
            return false;
    return true;
}

static bool note_number(tp_recorder *r, tp_sym x, tp_node *n)
{
    if (!r->env)
        r->env = tp_shape_env_ref(tp_sym_env(x));
    return tp_sizes_note_word(&r->sizes, x, n);
}

static bool track_results(tp_recorder *r, const tp_op *op, tp_node *n, const tp_value *result)
{
    bool ok = true;
    if (op->result_count == 0)
        return true;
    if (op->result_count == 1 && result[0].tag == TP_SYM)
        return describe(r, n, result[0]) && note_number(r, (tp_sym){ result[0].sym }, n);
    if (op->result_count == 1 && result[0].tag == TP_TENSOR)
        return describe(r, n, result[0]) && tp_record_track(r, result[0].tensor, n);
    tp_value whole = result[0];
    tp_list *all = NULL;
    if (op->result_count > 1) {
        if (!(all = tp_list_new(op->result_count)))
            return false;
        memcpy(all->item, result, op->result_count * sizeof *result);      /* borrowed: emptied below */
        whole = (tp_value){ .tag = TP_TUPLE, .list = all };
    }
    ok = describe(r, n, whole);
    for (uint32_t i = 0; ok && i < tp_length(whole); i++)
        ok = track_item(r, n, i, whole.list->item[i]);
    if (all) {
        for (uint32_t i = 0; i < all->count; i++)
            all->item[i] = tp_none();
        tp_value_unref(whole);
    }
    return ok;
}

/* ---- calls ---- */

/* An op that gives numbers alone: what it reads is known (a size), or belongs to the traced values and may not be read. */
static bool gives_numbers(const tp_op *op)
{
    for (int i = 0; i < op->result_count; i++)
        if (op->result[i].type == TP_TYPE_TENSOR)
            return false;
    return op->result_count > 0;
}

static bool may_read(const tp_recorder *r, const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR && !tp_is_fake(arg[i].tensor) && tp_record_node_of(r, arg[i].tensor))
            return tp_fail(TP_ERR_RUNTIME, "It appears that you're trying to get value out of a tracing tensor with %s.%s.%s - erroring out! "
                           "It's likely that this is caused by data-dependent control flow or similar.  It may be possible to trace this with "
                           "dynamic shapes; try setting tracing_mode='symbolic' in your make_fx call.", op->space, op->name, *op->overload ? op->overload : "default");
    return true;
}

/* What the op gives: by the layers below, or, where a tensor of a Python class is a value of this trace, by that class, whose own
 * calls are not recorded. */
static bool compute(tp_recorder *r, const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (r->mount.layer != TP_LAYER_TRACE_R || !tp_record_holds(op, arg, r))
        return tp_mount_next(&r->mount, op, arg, result);
    uint32_t allowed = tp_self.allowed;
    tp_self.allowed = (allowed | TP_LAYER_BIT(TP_LAYER_DISPATCH)) & ~TP_LAYER_BIT(TP_LAYER_TRACE_R);
    bool ok = tp_the_runtime.layer[TP_LAYER_DISPATCH]->call(op, arg, result);
    tp_self.allowed = allowed;
    return ok;
}

static bool write_down(tp_recorder *r, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_value lowered[1 + 2 * MOST_ARGS];
    uint32_t positional, keywords;
    tp_target target = tp_target_op(op);
    bool shown = op->rare->of && r->host.derived;
    if (!(shown ? lower_derived(r, op, arg, &target, lowered, &positional, &keywords) : lower_call(r, op, arg, lowered, &positional, &keywords)))
        return false;
    bool ok = compute(r, op, arg, result);
    if (ok) {
        tp_node *n = tp_node_new(r->graph, TP_CALL_FUNCTION, target, lowered, positional, keywords, op->name);
        ok = (n ? track_results(r, op, n, result) : tp_graph_check(r->graph)) || tp_call_take_back(op, result);
    }
    tp_values_unref(lowered, positional + 2 * keywords);
    if (shown)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = target.handle });
    return ok;
}

/* A number read out of a fake tensor is a symbol, which comes from the node of the call. */
static bool write_number(tp_recorder *r, const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (!(op->flags & TP_OP_SYNC))
        return tp_mount_next(&r->mount, op, arg, result);
    if (!may_read(r, op, arg))
        return false;
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR && tp_is_fake(arg[i].tensor))
            return write_down(r, op, arg, result);
    return tp_mount_next(&r->mount, op, arg, result);
}

/* A fresh literal: PyTorch keeps it as a constant and copies it at each run, so that the graph may write into the copy. */
static bool write_literal(tp_recorder *r, const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_op *copy = tp_op_find("aten", "lift_fresh_copy", "");
    if (!copy || tp_record_node_of(r, arg[0].tensor))
        return write_down(r, op, arg, result);
    tp_node *n = constant_node(r, arg[0].tensor);
    if (!n || !(n = tp_graph_call(r->graph, copy, (tp_value[]){ tp_of_node(n) }, 1)))
        return failed(r);
    if (!tp_mount_next(&r->mount, copy, arg, result))
        return false;
    return (describe(r, n, result[0]) && tp_record_track(r, result[0].tensor, n)) || tp_call_take_back(copy, result);
}

static bool write_graphs(tp_recorder *r, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_node *n = tp_record_graphs(r, &r->mount, op, arg, result);
    return n && (track_results(r, op, n, result) || tp_call_take_back(op, result));
}

static bool run_table(const tp_op *op, const tp_value *arg, tp_value *result, void *user)
{
    tp_recorder *r = ((void **)user)[0];
    int *got = ((void **)user)[1];
    *got = r->host.decompose(r->host.context, op, arg, result);
    return *got >= 0;
}

static bool run_open(const tp_op *op, const tp_value *arg, tp_value *result, void *user)
{
    (void)user;
    return tp_call_open(op, arg, result);
}

static bool record_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_recorder *r = (tp_recorder *)(void *)m;
    if (op->rare->graphs)
        return write_graphs(r, op, arg, result);
    if (r->host.decompose) {
        int got = 0;
        if (!tp_mount_reopen(m, run_table, op, arg, result, (void *[]){ r, &got }))
            return false;
        if (got > 0)
            return true;
    }
    if (m->layer == TP_LAYER_TRACE_R && op->kind == TP_LIKE_COMPOSITE && op->open)
        return tp_mount_reopen(m, run_open, op, arg, result, NULL);
    if (gives_numbers(op))
        return write_number(r, op, arg, result);
    if (strcmp(op->name, "lift_fresh") == 0)
        return write_literal(r, op, arg, result);
    return write_down(r, op, arg, result);
}

/* ---- the recorder itself ---- */
tp_recorder *tp_recorder_new(const tp_record_host *host)
{
    tp_recorder *r = tp_alloc_zero(sizeof *r);
    if (!r)
        return NULL;
    if (!(r->graph = tp_graph_new())) {
        tp_free(r);
        return NULL;
    }
    r->mount.call = record_call;
    if (host)
        r->host = *host;
    return r;
}

void tp_recorder_free(tp_recorder *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->held.count; i++)
        tp_tensor_unref(r->held.item[i]);
    for (size_t i = 0; i < r->constants.count; i++)
        tp_tensor_unref(r->constants.item[i].tensor);
    tp_array_fini(&r->held);
    tp_array_fini(&r->constants);
    tp_map_fini(&r->constant_at);
    tp_map_fini(&r->node_of);
    tp_sizes_fini(&r->sizes);
    tp_shape_env_unref(r->env);
    tp_graph_unref(r->graph);
    tp_free(r);
}

void tp_recorder_enter(tp_recorder *r, tp_layer_id layer)
{
    tp_mount_push(&r->mount, layer);
}

void tp_recorder_leave(tp_recorder *r)
{
    tp_mount_pop(&r->mount);
}

const tp_record_host *tp_recorder_host(const tp_recorder *r)
{
    return &r->host;
}

tp_graph *tp_recorder_graph(const tp_recorder *r)
{
    return r->graph;
}

static tp_node *placeholder(tp_recorder *r, const char *name, tp_value v)
{
    tp_node *n = tp_graph_placeholder(r->graph, name);
    if (!n)
        return NULL;
    tp_node_set_target(n, tp_target_name(n->name));         /* leaves of one argument share a wish, not a name */
    return describe(r, n, v) ? n : NULL;
}

tp_node *tp_record_tangent(tp_recorder *r, const char *name, tp_tensor *t)
{
    tp_node *n = placeholder(r, name, tp_of_tensor(t));
    return n && follow(r, t, n) ? n : NULL;
}

bool tp_record_tangent_sizes(tp_recorder *r, const tp_tensor *t)
{
    return tp_sizes_prefer(&r->sizes, t, tp_record_node_of(r, t));
}

tp_node *tp_record_input(tp_recorder *r, const char *name, tp_value v)
{
    tp_node *n = placeholder(r, name, v);
    if (!n)
        return NULL;
    if (v.tag == TP_TENSOR && !tp_record_track(r, v.tensor, n))
        return NULL;
    if (v.tag == TP_SYM && !tp_sizes_note_word(&r->sizes, (tp_sym){ v.sym }, n))
        return NULL;
    return n;
}

bool tp_record_asserts(tp_recorder *r)
{
    return !r->env || tp_sizes_assert(&r->sizes, r->graph, r->env);
}

tp_node *tp_record_output(tp_recorder *r, tp_value lowered)
{
    return tp_graph_output(r->graph, lowered);
}

size_t tp_recorder_constant_count(const tp_recorder *r)
{
    return r->constants.count;
}

tp_tensor *tp_recorder_constant(const tp_recorder *r, size_t i, const char **name)
{
    *name = r->constants.item[i].name;
    return r->constants.item[i].tensor;
}
