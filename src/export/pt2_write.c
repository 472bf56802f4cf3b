/* pt2_write.c - a program as PyTorch 2.13 writes it: model.json, and the entries around it (docs/formats.md). */
#include <string.h>

#include "base/alloc.h"
#include "export/pt2.h"
#include "ops/symbolic.h"

enum { POSITIONAL = 1, KEYWORD = 2, MOST_RESULTS = 64 };

static void key_word(tp_json_writer *w, const char *key, const char *value)
{
    tp_json_put_key(w, key);
    if (value)
        tp_json_put_word(w, value);
    else
        tp_json_put_null(w);
}

/* {"name": NAME} */
static void put_name(tp_json_writer *w, const char *name)
{
    tp_json_open_object(w);
    key_word(w, "name", name);
    tp_json_close_object(w);
}

/* ---- arguments ---- */

/* What a node yields, as the name of an argument says it; NULL: it is a tensor. */
static const char *sym_word(const tp_node *n)
{
    if (n->fact.tag == TP_INT)
        return "as_sym_int";
    if (n->fact.tag != TP_SYM)
        return NULL;
    switch (tp_sym_type_of((tp_sym){ n->fact.sym })) {
    case TP_SYM_INT: return "as_sym_int";
    case TP_SYM_BOOL: return "as_sym_bool";
    case TP_SYM_FLOAT: return "as_sym_float";
    }
    return NULL;
}

static void put_float(tp_json_writer *w, double f)
{
    if (f != f)
        tp_json_put_word(w, "NaN");
    else if (f - f != 0)
        tp_json_put_word(w, f > 0 ? "Infinity" : "-Infinity");
    else
        tp_json_put_float(w, f);
}

/* {"as_name": NODE} or {"as_int": 3}: an item of as_sym_ints */
static void put_sym_item(tp_json_writer *w, tp_value v)
{
    tp_json_open_object(w);
    if (v.tag == TP_NODE)
        key_word(w, "as_name", tp_as_node(v)->name);
    else {
        tp_json_put_key(w, "as_int");
        tp_json_put_int(w, tp_as_int(v));
    }
    tp_json_close_object(w);
}

static void put_optional_tensor(tp_json_writer *w, tp_value v)
{
    tp_json_open_object(w);
    tp_json_put_key(w, v.tag == TP_NODE ? "as_tensor" : "as_none");
    if (v.tag == TP_NODE)
        put_name(w, tp_as_node(v)->name);
    else
        tp_json_put_bool(w, true);
    tp_json_close_object(w);
}

static bool put_argument(tp_json_writer *w, tp_value v, const tp_arg *type);
static bool put_graph(tp_json_writer *w, const tp_graph *g);

/* The kind of a list: by its items, an empty one by the schema. */
static bool put_list(tp_json_writer *w, tp_value v, const tp_arg *type)
{
    bool nodes = false, syms = false, none = false, floats = false, bools = false, texts = false, ints = false, others = false;
    for (uint32_t i = 0; i < v.list->count; i++) {
        tp_value item = v.list->item[i];
        bool sym = item.tag == TP_NODE && sym_word(tp_as_node(item));
        nodes = nodes || (item.tag == TP_NODE && !sym);
        syms = syms || sym;
        none = none || item.tag == TP_NONE;
        ints = ints || item.tag == TP_INT;
        floats = floats || item.tag == TP_FLOAT;
        bools = bools || item.tag == TP_BOOL;
        texts = texts || item.tag == TP_STRING;
        others = others || (item.tag > TP_FLOAT && item.tag != TP_NODE && item.tag != TP_STRING);
    }
    bool empty = !v.list->count;
    nodes = nodes || (empty && type && type->type == TP_TYPE_TENSOR);
    floats = floats || (empty && type && type->type == TP_TYPE_FLOAT);
    none = none || (nodes && type && type->items_optional);
    if (others || (none && !nodes) || (nodes && (ints || floats || bools || texts)) ||
        (texts && (ints || floats || bools || syms)))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: a list of such things cannot be saved");
    tp_json_put_key(w, nodes ? none ? "as_optional_tensors" : "as_tensors" : syms ? "as_sym_ints" : floats ? "as_floats"
                       : texts ? "as_strings" : bools ? "as_bools" : "as_ints");
    tp_json_open_list(w);
    for (uint32_t i = 0; i < v.list->count; i++) {
        tp_value item = v.list->item[i];
        if (nodes && none)
            put_optional_tensor(w, item);
        else if (nodes)
            put_name(w, tp_as_node(item)->name);
        else if (syms)
            put_sym_item(w, item);
        else if (floats)
            put_float(w, tp_as_double(item));
        else if (texts)
            tp_json_put_text(w, item.string->text, item.string->length);
        else if (bools)
            tp_json_put_bool(w, tp_as_bool(item));
        else
            tp_json_put_int(w, tp_as_int(item));
    }
    tp_json_close_list(w);
    return true;
}

