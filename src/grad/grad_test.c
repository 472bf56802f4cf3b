/* grad_test.c - leaves, gradients and their accumulation, graphs of every shape, hooks, second derivatives. */
#include "base/alloc.h"
#include "grad/test_grads.h"

static const char second_time[] =
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved "
    "intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
    "backward through the graph a second time or if you need to access saved tensors after calling backward.";

/* ---- leaves ---- */

TP_TEST(leaves_and_their_errors)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3), *plain = VECTOR(&s, 1, 2, 3), *y = CALL(&s, "mul.Tensor", T(x), T(plain));
    tp_tensor *whole = test_own(&s, tp_tensor_new(TP_i64, 0, NULL));
    if (!s.failed) {
        TP_EXPECT(tp_is_leaf(x) && tp_requires_grad(x) && tp_is_leaf(plain) && !tp_requires_grad(plain));
        TP_EXPECT(!tp_is_leaf(y) && tp_requires_grad(y));
        TP_EXPECT_TEXT(test_node_name(y), "MulBackward0");
        TP_EXPECT_TEXT(test_node_name(x), "none");
        TP_EXPECT(!tp_set_requires_grad(whole, true));
        TP_EXPECT_TEXT(tp_error_text(), "Only Tensors of floating point and complex dtype can require gradients");
        tp_error_clear();
        TP_EXPECT(tp_set_requires_grad(whole, false));
        TP_EXPECT(tp_set_requires_grad(y, true));
        TP_EXPECT(!tp_set_requires_grad(y, false));
        TP_EXPECT_TEXT(tp_error_text(), "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
                                        "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
        tp_error_clear();
        TP_EXPECT(!tp_retain_grad(plain));
        TP_EXPECT_TEXT(tp_error_text(), "can't retain_grad on Tensor that has requires_grad=False");
        tp_error_clear();
        TP_EXPECT(tp_set_requires_grad(x, false) && !tp_requires_grad(x));
    }
    (void)tp_scope_end(&s);
}

TP_TEST(writing_to_leaves_is_refused)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3), *v = CALL(&s, "view", T(x), INTS(&s, 3)), *one = VECTOR(&s, 1), *out = VECTOR(&s, 0, 0, 0);
    EXPECT_ERROR(&s, "a leaf Variable that requires grad is being used in an in-place operation.", "add_.Tensor", T(x), T(one));
    EXPECT_ERROR(&s, "a view of a leaf Variable that requires grad is being used in an in-place operation.", "add_.Tensor", T(v), T(one));
    EXPECT_ERROR(&s, "add(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.",
                 "add.out", T(x), T(one), I(1), T(out));
    if (!s.failed) {
        EXPECT_ELEMENTS(x, 1, 2, 3);
        TP_EXPECT(tp_version(x) == 0);
        tp_self.grad_mode = false;              /* an optimiser's step */
        CALL(&s, "add_.Tensor", T(x), T(one));
        tp_self.grad_mode = true;
    }
    if (!s.failed) {
        EXPECT_ELEMENTS(x, 2, 3, 4);
        TP_EXPECT(tp_version(x) == 1 && tp_is_leaf(x) && tp_requires_grad(x));
    }
    (void)tp_scope_end(&s);
}

TP_TEST(inference_tensors)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_self.inference_mode = true;
    tp_tensor *y = VECTOR(&s, 1, 2);
    tp_self.inference_mode = false;
    tp_tensor *x = LEAF(&s, 1, 2), *one = VECTOR(&s, 1);
    if (!s.failed) {
        TP_EXPECT(!tp_set_requires_grad(y, true));
        TP_EXPECT_TEXT(tp_error_text(), "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
        tp_error_clear();
    }
    EXPECT_ERROR(&s, "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked "
                     "by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use "
                     "`torch.no_grad()` instead of `torch.inference_mode()`.", "mul.Tensor", T(x), T(y));
    EXPECT_ERROR(&s, "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before "
                     "doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.", "add_.Tensor", T(y), T(one));
    (void)tp_scope_end(&s);
}

/* ---- gradients ---- */

