/* text.c - a graph as the text that text.h describes. */
#include "ir/text.h"

#include <string.h>

#include "ir/code.h"

static void put(tp_text *out, const char *text)
{
    tp_text_put(out, text, strlen(text));
}

static void put_value(tp_value v, tp_text *out)
{
    if (!tp_code_value(NULL, v, TP_FORM_TEXT, out))
        out->failed = true;
}

/* `f32[2, "s0"]`, `int`, `(f32[2], None)`: sizes that are expressions stand in quotes. */
static void put_fact(tp_value fact, tp_text *out)
{
    const tp_tensor *t = tp_as_tensor(fact);
    if (t) {
        tp_text sizes = { 0 };
        tp_code_fact(fact, !tp_tensor_is_contiguous(t), false, &sizes);
        bool inside = false;
        for (const char *c = tp_text_read(&sizes); *c; c++) {
            bool ends = *c == ',' || *c == ']';
            if (inside && ends)
                put(out, "\""), inside = false;
            tp_text_put(out, c, 1);
            bool begins = *c == '[' || (*c == ' ' && c[-1] == ',');
            if (begins && c[1] != ']' && c[1] != ' ' && strcspn(c + 1, ",]") != strspn(c + 1, "-0123456789"))
                put(out, "\""), inside = true;
        }
        out->failed |= sizes.failed;
        tp_text_fini(&sizes);
    } else if (fact.tag == TP_LIST || fact.tag == TP_TUPLE) {
        put(out, fact.tag == TP_LIST ? "[" : "(");
        for (uint32_t i = 0; i < fact.list->count; i++) {
            put(out, i ? ", " : "");
            put_fact(fact.list->item[i], out);
        }
        put(out, fact.tag == TP_LIST ? "]" : fact.list->count == 1 ? ",)" : ")");
    } else {
        put_value(fact, out);
    }
}

static void put_named(const tp_node *n, tp_text *out)
{
    tp_text_add(out, "%%%s", n->name);
    if (n->fact.tag != TP_NONE) {
        put(out, ": ");
        put_fact(n->fact, out);
    }
}

static void put_args(const tp_node *n, tp_text *out)
{
    put(out, "(");
    for (uint32_t i = 0; i < n->arg_count; i++) {
        put(out, i ? ", " : "");
        put_value(n->arg[i], out);
    }
    const tp_value *pair = n->arg + n->arg_count;
    for (uint32_t k = 0; k < n->keyword_count; k++, pair += 2) {
        put(out, k || n->arg_count ? ", " : "");
        put(out, pair[0].string->text);
        put(out, "=");
        put_value(pair[1], out);
    }
    put(out, ")");
}

static void put_target(const tp_node *n, tp_text *out)
{
    switch ((tp_target_kind)n->target.kind) {
    case TP_TARGET_NAME: tp_text_add(out, "%s %s", tp_node_kind_names[n->kind], n->target.name); break;
    case TP_TARGET_OP:
        tp_target_op_text(n->target.op, "", out);
        break;
    case TP_TARGET_BUILTIN: tp_text_add(out, "%s.%s", n->target.builtin->module, n->target.builtin->name); break;
    case TP_TARGET_HANDLE: put_value((tp_value){ .tag = TP_HANDLE, .handle = n->target.handle }, out); break;
    }
}

static void print_graph(const tp_graph *g, int depth, tp_text *out);

static void print_node(const tp_node *n, int depth, tp_text *out)
{
    if (n->kind == TP_OUTPUT) {
        put(out, "return ");
        put_value(n->arg_count ? n->arg[0] : tp_none(), out);
        return;
    }
    put_named(n, out);
    if (n->kind == TP_PLACEHOLDER) {
        if (strcmp(n->name, n->target.name) != 0) {
            put(out, " as \"");
            tp_put_escaped(out, n->target.name, strlen(n->target.name));
            put(out, "\"");
        }
        if (n->arg_count) {
            put(out, " = ");
            put_value(n->arg[0], out);
        }
        return;
    }
    put(out, " = ");
    put_target(n, out);
    if (n->kind != TP_GET_ATTR) {
        put_args(n, out);
        return;
    }
    const tp_graph *child = tp_graph_child(n->graph, n->target.name);
    if (child) {
        put(out, " {\n");
        print_graph(child, depth + 2, out);
        tp_text_add(out, "%*s}", 4 * depth + 4, "");
    }
}

void tp_node_print(const tp_node *n, tp_text *out)
{
    print_node(n, 0, out);
}

static void print_graph(const tp_graph *g, int depth, tp_text *out)
{
    bool first = true;
    tp_text_add(out, "%*s", 4 * depth, "");
    put(out, "graph(");
    tp_graph_each(g, n)
        if (n->kind == TP_PLACEHOLDER) {
            put(out, first ? "" : ", ");
            first = false;
            print_node(n, depth, out);
        }
    put(out, "):\n");
    tp_graph_each(g, n)
        if (n->kind != TP_PLACEHOLDER) {
            tp_text_add(out, "%*s", 4 * depth + 4, "");
            print_node(n, depth, out);
            put(out, "\n");
        }
}

void tp_graph_print(const tp_graph *g, tp_text *out)
{
    print_graph(g, 0, out);
}
