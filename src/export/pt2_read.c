/* pt2_read.c - model.json back into a graph and its signature.
 *
 * The file is untrusted: names must be known before they are used and given once, ops must exist and not touch files, the graph
 * must pass the verifier, and the signature must fit it. Names go into generated code: they are identifiers. Symbols get the
 * names, ranges and hints of the file in an environment of their own. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "export/pt2.h"
#include "ir/text.h"
#include "ops/symbolic.h"

enum { MOST_ARGS = 64 };

typedef struct reading {
    tp_program  *program;
    tp_graph    *graph;             /* borrowed from the program */
    tp_shape_env *env;              /* borrowed from the graph */
    const tp_json *tensors, *ints, *bools, *floats;     /* tables of facts by name */
    tp_text_map  node;              /* name -> tp_node * */
} reading;

static bool broken(const char *what)
{
    return tp_fail(TP_ERR_RUNTIME, "pt2: %s", what);
}

static bool check_name(const char *name)
{
    return tp_pt2_is_name(name) || tp_fail(TP_ERR_RUNTIME, "pt2: \"%.80s\" is no name for a value", name ? name : "");
}

/* ---- symbols ---- */
static tp_range range_of(const tp_program *p, const char *name)
{
    for (size_t i = 0; i < p->range_count; i++)
        if (strcmp(p->range[i].symbol, name) == 0)
            return p->range[i].range;
    return TP_RANGE_ALL;
}

/* `Symbol('s0', …)` alone: its name. */
static bool bare_symbol(const char *text, char name[64])
{
    static const char start[] = "Symbol('";
    if (!text || strncmp(text, start, sizeof start - 1) != 0)
        return false;
    const char *at = text + sizeof start - 1, *end = strchr(at, '\'');
    if (!end || end == at || end - at >= 64 || !strchr(end, ')') || strchr(end, ')')[1])
        return false;
    memcpy(name, at, (size_t)(end - at));
    name[end - at] = 0;
    return tp_pt2_is_name(name);
}

static bool declare(reading *r, const tp_json *sym)
{
    const tp_json *e = tp_json_get(sym, "as_expr"), *hint = tp_json_get(tp_json_get(e, "hint"), "as_int");
    char name[64];
    if (!bare_symbol(tp_json_text(tp_json_get(e, "expr_str"), NULL), name) || !tp_sym_is_failed(tp_shape_env_find(r->env, name)))
        return true;
    int64_t value = tp_json_int(hint, 0);
    tp_range range = range_of(r->program, name);
    bool fits = tp_json_is(hint, TP_JSON_INT) && value >= range.low && value <= range.high;
    return !tp_sym_is_failed(tp_shape_env_named(r->env, name, fits ? &value : NULL, range)) || tp_shape_env_check(r->env);
}

/* All symbols with their hints, before any expression mentions them. */
static bool declare_symbols(reading *r)
{
    for (size_t i = 0; i < tp_json_count(r->tensors); i++) {
        const tp_json *sizes = tp_json_get(&r->tensors->item[i], "sizes");
        for (size_t k = 0; k < tp_json_count(sizes); k++)
            if (!declare(r, tp_json_at(sizes, k)))
                return false;
    }
    for (size_t i = 0; i < tp_json_count(r->ints); i++)
        if (!declare(r, &r->ints->item[i]))
            return false;
    return true;
}

static bool read_ranges(tp_program *p, const tp_json *ranges)
{
    size_t count = tp_json_is(ranges, TP_JSON_OBJECT) ? ranges->count : 0;
    p->range = tp_arena_take_array(&p->arena, count, sizeof *p->range);
    if (count && !p->range)
        return false;
    for (size_t i = 0; i < count; i++) {
        tp_range *r = &p->range[i].range;
        p->range[i].symbol = tp_text_in(&p->arena, ranges->key[i].text, ranges->key[i].length);
        *r = (tp_range){ tp_json_int(tp_json_get(&ranges->item[i], "min_val"), INT64_MIN),
                         tp_json_int(tp_json_get(&ranges->item[i], "max_val"), INT64_MAX) };
        if (!p->range[i].symbol)
            return false;
        if (!check_name(p->range[i].symbol))
            return false;
        if (r->low > r->high)
            return broken("a range of sizes is empty");
        p->range_count++;
    }
    return true;
}

/* ---- nodes by name ---- */
static tp_node *find(const reading *r, const char *name)
{
    uint64_t at;
    if (!name || !tp_text_map_get(&r->node, name, &at))
        return tp_fail(TP_ERR_RUNTIME, "pt2: the graph reads %.80s before anything makes it", name ? name : "a value without a name");
    return (tp_node *)(uintptr_t)at;
}

