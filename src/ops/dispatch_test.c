/* dispatch_test.c - which layer has a call, and what is shut inside it. Layers here only write down that they were met. */
#include "base/test.h"
#include "ops/dispatch.h"

/* ---- an op and layers that leave a trace ---- */

static struct { char met[64]; int count; const tp_op *inner; uint32_t allowed; } trace;

static void met(char letter)
{
    if (trace.count < 63)
        trace.met[trace.count++] = letter;
}

static bool run_leaf(const tp_op *op, const tp_value *arg, tp_value *result)
{
    (void)op;
    met('k');
    trace.allowed = tp_self.allowed;
    *result = tp_value_ref(arg[0]);
    return true;
}

static bool run_failing(const tp_op *op, const tp_value *arg, tp_value *result)
{
    (void)op, (void)arg, (void)result;
    met('!');
    return tp_fail(TP_ERR_VALUE, "as asked");
}

/* Opens into a call of trace.inner. */
static bool run_opening(const tp_op *op, const tp_value *arg, tp_value *result)
{
    (void)op;
    met('o');
    return tp_call(trace.inner, arg, result);
}

#define LAYER(name, letter, id)                                                             \
    static bool name(const tp_op *op, const tp_value *arg, tp_value *result)                \
    {                                                                                       \
        met(letter);                                                                        \
        return tp_call_below(id, op, arg, result);                                          \
    }
LAYER(at_signs, 'S', TP_LAYER_SIGNS)
LAYER(at_fake, 'F', TP_LAYER_FAKE)
LAYER(at_r, 'R', TP_LAYER_TRACE_R)
LAYER(at_dispatch, 'D', TP_LAYER_DISPATCH)
LAYER(at_grad, 'G', TP_LAYER_GRAD)
LAYER(at_jit, 'J', TP_LAYER_JIT)
LAYER(at_autocast, 'A', TP_LAYER_AUTOCAST)
LAYER(at_transform, 'T', TP_LAYER_TRANSFORM)
LAYER(at_p, 'P', TP_LAYER_TRACE_P)

static tp_layer layer[TP_LAYER_COUNT] = {
    [TP_LAYER_SIGNS] = { "signs", at_signs, 0 }, [TP_LAYER_FAKE] = { "fake", at_fake, 0 }, [TP_LAYER_TRACE_R] = { "r", at_r, 0 }, [TP_LAYER_DISPATCH] = { "dispatch", at_dispatch, 0 },
    [TP_LAYER_GRAD] = { "grad", at_grad, 0 }, [TP_LAYER_JIT] = { "jit", at_jit, 0 }, [TP_LAYER_AUTOCAST] = { "autocast", at_autocast, 0 },
    [TP_LAYER_TRANSFORM] = { "transform", at_transform, 0 }, [TP_LAYER_TRACE_P] = { "p", at_p, 0 },
};

typedef struct stage {
    const tp_layer *before[TP_COUNT(tp_the_runtime.layer)];
    tp_op  leaf, other, opening, failing;
    tp_arg arg[2];
    tp_tensor *t;
} stage;

static bool set(stage *s)
{
    memcpy(s->before, tp_the_runtime.layer, sizeof s->before);
    for (int i = 1; i < TP_LAYER_COUNT; i++) {
        layer[i].shuts = 0;
        tp_the_runtime.layer[i] = &layer[i];
    }
    s->arg[0] = (tp_arg){ .name = "a", .type = TP_TYPE_TENSOR };
    s->arg[1] = (tp_arg){ .name = "more", .type = TP_TYPE_TENSOR, .list = true };
    s->leaf = (tp_op){ .space = "tested", .name = "leaf", .overload = "", .arg = s->arg, .arg_count = 2, .result_count = 1,
                       .kind = TP_LIKE_OPAQUE, .flags = TP_OP_RUNTIME, .run = run_leaf, .work = &tp_no_work, .gradient = &tp_no_gradient,
                       .rare = &tp_no_rare };
    s->other = s->opening = s->failing = s->leaf;
    s->opening.run = s->opening.open = run_opening;
    s->failing.run = run_failing;
    trace.inner = &s->leaf;
    return (s->t = tp_tensor_new(TP_f32, 0, NULL)) != NULL;
}

static void strike(stage *s)
{
    memcpy(tp_the_runtime.layer, s->before, sizeof s->before);
    tp_self.active = 0;
    tp_tensor_unref(s->t);
}

/* Calls and compares the trace. */
static void expect_trace(const tp_op *op, tp_tensor *t, tp_value list, const char *want)
{
    tp_value arg[2] = { tp_of_tensor(t), list }, result;
    memset(trace.met, 0, sizeof trace.met);
    trace.count = 0;
    uint32_t allowed = tp_self.allowed, active = tp_self.active;
    if (tp_call(op, arg, &result))
        tp_value_unref(result);
    TP_EXPECT_TEXT(trace.met, want);
    TP_EXPECT(tp_self.allowed == allowed && tp_self.active == active);
}

/* ---- tests ---- */

TP_TEST(layers_are_met_from_the_top)
{
    stage s;
    TP_NEED(set(&s));
    expect_trace(&s.leaf, s.t, tp_none(), "k");
    tp_self.active = TP_ALL_LAYERS;
    expect_trace(&s.leaf, s.t, tp_none(), "PTAJGDRFSk");
    tp_self.active = TP_LAYER_BIT(TP_LAYER_JIT) | TP_LAYER_BIT(TP_LAYER_TRACE_R);
    expect_trace(&s.leaf, s.t, tp_none(), "JRk");
out:
    strike(&s);
}

