/* graph_test.c - building, naming, editing and letting go of graphs. */
#include "ir/graph.h"

#include "base/alloc.h"
#include "base/test.h"

static const tp_op *op_of(const char *name, const char *overload)
{
    return tp_op_find("aten", name, overload);
}

/* x -> relu -> add(relu, x), output (add,) */
static tp_graph *small(tp_node **x, tp_node **relu, tp_node **add)
{
    tp_graph *g = tp_graph_new();
    if (!g)
        return NULL;
    *x = tp_graph_placeholder(g, "x");
    tp_value one = tp_of_node(*x);
    *relu = tp_graph_call(g, op_of("relu", ""), &one, 1);
    tp_value two[2] = { tp_of_node(*relu), one };
    *add = tp_graph_call(g, op_of("add", "Tensor"), two, 2);
    tp_list *l = tp_list_new(1);
    if (l) {
        l->item[0] = tp_of_node(*add);
        (void)tp_graph_output(g, (tp_value){ .tag = TP_TUPLE, .list = l });
        tp_value_unref(tp_of_list(l));
    }
    if (l && tp_graph_check(g))
        return g;
    tp_graph_unref(g);
    return NULL;
}

TP_TEST(order_users_and_names)
{
    tp_node *x, *relu, *add;
    tp_graph *g = small(&x, &relu, &add);
    TP_NEED(g);
    TP_EXPECT(tp_graph_first(g) == x && x->next == relu && relu->next == add && g->live_count == 4);
    TP_EXPECT(x->user_count == 2 && x->user[0] == relu && x->user[1] == add);
    TP_EXPECT(relu->user_count == 1 && add->user[0] == tp_graph_output_node(g));
    TP_EXPECT_TEXT(add->name, "add");
    tp_value one = tp_of_node(x);
    tp_node *again = tp_graph_call(g, add->target.op, (tp_value[]){ one, one }, 2);
    TP_NEED(again);
    TP_EXPECT_TEXT(again->name, "add_1");
    TP_EXPECT(x->user_count == 3);              /* read twice, listed once */
out:
    tp_graph_unref(g);
}

TP_TEST(names_as_fx_gives_them)
{
    static const char *const rows[][2] = {
        { "x", "x" },     { "x", "x_1" },     { "x_1", "x_2" }, { "x_1", "x_3" },   { "x_3", "x_4" },   { "x", "x_5" },
        { "1a", "_1a" },  { "a.b", "a_b" },   { "for", "for_1" }, { "print", "print_1" }, { "", "_unnamed" },
        { "x_10", "x_10" }, { "x", "x_11" }, { "*args", "_args" }, { "**kwargs", "_kwargs" }, { "x_", "x_" }, { "x_", "x__1" },
        { "y_1", "y_1" }, { "y_1", "y_2" }, { "y_1", "y_3" }, { "y_7", "y_7" }, { "y_1", "y_8" }, { "y", "y" }, { "y_1", "y_9" },
        { "y_1", "y_10" }, { "y_4", "y_4" }, { "y_1", "y_5" }, { "y_2", "y_6" }, { "y", "y_11" }, { "y_0", "y_0" }, { "y_0", "y_12" },
    };
    tp_graph *g = tp_graph_new();
    TP_NEED(g);
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        const char *name = tp_graph_name(g, rows[i][0]);
        TP_NEED(name);
        TP_EXPECT_TEXT(name, rows[i][1]);
    }
out:
    tp_graph_unref(g);
}

TP_TEST(wishes_of_targets)
{
    static const char *const rows[][2] = {
        { "addMM", "add_mm" }, { "T", "t" }, { "__add__", "add" }, { "layers.0.Conv2dThing", "layers.0.conv2d_thing" }, { "HTTPServerGo", "httpserver_go" },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_text t = { 0 };
        TP_EXPECT(tp_target_wish(tp_target_name(rows[i][0]), &t));
        TP_EXPECT_TEXT(tp_text_read(&t), rows[i][1]);
        tp_text_fini(&t);
    }
    tp_text t = { 0 };
    TP_EXPECT(tp_target_wish(tp_target_op(op_of("add", "Tensor")), &t));
    TP_EXPECT_TEXT(tp_text_read(&t), "add.tensor");
    tp_text_fini(&t);
}

