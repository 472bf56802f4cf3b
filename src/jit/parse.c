/* parse.c - a recursive descent over TorchScript's text that builds nodes as it reads. */
#include "jit/parse.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jit/overload.h"

enum { DEEPEST = 200, MOST_ARGS = TP_JIT_MOST_GIVEN, LONGEST_NAME = 256 };

typedef struct parser {
    const tp_jit_reader *reader;
    const char *at, *start;
    tp_graph   *graph;                  /* counted */
    tp_jit_names names;
    tp_text_map scope;                  /* variable -> its node */
    int         depth;
    int         open;                   /* brackets: newlines inside are blanks */
    tp_jit_module *self;                /* borrowed, may be NULL */
} parser;

typedef tp_jit_item item;
typedef tp_jit_given given;

/* ---- characters ---- */
static bool fail_at(const parser *p, const char *what)
{
    int line = 1;
    for (const char *c = p->start; c < p->at; c++)
        line += *c == '\n';
    return tp_fail(TP_ERR_RUNTIME, "TorchScript text, line %d: %s at '%.20s'", line, what, p->at);
}

static void blanks(parser *p)
{
    for (;; p->at++) {
        if (*p->at == '#')
            while (*p->at && *p->at != '\n')
                p->at++;
        if (*p->at != ' ' && *p->at != '\t' && !(p->open && *p->at == '\n'))
            return;
    }
}

static bool take(parser *p, const char *text)
{
    size_t length = strlen(text);
    blanks(p);
    if (strncmp(p->at, text, length) != 0 || (isalnum((unsigned char)text[length - 1]) && (isalnum((unsigned char)p->at[length]) || p->at[length] == '_')))
        return false;
    p->at += length;
    if (strchr("([{", text[0]) && length == 1)
        p->open++;
    else if (strchr(")]}", text[0]) && length == 1)
        p->open--;
    return true;
}

static bool need(parser *p, const char *text)
{
    char what[64];
    snprintf(what, sizeof what, "expected '%s'", text);
    return take(p, text) || fail_at(p, what);
}

/* A name, with its dots when `dotted`. */
static bool name_of(parser *p, bool dotted, char out[LONGEST_NAME])
{
    size_t k = 0;
    blanks(p);
    if (!isalpha((unsigned char)*p->at) && *p->at != '_')
        return fail_at(p, "expected a name");
    while (isalnum((unsigned char)*p->at) || *p->at == '_' || (dotted && *p->at == '.')) {
        if (k + 1 >= LONGEST_NAME)
            return fail_at(p, "a name is too long");
        out[k++] = *p->at++;
    }
    out[k] = 0;
    return true;
}

/* ---- types ---- */
static tp_jit_type *parse_type(parser *p);

static tp_jit_type *parse_tuple_type(parser *p)
{
    tp_jit_type *part[MOST_ARGS], *made = NULL;
    uint32_t count = 0;
    if (take(p, "(")) {
        if (!need(p, ")"))
            return NULL;
    } else {
        do {
            if (count == MOST_ARGS || !(part[count] = parse_type(p)))
                goto out;
            count++;
        } while (take(p, ","));
    }
    made = tp_jit_tuple_new(part, count);
out:
    for (uint32_t i = 0; i < count; i++)
        tp_jit_type_unref(part[i]);
    return made;
}

