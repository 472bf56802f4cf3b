/* code.c - a jit graph as the text of a function.
 *
 * A value that is read once, by the statement right behind it, is written where it is read: walking back from a statement
 * over its inputs, right to left, each input that is the nearest node before it becomes part of the expression. So the order
 * in which ops run is kept. An expression of more than 37 characters gets a line and a name of its own. */
#include "jit/code.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

enum { LONGEST_EXPRESSION = 37 };

typedef struct printer {
    const tp_graph *graph;
    tp_jit_constants *constants;        /* borrowed */
    tp_text *out;                       /* borrowed: finished lines */
    int      indent;
    bool    *inlined;                   /* owned, by node id */
    char   **name;                      /* owned, by node id, each owned; NULL: none yet */
    tp_text *part;                      /* owned, by node id: expressions of inlined nodes that have no line */
    tp_array(const tp_node *) pending;  /* inlined nodes whose reader is not written yet, in the order they run */
    tp_text_map used;                   /* names that are taken */
    uint32_t next;                      /* of _0, _1 … */
    tp_array(const tp_node *) order;    /* nodes that are statements or parts of one */
} printer;

void tp_jit_constants_fini(tp_jit_constants *c)
{
    for (size_t i = 0; i < c->item.count; i++)
        tp_tensor_unref(c->item.item[i]);
    tp_array_fini(&c->item);
}

/* ---- names ---- */
static bool is_name(const char *text)
{
    static const char *const words[] = { "def", "return", "if", "else", "for", "while", "in", "is", "not", "and", "or", "None", "True", "False",
                                         "class", "lambda", "import", "from", "as", "with", "pass", "del", "global", "print", "torch", "ops",
                                         "CONSTANTS", "annotate", "int", "float", "bool", "list", "getattr", "input", NULL };
    if (!(isalpha((unsigned char)*text) || *text == '_'))
        return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0 && strcmp(text, "input") != 0)
            return false;
    return true;
}

/* `wish` without its number, made unique by digits behind it. */
static const char *give_name(printer *p, const tp_node *n, const char *wish)
{
    char stem[128], made[160];
    uint64_t taken;
    snprintf(stem, sizeof stem, "%s", wish ? wish : "");
    char *dot = strrchr(stem, '.');
    if (dot && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1))
        *dot = 0;
    for (char *c = stem; *c; c++)
        if (*c == '.')
            *c = '_';
    if (!wish) {
        do
            snprintf(made, sizeof made, "_%u", p->next++);
        while (tp_text_map_get(&p->used, made, &taken));
    } else {
        snprintf(made, sizeof made, is_name(stem) ? "%s" : "_%s", stem);
        for (int i = 0; tp_text_map_get(&p->used, made, &taken); i++)
            snprintf(made, sizeof made, "%s%d", stem, i);
    }
    if (!tp_text_map_put(&p->used, made, 1))
        return NULL;
    return p->name[n->id] = tp_alloc_text(made);
}

/* ---- which nodes are parts of expressions ---- */
static bool is_constant(const tp_node *n)
{
    return tp_jit_is(n, "prim::Constant");
}

static bool may_inline(const tp_node *n, const tp_node *into)
{
    const tp_jit_note *note = tp_jit_note_of(n);
    uint32_t uses = 0;
    if (n->user_count != 1 || note->results || note->name || n->kind != TP_CALL_FUNCTION)
        return false;
    for (uint32_t i = 0; i < into->arg_count; i++)
        uses += tp_as_node(into->arg[i]) == n;
    return uses == 1;
}

static void mark(printer *p, const tp_node *n, size_t *at)
{
    for (uint32_t i = n->arg_count; i-- > 0;) {
        const tp_node *in = tp_as_node(n->arg[i]);
        if (in && *at > 0 && p->order.item[*at - 1] == in && may_inline(in, n)) {
            (*at)--;
            p->inlined[in->id] = true;
            mark(p, in, at);
        }
    }
}

/* ---- literals ---- */
static bool number_tensor(tp_value v, tp_tensor **out)
{
    tp_dtype d = v.tag == TP_FLOAT ? TP_f64 : v.tag == TP_BOOL ? TP_b8 : v.tag == TP_COMPLEX ? TP_c128 : TP_i64;
    return (*out = tp_tensor_new_scalar(d, tp_as_scalar(v)));
}

