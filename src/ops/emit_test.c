/* emit_test.c - generated ops at work: values, errors, decompositions, backward formulas, batching rules. */
#include "base/test.h"
#include "gen/ops.h"
#include "ops/emit.h"
#include "ops/known.h"

static tp_value floats(tp_scope *s, int ndim, const int64_t *size, const float *item)
{
    tp_tensor *t = tp_tensor_new(TP_f32, ndim, size);
    if (!t) {
        s->failed = true;
        return tp_none();
    }
    memcpy(tp_tensor_data(t), item, (size_t)t->numel * sizeof *item);
    return tp_scope_own(s, tp_of_tensor(t));
}

static tp_value run(tp_scope *s, const tp_op *op, size_t count, const tp_value *arg)
{
    tp_value result[4];
    if (s->failed || !tp_call1(op, count, arg, result)) {
        s->failed = true;
        return tp_none();
    }
    for (int i = 1; i < op->result_count; i++)
        tp_value_unref(result[i]);
    return tp_scope_own(s, result[0]);
}
#define RUN(op, ...) run(&s, &tp_op_##op, TP_COUNT(((tp_value[]){ __VA_ARGS__ })), (tp_value[]){ __VA_ARGS__ })

static double at(tp_value v, int64_t i)
{
    const tp_tensor *t = tp_as_tensor(v);
    if (!t || i >= t->numel)
        return NAN;
    return tp_scalar_to_double(tp_scalar_read((const char *)tp_tensor_data(t) + i * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype), (tp_dtype)t->dtype));
}

/* An op fails with this text; the error is taken away. */
static void expect_failure(tp_scope *s, const char *text)
{
    TP_EXPECT(s->failed);
    TP_EXPECT_TEXT(tp_error_text(), text);
    tp_error_clear();
    s->failed = false;
}

TP_TEST(forms_are_chosen_by_what_is_there)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_value x = floats(&s, 1, (int64_t[]){ 3 }, (float[]){ -2, 0.5f, 3 });
    tp_value low = RUN(clamp, x, tp_int(0)), both = RUN(clamp, x, tp_int(0), tp_int(1));
    TP_EXPECT(at(low, 0) == 0 && at(low, 2) == 3 && at(both, 2) == 1);
    tp_value floor = RUN(div_Tensor_mode, x, tp_int(2), tp_scope_text(&s, "floor"));
    TP_EXPECT(at(floor, 0) == -1 && at(floor, 1) == 0 && at(floor, 2) == 1);
    tp_scope_end(&s);
}

TP_TEST(checks_speak_pytorch)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_value x = floats(&s, 2, (int64_t[]){ 2, 3 }, (float[6]){ 0 });
    TP_NEED(!s.failed);
    RUN(clamp, x);
    expect_failure(&s, "torch.clamp: At least one of 'min' or 'max' must not be None");
    RUN(select_int, x, tp_int(0), tp_int(5));
    expect_failure(&s, "select(): index 5 out of range for tensor of size [2, 3] at dimension 0");
    RUN(sum_dim_IntList, x, tp_int(2));
    expect_failure(&s, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
out:
    tp_scope_end(&s);
}

TP_TEST(decompositions_call_ops)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_value x = floats(&s, 2, (int64_t[]){ 2, 2 }, (float[]){ 1, 2, 3, 4 }), y = floats(&s, 2, (int64_t[]){ 2, 2 }, (float[]){ 1, 0, 3, 0 });
    TP_EXPECT(at(RUN(mse_loss, x, y), 0) == 5);
    TP_EXPECT(at(RUN(square, x), 3) == 16);
    tp_value parts = RUN(unbind_int, x);
    TP_EXPECT(tp_length(parts) == 2 && at(tp_item(parts, 1, &s.failed), 0) == 3);
    TP_EXPECT(at(RUN(slice_scatter, x, floats(&s, 2, (int64_t[]){ 1, 2 }, (float[]){ 7, 8 }), tp_int(0), tp_int(1)), 3) == 8);
    tp_scope_end(&s);
}

