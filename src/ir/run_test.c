/* run_test.c - plans give what the ops give, free what nobody reads, and fail cleanly. */
#include "ir/run.h"

#include "base/test.h"
#include "ir/text.h"

static tp_tensor *filled(double v)
{
    tp_tensor *t = tp_tensor_new(TP_f32, 2, (int64_t[]){ 2, 2 });
    if (t)
        for (int i = 0; i < 4; i++)
            ((float *)tp_tensor_data(t))[i] = (float)v;
    return t;
}

static tp_value tuple_of(tp_value a, tp_value b)
{
    tp_list *l = tp_list_new(2);
    if (!l)
        return tp_none();
    l->item[0] = a;
    l->item[1] = b;
    return (tp_value){ .tag = TP_TUPLE, .list = l };
}

/* (x + y, max over dim 0 of their stack): lists of nodes, several results, getitem. */
static tp_graph *mixed(void)
{
    tp_graph *g = tp_graph_new();
    if (!g)
        return NULL;
    tp_value x = tp_of_node(tp_graph_placeholder(g, "x")), y = tp_of_node(tp_graph_placeholder(g, "y"));
    tp_node *add = tp_graph_call(g, tp_op_find("aten", "add", "Tensor"), (tp_value[]){ x, y }, 2);
    tp_value both = tuple_of(x, y);
    both.tag = both.tag == TP_TUPLE ? TP_LIST : both.tag;
    tp_node *stack = tp_graph_call(g, tp_op_find("aten", "stack", ""), &both, 1);
    tp_node *max = tp_graph_call(g, tp_op_find("aten", "max", "dim"), (tp_value[]){ tp_of_node(stack), tp_int(0) }, 2);
    tp_node *item = tp_graph_getitem(g, max, 0);
    tp_value out = tuple_of(tp_of_node(add), tp_of_node(item));
    (void)tp_graph_output(g, out);
    tp_value_unref(out);
    bool ok = both.tag == TP_LIST && out.tag == TP_TUPLE && tp_graph_check(g);
    tp_value_unref(both);
    if (ok)
        return g;
    tp_graph_unref(g);
    return NULL;
}

TP_TEST(runs_lists_and_several_results)
{
    tp_graph *g = mixed();
    tp_plan *p = NULL;
    tp_tensor *x = NULL, *y = NULL;
    tp_value result[2] = { 0 };
    TP_NEED(g && (p = tp_plan_new(g, NULL)) && (x = filled(1)) && (y = filled(2)));
    TP_EXPECT(tp_plan_input_count(p) == 2);
    TP_NEED(tp_plan_run_into(p, (tp_value[]){ tp_of_tensor(x), tp_of_tensor(y) }, 2, result, 2));
    TP_EXPECT(((float *)tp_tensor_data(result[0].tensor))[3] == 3);
    TP_EXPECT(((float *)tp_tensor_data(result[1].tensor))[0] == 2);
out:
    tp_values_unref(result, 2);
    tp_tensor_unref(x);
    tp_tensor_unref(y);
    tp_plan_free(p);
    tp_graph_unref(g);
}

/* Graphs that ops call run without Python: 2x where p holds, else x + 1, then x doubled until p2 says stop. */
TP_TEST(children_are_functions)
{
    static const char text[] =
        "graph(%p, %x):\n"
        "    %t = get_attr t { graph(%a): %m = aten.mul.Tensor(%a, 2) return (%m,) }\n"
        "    %f = get_attr f { graph(%a): %m = aten.add.Tensor(%a, 1) return (%m,) }\n"
        "    %c = higher_order.cond(%p, %t, %f, [%x])\n"
        "    %one = _operator.getitem(%c, 0)\n"
        "    %more = get_attr more { graph(%a): %s = aten.sum.default(%a) %l = aten.lt.Scalar(%s, 100) return %l }\n"
        "    %twice = get_attr twice { graph(%a): %m = aten.mul.Tensor(%a, 2) return (%m,) }\n"
        "    %w = higher_order.while_loop(%more, %twice, [%one], [])\n"
        "    %two = _operator.getitem(%w, 0)\n"
        "    return (%one, %two)\n";
    tp_graph *g = tp_graph_parse(text, sizeof text - 1);
    tp_plan *p = NULL;
    tp_tensor *x = NULL;
    tp_value result[2] = { 0 };
    TP_NEED(g && (p = tp_plan_new(g, NULL)) && (x = filled(3)));
    for (int truth = 0; truth < 2; truth++) {
        TP_NEED(tp_plan_run_into(p, (tp_value[]){ tp_bool(truth), tp_of_tensor(x) }, 2, result, 2));
        TP_EXPECT(((float *)tp_tensor_data(result[0].tensor))[0] == (truth ? 6 : 4));
        TP_EXPECT(((float *)tp_tensor_data(result[1].tensor))[0] == (truth ? 48 : 32));
        tp_values_unref(result, 2);
        result[0] = result[1] = tp_none();
    }
out:
    tp_values_unref(result, 2);
    tp_tensor_unref(x);
    tp_plan_free(p);
    tp_graph_unref(g);
}

TP_TEST(errors_leave_nothing)
{
    tp_graph *g = mixed();
    tp_plan *p = NULL;
    tp_tensor *x = NULL, *odd = NULL;
    tp_value result;
    TP_NEED(g && (p = tp_plan_new(g, NULL)) && (x = filled(1)) && (odd = tp_tensor_new(TP_f32, 1, (int64_t[]){ 3 })));
    TP_EXPECT(!tp_plan_run(p, (tp_value[]){ tp_of_tensor(x), tp_of_tensor(odd) }, 2, &result));
    tp_error_clear();
    TP_EXPECT(!tp_plan_run(p, (tp_value[]){ tp_of_tensor(x) }, 1, &result));
    tp_error_clear();
out:
    tp_tensor_unref(x);
    tp_tensor_unref(odd);
    tp_plan_free(p);
    tp_graph_unref(g);
}

TP_TEST(python_needs_a_host)
{
    tp_graph *g = tp_graph_new();
    TP_NEED(g);
    TP_NEED(tp_graph_get_attr(g, "weight"));
    tp_plan *p = tp_plan_new(g, NULL);
    TP_EXPECT(!p);
    tp_plan_free(p);
    tp_error_clear();
out:
    tp_graph_unref(g);
}

TP_TEST(builtins_on_numbers)
{
    tp_value out;
    const tp_builtin *mod = tp_builtin_find("_operator", "mod");
    TP_EXPECT(mod->run((tp_value[]){ tp_int(-7), tp_int(3) }, &out) && out.i == 2);
    TP_EXPECT(tp_builtin_find("_operator", "truediv")->run((tp_value[]){ tp_int(1), tp_int(4) }, &out) && out.f == 0.25);
    TP_EXPECT(!mod->run((tp_value[]){ tp_int(1), tp_int(0) }, &out) && tp_error_kind() == TP_ERR_ZERO_DIVISION);
    tp_error_clear();
    TP_EXPECT(!tp_builtin_find("math", "nothing"));
}

TP_TESTS(TP_SWEPT(runs_lists_and_several_results), TP_SWEPT(children_are_functions), TP_SWEPT(errors_leave_nothing), TP_SWEPT(python_needs_a_host),
         TP_SWEPT(builtins_on_numbers))