/* What the tables say of a name; none: nothing. Owned. */
static bool get_fact(const reading *r, const char *name, tp_value *out)
{
    const tp_json *meta = tp_json_get(r->tensors, name), *sym = tp_json_get(r->ints, name);
    *out = tp_none();
    if (!sym && !(sym = tp_json_get(r->bools, name)))
        sym = tp_json_get(r->floats, name);
    if (meta) {
        tp_tensor *t = tp_pt2_get_meta(r->env, meta);
        *out = tp_of_tensor(t);
        return t != NULL;
    }
    if (sym) {
        tp_sym x = tp_pt2_get_sym(r->env, sym);
        *out = tp_of_sym(x);
        return !tp_sym_is_failed(x);
    }
    return true;
}

/* The node has this very name from now on. */
static bool name_node(reading *r, tp_node *n, const char *name)
{
    uint64_t at;
    if (!n)
        return tp_graph_check(r->graph);
    if (!check_name(name))
        return false;
    if (tp_text_map_get(&r->node, name, &at))
        return tp_fail(TP_ERR_RUNTIME, "pt2: two values are named %.80s", name);
    if (strcmp(n->name, name) != 0 && !tp_node_set_name(n, name))
        return false;
    if (n->kind == TP_PLACEHOLDER)
        tp_node_set_target(n, tp_target_name(n->name));
    return tp_text_map_put(&r->node, name, (uint64_t)(uintptr_t)n);
}

static bool describe(reading *r, tp_node *n, const char *name)
{
    tp_value fact;
    if (!get_fact(r, name, &fact))
        return false;
    tp_node_set_fact(n, fact);
    tp_value_unref(fact);
    return true;
}

/* ---- arguments ---- */
static bool get_argument(reading *r, const tp_json *v, tp_value *out);

static bool get_device(const tp_json *v, tp_value *out)
{
    static const char *const names[] = { [TP_CPU] = "cpu", [TP_META] = "meta", [TP_CUDA] = "cuda", [TP_MPS] = "mps", [TP_XPU] = "xpu" };
    const char *type = tp_json_text(tp_json_get(v, "type"), "");
    int64_t index = tp_json_int(tp_json_get(v, "index"), -1);
    for (size_t i = 0; i < TP_COUNT(names); i++)
        if (strcmp(names[i], type) == 0 && index >= -1 && index < 128) {
            *out = tp_of_device((tp_device){ .type = (int8_t)i, .index = (int8_t)index });
            return true;
        }
    return tp_fail(TP_ERR_RUNTIME, "pt2: device %.40s is unknown", type);
}

/* One item of a list: a name, a number, or an argument of its own. */
static bool get_item(reading *r, const tp_json *v, tp_value *out)
{
    tp_node *n;
    const char *name;
    switch ((tp_json_kind)v->kind) {
    case TP_JSON_BOOL: *out = tp_bool(v->truth); return true;
    case TP_JSON_INT: *out = tp_int(v->integer); return true;
    case TP_JSON_FLOAT: *out = tp_float(v->number); return true;
    case TP_JSON_TEXT: *out = tp_value_string(v->text, v->count); return out->tag == TP_STRING;
    case TP_JSON_OBJECT: break;
    default: return broken("an item of a list is nothing we know");
    }
    if ((name = tp_json_text(tp_json_get(v, "name"), NULL)) || (name = tp_json_text(tp_json_get(v, "as_name"), NULL))) {
        if (!(n = find(r, name)))
            return false;
        *out = tp_of_node(n);
        return true;
    }
    return get_argument(r, v, out);
}

static bool get_list(reading *r, const tp_json *v, bool floats, tp_value *out)
{
    if (!tp_json_is(v, TP_JSON_LIST))
        return broken("a list is none");
    tp_list *l = tp_list_new(v->count);
    if (!l)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        bool ok = true;
        if (floats)
            l->item[i] = tp_float(tp_json_float(&v->item[i], 0));
        else
            ok = get_item(r, &v->item[i], &l->item[i]);
        if (!ok) {
            tp_value_unref(tp_of_list(l));
            return false;
        }
    }
    *out = tp_of_list(l);
    return true;
}

static bool get_named(reading *r, const tp_json *v, tp_value *out)
{
    const char *name = tp_json_text(tp_json_get(v, "name"), NULL);
    if (!name)
        name = tp_json_text(tp_json_get(v, "as_name"), NULL);
    if (!name) {
        const tp_json *i = tp_json_get(v, "as_int"), *f = tp_json_get(v, "as_float"), *b = tp_json_get(v, "as_bool");
        *out = i ? tp_int(tp_json_int(i, 0)) : f ? tp_float(tp_json_float(f, 0)) : tp_bool(tp_json_bool(b, false));
        return i || f || b || broken("a value has neither name nor number");
    }
    tp_node *n = find(r, name);
    *out = n ? tp_of_node(n) : tp_none();
    return n != NULL;
}

