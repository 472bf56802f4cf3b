/* text_test.c - graphs through text and back, what cannot be read, and what is no graph. */
#include "ir/text.h"

#include "base/test.h"
#include "ir/code.h"
#include "ir/draw.h"

static tp_graph *parse(const char *text)
{
    return tp_graph_parse(text, strlen(text));
}

/* Each comes out as it went in. */
TP_TEST(text_survives)
{
    static const char *const rows[] = {
        "graph(%x: f32[2, 3], %y: f32[3]):\n"
        "    %add: f32[2, 3] = aten.add.Tensor(%x, %y, alpha=2)\n"
        "    return (%add,)\n",
        "graph(%_args as \"*args\", %y = 3):\n"
        "    %w = get_attr fc.weight\n"
        "    %relu = call_method relu(%w)\n"
        "    %fc = call_module fc(%relu, %y, scale=0.5)\n"
        "    %getitem = _operator.getitem(%fc, (slice(None, 2, None), 0))\n"
        "    return {'a': [%getitem, %fc], 1: None}\n",
        "graph(%x: (f32[2], [i64[], None])):\n"
        "    %full_default = aten.full.default([2, 3], -inf, dtype=torch.float32, layout=torch.strided, device=device(type='cpu'), pin_memory=False)\n"
        "    %clone = aten.clone.default(%x, memory_format=torch.contiguous_format)\n"
        "    return [1.5, 1e-05, nan, (1+2j), 2j, True, 'it\\'s \"a\" text\\n', device(type='cuda', index=1)]\n",
        "graph(%x: f32[2, 3][1, 2]):\n"
        "    %add = _operator.add(%x, sym(\"2*s0 + 1\"))\n"
        "    return %add\n",
        "graph():\n",
        "graph(%p: b8[], %x: f32[2]):\n"
        "    %true_graph_0 = get_attr true_graph_0 {\n"
        "        graph(%arg0_1: f32[2]):\n"
        "            %body_graph_0 = get_attr body_graph_0 {\n"
        "                graph():\n"
        "                    return 1\n"
        "            }\n"
        "            return (%arg0_1,)\n"
        "    }\n"
        "    %false_graph_0 = get_attr false_graph_0\n"
        "    %conditional = higher_order.cond(%p, %true_graph_0, %false_graph_0, [%x])\n"
        "    return %conditional\n",
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_graph *g = parse(rows[i]);
        tp_text out = { 0 };
        TP_EXPECT(g);
        if (g) {
            TP_EXPECT(tp_graph_verify(g));
            tp_graph_print(g, &out);
            TP_EXPECT_TEXT(tp_text_read(&out), rows[i]);
        }
        tp_text_fini(&out);
        tp_graph_unref(g);
    }
    tp_error_clear();
}

TP_TEST(mistakes_are_named)
{
    static const char *const rows[][2] = {
        { "", "line 1, column 1: 'graph' is expected here" },
        { "graph(%x):\n    %y = aten.add.Tensor(%z)\n", "line 2, column 28: no node of this name stands above" },
        { "graph(%x):\n    %x = aten.relu.default(%x)\n", "line 2, column 31: two nodes have one name" },
        { "graph(%x):\n    %y = aten.nope.default(%x)\n", "line 2, column 27: no such op" },
        { "graph(%x):\n    %y = `<function f>`(%x)\n", "line 2, column 10: a Python object cannot be read back" },
        { "graph(%x):\n    return [%x, (\n", "line 3, column 1: a value is expected here" },
        { "graph(%x: f32[2):\n", "line 1, column 16: ']' is expected here" },
        { "graph(%x):\n    return 'a", "line 2, column 14: ''' is expected here" },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_graph *g = parse(rows[i][0]);
        TP_EXPECT(!g);
        TP_EXPECT_TEXT(tp_error_text(), rows[i][1]);
        tp_graph_unref(g);
        tp_error_clear();
    }
    char deep[1000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "graph():return ", 15);
    tp_graph *g = tp_graph_parse(deep, sizeof deep);
    TP_EXPECT(!g && strstr(tp_error_text(), "nested too deeply"));
    tp_graph_unref(g);
    tp_error_clear();
}

TP_TEST(verify_finds_faults)
{
    tp_graph *g = parse("graph(%x):\n    %relu = aten.relu.default(%x)\n    %neg = aten.neg.default(%relu)\n    return (%neg,)\n");
    TP_NEED(g);
    tp_node *x = tp_graph_first(g), *relu = x->next, *neg = relu->next;
    TP_NEED(tp_graph_verify(g));
    tp_node_move_before(relu, neg);
    TP_EXPECT(!tp_graph_verify(g));
    TP_EXPECT_TEXT(tp_error_text(), "verify: node 'neg' reads 'relu', which does not stand above it");
    tp_error_clear();
    tp_node_move_before(neg, relu);
    x->user_count = 0;
    TP_EXPECT(!tp_graph_verify(g));
    TP_EXPECT_TEXT(tp_error_text(), "verify: node 'x' lists 0 users, but 1 nodes read it");
    x->user_count = 1;
    tp_error_clear();
    tp_value none[3] = { tp_of_node(x), tp_of_node(x), tp_of_node(x) };
    TP_NEED(tp_node_set_args(relu, none, 3, 0));
    TP_EXPECT(!tp_graph_verify(g));
    TP_EXPECT(strstr(tp_error_text(), "positional arguments"));
    tp_error_clear();
out:
    tp_graph_unref(g);
}