static bool same_contents(const tp_tensor *a, const tp_tensor *b)
{
    if (a == b)
        return true;
    return a->dtype == b->dtype && a->ndim == 0 && b->ndim == 0 &&
           memcmp(tp_tensor_data(a), tp_tensor_data(b), tp_dtype_bytes((tp_dtype)a->dtype)) == 0;
}

static bool print_tensor(printer *p, tp_tensor *t, tp_text *out)
{
    for (size_t i = 0; i < p->constants->item.count; i++)
        if (same_contents(p->constants->item.item[i], t)) {
            tp_text_add(out, "CONSTANTS.c%zu", i);
            return true;
        }
    if (!tp_array_push(&p->constants->item, t))
        return false;
    tp_tensor_ref(t);
    tp_text_add(out, "CONSTANTS.c%zu", p->constants->item.count - 1);
    return true;
}

static void print_string(const char *text, tp_text *out)
{
    tp_text_add(out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            tp_text_add(out, "\\%c", *text);
        else if ((unsigned char)*text < 32)
            tp_text_add(out, "\\%03o", (unsigned char)*text);
        else
            tp_text_put(out, text, 1);
    }
    tp_text_add(out, "\"");
}

static bool print_value(printer *p, tp_value v, const tp_jit_type *type, tp_text *out)
{
    char device[16];
    if (type && type->kind == TP_JIT_TENSOR && tp_is_number(v)) {
        tp_tensor *t;
        bool ok = number_tensor(v, &t) && print_tensor(p, t, out);
        if (t)
            tp_tensor_unref(t);
        return ok;
    }
    switch ((tp_tag)v.tag) {
    case TP_NONE: tp_text_add(out, "None"); return true;
    case TP_BOOL: tp_text_add(out, v.b ? "True" : "False"); return true;
    case TP_FLOAT:
        if (isnan(v.f) || isinf(v.f))
            tp_text_add(out, "%s", isnan(v.f) ? "nan" : v.f < 0 ? "-inf" : "inf");
        else
            tp_jit_print_number(v.f, out);
        return true;
    case TP_INT:
    case TP_LAYOUT:
    case TP_FORMAT_VALUE: tp_text_add(out, "%lld", (long long)v.i); return true;
    case TP_DTYPE_VALUE: tp_text_add(out, "%lld", (long long)tp_jit_dtype_number(v.i)); return true;
    case TP_STRING: print_string(v.string->text, out); return true;
    case TP_DEVICE: tp_text_add(out, "torch.device(\"%s\")", tp_device_name(v.device, device)); return true;
    case TP_TENSOR: return print_tensor(p, v.tensor, out);
    case TP_LIST:
        tp_text_add(out, "[");
        for (uint32_t i = 0; i < v.list->count; i++) {
            tp_text_add(out, "%s", i ? ", " : "");
            if (!print_value(p, v.list->item[i], NULL, out))
                return false;
        }
        tp_text_add(out, "]");
        return true;
    case TP_HANDLE:
        if (tp_jit_as_function(v)) {
            tp_text_add(out, "__torch__.%s", tp_jit_as_function(v)->name);
            return true;
        }
        break;
    default: break;
    }
    return tp_fail(TP_ERR_RUNTIME, "a constant of this kind has no text in TorchScript");
}

/* ---- expressions ---- */
static bool print_expression(printer *p, const tp_node *n, tp_text *out);

static void start_line(printer *p)
{
    tp_text_add(p->out, "%*s", p->indent, "");
}

static bool write_line(printer *p, const tp_node *n, const tp_text *text)
{
    const char *name = give_name(p, n, NULL);
    start_line(p);
    tp_text_add(p->out, "%s = %s\n", name ? name : "", tp_text_read(text));
    return name;
}

