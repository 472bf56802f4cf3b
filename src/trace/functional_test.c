/* functional_test.c - programs that write, recorded without writes; each is also run and compared with its eager run. */
#include "trace/functional.h"

#include "grad/test_grads.h"
#include "ops/derived.h"
#include "trace/test_graphs.h"

/* The registry's own struct lives as long as the process; it is made here, so that no test seems to leak it. */
static void make_registry(void)
{
    tp_op *op = tp_op_define("testlib", "first() -> ()");
    if (op)
        tp_op_undefine(op);
}

/* A program of one tensor; it may write into it. */
typedef tp_tensor *program(tp_scope *s, tp_tensor *x);

/* Runs f on a wrapper of x, mounted at `layer`, above a recorder at R. */
static void check(program *f, tp_layer_id layer, const char *want, tp_functional_changes changes)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s), *eager_x = test_square(&s), *eager = f(&s, eager_x);
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_functional *fun = s.failed ? NULL : tp_functional_new();
    tp_tensor *w = fun ? test_own(&s, tp_functional_wrap(fun, x)) : NULL, *value = NULL;
    if (w) {
        tp_functional_enter(fun, layer);
        tp_tensor *y = f(&s, w);
        tp_functional_leave(fun);
        value = y ? test_own(&s, tp_functional_value(fun, y)) : NULL;
        tp_tensor *now = value ? test_own(&s, tp_functional_value(fun, w)) : NULL;
        tp_functional_changes got = tp_functional_changes_of(fun, w);
        if (now && !s.failed) {
            TP_EXPECT(got.data == changes.data && got.hidden == changes.hidden && got.no_grad == changes.no_grad && got.metadata == changes.metadata);
            tp_tensor *same = CALL(&s, "all", T(CALL(&s, "eq.Tensor", T(value), T(eager))));
            EXPECT_ELEMENTS(same, 1);
            same = CALL(&s, "all", T(CALL(&s, "eq.Tensor", T(now), T(eager_x))));
            EXPECT_ELEMENTS(same, 1);
        }
    }
    if (r)
        tp_recorder_leave(r);
    if (r && !s.failed) {
        /* The two comparisons above were recorded too: what the program made ends before them. */
        tp_text text = { 0 };
        tp_graph_each(tp_recorder_graph(r), n)
        {
            if (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP && strcmp(n->target.op->name, "eq") == 0)
                break;
            if (n->kind == TP_GET_ATTR)
                break;
            tp_text_add(&text, text.length ? "; " : "");
            test_print_node(n, &text);
        }
        TP_EXPECT_TEXT(tp_text_read(&text), want);
        tp_text_fini(&text);
    }
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
    tp_functional_free(fun);
}

static tp_tensor *write_input(tp_scope *s, tp_tensor *x)
{
    CALL(s, "add_.Tensor", T(x), T(x));
    return CALL(s, "mul_.Tensor", T(x), T(x));
}

static tp_tensor *write_view(tp_scope *s, tp_tensor *x)
{
    tp_tensor *y = CALL(s, "clone", T(x)), *z = CALL(s, "select.int", T(y), I(0), I(0));
    CALL(s, "add_.Tensor", T(z), T(z));
    CALL(s, "neg_", T(y));
    return CALL(s, "add.Tensor", T(y), T(z));
}

static tp_tensor *write_deep_view(tp_scope *s, tp_tensor *x)
{
    tp_tensor *y = CALL(s, "clone", T(x));
    CALL(s, "neg_", T(CALL(s, "select.int", T(CALL(s, "t", T(y))), I(0), I(0))));
    return y;
}

static tp_tensor *write_part(tp_scope *s, tp_tensor *x)
{
    tp_value parts = CALL_VALUE(s, "unbind.int", T(x));
    if (!s->failed)
        CALL(s, "neg_", parts.list->item[1]);
    return x;
}

static tp_tensor *write_detached(tp_scope *s, tp_tensor *x)
{
    CALL(s, "neg_", T(CALL(s, "detach", T(x))));
    return x;
}

static tp_tensor *write_composite(tp_scope *s, tp_tensor *x)
{
    return CALL(s, "linear", T(CALL(s, "zero_", T(CALL(s, "reshape", T(x), INTS(s, 2, 2))))), T(CALL(s, "neg", T(x))), tp_none());
}

TP_TEST(writes_become_values)
{
    check(write_input, TP_LAYER_TRACE_R, "x_1 = placeholder; add = add.Tensor(x_1, x_1); mul = mul.Tensor(add, add)",
          (tp_functional_changes){ .data = true });
    check(write_input, TP_LAYER_TRANSFORM, "x_1 = placeholder; add = add.Tensor(x_1, x_1); mul = mul.Tensor(add, add)",
          (tp_functional_changes){ .data = true });
}