static bool put_plain(tp_json_writer *w, tp_value v)
{
    char name[16];
    switch ((tp_tag)v.tag) {
    case TP_NONE: tp_json_put_key(w, "as_none"); tp_json_put_bool(w, true); return true;
    case TP_BOOL: tp_json_put_key(w, "as_bool"); tp_json_put_bool(w, v.b); return true;
    case TP_INT: tp_json_put_key(w, "as_int"); tp_json_put_int(w, v.i); return true;
    case TP_FLOAT: tp_json_put_key(w, "as_float"); put_float(w, v.f); return true;
    case TP_STRING: tp_json_put_key(w, "as_string"); tp_json_put_text(w, v.string->text, v.string->length); return true;
    case TP_DTYPE_VALUE: tp_json_put_key(w, "as_scalar_type"); tp_json_put_int(w, tp_pt2_dtype((tp_dtype)v.i)); return true;
    case TP_LAYOUT: tp_json_put_key(w, "as_layout"); tp_json_put_int(w, TP_PT2_STRIDED); return true;
    case TP_FORMAT_VALUE: tp_json_put_key(w, "as_memory_format"); tp_json_put_int(w, tp_pt2_format((tp_format)v.i)); return true;
    case TP_COMPLEX:
        tp_json_put_key(w, "as_complex");
        tp_json_open_object(w);
        tp_json_put_key(w, "real");
        put_float(w, v.complex->re);
        tp_json_put_key(w, "imag");
        put_float(w, v.complex->im);
        tp_json_close_object(w);
        return true;
    case TP_DEVICE:
        tp_json_put_key(w, "as_device");
        tp_json_open_object(w);
        key_word(w, "type", tp_device_name((tp_device){ .type = v.device.type, .index = -1 }, name));
        tp_json_put_key(w, "index");
        if (v.device.index < 0)
            tp_json_put_null(w);
        else
            tp_json_put_int(w, v.device.index);
        tp_json_close_object(w);
        return true;
    default: return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: an argument of this kind cannot be saved");
    }
}

/* The graph that a node reads; NULL: it reads none. */
static const tp_graph *child_of(const tp_node *n)
{
    return n && n->kind == TP_GET_ATTR ? tp_graph_child(n->graph, n->target.name) : NULL;
}

/* An object of one key; `type` may be NULL. */
static bool put_argument(tp_json_writer *w, tp_value v, const tp_arg *type)
{
    bool ok = true;
    const tp_graph *child = child_of(tp_as_node(v));
    tp_json_open_object(w);
    if (child) {
        tp_json_put_key(w, "as_graph");
        tp_json_open_object(w);
        key_word(w, "name", tp_as_node(v)->target.name);
        tp_json_put_key(w, "graph");
        ok = put_graph(w, child);
        tp_json_close_object(w);
    } else if (v.tag == TP_NODE) {
        const tp_node *n = tp_as_node(v);
        const char *word = sym_word(n);
        tp_json_put_key(w, word ? word : "as_tensor");
        tp_json_open_object(w);
        key_word(w, word ? "as_name" : "name", n->name);
        tp_json_close_object(w);
    } else if (v.tag == TP_LIST || v.tag == TP_TUPLE) {
        ok = put_list(w, v, type);
    } else {
        ok = put_plain(w, v);
    }
    tp_json_close_object(w);
    return ok;
}

static bool put_input(tp_json_writer *w, const char *name, tp_value v, const tp_arg *type, int kind)
{
    tp_json_open_object(w);
    key_word(w, "name", name);
    tp_json_put_key(w, "arg");
    bool ok = put_argument(w, v, type);
    tp_json_put_key(w, "kind");
    tp_json_put_int(w, kind);
    tp_json_close_object(w);
    return ok;
}

/* ---- nodes ---- */