static tp_jit_type *parse_type(parser *p)
{
    static const struct { const char *name; tp_jit_kind kind; } simple[] = {
        { "Tensor", TP_JIT_ANY_TENSOR }, { "int", TP_JIT_INT }, { "float", TP_JIT_FLOAT }, { "bool", TP_JIT_BOOL }, { "str", TP_JIT_STR },
        { "number", TP_JIT_NUMBER }, { "Device", TP_JIT_DEVICE }, { "NoneType", TP_JIT_NONE }, { "Any", TP_JIT_ANY }, { "complex", TP_JIT_COMPLEX },
        { "Generator", TP_JIT_GENERATOR },
    };
    char name[LONGEST_NAME];
    if (++p->depth > DEEPEST || !name_of(p, true, name))
        return p->depth > DEEPEST ? (fail_at(p, "types nest too deeply"), NULL) : NULL;
    tp_jit_type *made = NULL;
    if (strcmp(name, "List") == 0 || strcmp(name, "Optional") == 0) {
        made = need(p, "[") ? parse_type(p) : NULL;
        made = name[0] == 'L' ? tp_jit_list_new(made) : tp_jit_optional_new(made);
    } else if (strcmp(name, "Dict") == 0) {
        tp_jit_type *key = need(p, "[") ? parse_type(p) : NULL;
        tp_jit_type *value = key && need(p, ",") ? parse_type(p) : NULL;
        made = tp_jit_dict_new(key, value);
    } else if (strcmp(name, "Tuple") == 0) {
        made = need(p, "[") ? parse_tuple_type(p) : NULL;
    } else {
        p->depth--;
        for (size_t i = 0; i < TP_COUNT(simple); i++)
            if (strcmp(simple[i].name, name) == 0)
                return tp_jit_simple(simple[i].kind);
        return strncmp(name, "__torch__", 9) == 0 ? tp_jit_class_new(name) : (fail_at(p, "an unknown type"), NULL);
    }
    p->depth--;
    if (made && !need(p, "]")) {
        tp_jit_type_unref(made);
        return NULL;
    }
    return made;
}

/* ---- nodes ---- */
static bool built(item *out, tp_node *n)
{
    *out = (item){ .node = n };
    return n;               /* whoever gave NULL has set the error */
}

static bool constant(parser *p, tp_value v, item *out)
{
    return built(out, tp_jit_constant(p->graph, &p->names, v, NULL));
}

static bool prim(parser *p, const char *kind, const item *arg, uint32_t count, tp_jit_type *type, item *out)
{
    tp_value node[2 * MOST_ARGS];
    for (uint32_t i = 0; i < count; i++)
        node[i] = tp_of_node(arg[i].node);
    return built(out, type ? tp_jit_prim(p->graph, &p->names, kind, node, count, 0, type) : NULL);
}

/* ---- ops ---- */
static bool make_op(parser *p, const tp_op *op, const given *g, item *out)
{
    tp_value node[MOST_ARGS];
    for (int i = 0; i < op->arg_count; i++) {
        int k = tp_jit_given_for(op, i, g);
        item one = { 0 };
        if (k >= 0)
            one = g->arg[k];
        else if (!constant(p, tp_arg_default(&op->arg[i]), &one))
            return false;
        node[i] = tp_of_node(one.node);
    }
    bool several = op->result_count != 1;
    tp_jit_type *type = several ? tp_jit_simple(TP_JIT_ANY) : tp_jit_type_of_arg(&op->result[0]);
    if (!built(out, type ? tp_jit_call(p->graph, &p->names, op, node, op->arg_count, type) : NULL))
        return false;
    if (!several)
        return true;
    tp_jit_note_of(out->node)->results = op->result_count;
    p->names.next--;
    for (int i = 0; i < op->result_count; i++) {
        tp_jit_type *one = tp_jit_type_of_arg(&op->result[i]);
        if (!one || !tp_jit_result(p->graph, &p->names, out->node, (uint32_t)i, one))
            return false;
    }
    return true;
}