static bool get_number_of(const char *key, const tp_json *v, tp_value *out)
{
    int64_t number = tp_json_int(v, -1);
    tp_format format;
    if (strcmp(key, "as_scalar_type") == 0) {
        tp_dtype d = tp_pt2_dtype_of(number);
        *out = tp_of_dtype(d);
        return d != TP_DTYPE_NONE || tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: element type %lld is not implemented", LL(number));
    }
    if (strcmp(key, "as_layout") == 0) {
        *out = (tp_value){ .tag = TP_LAYOUT };
        return number == TP_PT2_STRIDED || tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: layout %lld is not implemented", LL(number));
    }
    if (!tp_pt2_format_of(number, &format))
        return false;
    *out = tp_of_format(format);
    return true;
}

static bool get_graph(reading *r, const tp_json *v, tp_value *out);

/* An object of one key says what kind of value it holds; owned. */
static bool get_argument(reading *r, const tp_json *v, tp_value *out)
{
    static const char *const lists[] = { "as_tensors", "as_optional_tensors", "as_ints", "as_sym_ints", "as_bools", "as_sym_bools",
                                         "as_strings", "as_int_lists", "as_sym_floats" };
    static const char *const named[] = { "as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool" };
    *out = tp_none();
    if (!tp_json_is(v, TP_JSON_OBJECT) || v->count != 1)
        return broken("an argument is no object of one key");
    const char *key = v->key[0].text;
    const tp_json *x = &v->item[0];
    if (strcmp(key, "as_none") == 0)
        return true;
    for (size_t i = 0; i < TP_COUNT(named); i++)
        if (strcmp(key, named[i]) == 0)
            return get_named(r, x, out);
    for (size_t i = 0; i < TP_COUNT(lists); i++)
        if (strcmp(key, lists[i]) == 0)
            return get_list(r, x, false, out);
    if (strcmp(key, "as_floats") == 0)
        return get_list(r, x, true, out);
    if (strcmp(key, "as_float") == 0) {
        *out = tp_float(tp_json_float(x, 0));
        return true;
    }
    if (strcmp(key, "as_int") == 0 || strcmp(key, "as_bool") == 0 || strcmp(key, "as_string") == 0)
        return get_item(r, x, out);
    if (strcmp(key, "as_device") == 0)
        return get_device(x, out);
    if (strcmp(key, "as_graph") == 0)
        return get_graph(r, x, out);
    if (strcmp(key, "as_complex") == 0) {
        *out = tp_value_complex(tp_json_float(tp_json_get(x, "real"), 0), tp_json_float(tp_json_get(x, "imag"), 0));
        return out->tag == TP_COMPLEX;
    }
    if (strcmp(key, "as_scalar_type") == 0 || strcmp(key, "as_layout") == 0 || strcmp(key, "as_memory_format") == 0)
        return get_number_of(key, x, out);
    return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: arguments %.40s are not implemented", key);
}

/* ---- calls ---- */
static bool find_target(const char *text, tp_target *out)
{
    static const char ops[] = "torch.ops.";
    char part[3][128];
    if (text && strncmp(text, ops, sizeof ops - 1) == 0) {
        const char *path = text + sizeof ops - 1;
        int length = 0, parts = sscanf(path, "%127[^.].%127[^.]%n.%127[^.]%n", part[0], part[1], &length, part[2], &length);
        if (parts < 2 || path[length])
            return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: %.80s is not implemented", text);
        const tp_op *op = tp_op_find(part[0], part[1], parts == 2 || strcmp(part[2], "default") == 0 ? "" : part[2]);
        *out = tp_target_op(op);
        if (op && op->flags & TP_OP_FILE)
            return tp_fail(TP_ERR_RUNTIME, "pt2: the program would open a file by torch.ops.%.80s", path);
        return (op && (parts == 3) == !op->rare->graphs) || tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: the op %.80s is not implemented", path);
    }
    const char *dot = text ? strrchr(text, '.') : NULL;
    if (dot && dot - text < 128) {
        snprintf(part[0], sizeof part[0], "%.*s", (int)(dot - text), text);
        const tp_builtin *b = tp_builtin_find(part[0], dot + 1);
        *out = tp_target_builtin(b);
        if (b)
            return true;
    }
    return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: %.80s is not implemented", text ? text : "a call of nothing");
}