TP_TEST(writes_through_views_reach_the_base)
{
    check(write_view, TP_LAYER_TRACE_R, "x_1 = placeholder; clone = clone(x_1); select = select.int(clone, 0, 0); add = add.Tensor(select, select); "
          "select_scatter = select_scatter(clone, add, 0, 0); select_1 = select.int(select_scatter, 0, 0); neg = neg(select_scatter); "
          "select_2 = select.int(neg, 0, 0); add_1 = add.Tensor(neg, select_2)", (tp_functional_changes){ 0 });
    check(write_deep_view, TP_LAYER_TRACE_R, "x_1 = placeholder; clone = clone(x_1); t = t(clone); select = select.int(t, 0, 0); neg = neg(select); "
          "t_1 = t(clone); select_scatter = select_scatter(t_1, neg, 0, 0); t_2 = t(select_scatter); t_3 = t(t_2); select_1 = select.int(t_3, 0, 0)",
          (tp_functional_changes){ 0 });
    check(write_part, TP_LAYER_TRACE_R, "x_1 = placeholder; unbind = unbind.int(x_1); getitem = getitem(unbind, 0); getitem_1 = getitem(unbind, 1); "
          "neg = neg(getitem_1); select_scatter = select_scatter(x_1, neg, 0, 1); unbind_1 = unbind.int(select_scatter); "
          "getitem_2 = getitem(unbind_1, 0); getitem_3 = getitem(unbind_1, 1)", (tp_functional_changes){ .data = true });
}

TP_TEST(writes_hidden_from_autograd)
{
    check(write_detached, TP_LAYER_TRACE_R, "x_1 = placeholder; detach = detach(x_1); detach_1 = detach(detach); detach_2 = detach(detach_1); neg = neg(detach_2); detach_3 = detach(neg)",
          (tp_functional_changes){ .data = true, .hidden = true, .no_grad = true });
    tp_self.grad_mode = false;
    check(write_input, TP_LAYER_TRACE_R, "x_1 = placeholder; add = add.Tensor(x_1, x_1); mul = mul.Tensor(add, add)",
          (tp_functional_changes){ .data = true, .no_grad = true });
    tp_self.grad_mode = true;
}

TP_TEST(composites_are_opened)
{
    check(write_composite, TP_LAYER_TRACE_R, "x_1 = placeholder; view = view(x_1, [2, 2]); zero = zero(view); view_1 = view(zero, [2, 2]); "
          "view_2 = view(view_1, [2, 2]); neg = neg(view_1); t = t(neg); mm = mm(view_2, t)", (tp_functional_changes){ .data = true });
}

/* As ahead-of-time autograd traces: the tape above works on wrappers, the recorder below sees plain calls. */
TP_TEST(gradients_through_writes)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s), *value = NULL;
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_R);
    tp_functional *f = s.failed ? NULL : tp_functional_new();
    tp_tensor *w = f ? test_own(&s, tp_functional_wrap(f, x)) : NULL;
    if (w) {
        tp_functional_enter(f, TP_LAYER_TRACE_R);
        test_leaf(&s, w);
        tp_tensor *y = CALL(&s, "sin", T(w)), *row = CALL(&s, "select.int", T(y), I(0), I(0));
        CALL(&s, "mul_.Scalar", T(row), I(3));
        tp_tensor *g = GRAD(&s, CALL(&s, "sum", T(CALL(&s, "sigmoid", T(y)))), 0, w);
        tp_functional_leave(f);
        value = g ? test_own(&s, tp_functional_value(f, g)) : NULL;
    }
    test_record_end(&s, r, value);
    if (r && !s.failed) {
        bool writes = false;
        tp_graph_each(tp_recorder_graph(r), n)
            writes |= n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP && n->target.op->variant != TP_FUNCTIONAL;
        TP_EXPECT(!writes && tp_recorder_constant_count(r) == 0);
        double want[4], v[4] = { 1, 2, 3, 4 };
        for (int i = 0; i < 4; i++) {
            double k = i < 2 ? 3 : 1, z = 1 / (1 + exp(-k * sin(v[i])));
            want[i] = z * (1 - z) * k * cos(v[i]);
        }
        for (int i = 0; i < 4; i++)
            TP_EXPECT(fabs(((float *)tp_tensor_data(value))[i] - want[i]) < 1e-6);
    }
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
    tp_functional_free(f);
}

