/* guards_test.c - guards read from texts, checked against sizes, and collected from what an environment found. */
#include "base/test.h"
#include "export/guards.h"
#include "export/test_sizes.h"

static tp_input_spec in[] = { { TP_INPUT_PARAMETER, false, "p_w", "w" }, { TP_INPUT_USER, false, "x", NULL }, { TP_INPUT_USER, false, "d_k_0", NULL },
                              { TP_INPUT_USER, false, "n", NULL } };
static tp_output_spec result[] = { { TP_OUTPUT_USER, NULL } };
static const tp_signature signature = { in, result, 4, 1 };

/* x has (s0, 3) elements, d['k'][0] has (6,), n is 5. */
static tp_graph *graph(void)
{
    tp_graph *g = test_graph("graph(%p_w, %x, %d_k_0, %n):\n    return (%x,)\n");
    if (g && TEST_FACT(g, "x", "s0", "3") && TEST_FACT(g, "d_k_0", "6")) {
        tp_graph_each(g, n)
        {
            if (strcmp(n->name, "n") == 0)
                tp_node_set_fact(n, tp_int(5));
        }
        return g;
    }
    tp_graph_unref(g);
    return NULL;
}

/* Does a call with x of (size, 3) elements and d of six meet the guard? -1: it cannot be read. */
static int meets(const char *text, int64_t size)
{
    int answer = -1;
    tp_graph *g = graph();
    tp_guards *guards = g ? tp_guards_new(g, &signature, &text, 1) : NULL;
    tp_tensor *x = tp_tensor_new(TP_f32, 2, (int64_t[]){ size, 3 }), *d = tp_tensor_new(TP_f32, 1, (int64_t[]){ 6 });
    tp_value input[] = { tp_of_tensor(x), tp_of_tensor(d), tp_int(5) };
    if (guards && x && d)
        answer = tp_guards_check(guards, input, 3);
    tp_tensor_unref(x);
    tp_tensor_unref(d);
    tp_guards_free(guards);
    tp_graph_unref(g);
    return answer;
}

TP_TEST(texts_are_conditions_over_inputs)
{
    static const struct { const char *text; int64_t good, bad; } row[] = {
        { "L['x'].size()[0] < L['d']['k'][0].size()[0]", 5, 6 },
        { "(L['x'].size()[0] % 4) == 0", 8, 9 },
        { "L['x'].size()[0]*L['x'].size()[0] + 3*L['x'].size()[0] > 10", 3, 1 },
        { "math.trunc(1.5*torch.sym_float(L['x'].size()[0])) == 12", 8, 9 },
        { "torch.sym_float(L['x'].size()[0]) ** 0.5 >= 2.5", 7, 6 },
        { "round(L['x'].size()[0] / 3) == 3", 9, 11 },
        { "round(L['x'].size()[0] / 7, 1) == 0.4", 3, 4 },
        { "((torch.sym_float(L['x'].size()[0])) % 2.5) <= 1.0", 5, 7 },
        { "max(L['x'].size()[0], 5) == 5 and not (L['x'].size()[0] == 2)", 4, 2 },
        { "min(L['x'].size()[0], 5) == 3 or L['x'].size()[0] == 9", 9, 8 },
        { "(L['x'].size()[0] & 1) == 1", 3, 4 },
        { "(4 if L['x'].size()[0] > 6 else 5) == 5", 6, 7 },
        { "math.sqrt(L['x'].size()[0]) <= 3", 9, 10 },
        { "torch._sym_sqrt(L[\"x\"].size()[0]) <= math.floor(3.5)", 9, 10 },
        { "L['x'].size()[0] // 2 == L['n'] - 3", 5, 6 },
        { "L['x'].stride()[0] + L['x'].storage_offset() + L['x'].size()[0] != 7", 5, 4 },
        { "s0 != 7", 6, 7 },
        { "-L['x'].size()[0] + 7 >= abs(-3)", 4, 5 },
    };
    for (size_t i = 0; i < TP_COUNT(row); i++) {
        int good = meets(row[i].text, row[i].good), bad = meets(row[i].text, row[i].bad);
        TP_EXPECT(tp_test_quiet || (good == 1 && bad == 0));
        if (!tp_test_quiet && (good != 1 || bad != 0))
            fprintf(stderr, "%s: %d %d\n", row[i].text, good, bad);
    }
    tp_error_clear();
}

