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
    { "algebra", "graph(%x: f32[2]):\n    %a: f32[2] = aten.neg.default(%x)\n    %b: f32[2] = aten.neg.default(%a)\n    %c: f32[2] = aten.mul.Tensor(%b, 1)\n"
                 "    %exp: f32[2] = aten.exp.default(%c)\n    return (%exp,)\n",
      "graph(%x: f32[2]):\n    %a: f32[2] = aten.neg.default(%x)\n    %exp: f32[2] = aten.exp.default(%x)\n    return (%exp,)\n" },
    /* zero times a float may be nan, a float plus zero may lose its sign; neither of an integer */
    { "algebra", "graph(%x: f32[2], %y: i64[2]):\n    %a: f32[2] = aten.mul.Tensor(%x, 0)\n    %b: f32[2] = aten.add.Tensor(%a, 0)\n"
                 "    %c: i64[2] = aten.mul.Tensor(%y, 0)\n    %d: i64[2] = aten.add.Tensor(%c, 0)\n    %e: f32[2] = aten.mul.Tensor(%b, %d)\n    return %e\n",
      "graph(%x: f32[2], %y: i64[2]):\n    %a: f32[2] = aten.mul.Tensor(%x, 0)\n    %b: f32[2] = aten.add.Tensor(%a, 0)\n"
      "    %zeros_like_default: i64[2] = aten.zeros_like.default(%y)\n    %e: f32[2] = aten.mul.Tensor(%b, %zeros_like_default)\n    return %e\n" },
    /* without facts nothing is known of types, and what is returned stays a value of its own */
    { "algebra", "graph(%x, %y: f32[2]):\n    %a = aten.mul.Tensor(%x, 1)\n    %b = aten.exp.default(%a)\n    %c: f32[2] = aten.mul.Tensor(%y, 1)\n    return (%b, %c)\n",
      "graph(%x, %y: f32[2]):\n    %a = aten.mul.Tensor(%x, 1)\n    %b = aten.exp.default(%a)\n    %c: f32[2] = aten.mul.Tensor(%y, 1)\n    return (%b, %c)\n" },
    { "algebra", "graph(%x: f32[2, 3]):\n    %a: f32[3, 2] = aten.view.default(%x, [3, 2])\n    %b: f32[6] = aten.view.default(%a, [6])\n    %c: f32[1, 6] = aten.view.default(%b, [1, 6])\n"
                 "    %d: f64[1, 6] = aten._to_copy.default(%c, dtype=torch.float64)\n    %e: f32[1, 6] = aten._to_copy.default(%d, dtype=torch.float32)\n    return %e\n",
      "graph(%x: f32[2, 3]):\n    %a: f32[3, 2] = aten.view.default(%x, [3, 2])\n    %view_default: f32[6] = aten.view.default(%x, [6])\n    %view_default_1: f32[1, 6] = aten.view.default(%x, [1, 6])\n"
      "    %d: f64[1, 6] = aten._to_copy.default(%view_default_1, dtype=torch.float64)\n    %_to_copy_default: f32[1, 6] = aten._to_copy.default(%view_default_1, dtype=torch.float32)\n    return %_to_copy_default\n" },
    { "fold", "graph(%x):\n    %a = _operator.add(2, 3)\n    %b = _operator.mul(%a, 2)\n    %view = aten.view.default(%x, [%b, %a])\n    %c = _operator.truediv(%a, 0)\n    return (%view, %c)\n",
      "graph(%x):\n    %a = _operator.add(2, 3)\n    %b = _operator.mul(5, 2)\n    %view = aten.view.default(%x, [10, 5])\n    %c = _operator.truediv(5, 0)\n    return (%view, %c)\n" },
    /* a writer: the second sum may see other data */
    { "cse", "graph(%x):\n    %a = aten.sum.default(%x)\n    %b = aten.add_.Tensor(%x, 1)\n    %c = aten.sum.default(%x)\n    return (%a, %c)\n",
      "graph(%x):\n    %a = aten.sum.default(%x)\n    %b = aten.add_.Tensor(%x, 1)\n    %c = aten.sum.default(%x)\n    return (%a, %c)\n" },
};

