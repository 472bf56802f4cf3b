/* record_test.c - what calls look like as nodes: arguments, results, constants, sizes, and what a failure leaves behind. */
#include "grad/test_grads.h"
#include "ops/symbolic.h"
#include "trace/test_graphs.h"

TP_TEST(calls_become_nodes)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "add.Tensor", T(x), T(CALL(&s, "relu", T(x))), I(2));
    y = CALL(&s, "sum.dim_IntList", T(y), INTS(&s, 1));
    test_record_end(&s, r, y);
    test_expect_graph(&s, r, "x_1 = placeholder; relu = relu(x_1); add = add.Tensor(x_1, relu, alpha=2); sum_1 = sum.dim_IntList(add, [1]); return sum_1");
    EXPECT_ELEMENTS(y, 9, 21);
    tp_node *n = r && !s.failed ? tp_record_node_of(r, y) : NULL;
    if (n)
        TP_EXPECT(n->fact.tag == TP_TENSOR && tp_is_fake(n->fact.tensor) && n->fact.tensor->size[0] == 2 && n->fact.tensor != y);
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(composites_are_opened_below_autograd_and_whole_above)
{
    for (int above = 0; above < 2; above++) {
        tp_scope s;
        tp_scope_start(&s);
        tp_tensor *x = test_square(&s), *w = test_square(&s);
        tp_recorder *r = test_record(&s, x, NULL, above ? TP_LAYER_TRACE_P : TP_LAYER_TRACE_R);
        tp_tensor *y = CALL(&s, "linear", T(x), T(w), tp_none());
        test_record_end(&s, r, y);
        test_expect_graph(&s, r, above ? "x_1 = placeholder; _tensor_constant0 = self._tensor_constant0; linear = linear(x_1, _tensor_constant0); return linear"
                                       : "x_1 = placeholder; _tensor_constant0 = self._tensor_constant0; t = t(_tensor_constant0); mm = mm(x_1, t); return mm");
        tp_recorder_free(r);
        (void)tp_scope_end(&s);
    }
}

TP_TEST(several_results_are_items)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "max.dim", T(x), I(1));
    tp_value parts = CALL_VALUE(&s, "split.Tensor", T(x), I(1));
    y = s.failed ? NULL : CALL(&s, "add.Tensor", T(y), parts.list->item[1]);
    test_record_end(&s, r, y);
    test_expect_graph(&s, r, "x_1 = placeholder; max_1 = max.dim(x_1, 1); getitem = getitem(max_1, 0); getitem_1 = getitem(max_1, 1); "
                      "split = split.Tensor(x_1, 1); getitem_2 = getitem(split, 0); getitem_3 = getitem(split, 1); "
                      "add = add.Tensor(getitem, getitem_3); return add");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(a_write_becomes_the_tensor)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "mul_.Tensor", T(x), T(x));
    y = CALL(&s, "neg", T(x));
    test_record_end(&s, r, y);
    test_expect_graph(&s, r, "x_1 = placeholder; mul_ = mul_.Tensor(x_1, x_1); neg = neg(mul_); return neg");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(constants_and_literals)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s), *c = VECTOR(&s, 1, 2);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "mul.Tensor", T(CALL(&s, "add.Tensor", T(x), T(c))), T(c));
    y = CALL(&s, "add.Tensor", T(y), T(CALL(&s, "lift_fresh", T(VECTOR(&s, 5, 6)))));
    test_record_end(&s, r, y);
    test_expect_graph(&s, r, "x_1 = placeholder; _tensor_constant0 = self._tensor_constant0; add = add.Tensor(x_1, _tensor_constant0); "
                      "_tensor_constant0_1 = self._tensor_constant0; mul = mul.Tensor(add, _tensor_constant0_1); "
                      "_tensor_constant1 = self._tensor_constant1; lift_fresh_copy = lift_fresh_copy(_tensor_constant1); "
                      "add_1 = add.Tensor(mul, lift_fresh_copy); return add_1");
    const char *name;
    if (r && !s.failed)
        TP_EXPECT(tp_recorder_constant_count(r) == 2 && tp_recorder_constant(r, 0, &name) == c && strcmp(name, "_tensor_constant0") == 0);
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(gradients_are_recorded)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_leaf(&s, test_square(&s));
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "sum", T(CALL(&s, "sin", T(x))));
    tp_tensor *g = GRAD(&s, y, 0, x);
    test_record_end(&s, r, g);
    test_expect_graph(&s, r, "x_1 = placeholder; sin = sin(x_1); sum_1 = sum(sin); ones_like = ones_like(sum_1); "
                      "expand = expand(ones_like, [2, 2]); cos = cos(x_1); mul = mul.Tensor(expand, cos); return mul");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(values_may_not_be_read)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 3);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    if (r)
        EXPECT_ERROR(&s, "It appears that you're trying to get value out of a tracing tensor with aten._local_scalar_dense.default - erroring out! "
                     "It's likely that this is caused by data-dependent control flow or similar.  It may be possible to trace this with dynamic "
                     "shapes; try setting tracing_mode='symbolic' in your make_fx call.", "_local_scalar_dense", T(x));
    EXPECT_ERROR(&s, "mat1 and mat2 shapes cannot be multiplied (2x2 and 3x1)", "mm", T(test_square(&s)), T(CALL(&s, "view", T(VECTOR(&s, 1, 2, 3)), INTS(&s, 3, 1))));
    if (r)
        tp_recorder_leave(r);
    TP_EXPECT(tp_self.active == 0 && !tp_self.tracer[1]);
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