/* The getitem of result `i`; NULL: nobody takes it. */
static const tp_node *taker(const tp_node *n, int64_t i)
{
    for (uint32_t k = 0; k < n->user_count; k++) {
        const tp_node *u = n->user[k];
        if (u->kind == TP_CALL_FUNCTION && u->target.kind == TP_TARGET_BUILTIN && u->target.builtin == tp_builtin_getitem &&
            u->arg_count == 2 && u->arg[1].tag == TP_INT && u->arg[1].i == i)
            return u;
    }
    return NULL;
}

static bool is_taker(const tp_node *n)
{
    return n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN && n->target.builtin == tp_builtin_getitem;
}

static void put_result_name(tp_json_writer *w, const tp_node *n, uint32_t i)
{
    const tp_node *t = taker(n, i);
    tp_text name = { 0 };
    tp_text_add(&name, t ? "%s" : "%s_unused_%u", t ? t->name : n->name, i);
    put_name(w, tp_text_read(&name));
    tp_text_fini(&name);
}

static bool put_outputs(tp_json_writer *w, const tp_node *n)
{
    bool ok = true, several = n->fact.tag == TP_LIST || n->fact.tag == TP_TUPLE;
    const tp_op *op = n->target.kind == TP_TARGET_OP ? n->target.op : NULL;
    tp_json_put_key(w, "outputs");
    tp_json_open_list(w);
    if (several && op && op->result_count == 1 && !op->rare->graphs) {
        tp_json_open_object(w);
        tp_json_put_key(w, "as_tensors");
        tp_json_open_list(w);
        for (uint32_t i = 0; i < n->fact.list->count; i++)
            put_result_name(w, n, i);
        tp_json_close_list(w);
        tp_json_close_object(w);
    } else if (several) {
        for (uint32_t i = 0; i < n->fact.list->count; i++) {
            tp_json_open_object(w);
            tp_json_put_key(w, "as_tensor");
            put_result_name(w, n, i);
            tp_json_close_object(w);
        }
    } else if (!op || op->result_count) {
        ok = put_argument(w, tp_of_node(n), NULL);
    }
    tp_json_close_list(w);
    return ok;
}

static bool put_op_inputs(tp_json_writer *w, const tp_node *n)
{
    const tp_op *op = n->target.op;
    bool ok = true;
    for (uint32_t i = 0; ok && i < n->arg_count && i < op->arg_count; i++)
        ok = put_input(w, op->rare->graphs ? "" : op->arg[i].name, n->arg[i], &op->arg[i], op->arg[i].keyword_only ? KEYWORD : POSITIONAL);
    for (uint32_t i = 0; ok && i < n->keyword_count; i++) {
        const tp_value *pair = n->arg + n->arg_count + 2 * i;
        int at = tp_op_arg_index(op, pair[0].string->text);
        ok = put_input(w, pair[0].string->text, pair[1], at >= 0 ? &op->arg[at] : NULL, KEYWORD);
    }
    return ok;
}

static bool put_builtin_inputs(tp_json_writer *w, const tp_node *n)
{
    static const char *const names[] = { "a", "b", "c" };
    bool ok = true;
    for (uint32_t i = 0; ok && i < n->arg_count && i < TP_COUNT(names); i++)
        ok = put_input(w, names[i], n->arg[i], NULL, POSITIONAL);
    return ok;
}

static void put_metadata(tp_json_writer *w, const tp_node *n)
{
    tp_json_put_key(w, "metadata");
    tp_json_open_object(w);
    if (n->origin && n->origin->stack_trace)
        key_word(w, "stack_trace", n->origin->stack_trace->text);
    tp_json_close_object(w);
}

static bool put_node(tp_json_writer *w, const tp_node *n)
{
    tp_text target = { 0 };
    if (n->target.kind == TP_TARGET_OP) {
        tp_target_op_text(n->target.op, "torch.ops.", &target);
    } else if (n->target.kind == TP_TARGET_BUILTIN) {
        tp_text_add(&target, "%s.%s", n->target.builtin->module, n->target.builtin->name);
    } else {
        return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: node %s calls what is no op; it cannot be saved", n->name);
    }
    tp_json_open_object(w);
    key_word(w, "target", tp_text_read(&target));
    tp_text_fini(&target);
    tp_json_put_key(w, "inputs");
    tp_json_open_list(w);
    bool ok = n->target.kind == TP_TARGET_OP ? put_op_inputs(w, n) : put_builtin_inputs(w, n);
    tp_json_close_list(w);
    ok = ok && put_outputs(w, n);
    put_metadata(w, n);
    tp_json_put_key(w, "is_hop_single_tensor_return");
    if (n->target.kind == TP_TARGET_OP && n->target.op->rare->graphs)
        tp_json_put_bool(w, false);
    else
        tp_json_put_null(w);
    key_word(w, "name", n->name);
    tp_json_close_object(w);
    return ok;
}