typedef struct arguments {
    tp_value value[3 * MOST_ARGS];      /* positional ones, then pairs; owned */
    uint32_t count, keywords;
} arguments;

static bool add_argument(reading *r, arguments *a, tp_target target, const tp_json *input)
{
    const char *name = tp_json_text(tp_json_get(input, "name"), "");
    bool named = target.kind == TP_TARGET_OP && !target.op->rare->graphs;
    int at = named ? tp_op_arg_index(target.op, name) : (int)a->count;
    if (at < 0)
        return tp_fail(TP_ERR_RUNTIME, "pt2: %.60s has no argument %.60s", target.op->name, name);
    bool positional = !a->keywords && at == (int)a->count && (!named || !target.op->arg[at].keyword_only);
    tp_value *to = &a->value[a->count + 2 * a->keywords];
    if (a->count + a->keywords >= MOST_ARGS)
        return broken("a call has too many arguments");
    if (positional) {
        if (!get_argument(r, tp_json_get(input, "arg"), to))
            return false;
        a->count++;
        return true;
    }
    if (!get_argument(r, tp_json_get(input, "arg"), &to[1]))
        return false;
    to[0] = tp_value_string(name, strlen(name));
    a->keywords++;
    return to[0].tag == TP_STRING;
}

/* The getitem of each result that somebody may read; gives the facts of all as the call's own. */
static bool take_results(reading *r, tp_node *n, const tp_json *outputs, bool wrapped)
{
    size_t count = tp_json_count(outputs);
    tp_list *facts = tp_list_new(count);
    bool ok = facts != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        const tp_json *o = tp_json_at(outputs, i);
        const char *name = tp_json_text(tp_json_get(wrapped ? tp_json_get(o, "as_tensor") : o, "name"), NULL);
        if (!name) {
            ok = wrapped && tp_json_get(o, "as_none") ? true : broken("a result has no name");
            continue;
        }
        ok = get_fact(r, name, &facts->item[i]);
        if (!ok || strstr(name, "_unused_"))
            continue;
        tp_node *part = tp_graph_getitem(r->graph, n, (int64_t)i);
        ok = name_node(r, part, name);
        if (ok)
            tp_node_set_fact(part, facts->item[i]);
    }
    if (ok)
        tp_node_set_fact(n, tp_of_list(facts));
    if (facts)
        tp_value_unref(tp_of_list(facts));
    return ok;
}

/* The name of a call that gives several values: the file's, or one of our own for files that have none. */
static bool name_call(reading *r, tp_node *n, const char *given)
{
    uint64_t at;
    if (!given || !*given || tp_text_map_get(&r->node, given, &at))
        given = n->name;
    return name_node(r, n, given);
}

static bool read_results(reading *r, tp_node *n, const tp_json *node)
{
    const tp_json *outputs = tp_json_get(node, "outputs"), *first = tp_json_at(outputs, 0);
    const char *own = tp_json_text(tp_json_get(node, "name"), NULL);
    size_t count = tp_json_count(outputs);
    bool graphs = n->target.kind == TP_TARGET_OP && n->target.op->rare->graphs;
    if (graphs && tp_json_bool(tp_json_get(node, "is_hop_single_tensor_return"), false))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: %s that gives a bare tensor is not implemented", n->target.op->name);
    if (graphs)
        return name_call(r, n, own) && take_results(r, n, outputs, true);
    if (tp_json_get(first, "as_tensors"))
        return count == 1 ? name_call(r, n, own) && take_results(r, n, tp_json_get(first, "as_tensors"), false)
                          : broken("several lists as results are not implemented");
    if (count > 1)
        return name_call(r, n, own) && take_results(r, n, outputs, true);
    if (!count)
        return name_call(r, n, own);
    const tp_json *value = tp_json_count(first) == 1 ? &first->item[0] : NULL;
    const char *name = tp_json_text(tp_json_get(value, "name"), NULL);
    if (!name)
        name = tp_json_text(tp_json_get(value, "as_name"), NULL);
    return name_node(r, n, name) && describe(r, n, name);
}

static bool read_origin(tp_node *n, const tp_json *metadata)
{
    const tp_json *trace = tp_json_get(metadata, "stack_trace");
    if (!tp_json_is(trace, TP_JSON_TEXT))
        return true;
    tp_origin *o = tp_origin_new();
    tp_value text = o ? tp_value_string(trace->text, trace->count) : tp_none();
    if (text.tag != TP_STRING) {
        tp_origin_unref(o);
        return false;
    }
    o->stack_trace = text.string;
    tp_node_set_origin(n, o);
    tp_origin_unref(o);
    return true;
}

