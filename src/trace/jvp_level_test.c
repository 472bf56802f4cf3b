/* jvp_level_test.c - levels of forward mode: alone, in each other, with grad, through writes and views, under a recorder. */
#include "grad/test_grads.h"
#include "trace/grad_level.h"
#include "trace/jvp_level.h"
#include "trace/test_graphs.h"

typedef tp_tensor *program(tp_scope *s, tp_tensor *x);

static tp_tensor *sine(tp_scope *s, tp_tensor *x) { return CALL(s, "sin", T(x)); }

/* y = x; y[1:] *= x[1:] */
static tp_tensor *written(tp_scope *s, tp_tensor *x)
{
    tp_tensor *y = CALL(s, "clone", T(x));
    tp_tensor *part = CALL(s, "slice.Tensor", T(y), tp_int(0), tp_int(1)), *from = CALL(s, "slice.Tensor", T(x), tp_int(0), tp_int(1));
    CALL(s, "mul_.Tensor", T(part), T(from));
    return y;
}

/* A view that is older than the tangent of its base, and a base whose tangent is made by a write to the view. */
static tp_tensor *filled_later(tp_scope *s, tp_tensor *x)
{
    tp_tensor *y = CALL(s, "zeros_like", T(x)), *part = CALL(s, "slice.Tensor", T(y), tp_int(0), tp_int(1));
    CALL(s, "add_.Tensor", T(y), T(x));
    tp_tensor *z = CALL(s, "zeros_like", T(x)), *hole = CALL(s, "slice.Tensor", T(z), tp_int(0), tp_int(1));
    CALL(s, "copy_", T(hole), T(part));
    return z;
}

/* jvp(f, x, v) */
static tp_tensor *jvp_of(tp_scope *s, program *f, tp_tensor *x, tp_tensor *v)
{
    tp_tensor *out = NULL;
    tp_jvp_level *l = s->failed ? NULL : tp_jvp_level_new(true);
    tp_tensor *w = l ? tp_jvp_level_wrap(l, x, v) : NULL;
    if (!w) {
        s->failed = true;
        tp_jvp_level_free(l);
        return NULL;
    }
    test_own(s, w);
    tp_jvp_level_enter(l);
    tp_tensor *y = f(s, w);
    tp_jvp_level_leave(l);
    if (y && !tp_jvp_level_tangent(l, y, &out))
        s->failed = true;
    tp_jvp_level_free(l);
    return out ? test_own(s, out) : NULL;
}

static tp_tensor *one(tp_scope *s, tp_tensor *x) { return CALL(s, "ones_like", T(x)); }
static tp_tensor *cosine(tp_scope *s, tp_tensor *x) { return jvp_of(s, sine, x, one(s, x)); }

/* grad(sum(f)) in a level of its own */
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
    tp_tensor *y = f(s, w), *g = y ? GRAD(s, CALL(s, "sum", T(y)), CREATE_GRAPH, w) : NULL;
    tp_grad_level_leave(l);
    if (g)
        out = test_own(s, tp_grad_level_unwrap(l, g));
    tp_grad_level_free(l);
    return out;
}

static tp_tensor *sine_slope(tp_scope *s, tp_tensor *x) { return grad_of(s, sine, x); }

TP_TEST(one_level)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 0.5, 1), *v = VECTOR(&s, 2, 3);
    EXPECT_ELEMENTS(jvp_of(&s, sine, x, v), 2 * cosf(0.5f), 3 * cosf(1));
    EXPECT_ELEMENTS(jvp_of(&s, written, x, v), 2, 6);
    EXPECT_ELEMENTS(jvp_of(&s, filled_later, x, v), 0, 3);
    if (!s.failed)
        TP_EXPECT(!jvp_of(&s, one, x, v));
    TP_EXPECT(tp_self.active == 0 && !tp_self.transforms && tp_self.grad_mode);
    (void)tp_scope_end(&s);
}

TP_TEST(levels_in_levels)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 0.5, 1), *v = VECTOR(&s, 2, 3);
    EXPECT_ELEMENTS(jvp_of(&s, cosine, x, v), -2 * sinf(0.5f), -3 * sinf(1));
    EXPECT_ELEMENTS(jvp_of(&s, sine_slope, x, v), -2 * sinf(0.5f), -3 * sinf(1));
    EXPECT_ELEMENTS(grad_of(&s, cosine, x), -sinf(0.5f), -sinf(1));
    /* A leaf outside sees what a level computed. */
    tp_tensor *leaf = LEAF(&s, 0.5, 1), *t = jvp_of(&s, sine, leaf, v);
    EXPECT_ELEMENTS(GRAD(&s, CALL(&s, "sum", T(t)), 0, leaf), -2 * sinf(0.5f), -3 * sinf(1));
    (void)tp_scope_end(&s);
}

TP_TEST(a_recorder_sees_plain_ops)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 0.5, 1);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_tensor *t = cosine(&s, x);
    test_record_end(&s, r, t);
    test_expect_graph(&s, r, "x_1 = placeholder; ones_like = ones_like(x_1); sin = sin(x_1); cos = cos(x_1); mul = mul.Tensor(ones_like, cos); return mul");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

/* An open level: plain tensors stay plain until they meet a dual one. */
TP_TEST(open_levels)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 1, 2), *v = VECTOR(&s, 3, 4), *c = VECTOR(&s, 5, 6), *tangent = NULL;
    tp_jvp_level *l = s.failed ? NULL : tp_jvp_level_new(false);
    tp_tensor *dual = l ? test_own(&s, tp_jvp_level_wrap(l, x, v)) : NULL;
    if (dual) {
        tp_jvp_level_enter(l);
        tp_tensor *plain = CALL(&s, "neg", T(c));
        TP_EXPECT(!plain || !(plain->keys & TP_LAYER_BIT(TP_LAYER_TRANSFORM)));
        CALL(&s, "mul_.Tensor", T(c), T(dual));
        if (!s.failed && tp_jvp_level_tangent(l, c, &tangent))
            EXPECT_ELEMENTS(test_own(&s, tangent), 15, 24);
        TP_EXPECT(s.failed || (tp_jvp_level_of(c) == l && !tp_jvp_level_of(x)));
        EXPECT_ERROR(&s, "Trying to use forward AD with sin_out that does not support it because it is an out= function", "sin.out", T(dual), T(plain));
        tp_jvp_level_leave(l);
        EXPECT_ELEMENTS(c, 5, 12);
    }
    tp_jvp_level_free(l);
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(one_level), TP_SWEPT(levels_in_levels), TP_SWEPT(a_recorder_sees_plain_ops), TP_SWEPT(open_levels))