TP_TEST(gradients_accumulate)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3), *y = CALL(&s, "sum", T(CALL(&s, "mul.Tensor", T(x), T(x))));
    test_backward(&s, y, NULL, KEEP_GRAPH);
    EXPECT_ELEMENTS(test_grad_of(x), 2, 4, 6);
    test_backward(&s, y, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(x), 4, 8, 12);
    test_backward_fails(&s, y, 0, second_time);
    EXPECT_ELEMENTS(test_grad_of(x), 4, 8, 12);
    if (!s.failed) {
        TP_EXPECT(!tp_requires_grad(test_grad_of(x)));
        TP_EXPECT(tp_set_grad(x, NULL) && !test_grad_of(x));
    }
    (void)tp_scope_end(&s);
}

TP_TEST(assigned_gradients_must_fit)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3), *two = VECTOR(&s, 1, 2), *wide = test_vector(&s, TP_f64, 3, (double[]){ 1, 2, 3 }), *g = VECTOR(&s, 4, 5, 6);
    if (!s.failed) {
        TP_EXPECT(!tp_set_grad(x, x));
        TP_EXPECT_TEXT(tp_error_text(), "can't assign Variable as its own grad");
        TP_EXPECT(!tp_set_grad(x, two));
        TP_EXPECT_TEXT(tp_error_text(), "attempting to assign a gradient of size '[2]' to a tensor of size '[3]'. Please ensure that the gradient and "
                                        "the tensor are the same size");
        TP_EXPECT(!tp_set_grad(x, wide));
        TP_EXPECT(strncmp(tp_error_text(), "attempting to assign a gradient with dtype 'double' to a tensor with grad_dtype 'Float'. ", 89) == 0);
        tp_error_clear();
        TP_EXPECT(tp_set_grad(x, g) && test_grad_of(x) == g);
    }
    (void)tp_scope_end(&s);
}

/* A node that saved no tensor can run as often as one likes. */
TP_TEST(sums_go_backward_twice)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3), *y = CALL(&s, "sum", T(CALL(&s, "neg", T(x))));
    test_backward(&s, y, NULL, 0);
    test_backward(&s, y, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(x), -2, -2, -2);
    (void)tp_scope_end(&s);
}

TP_TEST(shared_subgraphs_run_once)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2), *y = CALL(&s, "exp", T(x)), *z = y;
    for (int i = 0; i < 30; i++)                /* two to the 30th paths, 30 nodes */
        z = CALL(&s, "add.Tensor", T(z), T(z));
    test_backward(&s, z, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(x), 1073741824 * exp(1), 1073741824 * exp(2));
    (void)tp_scope_end(&s);
}

TP_TEST(broadcast_gradients_are_summed_back)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *row = LEAF(&s, 1, 2, 3), *column = test_leaf(&s, CALL(&s, "clone", T(CALL(&s, "view", T(VECTOR(&s, 10, 20)), INTS(&s, 2, 1)))));
    tp_tensor *single = test_leaf(&s, test_own(&s, tp_tensor_new_scalar(TP_f32, tp_scalar_float(5))));
    tp_tensor *wide = test_leaf(&s, test_vector(&s, TP_f64, 3, (double[]){ 1, 1, 1 }));
    tp_tensor *y = CALL(&s, "mul.Tensor", T(CALL(&s, "mul.Tensor", T(row), T(column))), T(single));
    y = CALL(&s, "mul.Tensor", T(y), T(wide));
    test_backward(&s, y, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(row), 150, 150, 150);
    EXPECT_ELEMENTS(test_grad_of(column), 30, 30);
    EXPECT_ELEMENTS(test_grad_of(single), 180);
    EXPECT_ELEMENTS(test_grad_of(wide), 150, 300, 450);
    if (!s.failed) {
        TP_EXPECT(test_grad_of(row)->dtype == TP_f32 && test_grad_of(column)->ndim == 2 && test_grad_of(single)->ndim == 0);
        TP_EXPECT(test_grad_of(wide)->dtype == TP_f64);
    }
    (void)tp_scope_end(&s);
}

