/* grad_level_test.c - levels of grad: alone, in each other, and under a recorder. */
#include "grad/test_grads.h"
#include "trace/grad_level.h"
#include "trace/test_graphs.h"

typedef tp_tensor *program(tp_scope *s, tp_tensor *x);

static tp_tensor *sine(tp_scope *s, tp_tensor *x) { return CALL(s, "sum", T(CALL(s, "sin", T(x)))); }
static tp_tensor *bend(tp_scope *s, tp_tensor *x) { return CALL(s, "sum", T(CALL(s, "tanh", T(x)))); }

static tp_tensor *written(tp_scope *s, tp_tensor *x)
{
    tp_tensor *y = CALL(s, "clone", T(x)), *z = CALL(s, "mul.Tensor", T(x), T(x));
    CALL(s, "mul_.Tensor", T(y), T(z));
    return CALL(s, "sum", T(y));
}

/* grad(f)(x) */
static tp_tensor *grad_of(tp_scope *s, program *f, tp_tensor *x)
{
    tp_tensor *out = NULL;
    tp_grad_level *l = s->failed ? NULL : tp_grad_level_new();
    tp_tensor *w = l ? tp_grad_level_wrap(l, x) : NULL;
    if (!w) {
        s->failed = true;
        tp_grad_level_free(l);
        return NULL;
    }
    test_own(s, w);
    tp_grad_level_enter(l);
    test_leaf(s, w);
    tp_tensor *y = f(s, w), *g = y ? GRAD(s, y, CREATE_GRAPH, w) : NULL;
    tp_grad_level_leave(l);
    if (g)
        out = test_own(s, tp_grad_level_unwrap(l, g));
    tp_grad_level_free(l);
    return out;
}

static tp_tensor *first(tp_scope *s, tp_tensor *x) { return CALL(s, "sum", T(grad_of(s, sine, x))); }

TP_TEST(one_level)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 0.5, 1);
    EXPECT_ELEMENTS(grad_of(&s, sine, x), cosf(0.5f), cosf(1));
    EXPECT_ELEMENTS(grad_of(&s, written, x), 0.75, 3);
    if (!s.failed)
        TP_EXPECT(!x->autograd || !tp_requires_grad(x));
    TP_EXPECT(tp_self.active == 0 && !tp_self.transforms && tp_self.grad_mode);
    (void)tp_scope_end(&s);
}

TP_TEST(levels_in_levels)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 0.5, 1);
    EXPECT_ELEMENTS(grad_of(&s, first, x), -sinf(0.5f), -sinf(1));
    /* A leaf outside sees what a level computed. */
    tp_tensor *leaf = LEAF(&s, 0.5, 1), *g = grad_of(&s, sine, leaf);
    EXPECT_ELEMENTS(GRAD(&s, CALL(&s, "sum", T(g)), 0, leaf), -sinf(0.5f), -sinf(1));
    tp_self.grad_mode = false;
    g = grad_of(&s, sine, leaf);
    if (!s.failed)
        TP_EXPECT(!tp_requires_grad(g) && !tp_self.grad_mode);
    tp_self.grad_mode = true;
    (void)tp_scope_end(&s);
}

TP_TEST(a_recorder_sees_plain_ops)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 0.5, 1);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *g = grad_of(&s, first, x);
    test_record_end(&s, r, g);
    test_expect_graph(&s, r, "x_1 = placeholder; sin = sin(x_1); sum_1 = sum(sin); ones_like = ones_like(sum_1); expand = expand(ones_like, [2]); "
                      "cos = cos(x_1); mul = mul.Tensor(expand, cos); sum_2 = sum(mul); ones_like_1 = ones_like(sum_2); "
                      "expand_1 = expand(ones_like_1, [2]); mul_1 = mul.Tensor(expand_1, expand); sin_1 = sin(x_1); neg = neg(sin_1); "
                      "mul_2 = mul.Tensor(mul_1, neg); return mul_2");
    tp_recorder_free(r);
    r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    g = grad_of(&s, bend, x);
    test_record_end(&s, r, g);
    test_expect_graph(&s, r, "x_1 = placeholder; tanh = tanh(x_1); sum_1 = sum(tanh); ones_like = ones_like(sum_1); expand = expand(ones_like, [2]); "
                      "tanh_backward = tanh_backward(expand, tanh); return tanh_backward");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(tensors_from_outside)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 1, 2), *c = VECTOR(&s, 3, 4);
    tp_grad_level *l = s.failed ? NULL : tp_grad_level_new();
    tp_tensor *w = l ? test_own(&s, tp_grad_level_wrap(l, x)) : NULL;
    if (w) {
        tp_grad_level_enter(l);
        EXPECT_ERROR(&s, "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation (aten::add_.Tensor) "
                     "that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to explicitly "
                     "accept the mutated Tensor(s) as inputs.", "add_.Tensor", T(c), T(w));
        tp_tensor *y = CALL(&s, "add.Tensor", T(w), T(c));
        tp_grad_level_leave(l);
        tp_tensor *plain = y ? test_own(&s, tp_grad_level_unwrap(l, y)) : NULL;
        EXPECT_ELEMENTS(plain, 4, 6);
        EXPECT_ELEMENTS(CALL(&s, "neg", T(y)), -4, -6);         /* a wrapper whose level is gone is a plain tensor */
    }
    tp_grad_level_free(l);
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(one_level), TP_SWEPT(levels_in_levels), TP_SWEPT(a_recorder_sees_plain_ops), TP_SWEPT(tensors_from_outside))
