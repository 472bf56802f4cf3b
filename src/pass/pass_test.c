/* pass_test.c - each pass on the picture of its comment and a few more, through the runner. */
#include "pass/pass.h"

#include "base/test.h"
#include "ir/text.h"

typedef struct row {
    const char *pass, *before, *after;
} row;

static const row rows[] = {
    { "dce", "graph(%x):\n    %exp = aten.exp.default(%x)\n    %log = aten.log.default(%exp)\n    return (%exp,)\n",
      "graph(%x):\n    %exp = aten.exp.default(%x)\n    return (%exp,)\n" },
    { "dce", "graph(%x):\n    %a = aten.exp.default(%x)\n    %b = aten.log.default(%a)\n    %w = get_attr w\n    return None\n",
      "graph(%x):\n    return None\n" },
    { "dce", "graph(%x):\n    %a = aten.add_.Tensor(%x, 1)\n    %r = aten.rand.default([2])\n    %m = call_module m(%x)\n    return None\n",
      "graph(%x):\n    %a = aten.add_.Tensor(%x, 1)\n    %r = aten.rand.default([2])\n    %m = call_module m(%x)\n    return None\n" },
    { "cse", "graph(%x, %y):\n    %add = aten.add.Tensor(%x, %y)\n    %add_1 = aten.add.Tensor(%y, %x)\n"
             "    %mul = aten.mul.Tensor(%add, %add_1)\n    return (%mul,)\n",
      "graph(%x, %y):\n    %add = aten.add.Tensor(%x, %y)\n    %mul = aten.mul.Tensor(%add, %add)\n    return (%mul,)\n" },
    /* the same value in another type, and the operands of what does not commute, are different */
    { "cse", "graph(%x, %y):\n    %a = aten.sub.Tensor(%x, %y)\n    %b = aten.sub.Tensor(%y, %x)\n    %c = aten.add.Tensor(%x, 1)\n"
             "    %d = aten.add.Tensor(%x, 1.0)\n    return (%a, %b, %c, %d)\n",
      "graph(%x, %y):\n    %a = aten.sub.Tensor(%x, %y)\n    %b = aten.sub.Tensor(%y, %x)\n    %c = aten.add.Tensor(%x, 1)\n"
      "    %d = aten.add.Tensor(%x, 1.0)\n    return (%a, %b, %c, %d)\n" },
    { "cse", "graph():\n    %w = get_attr w\n    %w_1 = get_attr w\n    %r = aten.rand.default([2])\n    %s = aten.rand.default([2])\n"
             "    %i = _operator.getitem(%w, 0)\n    %j = _operator.getitem(%w_1, 0)\n    return (%i, %j, %r, %s)\n",
      "graph():\n    %w = get_attr w\n    %r = aten.rand.default([2])\n    %s = aten.rand.default([2])\n"
      "    %i = _operator.getitem(%w, 0)\n    return (%i, %i, %r, %s)\n" },
    /* a writer: the second sum may see other data */
    { "cse", "graph(%x):\n    %a = aten.sum.default(%x)\n    %b = aten.add_.Tensor(%x, 1)\n    %c = aten.sum.default(%x)\n    return (%a, %c)\n",
      "graph(%x):\n    %a = aten.sum.default(%x)\n    %b = aten.add_.Tensor(%x, 1)\n    %c = aten.sum.default(%x)\n    return (%a, %c)\n" },
};

TP_TEST(pictures)
{
    static const tp_pass_info passes[] = { { "dce", tp_pass_dce }, { "cse", tp_pass_cse } };
    tp_pass_options options = { .verify = true, .round_trip = true };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_graph *g = tp_graph_parse(rows[i].before, strlen(rows[i].before));
        tp_text out = { 0 };
        bool changed = false;
        if (g && tp_passes_run(g, &passes[strcmp(rows[i].pass, "cse") == 0], 1, &options, &changed)) {
            tp_graph_print(g, &out);
            TP_EXPECT_TEXT(tp_text_read(&out), rows[i].after);
            TP_EXPECT(changed == (strcmp(rows[i].before, rows[i].after) != 0));
        } else {
            TP_EXPECT(tp_test_quiet && "runs");
        }
        tp_text_fini(&out);
        tp_graph_unref(g);
    }
    tp_error_clear();
}

static void note(void *data, const char *pass, const char *before, const char *after, double seconds)
{
    tp_text_add(data, "%s: %s becomes %s;", pass, strstr(before, "%b") ? "b" : "none",
                strstr(after, "%b") ? "b" : "none");
    TP_EXPECT(seconds >= 0);
}

TP_TEST(the_runner_reports)
{
    tp_text heard = { 0 };
    const char *text = "graph(%x):\n    %a = aten.exp.default(%x)\n    %b = aten.exp.default(%x)\n    %c = aten.log.default(%b)\n    return (%a,)\n";
    tp_graph *g = tp_graph_parse(text, strlen(text));
    tp_pass_options options = { .verify = true, .round_trip = true, .report = note, .data = &heard };
    bool changed = false;
    TP_NEED(g);
    TP_NEED(tp_passes_run(g, tp_pipeline_clean, tp_pipeline_clean_count, &options, &changed));
    TP_EXPECT(changed && g->live_count == 3);
    TP_EXPECT_TEXT(tp_text_read(&heard), "cse: b becomes none;dce: none becomes none;");
out:
    tp_text_fini(&heard);
    tp_graph_unref(g);
}

static bool spoil(tp_graph *g, tp_pass *p)
{
    p->changed = true;
    tp_graph_first(g)->user_count = 0;
    return true;
}

TP_TEST(the_runner_names_the_culprit)
{
    static const tp_pass_info bad[] = { { "spoil", spoil } };
    const char *text = "graph(%x):\n    %a = aten.exp.default(%x)\n    return (%a,)\n";
    tp_graph *g = tp_graph_parse(text, strlen(text));
    TP_NEED(g);
    tp_pass_options options = { .verify = true };
    TP_EXPECT(!tp_passes_run(g, bad, 1, &options, NULL));
    TP_EXPECT_TEXT(tp_error_text(), "after spoil: verify: node 'x' lists 0 users, but 1 nodes read it");
    tp_error_clear();
    tp_graph_first(g)->user_count = 1;
out:
    tp_graph_unref(g);
}

TP_TEST_MAIN(TP_SWEPT(pictures), TP_SWEPT(the_runner_reports), TP_SWEPT(the_runner_names_the_culprit))