TP_TEST(gradients_of_inputs_only)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 2, 3), *w = LEAF(&s, 5, 7), *lost = LEAF(&s, 1, 1), *g[4];
    tp_tensor *a = CALL(&s, "mul.Tensor", T(x), T(x)), *b = CALL(&s, "mul.Tensor", T(w), T(w)), *y = CALL(&s, "mul.Tensor", T(a), T(b));
    tp_tensor *asked[4] = { x, a, lost, x };
    TP_EXPECT(test_run(&s, y, NULL, 0, 4, asked, g));
    EXPECT_ELEMENTS(g[0], 100, 294);
    EXPECT_ELEMENTS(g[1], 25, 49);
    EXPECT_ELEMENTS(g[3], 100, 294);
    if (!s.failed)
        TP_EXPECT(!g[2] && !test_grad_of(x) && !test_grad_of(w));
    /* The node of b was not needed, so it did not run and still has what it saved. */
    test_backward(&s, b, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(w), 10, 14);
    test_backward_fails(&s, a, 0, second_time);
    (void)tp_scope_end(&s);
}

TP_TEST(several_roots)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 2, 3), *a = CALL(&s, "mul.Tensor", T(x), T(x)), *b = CALL(&s, "mul.Tensor", T(a), T(x));
    tp_tensor *one = test_ones_like(&s, x);
    tp_edge root[3] = { 0 };
    if (!s.failed && tp_gradient_edge(a, &root[0]) && tp_gradient_edge(b, &root[1]) && tp_gradient_edge(a, &root[2])) {
        tp_value gradient[3] = { T(one), T(one), T(one) };      /* a leads to nothing new: it waits for b */
        tp_backward_request request = { .root = root, .gradient = gradient, .root_count = 3 };
        bool ok = tp_backward_run(&request);
        TP_EXPECT(ok);
        if (ok)
            EXPECT_ELEMENTS(test_grad_of(x), 2 * 4 + 12, 2 * 6 + 27);
    }
    for (int i = 0; i < 3; i++)
        tp_grad_node_unref(root[i].node);
    (void)tp_scope_end(&s);
}

TP_TEST(second_derivatives)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3), *y = CALL(&s, "pow.Tensor_Scalar", T(x), I(3));
    tp_tensor *g = GRAD(&s, y, CREATE_GRAPH, x);
    EXPECT_ELEMENTS(g, 3, 12, 27);
    tp_tensor *h = GRAD(&s, g, CREATE_GRAPH, x);
    EXPECT_ELEMENTS(h, 6, 12, 18);
    tp_tensor *third = GRAD(&s, h, 0, x);
    EXPECT_ELEMENTS(third, 6, 6, 6);
    tp_tensor *e = CALL(&s, "exp", T(x));       /* through a saved result */
    g = GRAD(&s, e, CREATE_GRAPH, x);
    h = GRAD(&s, g, 0, x);
    EXPECT_ELEMENTS(h, exp(1), exp(2), exp(3));
    (void)tp_scope_end(&s);
}

TP_TEST(backward_with_create_graph_gives_gradients_that_have_one)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 2, 3), *y = CALL(&s, "mul.Tensor", T(x), T(x));
    test_backward(&s, y, NULL, CREATE_GRAPH);
    EXPECT_ELEMENTS(test_grad_of(x), 4, 6);
    if (!s.failed) {
        TP_EXPECT(tp_requires_grad(test_grad_of(x)));
        tp_tensor *g = test_own(&s, tp_tensor_ref(test_grad_of(x)));
        TP_EXPECT(tp_set_grad(x, NULL));
        test_backward(&s, g, NULL, 0);
        EXPECT_ELEMENTS(test_grad_of(x), 2, 2);
    }
    if (x)
        TP_EXPECT(tp_set_grad(x, NULL));        /* what create_graph warns of: x.grad holds the graph, which holds x */
    (void)tp_scope_end(&s);
}

TP_TEST(bad_gradients_are_named)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, -1), *y = CALL(&s, "sqrt", T(x));
    tp_self.anomaly = tp_self.anomaly_nan = true;
    test_backward_fails(&s, y, 0, "Function 'SqrtBackward0' returned nan values in its 0th output.");
    tp_self.anomaly = tp_self.anomaly_nan = false;
    (void)tp_scope_end(&s);
}

