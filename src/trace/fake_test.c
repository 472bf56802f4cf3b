/* fake_test.c - ops on tensors without data: by integers, and by expressions. */
#include "ops/symbolic.h"
#include "ops/test_calls.h"
#include "trace/fake.h"

#define EXPECT_SIZES(t, want) expect_numbers(t, want, false, __LINE__)
#define EXPECT_STRIDES(t, want) expect_numbers(t, want, true, __LINE__)

static void expect_numbers(const tp_tensor *t, const char *want, bool strides, int line)
{
    tp_text text = { 0 };
    if (!t)
        return;
    TP_EXPECT(tp_is_fake(t) && !t->storage->data);
    for (int i = 0; i < t->ndim; i++) {
        if (i)
            tp_text_add(&text, ", ");
        tp_sym_print(strides ? tp_tensor_sym_stride(t, i) : tp_tensor_sym_size(t, i), &text);
    }
    if (!text.failed && strcmp(tp_text_read(&text), want) != 0 && !tp_test_quiet)
        printf("# line %d\n", line);
    if (!text.failed)
        TP_EXPECT_TEXT(tp_text_read(&text), want);
    tp_text_fini(&text);
}

static tp_tensor *fake(tp_scope *s, tp_dtype d, tp_device device, int ndim, const int64_t *size)
{
    tp_tensor *real = tp_tensor_new_on(device, d, ndim, size, NULL), *t = real ? tp_fake_of(real) : NULL;
    tp_tensor_unref(real);
    return test_own(s, t);
}
#define FAKE(s, ...) \
    fake(s, TP_f32, (tp_device){ TP_CPU, -1 }, (int)TP_COUNT(((int64_t[]){ __VA_ARGS__ })), (int64_t[]){ __VA_ARGS__ })

TP_TEST(shapes_without_data)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *a = FAKE(&s, 4, 1, 3), *b = FAKE(&s, 5, 1), *m = FAKE(&s, 2, 6), *n = FAKE(&s, 6, 7);
    EXPECT_SIZES(CALL(&s, "add.Tensor", T(a), T(b)), "4, 5, 3");
    tp_tensor *p = CALL(&s, "mm", T(m), T(n));
    EXPECT_SIZES(p, "2, 7");
    tp_tensor *t = CALL(&s, "t", T(m));
    EXPECT_SIZES(t, "6, 2");
    EXPECT_STRIDES(t, "1, 6");
    EXPECT_SIZES(CALL(&s, "view", T(m), INTS(&s, 3, -1)), "3, 4");
    EXPECT_SIZES(CALL(&s, "sum.dim_IntList", T(a), INTS(&s, 0), tp_bool(true)), "1, 1, 3");
    EXPECT_SIZES(CALL(&s, "expand", T(b), INTS(&s, 5, 9)), "5, 9");
    tp_tensor *same = CALL(&s, "mul_.Tensor", T(m), T(m));
    if (!s.failed)
        TP_EXPECT(same == m && t->storage == m->storage && p->dtype == TP_f32);
    EXPECT_ERROR(&s, "The size of tensor a (6) must match the size of tensor b (7) at non-singleton dimension 1", "add.Tensor", T(CALL(&s, "t", T(n))), T(n));
    EXPECT_ERROR(&s, "mat1 and mat2 shapes cannot be multiplied (2x6 and 2x6)", "mm", T(m), T(m));
    (void)tp_scope_end(&s);
}

TP_TEST(types_promote_without_data)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = FAKE(&s, 3), *n = fake(&s, TP_i64, (tp_device){ TP_CPU, -1 }, 1, (int64_t[]){ 3 });
    tp_tensor *sum = CALL(&s, "add.Tensor", T(x), T(n)), *quotient = CALL(&s, "div.Tensor", T(n), T(n)), *less = CALL(&s, "lt.Tensor", T(x), T(n));
    if (!s.failed)
        TP_EXPECT(sum->dtype == TP_f32 && quotient->dtype == TP_f32 && less->dtype == TP_b8);
    (void)tp_scope_end(&s);
}

TP_TEST(devices_that_are_not_here)
{
    const tp_device cuda = { TP_CUDA, 0 };
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = fake(&s, TP_f32, cuda, 1, (int64_t[]){ 3 }), *y = FAKE(&s, 3), *single = fake(&s, TP_f32, (tp_device){ TP_CPU, -1 }, 0, NULL);
    tp_tensor *sum = CALL(&s, "add.Tensor", T(x), T(x)), *scaled = CALL(&s, "mul.Tensor", T(x), T(single)), *v = CALL(&s, "view", T(x), INTS(&s, 1, 3));
    if (!s.failed)
        TP_EXPECT(sum->device.type == TP_CUDA && sum->device.index == 0 && scaled->device.type == TP_CUDA && v->device.type == TP_CUDA);
    EXPECT_ERROR(&s, "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", "add.Tensor", T(x), T(y));
    (void)tp_scope_end(&s);
}

