/* autocast_test.c - which ops are cast, to what, and how often. */
#include "grad/test_grads.h"
#include "trace/autocast.h"

static tp_tensor *square(tp_scope *s, tp_dtype d)
{
    return CALL(s, "clone", T(CALL(s, "view", T(test_vector(s, d, 4, (double[]){ 1, 2, 3, 4 })), INTS(s, 2, 2))));
}

static void expect_dtype(const tp_tensor *t, tp_dtype want)
{
    if (t)
        TP_EXPECT(t->dtype == want);
}

TP_TEST(lists_decide_the_type)
{
    static const struct { tp_dtype region, in, mm, loss, neg; } row[] = {
        { TP_bf16, TP_f32, TP_bf16, TP_f32, TP_f32 },
        { TP_f16, TP_f32, TP_f16, TP_f32, TP_f32 },
        { TP_bf16, TP_bf16, TP_bf16, TP_f32, TP_bf16 },
        { TP_bf16, TP_f64, TP_f64, TP_f64, TP_f64 },        /* doubles are left alone */
    };
    for (size_t r = 0; r < TP_COUNT(row); r++) {
        tp_scope s;
        tp_autocast_state state;
        tp_scope_start(&s);
        tp_tensor *x = square(&s, row[r].in), *target = test_vector(&s, TP_i64, 2, (double[]){ 0, 1 });
        tp_autocast_enter(&state, true, row[r].region, true);
        expect_dtype(CALL(&s, "mm", T(x), T(x)), row[r].mm);
        expect_dtype(CALL(&s, "matmul", T(x), T(x)), row[r].mm);
        expect_dtype(CALL(&s, "cross_entropy_loss", T(x), T(target)), row[r].loss);
        expect_dtype(CALL(&s, "neg", T(x)), row[r].neg);
        tp_autocast_leave(&state);
        expect_dtype(CALL(&s, "mm", T(x), T(x)), row[r].in);
        TP_EXPECT(!tp_self.autocast && tp_self.active == 0);
        (void)tp_scope_end(&s);
    }
}

TP_TEST(promoting_ops_take_the_widest)
{
    tp_scope s;
    tp_autocast_state state;
    tp_scope_start(&s);
    tp_tensor *single = square(&s, TP_f32), *half = square(&s, TP_bf16);
    tp_value mixed = s.failed ? tp_none() : tp_scope_own(&s, tp_value_tensors((tp_tensor *[]){ half, single }, 2));
    tp_value halves = s.failed ? tp_none() : tp_scope_own(&s, tp_value_tensors((tp_tensor *[]){ half, half }, 2));
    if (!s.failed && (mixed.tag != TP_LIST || halves.tag != TP_LIST))
        s.failed = true;
    tp_autocast_enter(&state, true, TP_bf16, true);
    expect_dtype(CALL(&s, "cat", mixed), TP_f32);
    expect_dtype(CALL(&s, "cat", halves), TP_bf16);
    tp_autocast_leave(&state);
    (void)tp_scope_end(&s);
}

TP_TEST(regions_nest)
{
    tp_scope s;
    tp_autocast_state outer, off, inner;
    tp_scope_start(&s);
    tp_tensor *x = square(&s, TP_f32);
    tp_autocast_enter(&outer, true, TP_bf16, true);
    tp_autocast_enter(&off, false, TP_bf16, true);
    expect_dtype(CALL(&s, "mm", T(x), T(x)), TP_f32);
    tp_autocast_enter(&inner, true, TP_f16, true);
    expect_dtype(CALL(&s, "mm", T(x), T(x)), TP_f16);
    tp_autocast_leave(&inner);
    expect_dtype(CALL(&s, "mm", T(x), T(x)), TP_f32);
    tp_autocast_leave(&off);
    expect_dtype(CALL(&s, "mm", T(x), T(x)), TP_bf16);
    tp_autocast_leave(&outer);
    (void)tp_scope_end(&s);
}

/* A weight is cast once until the outermost region ends; what is no leaf is cast each time. */
TP_TEST(casts_of_leaves_are_kept)
{
    tp_scope s;
    tp_autocast_state outer, inner;
    tp_scope_start(&s);
    tp_tensor *w = test_leaf(&s, square(&s, TP_f32)), *x = square(&s, TP_f32);
    tp_autocast_enter(&outer, true, TP_bf16, true);
    CALL(&s, "mm", T(x), T(w));
    if (!s.failed)
        TP_EXPECT(outer.kept_count == 1 && outer.kept[0].from == w && outer.kept[0].to->dtype == TP_bf16);
    const tp_tensor *kept = outer.kept_count ? outer.kept[0].to : NULL;
    tp_autocast_enter(&inner, true, TP_bf16, true);
    CALL(&s, "mm", T(x), T(w));
    if (!s.failed)
        TP_EXPECT(inner.kept_count == 0);
    tp_autocast_leave(&inner);
    CALL(&s, "mm", T(w), T(w));
    if (!s.failed)
        TP_EXPECT(outer.kept_count == 1 && outer.kept[0].to == kept);
    tp_autocast_enter(&inner, true, TP_f16, true);          /* another type, another cast */
    CALL(&s, "mm", T(x), T(w));
    tp_autocast_leave(&inner);
    if (!s.failed)
        TP_EXPECT(outer.kept_count == 2);
    tp_autocast_clear();
    TP_EXPECT(outer.kept_count == 0);
    tp_autocast_enter(&inner, true, TP_bf16, false);        /* no cache */
    CALL(&s, "mm", T(x), T(w));
    tp_autocast_leave(&inner);
    TP_EXPECT(outer.kept_count == 0);
    tp_autocast_leave(&outer);
    (void)tp_scope_end(&s);
}

TP_TEST(gradients_come_back_in_the_leafs_type)
{
    tp_scope s;
    tp_autocast_state state;
    tp_scope_start(&s);
    tp_tensor *w = test_leaf(&s, square(&s, TP_f32)), *x = square(&s, TP_f32);
    tp_autocast_enter(&state, true, TP_bf16, true);
    tp_tensor *y = CALL(&s, "add.Tensor", T(CALL(&s, "mm", T(x), T(w))), T(CALL(&s, "mm", T(x), T(w))));
    expect_dtype(y, TP_bf16);
    tp_autocast_leave(&state);
    test_backward(&s, y, NULL, 0);
    EXPECT_ELEMENTS(test_grad_of(w), 8, 8, 12, 12);
    expect_dtype(test_grad_of(w), TP_f32);
    (void)tp_scope_end(&s);
}

TP_TESTS(TP_SWEPT(lists_decide_the_type), TP_SWEPT(promoting_ops_take_the_widest), TP_SWEPT(regions_nest),
         TP_SWEPT(casts_of_leaves_are_kept), TP_SWEPT(gradients_come_back_in_the_leafs_type))
