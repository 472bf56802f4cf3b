/* listing.c - graphs as torch.fx lists them: str(graph), Node.format_node and print_tabular. */
#include <string.h>

#include "base/array.h"
#include "ir/code.h"

static void put(tp_text *out, const char *text)
{
    tp_text_put(out, text, strlen(text));
}

static bool fine(const tp_text *out)
{
    return !out->failed || tp_fail_memory();
}

static bool put_target(const tp_node *n, const tp_code_host *host, tp_text *out)
{
    switch ((tp_target_kind)n->target.kind) {
    case TP_TARGET_NAME: put(out, n->target.name); break;
    case TP_TARGET_OP:
        tp_target_op_text(n->target.op, "torch.ops.", out);
        break;
    case TP_TARGET_BUILTIN:         /* _operator is where operator's functions live */
        tp_text_add(out, "%s.%s", n->target.builtin->module + (*n->target.builtin->module == '_'),
                    n->target.builtin->name);
        break;
    case TP_TARGET_HANDLE:
        if (host && host->qualified)
            return host->qualified(host->data, n->target.handle, out);
        return tp_code_value(host, (tp_value){ .tag = TP_HANDLE, .handle = n->target.handle }, TP_FORM_STR, out);
    }
    return fine(out);
}

static bool put_args(const tp_node *n, const tp_code_host *host, tp_code_form form, tp_text *out)
{
    put(out, "(");
    for (uint32_t i = 0; i < n->arg_count; i++) {
        put(out, i ? ", " : "");
        if (!tp_code_value(host, n->arg[i], form, out))
            return false;
    }
    put(out, n->arg_count == 1 ? ",)" : ")");
    return fine(out);
}

static bool put_keywords(const tp_node *n, const tp_code_host *host, tp_code_form form, tp_text *out)
{
    const tp_value *pair = n->arg + n->arg_count;
    put(out, "{");
    for (uint32_t k = 0; k < n->keyword_count; k++, pair += 2) {
        put(out, k ? ", " : "");
        if (!tp_code_value(host, pair[0], form, out))
            return false;
        put(out, ": ");
        if (!tp_code_value(host, pair[1], form, out))
            return false;
    }
    put(out, "}");
    return fine(out);
}

bool tp_node_list(const tp_node *n, const tp_code_host *host, tp_text *out)
{
    if (n->kind == TP_OUTPUT) {
        put(out, "return ");
        return tp_code_value(host, n->arg_count ? n->arg[0] : tp_none(), TP_FORM_STR, out);
    }
    tp_text_add(out, "%%%s : ", n->name);
    if (n->type && host && host->annotation) {
        if (!host->annotation(host->data, n->type, true, out))
            return false;
        put(out, " ");
    }
    tp_text_add(out, "[num_users=%u] = %s[target=", n->user_count, tp_node_kind_names[n->kind]);
    if (!put_target(n, host, out))
        return false;
    put(out, "]");
    if (n->kind == TP_PLACEHOLDER) {
        if (!n->arg_count)
            return fine(out);
        put(out, "(default=");
        bool ok = tp_code_value(host, n->arg[0], TP_FORM_STR, out);
        put(out, ")");
        return ok;
    }
    if (n->kind == TP_GET_ATTR)
        return fine(out);
    put(out, "(args = ");
    if (!put_args(n, host, TP_FORM_LISTING, out))
        return false;
    put(out, ", kwargs = ");
    if (!put_keywords(n, host, TP_FORM_LISTING, out))
        return false;
    put(out, ")");
    return fine(out);
}

bool tp_graph_list(const tp_graph *g, const tp_code_host *host, tp_text *out)
{
    put(out, "graph():");
    tp_graph_each(g, n) {
        put(out, "\n    ");
        if (!tp_node_list(n, host, out))
            return false;
    }
    return fine(out);
}

/* ---- the table ---- */
enum { COLUMNS = 5 };
typedef tp_array(tp_text) cell_list;

static bool put_cell(const tp_node *n, const tp_code_host *host, int column, tp_text *out)
{
    switch (column) {
    case 0: put(out, tp_node_kind_names[n->kind]); return fine(out);
    case 1: put(out, n->name); return fine(out);
    case 2:
        if (n->target.kind == TP_TARGET_HANDLE)
            return tp_code_value(host, (tp_value){ .tag = TP_HANDLE, .handle = n->target.handle }, TP_FORM_STR, out);
        if (n->target.kind == TP_TARGET_OP) {
            tp_text_add(out, "%s.%s.%s", n->target.op->space, n->target.op->name,
                        *n->target.op->overload ? n->target.op->overload : "default");
            return fine(out);
        }
        if (n->target.kind == TP_TARGET_BUILTIN) {
            tp_text_add(out, "<built-in function %s>", n->target.builtin->name);
            return fine(out);
        }
        return put_target(n, host, out);
    case 3: return put_args(n, host, TP_FORM_CODE, out);
    default: return put_keywords(n, host, TP_FORM_CODE, out);
    }
}

bool tp_graph_table(const tp_graph *g, const tp_code_host *host, tp_text *out)
{
    static const char *const heads[COLUMNS] = { "opcode", "name", "target", "args", "kwargs" };
    size_t width[COLUMNS];
    cell_list cells = { 0 };
    bool ok = true;
    for (int c = 0; c < COLUMNS; c++)
        width[c] = strlen(heads[c]) + 2;
    for (const tp_node *n = g->root.next; ok && n != &g->root; n = n->next)
        for (int c = 0; ok && c < COLUMNS; c++) {
            tp_text cell = { 0 };
            ok = put_cell(n, host, c, &cell) && tp_array_push(&cells, cell);
            if (!ok)
                tp_text_fini(&cell);
            else if (cell.length > width[c])
                width[c] = cell.length;
        }
    for (int c = 0; c < COLUMNS; c++)
        tp_text_add(out, c + 1 < COLUMNS ? "%-*s  " : "%-*s", (int)width[c], heads[c]);
    while (out->length && out->at[out->length - 1] == ' ')
        out->at[--out->length] = 0;
    put(out, "\n");
    for (int c = 0; c < COLUMNS; c++) {
        for (size_t i = 0; i < width[c]; i++)
            put(out, "-");
        put(out, c + 1 < COLUMNS ? "  " : "");
    }
    for (size_t i = 0; i < cells.count; i++) {
        size_t c = i % COLUMNS;
        put(out, c ? "  " : "\n");
        tp_text_add(out, c + 1 < COLUMNS ? "%-*s" : "%*s", c + 1 < COLUMNS ? (int)width[c] : 0,
                    tp_text_read(&cells.item[i]));
    }
    for (size_t i = 0; i < cells.count; i++)
        tp_text_fini(&cells.item[i]);
    tp_array_fini(&cells);
    return ok && fine(out);
}
