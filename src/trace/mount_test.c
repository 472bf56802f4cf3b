/* mount_test.c - tracers above and below autograd, the jit recorder, the transform stack: who sees which call. */
#include "grad/test_grads.h"
#include "trace/autocast.h"
#include "trace/mount.h"

/* A mount that writes down its letter and the name of the op, and lets the call go on. */
typedef struct watch {
    tp_mount base;
    char letter;
} watch;

static struct { char text[400]; } seen;

static bool watch_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    size_t n = strlen(seen.text);
    snprintf(seen.text + n, sizeof seen.text - n, "%s%c:%s", n ? " " : "", ((watch *)(void *)m)->letter, op->name);
    return tp_mount_next(m, op, arg, result);
}

static watch *push(watch *w, char letter, tp_layer_id layer)
{
    *w = (watch){ .base = { .call = watch_call }, .letter = letter };
    tp_mount_push(&w->base, layer);
    return w;
}

static void expect_seen(const tp_scope *s, const char *want)
{
    if (!s->failed)
        TP_EXPECT_TEXT(seen.text, want);
    seen.text[0] = 0;
}

/* pair(a, b): a composite that no list of autocast names, of mm and neg. */
static bool open_pair(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_scope s;
    (void)op;
    tp_scope_start(&s);
    tp_value product = tp_scope_call(&s, test_op("mm"), arg);
    tp_scope_keep(&s, result, tp_scope_call(&s, test_op("neg"), (tp_value[]){ product }));
    return tp_scope_end(&s);
}

static const tp_arg pair_arg[] = { { .name = "a", .type = TP_TYPE_TENSOR }, { .name = "b", .type = TP_TYPE_TENSOR } };
static const tp_arg pair_result[] = { { .name = "", .type = TP_TYPE_TENSOR } };
static const tp_op pair = { .space = "tested", .name = "pair", .overload = "", .arg = pair_arg, .result = pair_result, .arg_count = 2,
                            .positional_count = 2, .result_count = 1, .kind = TP_LIKE_COMPOSITE, .run = open_pair, .open = open_pair,
                            .work = &tp_no_work, .gradient = &tp_no_gradient, .rare = &tp_no_rare };

static tp_tensor *call_pair(tp_scope *s, tp_tensor *a, tp_tensor *b)
{
    return tp_as_tensor(tp_scope_call(s, &pair, (tp_value[]){ T(a), T(b) }));
}

static tp_tensor *square(tp_scope *s)
{
    return CALL(s, "clone", T(CALL(s, "view", T(VECTOR(s, 1, 2, 3, 4)), INTS(s, 2, 2))));
}

/* Above autograd a composite is recorded whole, below it in pieces. */
TP_TEST(tracers_see_composites_above_and_pieces_below)
{
    tp_scope s;
    watch p, r;
    tp_scope_start(&s);
    tp_tensor *x = test_leaf(&s, square(&s));
    push(&p, 'P', TP_LAYER_TRACE_P);
    tp_tensor *y = call_pair(&s, x, x);
    expect_seen(&s, "P:pair");
    push(&r, 'R', TP_LAYER_TRACE_R);
    y = call_pair(&s, x, x);
    expect_seen(&s, "P:pair R:mm R:neg");
    tp_mount_pop(&p.base);
    y = call_pair(&s, x, x);
    expect_seen(&s, "R:mm R:neg");
    EXPECT_ELEMENTS(GRAD(&s, y, 0, x), -7, -11, -9, -13);
    if (!s.failed)
        TP_EXPECT(strncmp(seen.text, "R:ones_like R:neg", 17) == 0);        /* backward is seen below too */
    seen.text[0] = 0;
    tp_mount_pop(&r.base);
    CALL(&s, "neg", T(x));
    expect_seen(&s, "");
    TP_EXPECT(tp_self.active == 0);
    (void)tp_scope_end(&s);
}

TP_TEST(stacked_tracers_see_a_call_once_each)
{
    tp_scope s;
    watch a, b;
    tp_scope_start(&s);
    tp_tensor *x = square(&s);
    push(&a, 'a', TP_LAYER_TRANSFORM);
    push(&b, 'b', TP_LAYER_TRANSFORM);
    CALL(&s, "neg", T(x));
    expect_seen(&s, "b:neg a:neg");
    TP_EXPECT(tp_self.transforms == &b.base);
    tp_mount_pop(&b.base);
    CALL(&s, "neg", T(x));
    expect_seen(&s, "a:neg");
    tp_mount_pop(&a.base);
    TP_EXPECT(tp_self.active == 0 && !tp_self.transforms);
    (void)tp_scope_end(&s);
}