/* Expressions of the inputs, left to right. Where one gets a line of its own, those that run before it get theirs first. */
static bool prepare(printer *p, const tp_node *n)
{
    for (uint32_t i = 0; i < n->arg_count; i++) {
        const tp_node *in = tp_as_node(n->arg[i]);
        if (!in || !p->inlined[in->id] || p->name[in->id])
            continue;
        size_t before = p->pending.count;
        if (!prepare(p, in))
            return false;
        tp_text text = { 0 };
        if (!print_expression(p, in, &text) || text.failed) {
            tp_text_fini(&text);
            return false;
        }
        if (p->pending.count > before)              /* what `in` reads is in its text now */
            p->pending.count = before;
        p->part[in->id] = text;
        if (!tp_array_push(&p->pending, in))
            return false;
        if (text.length <= LONGEST_EXPRESSION)
            continue;
        for (size_t k = 0; k < p->pending.count; k++)
            if (!write_line(p, p->pending.item[k], &p->part[p->pending.item[k]->id]))
                return false;
        p->pending.count = 0;
    }
    return true;
}

/* A name, a literal, or the expression of a node that is part of this one. */
static bool print_input(printer *p, const tp_node *n, tp_text *out)
{
    if (is_constant(n)) {
        const tp_value *v = tp_node_keyword(n, "value");
        return print_value(p, v ? *v : tp_none(), tp_jit_type_of(n), out);
    }
    if (p->name[n->id])
        tp_text_add(out, "%s", p->name[n->id]);
    else
        tp_text_put(out, tp_text_read(&p->part[n->id]), p->part[n->id].length);
    return true;
}

static bool print_inputs(printer *p, const tp_node *n, uint32_t from, uint32_t to, const char *between, tp_text *out)
{
    for (uint32_t i = from; i < to; i++) {
        if (i > from)
            tp_text_add(out, "%s", between);
        if (!print_input(p, tp_as_node(n->arg[i]), out))
            return false;
    }
    return true;
}

static bool is_default(const tp_arg *a, const tp_node *n)
{
    if (!a->fallback || !n)
        return false;
    if (tp_jit_is(n, "prim::ListConstruct") && a->fallback->tag == TP_LIST) {
        if (n->arg_count != a->fallback->list->count)
            return false;
        for (uint32_t i = 0; i < n->arg_count; i++) {
            const tp_value *v = tp_node_keyword(tp_as_node(n->arg[i]), "value");
            if (!v || !tp_value_equal(*v, a->fallback->list->item[i]))
                return false;
        }
        return true;
    }
    if (!is_constant(n))
        return false;
    const tp_value *v = tp_node_keyword(n, "value");
    tp_value given = v ? *v : tp_none();
    return given.tag == a->fallback->tag && tp_value_equal(given, *a->fallback);
}

static bool print_op(printer *p, const tp_node *n, tp_text *out)
{
    const tp_op *op = n->target.op;
    uint32_t count = n->arg_count;
    while (count > 0 && is_default(&op->arg[count - 1], tp_as_node(n->arg[count - 1])) && op->variant != TP_OUT)
        count--;
    if (strcmp(op->space, "aten") == 0)
        tp_text_add(out, "torch.%s(", op->name);
    else
        tp_text_add(out, "ops.%s.%s(", op->space, op->name);
    for (uint32_t i = 0; i < count; i++) {
        tp_text_add(out, "%s", i ? ", " : "");
        if (op->arg[i].keyword_only)
            tp_text_add(out, "%s=", op->arg[i].name);
        if (!print_input(p, tp_as_node(n->arg[i]), out))
            return false;
    }
    tp_text_add(out, ")");
    return true;
}

static bool print_call(printer *p, const tp_node *n, tp_text *out)
{
    bool method = tp_jit_is(n, "prim::CallMethod");
    tp_text_add(out, method ? "(" : "");
    if (!print_input(p, tp_as_node(n->arg[0]), out))
        return false;
    if (method)
        tp_text_add(out, ").%s", tp_jit_attr_text(n, "name"));
    tp_text_add(out, "(");
    for (uint32_t i = 1; i < n->arg_count; i++) {
        if (!print_input(p, tp_as_node(n->arg[i]), out))
            return false;
        tp_text_add(out, ", ");
    }
    tp_text_add(out, ")");
    return true;
}

static bool print_list(printer *p, const tp_node *n, tp_text *out)
{
    const tp_jit_type *item = tp_jit_type_of(n)->part[0].type;
    bool say = item->kind == TP_JIT_OPTIONAL || !n->arg_count;
    if (say) {
        tp_text_add(out, "annotate(");
        tp_jit_type_print_python(tp_jit_type_of(n), out);
        tp_text_add(out, ", ");
    }
    tp_text_add(out, "[");
    bool ok = print_inputs(p, n, 0, n->arg_count, ", ", out);
    tp_text_add(out, say ? "])" : "]");
    return ok;
}