static int twice(void *context, const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (strcmp(op->name, "relu") != 0)
        return 0;
    ++*(int *)context;
    tp_value full[4] = { arg[0], tp_int(0) };
    return tp_call(test_op("clamp_min"), full, result) ? 1 : -1;
}

TP_TEST(a_table_replaces_ops)
{
    tp_scope s;
    int calls = 0;
    tp_record_host host = { .context = &calls, .decompose = twice };
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_recorder *r = test_record(&s, x, &host, TP_LAYER_TRACE_R);
    tp_tensor *y = CALL(&s, "neg", T(CALL(&s, "relu", T(x))));
    test_record_end(&s, r, y);
    test_expect_graph(&s, r, "x_1 = placeholder; clamp_min = clamp_min(x_1, 0); neg = neg(clamp_min); return neg");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

/* Sizes: read once from the first tensor that has them, then computed. */
TP_TEST(sizes_are_nodes)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *real = test_own(&s, tp_tensor_new(TP_f32, 2, (int64_t[]){ 6, 4 }));
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    if (!env)
        s.failed = true;
    tp_sym size[2] = { TP_SYM_FAILED, TP_SYM_FAILED };
    if (!s.failed) {
        size[0] = tp_shape_env_symbol(env, 6, NULL, TP_RANGE_ALL);
        size[1] = tp_shape_env_symbol(env, 4, NULL, TP_RANGE_ALL);
        s.failed = tp_sym_is_failed(size[0]) || tp_sym_is_failed(size[1]);
    }
    tp_tensor *x = s.failed ? NULL : test_own(&s, tp_fake_symbolic(real, env, size));
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *y = NULL;
    if (r) {
        tp_list *shape = tp_list_new(2);
        if (shape) {
            shape->item[0] = tp_of_sym(tp_sym_mul(size[0], tp_sym_int(2)));
            shape->item[1] = tp_of_sym(tp_sym_floordiv(size[1], tp_sym_int(2)));
            tp_scope_own(&s, tp_of_list(shape));
            y = CALL(&s, "new_zeros", T(x), tp_of_list(shape));
            y = CALL(&s, "expand", T(y), tp_of_list(shape));
        } else {
            s.failed = true;
        }
    }
    test_record_end(&s, r, y);
    test_expect_graph(&s, r, "x_1 = placeholder; sym_size_int = sym_size.int(x_1, 0); mul = mul(sym_size_int, 2); sym_size_int_1 = sym_size.int(x_1, 1); "
                      "floordiv = floordiv(sym_size_int_1, 2); new_zeros = new_zeros(x_1, [mul, floordiv]); "
                      "expand = expand(new_zeros, [mul, floordiv]); return expand");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
    tp_shape_env_unref(env);
}

/* A number read from a fake tensor is the symbol of its node; what is declared of it follows that node. */
TP_TEST(numbers_are_asserted)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *real = test_own(&s, tp_tensor_new(TP_i64, 0, NULL));
    tp_fake_mode mode = { .env = tp_shape_env_new(NULL, NULL) };
    s.failed = s.failed || !mode.env;
    tp_tensor *x = s.failed ? NULL : test_own(&s, tp_fake_of(real)), *y = NULL;
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    if (r) {
        tp_fake_enter(&mode);
        tp_value number = CALL_VALUE(&s, "item", T(x));
        y = CALL(&s, "new_zeros", T(x), tp_scope_list(&s, 1, &number));
        tp_sym n = s.failed ? TP_SYM_FAILED : (tp_sym){ number.sym };
        s.failed = s.failed || !tp_sym_assume(tp_sym_lt(tp_sym_int(2), n), NULL) ||
                   !tp_sym_assume(tp_sym_le(tp_sym_mul(n, n), tp_sym_int(99)), NULL) || !tp_record_asserts(r);
        tp_fake_leave(&mode);
    }
    test_record_end(&s, r, y);
    test_expect_graph(&s, r, "x_1 = placeholder; _local_scalar_dense = _local_scalar_dense(x_1); "
                      "sym_constrain_range_for_size_default = sym_constrain_range_for_size(_local_scalar_dense); "
                      "sym_constrain_range_default = sym_constrain_range(_local_scalar_dense, min=3); "
                      "gt = gt(_local_scalar_dense, 2); "
                      "_assert_scalar_default = _assert_scalar(gt, \"Runtime assertion failed for expression 2 < u0 on node 'gt'\"); "
                      "pow_1 = pow(_local_scalar_dense, 2); le = le(pow_1, 99); "
                      "_assert_scalar_default_1 = _assert_scalar(le, \"Runtime assertion failed for expression u0**2 <= 99 on node 'le'\"); "
                      "new_zeros = new_zeros(x_1, [_local_scalar_dense]); return new_zeros");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
    tp_shape_env_unref(mode.env);
}

TP_TESTS(TP_SWEPT(calls_become_nodes), TP_SWEPT(composites_are_opened_below_autograd_and_whole_above), TP_SWEPT(several_results_are_items),
         TP_SWEPT(a_write_becomes_the_tensor), TP_SWEPT(constants_and_literals), TP_SWEPT(gradients_are_recorded),
         TP_SWEPT(values_may_not_be_read), TP_SWEPT(a_table_replaces_ops), TP_SWEPT(sizes_are_nodes),
         TP_SWEPT(numbers_are_asserted))