static bool read_node(reading *r, const tp_json *node)
{
    const char *text = tp_json_text(tp_json_get(node, "target"), NULL);
    const tp_json *inputs = tp_json_get(node, "inputs");
    tp_target target;
    /* Facts that our own shape rules establish anew: nothing to run. */
    if (text && strcmp(text, "torch.ops.aten._assert_tensor_metadata.default") == 0)
        return true;
    if (!find_target(text, &target))
        return false;
    arguments *a = tp_alloc_zero(sizeof *a);
    bool ok = a != NULL;
    for (size_t i = 0; ok && i < tp_json_count(inputs); i++)
        ok = add_argument(r, a, target, tp_json_at(inputs, i));
    tp_node *n = ok ? tp_node_new(r->graph, TP_CALL_FUNCTION, target, a->value, a->count, a->keywords, NULL) : NULL;
    if (ok && !n)
        ok = tp_graph_check(r->graph);
    if (a)
        tp_values_unref(a->value, a->count + 2 * a->keywords);
    tp_free(a);
    return ok && n && read_results(r, n, node) && read_origin(n, tp_json_get(node, "metadata"));
}

/* ---- signature ---- */
static const struct { const char *key, *target; tp_input_kind kind; } input_kinds[] = {
    { "user_input", NULL, TP_INPUT_USER },           { "constant_input", NULL, TP_INPUT_USER },
    { "parameter", "parameter_name", TP_INPUT_PARAMETER }, { "buffer", "buffer_name", TP_INPUT_BUFFER },
    { "tensor_constant", "tensor_constant_name", TP_INPUT_CONSTANT },
};
static const struct { const char *key, *target; tp_output_kind kind; } output_kinds[] = {
    { "user_output", NULL, TP_OUTPUT_USER },
    { "loss_output", NULL, TP_OUTPUT_LOSS },
    { "buffer_mutation", "buffer_name", TP_OUTPUT_BUFFER },
    { "gradient_to_parameter", "parameter_name", TP_OUTPUT_PARAMETER_GRADIENT },
    { "gradient_to_user_input", "user_input_name", TP_OUTPUT_INPUT_GRADIENT },
    { "user_input_mutation", "user_input_name", TP_OUTPUT_INPUT },
};

static const char *keep(tp_program *p, const char *text)
{
    return tp_text_in(&p->arena, text, strlen(text));
}

/* The placeholder of a row; constants of the call carry their value as their fact. */
static bool read_input(reading *r, tp_input_spec *s, const char *key, const tp_json *row)
{
    const tp_json *arg = tp_json_get(row, "arg");
    const char *name = tp_json_text(tp_json_get(row, "name"), NULL);
    if (!name)
        name = tp_json_text(tp_json_get(arg, "name"), NULL);
    if (!name && tp_json_count(arg) == 1) {
        name = tp_json_text(tp_json_get(&arg->item[0], "name"), NULL);
        name = name ? name : tp_json_text(tp_json_get(&arg->item[0], "as_name"), NULL);
    }
    if (!name)
        return broken("an input has no name");
    tp_node *n = tp_graph_placeholder(r->graph, name);
    if (!name_node(r, n, name) || !(s->name = keep(r->program, n->name)))
        return false;
    if (strcmp(key, "constant_input") != 0)
        return describe(r, n, name);
    tp_value v;
    if (!get_argument(r, tp_json_get(row, "value"), &v))
        return false;
    tp_node_set_fact(n, v);
    tp_value_unref(v);
    return true;
}

/* Names the kind, and the class of an object. */
static bool refuse_input(const tp_json *spec)
{
    const tp_json *row = tp_json_is(spec, TP_JSON_OBJECT) && spec->count == 1 ? &spec->item[0] : NULL;
    const char *class = tp_json_text(tp_json_get(tp_json_get(row, "arg"), "class_fqn"), NULL);
    return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: inputs of the kind %.40s%s%.80s are not implemented", row ? spec->key[0].text : "nothing",
                   class ? " of the class " : "", class ? class : "");
}

