/* translate_test.c - programs handed to other formats: state stands inside under its own name, writes are refused. */
#define _GNU_SOURCE
#include "export/translate.h"
#include "trace/test_graphs.h"

/* x @ w, with w a parameter; `writes`: it is also given back as a buffer's new value. */
static tp_program *product(tp_scope *s, bool writes)
{
    tp_tensor *x = test_square(s), *w = test_square(s);
    tp_recorder *r = s->failed ? NULL : tp_recorder_new(NULL);
    tp_program *p = NULL;
    if (!r)
        return NULL;
    if (tp_record_input(r, "p_w", T(w)) && tp_record_input(r, "x", T(x)) && (p = tp_program_new())) {
        tp_recorder_enter(r, TP_LAYER_TRACE_R);
        tp_tensor *y = CALL(s, "mm", T(x), T(w));
        test_record_end(s, r, y);
        p->graph = tp_graph_ref(tp_recorder_graph(r));
        p->state = tp_arena_take_array(&p->arena, 1, sizeof *p->state);
        p->signature.input = tp_arena_take_array(&p->arena, 2, sizeof *p->signature.input);
        p->signature.output = tp_arena_take_array(&p->arena, 1, sizeof *p->signature.output);
        if (!s->failed && p->state && p->signature.input && p->signature.output) {
            p->state[0] = (tp_state_row){ "layer.w", tp_tensor_ref(w), true };
            p->state_count = 1;
            p->signature.input[0] = (tp_input_spec){ .kind = TP_INPUT_PARAMETER, .name = "p_w", .target = "layer.w" };
            p->signature.input[1] = (tp_input_spec){ .kind = TP_INPUT_USER, .name = "x" };
            p->signature.output[0] = (tp_output_spec){ .kind = writes ? TP_OUTPUT_BUFFER : TP_OUTPUT_USER,
                                                       .target = writes ? "n" : NULL };
            p->signature.input_count = 2;
            p->signature.output_count = 1;
        } else {
            s->failed = true;
        }
    }
    tp_recorder_free(r);
    if (!s->failed && p)
        return p;
    tp_program_unref(p);
    return NULL;
}

TP_TEST(weights_stand_inside)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_program *p = product(&s, false);
    tp_text c = { 0 }, onnx = { 0 };
    if (p && tp_program_to_c(p, "f", true, &c)) {
        TP_EXPECT(strstr(tp_text_read(&c), "static const float w_layer_w[4] = {\n    1.0f, 2.0f, 3.0f, 4.0f\n};"));
        TP_EXPECT(strstr(tp_text_read(&c), "void f(const float *in_x, float *out_0)") &&
                  strstr(tp_text_read(&c), "int main("));
    }
    if (p && tp_program_to_onnx(p, &onnx))
        TP_EXPECT(onnx.length > 100 && memmem(onnx.at, onnx.length, "layer.w", 7) &&
                  memmem(onnx.at, onnx.length, "MatMul", 6));
    TP_EXPECT(tp_error_kind() == TP_ERR_NONE);
    tp_error_clear();
    tp_text_fini(&c);
    tp_text_fini(&onnx);
    tp_program_unref(p);
    (void)tp_scope_end(&s);
}

TP_TEST(writes_are_refused)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_program *p = product(&s, true);
    tp_text c = { 0 };
    if (p) {
        TP_EXPECT(!tp_program_to_c(p, NULL, false, &c));
        TP_EXPECT_TEXT(tp_error_text(), "a program that writes to 'n' has no form without memory of its own");
    }
    tp_error_clear();
    tp_text_fini(&c);
    tp_program_unref(p);
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(weights_stand_inside), TP_SWEPT(writes_are_refused))
