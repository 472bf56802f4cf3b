/* sym_test.c - integers in words, algebra and text of expressions, evaluation.
 *
 * Most texts are what PyTorch 2.13 prints for the same expression. Where ranges let us say more (`Max(s0, s0 + 1)` is
 * `s0 + 1`, `s0**2//s0` is `s0`, `Mod(4*s0 + 1, 4)` is 1, `u2 % 10` is `u2`) the text is our own choice. */
#include "base/test.h"
#include "sym/env.h"

/* s0 … s3 have hints 12, 8, 24, 5 and range [2, oo); u0, u1 are unbounded, u2 is in [0, 9]; zuf0 is a float. */
static tp_shape_env *common_env(void)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    if (!env)
        return NULL;
    const int64_t hints[] = { 12, 8, 24, 5 };
    for (size_t i = 0; i < TP_COUNT(hints); i++)
        (void)tp_shape_env_symbol(env, hints[i], NULL, TP_RANGE_ALL);
    (void)tp_shape_env_unbacked(env, TP_RANGE_ALL);
    (void)tp_shape_env_unbacked(env, TP_RANGE_ALL);
    (void)tp_shape_env_unbacked(env, (tp_range){ 0, 9 });
    (void)tp_shape_env_unbacked_float(env);
    if (!tp_shape_env_check(env)) {
        tp_shape_env_unref(env);
        return NULL;
    }
    return env;
}

typedef struct row {
    const char *input, *expected;
} row;