static bool read_inputs(reading *r, const tp_json *specs)
{
    tp_program *p = r->program;
    size_t count = tp_json_count(specs);
    tp_input_spec *s = p->signature.input = tp_arena_take_array(&p->arena, count, sizeof *s);
    if (count && !s)
        return false;
    for (size_t i = 0; i < count; i++) {
        const tp_json *spec = tp_json_at(specs, i);
        size_t k = 0;
        while (k < TP_COUNT(input_kinds) && !tp_json_get(spec, input_kinds[k].key))
            k++;
        if (k == TP_COUNT(input_kinds))
            return refuse_input(spec);
        const tp_json *row = tp_json_get(spec, input_kinds[k].key);
        const char *target = input_kinds[k].target ? tp_json_text(tp_json_get(row, input_kinds[k].target), NULL) : NULL;
        s[i] = (tp_input_spec){ .kind = input_kinds[k].kind, .persistent = tp_json_bool(tp_json_get(row, "persistent"), true) };
        if (input_kinds[k].target && (!target || !(s[i].target = keep(p, target))))
            return target ? false : broken("an input says nothing of its state");
        if (!read_input(r, &s[i], input_kinds[k].key, row))
            return false;
        p->signature.input_count++;
    }
    return true;
}

static bool read_outputs(tp_program *p, const tp_json *specs)
{
    size_t count = tp_json_count(specs);
    tp_output_spec *s = p->signature.output = tp_arena_take_array(&p->arena, count, sizeof *s);
    if (count && !s)
        return false;
    for (size_t i = 0; i < count; i++) {
        const tp_json *spec = tp_json_at(specs, i);
        size_t k = 0;
        while (k < TP_COUNT(output_kinds) && !tp_json_get(spec, output_kinds[k].key))
            k++;
        if (k == TP_COUNT(output_kinds))
            return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: an output of the program is of a kind that is not implemented");
        const tp_json *row = tp_json_get(spec, output_kinds[k].key);
        const char *target = output_kinds[k].target ? tp_json_text(tp_json_get(row, output_kinds[k].target), NULL) : NULL;
        s[i] = (tp_output_spec){ .kind = output_kinds[k].kind };
        if (output_kinds[k].target && (!target || !(s[i].target = keep(p, target))))
            return target ? false : broken("an output says nothing of what it writes to");
        p->signature.output_count++;
    }
    return true;
}

/* ---- the rest ---- */
static bool read_texts(tp_program *p, const tp_json *list, const char ***out, size_t *count)
{
    size_t n = tp_json_is(list, TP_JSON_LIST) ? list->count : 0;
    *out = tp_arena_take_array(&p->arena, n, sizeof **out);
    if (n && !*out)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((*out)[i] = keep(p, tp_json_text(&list->item[i], ""))))
            return false;
    *count = n;
    return true;
}

static bool read_modules(tp_program *p, const tp_json *calls)
{
    size_t count = tp_json_count(calls);
    p->module = tp_arena_take_array(&p->arena, count, sizeof *p->module);
    if (count && !p->module)
        return false;
    for (size_t i = 0; i < count; i++) {
        const tp_json *call = tp_json_at(calls, i), *s = tp_json_get(call, "signature");
        const char *path = tp_json_text(tp_json_get(call, "fqn"), "");
        const char *in = tp_json_text(tp_json_get(s, "in_spec"), NULL), *out = tp_json_text(tp_json_get(s, "out_spec"), NULL);
        if (*path) {
            if (!(p->module[p->module_count++] = keep(p, path)))
                return false;
        } else if ((in && !(p->in_spec = keep(p, in))) || (out && !(p->out_spec = keep(p, out))) ||
                   !read_texts(p, tp_json_get(s, "forward_arg_names"), &p->forward_name, &p->forward_count)) {
            return false;
        }
    }
    return true;
}

static void open_tables(reading *r, const tp_json *graph)
{
    r->tensors = tp_json_get(graph, "tensor_values");
    r->ints = tp_json_get(graph, "sym_int_values");
    r->bools = tp_json_get(graph, "sym_bool_values");
    r->floats = tp_json_get(graph, "sym_float_values");
}

/* Nodes and output; `single`: the output is one value and no tuple. */
static bool read_body(reading *r, const tp_json *graph, bool single)
{
    const tp_json *nodes = tp_json_get(graph, "nodes"), *outputs = tp_json_get(graph, "outputs");
    if (!tp_json_is(nodes, TP_JSON_LIST) || !tp_json_is(outputs, TP_JSON_LIST) || (single && outputs->count != 1))
        return broken("the model has no graph");
    for (size_t i = 0; i < nodes->count; i++)
        if (!read_node(r, &nodes->item[i]))
            return false;
    tp_list *l = tp_list_new(outputs->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < outputs->count; i++)
        ok = get_argument(r, &outputs->item[i], &l->item[i]);
    tp_value all = { .tag = TP_TUPLE, .list = l };
    ok = ok && (tp_graph_output(r->graph, single ? l->item[0] : all) || tp_graph_check(r->graph));
    if (l)
        tp_value_unref(all);
    return ok && tp_graph_check(r->graph) && tp_graph_verify(r->graph);
}

