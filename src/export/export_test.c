/* export_test.c - state lifted and given back, inputs checked, declared sizes against what tracing found. */
#include "base/test.h"
#include "export/constraints.h"
#include "export/signature.h"
#include "export/test_sizes.h"

static tp_graph *parse(const char *text)
{
    return tp_graph_parse(text, strlen(text));
}

static void expect_graph(const tp_graph *g, const char *want)
{
    tp_text text = { 0 };
    tp_graph_print(g, &text);
    TP_EXPECT_TEXT(tp_text_read(&text), want);
    tp_text_fini(&text);
}

/* ---- lifting ---- */
TP_TEST(attributes_become_inputs)
{
    tp_graph *g = parse("graph(%x):\n"
                        "    %c = get_attr c\n"
                        "    %add = aten.add.Tensor(%x, %c)\n"
                        "    %c_1 = get_attr c\n"
                        "    %mul = aten.mul.Tensor(%add, %c_1)\n"
                        "    return (%mul,)\n");
    TP_NEED(g);
    TP_NEED(tp_graph_lift(g, "c", "c_c", tp_graph_first(g)));
    expect_graph(g, "graph(%c_c, %x):\n"
                    "    %add = aten.add.Tensor(%x, %c_c)\n"
                    "    %mul = aten.mul.Tensor(%add, %c_c)\n"
                    "    return (%mul,)\n");
out:
    tp_graph_unref(g);
}

TP_TEST(inputs_become_attributes_and_are_written)
{
    tp_graph *g = parse("graph(%p_w, %b_n, %b_unused, %x):\n"
                        "    %add = aten.add.Tensor(%b_n, 1)\n"
                        "    %mul = aten.mul.Tensor(%x, %p_w)\n"
                        "    return (%add, %mul, %mul, None)\n");
    tp_input_spec in[] = { { TP_INPUT_PARAMETER, false, "p_w", "l.w" }, { TP_INPUT_BUFFER, true, "b_n", "n" },
                           { TP_INPUT_BUFFER, true, "b_unused", "unused" }, { TP_INPUT_USER, false, "x", NULL } };
    tp_output_spec out_specs[] = { { TP_OUTPUT_BUFFER, "n" }, { TP_OUTPUT_INPUT, "x" }, { TP_OUTPUT_USER, NULL },
                                   { TP_OUTPUT_USER, NULL } };
    tp_signature s = { in, out_specs, 4, 4 };
    TP_NEED(g);
    TP_NEED(tp_graph_unlift(g, &s));
    expect_graph(g, "graph(%x):\n"
                    "    %l_w = get_attr l.w\n"
                    "    %n = get_attr n\n"
                    "    %add = aten.add.Tensor(%n, 1)\n"
                    "    %mul = aten.mul.Tensor(%x, %l_w)\n"
                    "    %copy__default = aten.copy_.default(%n, %add)\n"
                    "    %copy__default_1 = aten.copy_.default(%x, %mul)\n"
                    "    return (%copy__default_1, None)\n");
out:
    tp_graph_unref(g);
}

TP_TEST(a_signature_must_fit)
{
    tp_graph *g = parse("graph(%x):\n    return (%x,)\n");
    tp_input_spec in[] = { { TP_INPUT_USER, false, "y", NULL } };
    tp_output_spec out_specs[] = { { TP_OUTPUT_BUFFER, NULL } };
    TP_NEED(g);
    tp_signature s = { in, out_specs, 1, 1 };
    TP_EXPECT(!tp_graph_unlift(g, &s));
    in[0].name = "x";
    TP_EXPECT(!tp_graph_unlift(g, &s));
    s.output_count = 0;
    TP_EXPECT(!tp_graph_unlift(g, &s));
out:
    tp_error_clear();
    tp_graph_unref(g);
}

/* ---- inputs ---- */
static const char *path(void *data, size_t i)
{
    (void)data;
    return i ? "*args[1]" : "*args[0]";
}