TP_TEST(replacing_and_erasing)
{
    tp_node *x, *relu, *add;
    tp_graph *g = small(&x, &relu, &add);
    TP_NEED(g);
    TP_NEED(tp_node_replace_uses(relu, x, NULL, NULL) == 1);
    TP_EXPECT(relu->user_count == 0 && tp_as_node(add->arg[0]) == x && x->user_count == 2);
    tp_node_erase(relu);
    TP_EXPECT(x->user_count == 1 && x->user[0] == add && x->next == add && g->live_count == 3);
    TP_EXPECT_TEXT(relu->name, "relu");         /* still readable */
    tp_node_move_before(x, add);
    TP_EXPECT(tp_graph_first(g) == add && add->next == x);
out:
    tp_graph_unref(g);
}

TP_TEST(copies_are_whole)
{
    tp_node *x, *relu, *add;
    tp_graph *g = small(&x, &relu, &add), *copy = NULL;
    TP_NEED(g);
    TP_NEED((copy = tp_graph_copy(g)));
    tp_node *a = tp_graph_first(g), *b = tp_graph_first(copy);
    for (; !tp_node_is_root(a) && !tp_node_is_root(b); a = a->next, b = b->next) {
        TP_EXPECT(a != b && a->kind == b->kind && a->user_count == b->user_count);
        TP_EXPECT_TEXT(a->name, b->name);
    }
    TP_EXPECT(tp_node_is_root(a) && tp_node_is_root(b));
    const char *next = tp_graph_name(copy, "relu");
    TP_NEED(next);
    TP_EXPECT_TEXT(next, "relu_1");
out:
    tp_graph_unref(copy);
    tp_graph_unref(g);
}

TP_TEST(op_arguments_are_completed)
{
    tp_node *x, *relu, *add;
    tp_graph *g = small(&x, &relu, &add);
    TP_NEED(g);
    tp_value arg[3];
    TP_EXPECT(tp_node_op_args(add, arg));
    TP_EXPECT(tp_as_node(arg[1]) == x && arg[2].tag == TP_INT && arg[2].i == 1);
    tp_value key = tp_value_string("beta", 4);
    TP_NEED(key.tag == TP_STRING);
    bool set = tp_node_set_args(add, (tp_value[]){ add->arg[0], add->arg[1], key, tp_int(3) }, 2, 1);
    tp_value_unref(key);
    TP_NEED(set);
    TP_EXPECT(!tp_node_op_args(add, arg));
    tp_error_clear();
out:
    tp_graph_unref(g);
}

/* A long chain, erased from the end: linear, as is letting go. */
TP_TEST(long_graphs)
{
    tp_graph *g = tp_graph_new();
    TP_NEED(g);
    tp_node *n = tp_graph_placeholder(g, "x"), *first = n;
    for (int i = 0; i < 100000 && n; i++)
        n = tp_graph_call(g, op_of("add", "Tensor"), (tp_value[]){ tp_of_node(n), tp_of_node(first) }, 2);
    TP_NEED(tp_graph_check(g));
    TP_EXPECT(first->user_count == 100000);
    while (g->root.prev != first)
        tp_node_erase(g->root.prev);
    TP_EXPECT(g->live_count == 1 && first->user_count == 0);
out:
    tp_graph_unref(g);
}

TP_TESTS(TP_SWEPT(order_users_and_names), TP_SWEPT(names_as_fx_gives_them), TP_SWEPT(wishes_of_targets),
         TP_SWEPT(replacing_and_erasing), TP_SWEPT(copies_are_whole), TP_SWEPT(op_arguments_are_completed),
         TP_SPARSE(long_graphs))