/* Each input, read and printed, gives the expected text; and that text, read again, the same word. */
static void check_rows(const row *rows, size_t count)
{
    tp_shape_env *env = common_env();
    tp_text text = { 0 };
    TP_NEED(env);
    for (size_t i = 0; i < count; i++) {
        tp_sym x = tp_sym_parse(env, rows[i].input);
        text.length = 0;
        tp_sym_print(x, &text);
        TP_NEED(!text.failed && !tp_sym_is_failed(x));
        TP_EXPECT_TEXT(tp_text_read(&text), rows[i].expected);
        TP_EXPECT(tp_sym_same(tp_sym_parse(env, rows[i].expected), x));
    }
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

static const row sums[] = {
    { "1 + s0", "s0 + 1" },
    { "s1*2", "2*s1" },
    { "s1*s0*4", "4*s0*s1" },
    { "s1 - s0", "-s0 + s1" },
    { "s0*s1 - 4*s0 + 4", "s0*s1 - 4*s0 + 4" },
    { "s0**2 + s1", "s0**2 + s1" },
    { "s1**2 + s0", "s0 + s1**2" },
    { "5 - s0", "5 - s0" },
    { "5 - 2*s0", "5 - 2*s0" },
    { "5 - s0*s1", "-s0*s1 + 5" },
    { "5 - s0**2", "5 - s0**2" },
    { "5 - s0 - s1", "-s0 - s1 + 5" },
    { "-5 - s0", "-s0 - 5" },
    { "(s0 + s1)*s2", "s0*s2 + s1*s2" },
    { "(s0 + s1)*(s0 - s1)", "s0**2 - s1**2" },
    { "(s0 + s1)**2", "s0**2 + 2*s0*s1 + s1**2" },
    { "-3*(s0 + s1)", "-3*s0 - 3*s1" },
    { "s0 - s0", "0" },
    { "s0*0", "0" },
    { "u0 + s0", "s0 + u0" },
    { "s0 + 9223372036854775807", "s0 + 9223372036854775807" },
    { "PowByNatural(s0, s1)*2 + 1", "2*(PowByNatural(s0, s1)) + 1" },
    { "s0**3*s1**2", "s0**3*s1**2" },
};

static const row divisions[] = {
    { "s0//2", "(s0//2)" },
    { "(s0 + 1)//2", "((s0 + 1)//2)" },
    { "(s0*s1)//s1", "s0" },
    { "(2*s0 + 4)//2", "s0 + 2" },
    { "(2*s0 + 3)//2", "s0 + 1" },
    { "(2*s0 + s1)//2", "s0 + ((s1//2))" },
    { "(-2*s0 + s1)//2", "-s0 + ((s1//2))" },
    { "(s0 + 4)//2", "((s0//2)) + 2" },
    { "(s0 + 5)//2", "((s0 + 5)//2)" },
    { "s0//2//3", "(s0//6)" },
    { "s0//s1//s2", "(s0//(s1*s2))" },
    { "(s0//-2)//3", "(s0//(-6))" },
    { "(s0*s1 + s1)//s1", "s0 + 1" },
    { "(4*s0)//6", "((2*s0)//3)" },
    { "(4*s0 + 2)//6", "((2*s0 + 1)//3)" },
    { "(4*s0 + 3)//6", "((4*s0 + 3)//6)" },
    { "(6*s0*s1)//(4*s1)", "((3*s0)//2)" },
    { "(s0*s1)//(s2*s1)", "(s0//s2)" },
    { "s0**2//s0", "s0" },
    { "(u0*s0)//u0", "((s0*u0)//u0)" },
    { "((s0 + s1)*s2)//(s0 + s1)", "s2" },
    { "(s0 + s1)//(s0 + s1)", "1" },
    { "s0//s0", "1" },
    { "0//s0", "0" },
    { "s0//-1", "-s0" },
    { "s0//-2", "(s0//(-2))" },
    { "-s0//2", "((-s0)//2)" },
    { "-3//s0", "((-3)//s0)" },
    { "2*(s0//2)", "2*((s0//2))" },
    { "s1*(s0//2)", "s1*((s0//2))" },
    { "(s0//s1)**2", "((s0//s1))**2" },
    { "((s0//2) + 1)//2", "((((s0//2)) + 1)//2)" },
    { "s0//(s1//2)", "(s0//((s1//2)))" },
    { "(3*(s0//2))//3", "(s0//2)" },
    { "(2*(s0//2))//4", "(s0//4)" },
    { "7 - 2*s1*(s0//2)", "-2*s1*((s0//2)) + 7" },
    { "2*((s0 + s1)//3) - s0", "-s0 + 2*(((s0 + s1)//3))" },
    { "CeilDiv(s0, s1)", "((s0 + s1 - 1)//s1)" },
    { "CeilDiv(s0, 4)", "((s0 + 3)//4)" },
    { "Max(s0, s1)//2", "(Max(s0, s1)//2)" },
    { "Mod(s0, s1)//2", "((Mod(s0, s1))//2)" },
    { "Abs(u0)//2", "((Abs(u0))//2)" },
    { "u2//10", "0" },
    { "(u2 + 20)//10", "2" },
};

static const row remainders[] = {
    { "Mod(s0, 2)", "Mod(s0, 2)" },
    { "(2*s0) % 2", "0" },
    { "Mod(s0*s1, s1)", "0" },
    { "Mod(2*s0 + 1, 2)", "1" },
    { "Mod(4*s0*s1, 2*s0)", "0" },
    { "Mod(s0 + 4, 4)", "Mod(s0 + 4, 4)" },
    { "Mod(s0, s0)", "0" },
    { "Mod(s0, 1)", "0" },
    { "Mod(Mod(s0, 4), 4)", "Mod(s0, 4)" },
    { "Mod(s0*s1, 4*s0 - 4)", "Mod(s0*s1, 4*s0 - 4)" },
    { "u0 % 2", "PythonMod(u0, 2)" },
    { "u2 % 2", "Mod(u2, 2)" },
    { "u2 % 10", "u2" },
    { "Mod(s0, 4)*s1", "s1*(Mod(s0, 4))" },
    { "s0*Mod(s1, 2) + Mod(s0, 2)", "s0*(Mod(s1, 2)) + (Mod(s0, 2))" },
    { "5 - Mod(s0, 2)", "5 - (Mod(s0, 2))" },
    { "Mod(s0, 2)**2", "(Mod(s0, 2))**2" },
};

static const row extremes[] = {
    { "Max(1, s0)", "s0" },
    { "Max(s0, 3)", "Max(3, s0)" },
    { "Max(s1, s0)", "Max(s0, s1)" },
    { "Max(s0, Max(s1, 7))", "Max(7, s0, s1)" },
    { "Max(s0, 5, 7)", "Max(7, s0)" },
    { "Max(0, u0)", "Max(0, u0)" },
    { "Max(s0, s0 + 1)", "s0 + 1" },
    { "Max(s0, 2*s0)", "2*s0" },
    { "Max(s0 - 1, s1)", "Max(s1, s0 - 1)" },
    { "Max(5 - s0, s1)", "Max(s1, 5 - s0)" },
    { "Max(u0, s0, Min(s1, u0))", "Max(s0, u0)" },
    { "Max(Min(s1, u0), 2*s0, -s1)", "Max(2*s0, Min(s1, u0))" },
    { "Max(s0 + s1, s0*s1, s0//2, Mod(u0, 9223372036854775807), 40)",
      "Max(40, s0*s1, s0 + s1, PythonMod(u0, 9223372036854775807))" },
    { "Min(Max(s0, s1), 3)", "Min(3, Max(s0, s1))" },
    { "Min(s0, 9223372036854775807)", "s0" },
    { "2*Min(s0, s1)", "2*Min(s0, s1)" },
    { "s0*Max(s0, s1)", "s0*Max(s0, s1)" },
    { "(s0//s1)*Max(s0, s1)", "((s0//s1))*Max(s0, s1)" },
    { "3*Max(s0, s1)**2", "3*Max(s0, s1)**2" },
    { "Min(s0**2, 5*s0)", "Min(5*s0, s0**2)" },
    { "Abs(s0)", "s0" },
    { "Abs(u0)*2 + 1", "2*Abs(u0) + 1" },
};

static const row conditions[] = {
    { "Eq(s0, 3)", "Eq(s0, 3)" },
    { "s0 < 5", "s0 < 5" },
    { "s0 > 5", "s0 > 5" },
    { "s0 < 2", "False" },
    { "s0 > Max(s0, s1)", "False" },
    { "Min(s0, s1) <= s1", "True" },
    { "s0 >= 2", "True" },
    { "Eq(s0 + s1, s1)", "False" },
    { "Eq(2*s0, 7)", "False" },
    { "s0 + 1 < 9223372036854775807", "True" },
    { "u0 < 9223372036854775807", "u0 < 9223372036854775807" },
    { "u0 <= 9223372036854775807", "True" },
    { "s0*s1 > s0", "True" },
    { "s0*s1 < s0*s2", "s0*s1 < s0*s2" },
    { "s0//2 < s0", "True" },
    { "s0 - s0//2 > 0", "True" },
    { "(s0//2)*2 <= s0", "True" },
    { "s0//2 < 3", "((s0//2)) < 3" },
    { "2*s0 + 1 < s1//2", "2*s0 + 1 < ((s1//2))" },
    { "Eq(Mod(s0, 2), 0)", "Eq(Mod(s0, 2), 0)" },
    { "Mod(s0, 2) < 2", "True" },
    { "~(s0 < 5)", "s0 >= 5" },
    { "~Eq(s0, 5)", "Ne(s0, 5)" },
    { "(s1 < 3) & (s0 < 5)", "(s0 < 5) & (s1 < 3)" },
    { "((s0 < 5) | (s1 < 3)) & Eq(s2, 4)", "Eq(s2, 4) & ((s0 < 5) | (s1 < 3))" },
    { "~(Eq(s0, 4) & (s1 < 5))", "~(Eq(s0, 4) & (s1 < 5))" },
    { "Eq(s0, 3) & Ne(s1, 4) & (s2 < 5)", "Eq(s0, 3) & (s2 < 5) & Ne(s1, 4)" },
    { "(s0 > 3) & (s1 < 3) & (s2 >= 3) & (s3 <= 3)", "(s2 >= 3) & (s3 <= 3) & (s0 > 3) & (s1 < 3)" },
    { "((s0 > 3) & Ne(s1, 3)) | (s2 >= 4) | (Eq(s2, 3) & (s0 < 9))",
      "(s2 >= 4) | (Eq(s2, 3) & (s0 < 9)) | ((s0 > 3) & Ne(s1, 3))" },
    { "(s0 < 5) & (s0 >= 5)", "False" },
    { "(s0 < 5) | True", "True" },
};

static const row floats[] = {
    { "zuf0*2", "2.0*zuf0" },
    { "zuf0 + s0", "zuf0 + ToFloat(s0)" },
    { "1.5 + zuf0", "zuf0 + 1.5" },
    { "zuf0 - 1", "zuf0 - 1.0" },
    { "-zuf0", "-zuf0" },
    { "s0/2", "IntTrueDiv(s0, 2)" },
    { "ToFloat(s0)/2", "FloatTrueDiv(ToFloat(s0), 2.0)" },
    { "s0**0.5", "FloatPow(ToFloat(s0), 0.5)" },
    { "TruncToInt(zuf0)", "TruncToInt(zuf0)" },
    { "TruncToInt(ToFloat(s0))", "s0" },
    { "OpaqueUnaryFn_sqrt(s0)", "OpaqueUnaryFn_sqrt(ToFloat(s0))" },
    { "OpaqueUnaryFn_log2(s0/2)", "OpaqueUnaryFn_log2(IntTrueDiv(s0, 2))" },
    { "TruncToInt(zuf0)*2 + 1", "2*TruncToInt(zuf0) + 1" },
    { "FloorToInt(s0*2.0)", "FloorToInt(2.0*ToFloat(s0))" },
    { "CeilToInt(s0/2)", "CeilToInt(IntTrueDiv(s0, 2))" },
    { "RoundToInt(2.5)", "2" },
    { "CeilToInt(2.5) + FloorToInt(-2.5) + TruncToInt(-2.5)", "-2" },
    { "zuf0 > 2", "zuf0 > 2.0" },
    { "zuf0*0.000000001", "1.0e-9*zuf0" },
    { "zuf0*0.1", "0.1*zuf0" },
    { "2*Where(Eq(s0, 3), s0 + 1, s1//2) + 1", "2*(Where(Eq(s0, 3), s0 + 1, (s1//2))) + 1" },
};

TP_TEST(sums_are_polynomials) { check_rows(sums, TP_COUNT(sums)); }
TP_TEST(divisions_simplify) { check_rows(divisions, TP_COUNT(divisions)); }
TP_TEST(remainders_simplify) { check_rows(remainders, TP_COUNT(remainders)); }
TP_TEST(extremes_drop_the_idle) { check_rows(extremes, TP_COUNT(extremes)); }
TP_TEST(conditions_are_decided) { check_rows(conditions, TP_COUNT(conditions)); }
TP_TEST(floats_stay_as_written) { check_rows(floats, TP_COUNT(floats)); }

TP_TEST(canonical_forms)
{
    static const row rows[] = {
        { "s0 > 5", "5 < s0" },
        { "2*s0 - 4 >= 2", "3 <= s0" },
        { "u0 >= 0", "0 <= u0" },
        { "u1 < 6", "u1 < 6" },
        { "-s0 <= -3", "3 <= s0" },
        { "Eq(3, s0)", "Eq(s0, 3)" },
        { "Eq(s0 + 1, 4)", "Eq(s0, 3)" },
        { "Eq(s1, s0)", "Eq(s0, s1)" },
        { "Ne(u1, s0 + 2)", "Ne(s0 + 2, u1)" },
        { "s0 - s1 < u0 + 3", "s0 < s1 + u0 + 3" },
    };
    tp_shape_env *env = common_env();
    tp_text text = { 0 };
    TP_NEED(env);
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_sym x = tp_sym_canonical(tp_sym_parse(env, rows[i].input));
        text.length = 0;
        tp_sym_print(x, &text);
        TP_NEED(!text.failed && !tp_sym_is_failed(x));
        TP_EXPECT_TEXT(tp_text_read(&text), rows[i].expected);
    }
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TEST(sources_read_as_python)
{
    static const row rows[] = {
        { "Eq(s0, 3)", "x[0] == 3" },
        { "Ne(s0, s1)", "x[0] != x[1]" },
        { "s0 >= s1 + 1", "x[0] >= 1 + x[1]" },
        { "Eq(Mod(s0, 4), 0)", "(x[0] % 4) == 0" },
        { "Eq(Mod(s0*s1, 4*s0 - 4), 0)", "((x[0]*x[1]) % ((-4) + 4*x[0])) == 0" },
        { "Eq(s0, 2*(s1//2) + 1)", "x[0] == (1 + 2*(x[1] // 2))" },
        { "Max(s0, s1) < 3", "max(x[0], x[1]) < 3" },
        { "Min(s0, s1, 7) < 3", "min(7, x[0], x[1]) < 3" },
        { "(s0 < 5) & Ne(s1, 3)", "x[0] < 5 and x[1] != 3" },
        { "(s0 < 5) | ((s1 < 3) & (s0 < 4))", "x[0] < 5 or x[0] < 4 and x[1] < 3" },
        { "~((s0 < 5) & (s1 < 3))", "not (x[0] < 5 and x[1] < 3)" },
        { "Eq(s0**2, 3*s1)", "x[0]*x[0] == (3*x[1])" },
        { "9 - 2*s0 < s1", "9 + ((-2)*x[0]) < x[1]" },
        { "Eq(s1 - s0, 3)", "(x[1] + ((-1)*x[0])) == 3" },
        { "(s0 + 1)//s1 < Mod(s0 + 1, 3)", "((1 + x[0]) // x[1]) < ((1 + x[0]) % 3)" },
        { "(s0//2)**2 < 4", "(x[0] // 2)*(x[0] // 2) < 4" },
        { "s0/2 < 4", "(x[0] / 2) < 4.0" },
        { "u0 > s0", "u0 > x[0]" },
    };
    tp_shape_env *env = common_env();
    tp_text text = { 0 };
    TP_NEED(env && tp_symbol_add_source(tp_shape_env_find(env, "s0"), "x[0]"));
    TP_NEED(tp_symbol_add_source(tp_shape_env_find(env, "s1"), "x[1]"));
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_sym x = tp_sym_parse(env, rows[i].input);
        text.length = 0;
        tp_sym_print_source(x, &text);
        TP_NEED(!text.failed && !tp_sym_is_failed(x));
        TP_EXPECT_TEXT(tp_text_read(&text), rows[i].expected);
    }
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TEST(integers_fit_in_the_word)
{
    const int64_t values[] = { 0, 1, -1, 5, INT64_MAX, INT64_MAX - 1, ((int64_t)1 << 62) - 1, (int64_t)1 << 62,
                               -((int64_t)1 << 62), -((int64_t)1 << 62) - 1, -INT64_MAX / 4 * 3,
                               INT64_MIN + ((int64_t)1 << 56) };
    for (size_t i = 0; i < TP_COUNT(values); i++) {
        tp_sym x = tp_sym_int(values[i]);
        TP_EXPECT(tp_sym_is_int(x) && !tp_sym_is_node(x) && tp_sym_as_int(x) == values[i]);
    }
    TP_EXPECT(tp_sym_is_failed(tp_sym_int(INT64_MIN)) && tp_error_kind() == TP_ERR_OVERFLOW);
    TP_EXPECT(tp_sym_same(tp_sym_sub(tp_sym_int(INT64_MAX), tp_sym_int(INT64_MAX)), tp_sym_int(0)));
    TP_EXPECT(tp_sym_as_int(tp_sym_add(tp_sym_int(INT64_MAX - 1), tp_sym_int(1))) == INT64_MAX);
    TP_EXPECT(tp_sym_is_failed(tp_sym_add(tp_sym_int(INT64_MAX), tp_sym_int(1))));
    TP_EXPECT(tp_sym_as_int(tp_sym_mul(tp_sym_int(-7), tp_sym_int(6))) == -42);
    TP_EXPECT(tp_sym_as_int(tp_sym_mul(tp_sym_int((int64_t)1 << 40), tp_sym_int(1 << 22))) == (int64_t)1 << 62);
    TP_EXPECT(tp_sym_as_int(tp_sym_floordiv(tp_sym_int(-7), tp_sym_int(2))) == -4);
    TP_EXPECT(tp_sym_as_int(tp_sym_floordiv(tp_sym_int(INT64_MAX), tp_sym_int(2))) == INT64_MAX / 2);
    TP_EXPECT(tp_sym_as_int(tp_sym_mod(tp_sym_int(-7), tp_sym_int(3))) == 2);
    TP_EXPECT(tp_sym_as_int(tp_sym_mod(tp_sym_int(7), tp_sym_int(-3))) == -2);
    TP_EXPECT(tp_sym_as_int(tp_sym_min(tp_sym_int(7), tp_sym_int(INT64_MAX))) == 7);
    TP_EXPECT(tp_sym_same(tp_sym_lt(tp_sym_int(7), tp_sym_int(INT64_MAX)), TP_SYM_TRUE));
    TP_EXPECT(tp_sym_is_failed(tp_sym_floordiv(tp_sym_int(7), tp_sym_int(0))));
    TP_EXPECT(tp_error_kind() == TP_ERR_ZERO_DIVISION);
}

TP_TEST(failures_stick_to_the_word)
{
    tp_shape_env *env = common_env();
    TP_NEED(env);
    tp_sym s0 = tp_shape_env_find(env, "s0"), bad = tp_sym_floordiv(s0, tp_sym_int(0));
    TP_EXPECT(tp_sym_is_failed(bad) && tp_sym_is_failed(tp_sym_add(bad, s0)) && tp_sym_is_failed(tp_sym_lt(s0, bad)));
    tp_error_clear();
    TP_EXPECT(!tp_shape_env_check(env) && tp_error_kind() == TP_ERR_ZERO_DIVISION);
    TP_EXPECT(tp_shape_env_check(env));
    static const char *const wrong[] = { "s0 +", "s9", "(s0", "Mod(s0)", "Mod(1, 2, 3)", "(s0 < 3) + 1", "s0 & 1",
                                         "s0 s1", "99999999999999999999", "zuf0 // 2", "Frob(s0)", "" };
    for (size_t i = 0; i < TP_COUNT(wrong); i++) {
        tp_error_clear();
        TP_EXPECT(tp_sym_is_failed(tp_sym_parse(env, wrong[i])));
        TP_EXPECT(tp_error_kind() == TP_ERR_VALUE);
    }
out:
    tp_shape_env_unref(env);
}

TP_TEST(values_and_substitution)
{
    tp_shape_env *env = common_env();
    tp_text text = { 0 };
    int64_t value = 0;
    TP_NEED(env);
    tp_sym s0 = tp_shape_env_find(env, "s0"), s1 = tp_shape_env_find(env, "s1"), u0 = tp_shape_env_find(env, "u0");
    tp_sym x = tp_sym_parse(env, "s0**2*s1 - Max(s0, s1)//2 + Mod(s0, 5)");
    tp_sym y = tp_sym_parse(env, "(s0 + 1)*(s1 - u0)");
    TP_NEED(!tp_sym_is_failed(x) && !tp_sym_is_failed(y));
    TP_EXPECT(tp_sym_hint(x, &value) && value == 144 * 8 - 6 + 2);
    TP_EXPECT(!tp_sym_hint(y, &value));
    TP_EXPECT(tp_sym_hint(tp_sym_parse(env, "FloorToInt(s0*2.6) + CeilToInt(s1/3)"), &value) && value == 34);
    tp_binding b[] = { { s0, tp_sym_int(3) }, { s1, tp_sym_int(10) } };
    TP_EXPECT(tp_sym_eval(x, b, 2, &value) && value == 90 - 5 + 3);
    TP_EXPECT(!tp_sym_eval(y, b, 2, &value) && tp_error_kind() == TP_ERR_VALUE);
    tp_binding swap[] = { { s0, s1 }, { s1, tp_sym_add(s0, tp_sym_int(2)) } };
    tp_sym_print(tp_sym_substitute(y, swap, 2), &text);
    TP_NEED(!text.failed);
    TP_EXPECT_TEXT(tp_text_read(&text), "s0*s1 + s0 - s1*u0 + 2*s1 - u0 + 2");
    tp_sym found[4];
    TP_EXPECT(tp_sym_free_symbols(y, found, 4) == 3 && tp_sym_same(found[0], s0) && tp_sym_same(found[2], u0));
    TP_EXPECT(tp_sym_has_unbacked(y) && !tp_sym_has_unbacked(x));
    text.length = 0;
    tp_sym_print(tp_sym_solve(tp_sym_parse(env, "Eq(2*s0 + 4, 6*s1)"), s0), &text);
    TP_NEED(!text.failed);
    TP_EXPECT_TEXT(tp_text_read(&text), "3*s1 - 2");
    TP_EXPECT(tp_sym_is_failed(tp_sym_solve(tp_sym_parse(env, "Eq(2*s0 + 3, 6*s1)"), s0)));
    TP_EXPECT(tp_sym_is_failed(tp_sym_solve(tp_sym_parse(env, "Eq(s0*s1, 6)"), s0)));
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TEST(children_share_their_parents_nodes)
{
    tp_shape_env *env = common_env(), *child = env ? tp_shape_env_new(env, NULL) : NULL;
    TP_NEED(child);
    tp_sym s0 = tp_shape_env_find(child, "s0"), i = tp_shape_env_named(child, "i", NULL, (tp_range){ 0, 99 });
    TP_NEED(!tp_sym_is_failed(i));
    tp_sym sum = tp_sym_add(tp_sym_add(s0, s0), i), back = tp_sym_sub(sum, i);
    TP_NEED(!tp_sym_is_failed(back));
    TP_EXPECT(tp_sym_env(sum) == child && tp_sym_env(back) == env && tp_sym_same(back, tp_sym_mul(tp_sym_int(2), s0)));
    TP_EXPECT(tp_sym_same(tp_sym_lt(i, tp_sym_int(100)), TP_SYM_TRUE));
    TP_EXPECT(tp_sym_is_failed(tp_shape_env_named(child, "i", NULL, TP_RANGE_ALL)));
out:
    tp_shape_env_unref(env);
    tp_shape_env_unref(child);
}

TP_TEST(bits_and_float_extremes_read_back)
{
    static const struct { const char *text; double hint; } rows[] = {
        { "BitwiseFn_bitwise_and(s0, 6)", 4 },   { "BitwiseFn_bitwise_or(s0, s1)", 12 },  { "BitwiseFn_bitwise_xor(s0, -1)", -13 },
        { "Max(4.5, ToFloat(s0))", 12 },         { "Min(4.5, ToFloat(s0))", 4.5 },        { "Abs(-1.5*ToFloat(s0))", 18 },
        { "RoundDecimal(IntTrueDiv(s0, 7), 1)", 1.7 }, { "FloatPow(ToFloat(s1), -1.0)", 0.125 },
    };
    tp_shape_env *env = common_env();
    tp_text text = { 0 };
    TP_NEED(env);
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        double hint = 0;
        tp_sym x = tp_sym_parse(env, rows[i].text);
        TP_NEED(!tp_sym_is_failed(x));
        tp_text_fini(&text);
        text = (tp_text){ 0 };
        tp_sym_print(tp_sym_simplify(x), &text);
        TP_EXPECT_TEXT(tp_text_read(&text), rows[i].text);
        TP_EXPECT(tp_sym_hint_float(x, &hint) && hint == rows[i].hint);
    }
    tp_range r = tp_sym_range(tp_sym_parse(env, "BitwiseFn_bitwise_and(s0, 6)"));
    TP_EXPECT(r.low == 0 && r.high == 6);
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TEST(nesting_has_an_end)
{
    tp_shape_env *env = common_env();
    TP_NEED(env);
    tp_sym s1 = tp_shape_env_find(env, "s1"), x = tp_shape_env_find(env, "s0");
    int64_t hint;
    for (int i = 0; i < 100; i++)
        x = tp_sym_add(tp_sym_floordiv(x, tp_sym_int(2)), s1);
    TP_NEED(!tp_sym_is_failed(x));
    TP_EXPECT(tp_sym_hint(x, &hint) && hint == 15 && tp_sym_range(x).low == 3);
    for (int i = 0; i < 1000 && !tp_sym_is_failed(x); i++)
        x = tp_sym_add(tp_sym_floordiv(x, tp_sym_int(2)), s1);
    TP_EXPECT(tp_sym_is_failed(x) && (tp_error_kind() == TP_ERR_RECURSION || tp_error_kind() == TP_ERR_MEMORY));
out:
    tp_shape_env_unref(env);
}

TP_TESTS(TP_SWEPT(bits_and_float_extremes_read_back), TP_SPARSE(nesting_has_an_end), TP_SWEPT(sums_are_polynomials), TP_SWEPT(divisions_simplify), TP_SWEPT(remainders_simplify),
         TP_SWEPT(extremes_drop_the_idle), TP_SWEPT(conditions_are_decided), TP_SWEPT(floats_stay_as_written),
         TP_SWEPT(canonical_forms), TP_SWEPT(sources_read_as_python),
         TP_SWEPT(integers_fit_in_the_word), TP_SWEPT(failures_stick_to_the_word),
         TP_SWEPT(values_and_substitution), TP_SWEPT(children_share_their_parents_nodes))