/* ---- the graph ---- */
static bool put_tensor_values(tp_json_writer *w, const tp_graph *g)
{
    bool ok = true;
    tp_json_put_key(w, "tensor_values");
    tp_json_open_object(w);
    tp_graph_each(g, n)
    {
        if (n->fact.tag == TP_TENSOR && n->kind != TP_OUTPUT) {
            tp_json_put_key(w, n->name);
            ok = ok && tp_pt2_put_meta(w, n->fact.tensor);
        }
        bool several = n->kind == TP_CALL_FUNCTION && (n->fact.tag == TP_LIST || n->fact.tag == TP_TUPLE);
        for (uint32_t i = 0; ok && several && i < n->fact.list->count; i++) {
            if (taker(n, i) || n->fact.list->item[i].tag != TP_TENSOR)
                continue;
            tp_text name = { 0 };
            tp_text_add(&name, "%s_unused_%u", n->name, i);
            tp_json_put_key(w, tp_text_read(&name));
            tp_text_fini(&name);
            ok = tp_pt2_put_meta(w, n->fact.list->item[i].tensor);
        }
        if (!ok)
            break;
    }
    tp_json_close_object(w);
    return ok;
}

static bool put_sym_values(tp_json_writer *w, const tp_graph *g, const char *key, const char *word)
{
    bool ok = true;
    tp_json_put_key(w, key);
    tp_json_open_object(w);
    tp_graph_each(g, n)
    {
        const char *own = n->kind == TP_CALL_FUNCTION || n->kind == TP_PLACEHOLDER ? sym_word(n) : NULL;
        if (n->kind == TP_PLACEHOLDER && n->fact.tag == TP_INT)
            own = NULL;
        if (!own || strcmp(own, word) != 0)
            continue;
        tp_json_put_key(w, n->name);
        ok = ok && tp_pt2_put_sym(w, tp_sym_read(n->fact));
    }
    tp_json_close_object(w);
    return ok;
}

/* A user input that is no tensor and no symbol is a constant of the call. */
static bool is_constant(const tp_node *n)
{
    return n->fact.tag != TP_TENSOR && n->fact.tag != TP_SYM;
}

static bool put_graph(tp_json_writer *w, const tp_graph *g)
{
    const tp_node *output = tp_graph_output_node(g);
    bool ok = true;
    tp_json_open_object(w);
    tp_json_put_key(w, "inputs");
    tp_json_open_list(w);
    tp_graph_each(g, n)
    {
        if (n->kind == TP_PLACEHOLDER)
            ok = ok && put_argument(w, is_constant(n) ? n->fact : tp_of_node(n), NULL);
    }
    tp_json_close_list(w);
    tp_json_put_key(w, "outputs");
    tp_json_open_list(w);
    bool single = output && output->arg_count && output->arg[0].tag == TP_NODE;     /* of a function that gives one value */
    if (ok && single)
        ok = put_argument(w, output->arg[0], NULL);
    for (uint32_t i = 0; ok && output && i < tp_length(output->arg[0]); i++)
        ok = put_argument(w, output->arg[0].list->item[i], NULL);
    tp_json_close_list(w);
    tp_json_put_key(w, "nodes");
    tp_json_open_list(w);
    tp_graph_each(g, n)
    {
        if (n->kind == TP_CALL_FUNCTION && !is_taker(n))
            ok = ok && put_node(w, n);
        else if (n->kind != TP_PLACEHOLDER && n->kind != TP_OUTPUT && n->kind != TP_CALL_FUNCTION && !child_of(n))
            ok = tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: node %s is no call of an op; it cannot be saved", n->name);
        if (!ok)
            break;
    }
    tp_json_close_list(w);
    ok = ok && put_tensor_values(w, g) && put_sym_values(w, g, "sym_int_values", "as_sym_int") &&
         put_sym_values(w, g, "sym_bool_values", "as_sym_bool");
    if (!ok)
        return false;
    tp_json_put_key(w, "is_single_tensor_return");
    tp_json_put_bool(w, single);
    tp_json_put_key(w, "custom_obj_values");
    tp_json_open_object(w);
    tp_json_close_object(w);
    ok = put_sym_values(w, g, "sym_float_values", "as_sym_float");
    tp_json_close_object(w);
    return ok;
}