/* Integers among the operands get no gradient; integer values in floats are exact. */
TP_TEST(integers_have_no_gradient)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 3, 5), *n = test_vector(&s, TP_i64, 2, (double[]){ 1 << 20, 7 });
    tp_tensor *y = CALL(&s, "mul.Tensor", T(x), T(n)), *compared = CALL(&s, "gt.Tensor", T(x), T(n));
    tp_tensor *picked = CALL(&s, "argmax", T(x)), *cast = CALL(&s, "_to_copy", T(x), tp_of_dtype(TP_i64));
    EXPECT_ELEMENTS(GRAD(&s, y, 0, x), 1 << 20, 7);
    if (!s.failed)
        TP_EXPECT(!tp_requires_grad(compared) && !tp_requires_grad(picked) && !tp_requires_grad(cast));
    (void)tp_scope_end(&s);
}

/* ---- what is saved ---- */

TP_TEST(writes_over_saved_values_are_noticed)
{
    static const char hint[] = "; expected version 0 instead. Hint: enable anomaly detection to find the operation that failed to compute its "
                               "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).";
    char want[600];
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *one = VECTOR(&s, 1), *x = LEAF(&s, 1, 2, 3), *y = CALL(&s, "exp", T(x));
    CALL(&s, "add_.Tensor", T(y), T(one));
    snprintf(want, sizeof want, "one of the variables needed for gradient computation has been modified by an inplace operation: "
             "[torch.FloatTensor [3]], which is output 0 of Exp, is at version 1%s", hint);
    test_backward_fails(&s, y, 0, want);
    tp_tensor *a = CALL(&s, "mul.Tensor", T(x), T(one)), *z = CALL(&s, "mul.Tensor", T(a), T(a));
    CALL(&s, "add_.Tensor", T(a), T(one));
    snprintf(want, sizeof want, "one of the variables needed for gradient computation has been modified by an inplace operation: "
             "[torch.FloatTensor [3]], which is output 0 of Add, is at version 1%s", hint);
    test_backward_fails(&s, z, 0, want);
    tp_tensor *e = CALL(&s, "exp", T(x)), *bare = e && !s.failed ? test_own(&s, tp_detach(e)) : NULL;
    CALL(&s, "zero_", T(bare));                 /* detach shares the version */
    snprintf(want, sizeof want, "one of the variables needed for gradient computation has been modified by an inplace operation: "
             "[torch.FloatTensor [3]], which is output 0 of Exp, is at version 1%s", hint);
    test_backward_fails(&s, e, 0, want);
    (void)tp_scope_end(&s);
}

/* A node that saved its result does not keep itself alive. */
TP_TEST(a_graph_that_never_runs_is_freed)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2, 3);
    CALL(&s, "exp", T(x));
    CALL(&s, "sum", T(CALL(&s, "tanh", T(CALL(&s, "sqrt", T(x))))));
    (void)tp_scope_end(&s);                     /* the runner counts what is left */
}

/* A result computed by somebody else gets the node of the op, if a gradient is wanted. */
TP_TEST(calls_made_elsewhere_are_recorded)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 2, 3), *w = VECTOR(&s, 5, 7), *y = VECTOR(&s, 10, 21), *z = VECTOR(&s, 25, 49);
    const tp_op *mul = test_op("mul.Tensor");
    if (!s.failed && tp_record_made(mul, (tp_value[]){ T(x), T(w) }, y) && tp_record_made(mul, (tp_value[]){ T(w), T(w) }, z)) {
        TP_EXPECT_TEXT(test_node_name(y), "MulBackward0");
        TP_EXPECT(y->keys & TP_LAYER_BIT(TP_LAYER_GRAD) && !tp_is_leaf(y));
        TP_EXPECT(tp_is_leaf(z) && !z->autograd);
        test_backward(&s, y, NULL, 0);
        EXPECT_ELEMENTS(test_grad_of(x), 5, 7);
    }
    (void)tp_scope_end(&s);
}

