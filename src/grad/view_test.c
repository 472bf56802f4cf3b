/* view_test.c - views and in-place writes under the tape; the numbers are worked out by hand and agree with PyTorch's. */
#include "grad/test_grads.h"

#define SLICE(s, t, from, to) CALL(s, "slice.Tensor", T(t), I(0), I(from), I(to), I(1))

static const char many_views[] = "This view is the output of a function that returns multiple views. Such functions do not allow the output views to "
                                 "be modified inplace. You should replace the inplace operation by an out-of-place one.";
static const char ambiguous[] = "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case is "
                                "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either "
                                "both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace "
                                "to be tracked).";

static tp_tensor *copy_of(tp_scope *s, tp_tensor *x)
{
    return CALL(s, "mul.Tensor", T(x), T(VECTOR(s, 1)));
}

/* ---- writes through views ---- */

TP_TEST(a_write_to_a_view_changes_the_base)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3), *y = CALL(&s, "mul.Tensor", T(x), T(x)), *v = SLICE(&s, y, 0, 2);
    CALL(&s, "mul_.Tensor", T(v), T(SLICE(&s, x, 1, 3)));
    EXPECT_ELEMENTS(y, 2, 12, 9);
    if (!s.failed) {
        TP_EXPECT_TEXT(test_node_name(y), "torch::autograd::CopySlices");
        TP_EXPECT_TEXT(test_node_name(v), "AsStridedBackward0");
        TP_EXPECT(tp_version(y) == 1 && tp_version(v) == 1);
    }
    EXPECT_ELEMENTS(GRAD(&s, y, KEEP_GRAPH, x), 4, 13, 10);     /* x0^2 x1 + x1^2 x2 + x2^2 */
    EXPECT_ELEMENTS(GRAD(&s, v, KEEP_GRAPH, x), 4, 13, 4);      /* the view alone */
    tp_tensor *g = GRAD(&s, CALL(&s, "mul.Tensor", T(y), T(y)), CREATE_GRAPH, x);
    EXPECT_ELEMENTS(g, 16, 292, 204);
    EXPECT_ELEMENTS(GRAD(&s, g, 0, x), 64, 642, 332);           /* CopySlices is differentiable itself */
    (void)tp_scope_end(&s);
}

/* One program a row: what is done to y = x * 1, where x = 1 2 3 4, and the gradient of sum(y * weight). */
typedef tp_tensor *program(tp_scope *s, tp_tensor *x, tp_tensor *y);

static tp_tensor *two_writes(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    CALL(s, "mul_.Tensor", T(SLICE(s, y, 0, 2)), T(VECTOR(s, 3)));
    CALL(s, "mul_.Tensor", T(SLICE(s, y, 1, 3)), T(SLICE(s, x, 0, 2)));
    return CALL(s, "mul.Tensor", T(y), T(y));
}

static tp_tensor *view_of_view(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *v = CALL(s, "view", T(y), INTS(s, 2, 2));
    (void)x;
    CALL(s, "mul_.Tensor", T(CALL(s, "select.int", T(CALL(s, "t", T(v))), I(0), I(0))), T(VECTOR(s, 10)));
    return v;
}

static tp_tensor *twice_through_one_view(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *v = SLICE(s, y, 1, 3);
    CALL(s, "add_.Tensor", T(v), T(SLICE(s, x, 2, 4)));
    CALL(s, "mul_.Tensor", T(v), T(VECTOR(s, 2)));
    return y;
}

static tp_tensor *base_then_view(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *v = SLICE(s, y, 1, 3);
    (void)x;
    CALL(s, "mul_.Tensor", T(y), T(VECTOR(s, 2)));
    CALL(s, "mul_.Tensor", T(v), T(VECTOR(s, 3)));
    return y;
}

static tp_tensor *cleared(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    (void)x;
    CALL(s, "zero_", T(SLICE(s, y, 1, 3)));
    return y;
}