/* ---- signature and the rest ---- */
static bool put_user_input(tp_json_writer *w, const tp_node *n)
{
    bool constant = is_constant(n);
    tp_json_put_key(w, constant ? "constant_input" : "user_input");
    tp_json_open_object(w);
    if (constant)
        key_word(w, "name", n->name);
    tp_json_put_key(w, constant ? "value" : "arg");
    bool ok = put_argument(w, constant ? n->fact : tp_of_node(n), NULL);
    tp_json_close_object(w);
    return ok;
}

static bool put_input_spec(tp_json_writer *w, const tp_input_spec *s, const tp_node *n)
{
    static const struct { const char *kind, *target; } words[] = {
        [TP_INPUT_PARAMETER] = { "parameter", "parameter_name" },
        [TP_INPUT_BUFFER] = { "buffer", "buffer_name" },
        [TP_INPUT_CONSTANT] = { "tensor_constant", "tensor_constant_name" },
    };
    bool ok = true;
    tp_json_open_object(w);
    if (s->kind == TP_INPUT_USER) {
        ok = put_user_input(w, n);
    } else if (s->kind > TP_INPUT_CONSTANT) {
        ok = tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: input %s is an object or token; it cannot be saved", s->name);
    } else {
        tp_json_put_key(w, words[s->kind].kind);
        tp_json_open_object(w);
        tp_json_put_key(w, "arg");
        put_name(w, n->name);
        key_word(w, words[s->kind].target, s->target);
        if (s->kind == TP_INPUT_BUFFER) {
            tp_json_put_key(w, "persistent");
            tp_json_put_bool(w, s->persistent);
        }
        tp_json_close_object(w);
    }
    tp_json_close_object(w);
    return ok;
}

static bool put_output_spec(tp_json_writer *w, const tp_output_spec *s, tp_value v)
{
    static const struct { const char *kind, *target; } words[] = {
        [TP_OUTPUT_USER] = { "user_output", NULL },
        [TP_OUTPUT_LOSS] = { "loss_output", NULL },
        [TP_OUTPUT_BUFFER] = { "buffer_mutation", "buffer_name" },
        [TP_OUTPUT_PARAMETER_GRADIENT] = { "gradient_to_parameter", "parameter_name" },
        [TP_OUTPUT_INPUT_GRADIENT] = { "gradient_to_user_input", "user_input_name" },
        [TP_OUTPUT_INPUT] = { "user_input_mutation", "user_input_name" },
    };
    bool ok = true;
    if (s->kind > TP_OUTPUT_INPUT)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: tokens among outputs cannot be saved");
    tp_json_open_object(w);
    tp_json_put_key(w, words[s->kind].kind);
    tp_json_open_object(w);
    tp_json_put_key(w, "arg");
    if (s->kind == TP_OUTPUT_USER)
        ok = put_argument(w, v, NULL);
    else
        put_name(w, v.tag == TP_NODE ? tp_as_node(v)->name : "");
    if (words[s->kind].target)
        key_word(w, words[s->kind].target, s->target);
    tp_json_close_object(w);
    tp_json_close_object(w);
    return ok;
}

static bool put_signature(tp_json_writer *w, const tp_program *p)
{
    const tp_node *output = tp_graph_output_node(p->graph);
    bool ok = true;
    size_t row = 0;
    tp_json_open_object(w);
    tp_json_put_key(w, "input_specs");
    tp_json_open_list(w);
    tp_graph_each(p->graph, n)
    {
        if (n->kind == TP_PLACEHOLDER)
            ok = ok && put_input_spec(w, &p->signature.input[row++], n);
    }
    tp_json_close_list(w);
    tp_json_put_key(w, "output_specs");
    tp_json_open_list(w);
    for (size_t i = 0; ok && i < p->signature.output_count; i++)
        ok = put_output_spec(w, &p->signature.output[i], output->arg[0].list->item[i]);
    tp_json_close_list(w);
    tp_json_close_object(w);
    return ok;
}

