/* thread_test.c - graphs too deep for a stack, and threads that share weights. */
#include <pthread.h>

#include "grad/test_grads.h"
#include "ops/copy.h"

enum { SMALL_STACK = 256 << 10, DEEP = 1000000, SHALLOW = 100, THREADS = 8, ROUNDS = 40 };

/* Runs in a thread whose stack holds a few thousand frames at most. */
static void in_small_stack(void *(*run)(void *), void *arg)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, SMALL_STACK);
    bool made = pthread_create(&thread, &attributes, run, arg) == 0;
    TP_EXPECT(made);
    if (made)
        pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* op(x), a million times, or as often as a sweep can bear; each value lives until the next is there. */
static tp_tensor *deep(tp_tensor *x, const tp_op *op)
{
    tp_tensor *y = x ? tp_tensor_ref(x) : NULL;
    for (int i = 0, depth = tp_test_quiet ? SHALLOW : DEEP; y && i < depth; i++) {
        tp_value next, arg[1] = { T(y) };
        bool ok = tp_call(op, arg, &next);
        tp_tensor_unref(y);
        y = ok ? next.tensor : NULL;
    }
    return y;
}

static void *run_deep(void *unused)
{
    tp_scope s;
    (void)unused;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2);
    test_backward(&s, test_own(&s, deep(x, test_op("neg"))), NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(x), 1, 1);
    (void)tp_scope_end(&s);
    tp_thread_trim();
    return NULL;
}

TP_TEST(a_million_nodes_run_without_a_stack)
{
    in_small_stack(run_deep, NULL);
}

static void *drop_deep(void *unused)
{
    tp_scope s;
    (void)unused;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2);
    tp_tensor_unref(deep(x, test_op("exp")));       /* each node holds what it saved */
    (void)tp_scope_end(&s);
    tp_thread_trim();
    return NULL;
}

TP_TEST(a_million_nodes_are_freed_without_a_stack)
{
    in_small_stack(drop_deep, NULL);
}

/* Every write through the view adds a CopySlices that holds the node of the write. */
static void *drop_deep_writes(void *unused)
{
    tp_scope s;
    (void)unused;
    tp_scope_start(&s);
    tp_tensor *x = LEAF(&s, 1, 2), *y = CALL(&s, "neg", T(x)), *v = CALL(&s, "view", T(y), INTS(&s, 2));
    for (int i = 0, depth = tp_test_quiet ? SHALLOW : DEEP / 10; !s.failed && i < depth; i++) {
        tp_value same, arg[1] = { T(v) };
        if (tp_call(test_op("neg_"), arg, &same))
            tp_value_unref(same);
        else
            s.failed = true;
    }
    TP_EXPECT(!s.failed);
    (void)tp_scope_end(&s);
    tp_thread_trim();
    return NULL;
}

TP_TEST(writes_through_a_view_are_freed_without_a_stack)
{
    in_small_stack(drop_deep_writes, NULL);
}

/* ---- threads ---- */

enum { SIZE = 24 };

typedef struct job {
    tp_tensor *w, *b;               /* shared leaves */
    float input[SIZE * SIZE], gradient[SIZE * SIZE], bias[SIZE];
    bool accumulate, ok;
} job;

static tp_tensor *square(tp_scope *s, const float *data)
{
    tp_tensor *t = test_own(s, tp_tensor_new(TP_f32, 2, (int64_t[]){ SIZE, SIZE }));
    if (t)
        memcpy(tp_tensor_data(t), data, SIZE * SIZE * sizeof *data);
    return t;
}

/* A small network forward and backward; its gradients go to the job, or to the leaves. */
static bool step(job *j)
{
    tp_scope s;
    tp_tensor *g[2] = { NULL, NULL };
    tp_scope_start(&s);
    tp_tensor *x = square(&s, j->input), *h = CALL(&s, "add.Tensor", T(CALL(&s, "mm", T(x), T(j->w))), T(j->b));
    h = CALL(&s, "tanh", T(h));
    h = CALL(&s, "add.Tensor", T(CALL(&s, "mm", T(h), T(j->w))), T(j->b));
    tp_tensor *loss = CALL(&s, "sum", T(CALL(&s, "mul.Tensor", T(h), T(h))));
    if (j->accumulate) {
        test_backward(&s, loss, NULL, 0);
    } else if (test_run(&s, loss, NULL, 0, 2, (tp_tensor *[]){ j->w, j->b }, g) && g[0] && g[1]) {
        tp_tensor *flat = CALL(&s, "clone", T(g[0]), tp_of_format(TP_FORMAT_CONTIGUOUS));
        if (flat)
            memcpy(j->gradient, tp_tensor_data(flat), sizeof j->gradient);
        memcpy(j->bias, tp_tensor_data(g[1]), sizeof j->bias);
    } else {
        s.failed = true;
    }
    return tp_scope_end(&s);
}