TP_TEST(pictures)
{
    static const tp_pass_info passes[] = { { "dce", tp_pass_dce, TP_STAGE_ANY }, { "cse", tp_pass_cse, TP_STAGE_ANY },
                                           { "algebra", tp_pass_algebra, TP_STAGE_FUNCTIONAL }, { "fold", tp_pass_fold, TP_STAGE_FUNCTIONAL } };
    tp_pass_options options = { .verify = true, .round_trip = true };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_graph *g = tp_graph_parse(rows[i].before, strlen(rows[i].before));
        tp_text out = { 0 };
        bool changed = false;
        size_t pass = 0;
        while (strcmp(passes[pass].name, rows[i].pass) != 0)
            pass++;
        if (g && tp_passes_run(g, &passes[pass], 1, &options, &changed)) {
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
    static const tp_pass_info bad[] = { { "spoil", spoil, TP_STAGE_ANY } };
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

/* ---- constants ---- */
typedef struct shelf { tp_tensor *w, *stored; int asked; } shelf;

static tp_tensor *read_shelf(void *data, const char *path)
{
    return strcmp(path, "w") == 0 ? ((shelf *)data)->w : NULL;
}

static const char *store_shelf(void *data, tp_tensor *t)
{
    shelf *s = data;
    tp_tensor_unref(s->stored);
    s->stored = tp_tensor_ref(t);
    s->asked++;
    return "_folded_0";
}

TP_TEST(constants_are_computed_once)
{
    const char *text = "graph(%x):\n    %w = get_attr w\n    %neg = aten.neg.default(%w)\n    %exp = aten.exp.default(%neg)\n    %v = get_attr v\n"
                       "    %r = aten.rand_like.default(%w)\n    %add = aten.add.Tensor(%x, %exp)\n    %sub = aten.sub.Tensor(%v, %exp)\n    return (%add, %sub, %r)\n";
    shelf s = { 0 };
    tp_constants constants = { read_shelf, store_shelf, &s, 64 };
    tp_pass_options options = { .verify = true, .round_trip = true, .constants = &constants };
    tp_text out = { 0 };
    tp_graph *g = tp_graph_parse(text, strlen(text));
    TP_NEED(g && (s.w = tp_tensor_new_scalar(TP_f32, tp_scalar_float(0))));
    TP_NEED(tp_passes_run(g, tp_pipeline_simplify, tp_pipeline_simplify_count, &options, NULL));
    tp_graph_print(g, &out);
    TP_EXPECT_TEXT(tp_text_read(&out),
                   "graph(%x):\n    %w = get_attr w\n    %_folded_0 = get_attr _folded_0\n    %v = get_attr v\n    %r = aten.rand_like.default(%w)\n"
                   "    %add = aten.add.Tensor(%x, %_folded_0)\n    %sub = aten.sub.Tensor(%v, %_folded_0)\n    return (%add, %sub, %r)\n");
    TP_EXPECT(s.asked == 1 && *(float *)tp_tensor_data(s.stored) == 1);
out:
    tp_text_fini(&out);
    tp_tensor_unref(s.w);
    tp_tensor_unref(s.stored);
    tp_graph_unref(g);
    tp_error_clear();
}

TP_TEST(stages_say_what_is_illegal)
{
    const char *text = "graph(%x):\n    %a = aten.add_.Tensor(%x, 1)\n    %m = call_module m(%x)\n    return (%a, %m)\n";
    tp_graph *g = tp_graph_parse(text, strlen(text));
    tp_pass_options options = { .verify = true };
    TP_NEED(g);
    TP_EXPECT(tp_stage_verify(g, TP_STAGE_ANY));
    TP_EXPECT(!tp_stage_verify(g, TP_STAGE_OPS));
    TP_EXPECT_TEXT(tp_error_text(), "node 'm' is not legal in the stage 'ops': only Python knows what it does");
    TP_EXPECT(!tp_passes_run(g, tp_pipeline_simplify, tp_pipeline_simplify_count, &options, NULL));
    if (tp_error_kind() != TP_ERR_MEMORY)
        TP_EXPECT_TEXT(tp_error_text(), "before fold: node 'a' is not legal in the stage 'functional': it writes into an argument");
out:
    tp_error_clear();
    tp_graph_unref(g);
}

/* A chain shrinks by half in each round, and nothing is looked at more often than the rounds: counts, not seconds. */
TP_TEST(long_chains)
{
    tp_graph *g = tp_graph_new();
    TP_NEED(g);
    tp_tensor *fact = tp_tensor_new(TP_f32, 1, (int64_t[]){ 2 });
    tp_node *n = tp_graph_placeholder(g, "x");
    const tp_op *neg = tp_op_find("aten", "neg", "");
    for (int i = 0; n && i <= 1000; i++) {
        tp_node_set_fact(n, tp_of_tensor(fact));
        tp_value v = tp_of_node(n);
        n = tp_graph_call(g, neg, &v, 1);
    }
    if (n)
        (void)tp_graph_output(g, tp_of_node(n));
    bool ran = n && fact && tp_passes_run(g, tp_pipeline_simplify, tp_pipeline_simplify_count, NULL, NULL);
    TP_EXPECT(ran || tp_test_quiet);
    if (ran)
        TP_EXPECT(g->live_count == 3);              /* x, one neg of 1001, output */
    tp_tensor_unref(fact);
out:
    tp_graph_unref(g);
    tp_error_clear();
}

TP_TESTS(TP_SWEPT(constants_are_computed_once), TP_SWEPT(stages_say_what_is_illegal), TP_SPARSE(long_chains), TP_SWEPT(pictures), TP_SWEPT(the_runner_reports), TP_SWEPT(the_runner_names_the_culprit))