static tp_tensor *filled(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    CALL(s, "fill_.Scalar", T(SLICE(s, y, 1, 3)), F(7));
    return CALL(s, "mul.Tensor", T(y), T(x));
}

static tp_tensor *every_other(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *v = CALL(s, "slice.Tensor", T(y), I(0), I(0), I(4), I(2));
    (void)x;
    CALL(s, "exp_", T(CALL(s, "sub_.Tensor", T(v), T(VECTOR(s, 1)))));
    return CALL(s, "mul.Tensor", T(y), T(y));
}

static tp_tensor *untracked(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *v = SLICE(s, y, 1, 3);
    (void)x;
    tp_self.grad_mode = false;
    CALL(s, "mul_.Tensor", T(v), T(VECTOR(s, 100)));
    tp_self.grad_mode = true;
    return CALL(s, "mul.Tensor", T(y), T(y));
}

static tp_tensor *sibling(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *v = SLICE(s, y, 1, 3), *u = SLICE(s, y, 2, 4);
    (void)x;
    CALL(s, "mul_.Tensor", T(v), T(VECTOR(s, 3)));
    return u;
}

static tp_tensor *seen_after_a_write_to_the_base(tp_scope *s, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *v = CALL(s, "view", T(y), INTS(s, 4));
    (void)x;
    CALL(s, "mul_.Tensor", T(y), T(VECTOR(s, 3)));
    return v;
}

TP_TEST(programs_with_views)
{
    static const struct { program *run; double want[4]; } row[] = {
        { two_writes, { 90, 72, 24, 8 } },
        { view_of_view, { 10, 1, 10, 1 } },
        { twice_through_one_view, { 1, 2, 4, 3 } },
        { base_then_view, { 2, 6, 6, 2 } },
        { cleared, { 1, 0, 0, 1 } },
        { filled, { 2, 7, 7, 8 } },
        { every_other, { 2, 4, 109.196300066, 8 } },
        { untracked, { 2, 400, 600, 8 } },
        { sibling, { 0, 0, 3, 1 } },
        { seen_after_a_write_to_the_base, { 3, 3, 3, 3 } },
    };
    for (size_t r = 0; r < TP_COUNT(row); r++) {
        tp_scope s;
        tp_scope_start(&s);
        tp_tensor *x = LEAF(&s, 1, 2, 3, 4), *y = row[r].run(&s, x, copy_of(&s, x)), *g = GRAD(&s, y, 0, x);
        if (!test_elements(g, 4, row[r].want, "x.grad")) {
            printf("# row %zu\n", r);
            TP_EXPECT(!"its gradient");
        }
        (void)tp_scope_end(&s);
    }
}

TP_TEST(a_base_without_history_gets_one)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *w = LEAF(&s, 5, 6), *z = VECTOR(&s, 0, 0, 0, 0), *v = SLICE(&s, z, 1, 3);
    if (!s.failed)
        TP_EXPECT(!tp_requires_grad(z) && !tp_requires_grad(v) && tp_is_leaf(v));
    CALL(&s, "copy_", T(v), T(CALL(&s, "mul.Tensor", T(w), T(w))));
    if (!s.failed)
        TP_EXPECT(tp_requires_grad(z) && tp_requires_grad(v) && !tp_is_leaf(z));
    CALL(&s, "mul_.Tensor", T(z), T(VECTOR(&s, 2)));
    test_backward(&s, CALL(&s, "mul.Tensor", T(z), T(VECTOR(&s, 1, 10, 100, 1000))), NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(w), 200, 2400);
    (void)tp_scope_end(&s);
}

