/* model.c - the walk over a graph: see model.h. */
#include "export/onnx/model.h"

#include <string.h>

#include "export/onnx/internal.h"
#include "format/protobuf.h"
#include "fuse/open.h"
#include "ops/arguments.h"
#include "ops/dispatch.h"
#include "ops/promote.h"
#include "ops/run.h"

enum { MOST_ARGS = 64, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

/* ---- the arguments of a call ---- */

static tp_value fact_of(tp_node *n, void *data)
{
    (void)data;
    return tp_value_ref(n->fact);
}

/* The arguments completed: `raw` with nodes, borrowed; `fact` with what is known of them, owned. */
static bool read_args(const tp_node *n, tp_value *raw, tp_value *fact)
{
    const tp_op *op = n->target.op;
    for (int i = 0; i < op->arg_count; i++)
        fact[i] = tp_none();
    if (!tp_node_op_args(n, raw))
        return false;
    for (int i = 0; i < op->arg_count; i++)
        if (!tp_value_map_nodes(raw[i], fact_of, NULL, &fact[i]))
            return false;
    return true;
}

static void note_node(tp_node *n, void *data)
{
    (void)n;
    *(bool *)data = true;
}

/* A call of nothing but literals: it can be run now. */
static bool is_constant(const tp_node *n)
{
    bool reads = false;
    tp_node_each_input(n, note_node, &reads);
    return !reads && !(n->target.op->flags & (TP_OP_RNG | TP_OP_IO)) && n->target.op->result_count == 1;
}

static bool is_op(const tp_node *n)
{
    return n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP;
}

static bool is_getitem(const tp_node *n)
{
    return n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN &&
           strcmp(n->target.builtin->name, "getitem") == 0;
}

/* The placeholder that a call gives its new value, when the result is not read. */
static const tp_node *told(const tp_node *n)
{
    const tp_node *to = n->arg_count ? tp_as_node(n->arg[0]) : NULL;
    bool tells = is_op(n) && strcmp(n->target.op->name, "copy_") == 0 && n->user_count == 0 && to && to->kind == TP_PLACEHOLDER;
    return tells ? to : NULL;
}

static void note_view(tp_node *n, void *data)
{
    const tp_node **to = data;
    while (is_op(n) && n->target.op->kind == TP_LIKE_VIEW && n->arg_count && tp_as_node(n->arg[0]))
        n = tp_as_node(n->arg[0]);
    *to = n == *to ? NULL : *to;
}

/* A write that only tells an input its new value, after all calls: exported programs do not write. What is read of the input
 * afterwards, an output that is a view of it, would be the old value. */
static bool is_epilogue(const tp_node *n)
{
    const tp_node *to = told(n), *last = n;
    while (to && last->kind == TP_CALL_FUNCTION && told(last))
        last = last->next;
    if (!to || last->kind != TP_OUTPUT)
        return false;
    if (last->arg_count)
        tp_value_each_node(last->arg[0], note_view, &to);
    return to != NULL;
}

/* ---- what has no rule ---- */

int tp_onnx_has_rule(const tp_op *op, const tp_value *arg)
{
    int has = op->rare->onnx ? op->rare->onnx(NULL, arg) : 0;
    return has == 0 && op->pointwise ? tp_onnx_tile(NULL, op, arg) : has;
}

/* Facts that are missing, or say what no value of the op can be, are no ground for a rule: opening finds out. */
static int has_rule(const tp_node *n, const tp_value *fact)
{
    const tp_op *op = n->target.op;
    if (tp_op_check_args(op, fact))
        return is_constant(n) ? 1 : op->variant == TP_INPLACE ? 0 : tp_onnx_has_rule(op, fact);
    tp_error_clear();
    return 0;
}

static int has_lowering(const tp_node *n)
{
    tp_value raw[MOST_ARGS], fact[MOST_ARGS];
    if (!is_op(n) || n->target.op->variant == TP_OUT)
        return is_getitem(n);
    if (is_epilogue(n))
        return 1;
    int has = read_args(n, raw, fact) ? has_rule(n, fact) : -1;
    tp_values_unref(fact, n->target.op->arg_count);
    return has;
}

/* Appends the calls without a rule, each once; how many, -1: failed. */
static int unsupported(const tp_graph *g, tp_text *names)
{
    int count = 0;
    tp_graph_each(g, n)
    {
        if (n->kind != TP_CALL_FUNCTION && n->kind != TP_CALL_METHOD && n->kind != TP_CALL_MODULE)
            continue;
        int has = n->kind == TP_CALL_FUNCTION ? has_lowering(n) : 0;
        if (has < 0)
            return -1;
        if (has)
            continue;
        tp_text one = { 0 };
        if (is_op(n))
            tp_text_add(&one, "'%s.%s.%s'", n->target.op->space, n->target.op->name,
                        *n->target.op->overload ? n->target.op->overload : "default");
        else
            tp_text_add(&one, "'%s'", n->name);
        if (!one.failed && !strstr(tp_text_read(names), tp_text_read(&one)))
            tp_text_add(names, "%s%s", names->length ? ", " : "", tp_text_read(&one));
        names->failed |= one.failed;
        tp_text_fini(&one);
        count++;
    }
    return names->failed ? -1 : count;
}

/* ---- nodes ---- */

static bool store(tp_onnx *o, const tp_node *n, const int *value, size_t count)
{
    o->of[n->id] = (struct tp_onnx_made){ (uint32_t)o->made.count, (uint32_t)count };
    for (size_t i = 0; i < count; i++)
        if (!tp_array_push(&o->made, value[i]))
            return false;
    return true;
}

static bool store_one(tp_onnx *o, const tp_node *n, int value)
{
    return value && store(o, n, &value, 1);
}

static bool run_constant(tp_onnx *o, const tp_node *n, const tp_value *arg)
{
    tp_value result = tp_none();
    if (!tp_call(n->target.op, arg, &result))
        return false;
    bool ok = result.tag == TP_TENSOR && store_one(o, n, tp_onnx_constant(o, result.tensor, NULL));
    if (result.tag != TP_TENSOR)
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: %s gives no tensor", n->name);
    tp_value_unref(result);
    return ok;
}

static bool lower_call(tp_onnx *o, const tp_node *n, const tp_value *raw, const tp_value *fact)
{
    const tp_op *op = n->target.op;
    const tp_tile_form *form;
    tp_dtype common = TP_DTYPE_NONE, result;
    if (is_constant(n))
        return run_constant(o, n, fact);
    if (op->pointwise && !tp_pointwise_form(op, fact, &form, &common, &result))
        return false;
    const tp_pointwise *rule = op->pointwise && op->pointwise->pick ? op->pointwise->pick(fact) : NULL;
    o->node = n;
    o->raw = raw;
    o->common = (uint8_t)common;
    o->promoting = op->pointwise ? (rule ? rule : op->pointwise)->promoting : 0;
    o->result.count = 0;
    int done = op->rare->onnx ? op->rare->onnx(o, fact) : 0;
    if (done == 0)
        done = tp_onnx_tile(o, op, fact);
    o->node = NULL;
    if (done <= 0 || !tp_onnx_good(o))
        return false;
    for (size_t i = 0; i < o->result.count; i++) {
        const tp_tensor *t = tp_onnx_fact(n, (int)i);
        if (o->result.item[i] && t && o->value.item[o->result.item[i]].dtype == TP_DTYPE_NONE)
            o->value.item[o->result.item[i]].dtype = t->dtype;
    }
    return store(o, n, o->result.item, o->result.count);
}

static bool lower_op(tp_onnx *o, const tp_node *n)
{
    tp_value raw[MOST_ARGS], fact[MOST_ARGS];
    bool ok = read_args(n, raw, fact) && lower_call(o, n, raw, fact);
    tp_values_unref(fact, n->target.op->arg_count);
    return ok;
}

/* An item of several results, or of a list of tensors. One that has no form in ONNX fails when it is read. */
static bool lower_getitem(tp_onnx *o, const tp_node *n)
{
    const tp_node *of = tp_as_node(n->arg[0]);
    struct tp_onnx_made m = of ? o->of[of->id] : (struct tp_onnx_made){ 0, 0 };
    if (!of || n->arg_count != 2 || n->arg[1].tag != TP_INT)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: %s is no item of a call's results", n->name);
    int64_t i = n->arg[1].i;
    if (i < 0 || i >= m.count)
        return true;
    return store_one(o, n, o->made.item[m.first + i]) || !o->failed;
}

/* ---- inputs and outputs ---- */

static bool add_placeholder(tp_onnx *o, const tp_node *n, const tp_tensor *constant, const char *name)
{
    const tp_tensor *fact = tp_onnx_fact(n, 0);
    name = name ? name : n->name;
    if (constant)
        return store_one(o, n, tp_onnx_constant(o, constant, name));
    if (n->kind == TP_GET_ATTR)
        return tp_fail(TP_ERR_VALUE, "ONNX export: nothing is known of the attribute '%s'", n->target.name);
    if (!fact) /* a number or None among the inputs: it stands as a literal where it is read */
        return n->user_count == 0 || tp_fail(TP_ERR_VALUE, "ONNX export: the input '%s' is no tensor", n->name);
    if (fact->symbolic)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: sizes of '%s' that are not known", n->name);
    tp_onnx_put_type(&o->inputs, GRAPH_INPUT, name, fact);
    return store_one(o, n, tp_onnx_value_new(o, name, (tp_dtype)fact->dtype));
}

typedef struct outputs {
    tp_onnx *o;
    const tp_onnx_source *source;
    uint32_t count;
} outputs;

/* Each listing is a value of its own, by an Identity: a value may be listed twice, or be an input. */
static void add_output(tp_node *n, void *data)
{
    outputs *out = data;
    tp_onnx *o = out->o;
    const tp_tensor *fact = tp_onnx_fact(n, 0);
    tp_text name = { 0 };
    int from = tp_onnx_value_of(o, n);
    if (!from)
        return;
    if (out->count < out->source->output_count && out->source->output_name)
        tp_text_add(&name, "%s", out->source->output_name[out->count]);
    else
        tp_text_add(&name, "output.%u", out->count);
    out->count++;
    if (!fact || name.failed) {
        o->failed = true;
        if (!fact)
            (void)tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: the output '%s' is no tensor", n->name);
    } else {
        size_t node = tp_proto_open(&o->nodes, 1);
        tp_proto_put_text(&o->nodes, 1, o->value.item[from].name);
        tp_proto_put_text(&o->nodes, 2, tp_text_read(&name));
        tp_proto_put_text(&o->nodes, 4, "Identity");
        tp_proto_close(&o->nodes, node);
        tp_onnx_put_type(&o->outputs, GRAPH_OUTPUT, tp_text_read(&name), fact);
    }
    tp_text_fini(&name);
}

static const char *name_of(const tp_onnx_source *s, const tp_node *n)
{
    return s->name && s->name[n->id] ? s->name[n->id] : n->name;
}

static bool walk(tp_onnx *o, const tp_onnx_source *s)
{
    outputs out = { o, s, 0 };
    tp_graph_each(s->graph, n)
    {
        bool ok = true;
        const char *name = s->name ? s->name[n->id] : NULL;
        if (n->kind == TP_PLACEHOLDER || n->kind == TP_GET_ATTR)
            ok = add_placeholder(o, n, s->constant ? s->constant[n->id] : NULL, name);
        else if (is_epilogue(n))
            ok = !s->constant || !s->constant[told(n)->id] ||
                 tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: the program writes to '%s', a weight or buffer", name_of(s, told(n)));
        else if (is_op(n))
            ok = lower_op(o, n);
        else if (is_getitem(n))
            ok = lower_getitem(o, n);
        else if (n->kind == TP_OUTPUT && n->arg_count)
            tp_value_each_node(n->arg[0], add_output, &out);
        if (!ok || !tp_onnx_good(o))
            return false;
    }
    return true;
}

/* ---- the model ---- */

static void put_model(const tp_onnx *o, tp_text *out)
{
    tp_proto_put_int(out, 1, TP_ONNX_IR);
    tp_proto_put_text(out, 2, "taper");
    size_t graph = tp_proto_open(out, 7);
    tp_proto_put_text(out, 2, "main_graph");
    const tp_text *part[] = { &o->nodes, &o->initializers, &o->inputs, &o->outputs };
    for (size_t i = 0; i < TP_COUNT(part); i++)
        tp_text_put(out, tp_text_read(part[i]), part[i]->length);
    tp_proto_close(out, graph);
    size_t opset = tp_proto_open(out, 8);
    tp_proto_put_text(out, 1, "");
    tp_proto_put_int(out, 2, TP_ONNX_OPSET);
    tp_proto_close(out, opset);
}

static bool write_plain(const tp_onnx_source *s, tp_text *out)
{
    tp_onnx o;
    bool ok = tp_onnx_init(&o, s->graph->node_count) && walk(&o, s);
    if (ok && o.initializers.length > INT32_MAX) /* protobuf ends at 2 GB */
        ok = tp_fail(TP_ERR_UNIMPLEMENTED, "ONNX export: weights of more than 2 GB, which stand outside of the model");
    if (ok)
        put_model(&o, out);
    tp_onnx_fini(&o);
    if (!ok && tp_error_kind() == TP_ERR_NONE)
        return tp_fail_memory();
    return ok && (!out->failed || tp_fail_memory());
}

/* The same with its graph opened: what was known by the ids of the old graph is known by those of the new one. */
static bool write_opened(const tp_onnx_source *s, tp_text *out)
{
    tp_graph *g = tp_fuse_open(s->graph, tp_onnx_has_rule);
    const tp_tensor **constant = g ? tp_alloc_zero(sizeof *constant * (g->node_count + 1)) : NULL;
    const char **name = g ? tp_alloc_zero(sizeof *name * (g->node_count + 1)) : NULL;
    bool ok = constant && name;
    if (ok) {
        tp_fuse_open_map(s->graph, (const void *const *)s->constant, g, (const void **)constant);
        tp_fuse_open_map(s->graph, (const void *const *)s->name, g, (const void **)name);
    }
    tp_text names = { 0 };
    int missing = ok ? unsupported(g, &names) : -1;
    if (missing > 0)
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, "Unsupported FX nodes: {'call_function': [%s]}. ", tp_text_read(&names));
    tp_text_fini(&names);
    tp_onnx_source opened = { g, constant, name, s->output_name, s->output_count };
    ok = missing == 0 && write_plain(&opened, out);
    tp_free(constant);
    tp_free(name);
    tp_graph_unref(g);
    return ok;
}

bool tp_onnx_write(const tp_onnx_source *s, tp_text *out)
{
    tp_text names = { 0 };
    int missing = unsupported(s->graph, &names);
    tp_text_fini(&names);
    return missing == 0 ? write_plain(s, out) : missing > 0 && write_opened(s, out);
}