static void put_modules(tp_json_writer *w, const tp_program *p)
{
    tp_json_put_key(w, "module_call_graph");
    tp_json_open_list(w);
    tp_json_open_object(w);
    key_word(w, "fqn", "");
    tp_json_put_key(w, "signature");
    tp_json_open_object(w);
    tp_json_put_key(w, "inputs");
    tp_json_open_list(w);
    tp_json_close_list(w);
    tp_json_put_key(w, "outputs");
    tp_json_open_list(w);
    tp_json_close_list(w);
    key_word(w, "in_spec", p->in_spec ? p->in_spec : "");
    key_word(w, "out_spec", p->out_spec ? p->out_spec : "");
    tp_json_put_key(w, "forward_arg_names");
    tp_json_open_list(w);
    for (size_t i = 0; i < p->forward_count; i++)
        tp_json_put_word(w, p->forward_name[i]);
    tp_json_close_list(w);
    tp_json_close_object(w);
    tp_json_close_object(w);
    for (size_t i = 0; i < p->module_count; i++) {
        tp_json_open_object(w);
        key_word(w, "fqn", p->module[i]);
        key_word(w, "signature", NULL);
        tp_json_close_object(w);
    }
    tp_json_close_list(w);
}

static void put_bound(tp_json_writer *w, const char *key, int64_t v, int64_t none)
{
    tp_json_put_key(w, key);
    if (v == none)
        tp_json_put_null(w);
    else
        tp_json_put_int(w, v);
}

static void put_tail(tp_json_writer *w, const tp_program *p)
{
    tp_json_put_key(w, "opset_version");
    tp_json_open_object(w);
    tp_json_put_key(w, "aten");
    tp_json_put_int(w, 10);
    tp_json_close_object(w);
    tp_json_put_key(w, "range_constraints");
    tp_json_open_object(w);
    for (size_t i = 0; i < p->range_count; i++) {
        tp_json_put_key(w, p->range[i].symbol);
        tp_json_open_object(w);
        put_bound(w, "min_val", p->range[i].range.low, INT64_MIN);
        put_bound(w, "max_val", p->range[i].range.high, INT64_MAX);
        tp_json_close_object(w);
    }
    tp_json_close_object(w);
    tp_json_put_key(w, "schema_version");
    tp_json_open_object(w);
    tp_json_put_key(w, "major");
    tp_json_put_int(w, TP_PT2_MAJOR);
    tp_json_put_key(w, "minor");
    tp_json_put_int(w, TP_PT2_MINOR);
    tp_json_close_object(w);
    tp_json_put_key(w, "verifiers");
    tp_json_open_list(w);
    tp_json_put_word(w, p->dialect);
    tp_json_close_list(w);
    key_word(w, "torch_version", "2.13.0+cpu");
    tp_json_put_key(w, "guards_code");
    tp_json_open_list(w);
    for (size_t i = 0; i < p->guard_count; i++)
        tp_json_put_word(w, p->guard[i]);
    tp_json_close_list(w);
}

bool tp_pt2_write_model(const tp_program *p, tp_text *out)
{
    tp_json_writer w;
    if (!tp_signature_check(&p->signature, p->graph))
        return false;
    tp_json_writer_init(&w, out);
    tp_json_open_object(&w);
    tp_json_put_key(&w, "graph_module");
    tp_json_open_object(&w);
    tp_json_put_key(&w, "graph");
    if (!put_graph(&w, p->graph))
        return false;
    tp_json_put_key(&w, "signature");
    if (!put_signature(&w, p))
        return false;
    put_modules(&w, p);
    tp_json_put_key(&w, "metadata");
    tp_json_open_object(&w);
    tp_json_close_object(&w);
    tp_json_put_key(&w, "treespec_namedtuple_fields");
    tp_json_open_object(&w);
    tp_json_close_object(&w);
    tp_json_close_object(&w);
    put_tail(&w, p);
    tp_json_close_object(&w);
    return !out->failed || tp_fail_memory();
}

bool tp_program_write(const tp_program *p, tp_zip_writer *w)
{
    tp_text model = { 0 };
    bool ok = tp_pt2_write_model(p, &model) && tp_pt2_write_state(p, w) && tp_zip_add(w, "models/model.json", model.at, model.length);
    tp_text_fini(&model);
    if (ok && p->examples)
        ok = tp_zip_add(w, "data/sample_inputs/model.pt", p->examples, p->example_bytes);
    return ok && tp_zip_add_text(w, "archive_format", "pt2") && tp_zip_add_text(w, "archive_version", "0") &&
           tp_zip_add_text(w, ".data/version", "6\n") && tp_zip_add_text(w, "byteorder", "little");
}