static bool read_function_inputs(reading *r, const tp_json *inputs)
{
    for (size_t i = 0; i < tp_json_count(inputs); i++) {
        const tp_json *arg = tp_json_at(inputs, i), *value = tp_json_count(arg) == 1 ? &arg->item[0] : NULL;
        const char *name = tp_json_text(tp_json_get(value, "name"), NULL);
        char own[32];
        if (!name)
            name = tp_json_text(tp_json_get(value, "as_name"), NULL);
        if (!name) {                    /* a number: nobody reads it by name */
            snprintf(own, sizeof own, "arg%zu_1", i);
            name = own;
        }
        tp_node *n = tp_graph_placeholder(r->graph, name);
        if (!name_node(r, n, name) || !describe(r, n, name))
            return false;
    }
    return true;
}

/* A graph among the arguments: a child, and the get_attr that reads it. */
static bool get_graph(reading *r, const tp_json *v, tp_value *out)
{
    const char *name = tp_json_text(tp_json_get(v, "name"), NULL);
    const tp_json *graph = tp_json_get(v, "graph");
    if (!check_name(name))
        return false;
    if (tp_graph_child(r->graph, name))
        return broken("a graph among the arguments has no name of its own");
    reading inner = { .program = r->program, .env = r->env, .graph = tp_graph_new() };
    bool ok = inner.graph;
    if (ok) {
        inner.graph->env = tp_shape_env_ref(r->env);
        open_tables(&inner, graph);
        ok = declare_symbols(&inner) && read_function_inputs(&inner, tp_json_get(graph, "inputs")) &&
             read_body(&inner, graph, tp_json_bool(tp_json_get(graph, "is_single_tensor_return"), false)) &&
             tp_graph_set_child(r->graph, name, inner.graph);
    }
    tp_text_map_fini(&inner.node);
    tp_graph_unref(inner.graph);
    tp_node *n = ok ? tp_graph_get_attr(r->graph, name) : NULL;
    *out = tp_of_node(n);
    return n || (ok && tp_graph_check(r->graph));
}

static bool read_graph(reading *r, const tp_json *module)
{
    const tp_json *graph = tp_json_get(module, "graph"), *signature = tp_json_get(module, "signature");
    open_tables(r, graph);
    return declare_symbols(r) && read_inputs(r, tp_json_get(signature, "input_specs")) && read_body(r, graph, false) &&
           read_outputs(r->program, tp_json_get(signature, "output_specs")) && tp_signature_check(&r->program->signature, r->graph);
}

static bool check_schema(const tp_json *version, int oldest)
{
    const tp_json *major = tp_json_get(version, "major"), *minor = tp_json_get(version, "minor");
    if (!tp_json_is(major, TP_JSON_INT) || !tp_json_is(minor, TP_JSON_INT))
        return broken("the model does not say which schema it follows");
    return (major->integer >= oldest && major->integer <= TP_PT2_MAJOR) ||
           tp_fail(TP_ERR_RUNTIME, "Serialized schema version SchemaVersion(major=%lld, minor=%lld) does not match our current schema "
                   "version (%d, %d).", LL(major->integer), LL(minor->integer), TP_PT2_MAJOR, TP_PT2_MINOR);
}

/* Read now, so that a program whose guards cannot be checked is refused, not run without them. */
static bool read_guards(tp_program *p, const tp_json *texts)
{
    size_t count = tp_json_is(texts, TP_JSON_LIST) ? texts->count : 0;
    if (count && !(p->guard = tp_arena_take_array(&p->arena, count, sizeof *p->guard)))
        return false;
    for (; p->guard_count < count; p->guard_count++) {
        const char *text = tp_json_text(tp_json_at(texts, p->guard_count), NULL);
        if (!text || !(p->guard[p->guard_count] = keep(p, text)))
            return text ? false : broken("a guard is no text");
    }
    return !count || (p->guards = tp_guards_new(p->graph, &p->signature, p->guard, count));
}