/* Only what a wanted gradient reads is saved: a*w needs w alone when w wants none, so a may change. */
TP_TEST(what_no_gradient_reads_is_not_saved)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *one = VECTOR(&s, 1), *w = VECTOR(&s, 5, 6, 7), *x = LEAF(&s, 1, 2, 3);
    tp_tensor *a = CALL(&s, "mul.Tensor", T(x), T(one)), *b = CALL(&s, "mul.Tensor", T(a), T(w));
    CALL(&s, "add_.Tensor", T(a), T(one));
    test_backward(&s, b, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(x), 5, 6, 7);
    (void)tp_scope_end(&s);
}

TP_TEST(an_overwritten_operand_is_saved_as_it_was)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *one = VECTOR(&s, 1), *x = LEAF(&s, 2, 3), *z = LEAF(&s, 5, 7), *y = CALL(&s, "mul.Tensor", T(x), T(one));
    CALL(&s, "mul_.Tensor", T(y), T(z));
    EXPECT_ELEMENTS(y, 10, 21);
    test_backward(&s, y, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(x), 5, 7);
    EXPECT_ELEMENTS(test_grad_of(z), 2, 3);
    (void)tp_scope_end(&s);
}

TP_TEST(writes_cut_or_continue_the_history)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *one = VECTOR(&s, 1), *x = LEAF(&s, 2, 3), *y = CALL(&s, "mul.Tensor", T(x), T(one)), *z = CALL(&s, "mul.Tensor", T(x), T(one));
    CALL(&s, "zero_", T(y));
    if (!s.failed) {
        TP_EXPECT(tp_requires_grad(y));
        TP_EXPECT_TEXT(test_node_name(y), "ZeroBackward0");
    }
    EXPECT_ELEMENTS(GRAD(&s, y, 0, x), 0, 0);
    CALL(&s, "exp_", T(z));
    EXPECT_ELEMENTS(GRAD(&s, z, 0, x), exp(2), exp(3));
    tp_tensor *fresh = VECTOR(&s, 0, 0);        /* a tensor without history gets one by being written */
    CALL(&s, "copy_", T(fresh), T(x));
    if (!s.failed)
        TP_EXPECT(tp_requires_grad(fresh) && !tp_is_leaf(fresh));
    EXPECT_ELEMENTS(GRAD(&s, fresh, 0, x), 1, 1);
    (void)tp_scope_end(&s);
}

/* ---- retain_grad and hooks ---- */

TP_TEST(retained_gradients)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *two = VECTOR(&s, 2), *x = LEAF(&s, 0, 0), *y = CALL(&s, "exp", T(x)), *z = CALL(&s, "mul.Tensor", T(y), T(two));
    if (!s.failed && !tp_retain_grad(y))
        s.failed = true;
    test_backward(&s, z, NULL, KEEP_GRAPH);     /* takes the saved result, which has the same node, and drops it */
    EXPECT_ELEMENTS(test_grad_of(y), 2, 2);
    test_backward(&s, z, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(y), 4, 4);     /* added up, like that of a leaf */
    (void)tp_scope_end(&s);

    tp_scope_start(&s);                         /* a write moves the wish to the new node */
    two = VECTOR(&s, 2), x = LEAF(&s, 1, 1), y = CALL(&s, "mul.Tensor", T(x), T(two));
    if (!s.failed && !tp_retain_grad(y))
        s.failed = true;
    CALL(&s, "mul_.Tensor", T(y), T(two));
    test_backward(&s, y, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(y), 1, 1);
    EXPECT_ELEMENTS(test_grad_of(x), 4, 4);
    (void)tp_scope_end(&s);
}

TP_TEST(a_dead_tensor_retains_nothing)
{
    tp_scope s, inner;
    tp_scope_start(&s);
    tp_scope_start(&inner);
    tp_tensor *two = VECTOR(&s, 2), *x = LEAF(&s, 1, 1), *y = s.failed ? NULL : CALL(&inner, "mul.Tensor", T(x), T(two)), *z = NULL;
    if (y && !inner.failed && !tp_retain_grad(y))
        inner.failed = true;
    if (y && !inner.failed) {
        tp_tensor *before = CALL(&s, "neg", T(y));
        CALL(&inner, "mul_.Tensor", T(y), T(two));
        z = CALL(&s, "add.Tensor", T(before), T(y));
    }
    bool made = tp_scope_end(&inner);           /* y is gone, both its nodes live on */
    if (made && !s.failed)
        test_backward(&s, z, NULL, 0);
    if (made && !s.failed)
        EXPECT_ELEMENTS(test_grad_of(x), 2, 2);
    (void)tp_scope_end(&s);
}