static bool call_op(parser *p, const char *space, const char *name, const given *g, item *out)
{
    static const struct { const char *name, *kind; tp_jit_kind type; uint32_t count; } known[] = {
        { "size", "aten::size", TP_JIT_INT, 2 }, { "numel", "aten::numel", TP_JIT_INT, 1 }, { "dim", "aten::dim", TP_JIT_INT, 1 },
    };
    for (size_t i = 0; i < TP_COUNT(known) && strcmp(space, "aten") == 0; i++)
        if (strcmp(known[i].name, name) == 0 && g->count == known[i].count)
            return prim(p, known[i].kind, g->arg, g->count, tp_jit_simple(known[i].type), out);
    if (strcmp(space, "prim") == 0 && strcmp(name, "NumToTensor") == 0 && g->count == 1)
        return prim(p, "prim::NumToTensor", g->arg, 1, tp_jit_simple(TP_JIT_ANY_TENSOR), out);
    const tp_op *op = tp_jit_overload(space, name, g);
    if (op && op->flags & TP_OP_FILE)
        return tp_fail(TP_ERR_RUNTIME, "TorchScript text: the module would open a file by %.40s::%.80s", space, name);
    return op && make_op(p, op, g, out);
}

/* ---- expressions ---- */
static bool expression(parser *p, item *out);

static bool arguments(parser *p, given *g)
{
    if (!need(p, "("))
        return false;
    while (!take(p, ")")) {
        if (g->count == MOST_ARGS)
            return fail_at(p, "too many arguments");
        g->name[g->count][0] = 0;
        blanks(p);
        const char *back = p->at;
        if (isalpha((unsigned char)*p->at) || *p->at == '_') {
            char name[LONGEST_NAME];
            if (!name_of(p, false, name))
                return false;
            blanks(p);
            if (*p->at == '=' && p->at[1] != '=') {
                p->at++;
                if (strlen(name) >= sizeof g->name[0])
                    return fail_at(p, "a name is too long");
                memcpy(g->name[g->count], name, strlen(name) + 1);
            } else {
                p->at = back;
            }
        }
        if (!expression(p, &g->arg[g->count++]))
            return false;
        if (!take(p, ",")) {
            if (!need(p, ")"))
                return false;
            break;
        }
    }
    return true;
}

static bool number(parser *p, item *out)
{
    char *end, *float_end;
    bool negative = take(p, "-");
    blanks(p);
    if (take(p, "inf"))
        return constant(p, tp_float(negative ? -INFINITY : INFINITY), out);
    double f = strtod(p->at, &float_end);
    unsigned long long i = strtoull(p->at, &end, 10);
    bool real = float_end > end;
    if (float_end == p->at)
        return fail_at(p, "expected a value");
    p->at = float_end;
    return constant(p, real ? tp_float(negative ? -f : f) : tp_int((int64_t)(negative ? 0 - i : i)), out);
}

static bool string_text(parser *p, tp_text *out)
{
    blanks(p);
    char quote = *p->at;
    if (quote != '"' && quote != '\'')
        return fail_at(p, "expected a string");
    for (p->at++; *p->at && *p->at != quote && *p->at != '\n'; p->at++) {
        char c = *p->at;
        if (c == '\\') {
            c = *++p->at;
            if (c >= '0' && c <= '7') {
                int code = 0;
                for (int k = 0; k < 3 && *p->at >= '0' && *p->at <= '7'; k++)
                    code = 8 * code + *p->at++ - '0';
                p->at--;
                c = (char)code;
            } else {
                c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
            }
            if (!*p->at)
                break;
        }
        tp_text_put(out, &c, 1);
    }
    return *p->at == quote ? (p->at++, !out->failed || tp_fail_memory()) : fail_at(p, "a string has no end");
}

static bool string(parser *p, item *out)
{
    tp_text text = { 0 };
    tp_value v = tp_none();
    bool ok = string_text(p, &text) && !tp_is_none(v = tp_value_string(tp_text_read(&text), text.length)) && constant(p, v, out);
    tp_value_unref(v);
    tp_text_fini(&text);
    return ok;
}

/* The items up to `close`; `colon`: keys and values alternate. */
static bool items(parser *p, const char *close, bool colon, given *g, bool *comma)
{
    *comma = false;
    while (!take(p, close)) {
        if (g->count == MOST_ARGS)
            return fail_at(p, "too many items");
        if (!expression(p, &g->arg[g->count++]))
            return false;
        if (colon && g->count % 2 == 1) {
            if (!need(p, ":"))
                return false;
            continue;
        }
        *comma = take(p, ",");
        if (!*comma)
            return need(p, close);
    }
    return true;
}