bool tp_pt2_read_model(tp_program *p, const char *json, size_t length, int oldest)
{
    tp_arena a;
    tp_arena_init(&a);
    const tp_json *root = tp_json_read_in(&a, json, length), *module = tp_json_get(root, "graph_module");
    const tp_shape_env_options options = { .keep_zero_one = true };
    reading r = { .program = p };
    bool ok = root && (r.env = tp_shape_env_new(NULL, &options)) && (r.graph = p->graph = tp_graph_new());
    if (ok)
        p->graph->env = r.env;      /* the graph counts it from now on */
    else
        tp_shape_env_unref(r.env);
    ok = ok && check_schema(tp_json_get(root, "schema_version"), oldest) && read_ranges(p, tp_json_get(root, "range_constraints")) &&
         read_graph(&r, module) && read_modules(p, tp_json_get(module, "module_call_graph")) && read_guards(p, tp_json_get(root, "guards_code"));
    const char *old = tp_json_text(tp_json_get(root, "dialect"), "ATEN");
    const char *dialect = tp_json_text(tp_json_at(tp_json_get(root, "verifiers"), 0), old);
    ok = ok && (p->dialect = keep(p, dialect));
    tp_text_map_fini(&r.node);
    tp_arena_fini(&a);
    return ok;
}

/* ---- archives ---- */
static bool read_model_entry(tp_program *p, tp_zip *z, const tp_zip_entry *e, int oldest)
{
    char *text = e ? tp_zip_read_new(z, e) : NULL;
    bool ok = text && tp_pt2_read_model(p, text, e->size, oldest);
    tp_free(text);
    return ok;
}

static bool read_examples(tp_program *p, tp_zip *z, const tp_zip_entry *e)
{
    char *bytes = e ? tp_zip_read_new(z, e) : NULL;
    p->examples = bytes ? tp_text_in(&p->arena, bytes, e->size) : NULL;
    p->example_bytes = p->examples ? e->size : 0;
    tp_free(bytes);
    return !e || p->examples;
}

/* A record that has to hold this very text. */
static bool check_record(tp_zip *z, const char *name, const char *wanted, tp_err kind, const char *what)
{
    const tp_zip_entry *e = tp_zip_record(z, name);
    char *text = e ? tp_zip_read_new(z, e) : NULL;
    bool ok = text && (strcmp(text, wanted) == 0 || tp_fail(kind, what, text));
    tp_free(text);
    return ok;
}

static bool check_archive(tp_zip *z)
{
    return check_record(z, "archive_format", "pt2", TP_ERR_ASSERTION, "Invalid archive format: %.40s") &&
           check_record(z, "archive_version", "0", TP_ERR_VALUE,
                        "Saved archive version %.40s does not match our current archive version 0.") &&
           (!tp_zip_has_record(z, "byteorder") ||
            check_record(z, "byteorder", "little", TP_ERR_UNIMPLEMENTED, "pt2: weights in the byte order %.40s are not implemented"));
}

static bool same_sizes(tp_value fact, const tp_tensor *t)
{
    const tp_tensor *f = tp_as_tensor(fact);
    return fact.tag == TP_NONE || (f && !f->symbolic && f->dtype == t->dtype && f->ndim == t->ndim &&
                                   memcmp(f->size, t->size, (size_t)t->ndim * sizeof *t->size) == 0);
}

/* Writers read weights by what the graph says of them. */
static bool check_state(const tp_program *p)
{
    size_t row = 0;
    tp_graph_each(p->graph, n)
    {
        if (n->kind != TP_PLACEHOLDER || row == p->signature.input_count)
            continue;
        const tp_input_spec *s = &p->signature.input[row++];
        const tp_tensor *t = s->kind != TP_INPUT_USER && s->target ? tp_program_state(p, s->target) : NULL;
        if (t && !same_sizes(n->fact, t))
            return tp_fail(TP_ERR_RUNTIME, "pt2: %.80s is of another type or size than the graph says", s->target);
    }
    return true;
}

static bool read_new(tp_program *p, tp_zip *z)
{
    static const char examples[] = "data/sample_inputs/model.pt";
    return check_archive(z) && read_model_entry(p, z, tp_zip_record(z, "models/model.json"), TP_PT2_MAJOR) && tp_pt2_read_state(p, z) &&
           (!tp_zip_has_record(z, examples) || read_examples(p, z, tp_zip_record(z, examples)));
}

static bool read_old(tp_program *p, tp_zip *z)
{
    return read_model_entry(p, z, tp_zip_find(z, "serialized_exported_program.json"), TP_PT2_MAJOR_2024) &&
           tp_pt2_read_saved(p, z, "serialized_state_dict", &p->state, &p->state_count) &&
           tp_pt2_read_saved(p, z, "serialized_constants", &p->constant, &p->constant_count) &&
           read_examples(p, z, tp_zip_find(z, "serialized_example_inputs.pt"));
}

tp_program *tp_program_read(tp_zip *z)
{
    tp_program *p = tp_program_new();
    bool old = tp_zip_find(z, "serialized_exported_program.json") != NULL;
    if (p && (old ? read_old(p, z) : read_new(p, z)) && check_state(p))
        return p;
    tp_program_unref(p);
    return NULL;
}