/* Hooks that note their order; a positive factor replaces the gradient. */
static struct { char order[32]; int count; } noted;

typedef struct note {
    tp_handle base;
    char letter;
    double factor;
} note;

static void note_free(tp_handle *h) { tp_free(h); }
static const tp_handle_type note_type = { .free = note_free };

static bool note_call(tp_hook *h, tp_value *g, size_t count, tp_value *results, size_t result_count)
{
    const note *n = (const note *)(void *)h->callable;
    (void)results, (void)result_count;
    if (noted.count < 31)
        noted.order[noted.count++] = n->letter;
    if (n->factor < 0)
        return tp_fail(TP_ERR_VALUE, "hook %c", n->letter);
    for (size_t i = 0; n->factor > 0 && i < count; i++) {
        tp_value scaled, arg[2] = { g[i], tp_float(n->factor) };
        if (g[i].tag != TP_TENSOR)
            continue;
        if (!tp_call1(test_op("mul.Scalar"), 2, arg, &scaled))
            return false;
        tp_value_unref(g[i]);
        g[i] = scaled;
    }
    return true;
}

static void hook(tp_scope *s, tp_hook **list, char letter, double factor)
{
    note *n = s->failed || !list ? NULL : tp_alloc(sizeof *n);
    if (!n) {
        s->failed = true;
        return;
    }
    *n = (note){ .base = { .type = &note_type }, .letter = letter, .factor = factor };
    atomic_init(&n->base.refs, 1);
    if (!tp_hook_add(list, letter, &n->base, note_call, false))
        s->failed = true;
    tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = &n->base });
}

TP_TEST(hooks_run_in_order_and_may_replace)
{
    tp_scope s;
    tp_grad_node *n = NULL;
    uint32_t slot;
    memset(&noted, 0, sizeof noted);
    tp_scope_start(&s);
    tp_tensor *two = VECTOR(&s, 2), *x = LEAF(&s, 1, 1), *y = CALL(&s, "mul.Tensor", T(x), T(two));
    hook(&s, y && !s.failed ? tp_tensor_hooks(y) : NULL, 'a', 2);
    hook(&s, y && !s.failed ? tp_tensor_hooks(y) : NULL, 'b', 5);
    hook(&s, y && !s.failed ? tp_tensor_hooks(y) : NULL, 'x', 100);
    hook(&s, x && !s.failed ? tp_tensor_hooks(x) : NULL, 'l', 3);
    hook(&s, x && !s.failed ? &x->autograd->post_accumulate : NULL, 'm', 0);
    if (!s.failed && tp_grad_fn(y, &n, &slot) && n) {
        hook(&s, &n->post_hooks, 'q', 7);       /* after the node, the gradients of its inputs are replaced */
        hook(&s, &n->pre_hooks, 'p', 0);
        tp_hook_remove(tp_tensor_hooks(y), 'x');
    }
    if (!s.failed && !tp_retain_grad(y))
        s.failed = true;
    test_backward(&s, y, NULL, KEEP_GRAPH);
    EXPECT_ELEMENTS(test_grad_of(y), 10, 10);
    EXPECT_ELEMENTS(test_grad_of(x), 420, 420);
    if (!s.failed)
        TP_EXPECT_TEXT(noted.order, "abpqlm");
    memset(&noted, 0, sizeof noted);
    EXPECT_ELEMENTS(GRAD(&s, y, KEEP_GRAPH, x), 420, 420);       /* grad() of a leaf passes its hooks too, but not the last kind */
    if (!s.failed)
        TP_EXPECT_TEXT(noted.order, "abpql");
    memset(&noted, 0, sizeof noted);
    EXPECT_ELEMENTS(GRAD(&s, y, KEEP_GRAPH, y), 10, 10);
    if (!s.failed)
        TP_EXPECT_TEXT(noted.order, "ab");
    (void)tp_scope_end(&s);
}

