/* record_test.c - tracing without Python: what is written down, how it reads, and that it runs. */
#include "jit/code.h"
#include "jit/run.h"
#include "jit/test_traces.h"

static void expect_text(tp_scope *s, tp_text *text, const char *want)
{
    if (!s->failed && !text->failed)
        TP_EXPECT_TEXT(tp_text_read(text), want);
    tp_text_fini(text);
}

TP_TEST(outermost_ops_are_written_down)
{
    tp_scope s;
    int warned = 0;
    tp_scope_start(&s);
    tp_graph *g = test_trace_square(&s, VECTOR(&s, 1, 2), &warned);
    tp_text text = { 0 };
    if (g)
        tp_jit_print(g, &text);
    expect_text(&s, &text,
                "graph(%x : Float(2, strides=[1], requires_grad=0, device=cpu)):\n"
                "  %1 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::mul(%x, %x)\n"
                "  %2 : Long(requires_grad=0, device=cpu) = prim::Constant[value={1}]()\n"
                "  %3 : int = prim::Constant[value=1]()\n"
                "  %4 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::add(%1, %2, %3)\n"
                "  %5 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::neg(%4)\n"
                "  return (%5)\n");
    tp_graph_unref(g);
    (void)tp_scope_end(&s);
}

TP_TEST(a_trace_runs_and_has_gradients)
{
    tp_scope s;
    int warned = 0;
    tp_scope_start(&s);
    tp_graph *g = test_trace_square(&s, VECTOR(&s, 1, 2), &warned);
    tp_jit_function *f = g ? tp_jit_function_new("f", g, false) : NULL;
    tp_tensor *x = LEAF(&s, 1, 2, 3);
    tp_value result = tp_none();
    if (f && x && !s.failed && tp_jit_run(f, (tp_value[]){ T(x) }, 1, &result)) {
        tp_tensor *y = tp_as_tensor(tp_scope_own(&s, result));
        EXPECT_ELEMENTS(y, -2, -5, -10);
        tp_tensor *first = GRAD(&s, CALL(&s, "sum", T(y)), CREATE_GRAPH, x);
        EXPECT_ELEMENTS(first, -2, -4, -6);
        tp_tensor *second = GRAD(&s, CALL(&s, "sum", T(CALL(&s, "mul.Tensor", T(first), T(first)))), 0, x);
        EXPECT_ELEMENTS(second, 8, 16, 24);
    } else {
        TP_EXPECT(tp_test_quiet);
    }
    tp_jit_function_unref(f);
    tp_graph_unref(g);
    (void)tp_scope_end(&s);
}

TP_TEST(code_reads_like_python)
{
    tp_scope s;
    int warned = 0;
    tp_scope_start(&s);
    tp_graph *g = test_trace_square(&s, VECTOR(&s, 1, 2), &warned);
    tp_jit_function *f = g ? tp_jit_function_new("f", g, false) : NULL;
    tp_text text = { 0 };
    if (!f || !tp_jit_code_function(f, &text))
        s.failed = true;
    expect_text(&s, &text,
                "def f(x: Tensor) -> Tensor:\n"
                "  _0 = torch.add(torch.mul(x, x), CONSTANTS.c0)\n"
                "  return torch.neg(_0)\n");
    tp_jit_function_unref(f);
    tp_graph_unref(g);
    (void)tp_scope_end(&s);
}

/* The weight of fc is read in fc's own frame, and by a path in the root's. */
TP_TEST(submodules_become_methods)
{
    tp_scope s;
    int warned = 0;
    tp_scope_start(&s);
    tp_tensor *weight = VECTOR(&s, 2, -1), *scale = VECTOR(&s, 10, 10), *x = VECTOR(&s, 1, 1);
    tp_jit_module *root = test_module(&s, weight, scale);
    tp_text text = { 0 };
    if (root && test_trace_module(&s, root, weight, scale, x, &warned)) {
        if (!tp_jit_code_function(tp_jit_module_method(root, "forward"), &text))
            s.failed = true;
        const tp_value *fc = tp_jit_module_find(root, "fc");
        if (!s.failed && !tp_jit_code_function(tp_jit_module_method(tp_jit_as_module(*fc), "forward"), &text))
            s.failed = true;
        expect_text(&s, &text,
                    "def forward(self,\n"
                    "    x: Tensor) -> Tensor:\n"
                    "  scale = self.scale\n"
                    "  fc = self.fc\n"
                    "  weight = fc.weight\n"
                    "  _0 = torch.add(torch.mul((fc).forward(x, ), scale), weight)\n"
                    "  return _0\n"
                    "def forward(self,\n"
                    "    x: Tensor) -> Tensor:\n"
                    "  weight = self.weight\n"
                    "  return torch.relu(torch.mul(x, weight))\n");
        tp_value result;
        if (!s.failed && tp_jit_run(tp_jit_module_method(root, "forward"), (tp_value[]){ tp_jit_of_module(root), T(x) }, 2, &result)) {
            EXPECT_ELEMENTS(result.tensor, 22, -1);
            tp_value_unref(result);
        }
    } else {
        tp_text_fini(&text);
    }
    tp_jit_module_unref(root);
    (void)tp_scope_end(&s);
}

