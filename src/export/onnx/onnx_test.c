/* onnx_test.c - graphs as ONNX models: which operators, inputs and outputs the bytes hold, and what is refused. */
#include "export/onnx/model.h"
#include "base/alloc.h"
#include "format/protobuf.h"
#include "trace/test_graphs.h"

/* "MatMul(x, w) Add(…)": the operators of a model, then its inputs and outputs. */
static void describe(const tp_text *model, tp_text *out)
{
    tp_proto_reader m, g, n;
    tp_proto_reader_init(&m, tp_text_read(model), model->length);
    while (tp_proto_next(&m)) {
        if (m.field != 7)
            continue;
        tp_proto_enter(&m, &g);
        while (tp_proto_next(&g)) {
            if (g.field != 1 && g.field != 11 && g.field != 12)
                continue;
            tp_proto_enter(&g, &n);
            while (tp_proto_next(&n))
                if (n.field == (g.field == 1 ? 4u : 1u) && n.wire == TP_PROTO_BYTES)
                    tp_text_add(out, "%s%s%.*s", out->length ? " " : "",
                                g.field == 1    ? ""
                                : g.field == 11 ? "in:"
                                                : "out:",
                                (int)n.count, (const char *)n.bytes);
        }
    }
    TP_EXPECT(!m.failed);
}

/* The constants of a recorder, by the id of the nodes that read them. */
static const tp_tensor **constants_of(const tp_recorder *r)
{
    tp_graph *g = tp_recorder_graph(r);
    const tp_tensor **of = tp_alloc_zero(sizeof *of * (g->node_count + 1));
    const char *name;
    for (size_t i = 0; of && i < tp_recorder_constant_count(r); i++) {
        const tp_tensor *t = tp_recorder_constant(r, i, &name);
        tp_graph_each(g, n) if (n->kind == TP_GET_ATTR && strcmp(n->target.name, name) == 0) of[n->id] = t;
    }
    return of;
}

static void expect_model(tp_scope *s, const tp_recorder *r, const char *want)
{
    tp_text model = { 0 }, text = { 0 };
    const tp_tensor **constant = !r || s->failed ? NULL : constants_of(r);
    if (constant) {
        tp_onnx_source source = { .graph = tp_recorder_graph(r), .constant = constant };
        if (tp_onnx_write(&source, &model)) {
            describe(&model, &text);
            TP_EXPECT_TEXT(tp_text_read(&text), want);
        } else {
            TP_EXPECT(tp_error_kind() != TP_ERR_NONE);
            TP_EXPECT_TEXT(tp_error_text(), want);
            tp_error_clear();
        }
    }
    tp_text_fini(&text);
    tp_text_fini(&model);
    tp_free(constant);
}

TP_TEST(columns_and_tile_programs)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s), *w = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "relu", T(CALL(&s, "addmm", T(w), T(x), T(CALL(&s, "t", T(w))))));
    y = CALL(&s, "add.Tensor", T(y), T(x), I(3));
    y = CALL(&s, "sum.dim_IntList", T(y), INTS(&s, 1));
    test_record_end(&s, r, y);
    expect_model(&s, r, "Transpose Gemm Relu Mul Add ReduceSum Identity in:x_1 out:output.0");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(calls_without_a_rule_are_opened)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_P);
    tp_tensor *y = CALL(&s, "flatten.using_ints", T(CALL(&s, "matmul", T(x), T(x))));
    test_record_end(&s, r, y);
    expect_model(&s, r, "MatMul Reshape Identity in:x_1 out:output.0");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(lists_of_results)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_value parts = CALL_VALUE(&s, "split.Tensor", T(x), I(1));
    tp_tensor *y = s.failed ? NULL : CALL(&s, "mul.Tensor", parts.list->item[0], parts.list->item[1]);
    test_record_end(&s, r, y);
    expect_model(&s, r, "Split Mul Identity in:x_1 out:output.0");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(what_has_no_form_is_named)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "atan2", T(CALL(&s, "relu", T(x))), T(x));
    test_record_end(&s, r, y);
    expect_model(&s, r, "Unsupported FX nodes: {'call_function': ['aten.atan2.default']}. ");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(columns_and_tile_programs), TP_SWEPT(calls_without_a_rule_are_opened), TP_SWEPT(lists_of_results),
         TP_SWEPT(what_has_no_form_is_named))
