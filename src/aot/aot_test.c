/* aot_test.c - small programs studied, traced, split and run in place of themselves; no Python anywhere. */
#include "aot/trace.h"
#include "aot/wrapper.h"

#include "base/alloc.h"
#include "ir/run.h"
#include "trace/fake.h"
#include "trace/test_graphs.h"

/* A program of up to two tensors as C calls. */
typedef bool body(tp_scope *s, tp_tensor *a, tp_tensor *b, tp_value *out, uint32_t *count);
typedef struct program {
    body *run;
} program;

static bool call_body(void *context, const tp_value *in, uint32_t count, tp_list **out)
{
    tp_scope s;
    tp_value results[4];
    uint32_t made = 0;
    tp_scope_start(&s);
    bool ok = ((const program *)context)->run(&s, tp_as_tensor(in[0]), count > 1 ? tp_as_tensor(in[1]) : NULL, results, &made) && !s.failed;
    ok = ok && (*out = tp_list_new(made));
    for (uint32_t i = 0; ok && i < made; i++)
        (*out)->item[i] = tp_value_ref(results[i]);
    return tp_scope_end(&s) && ok;
}

static void print_graph(const tp_graph *g, tp_text *out)
{
    tp_graph_each(g, n)
    {
        tp_text_add(out, out->length ? "; " : "");
        test_print_node(n, out);
    }
}

static void expect_graph(const tp_graph *g, const char *want)
{
    tp_text text = { 0 };
    print_graph(g, &text);
    TP_EXPECT_TEXT(tp_text_read(&text), want);
    tp_text_fini(&text);
}

/* ---- code that is a plan ---- */
static bool call_plan(void *context, const tp_value *in, uint32_t count, tp_value *out, uint32_t results)
{
    return tp_plan_run_into(context, in, count, out, results);
}

static void free_plan(void *context)
{
    tp_plan_free(context);
}

static bool plan_of(tp_graph *g, tp_aot_code *out)
{
    tp_plan *p = tp_plan_new(g, NULL);
    *out = (tp_aot_code){ p, call_plan, free_plan };
    return p;
}

static bool compile_backward(void *host, tp_aot_code *out)
{
    return plan_of(host, out);
}

static void free_graph(void *host)
{
    tp_graph_unref(host);
}

/* ---- programs ---- */
static bool add_body(tp_scope *s, tp_tensor *a, tp_tensor *b, tp_value *out, uint32_t *count)
{
    *count = 1;
    out[0] = T(CALL(s, "mul.Tensor", T(CALL(s, "sin", T(a))), T(b)));
    return out[0].tag == TP_TENSOR;
}

static bool write_body(tp_scope *s, tp_tensor *a, tp_tensor *b, tp_value *out, uint32_t *count)
{
    *count = 2;
    CALL(s, "add_.Tensor", T(a), T(b));
    out[0] = T(CALL(s, "view", T(a), INTS(s, 4)));
    out[1] = T(a);
    return out[0].tag == TP_TENSOR;
}

static bool views_body(tp_scope *s, tp_tensor *a, tp_tensor *b, tp_value *out, uint32_t *count)
{
    tp_tensor *c = CALL(s, "mul.Tensor", T(a), T(b));
    *count = 2;
    out[0] = T(CALL(s, "view", T(c), INTS(s, 4)));
    out[1] = T(CALL(s, "t", T(c)));
    return out[0].tag == TP_TENSOR && out[1].tag == TP_TENSOR;
}

/* ---- one program all the way ---- */
typedef struct compiled {
    tp_aot_facts facts;
    tp_aot_trace trace;
    tp_aot_function *function;
    tp_graph *forward, *backward;
    bool thrifty;
} compiled;

static bool study(compiled *c, body *f, const tp_value *given, bool keep)
{
    program run = { f };
    tp_aot_program p = { &run, call_body };
    tp_aot_options options = { .keep_mutations = keep };
    tp_tensor *fake[2] = { tp_fake_of(given[0].tensor), tp_fake_of(given[1].tensor) };
    bool ok = fake[0] && fake[1];
    tp_value in[2] = { tp_of_tensor(fake[0]), tp_of_tensor(fake[1]) };
    tp_fake_mode mode = { 0 };
    tp_fake_enter(&mode);
    ok = ok && tp_aot_analyse(&p, (tp_aot_faces){ 0 }, in, given, 2, &options, &c->facts) &&
         tp_aot_trace_program(&p, in, &c->facts, NULL, &c->trace);
    tp_fake_leave(&mode);
    tp_tensor_unref(fake[0]);
    tp_tensor_unref(fake[1]);
    return ok;
}

