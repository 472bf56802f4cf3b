/* c_writer_test.c - graphs as C: the text of small functions, and what is refused. tests/python/test_cc.py compiles and
 * runs. */
#include "fuse/c_writer.h"
#include "trace/test_graphs.h"

static void expect_text(const tp_scope *s, const tp_recorder *r, const char *want)
{
    tp_text text = { 0 };
    if (!r || s->failed)
        return;
    tp_c_source source = { .graph = tp_recorder_graph(r), .function = "f" };
    if (tp_c_write(&source, &text)) {
        const char *body = strstr(tp_text_read(&text), "static ");
        TP_EXPECT_TEXT(body ? body : tp_text_read(&text), want);
    } else {
        TP_EXPECT(tp_error_kind() != TP_ERR_NONE);
        TP_EXPECT_TEXT(tp_error_text(), want);
        tp_error_clear();
    }
    tp_text_fini(&text);
}

TP_TEST(views_are_strides_and_memory_is_shared)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "relu", T(CALL(&s, "t", T(x))));
    y = CALL(&s, "sum.dim_IntList", T(CALL(&s, "mul.Tensor", T(y), T(x))), INTS(&s, 1));
    test_record_end(&s, r, y);
    expect_text(&s, r,
                "static float memory_f32[20];\n\n"
                "void f(const float *in_x_1, float *out_0);\n"
                "void f(const float *in_x_1, float *out_0)\n{\n"
                "    float *const t_relu = memory_f32 + 0;\n"
                "    float *const t_mul = memory_f32 + 16;\n"
                "    float *const t_sum_1 = memory_f32 + 0;\n\n"
                "    /* relu = relu(t) */\n"
                "    for (int64_t i = 0; i < 2; i++) {\n"
                "        for (int64_t j = 0; j < 2; j++) {\n"
                "            const float r0 = in_x_1[i + j*2];\n"
                "            const float r1 = r0 < 0 ? 0 : r0;\n"
                "            t_relu[i + j*2] = r1;\n        }\n    }\n\n"
                "    /* mul = mul(relu, x_1) */\n"
                "    for (int64_t i = 0; i < 2; i++) {\n"
                "        for (int64_t j = 0; j < 2; j++) {\n"
                "            const float r0 = t_relu[i + j*2];\n"
                "            const float r1 = in_x_1[i*2 + j];\n"
                "            const float r2 = r0 * r1;\n"
                "            t_mul[i + j*2] = r2;\n        }\n    }\n\n"
                "    /* sum_1 = sum(mul) */\n"
                "    for (int64_t i = 0; i < 2; i++) {\n        {\n"
                "            double s = 0;\n"
                "            for (int64_t j = 0; j < 2; j++) {\n"
                "                const double x = t_mul[i + j*2];\n"
                "                s += x;\n            }\n"
                "            t_sum_1[i] = (float)(s);\n        }\n    }\n\n"
                "    for (int64_t i = 0; i < 2; i++) {\n"
                "        out_0[i] = t_sum_1[i];\n    }\n}\n");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(writes_go_through_views)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "clone", T(x)), *row = CALL(&s, "select.int", T(y), I(0), I(1));
    CALL(&s, "relu_", T(row));
    CALL(&s, "add_.Tensor", T(row), T(CALL(&s, "select.int", T(y), I(1), I(0))));
    test_record_end(&s, r, y);
    expect_text(&s, r,
                "static float memory_f32[18];\n\n"
                "void f(const float *in_x_1, float *out_0);\n"
                "void f(const float *in_x_1, float *out_0)\n{\n"
                "    float *const t_clone = memory_f32 + 0;\n"
                "    float *const t_add__aside = memory_f32 + 16;\n\n"
                "    /* clone = clone(x_1) */\n"
                "    for (int64_t i = 0; i < 4; i++) {\n        t_clone[i] = in_x_1[i];\n    }\n\n"
                "    /* relu_ = relu_(select) */\n"
                "    for (int64_t i = 0; i < 2; i++) {\n"
                "        const float r0 = t_clone[2 + i];\n"
                "        const float r1 = r0 < 0 ? 0 : r0;\n"
                "        t_clone[2 + i] = r1;\n    }\n\n"
                "    /* add_ = add_(relu_, select_1) */\n"
                "    for (int64_t i = 0; i < 2; i++) {\n"
                "        const float r0 = t_clone[2 + i];\n"
                "        const float r1 = t_clone[i*2];\n"
                "        const float r2 = r0 + r1;\n"
                "        t_add__aside[i] = r2;\n    }\n"
                "    for (int64_t i = 0; i < 2; i++) {\n        t_clone[2 + i] = t_add__aside[i];\n    }\n\n"
                "    for (int64_t i = 0; i < 4; i++) {\n        out_0[i] = t_clone[i];\n    }\n}\n");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

/* The caller sees what became of its input; nobody would see what becomes of a weight. */
TP_TEST(an_input_may_be_written_a_weight_may_not)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    CALL(&s, "neg_", T(x));
    test_record_end(&s, r, CALL(&s, "relu", T(x)));
    if (r && !s.failed) {
        tp_text text = { 0 };
        tp_c_source source = { .graph = tp_recorder_graph(r), .function = "f" };
        TP_EXPECT(tp_c_write(&source, &text) && strstr(tp_text_read(&text), "void f(float *in_x_1, float *out_0)"));
        const tp_tensor *constant[64] = { NULL };
        const char *name[64] = { NULL };
        const tp_node *n = tp_graph_first(source.graph);
        constant[n->id] = x;
        name[n->id] = "counts";
        source.constant = constant;
        source.name = name;
        TP_EXPECT(!tp_c_write(&source, &text));
        TP_EXPECT_TEXT(tp_error_text(), "the program writes to 'counts': in C weights and buffers are constant");
        tp_error_clear();
        tp_text_fini(&text);
    }
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(what_has_no_words_is_named)
{
    static const char *const op[] = { "roll", "sort" };
    static const char *const want[] = { "the C writer has no words for aten::roll",
                                        "the C writer has no words for aten::sort" };
    for (int i = 0; i < 2; i++) {
        tp_scope s;
        tp_scope_start(&s);
        tp_tensor *x = CALL(&s, "mul.Tensor", T(test_square(&s)), F(0.1));
        tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
        test_record_end(&s, r, CALL(&s, op[i], T(x), I(1)));
        expect_text(&s, r, want[i]);
        tp_recorder_free(r);
        (void)tp_scope_end(&s);
    }
}

TP_TESTS(TP_SWEPT(views_are_strides_and_memory_is_shared), TP_SWEPT(writes_go_through_views),
         TP_SPARSE(an_input_may_be_written_a_weight_may_not), TP_SWEPT(what_has_no_words_is_named))
