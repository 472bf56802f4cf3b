/* test_grads.h - for C tests of the tape: leaves, backward and grad in one line each. See ops/test_calls.h. */
#ifndef TP_GRAD_TEST_GRADS_H
#define TP_GRAD_TEST_GRADS_H

#include "grad/tape.h"
#include "ops/test_calls.h"

enum { KEEP_GRAPH = 1, CREATE_GRAPH = 2 };

/* A 1-d f32 leaf that requires a gradient. */
#define LEAF(s, ...) test_leaf(s, VECTOR(s, __VA_ARGS__))
#define GRAD(s, y, flags, x) test_grad(s, y, NULL, flags, x)

static inline tp_tensor *test_leaf(tp_scope *s, tp_tensor *t)
{
    if (t && !tp_set_requires_grad(t, true)) {
        s->failed = true;
        return NULL;
    }
    return t;
}

static inline tp_tensor *test_ones_like(tp_scope *s, tp_tensor *t)
{
    bool mode = tp_self.grad_mode;
    tp_self.grad_mode = false;
    tp_tensor *ones = CALL(s, "ones_like", T(t));
    tp_self.grad_mode = mode;
    return ones;
}

/* grad(): `x` has `count` tensors, `out` gets their gradients, owned by the scope. False: the error is set, or s failed before. */
static inline bool test_run(tp_scope *s, tp_tensor *y, tp_tensor *seed, int flags, size_t count, tp_tensor *const *x, tp_tensor **out)
{
    tp_edge root = { 0 }, input[8] = { 0 };
    tp_value captured[8] = { 0 };
    for (size_t i = 0; i < count; i++)
        out[i] = NULL;
    if (!seed)
        seed = test_ones_like(s, y);
    if (s->failed)
        return false;
    bool ok = tp_gradient_edge(y, &root);
    for (size_t i = 0; ok && i < count; i++)
        ok = tp_gradient_edge(x[i], &input[i]);
    tp_value gradient = tp_of_tensor(seed);
    tp_backward_request request = { .root = &root, .gradient = &gradient, .root_count = 1, .input = count ? input : NULL, .input_count = count,
                                    .captured = captured, .keep_graph = (flags & (KEEP_GRAPH | CREATE_GRAPH)) != 0,
                                    .create_graph = (flags & CREATE_GRAPH) != 0 };
    ok = ok && tp_backward_run(&request);
    for (size_t i = 0; i < count; i++) {
        out[i] = ok ? tp_as_tensor(captured[i]) : NULL;
        (void)tp_scope_own(s, captured[i]);
        tp_grad_node_unref(input[i].node);
    }
    tp_grad_node_unref(root.node);
    return ok;
}

/* y.backward(seed); `seed` NULL: ones. */
static inline void test_backward(tp_scope *s, tp_tensor *y, tp_tensor *seed, int flags)
{
    if (!test_run(s, y, seed, flags, 0, NULL, NULL)) {
        TP_EXPECT(!"backward");
        s->failed = true;
    }
}

static inline tp_tensor *test_grad(tp_scope *s, tp_tensor *y, tp_tensor *seed, int flags, tp_tensor *x)
{
    tp_tensor *g = NULL;
    if (!test_run(s, y, seed, flags, 1, &x, &g)) {
        TP_EXPECT(!"grad");
        s->failed = true;
    }
    return g;
}

static inline void test_backward_fails(tp_scope *s, tp_tensor *y, int flags, const char *text)
{
    bool ok = test_run(s, y, NULL, flags, 0, NULL, NULL);
    if (s->failed)
        return;
    TP_EXPECT(!ok);
    TP_EXPECT_TEXT(tp_error_text(), text);
    tp_error_clear();
}

/* The accumulated gradient, borrowed; NULL: none. */
static inline tp_tensor *test_grad_of(const tp_tensor *t)
{
    return t && t->autograd ? t->autograd->grad : NULL;
}

static inline const char *test_node_name(tp_tensor *t)
{
    tp_grad_node *n = NULL;
    uint32_t slot;
    if (!t || !tp_grad_fn(t, &n, &slot))
        return "failed";
    return n ? n->kind->name(n) : "none";
}

#endif