TP_TEST(a_failing_hook_ends_the_run)
{
    static const char places[] = "tpql";
    for (int k = 0; k < 4; k++) {
        tp_scope s;
        tp_grad_node *n = NULL;
        uint32_t slot;
        char want[] = "hook t";
        tp_scope_start(&s);
        tp_tensor *x = LEAF(&s, 1, 1), *y = CALL(&s, "mul.Tensor", T(x), T(x));
        if (!s.failed && tp_grad_fn(y, &n, &slot))
            hook(&s, k == 0 ? tp_tensor_hooks(y) : k == 1 ? &n->pre_hooks : k == 2 ? &n->post_hooks : tp_tensor_hooks(x), places[k], -1);
        want[5] = places[k];
        test_backward_fails(&s, y, 0, want);
        (void)tp_scope_end(&s);
    }
}

TP_TEST(hooks_stay_with_the_value_they_were_given_for)
{
    tp_scope s;
    memset(&noted, 0, sizeof noted);
    tp_scope_start(&s);
    tp_tensor *two = VECTOR(&s, 2), *x = LEAF(&s, 1, 1), *y = CALL(&s, "mul.Tensor", T(x), T(two));
    hook(&s, y && !s.failed ? tp_tensor_hooks(y) : NULL, 'a', 10);
    CALL(&s, "mul_.Tensor", T(y), T(two));
    test_backward(&s, y, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(x), 40, 40);
    if (!s.failed)
        TP_EXPECT_TEXT(noted.order, "a");
    (void)tp_scope_end(&s);
}

/* What was recorded later runs earlier, whatever the shape of the graph. */
TP_TEST(nodes_run_by_falling_sequence)
{
    tp_scope s;
    memset(&noted, 0, sizeof noted);
    tp_scope_start(&s);
    tp_tensor *two = VECTOR(&s, 2), *a = LEAF(&s, 1, 1), *b = CALL(&s, "mul.Tensor", T(a), T(two)), *c = CALL(&s, "neg", T(a));
    tp_tensor *d = CALL(&s, "mul.Tensor", T(b), T(c)), *e = CALL(&s, "exp", T(c)), *f = CALL(&s, "add.Tensor", T(d), T(e));
    tp_tensor *each[] = { a, b, c, d, e };
    for (int i = 0; i < 5; i++)
        hook(&s, each[i] && !s.failed ? tp_tensor_hooks(each[i]) : NULL, (char)('a' + i), 0);
    test_backward(&s, f, NULL, 0);
    if (!s.failed)
        TP_EXPECT_TEXT(noted.order, "edcba");
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(leaves_and_their_errors), TP_SWEPT(writing_to_leaves_is_refused), TP_SWEPT(inference_tensors),
         TP_SWEPT(gradients_accumulate), TP_SWEPT(assigned_gradients_must_fit),
         TP_SWEPT(sums_go_backward_twice), TP_SWEPT(shared_subgraphs_run_once),
         TP_SWEPT(broadcast_gradients_are_summed_back), TP_SWEPT(gradients_of_inputs_only), TP_SWEPT(several_roots),
         TP_SWEPT(second_derivatives), TP_SWEPT(backward_with_create_graph_gives_gradients_that_have_one),
         TP_SWEPT(bad_gradients_are_named), TP_SWEPT(integers_have_no_gradient), TP_SWEPT(writes_over_saved_values_are_noticed),
         TP_SWEPT(a_graph_that_never_runs_is_freed), TP_SWEPT(calls_made_elsewhere_are_recorded),
         TP_SWEPT(what_no_gradient_reads_is_not_saved), TP_SWEPT(an_overwritten_operand_is_saved_as_it_was),
         TP_SWEPT(writes_cut_or_continue_the_history), TP_SWEPT(retained_gradients), TP_SWEPT(a_dead_tensor_retains_nothing),
         TP_SWEPT(hooks_run_in_order_and_may_replace), TP_SWEPT(a_failing_hook_ends_the_run),
         TP_SWEPT(hooks_stay_with_the_value_they_were_given_for), TP_SWEPT(nodes_run_by_falling_sequence))