static void *steps(void *arg)
{
    job *j = arg;
    j->ok = true;
    for (int i = 0; j->ok && i < ROUNDS; i++)
        j->ok = step(j);
    tp_thread_trim();
    return NULL;
}

static bool weights(tp_scope *s, tp_tensor **w, tp_tensor **b)
{
    float data[SIZE * SIZE];
    double bias[SIZE];
    for (int i = 0; i < SIZE * SIZE; i++)
        data[i] = (float)((i * 37 % 101) - 50) / 97;
    for (int i = 0; i < SIZE; i++)
        bias[i] = (double)i / 11;
    *w = test_leaf(s, square(s, data));
    *b = test_leaf(s, test_vector(s, TP_f32, SIZE, bias));
    return *w && *b && !s->failed;
}

static void run_all(job *j, int count)
{
    pthread_t thread[THREADS];
    for (int t = 0; t < count; t++)
        TP_EXPECT(pthread_create(&thread[t], NULL, steps, &j[t]) == 0);
    for (int t = 0; t < count; t++)
        pthread_join(thread[t], NULL);
}

TP_TEST(threads_on_shared_weights_equal_the_serial_run)
{
    static job parallel[THREADS], serial;
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *w, *b;
    TP_NEED(weights(&s, &w, &b));
    for (int t = 0; t < THREADS; t++) {
        parallel[t] = (job){ .w = w, .b = b };
        for (int i = 0; i < SIZE * SIZE; i++)
            parallel[t].input[i] = (float)((i + t) * 29 % 83 - 40) / 79;
    }
    run_all(parallel, THREADS);
    for (int t = 0; t < THREADS; t++) {
        serial = (job){ .w = w, .b = b };
        memcpy(serial.input, parallel[t].input, sizeof serial.input);
        TP_EXPECT(step(&serial) && parallel[t].ok);
        TP_EXPECT(memcmp(serial.gradient, parallel[t].gradient, sizeof serial.gradient) == 0);
        TP_EXPECT(memcmp(serial.bias, parallel[t].bias, sizeof serial.bias) == 0);
    }
    TP_EXPECT(!test_grad_of(w) && atomic_load(&w->refs) == 1);
out:
    (void)tp_scope_end(&s);
}

/* All add to one .grad. Ones are added, so that no order of additions shows in the sum. */
TP_TEST(threads_accumulate_into_shared_leaves)
{
    static job parallel[THREADS];
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *w, *b;
    TP_NEED(weights(&s, &w, &b));
    tp_fill(w, tp_scalar_int(0));
    tp_fill(b, tp_scalar_float(0.5));
    for (int t = 0; t < THREADS; t++)
        parallel[t] = (job){ .w = w, .b = b, .accumulate = true };
    run_all(parallel, THREADS);
    double want[SIZE];
    for (int i = 0; i < SIZE; i++)
        want[i] = THREADS * ROUNDS * SIZE * 2 * 0.5;        /* of sum((0 + b)^2) over SIZE rows; w is zero and hides the rest */
    for (int t = 0; t < THREADS; t++)
        TP_EXPECT(parallel[t].ok);
    TP_EXPECT(test_elements(test_grad_of(b), SIZE, want, "b.grad"));
out:
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(a_million_nodes_run_without_a_stack), TP_SWEPT(a_million_nodes_are_freed_without_a_stack),
         TP_SWEPT(writes_through_a_view_are_freed_without_a_stack), TP_SPARSE(threads_on_shared_weights_equal_the_serial_run),
         TP_SPARSE(threads_accumulate_into_shared_leaves))