/* What a level calls itself meets the levels below it, not itself. */
static bool double_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_value first;
    if (!watch_call(m, op, arg, &first))
        return false;
    tp_value one[1] = { first };
    bool ok = tp_call(test_op("neg"), one, result);
    tp_value_unref(first);
    return ok;
}

TP_TEST(a_level_calls_through_the_popped_stack)
{
    tp_scope s;
    watch a, b;
    tp_scope_start(&s);
    tp_tensor *x = VECTOR(&s, 0);
    push(&a, 'a', TP_LAYER_TRANSFORM);
    push(&b, 'b', TP_LAYER_TRANSFORM)->base.call = double_call;
    tp_tensor *y = CALL(&s, "exp", T(x));
    expect_seen(&s, "b:exp a:exp a:neg");
    tp_mount_pop(&b.base);
    tp_mount_pop(&a.base);
    EXPECT_ELEMENTS(y, -1);
    (void)tp_scope_end(&s);
}

TP_TEST(the_recorder_sees_the_outermost_op_only)
{
    tp_scope s;
    watch j;
    tp_scope_start(&s);
    tp_tensor *x = test_leaf(&s, square(&s));
    push(&j, 'J', TP_LAYER_JIT);
    tp_tensor *y = call_pair(&s, x, x);
    expect_seen(&s, "J:pair");
    if (!s.failed)
        TP_EXPECT_TEXT(test_node_name(y), "NegBackward0");
    CALL(&s, "neg", T(y));
    expect_seen(&s, "J:neg");
    tp_mount_pop(&j.base);
    (void)tp_scope_end(&s);
}

/* PyTorch's graph of a tensordot traced under autocast has the tensordot alone, yet its result is bf16. */
TP_TEST(autocast_acts_inside_a_recorded_composite)
{
    for (int leaf = 0; leaf < 2; leaf++) {
        tp_scope s;
        watch j, r;
        tp_autocast_state state;
        tp_scope_start(&s);
        tp_tensor *x = leaf ? test_leaf(&s, square(&s)) : square(&s), *y = square(&s);
        tp_autocast_enter(&state, true, TP_bf16, false);
        tp_tensor *z = call_pair(&s, x, y);
        if (!s.failed)
            TP_EXPECT(z->dtype == TP_bf16);
        push(&j, 'J', TP_LAYER_JIT);
        z = call_pair(&s, x, y);
        expect_seen(&s, "J:pair");
        if (!s.failed)
            TP_EXPECT(z->dtype == TP_bf16);
        CALL(&s, "mm", T(x), T(y));                     /* a listed op is cast first, and the casts are recorded */
        expect_seen(&s, "J:_to_copy J:_to_copy J:mm");
        tp_mount_pop(&j.base);
        push(&r, 'R', TP_LAYER_TRACE_R);
        z = call_pair(&s, x, y);
        expect_seen(&s, "R:_to_copy R:_to_copy R:mm R:neg");
        tp_mount_pop(&r.base);
        tp_autocast_leave(&state);
        TP_EXPECT(tp_self.active == 0);
        EXPECT_ELEMENTS(z, -7, -10, -15, -22);
        (void)tp_scope_end(&s);
    }
}

static bool failing_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    (void)m, (void)arg, (void)result;
    return tp_fail(TP_ERR_VALUE, "no %s", op->name);
}

TP_TEST(a_failing_mount_is_put_back)
{
    static const tp_layer_id place[] = { TP_LAYER_TRACE_P, TP_LAYER_TRANSFORM, TP_LAYER_JIT, TP_LAYER_TRACE_R };
    for (size_t i = 0; i < TP_COUNT(place); i++) {
        tp_scope s;
        watch w, outer;
        tp_scope_start(&s);
        tp_tensor *x = VECTOR(&s, 1);
        push(&outer, 'o', place[i]);
        push(&w, 'w', place[i])->base.call = failing_call;
        uint32_t allowed = tp_self.allowed;
        EXPECT_ERROR(&s, "no neg", "neg", T(x));
        TP_EXPECT(tp_self.allowed == allowed && (tp_self.active & TP_LAYER_BIT(place[i])));
        tp_mount_pop(&w.base);
        CALL(&s, "neg", T(x));
        expect_seen(&s, "o:neg");
        tp_mount_pop(&outer.base);
        TP_EXPECT(tp_self.active == 0);
        (void)tp_scope_end(&s);
    }
}

TP_TESTS(TP_SWEPT(tracers_see_composites_above_and_pieces_below), TP_SWEPT(stacked_tracers_see_a_call_once_each),
         TP_SWEPT(a_level_calls_through_the_popped_stack), TP_SWEPT(the_recorder_sees_the_outermost_op_only),
         TP_SWEPT(autocast_acts_inside_a_recorded_composite), TP_SWEPT(a_failing_mount_is_put_back))