static tp_jit_type *common_type(const given *g, uint32_t from, uint32_t by, tp_jit_kind otherwise)
{
    tp_jit_type *t = NULL;
    for (uint32_t i = from; i < g->count; i += by) {
        tp_jit_type *fresh = tp_jit_type_of(g->arg[i].node);
        tp_jit_type *both = t ? tp_jit_type_unify(t, fresh) : tp_jit_type_erase(fresh);
        tp_jit_type_unref(t);
        if (!both)
            return tp_jit_simple(TP_JIT_ANY);
        t = both;
    }
    return t ? t : tp_jit_simple(otherwise);
}

static bool container(parser *p, item *out)
{
    given *g = tp_alloc_zero(sizeof *g);
    bool comma, ok = false;
    if (!g)
        return false;
    if (take(p, "[")) {
        ok = items(p, "]", false, g, &comma) &&
             prim(p, "prim::ListConstruct", g->arg, g->count, tp_jit_list_new(common_type(g, 0, 1, TP_JIT_ANY_TENSOR)), out);
    } else if (take(p, "{")) {
        ok = items(p, "}", true, g, &comma) && prim(p, "prim::DictConstruct", g->arg, g->count,
             tp_jit_dict_new(common_type(g, 0, 2, TP_JIT_STR), common_type(g, 1, 2, TP_JIT_ANY_TENSOR)), out);
    } else if (need(p, "(") && items(p, ")", false, g, &comma)) {
        tp_jit_type *type[MOST_ARGS];
        for (uint32_t i = 0; i < g->count; i++)
            type[i] = tp_jit_type_of(g->arg[i].node);
        if (g->count == 1 && !comma) {
            *out = g->arg[0];
            ok = true;
        } else {
            ok = prim(p, "prim::TupleConstruct", g->arg, g->count, tp_jit_tuple_new(type, g->count), out);
        }
    }
    tp_free(g);
    return ok;
}

static bool read_attribute(parser *p, const item *object, const char *name, item *out)
{
    const tp_jit_slot *s = object->module ? tp_jit_module_slot(object->module, name) : NULL;
    if (!s)
        return tp_fail(TP_ERR_RUNTIME, "TorchScript text: the module has no attribute '%s'", name);
    tp_jit_type *type = tp_jit_type_of_member(s->value);
    if (!type || !built(out, tp_jit_get_attr(p->graph, &p->names, object->node, name, type)))
        return false;
    out->module = tp_jit_as_module(s->value);
    return true;
}

static tp_jit_type *result_type(const tp_jit_function *f)
{
    const tp_node *output = tp_graph_output_node(f->graph);
    return tp_jit_type_erase(tp_jit_type_of(tp_as_node(output->arg[0])));
}

static bool call_method(parser *p, const item *object, const char *name, given *g, item *out)
{
    const tp_jit_function *f = object->module ? tp_jit_module_method(object->module, name) : NULL;
    if (!f || g->count + 1 > MOST_ARGS)
        return tp_fail(TP_ERR_RUNTIME, "TorchScript text: the module has no method '%s'", name);
    tp_value arg[MOST_ARGS + 3], text = tp_value_string(name, strlen(name));
    arg[0] = tp_of_node(object->node);
    for (uint32_t i = 0; i < g->count; i++)
        arg[i + 1] = tp_of_node(g->arg[i].node);
    if (tp_is_none(text) || !tp_jit_attr(arg + g->count + 1, "name", text))
        return false;
    tp_jit_type *type = result_type(f);
    bool ok = type && built(out, tp_jit_prim(p->graph, &p->names, "prim::CallMethod", arg, g->count + 1, 1, type));
    tp_values_unref(arg + g->count + 1, 2);
    return ok;
}