/* Sizes of a call against (x: [s0, 3], y: [2*s0 + 1]), s0 up to 8; NULL: accepted. */
static void expect_check(tp_graph *g, int64_t a, int64_t b, int64_t c, const char *want)
{
    tp_input_spec in[] = { { TP_INPUT_USER, false, "x", NULL }, { TP_INPUT_USER, false, "y", NULL } };
    tp_signature s = { .input = in, .input_count = 2 };
    tp_tensor *x = tp_tensor_new(TP_f32, 2, (int64_t[]){ a, b }), *y = x ? tp_tensor_new(TP_f32, 1, &c) : NULL;
    if (y) {
        bool ok = tp_inputs_check(g, &s, (tp_value[]){ tp_of_tensor(x), tp_of_tensor(y) }, 2, path, NULL);
        TP_EXPECT_TEXT(ok ? "accepted" : tp_error_text(), want ? want : "accepted");
    }
    tp_error_clear();
    tp_tensor_unref(x);
    tp_tensor_unref(y);
}

TP_TEST(sizes_unify)
{
    tp_graph *g = test_graph("graph(%x, %y):\n    return (%x,)\n");
    TP_NEED(g && TEST_FACT(g, "x", "s0", "3") && TEST_FACT(g, "y", "2*s0 + 1"));
    tp_sym s0 = tp_shape_env_find(g->env, "s0");
    TP_NEED(!tp_sym_is_failed(s0) && tp_symbol_narrow(s0, (tp_range){ 3, 8 }));
    expect_check(g, 4, 3, 9, NULL);
    expect_check(g, 4, 2, 9, "Expected input at *args[0].shape[1] to be equal to 3, but got 2");
    expect_check(g, 9, 3, 19, "Expected input at *args[0].shape[0] to be <= 8, but got 9");
    expect_check(g, 2, 3, 5, "Expected input at *args[0].shape[0] to be >= 3, but got 2");
    expect_check(g, 4, 3, 8, "Expected input at *args[1].shape[0] to be equal to 9, but got 8");
out:
    tp_graph_unref(g);
}

TP_TEST(a_derived_size_is_solved)
{
    tp_graph *g = test_graph("graph(%x, %y):\n    return (%x,)\n");
    TP_NEED(g && TEST_FACT(g, "x", "2*s0 + 1", "3") && TEST_FACT(g, "y", "s0"));
    expect_check(g, 9, 3, 4, NULL);
    expect_check(g, 8, 3, 4, "Expected input *args[0].shape[0] = 8 to be of the form 2*s0 + 1, where s0 is an integer");
    expect_check(g, 9, 3, 5, "Expected input at *args[1].shape[0] to be equal to 4, but got 5");
out:
    tp_graph_unref(g);
}

TP_TEST(constants_must_be_the_same)
{
    tp_graph *g = parse("graph(%x):\n    return (%x,)\n");
    tp_input_spec in[] = { { TP_INPUT_USER, false, "x", NULL } };
    tp_signature s = { .input = in, .input_count = 1 };
    TP_NEED(g);
    tp_node_set_fact(tp_graph_first(g), tp_int(5));
    TP_EXPECT(tp_inputs_check(g, &s, (tp_value[]){ tp_int(5) }, 1, path, NULL));
    TP_EXPECT(!tp_inputs_check(g, &s, (tp_value[]){ tp_float(5) }, 1, path, NULL));
    TP_EXPECT_TEXT(tp_error_text(), "Expected input at *args[0] to be equal to 5, but got 5.0");
    tp_error_clear();
out:
    tp_graph_unref(g);
}

/* ---- declared sizes ---- */
static tp_dim root(tp_shape_env *env, const char *name, const char *source, int64_t hint)
{
    return (tp_dim){ .name = name, .source = source, .symbol = tp_shape_env_symbol(env, hint, NULL, (tp_range){ 0, INT64_MAX }) };
}

static void guard(tp_sym condition)
{
    bool answer;
    if (!tp_sym_guard(condition, &answer))
        TP_EXPECT(tp_test_quiet);
}