/* As export traces: composites that may alias are opened, others stay whole. */
TP_TEST(above_autograd)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s), *value = NULL;
    tp_recorder *r = test_record(&s, x, NULL, TP_LAYER_TRACE_P);
    tp_functional *f = s.failed ? NULL : tp_functional_new();
    tp_tensor *w = f ? test_own(&s, tp_functional_wrap(f, x)) : NULL;
    if (w) {
        tp_functional_enter(f, TP_LAYER_TRACE_P);
        tp_tensor *y = CALL(&s, "linear", T(CALL(&s, "reshape", T(w), INTS(&s, 2, 2))), T(w), tp_none());
        CALL(&s, "neg_", T(y));
        tp_functional_leave(f);
        value = y ? test_own(&s, tp_functional_value(f, y)) : NULL;
    }
    test_record_end(&s, r, value);
    test_expect_graph(&s, r, "x_1 = placeholder; view = view(x_1, [2, 2]); linear = linear(view, x_1); neg = neg(linear); return neg");
    EXPECT_ELEMENTS(value, -5, -11, -11, -25);
    tp_recorder_free(r);
    (void)tp_scope_end(&s);
    tp_functional_free(f);
}

/* ---- ops of the program ---- */

/* testlib::spread(Tensor by, Tensor(a!) into, Tensor(b!)[] more, Tensor(c!)? also=None) -> Tensor */
static bool spread(const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_op *add = tp_op_find("aten", "add_", "Tensor"), *mul = tp_op_find("aten", "mul", "Tensor");
    tp_value to[] = { arg[1], arg[2].list->item[0], arg[3] }, done;
    (void)op;
    for (int i = 0; i < 3; i++) {
        if (to[i].tag != TP_TENSOR)
            continue;
        if (!tp_call(add, (tp_value[]){ to[i], arg[0], I(1) }, &done))
            return false;
        tp_value_unref(done);
    }
    return tp_call(mul, (tp_value[]){ arg[0], arg[0] }, result);
}

static tp_tensor *call_spread(tp_scope *s, tp_tensor *by, tp_tensor *into, tp_tensor *more, tp_tensor *also)
{
    tp_value list = s->failed ? tp_none() : tp_value_tensors(&more, 1), out = tp_none();
    if (list.tag != TP_LIST || !tp_call(tp_op_find("testlib", "spread", ""), (tp_value[]){ T(by), T(into), list, T(also) }, &out))
        s->failed = true;
    tp_value_unref(list);
    return s->failed ? NULL : test_own(s, out.tensor);
}

static tp_tensor *write_by_own_op(tp_scope *s, tp_tensor *x)
{
    tp_tensor *y = CALL(s, "clone", T(x)), *row = CALL(s, "select.int", T(y), I(0), I(0)), *by = CALL(s, "neg", T(row));
    tp_tensor *square = call_spread(s, by, row, x, NULL), *z = CALL(s, "clone", T(x));
    tp_tensor *again = call_spread(s, square, row, x, z);
    return CALL(s, "add.Tensor", T(CALL(s, "add.Tensor", T(y), T(again))), T(z));
}

/* Each written argument is cloned alone: what overlaps would come apart. */
static void overlapping_writes(const tp_op *op)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s);
    tp_functional *f = s.failed ? NULL : tp_functional_new();
    tp_tensor *w = f ? test_own(&s, tp_functional_wrap(f, x)) : NULL;
    tp_value list = w ? tp_value_tensors(&w, 1) : tp_none(), out;
    if (list.tag == TP_LIST) {
        tp_functional_enter(f, TP_LAYER_TRACE_R);
        TP_EXPECT(!tp_call(op, (tp_value[]){ T(x), T(w), list, tp_none() }, &out));
        tp_functional_leave(f);
        TP_EXPECT_TEXT(tp_error_text(), "functionalize: testlib::spread writes two arguments that share memory");
    }
    tp_value_unref(list);
    (void)tp_scope_end(&s);
    tp_functional_free(f);
}