static bool call_function(parser *p, const char *name, given *g, item *out)
{
    tp_jit_function *f = p->reader->function(p->reader->user, name);
    item all[MOST_ARGS + 1];
    if (!f || g->count == MOST_ARGS || !constant(p, tp_jit_of_function(f), &all[0]))
        return false;
    memcpy(all + 1, g->arg, g->count * sizeof *all);
    return prim(p, "prim::CallFunction", all, g->count + 1, result_type(f), out);
}

static bool annotated(parser *p, item *out)
{
    tp_jit_type *type = need(p, "(") ? parse_type(p) : NULL;
    bool ok = type && need(p, ",") && expression(p, out) && need(p, ")");
    if (ok && type->kind == TP_JIT_NUMBER && tp_jit_is_tensor(tp_jit_type_of(out->node))) {
        item from = *out;
        ok = prim(p, "aten::ScalarImplicit", &from, 1, tp_jit_simple(TP_JIT_NUMBER), out);
    } else if (ok && out->node->kind == TP_CALL_FUNCTION) {
        ok = tp_jit_retype(out->node, tp_jit_type_ref(type));
    }
    tp_jit_type_unref(type);
    return ok;
}

static bool device(parser *p, item *out)
{
    tp_text text = { 0 };
    char full[16];
    bool ok = need(p, "(") && string_text(p, &text) && need(p, ")");
    tp_device found = { TP_CPU, -1 };
    bool known = false;
    for (int type = 0; ok && !known && type < TP_DEVICE_TYPES; type++)
        for (int index = -1; !known && index < 16; index++) {
            found = (tp_device){ (int8_t)type, (int8_t)index };
            known = strcmp(tp_device_name(found, full), tp_text_read(&text)) == 0;
        }
    ok = ok && (known || fail_at(p, "an unknown device")) && constant(p, tp_of_device(found), out);
    tp_text_fini(&text);
    return ok;
}

static bool tensor_constant(parser *p, const char *name, item *out)
{
    char *end;
    unsigned long i = strtoul(name, &end, 10);
    if (*end || end == name || i >= p->reader->constant_count)
        return fail_at(p, "an unknown constant");
    return constant(p, p->reader->constant[i], out);
}

/* A word and what follows it: a literal, a variable, or a call of something the language knows by name. */
static bool word(parser *p, item *out)
{
    static const struct { const char *name, *kind; tp_jit_kind type; } casts[] = {
        { "int", "aten::Int", TP_JIT_INT }, { "float", "aten::Float", TP_JIT_FLOAT }, { "bool", "aten::Bool", TP_JIT_BOOL },
    };
    char name[LONGEST_NAME];
    uint64_t known;
    const char *back = p->at;
    if (!name_of(p, true, name))
        return false;
    if (strcmp(name, "None") == 0)
        return constant(p, tp_none(), out);
    if (strcmp(name, "True") == 0 || strcmp(name, "False") == 0)
        return constant(p, tp_bool(name[0] == 'T'), out);
    if (strcmp(name, "inf") == 0 || strcmp(name, "nan") == 0)
        return constant(p, tp_float(name[0] == 'i' ? INFINITY : NAN), out);
    if (strncmp(name, "CONSTANTS.c", 11) == 0)
        return tensor_constant(p, name + 11, out);
    if (strcmp(name, "annotate") == 0)
        return annotated(p, out);
    if (strcmp(name, "torch.device") == 0)
        return device(p, out);
    char first[LONGEST_NAME];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(name, "."), name);
    if (tp_text_map_get(&p->scope, first, &known)) {
        tp_node *n = (tp_node *)(uintptr_t)known;
        p->at = back;
        if (!name_of(p, false, first))
            return false;
        *out = (item){ .node = n };
        const tp_jit_type *t = tp_jit_type_of(n);
        if (t->kind == TP_JIT_CLASS) {
            uint64_t module;
            char key[LONGEST_NAME + 2];
            snprintf(key, sizeof key, "@%s", first);
            out->module = tp_text_map_get(&p->scope, key, &module) ? (const tp_jit_module *)(uintptr_t)module
                        : p->reader->class_of(p->reader->user, t->name);
        }
        return true;
    }
    given *g = tp_alloc_zero(sizeof *g);
    bool ok = false;
    if (!g)
        return false;
    if (strcmp(name, "getattr") == 0) {
        tp_text text = { 0 };
        item object;
        ok = need(p, "(") && expression(p, &object) && need(p, ",") && string_text(p, &text) && need(p, ")") &&
             read_attribute(p, &object, tp_text_read(&text), out);
        tp_text_fini(&text);
    } else if (!arguments(p, g)) {
        ok = false;
    } else if (strncmp(name, "torch.", 6) == 0 && !strchr(name + 6, '.')) {
        ok = call_op(p, "aten", name + 6, g, out);
    } else if (strncmp(name, "ops.", 4) == 0 && strchr(name + 4, '.')) {
        char *dot = strchr(name + 4, '.');
        *dot = 0;
        ok = call_op(p, name + 4, dot + 1, g, out);
    } else if (strncmp(name, "__torch__.", 10) == 0) {
        ok = call_function(p, name, g, out);
    } else {
        bool cast = false;
        for (size_t i = 0; i < TP_COUNT(casts) && !cast; i++)
            if ((cast = strcmp(casts[i].name, name) == 0 && g->count == 1))
                ok = prim(p, casts[i].kind, g->arg, 1, tp_jit_simple(casts[i].type), out);
        if (!cast)
            ok = tp_fail(TP_ERR_UNIMPLEMENTED, "TorchScript text: '%s' is not implemented in Taper yet", name);
    }
    tp_free(g);
    return ok;
}