TP_TEST(arguments_and_ops_ask_for_layers)
{
    stage s;
    tp_value list = tp_none();
    TP_NEED(set(&s));
    s.t->keys |= TP_LAYER_BIT(TP_LAYER_GRAD) | TP_KEY_NUMBER;
    expect_trace(&s.leaf, s.t, tp_none(), "Gk");
    TP_NEED((list = tp_value_tensors(&s.t, 1)).tag);
    expect_trace(&s.leaf, NULL, list, "Gk");
    s.leaf.layers = TP_LAYER_BIT(TP_LAYER_FAKE);
    expect_trace(&s.leaf, NULL, tp_none(), "Fk");
    expect_trace(&s.leaf, s.t, tp_none(), "GFk");
out:
    tp_value_unref(list);
    strike(&s);
}

/* Below for the same op is below for what it calls, too. */
TP_TEST(what_a_kernel_calls_starts_below_the_layers_it_passed)
{
    stage s;
    TP_NEED(set(&s));
    tp_self.active = TP_LAYER_BIT(TP_LAYER_AUTOCAST);
    expect_trace(&s.opening, s.t, tp_none(), "Aok");
    s.leaf.layers = TP_LAYER_BIT(TP_LAYER_FAKE) | TP_LAYER_BIT(TP_LAYER_TRACE_P);
    expect_trace(&s.opening, s.t, tp_none(), "AoFk");
out:
    strike(&s);
}

static bool open_here(const tp_op *op, const tp_value *arg, tp_value *result)
{
    met('A');
    return op->open ? tp_call_open(op, arg, result) : tp_call_below(TP_LAYER_AUTOCAST, op, arg, result);
}

static bool pass_on(const tp_op *op, const tp_value *arg, tp_value *result)
{
    met('A');
    return tp_call_past(TP_LAYER_AUTOCAST, op, arg, result);
}

/* What a layer opens starts at the top again, that layer included, unless it shuts itself. */
TP_TEST(openings_start_at_the_top_of_what_is_not_shut)
{
    stage s;
    TP_NEED(set(&s));
    layer[TP_LAYER_AUTOCAST].call = open_here;
    tp_self.active = TP_LAYER_BIT(TP_LAYER_AUTOCAST) | TP_LAYER_BIT(TP_LAYER_GRAD);
    expect_trace(&s.opening, s.t, tp_none(), "AoAGk");
    layer[TP_LAYER_AUTOCAST].shuts = TP_LAYER_BIT(TP_LAYER_AUTOCAST);
    expect_trace(&s.opening, s.t, tp_none(), "AoGk");
    layer[TP_LAYER_AUTOCAST].shuts = TP_LAYER_BIT(TP_LAYER_AUTOCAST) | TP_LAYER_BIT(TP_LAYER_GRAD);
    expect_trace(&s.opening, s.t, tp_none(), "Aok");
    tp_self.active |= TP_LAYER_BIT(TP_LAYER_TRACE_P);           /* P has passed: it is not met again */
    expect_trace(&s.opening, s.t, tp_none(), "PAok");
out:
    layer[TP_LAYER_AUTOCAST].call = at_autocast;
    strike(&s);
}

/* A layer that has nothing to do with an op is met again by what that op calls. */
TP_TEST(a_layer_that_passes_is_met_again)
{
    stage s;
    TP_NEED(set(&s));
    layer[TP_LAYER_AUTOCAST].call = pass_on;
    tp_self.active = TP_LAYER_BIT(TP_LAYER_AUTOCAST);
    expect_trace(&s.opening, s.t, tp_none(), "AoAk");
    layer[TP_LAYER_GRAD].shuts = TP_LAYER_BIT(TP_LAYER_GRAD);
    tp_self.active |= TP_LAYER_BIT(TP_LAYER_FAKE);
    expect_trace(&s.leaf, s.t, tp_none(), "AFk");
out:
    layer[TP_LAYER_AUTOCAST].call = at_autocast;
    strike(&s);
}

TP_TEST(failures_restore_what_was_shut)
{
    stage s;
    TP_NEED(set(&s));
    tp_self.active = TP_ALL_LAYERS;
    layer[TP_LAYER_GRAD].shuts = TP_ALL_LAYERS;
    expect_trace(&s.failing, s.t, tp_none(), "PTAJG!");
    TP_EXPECT_TEXT(tp_error_text(), "as asked");
    tp_the_runtime.layer[TP_LAYER_JIT] = NULL;
    expect_trace(&s.leaf, s.t, tp_none(), "PTA");
    TP_EXPECT(tp_error_kind() == TP_ERR_UNIMPLEMENTED);
    tp_error_clear();
    tp_value arg[2] = { tp_of_tensor(s.t), tp_none() }, result;
    TP_EXPECT(!tp_call_open(&s.leaf, arg, &result));
    TP_EXPECT_TEXT(tp_error_text(), "tested::leaf has no decomposition");
out:
    strike(&s);
}

TP_TESTS(TP_SWEPT(layers_are_met_from_the_top), TP_SWEPT(arguments_and_ops_ask_for_layers),
         TP_SWEPT(what_a_kernel_calls_starts_below_the_layers_it_passed), TP_SWEPT(openings_start_at_the_top_of_what_is_not_shut),
         TP_SWEPT(a_layer_that_passes_is_met_again), TP_SWEPT(failures_restore_what_was_shut))