static bool print_dict(printer *p, const tp_node *n, tp_text *out)
{
    tp_text_add(out, "{");
    for (uint32_t i = 0; i + 1 < n->arg_count; i += 2) {
        tp_text_add(out, "%s", i ? ", " : "");
        if (!print_inputs(p, n, i, i + 2, ": ", out))
            return false;
    }
    tp_text_add(out, "}");
    return true;
}

static bool print_attribute(printer *p, const tp_node *n, tp_text *out)
{
    const char *name = tp_jit_attr_text(n, "name");
    tp_text_add(out, is_name(name) ? "" : "getattr(");
    if (!print_input(p, tp_as_node(n->arg[0]), out))
        return false;
    tp_text_add(out, is_name(name) ? ".%s" : ", \"%s\")", name);
    return true;
}

static bool print_wrapped(printer *p, const tp_node *n, const char *open, const char *close, tp_text *out)
{
    tp_text_add(out, "%s", open);
    bool ok = print_inputs(p, n, 0, n->arg_count, ", ", out);
    tp_text_add(out, "%s", close);
    return ok;
}

static bool print_expression(printer *p, const tp_node *n, tp_text *out)
{
    static const struct { const char *kind, *open, *close; } wrapped[] = {
        { "prim::NumToTensor", "ops.prim.NumToTensor(", ")" }, { "aten::Int", "int(", ")" }, { "aten::Float", "float(", ")" },
        { "aten::Bool", "bool(", ")" }, { "aten::ScalarImplicit", "annotate(number, ", ")" }, { "aten::size", "torch.size(", ")" },
        { "aten::numel", "torch.numel(", ")" }, { "aten::dim", "torch.dim(", ")" }, { "prim::TupleUnpack", "", "" }, { "prim::ListUnpack", "", "" },
    };
    char kind[160];
    if (n->target.kind == TP_TARGET_OP)
        return print_op(p, n, out);
    if (n->target.kind == TP_TARGET_HANDLE)
        return tp_fail(TP_ERR_RUNTIME, "Could not export Python function call '%s'. Remove calls to Python functions before export. Did you forget to "
                                       "add @script or @script_method annotation? If this is a nn.ModuleList, add it to __constants__", tp_jit_attr_text(n, "name"));
    if (tp_jit_is(n, "prim::ListConstruct"))
        return print_list(p, n, out);
    if (tp_jit_is(n, "prim::TupleConstruct"))
        return print_wrapped(p, n, "(", n->arg_count == 1 ? ",)" : ")", out);
    if (tp_jit_is(n, "prim::DictConstruct"))
        return print_dict(p, n, out);
    if (tp_jit_is(n, "prim::GetAttr"))
        return print_attribute(p, n, out);
    if (tp_jit_is(n, "prim::CallMethod") || tp_jit_is(n, "prim::CallFunction"))
        return print_call(p, n, out);
    if (tp_jit_is(n, "aten::__getitem__")) {
        bool ok = print_input(p, tp_as_node(n->arg[0]), out);
        tp_text_add(out, "[");
        ok = ok && print_input(p, tp_as_node(n->arg[1]), out);
        tp_text_add(out, "]");
        return ok;
    }
    for (size_t i = 0; i < TP_COUNT(wrapped); i++)
        if (tp_jit_is(n, wrapped[i].kind))
            return print_wrapped(p, n, wrapped[i].open, wrapped[i].close, out);
    return tp_fail(TP_ERR_RUNTIME, "%s has no text in TorchScript", tp_jit_kind_name(n, kind));
}