static bool primary(parser *p, item *out)
{
    blanks(p);
    char c = *p->at;
    if (c == '"' || c == '\'')
        return string(p, out);
    if (c == '(' || c == '[' || c == '{')
        return container(p, out);
    if (isdigit((unsigned char)c) || c == '-' || c == '.')
        return number(p, out);
    return word(p, out);
}

static tp_jit_type *item_type(const tp_jit_type *t, const tp_node *key)
{
    if (t->kind == TP_JIT_DICT || t->kind == TP_JIT_LIST)
        return tp_jit_type_ref(t->part[t->kind == TP_JIT_DICT ? 1 : 0].type);
    const tp_value *v = tp_node_keyword(key, "value");
    if (t->kind == TP_JIT_TUPLE && v && v->tag == TP_INT && v->i >= 0 && v->i < t->count)
        return tp_jit_type_ref(t->part[v->i].type);
    return tp_fail(TP_ERR_RUNTIME, "TorchScript text: a value that has no items is indexed");
}

static bool expression(parser *p, item *out)
{
    if (++p->depth > DEEPEST)
        return fail_at(p, "expressions nest too deeply");
    bool ok = primary(p, out);
    for (;;) {
        blanks(p);
        if (!ok)
            break;
        if (take(p, ".")) {
            char name[LONGEST_NAME];
            item object = *out;
            if (!(ok = name_of(p, false, name)))
                break;
            blanks(p);
            if (*p->at == '(') {
                given *g = tp_alloc_zero(sizeof *g);
                ok = g && arguments(p, g) && call_method(p, &object, name, g, out);
                tp_free(g);
            } else {
                ok = read_attribute(p, &object, name, out);
            }
        } else if (*p->at == '[') {
            item pair[2] = { *out };
            tp_jit_type *type = NULL;
            ok = take(p, "[") && expression(p, &pair[1]) && need(p, "]") && (type = item_type(tp_jit_type_of(pair[0].node), pair[1].node)) &&
                 prim(p, "aten::__getitem__", pair, 2, type, out);
        } else {
            break;
        }
    }
    p->depth--;
    return ok;
}

/* ---- statements ---- */
static bool is_temporary(const char *name)
{
    return name[0] == '_' && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1);
}