static bool compile(compiled *c, body *f, const tp_value *given, bool keep, bool thrifty)
{
    uint32_t tensors = 0, sizes = 0;
    tp_aot_code code;
    *c = (compiled){ .thrifty = thrifty };
    if (!study(c, f, given, keep))
        return false;
    tp_graph *whole = tp_recorder_graph(c->trace.recorder);
    if (!c->facts.training)
        c->forward = tp_graph_ref(whole);
    else if (!tp_aot_partition(whole, c->trace.result_count, c->thrifty, &c->forward, &c->backward, &tensors, &sizes))
        return false;
    if (!plan_of(c->forward, &code) || !(c->function = tp_aot_function_new(&c->facts, code)))
        return false;
    c->function->saved_tensors = tensors;
    c->function->saved_sizes = sizes;
    if (c->backward) {
        c->function->host = tp_graph_ref(c->backward);
        c->function->free_host = free_graph;
        c->function->compile_backward = compile_backward;
    }
    return true;
}

static void compiled_fini(compiled *c)
{
    tp_aot_function_unref(c->function);
    tp_graph_unref(c->forward);
    tp_graph_unref(c->backward);
    tp_aot_trace_fini(&c->trace);
    tp_aot_facts_fini(&c->facts);
}

/* Two inputs; the first is no leaf and requires a gradient when asked. */
static void make_inputs(tp_scope *s, bool gradient, tp_tensor **leaf, tp_value *in)
{
    *leaf = test_square(s);
    tp_tensor *b = test_square(s);
    if (s->failed)
        return;
    if (gradient && !tp_set_requires_grad(*leaf, true))
        s->failed = true;
    in[0] = T(CALL(s, "mul.Tensor", T(*leaf), T(b)));
    in[1] = T(b);
}

/* The gradient of the leaf through the sum of a tensor. */
static tp_tensor *gradient_of(tp_scope *s, tp_tensor *y, tp_tensor *leaf)
{
    tp_tensor *sum = CALL(s, "sum", T(y));
    tp_edge root = { 0 }, input = { 0 };
    tp_value one = tp_none(), got = tp_none();
    if (s->failed || !tp_gradient_edge(sum, &root) || !tp_gradient_edge(leaf, &input))
        return NULL;
    tp_tensor *seed = tp_tensor_new_scalar(TP_f32, tp_scalar_int(1));
    one = tp_of_tensor(seed);
    tp_backward_request r = { .root = &root, .gradient = &one, .root_count = 1, .input = &input, .input_count = 1, .captured = &got };
    bool ok = seed && root.node && tp_backward_run(&r);
    tp_tensor_unref(seed);
    tp_grad_node_unref(root.node);
    tp_grad_node_unref(input.node);
    return ok ? test_own(s, tp_as_tensor(got)) : NULL;
}

static void expect_same(tp_scope *s, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *same = a && b ? CALL(s, "all", T(CALL(s, "eq.Tensor", T(a), T(b)))) : NULL;
    if (!s->failed && same)
        EXPECT_ELEMENTS(same, 1);
}

static void check_split(body *f, bool gradient, bool keep, bool thrifty, const char *forward, const char *backward)
{
    tp_scope s;
    compiled c = { 0 };
    tp_tensor *leaf = NULL, *eager_leaf = NULL;
    tp_value in[2] = { { 0 } }, eager_in[2] = { { 0 } }, out[4] = { { 0 } }, eager[4] = { { 0 } };
    uint32_t count = 0;
    tp_scope_start(&s);
    make_inputs(&s, gradient, &leaf, in);
    make_inputs(&s, gradient, &eager_leaf, eager_in);
    if (!s.failed && compile(&c, f, in, keep, thrifty) && tp_aot_function_call(c.function, in, out)) {
        expect_graph(c.forward, forward);
        TP_EXPECT(!c.backward || c.forward->node_count == c.forward->live_count);       /* nothing was copied to be erased */
        TP_EXPECT(!c.backward || c.backward->node_count == c.backward->live_count);
        if (c.backward)
            expect_graph(c.backward, backward);
        if (f(&s, eager_in[0].tensor, eager_in[1].tensor, eager, &count)) {
            for (uint32_t i = 0; i < count && !s.failed; i++) {
                TP_EXPECT(tp_requires_grad(out[i].tensor) == tp_requires_grad(eager[i].tensor));
                expect_same(&s, out[i].tensor, eager[i].tensor);
                if (gradient)
                    expect_same(&s, gradient_of(&s, out[i].tensor, leaf), gradient_of(&s, eager[i].tensor, eager_leaf));
            }
            expect_same(&s, in[0].tensor, eager_in[0].tensor);
        }
        tp_values_unref(out, c.function->facts.output_count);
    } else {
        TP_EXPECT(tp_test_quiet && "compiles and runs");
    }
    compiled_fini(&c);
    (void)tp_scope_end(&s);
}

static void check(body *f, bool gradient, bool keep, const char *forward, const char *backward)
{
    check_split(f, gradient, keep, false, forward, backward);
}

static bool chain_body(tp_scope *s, tp_tensor *a, tp_tensor *b, tp_value *out, uint32_t *count)
{
    tp_tensor *x = CALL(s, "add.Tensor", T(a), T(b));
    *count = 1;
    out[0] = T(CALL(s, "cos", T(CALL(s, "cos", T(x)))));
    return out[0].tag == TP_TENSOR;
}