/* What FX prints; values are let go after their last use, those nobody reads are not. */
TP_TEST(python_code)
{
    static const char *const rows[][2] = {
        { "graph(%x, %y):\n    %add = aten.add.Tensor(%x, %y, alpha=2)\n    %relu = call_method relu(%add)\n"
          "    %dead = aten.neg.default(%relu)\n    return (%relu,)\n",
          "\n\n\ndef forward(self, x, y):\n    add = torch.ops.aten.add.Tensor(x, y, alpha = 2);  x = y = None\n"
          "    relu = add.relu();  add = None\n    dead = torch.ops.aten.neg.default(relu);  dead = None\n    return (relu,)\n    " },
        { "graph(%x, %_args as \"*args\"):\n    %w = get_attr a.0.weight\n    %m = call_module a.0(%x)\n"
          "    %getitem = _operator.getitem(%m, slice(None, 1, None))\n    %add = _operator.add(%getitem, %w)\n"
          "    %neg = _operator.neg(%add)\n    return {'k': %neg}\n",
          "\n\n\ndef forward(self, x, *args):\n    _args = args\n    w = getattr(self.a, \"0\").weight\n"
          "    m = getattr(self.a, \"0\")(x);  x = None\n    getitem = m[slice(None, 1, None)];  m = None\n"
          "    add = getitem + w;  getitem = w = None\n    neg = -add;  add = None\n    return {'k': neg}\n    " },
        { "graph():\n", "\n\n\ndef forward(self):\n    pass\n    " },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_graph *g = parse(rows[i][0]);
        tp_text out = { 0 };
        tp_code_options options = { .root = "self" };
        if (g && tp_graph_code(g, NULL, &options, &out))
            TP_EXPECT_TEXT(tp_text_read(&out), rows[i][1]);
        else
            TP_EXPECT(tp_test_quiet);
        tp_text_fini(&out);
        tp_graph_unref(g);
    }
    tp_error_clear();
}

TP_TEST(verbose_code_and_listing)
{
    tp_graph *g = parse("graph(%x: f32[2, 3]):\n    %t: f32[3, 2][1, 3] = aten.t.default(%x)\n    return (%t,)\n");
    tp_text out = { 0 };
    tp_code_options options = { .root = "self", .verbose = true, .stride = true };
    TP_NEED(g);
    TP_NEED(tp_graph_code(g, NULL, &options, &out));
    TP_EXPECT_TEXT(tp_text_read(&out), "\n\n\ndef forward(self, x: \"f32[2, 3][3, 1]\"):\n    # No stacktrace found for following nodes\n"
                                       "    t: \"f32[3, 2][1, 3]\" = torch.ops.aten.t.default(x);  x = None\n    return (t,)\n    ");
    tp_text_fini(&out);
    out = (tp_text){ 0 };
    TP_NEED(tp_graph_list(g, NULL, &out));
    TP_EXPECT_TEXT(tp_text_read(&out), "graph():\n    %x : [num_users=1] = placeholder[target=x]\n"
                                       "    %t : [num_users=1] = call_function[target=torch.ops.aten.t.default](args = (%x,), kwargs = {})\n"
                                       "    return (t,)");
out:
    tp_text_fini(&out);
    tp_graph_unref(g);
}

TP_TEST(tables)
{
    tp_graph *g = parse("graph(%x):\n    %t = aten.t.default(%x)\n    return (%t,)\n");
    tp_text out = { 0 };
    TP_NEED(g);
    TP_NEED(tp_graph_table(g, NULL, &out));
    TP_EXPECT_TEXT(tp_text_read(&out),
                   "opcode         name    target          args     kwargs\n-------------  ------  --------------  -------  --------\n"
                   "placeholder    x       x               ()       {}\ncall_function  t       aten.t.default  (x,)     {}\n"
                   "output         output  output          ((t,),)  {}");
out:
    tp_text_fini(&out);
    tp_graph_unref(g);
}

static const char *name_of(const tp_node *n, void *unused)
{
    (void)unused;
    return n->kind == TP_OUTPUT ? NULL : n->name;
}

static const char *white(const tp_node *n, void *unused)
{
    (void)n, (void)unused;
    return "a<b";
}

TP_TEST(drawing)
{
    const char *text = "graph(%x, %y):\n    %add = aten.add.Tensor(%x, %y)\n    return %add\n";
    tp_graph *g = tp_graph_parse(text, strlen(text));
    tp_draw_host host = { name_of, white, NULL };
    tp_text out = { 0 };
    TP_NEED(g && tp_graph_draw(g, &host, &out));
    const char *made = tp_text_read(&out);
    TP_EXPECT(strstr(made, "<rect x=\"24\" y=\"24\" width=\"27\" height=\"25\" rx=\"6\" fill=\"a&lt;b\""));
    TP_EXPECT(strstr(made, ">add</text>") && !strstr(made, "output"));
out:
    tp_text_fini(&out);
    tp_graph_unref(g);
    tp_error_clear();
}

TP_TESTS(TP_SWEPT(drawing), TP_SWEPT(text_survives), TP_SPARSE(mistakes_are_named), TP_SWEPT(verify_finds_faults), TP_SWEPT(python_code),
         TP_SWEPT(verbose_code_and_listing), TP_SWEPT(tables))