static bool assign(parser *p, const char *name, item v)
{
    char key[LONGEST_NAME + 2];
    snprintf(key, sizeof key, "@%s", name);
    if (!tp_text_map_put(&p->scope, name, (uint64_t)(uintptr_t)v.node) || (v.module && !tp_text_map_put(&p->scope, key, (uint64_t)(uintptr_t)v.module)))
        return false;
    return is_temporary(name) || tp_jit_note_of(v.node)->name || v.node->kind == TP_PLACEHOLDER || tp_jit_rename(&p->names, v.node, name);
}

static tp_node *result_of(const tp_node *n, uint32_t index)
{
    for (uint32_t i = 0; i < n->user_count; i++)
        if (tp_jit_is(n->user[i], "prim::Result") && n->user[i]->arg[1].i == index)
            return n->user[i];
    return NULL;
}

/* Several names on the left: the results of an op, or the items of a tuple or list. */
static bool assign_several(parser *p, char (*name)[LONGEST_NAME], uint32_t count, item v)
{
    tp_node *from = v.node;
    if (tp_jit_note_of(from)->results != count) {
        const tp_jit_type *t = tp_jit_type_of(from);
        bool tuple = t->kind == TP_JIT_TUPLE;
        if ((!tuple && t->kind != TP_JIT_LIST) || (tuple && t->count != count))
            return fail_at(p, "the names do not fit the value");
        item unpack;
        if (!prim(p, tuple ? "prim::TupleUnpack" : "prim::ListUnpack", &v, 1, tp_jit_simple(TP_JIT_ANY), &unpack))
            return false;
        tp_jit_note_of(unpack.node)->results = count;
        p->names.next--;
        for (uint32_t i = 0; i < count; i++)
            if (!tp_jit_result(p->graph, &p->names, unpack.node, i, tp_jit_type_ref(t->part[tuple ? i : 0].type)))
                return false;
        from = unpack.node;
    }
    for (uint32_t i = 0; i < count; i++) {
        item one = { .node = result_of(from, i) };
        if (!one.node || !assign(p, name[i], one))
            return false;
    }
    return true;
}

/* Reads one line; *returned: it was `return`. */
static bool statement(parser *p, bool *returned)
{
    enum { MOST_NAMES = 256 };
    item v;
    if (take(p, "return")) {
        *returned = true;
        return expression(p, &v) && tp_jit_output(p->graph, v.node);
    }
    if (take(p, "if") || take(p, "for") || take(p, "while"))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "TorchScript with control flow is not implemented in Taper yet");
    char(*name)[LONGEST_NAME] = tp_alloc_array(MOST_NAMES, LONGEST_NAME);
    uint32_t count = 0;
    bool comma = false, ok = name;
    while (ok && !take(p, "=")) {
        ok = count < MOST_NAMES && name_of(p, false, name[count++]);
        if (ok && take(p, ":")) {           /* `x : int = …` */
            tp_jit_type *type = parse_type(p);
            ok = type;
            tp_jit_type_unref(type);
        }
        comma = (ok && take(p, ",")) || comma;
    }
    ok = ok && expression(p, &v) && (comma ? assign_several(p, name, count, v) : count == 1 ? assign(p, name[0], v) : fail_at(p, "expected a name"));
    tp_free(name);
    return ok;
}

/* ---- functions ---- */
static bool parse_inputs(parser *p, bool *method)
{
    bool first = true;
    if (!need(p, "("))
        return false;
    while (!take(p, ")")) {
        char name[LONGEST_NAME];
        tp_jit_type *type = NULL;
        if (!name_of(p, false, name))
            return false;
        bool self = first && strcmp(name, "self") == 0 && p->self;
        if (take(p, ":"))
            type = parse_type(p);
        else
            type = self ? tp_jit_type_ref(p->self->type) : tp_jit_simple(TP_JIT_ANY_TENSOR);
        item v = { 0 };
        if (!type || !built(&v, tp_jit_input(p->graph, &p->names, name, type)))
            return false;
        v.module = self ? p->self : NULL;
        *method = *method || self;
        if (!assign(p, name, v))
            return false;
        first = false;
        if (!take(p, ",") && !need(p, ")"))
            return false;
        if (p->at[-1] == ')')
            break;
    }
    return true;
}

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