/* ---- statements ---- */
static bool print_targets(printer *p, const tp_node *n)
{
    const char *between = "";
    bool unpack = n->target.kind == TP_TARGET_NAME;
    if (!tp_jit_note_of(n)->results) {
        const char *name = give_name(p, n, tp_jit_note_of(n)->name);
        tp_text_add(p->out, "%s = ", name ? name : "");
        return name;
    }
    for (uint32_t i = 0; i < n->user_count; i++) {
        if (!tp_jit_is(n->user[i], "prim::Result"))
            continue;
        const char *name = give_name(p, n->user[i], tp_jit_note_of(n->user[i])->name);
        if (!name)
            return false;
        tp_text_add(p->out, "%s%s", between, name);
        between = ", ";
    }
    tp_text_add(p->out, unpack ? ", = " : " = ");
    return true;
}

static bool print_statement(printer *p, const tp_node *n)
{
    tp_text text = { 0 };
    bool ok = prepare(p, n) && print_expression(p, n, &text);
    p->pending.count = 0;
    if (ok) {
        start_line(p);
        ok = print_targets(p, n);
        tp_text_add(p->out, "%s\n", tp_text_read(&text));
    }
    ok = ok && !text.failed;
    tp_text_fini(&text);
    return ok;
}

static bool print_head(printer *p, const tp_jit_function *f)
{
    bool first = true;
    tp_text_add(p->out, "%*sdef %s(", p->indent - 2, "", f->name);
    tp_graph_each(p->graph, n) {
        if (n->kind != TP_PLACEHOLDER)
            continue;
        bool self = first && f->method;
        const char *name = give_name(p, n, self ? "self" : n->target.name);
        if (!name)
            return false;
        tp_text_add(p->out, first ? "" : ",\n    ");
        tp_text_add(p->out, "%s", name);
        if (!self || p->indent > 2) {       /* inside a class the type of self is said too */
            tp_text_add(p->out, ": ");
            tp_jit_type_print_python(tp_jit_type_of(n), p->out);
        }
        first = false;
    }
    const tp_node *output = tp_graph_output_node(p->graph);
    tp_text_add(p->out, ") -> ");
    tp_jit_type_print_python(tp_jit_type_of(tp_as_node(output->arg[0])), p->out);
    tp_text_add(p->out, ":\n");
    return true;
}

static bool print_body(printer *p)
{
    const tp_node *output = tp_graph_output_node(p->graph);
    tp_graph_each(p->graph, n)
        if (n->kind == TP_CALL_FUNCTION && !is_constant(n) && !tp_jit_is(n, "prim::Result") && !tp_array_push(&p->order, n))
            return false;
    size_t at = p->order.count;
    mark(p, output, &at);
    while (at > 0) {
        const tp_node *n = p->order.item[--at];
        mark(p, n, &at);
    }
    for (size_t i = 0; i < p->order.count; i++)
        if (!p->inlined[p->order.item[i]->id] && !print_statement(p, p->order.item[i]))
            return false;
    tp_text text = { 0 };
    bool ok = prepare(p, output) && print_input(p, tp_as_node(output->arg[0]), &text);
    start_line(p);
    tp_text_add(p->out, "return %s\n", tp_text_read(&text));
    ok = ok && !text.failed;
    tp_text_fini(&text);
    return ok;
}

bool tp_jit_code_print(const tp_jit_function *f, tp_jit_constants *constants, int indent, tp_text *out)
{
    uint32_t nodes = f->graph->node_count;
    printer p = { .graph = f->graph, .constants = constants, .out = out, .indent = indent + 2 };
    p.inlined = tp_alloc_zero(nodes + 1);
    p.name = tp_alloc_zero((nodes + 1) * sizeof *p.name);
    p.part = tp_alloc_zero((nodes + 1) * sizeof *p.part);
    bool ok = p.inlined && p.name && p.part && print_head(&p, f) && print_body(&p);
    for (uint32_t i = 0; p.name && i < nodes; i++)
        tp_free(p.name[i]);
    for (uint32_t i = 0; p.part && i < nodes; i++)
        tp_text_fini(&p.part[i]);
    tp_free(p.part);
    tp_array_fini(&p.pending);
    tp_free(p.name);
    tp_free(p.inlined);
    tp_text_map_fini(&p.used);
    tp_array_fini(&p.order);
    return ok && (!out->failed || tp_fail_memory());
}

bool tp_jit_code_function(const tp_jit_function *f, tp_text *out)
{
    tp_jit_constants constants = { 0 };
    bool ok = tp_jit_code_print(f, &constants, 0, out);
    tp_jit_constants_fini(&constants);
    return ok;
}
