/* test_graphs.h - for C tests of tracers: a graph as short lines, compared.
 *
 *     "x_1 = placeholder; mul = mul.Tensor(x_1, 2); sum_1 = sum(mul, dtype=…); return mul" */
#ifndef TP_TRACE_TEST_GRAPHS_H
#define TP_TRACE_TEST_GRAPHS_H

#include "ops/test_calls.h"
#include "trace/record.h"

static inline void test_print_value(tp_value v, tp_text *out)
{
    if (v.tag == TP_NODE) {
        tp_text_add(out, "%s", ((tp_node *)v.node)->name);
    } else if (v.tag == TP_LIST || v.tag == TP_TUPLE) {
        tp_text_add(out, v.tag == TP_LIST ? "[" : "(");
        for (uint32_t i = 0; i < v.list->count; i++) {
            tp_text_add(out, i ? ", " : "");
            test_print_value(v.list->item[i], out);
        }
        tp_text_add(out, v.tag == TP_LIST ? "]" : ")");
    } else {
        tp_value_print(v, out);
    }
}

static inline void test_print_node(const tp_node *n, tp_text *out)
{
    if (n->kind == TP_OUTPUT)
        tp_text_add(out, "return ");
    else
        tp_text_add(out, "%s = ", n->name);
    if (n->kind == TP_PLACEHOLDER)
        tp_text_add(out, "placeholder");
    if (n->kind == TP_GET_ATTR)
        tp_text_add(out, "self.%s", n->target.name);
    if (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP)
        tp_text_add(out, "%s%s%s(", n->target.op->name, *n->target.op->overload ? "." : "", n->target.op->overload);
    else if (n->kind == TP_CALL_FUNCTION)
        tp_text_add(out, "%s(", n->target.builtin->name);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        tp_text_add(out, i ? ", " : "");
        test_print_value(n->arg[i], out);
    }
    for (uint32_t i = 0; i < n->keyword_count; i++) {
        tp_text_add(out, i || n->arg_count ? ", %s=" : "%s=", n->arg[n->arg_count + 2 * i].string->text);
        test_print_value(n->arg[n->arg_count + 2 * i + 1], out);
    }
    if (n->kind == TP_CALL_FUNCTION)
        tp_text_add(out, ")");
}

static inline void test_expect_graph(const tp_scope *s, const tp_recorder *r, const char *want)
{
    tp_text text = { 0 };
    if (!r || s->failed)
        return;
    const tp_graph *g = tp_recorder_graph(r);
    for (const tp_node *n = g->root.next; n != &g->root; n = n->next) {
        tp_text_add(&text, text.length ? "; " : "");
        test_print_node(n, &text);
    }
    TP_EXPECT_TEXT(tp_text_read(&text), want);
    tp_text_fini(&text);
}

static inline tp_tensor *test_square(tp_scope *s)
{
    return CALL(s, "clone", T(CALL(s, "view", T(VECTOR(s, 1, 2, 3, 4)), INTS(s, 2, 2))));
}

/* A recorder mounted at R with one input; NULL when the scope has failed. */
static inline tp_recorder *test_record(tp_scope *s, tp_tensor *x, const tp_record_host *host, tp_layer_id layer)
{
    tp_recorder *r = s->failed ? NULL : tp_recorder_new(host);
    if (!r || !tp_record_input(r, "x_1", T(x))) {
        s->failed = true;
        tp_recorder_free(r);
        return NULL;
    }
    tp_recorder_enter(r, layer);
    return r;
}

static inline void test_record_end(tp_scope *s, tp_recorder *r, tp_tensor *result)
{
    tp_value lowered;
    if (!r)
        return;
    tp_recorder_leave(r);
    if (!result || !tp_record_lower(r, T(result), &lowered)) {
        s->failed = true;
        return;
    }
    if (!tp_record_output(r, lowered))
        s->failed = true;
    tp_value_unref(lowered);
}

#endif
