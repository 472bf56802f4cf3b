/* test_traces.h - for C tests of the recorder: a small program, traced without Python. */
#ifndef TP_JIT_TEST_TRACES_H
#define TP_JIT_TEST_TRACES_H

#include "grad/test_grads.h"
#include "jit/record.h"

static inline tp_origin *test_nowhere(void *user) { (void)user; return NULL; }
static inline const char *test_nameless(void *user, const tp_tensor *t) { (void)user, (void)t; return NULL; }
static inline bool test_unwarned(void *user, const char *text) { (void)text; return ++*(int *)user; }

/* f(x) = neg(x * x + 1): the graph, owned; NULL with the error set. */
static inline tp_graph *test_trace_square(tp_scope *s, tp_tensor *x, int *warned)
{
    tp_jit_host host = { .user = warned, .origin = test_nowhere, .name = test_nameless, .warn = test_unwarned };
    tp_jit_trace *t = x ? tp_jit_trace_new(&host, NULL, false, false) : NULL;
    tp_jit_type *type = t ? tp_jit_tensor_new(x) : NULL;
    tp_graph *g = NULL;
    if (type && tp_jit_trace_bind(t, x, tp_jit_trace_input(t, "x", type))) {
        tp_jit_trace_start(t);
        tp_tensor *y = CALL(s, "neg", T(CALL(s, "add.Tensor", T(CALL(s, "mul.Tensor", T(x), T(x))), I(1))));
        tp_jit_value out = y ? tp_jit_trace_of(t, y) : 0;
        tp_jit_trace_stop(t);
        g = out ? tp_jit_trace_finish(t, out) : NULL;
    }
    if (!g)
        s->failed = true;
    tp_jit_trace_free(t);
    return g;
}

/* fc: a module with a parameter `weight`; root: a module that calls it and multiplies by its own `scale`. */
static inline tp_jit_module *test_module(tp_scope *s, tp_tensor *weight, tp_tensor *scale)
{
    tp_jit_module *root = tp_jit_module_new("__torch__.Net"), *fc = tp_jit_module_new("__torch__.layers.Scale");
    bool ok = root && fc && weight && scale && tp_jit_module_set(fc, "weight", TP_JIT_PARAMETER, T(weight)) &&
              tp_jit_module_set(root, "scale", TP_JIT_BUFFER, T(scale)) && tp_jit_module_set(root, "fc", TP_JIT_MODULE, tp_jit_of_module(fc));
    tp_jit_module_unref(fc);
    if (ok)
        return root;
    s->failed = true;
    tp_jit_module_unref(root);
    return NULL;
}

/* Traces root(x) = fc(x) * scale + weight of fc, fc(x) = relu(x * weight), into methods of the modules. */
static inline bool test_trace_module(tp_scope *s, tp_jit_module *root, tp_tensor *weight, tp_tensor *scale, tp_tensor *x, int *warned)
{
    tp_jit_host host = { .user = warned, .origin = test_nowhere, .name = test_nameless, .warn = test_unwarned };
    tp_jit_trace *t = root && x ? tp_jit_trace_new(&host, root, false, false) : NULL;
    tp_jit_type *type = t ? tp_jit_tensor_new(x) : NULL;
    tp_graph *g = NULL;
    tp_jit_function *f = NULL;
    bool ok = type && tp_jit_trace_attribute(t, "fc.weight", weight) && tp_jit_trace_attribute(t, "scale", scale);
    if (!ok)
        tp_jit_type_unref(type);
    ok = ok && tp_jit_trace_bind(t, x, tp_jit_trace_input(t, "x", type));
    if (ok) {
        tp_jit_trace_start(t);
        tp_tensor *h = NULL;
        if ((ok = tp_jit_trace_push(t, "fc"))) {
            h = CALL(s, "relu", T(CALL(s, "mul.Tensor", T(x), T(weight))));
            tp_jit_trace_pop(t);
        }
        tp_tensor *y = ok ? CALL(s, "add.Tensor", T(CALL(s, "mul.Tensor", T(h), T(scale))), T(weight)) : NULL;
        tp_jit_value out = y ? tp_jit_trace_of(t, y) : 0;
        tp_jit_trace_stop(t);
        g = out ? tp_jit_trace_finish(t, out) : NULL;
    }
    ok = g && (f = tp_jit_function_new("forward", g, true)) && tp_jit_module_define(root, f);
    if (!ok)
        s->failed = true;
    tp_jit_function_unref(f);
    tp_graph_unref(g);
    tp_jit_trace_free(t);
    return ok;
}

#endif