TP_TEST(violations_and_fixes)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_text text = { 0 };
    TP_NEED(env);
    tp_dim dim[] = { root(env, "a", "L['a'].size()[0]", 4), root(env, "b", "L['b'].size()[0]", 4), root(env, "c", "L['c'].size()[0]", 6),
                     root(env, "d", "L['d'].size()[0]", 7), root(env, "e", "L['e'].size()[0]", 9) };
    TP_NEED(tp_dims_check(env, dim, 5, false, &text));
    TP_EXPECT(text.length == 0);
    guard(tp_sym_eq(dim[0].symbol, dim[1].symbol));
    guard(tp_sym_le(dim[2].symbol, tp_sym_int(8)));
    guard(tp_sym_eq(dim[3].symbol, tp_sym_int(7)));
    guard(tp_sym_eq(tp_sym_mod(dim[4].symbol, tp_sym_int(3)), tp_sym_int(0)));
    TP_NEED(tp_shape_env_check(env) && tp_dims_check(env, dim, 5, false, &text));
    TP_EXPECT_TEXT(tp_text_read(&text),
                   "Constraints violated (b, c, d, e)! For more information, run with TORCH_LOGS=\"+dynamic\".\n"
                   "  - Not all values of e = L['e'].size()[0] in the specified range satisfy the generated guard "
                   "L['e'].size()[0] % 3 == 0.\n"
                   "  - The values of b = L['b'].size()[0] and a = L['a'].size()[0] must always be equal.\n"
                   "  - Not all values of c = L['c'].size()[0] in the specified range satisfy the generated guard "
                   "2 <= L['c'].size()[0] and L['c'].size()[0] <= 8.\n"
                   "  - Not all values of d = L['d'].size()[0] in the specified range are valid because d was inferred to be a "
                   "constant (7).\n"
                   "Suggested fixes:\n"
                   "  c = Dim('c', max=8)\n"
                   "  b = a\n"
                   "  d = 7\n"
                   "  e = 3*_e\n");
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TEST(complex_relations_specialise)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_text text = { 0 };
    TP_NEED(env);
    tp_dim dim[] = { root(env, "a", "L['a'].size()[0]", 3), root(env, "b", "L['b'].size()[0]", 5) };
    guard(tp_sym_lt(tp_sym_mul(dim[0].symbol, dim[1].symbol), tp_sym_int(100)));
    TP_NEED(tp_shape_env_check(env) && tp_dims_check(env, dim, 2, true, &text));
    TP_EXPECT(text.length == 0);
    TP_NEED(tp_dims_check(env, dim, 2, false, &text));
    TP_EXPECT(strstr(tp_text_read(&text), "Specializations unexpectedly required (a, b)!"));
    TP_EXPECT(strstr(tp_text_read(&text), "  a = 3\n  b = 5\n"));
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TEST(roots_of_derived_sizes_are_named)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_text text = { 0 };
    TP_NEED(env);
    tp_dim of = root(env, "dy", "L['y'].size()[0]", 12);
    tp_sym y = of.symbol, x = tp_sym_sub(y, tp_sym_int(6));
    tp_dim dim[] = { of, { .name = "dy - 6", .source = "L['x'].size()[0]", .symbol = x, .derived = true, .root = 0 } };
    guard(tp_sym_eq(tp_sym_mul(x, tp_sym_int(2)), y));
    TP_NEED(tp_shape_env_check(env) && tp_dims_check(env, dim, 2, false, &text));
    TP_EXPECT(strstr(tp_text_read(&text), "Specializations unexpectedly required (dy)!"));
    TP_EXPECT(strstr(tp_text_read(&text), "  - dy - 6 = L['x'].size()[0] must be specialized to 6 because"));
    TP_EXPECT(strstr(tp_text_read(&text), "Suggested fixes:\n  dy = 12\n"));
    TP_EXPECT(!strstr(tp_text_read(&text), "dy - 6 = 6"));
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TESTS(TP_SWEPT(attributes_become_inputs), TP_SWEPT(inputs_become_attributes_and_are_written), TP_SWEPT(a_signature_must_fit),
         TP_SWEPT(sizes_unify), TP_SWEPT(a_derived_size_is_solved), TP_SWEPT(constants_must_be_the_same),
         TP_SWEPT(violations_and_fixes), TP_SWEPT(complex_relations_specialise), TP_SWEPT(roots_of_derived_sizes_are_named))
