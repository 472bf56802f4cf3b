/* step_test.c - expressions taken apart down to symbols, printed as calls. */
#include "base/test.h"
#include "sym/env.h"
#include "sym/step.h"

static bool print_steps(tp_sym x, tp_text *out)
{
    tp_sym_step s;
    if (!tp_sym_last_step(x, &s))
        return false;
    if (!s.operation) {
        tp_sym_print(x, out);
        return true;
    }
    tp_text_add(out, "%s(", s.operation);
    for (int i = 0; i < s.count; i++) {
        tp_text_add(out, i ? ", " : "");
        if (!print_steps(s.operand[i], out))
            return false;
    }
    tp_text_add(out, ")");
    return true;
}

TP_TEST(expressions_are_calls)
{
    static const char *const rows[][2] = {
        { "s0", "s0" },
        { "7", "7" },
        { "2*s0", "mul(s0, 2)" },
        { "s0 + 3", "add(s0, 3)" },
        { "s0 - 1", "sub(s0, 1)" },
        { "2*s0 + s1 + 5", "add(add(mul(s0, 2), s1), 5)" },
        { "s0*s1", "mul(s0, s1)" },
        { "s0**2", "pow(s0, 2)" },
        { "3*s0**2*s1", "mul(mul(pow(s0, 2), s1), 3)" },
        { "((s0//2))", "floordiv(s0, 2)" },
        { "Mod(s0, 3)", "mod(s0, 3)" },
        { "Max(s0, s1)", "sym_max(s0, s1)" },
        { "Eq(s0, s1)", "eq(s0, s1)" },
        { "s0 < s1", "lt(s0, s1)" },
    };
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    bool ok = env != NULL;
    for (int i = 0; ok && i < 2; i++)
        ok = !tp_sym_is_failed(tp_shape_env_symbol(env, 6 + i, NULL, TP_RANGE_ALL));
    for (size_t i = 0; ok && i < TP_COUNT(rows); i++) {
        tp_text text = { 0 };
        tp_sym x = tp_sym_parse(env, rows[i][0]);
        ok = !tp_sym_is_failed(x) && print_steps(x, &text) && !text.failed;
        if (ok)
            TP_EXPECT_TEXT(tp_text_read(&text), rows[i][1]);
        TP_EXPECT(ok);
        tp_text_fini(&text);
    }
    tp_shape_env_unref(env);
}

TP_TESTS(TP_SWEPT(expressions_are_calls))