TP_TEST(retained_gradients_of_views)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 1), *y = copy_of(&s, x), *v = CALL(&s, "view", T(y), INTS(&s, 2));
    if (!s.failed && !(tp_retain_grad(y) && tp_retain_grad(v)))
        s.failed = true;
    CALL(&s, "mul_.Tensor", T(SLICE(&s, y, 0, 1)), T(VECTOR(&s, 5)));
    test_backward(&s, CALL(&s, "mul.Tensor", T(v), T(VECTOR(&s, 3))), NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(y), 3, 3);
    EXPECT_ELEMENTS(test_grad_of(v), 3, 3);
    EXPECT_ELEMENTS(test_grad_of(x), 15, 3);
    (void)tp_scope_end(&s);
}

TP_TEST(a_released_write_says_so)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2), *y = copy_of(&s, x);
    CALL(&s, "mul_.Tensor", T(SLICE(&s, y, 0, 1)), T(VECTOR(&s, 5)));
    test_backward(&s, y, NULL, 0);
    test_backward_fails(&s, y, 0,
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved "
        "intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after calling backward.");
    (void)tp_scope_end(&s);
}

/* A saved view whose base was written since. */
TP_TEST(a_saved_view_is_noticed)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3, 4), *y = CALL(&s, "view", T(copy_of(&s, x)), INTS(&s, 2, 2));
    CALL(&s, "mul_.Tensor", T(CALL(&s, "select.int", T(y), I(1), I(1))), T(CALL(&s, "select.int", T(y), I(1), I(0))));
    test_backward_fails(&s, CALL(&s, "mul.Tensor", T(y), T(VECTOR(&s, 1))), 0,
        "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [2]], which is "
        "output 0 of AsStrided, is at version 1; expected version 0 instead. Hint: enable anomaly detection to find the operation that failed "
        "to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).");
    (void)tp_scope_end(&s);
}

/* y.mul_(y): the second operand is lost by the call itself. */
TP_TEST(a_write_over_its_own_operand_is_noticed)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 2, 3), *y = copy_of(&s, x), *z = copy_of(&s, x);
    CALL(&s, "mul_.Tensor", T(y), T(y));
    EXPECT_ELEMENTS(y, 4, 9);
    test_backward_fails(&s, y, 0,
        "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [2]], which is "
        "output 0 of Mul, is at version 1; expected version 0 instead. Hint: enable anomaly detection to find the operation that failed "
        "to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).");
    CALL(&s, "add_.Tensor", T(z), T(z));        /* needs no operand */
    EXPECT_ELEMENTS(GRAD(&s, z, 0, x), 2, 2);
    (void)tp_scope_end(&s);
}

/* ---- views that may not be written ---- */

TP_TEST(views_made_under_no_grad)
{
    for (int leaf = 0; leaf < 2; leaf++) {
        tp_scope s;
        tp_scope_start(&s);
        tp_tensor *x = LEAF(&s, 1, 2, 3), *base = leaf ? x : copy_of(&s, x);
        tp_self.grad_mode = false;
        tp_tensor *v = CALL(&s, "view", T(base), INTS(&s, 3));
        tp_self.grad_mode = true;
        if (!s.failed)
            TP_EXPECT(!tp_requires_grad(v));
        EXPECT_ERROR(&s, ambiguous, "add_.Tensor", T(v), T(VECTOR(&s, 1)));
        tp_self.grad_mode = false;
        CALL(&s, "add_.Tensor", T(v), T(VECTOR(&s, 1)));
        tp_self.grad_mode = true;
        EXPECT_ELEMENTS(base, 2, 3, 4);
        (void)tp_scope_end(&s);
    }
}