/* `def name(…) -> type:` and the lines below it that are further in. Leaves p->at behind them. */
static tp_jit_function *parse_def(parser *p)
{
    char name[LONGEST_NAME];
    bool method = false, returned = false, gives = false;
    const char *line = p->at;
    while (line > p->start && line[-1] != '\n')
        line--;
    size_t indent = indent_of(line);
    if (!(p->graph = tp_graph_new()) || !need(p, "def") || !name_of(p, false, name) || !parse_inputs(p, &method))
        return NULL;
    if (take(p, "->")) {
        tp_jit_type *type = parse_type(p);
        gives = type && type->kind != TP_JIT_NONE;
        tp_jit_type_unref(type);
        if (!type)
            return NULL;
    }
    if (!need(p, ":"))
        return NULL;
    while (!returned) {
        p->at += strcspn(p->at, "\n");
        while (*p->at == '\n')
            p->at++;
        if (!*p->at || indent_of(p->at) <= indent)
            break;
        blanks(p);
        if (*p->at != '\n' && !statement(p, &returned))
            return NULL;
    }
    if (!returned && gives)
        return fail_at(p, "a function that gives a value has no return"), NULL;
    if (!returned) {
        item none;
        if (!constant(p, tp_none(), &none) || !tp_jit_output(p->graph, none.node))
            return NULL;
    }
    return tp_jit_function_new(name, p->graph, method);
}

static void parser_fini(parser *p)
{
    tp_graph_unref(p->graph);
    p->graph = NULL;
    tp_jit_names_fini(&p->names);
    tp_text_map_fini(&p->scope);
    p->names = (tp_jit_names){ 0 };
    p->scope = (tp_text_map){ 0 };
}

tp_jit_function *tp_jit_parse_function(const tp_jit_reader *r, const char *text)
{
    parser p = { .reader = r, .at = text, .start = text };
    tp_jit_function *f = parse_def(&p);
    parser_fini(&p);
    return f;
}

/* ---- classes ---- */
static const char *find(const char *text, const char *keyword, const char *name)
{
    size_t word = strlen(keyword), length = strlen(name);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, keyword, word) == 0 && strncmp(line + word, name, length) == 0 && line[word + length] == '(')
            return line;
    return NULL;
}

const char *tp_jit_find_class(const char *text, const char *name) { return find(text, "class ", name); }
const char *tp_jit_find_def(const char *text, const char *name) { return find(text, "def ", name); }

/* The next line of a class, NULL behind its last. */
static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    while (*line == '\n')
        line++;
    return *line == ' ' ? line : NULL;
}

bool tp_jit_class_lists(const char *text, const char *list, const char *name)
{
    char quoted[LONGEST_NAME];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    for (const char *line = next_line(text); line; line = next_line(line)) {
        const char *at = line + indent_of(line);
        if (strncmp(at, list, strlen(list)) != 0)
            continue;
        const char *found = strstr(at, quoted);
        return found && found < at + strcspn(at, "\n");
    }
    return false;
}

bool tp_jit_parse_methods(const tp_jit_reader *r, const char *text, tp_jit_module *m)
{
    const char *line = next_line(text);
    while (line) {
        const char *at = line + indent_of(line);
        if (strncmp(at, "def ", 4) != 0 || indent_of(line) != 2) {
            line = next_line(line);
            continue;
        }
        parser p = { .reader = r, .at = at, .start = text, .self = m };
        tp_jit_function *f = parse_def(&p);
        bool ok = f && tp_jit_module_define(m, f);
        tp_jit_function_unref(f);
        parser_fini(&p);
        if (!ok)
            return false;
        line = next_line(at);
    }
    return true;
}