/* root(x) = relu of fc's product + that product: both are read of fc in one call, the first when the second is not known. */
TP_TEST(a_second_result_makes_a_tuple)
{
    tp_scope s;
    int warned = 0;
    tp_scope_start(&s);
    tp_tensor *weight = VECTOR(&s, 2, -1), *x = VECTOR(&s, 1, 1), *product = NULL, *h = NULL;
    tp_jit_host host = { .user = &warned, .origin = test_nowhere, .name = test_nameless, .warn = test_unwarned };
    tp_jit_module *root = test_module(&s, weight, weight);
    tp_jit_trace *t = root && x ? tp_jit_trace_new(&host, root, false, false) : NULL;
    tp_jit_type *type = t && tp_jit_trace_attribute(t, "fc.weight", weight) ? tp_jit_tensor_new(x) : NULL;
    tp_graph *g = NULL;
    if (type && tp_jit_trace_bind(t, x, tp_jit_trace_input(t, "x", type))) {
        tp_jit_trace_start(t);
        if (tp_jit_trace_push(t, "fc")) {
            product = CALL(&s, "mul.Tensor", T(x), T(weight));
            h = CALL(&s, "relu", T(product));
            tp_jit_trace_pop(t);
        }
        tp_tensor *y = h ? CALL(&s, "add.Tensor", T(h), T(product)) : NULL;
        tp_jit_value out = y ? tp_jit_trace_of(t, y) : 0;
        tp_jit_trace_stop(t);
        g = out ? tp_jit_trace_finish(t, out) : NULL;
    }
    tp_jit_trace_free(t);
    tp_jit_function *f = g ? tp_jit_function_new("forward", g, true) : NULL;
    tp_text text = { 0 };
    if (!f || !tp_jit_code_function(f, &text))
        s.failed = true;
    expect_text(&s, &text,
                "def forward(self,\n"
                "    x: Tensor) -> Tensor:\n"
                "  fc = self.fc\n"
                "  _0, _1, = (fc).forward(x, )\n"
                "  return torch.add(_0, _1)\n");
    tp_jit_function_unref(f);
    tp_graph_unref(g);
    tp_jit_module_unref(root);
    (void)tp_scope_end(&s);
}

TP_TEST(a_constant_must_not_require_a_gradient)
{
    tp_scope s;
    int warned = 0;
    tp_scope_start(&s);
    tp_tensor *leaf = LEAF(&s, 1, 2), *x = VECTOR(&s, 1, 2);
    tp_jit_host host = { .user = &warned, .origin = test_nowhere, .name = test_nameless, .warn = test_unwarned };
    tp_jit_trace *t = leaf && x ? tp_jit_trace_new(&host, NULL, false, false) : NULL;
    if (t) {
        tp_value result;
        tp_value arg[3] = { T(x), T(leaf), I(1) };
        tp_jit_trace_start(t);
        bool ok = tp_call(test_op("add.Tensor"), arg, &result);
        tp_jit_trace_stop(t);
        TP_EXPECT(!ok);
        if (!tp_test_quiet)
            TP_EXPECT(strncmp(tp_error_text(), "Cannot insert a Tensor that requires grad as a constant", 55) == 0);
        tp_error_clear();
    }
    tp_jit_trace_free(t);
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(outermost_ops_are_written_down), TP_SWEPT(a_trace_runs_and_has_gradients), TP_SWEPT(code_reads_like_python),
         TP_SWEPT(submodules_become_methods), TP_SWEPT(a_second_result_makes_a_tuple),
         TP_SWEPT(a_constant_must_not_require_a_gradient))