TP_TEST(what_fails_is_named)
{
    TP_EXPECT(tp_test_quiet || (meets("L['x'].size()[0] < L['d']['k'][0].size()[0]", 7) == 0 &&
                                strcmp(tp_error_text(), "Guard failed: x.size()[0] < d_k_0.size()[0]") == 0));
    TP_EXPECT(tp_test_quiet || (meets("s0 % 2 == 0", 7) == 0 && strcmp(tp_error_text(), "Guard failed: x.size()[0] % 2 == 0") == 0));
    tp_error_clear();
}

TP_TEST(what_cannot_be_read_is_refused)
{
    static const char *const text[] = { "", "L", "L['x']", "L['x'].size()[2] > 1", "L['y'].size()[0] > 1", "L['x'].size()[0]", "L['x'].size()[0] >",
                                        "L['x'].size()[0] > 1 2", "f(L['x'].size()[0]) > 1", "L['x'.size()[0] > 1", "L['x'].size()[0] > 1 if",
                                        "__import__('os').system('x') == 0", "not", "(((((((((((((((((((", "L['x'].size()[99999999999] > 0", "s9 > 1",
                                        "L['x'].size()[0] and L['x'].size()[0] > 1", "L[].size()[0] > 1", "L['x'][0].size()[0] > 1" };
    for (size_t i = 0; i < TP_COUNT(text); i++) {
        int answer = meets(text[i], 4);
        TP_EXPECT(tp_test_quiet || (answer == -1 && tp_error_kind() == TP_ERR_UNIMPLEMENTED));
        if (!tp_test_quiet && answer != -1)
            fprintf(stderr, "\"%s\" was read\n", text[i]);
    }
    tp_error_clear();
}

TP_TEST(findings_become_texts)
{
    tp_graph *g = graph();
    tp_arena a;
    const char **text = NULL;
    size_t count = 0;
    bool answer;
    tp_arena_init(&a);
    TP_NEED(g);
    tp_sym s = tp_shape_env_find(g->env, "s0");
    TP_NEED(tp_symbol_add_source(s, "L['x'].size()[0]"));
    TP_NEED(tp_sym_guard(tp_sym_eq(tp_sym_mod(s, tp_sym_int(2)), tp_sym_int(0)), &answer) && answer);
    TP_NEED(tp_sym_guard(tp_sym_ne(s, tp_sym_int(6)), &answer) && answer);
    tp_shape_env_keep_decided(g->env, true);
    TP_NEED(tp_sym_note_decided(TP_EQ, s, tp_sym_int(1), false) && tp_sym_note_decided(TP_GE, s, tp_sym_int(0), true));
    TP_NEED(tp_sym_note_decided(TP_EQ, s, tp_sym_int(1), false));
    TP_NEED(tp_guards_collect(g, &signature, g->env, 1, &a, &text, &count));
    TP_EXPECT(count == 2);          /* sizes are 0 or more without a guard; the first was there before */
    TP_EXPECT(strcmp(text[0], "L['x'].size()[0] != 6") == 0 && strcmp(text[1], "L['x'].size()[0] != 1") == 0);
out:
    tp_arena_fini(&a);
    tp_graph_unref(g);
}

TP_TESTS(TP_SPARSE(texts_are_conditions_over_inputs), TP_SPARSE(what_fails_is_named), TP_SPARSE(what_cannot_be_read_is_refused),
         TP_SWEPT(findings_become_texts))