TP_TEST(ops_of_the_program_are_derived)
{
    tp_op *op = tp_op_define("testlib", "spread(Tensor by, Tensor(a!) into, Tensor(b!)[] more, Tensor(c!)? also=None) -> Tensor");
    if (!op)
        return;
    op->run = tp_op_rare(op)->fake = spread;
    const char *want =
        "x_1 = placeholder; clone = clone(x_1); select = select.int(clone, 0, 0); neg = neg(select); "
        "auto_functionalized = auto_functionalized.testlib.spread(neg, select, [x_1]); getitem = getitem(auto_functionalized, 0); "
        "getitem_1 = getitem(auto_functionalized, 1); getitem_2 = getitem(auto_functionalized, 2); getitem_3 = getitem(getitem_2, 0); "
        "getitem_4 = getitem(auto_functionalized, 3); select_scatter = select_scatter(clone, getitem_1, 0, 0); "
        "select_1 = select.int(select_scatter, 0, 0); clone_1 = clone(getitem_3); "
        "auto_functionalized_1 = auto_functionalized.testlib.spread(getitem, select_1, [getitem_3], clone_1); "
        "getitem_5 = getitem(auto_functionalized_1, 0); getitem_6 = getitem(auto_functionalized_1, 1); "
        "getitem_7 = getitem(auto_functionalized_1, 2); getitem_8 = getitem(getitem_7, 0); getitem_9 = getitem(auto_functionalized_1, 3); "
        "select_scatter_1 = select_scatter(select_scatter, getitem_6, 0, 0); select_2 = select.int(select_scatter_1, 0, 0); "
        "add = add.Tensor(select_scatter_1, getitem_5); add_1 = add.Tensor(add, getitem_9)";
    check(write_by_own_op, TP_LAYER_TRACE_R, want, (tp_functional_changes){ .data = true });
    check(write_by_own_op, TP_LAYER_TRACE_P, want, (tp_functional_changes){ .data = true });
    overlapping_writes(op);
    tp_op_undefine(op);
    TP_EXPECT(!tp_op_find("higher_order", "auto_functionalized", "testlib.spread"));
}

/* At the bottom and on fake tensors. */
TP_TEST(results_of_another_type)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_vector(&s, TP_i8, 3, (double[]){ 100, -100, 27 }), *fake = s.failed ? NULL : test_own(&s, tp_fake_of(x));
    const tp_op *op = tp_op_derive(TP_OUT_DTYPE, tp_op_find("aten", "mul", "Tensor"));
    tp_value out;
    s.failed |= !op;
    if (!s.failed && tp_call(op, (tp_value[]){ tp_of_dtype(TP_i32), T(x), T(x) }, &out)) {
        EXPECT_ELEMENTS(out.tensor, 10000, 10000, 729);
        TP_EXPECT(out.tensor->dtype == TP_i32);
        tp_value_unref(out);
    }
    if (!s.failed && tp_call(op, (tp_value[]){ tp_of_dtype(TP_f16), T(fake), T(x) }, &out)) {
        TP_EXPECT(tp_is_fake(out.tensor) && out.tensor->dtype == TP_f16 && out.tensor->size[0] == 3);
        tp_value_unref(out);
    }
    if (op)
        tp_op_undefine((tp_op *)op);
    TP_EXPECT(s.failed || (!tp_op_derive(TP_OUT_DTYPE, tp_op_find("aten", "neg_", "")) && tp_error_kind() == TP_ERR_RUNTIME));
    (void)tp_scope_end(&s);
}

TP_TEST(tensors_from_outside_are_not_written)
{
    tp_scope s;
    tp_scope_start(&s);
    tp_tensor *x = test_square(&s), *outside = test_square(&s);
    tp_functional *f = s.failed ? NULL : tp_functional_new();
    tp_tensor *w = f ? test_own(&s, tp_functional_wrap(f, x)) : NULL;
    if (w) {
        tp_functional_enter(f, TP_LAYER_TRANSFORM);
        EXPECT_ERROR(&s, "mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of your inputs are "
                     "wrapped inside of a functionalize() call.", "add_.Tensor", T(outside), T(w));
        CALL(&s, "add_.Tensor", T(outside), T(outside));
        tp_tensor *resized = CALL(&s, "resize_", T(w), INTS(&s, 3));
        TP_EXPECT(s.failed || (resized == w && w->ndim == 1 && w->size[0] == 3));
        tp_functional_leave(f);
        EXPECT_ELEMENTS(outside, 2, 4, 6, 8);
        TP_EXPECT(tp_self.active == 0 && tp_is_fake(w));
    }
    (void)tp_scope_end(&s);
    tp_functional_free(f);
}

TP_TESTS_AFTER(make_registry, TP_SWEPT(writes_become_values), TP_SWEPT(writes_through_views_reach_the_base), TP_SWEPT(writes_hidden_from_autograd),
               TP_SWEPT(composites_are_opened), TP_SWEPT(gradients_through_writes), TP_SWEPT(above_autograd),
               TP_SWEPT(ops_of_the_program_are_derived), TP_SWEPT(results_of_another_type), TP_SWEPT(tensors_from_outside_are_not_written))