TP_TEST(little_is_handed_over)
{
    check_split(chain_body, true, false, true,
                "primals_1 = placeholder; primals_2 = placeholder; add = add.Tensor(primals_1, primals_2); cos = cos(add); cos_1 = cos(cos); "
                "return [cos_1, add]",
                "add = placeholder; tangents_1 = placeholder; cos = cos(add); sin = sin(cos); neg = neg(sin); mul = mul.Tensor(tangents_1, neg); "
                "sin_1 = sin(add); neg_1 = neg(sin_1); mul_1 = mul.Tensor(mul, neg_1); return [mul_1, None]");
}

TP_TEST(inference_graph)
{
    check(add_body, false, false,
          "arg0_1 = placeholder; arg1_1 = placeholder; sin = sin(arg0_1); mul = mul.Tensor(sin, arg1_1); return (mul)", NULL);
}

TP_TEST(joint_graph_is_split)
{
    check(add_body, true, false,
          "primals_1 = placeholder; primals_2 = placeholder; sin = sin(primals_1); mul = mul.Tensor(sin, primals_2); "
          "return [mul, primals_1, primals_2]",
          "primals_1 = placeholder; primals_2 = placeholder; tangents_1 = placeholder; mul_1 = mul.Tensor(tangents_1, primals_2); "
          "cos = cos(primals_1); mul_2 = mul.Tensor(mul_1, cos); return [mul_2, None]");
}

TP_TEST(writes_are_returned)
{
    check(write_body, true, false,
          "primals_1 = placeholder; primals_2 = placeholder; clone = clone(primals_1); add = add.Tensor(clone, primals_2); "
          "view_1 = view(add, [4]); return [add, view_1, add]",
          "tangents_1 = placeholder; return [tangents_1, None]");
}

TP_TEST(writes_stay_in_the_graph)
{
    check(write_body, false, true,
          "arg0_1 = placeholder; arg1_1 = placeholder; add = add.Tensor(arg0_1, arg1_1); copy_ = copy_(arg0_1, add); view_1 = view(add, [4]); "
          "return (view_1, copy_)", NULL);
}

TP_TEST(bases_of_views_are_returned)
{
    check(views_body, true, false,
          "primals_1 = placeholder; primals_2 = placeholder; mul = mul.Tensor(primals_1, primals_2); view = view(mul, [4]); t = t(mul); "
          "return [view, t, mul, primals_2]",
          "primals_2 = placeholder; tangents_1 = placeholder; mul_1 = mul.Tensor(tangents_1, primals_2); return [mul_1, None]");
}

/* Four numbers from `at` on. */
static tp_value four_at(tp_scope *s, tp_tensor *t, int64_t at)
{
    return T(test_own(s, tp_tensor_view(t, 1, (int64_t[]){ 4 }, (int64_t[]){ 1 }, at)));
}

/* Two inputs that do not overlap are of one group through a third; what shares only the memory, or nothing, stands alone. */
TP_TEST(overlapping_inputs_are_faces)
{
    tp_scope s;
    tp_aot_faces faces = { 0 };
    tp_aot_input input[5] = { [3] = { .data = true } };
    tp_aot_facts facts = { .input = input, .input_count = 5 };
    tp_scope_start(&s);
    tp_tensor *t = test_own(&s, tp_tensor_new(TP_f32, 1, (int64_t[]){ 12 })), *other = test_own(&s, tp_tensor_new(TP_f32, 1, (int64_t[]){ 4 }));
    if (!s.failed) {
        tp_value in[5] = { four_at(&s, t, 0), T(other), four_at(&s, t, 4), four_at(&s, t, 2), four_at(&s, t, 8) };
        static const uint32_t want[5] = { 0, 1, 0, 0, 2 };
        bool found = !s.failed && tp_aot_faces_find(in, 5, &facts, &faces);
        for (uint32_t i = 0; found && i < 5; i++)
            TP_EXPECT(faces.item && faces.item[i].input == want[i] && faces.item[i].view == (want[i] == 0));
        tp_aot_faces_fini(&faces);
        input[3].data = false;
        if (found && tp_aot_faces_find(in, 5, &facts, &faces))
            TP_EXPECT(!faces.item);
    }
    (void)tp_scope_end(&s);
}

TP_TEST(a_joint_graph_has_its_results)
{
    tp_graph *g = tp_graph_new(), *a, *b;
    uint32_t tensors, sizes;
    if (g && tp_graph_output(g, tp_none()))
        TP_EXPECT(!tp_aot_partition(g, 1, false, &a, &b, &tensors, &sizes) && tp_error_kind() == TP_ERR_RUNTIME);
    tp_error_clear();
    tp_graph_unref(g);
}

TP_TESTS(TP_SWEPT(little_is_handed_over), TP_SWEPT(inference_graph), TP_SWEPT(joint_graph_is_split), TP_SWEPT(writes_are_returned), TP_SWEPT(writes_stay_in_the_graph),
         TP_SWEPT(bases_of_views_are_returned), TP_SWEPT(overlapping_inputs_are_faces), TP_SWEPT(a_joint_graph_has_its_results))
