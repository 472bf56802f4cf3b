/* vmap_level_test.c - levels of vmap: alone, in each other and with levels of grad, under a recorder, on other sizes. */
#include "grad/test_grads.h"
#include "trace/grad_level.h"
#include "trace/test_graphs.h"
#include "trace/vmap_level.h"

typedef tp_tensor *program(tp_scope *s, tp_tensor *x);

static tp_tensor *sine(tp_scope *s, tp_tensor *x) { return CALL(s, "sum", T(CALL(s, "sin", T(x)))); }
static tp_tensor *outer(tp_scope *s, tp_tensor *x) { return CALL(s, "mul.Tensor", T(CALL(s, "unsqueeze", T(x), I(1))), T(x)); }

/* A view of a clone is written; the clone shows it. */
static tp_tensor *written(tp_scope *s, tp_tensor *x)
{
    tp_tensor *y = CALL(s, "clone", T(x)), *first = CALL(s, "select.int", T(y), I(0), I(0));
    CALL(s, "mul_.Tensor", T(first), T(CALL(s, "sum", T(x))));
    return y;
}

static tp_tensor *mapped(tp_scope *s, program *f, tp_tensor *x)
{
    tp_tensor *out = NULL;
    tp_vmap_level *l = s->failed || !x ? NULL : tp_vmap_level_new(tp_sym_int(x->size[0]), TP_RANDOM_ERROR);
    tp_tensor *w = l ? test_own(s, tp_vmap_level_wrap(l, x, 0)) : NULL;
    if (w) {
        TP_EXPECT(tp_vmap_level_has(l, w) && w->ndim == x->ndim - 1 && w->storage == x->storage);
        tp_vmap_level_enter(l);
        tp_tensor *y = f(s, w);
        tp_vmap_level_leave(l);
        out = y ? test_own(s, tp_vmap_level_unwrap(l, y, 0)) : NULL;
    } else {
        s->failed = true;
    }
    tp_vmap_level_free(l);
    return out;
}

static tp_tensor *differentiated(tp_scope *s, program *f, tp_tensor *x)
{
    tp_tensor *out = NULL;
    tp_grad_level *l = s->failed ? NULL : tp_grad_level_new();
    tp_tensor *w = l ? test_own(s, tp_grad_level_wrap(l, x)) : NULL;
    if (w) {
        tp_grad_level_enter(l);
        test_leaf(s, w);
        tp_tensor *y = f(s, w), *g = y ? GRAD(s, y, CREATE_GRAPH, w) : NULL;
        tp_grad_level_leave(l);
        out = g ? test_own(s, tp_grad_level_unwrap(l, g)) : NULL;
    } else {
        s->failed = true;
    }
    tp_grad_level_free(l);
    return out;
}

static tp_tensor *sines(tp_scope *s, tp_tensor *x) { return mapped(s, sine, x); }
static tp_tensor *sum_of_sines(tp_scope *s, tp_tensor *x) { return CALL(s, "sum", T(mapped(s, sine, x))); }
static tp_tensor *slope(tp_scope *s, tp_tensor *x) { return differentiated(s, sine, x); }

static tp_tensor *matrix(tp_scope *s) { return CALL(s, "reshape", T(VECTOR(s, 1, 2, 3, 4)), INTS(s, 2, 2)); }

TP_TEST(one_level)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = matrix(&s);
    EXPECT_ELEMENTS(mapped(&s, sine, x), sinf(1) + sinf(2), sinf(3) + sinf(4));
    EXPECT_ELEMENTS(mapped(&s, written, x), 3, 2, 21, 4);
    EXPECT_ELEMENTS(mapped(&s, outer, x), 1, 2, 2, 4, 9, 12, 12, 16);
    TP_EXPECT(tp_self.active == 0 && !tp_self.transforms);
    (void)tp_scope_end(&s);
}

TP_TEST(levels_in_levels)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = matrix(&s);
    EXPECT_ELEMENTS(mapped(&s, slope, x), cosf(1), cosf(2), cosf(3), cosf(4));
    EXPECT_ELEMENTS(differentiated(&s, sum_of_sines, x), cosf(1), cosf(2), cosf(3), cosf(4));
    EXPECT_ELEMENTS(mapped(&s, sines, CALL(&s, "reshape", T(x), INTS(&s, 2, 2, 1))), sinf(1), sinf(2), sinf(3), sinf(4));
    (void)tp_scope_end(&s);
}

TP_TEST(a_recorder_sees_plain_ops)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = matrix(&s);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    test_record_end(&s, r, mapped(&s, slope, x));
    test_expect_graph(&s, r, "x_1 = placeholder; sin = sin(x_1); sum_1 = sum.dim_IntList(sin, [1]); ones_like = ones_like(sum_1); view = view(ones_like, [2, 1]); "
                      "expand = expand(view, [2, 2]); cos = cos(x_1); mul = mul.Tensor(expand, cos); return mul");
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
}

TP_TEST(tensors_without_a_batch)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = matrix(&s), *c = VECTOR(&s, 5, 6);
    tp_vmap_level *l = s.failed ? NULL : tp_vmap_level_new(tp_sym_int(2), TP_RANDOM_ERROR);
    tp_tensor *w = l ? test_own(&s, tp_vmap_level_wrap(l, x, 1)) : NULL;
    if (w) {
        tp_vmap_level_enter(l);
        TP_EXPECT(tp_is_batched(w) && !tp_is_batched(c));
        EXPECT_ERROR(&s, "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more elements "
                     "than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place "
                     "operators instead of inplace arithmetic. If said operator is being called inside the PyTorch framework, please file a bug report instead.",
                     "add_.Tensor", T(c), T(w));
        tp_tensor *y = CALL(&s, "add.Tensor", T(w), T(c)), *z = CALL(&s, "neg", T(c));
        tp_vmap_level_leave(l);
        EXPECT_ELEMENTS(y ? test_own(&s, tp_vmap_level_unwrap(l, y, 1)) : NULL, 6, 7, 9, 10);
        EXPECT_ELEMENTS(z ? test_own(&s, tp_vmap_level_unwrap(l, z, 0)) : NULL, -5, -6, -5, -6);
    }
    tp_vmap_level_free(l);
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(one_level), TP_SWEPT(levels_in_levels), TP_SWEPT(a_recorder_sees_plain_ops), TP_SWEPT(tensors_without_a_batch))