TP_TEST(views_that_come_together)
{
    char want[400];
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3, 4), *one = VECTOR(&s, 1), *y = copy_of(&s, x), *z = copy_of(&s, x);
    tp_value parts = CALL_VALUE(&s, "split.Tensor", T(y), I(2)), single = CALL_VALUE(&s, "unbind.int", T(x));
    if (!s.failed) {
        TP_EXPECT_TEXT(test_node_name(parts.list->item[1].tensor), "SplitBackward0");
        snprintf(want, sizeof want, "Output 1 of Split is a view and is being modified inplace. %s", many_views);
        EXPECT_ERROR(&s, want, "add_.Tensor", parts.list->item[1], T(one));
        snprintf(want, sizeof want, "Output 0 of Unbind is a view and is being modified inplace. %s", many_views);
        EXPECT_ERROR(&s, want, "mul_.Tensor", single.list->item[0], T(one));
        tp_tensor *nested = CALL(&s, "view", single.list->item[0], INTS(&s, 1));    /* a view of such a view is one too */
        snprintf(want, sizeof want, "Output 0 of View is a view and is being modified inplace. %s", many_views);
        EXPECT_ERROR(&s, want, "mul_.Tensor", T(nested), T(one));
    }
    tp_value late = CALL_VALUE(&s, "split.Tensor", T(z), I(2));
    CALL(&s, "add_.Tensor", T(z), T(one));
    if (!s.failed) {
        tp_grad_node *n;
        uint32_t slot;
        snprintf(want, sizeof want, "Output 0 of Split is a view and its base or another view of its base has been modified inplace. %s", many_views);
        TP_EXPECT(!tp_grad_fn(late.list->item[0].tensor, &n, &slot));
        TP_EXPECT_TEXT(tp_error_text(), want);
        tp_error_clear();
    }
    (void)tp_scope_end(&s);
}

TP_TEST(gradients_of_views_that_come_together)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3, 4, 5, 6), *m = CALL(&s, "view", T(x), INTS(&s, 2, 3));
    tp_value rows = CALL_VALUE(&s, "unbind.int", T(m)), parts = CALL_VALUE(&s, "split.Tensor", T(m), I(2), I(1));
    if (!s.failed) {
        tp_tensor *product = CALL(&s, "mul.Tensor", rows.list->item[0], rows.list->item[1]);
        EXPECT_ELEMENTS(GRAD(&s, product, 0, x), 4, 5, 6, 1, 2, 3);
        EXPECT_ELEMENTS(GRAD(&s, parts.list->item[0].tensor, KEEP_GRAPH, x), 1, 1, 0, 1, 1, 0);     /* the other part is undefined */
        EXPECT_ELEMENTS(GRAD(&s, parts.list->item[1].tensor, 0, x), 0, 0, 1, 0, 0, 1);
    }
    (void)tp_scope_end(&s);
}

/* ---- versions ---- */

TP_TEST(versions_are_shared_by_views)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3, 4), *one = VECTOR(&s, 1), *y = copy_of(&s, x), *v = SLICE(&s, y, 0, 2);
    tp_tensor *bare = s.failed ? NULL : test_own(&s, tp_detach(y));
    CALL(&s, "add_.Tensor", T(y), T(one));
    if (!s.failed)
        TP_EXPECT(tp_version(y) == 1 && tp_version(v) == 1 && tp_version(bare) == 1 && !tp_requires_grad(bare));
    CALL(&s, "add_.Tensor", T(bare), T(one));
    CALL(&s, "mul.Tensor", T(bare), T(one));
    if (!s.failed)
        TP_EXPECT(tp_version(y) == 2 && tp_is_leaf(bare));
    tp_tensor *out = VECTOR(&s, 0, 0, 0, 0);
    CALL(&s, "add.out", T(bare), T(one), I(1), T(out));
    if (!s.failed)
        TP_EXPECT(tp_version(out) == 1);
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(a_write_to_a_view_changes_the_base), TP_SWEPT(programs_with_views), TP_SWEPT(a_base_without_history_gets_one),
         TP_SWEPT(retained_gradients_of_views), TP_SWEPT(a_released_write_says_so), TP_SWEPT(a_saved_view_is_noticed),
         TP_SWEPT(a_write_over_its_own_operand_is_noticed),
         TP_SWEPT(views_made_under_no_grad), TP_SWEPT(views_that_come_together), TP_SWEPT(gradients_of_views_that_come_together),
         TP_SWEPT(versions_are_shared_by_views))