TP_TEST(real_tensors_are_refused_unless_allowed)
{
    tp_scope s;
    tp_fake_mode mode = { .allow_real = false };
    tp_scope_start(&s);
    tp_tensor *x = FAKE(&s, 3), *real = VECTOR(&s, 1, 2, 3), *single = test_own(&s, tp_tensor_new_scalar(TP_f32, tp_scalar_int(2)));
    EXPECT_ERROR(&s, "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. Found in "
                     "aten.mul.Tensor(FakeTensor(..., size=(3,)), tensor([...], size=(3,)))", "mul.Tensor", T(x), T(real));
    EXPECT_SIZES(CALL(&s, "mul.Tensor", T(x), T(single)), "3");
    tp_fake_enter(&mode);
    tp_tensor *made = CALL(&s, "zeros", INTS(&s, 2, 5));
    EXPECT_SIZES(made, "2, 5");
    EXPECT_ERROR(&s, "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. Found in "
                     "aten.neg.default(tensor([...], size=(3,)))", "neg", T(real));
    mode.allow_real = true;
    EXPECT_SIZES(CALL(&s, "neg", T(real)), "3");
    tp_fake_leave(&mode);
    TP_EXPECT(tp_self.active == 0 && !tp_self.fake);
    EXPECT_ELEMENTS(CALL(&s, "neg", T(real)), -1, -2, -3);
    (void)tp_scope_end(&s);
}

TP_TEST(sizes_that_depend_on_data)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = FAKE(&s, 3);
    EXPECT_ERROR(&s, "aten::nonzero", "nonzero", T(x));
    (void)tp_scope_end(&s);
}

/* ---- expressions ---- */

/* f32 [s0, 3, s1], whose examples are 4 and 5. */
static tp_tensor *symbolic(tp_scope *s, tp_shape_env *env)
{
    tp_sym size[3] = { tp_shape_env_symbol(env, 4, "x.size(0)", TP_RANGE_ALL), tp_sym_int(3), tp_shape_env_symbol(env, 5, "x.size(2)", TP_RANGE_ALL) };
    tp_tensor *real = tp_shape_env_check(env) ? tp_tensor_new(TP_f32, 3, (int64_t[]){ 4, 3, 5 }) : NULL;
    tp_tensor *t = real ? tp_fake_symbolic(real, env, size) : NULL;
    tp_tensor_unref(real);
    return test_own(s, t);
}

TP_TEST(shapes_by_expressions)
{
    tp_scope s;
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_scope_start(&s);
    if (!env)
        return;
    tp_tensor *x = symbolic(&s, env);
    EXPECT_SIZES(x, "s0, 3, s1");
    EXPECT_STRIDES(x, "3*s1, s1, 1");
    tp_tensor *sum = CALL(&s, "add.Tensor", T(x), T(FAKE(&s, 3, 1)));
    EXPECT_SIZES(sum, "s0, 3, s1");
    if (!s.failed)
        TP_EXPECT(sum->size[0] == 4 && sum->size[2] == 5 && sum->numel == 60);      /* the integers are the hints */
    tp_tensor *turned = CALL(&s, "transpose.int", T(x), I(0), I(2));
    EXPECT_SIZES(turned, "s1, 3, s0");
    EXPECT_STRIDES(turned, "1, s1, 3*s1");
    EXPECT_SIZES(CALL(&s, "sum.dim_IntList", T(x), INTS(&s, 1), tp_bool(false)), "s0, s1");
    EXPECT_SIZES(CALL(&s, "view", T(x), INTS(&s, -1)), "3*s0*s1");
    EXPECT_SIZES(CALL(&s, "slice.Tensor", T(x), I(1), I(1), I(3)), "s0, 2, s1");
    if (!s.failed) {
        tp_value both = tp_scope_own(&s, tp_value_tensors((tp_tensor *[]){ x, x }, 2));
        if (both.tag == TP_LIST)
            EXPECT_SIZES(CALL(&s, "cat", both, I(2)), "s0, 3, 2*s1");
    }
    (void)tp_scope_end(&s);
    tp_shape_env_unref(env);                /* the tensors counted it as well */
}

TP_TEST(a_tensor_keeps_its_environment)
{
    tp_scope s;
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_scope_start(&s);
    if (!env)
        return;
    tp_tensor *x = symbolic(&s, env);
    tp_shape_env_unref(env);
    EXPECT_SIZES(CALL(&s, "neg", T(x)), "s0, 3, s1");
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(shapes_without_data), TP_SWEPT(types_promote_without_data), TP_SWEPT(devices_that_are_not_here),
         TP_SWEPT(real_tensors_are_refused_unless_allowed), TP_SWEPT(sizes_that_depend_on_data), TP_SWEPT(shapes_by_expressions),
         TP_SWEPT(a_tensor_keeps_its_environment))