TP_TEST(backward_formulas)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_value x = floats(&s, 1, (int64_t[]){ 2 }, (float[]){ 3, 5 }), y = floats(&s, 1, (int64_t[]){ 2 }, (float[]){ 2, 4 });
    tp_value g = floats(&s, 1, (int64_t[]){ 2 }, (float[]){ 1, 10 }), grad[2] = { { 0 } };
    TP_NEED(!s.failed);
    TP_EXPECT(tp_op_mul_Tensor.gradient->save_count == 2 && tp_op_mul_Tensor.differentiable == 3);
    /* Saved values stand in the order of their names: other, self. */
    tp_backward b = { .op = &tp_op_mul_Tensor, .saved = (tp_value[]){ y, x }, .g = &g, .wanted = 1, .grad = grad };
    TP_NEED(tp_op_mul_Tensor.gradient->backward(&b));
    TP_EXPECT(at(grad[0], 1) == 40 && grad[1].tag == TP_NONE);
    tp_value_unref(grad[0]);
    grad[0] = tp_none();
    b.wanted = 3;
    TP_NEED(tp_op_mul_Tensor.gradient->backward(&b));
    TP_EXPECT(at(grad[0], 0) == 2 && at(grad[1], 0) == 3);
out:
    tp_values_unref(grad, 2);
    tp_scope_end(&s);
}

/* A rule and the loop agree. */
static void same_as_loop(tp_scope *s, const tp_op *op, const tp_value *arg, uint64_t batched, int64_t members)
{
    tp_value by_rule[4] = { { 0 } }, by_loop[4] = { { 0 } };
    tp_sym size = tp_sym_int(members);
    if (s->failed)
        return;
    if (op->vmap(op, arg, batched, size, by_rule) && tp_vmap_loop(op, arg, batched, size, by_loop)) {
        const tp_tensor *a = tp_as_tensor(by_rule[0]), *b = tp_as_tensor(by_loop[0]);
        TP_EXPECT(a->ndim == b->ndim && a->numel == b->numel);
        tp_tensor *dense = tp_tensor_is_contiguous(a) ? tp_tensor_ref(a) : NULL;
        for (int64_t i = 0; dense && i < a->numel; i++)
            TP_EXPECT(at(by_rule[0], i) == at(by_loop[0], i));
        tp_tensor_unref(dense);
    } else {
        TP_EXPECT(tp_test_quiet);
    }
    tp_values_unref(by_rule, op->result_count);
    tp_values_unref(by_loop, op->result_count);
}

TP_TEST(batching_rules_agree_with_the_loop)
{
    tp_scope s;
    tp_scope_start(&s);
    float item[24];
    for (int i = 0; i < 24; i++)
        item[i] = (float)(i * 7 % 11) - 3;
    tp_value x = floats(&s, 3, (int64_t[]){ 2, 3, 4 }, item), v = floats(&s, 2, (int64_t[]){ 2, 4 }, item), w = floats(&s, 1, (int64_t[]){ 4 }, item);
    same_as_loop(&s, &tp_op_add_Tensor, (tp_value[]){ x, v, tp_int(2) }, 3, 2);
    same_as_loop(&s, &tp_op_mul_Tensor, (tp_value[]){ x, w }, 1, 2);
    same_as_loop(&s, &tp_op_sum_dim_IntList, (tp_value[]){ x, tp_none(), tp_bool(false), tp_none() }, 1, 2);
    same_as_loop(&s, &tp_op_sum_dim_IntList, (tp_value[]){ x, tp_int(-1), tp_bool(true), tp_none() }, 1, 2);
    same_as_loop(&s, &tp_op_cumsum, (tp_value[]){ x, tp_int(0), tp_none() }, 1, 2);
    same_as_loop(&s, &tp_op_unsqueeze, (tp_value[]){ x, tp_int(-1) }, 1, 2);
    same_as_loop(&s, &tp_op_select_int, (tp_value[]){ x, tp_int(0), tp_int(1) }, 1, 2);
    tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(forms_are_chosen_by_what_is_there), TP_SWEPT(checks_speak_pytorch), TP_SWEPT(decompositions_call_ops),
         TP_SWEPT(backward_formulas), TP_SWEPT(batching_rules_agree_with_the_loop))
