/* guard_test.c - what an environment knows, decides and records. */
#include "base/test.h"
#include "sym/program.h"

/* A script: each line does one thing with an expression and states the outcome.
 *     sym N        a backed symbol with this hint            -> its text
 *     unbacked     an unbacked symbol                        -> its text
 *     known C      TP_YES, TP_NO, TP_UNKNOWN                 -> yes, no, unknown
 *     guard C      decides, recording                        -> True, False, or "error: first line"
 *     assume C     takes as a fact                           -> ok, or "error: first line"
 *     int X        specialises                               -> the number
 *     simplify X   with replacements                         -> text
 *     range X                                                -> [low, high], oo for no bound
 *     guards       those on record                           -> texts joined by ", "; deferred ones in braces */
typedef struct step {
    const char *action, *expected;
} step;

static void print_range(tp_range r, tp_text *out)
{
    if (r.low == INT64_MIN)
        tp_text_add(out, "[-oo, ");
    else
        tp_text_add(out, "[%lld, ", LL(r.low));
    if (r.high == INT64_MAX)
        tp_text_add(out, "oo]");
    else
        tp_text_add(out, "%lld]", LL(r.high));
}

static void print_error(tp_text *out)
{
    const char *text = tp_error_text();
    tp_text_add(out, "error: %.*s", (int)strcspn(text, "\n"), text);
    tp_error_clear();
}

static void print_guards(const tp_shape_env *env, tp_text *out)
{
    for (size_t i = 0; i < tp_shape_env_guard_count(env); i++) {
        const tp_sym_fact *g = tp_shape_env_guard_at(env, i);
        tp_text_add(out, g->deferred ? "%s{%s}" : "%s%s", i ? ", " : "", g->text);
    }
}

static const char *after(const char *action, const char *word)
{
    size_t length = strlen(word);
    return strncmp(action, word, length) == 0 ? action + length : NULL;
}

static void act(tp_shape_env *env, const char *action, tp_text *out)
{
    static const char *const answers[] = { "no", "yes", "unknown" };
    const char *rest;
    bool answer;
    int64_t value;
    if ((rest = after(action, "sym ")))
        tp_sym_print(tp_shape_env_symbol(env, atoi(rest), "L['x'].size()[0]", TP_RANGE_ALL), out);
    else if (strcmp(action, "unbacked") == 0)
        tp_sym_print(tp_shape_env_unbacked(env, TP_RANGE_ALL), out);
    else if ((rest = after(action, "known ")))
        tp_text_add(out, "%s", answers[tp_sym_known(tp_sym_parse(env, rest))]);
    else if ((rest = after(action, "simplify ")))
        tp_sym_print(tp_sym_simplify(tp_sym_parse(env, rest)), out);
    else if ((rest = after(action, "range ")))
        print_range(tp_sym_range(tp_sym_simplify(tp_sym_parse(env, rest))), out);
    else if (strcmp(action, "guards") == 0)
        print_guards(env, out);
    else if ((rest = after(action, "guard ")) && tp_sym_guard(tp_sym_parse(env, rest), &answer))
        tp_text_add(out, answer ? "True" : "False");
    else if ((rest = after(action, "assume ")) && tp_sym_assume(tp_sym_parse(env, rest), NULL))
        tp_text_add(out, "ok");
    else if ((rest = after(action, "int ")) && tp_sym_guard_int(tp_sym_parse(env, rest), &value))
        tp_text_add(out, "%lld", LL(value));
    else
        print_error(out);
}

static void play(const step *steps, size_t count)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_text out = { 0 };
    TP_NEED(env);
    for (size_t i = 0; i < count; i++) {
        out.length = 0;
        act(env, steps[i].action, &out);
        if (strcmp(tp_text_read(&out), steps[i].expected) != 0 && !tp_test_quiet)
            printf("# %s\n", steps[i].action);
        TP_EXPECT_TEXT(tp_text_read(&out), steps[i].expected);
        TP_NEED(!out.failed && (!tp_test_quiet || tp_error_kind() == TP_ERR_NONE));
    }
out:
    tp_text_fini(&out);
    tp_shape_env_unref(env);
}

#define PLAY(...)                                  \
    static const step steps[] = { __VA_ARGS__ };   \
    play(steps, TP_COUNT(steps))

TP_TEST(ranges_grow_tighter)
{
    PLAY({ "sym 12", "s0" }, { "known s0 > 1", "yes" }, { "known s0 > 2", "unknown" }, { "guard s0 > 2", "True" },
         { "guard s0 > 5", "True" }, { "guard s0 <= 12", "True" }, { "guard s0 > 3", "True" },
         { "range s0", "[6, 12]" },
         { "guard s0*s0 > 20", "True" }, { "guard s0 < 10", "False" }, { "range 2*s0 + 1", "[21, 25]" },
         { "guards", "s0 > 2, s0 > 5, s0 <= 12, s0 >= 10" });
}

TP_TEST(equalities_replace)
{
    PLAY({ "sym 12", "s0" }, { "sym 12", "s1" }, { "sym 24", "s2" }, { "sym 14", "s3" }, { "sym 8", "s4" },
         { "guard Eq(s1, s0)", "True" }, { "simplify s1 + 1", "s0 + 1" }, { "guard Eq(s2, 2*s0)", "True" },
         { "simplify s2 - s1", "s0" }, { "guard Eq(s3, s1 + 2)", "True" }, { "known Eq(s3 - 2, s0)", "yes" },
         { "guard s2 <= 40", "True" }, { "range s0", "[2, 20]" }, { "range s3", "[4, 22]" }, { "int s4", "8" },
         { "simplify s0 % s4", "Mod(s0, 8)" }, { "guard Eq(s1, 12)", "True" }, { "simplify s2 + s3 + s0", "50" },
         { "guards", "Eq(s1, s0), Eq(s2, 2*s0), Eq(s3, s0 + 2), 2*s0 <= 40, Eq(s4, 8), Eq(s0, 12)" });
}

TP_TEST(congruences_are_kept)
{
    PLAY({ "sym 12", "s0" }, { "sym 7", "s1" }, { "guard Eq(Mod(s0, 4), 0)", "True" },
         { "guard Eq(Mod(s0, 2), 0)", "True" },
         { "known Eq(Mod(s0 + 1, 2), 1)", "yes" }, { "known Eq(s0, 13)", "no" }, { "simplify 4*(s0//4)", "s0" },
         { "simplify 8*(s0//4) + 1", "2*s0 + 1" }, { "known Eq(Mod(s0*s1, 4), 0)", "yes" },
         { "range s0", "[4, oo]" }, { "guard Eq(Mod(s0, 3), 0)", "True" }, { "known Eq(Mod(s0, 12), 0)", "yes" },
         { "guard Eq(Mod(3*s1 + 1, 8), 6)", "True" }, { "known Eq(Mod(s1, 8), 7)", "yes" },
         { "guard Eq(Mod(s0*s1, 5), 4)", "True" }, { "known Eq(Mod(s0*s1, 5), 0)", "no" },
         { "guards", "Eq(Mod(s0, 4), 0), Eq(Mod(s0, 3), 0), Eq(Mod(3*s1 + 1, 8), 6), Eq(Mod(s0*s1, 5), 4)" });
}

TP_TEST(false_answers_are_facts_too)
{
    PLAY({ "sym 20", "s0" }, { "sym 3", "s1" }, { "guard Eq(s0, 30)", "False" }, { "known Ne(s0, 30)", "yes" },
         { "guard Eq(Mod(s0, 7), 0)", "False" }, { "known Eq(Mod(s0, 7), 0)", "no" }, { "guard Eq(s0, s1)", "False" },
         { "known Ne(s1, s0)", "yes" }, { "guard Eq(s0, 2)", "False" }, { "range s0", "[3, oo]" },
         { "guard s0 > s1", "True" }, { "known s1 < s0 + 5", "yes" }, { "known s0 - s1 >= 1", "yes" },
         { "known s0 - s1 >= 2", "unknown" },
         { "guards", "Ne(s0, 30), Ne(Mod(s0, 7), 0), Ne(s0, s1), Ne(s0, 2), s0 > s1" });
}

TP_TEST(unbacked_symbols_need_facts)
{
    PLAY({ "sym 12", "s0" }, { "unbacked", "u0" }, { "unbacked", "u1" },
         { "guard Eq(u0, 1)",
           "error: Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  "
           "(Size-like symbols: none)" },
         { "guard u0 < s0 + 1", "error: Could not guard on data-dependent expression u0 < 13 (unhinted: u0 < s0 + 1).  "
                                "(Size-like symbols: none)" },
         { "int u0", "error: Could not extract specialized integer from data-dependent expression u0 (unhinted: u0).  "
                     "(Size-like symbols: none)" },
         { "assume u0 >= 0", "ok" }, { "guard u0 >= 0", "True" }, { "simplify u0 % 2", "Mod(u0, 2)" },
         { "assume u0 < s0", "ok" }, { "guard u0 <= s0", "True" }, { "guard u0 < s0 + 1", "True" },
         { "guard u0 + 1 <= s0", "True" }, { "guard Eq(u0, s0)", "False" }, { "simplify Max(s0, u0)", "s0" },
         { "assume Eq(u1, u0 + s0)", "ok" }, { "guard Eq(u0 + s0, u1)", "True" }, { "simplify u1", "u1" },
         { "range u1", "[2, oo]" }, { "assume Ne(u0, 7)", "ok" }, { "guard Eq(u0, 7)", "False" },
         { "assume u0 <= 5", "ok" }, { "assume u0 > 5", "error: Runtime assertion failed for expression False" },
         { "guards", "{0 <= u0}, {u0 < s0}, {Eq(s0 + u0, u1)}, {Ne(u0, 7)}, {u0 <= 5}" });
}

TP_TEST(unbacked_equalities_replace)
{
    PLAY({ "sym 12", "s0" }, { "unbacked", "u0" }, { "unbacked", "u1" }, { "unbacked", "u2" },
         { "assume Eq(u0, s0)", "ok" },
         { "simplify u0 + 1", "s0 + 1" }, { "assume Eq(u1, u2)", "ok" }, { "simplify u2", "u1" },
         { "assume u1 >= 3", "ok" },
         { "range u2", "[3, oo]" }, { "assume u2 <= 3", "ok" }, { "simplify u1 + u2", "6" }, { "int u2", "3" },
         { "assume (u0 > 4) & (u0 < 40)", "ok" }, { "range s0", "[5, 39]" });
}

TP_TEST(atoms_pass_ranges_on)
{
    PLAY({ "sym 7", "s0" }, { "sym 5", "s1" }, { "guard Eq(s0//2, 3)", "True" }, { "range s0", "[6, 7]" },
         { "guard Max(s0, s1) < 9", "True" }, { "range s1", "[2, 8]" }, { "guard s0 + s1 < 13", "True" },
         { "range s1", "[2, 6]" }, { "known s0 - s1 >= 0", "yes" });
}

TP_TEST(zero_and_one_are_integers)
{
    PLAY({ "sym 1", "1" }, { "sym 0", "0" }, { "sym 2", "s0" }, { "known s0 > 1", "yes" });
}

/* What the export solver does with `s0 % 3 == 2`: a new root, s0 = 3*_dx - 1. */
TP_TEST(roots_replace_symbols)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_text text = { 0 };
    int64_t hint = 2;
    TP_NEED(env);
    tp_sym s0 = tp_shape_env_symbol(env, 5, NULL, (tp_range){ 5, 36 });
    tp_sym root = tp_shape_env_named(env, "_dx", &hint, (tp_range){ 1, INT64_MAX });
    tp_sym by = tp_sym_sub(tp_sym_mul(tp_sym_int(3), root), tp_sym_int(1));
    TP_NEED(!tp_sym_is_failed(s0) && !tp_sym_is_failed(by) && tp_symbol_replace(s0, by));
    tp_sym_print(tp_sym_simplify(s0), &text);
    tp_text_add(&text, "; ");
    tp_sym_print(tp_sym_simplify(tp_sym_add(s0, tp_sym_int(3))), &text);
    tp_text_add(&text, "; ");
    print_range(tp_sym_range(root), &text);
    TP_NEED(!text.failed && tp_shape_env_check(env));
    TP_EXPECT_TEXT(tp_text_read(&text), "3*_dx - 1; 3*_dx + 2; [2, 12]");
    TP_EXPECT(!tp_symbol_narrow(s0, (tp_range){ 40, 50 }) && tp_error_kind() == TP_ERR_VALUE);
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TEST(numbers_are_conditions)
{
    tp_shape_env *env = tp_shape_env_new(NULL, &(tp_shape_env_options){ .keep_zero_one = true });
    bool answer = true;
    TP_NEED(env);
    tp_sym s0 = tp_shape_env_symbol(env, 0, NULL, (tp_range){ 0, INT64_MAX });
    TP_NEED(tp_sym_is_node(s0) && tp_sym_guard(s0, &answer));
    TP_EXPECT(!answer && tp_sym_same(tp_sym_simplify(s0), tp_sym_int(0)));
    TP_NEED(tp_sym_guard(tp_sym_int(7), &answer));
    TP_EXPECT(answer);
out:
    tp_shape_env_unref(env);
}

TP_TEST(guards_print_as_pytorch_prints_them)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_text text = { 0 };
    bool answer = false;
    int64_t value = 0;
    TP_NEED(env);
    tp_sym s0 = tp_shape_env_symbol(env, 128, "L['x'].size()[0]", TP_RANGE_ALL);
    tp_sym s1 = tp_shape_env_symbol(env, 20, "L['x'].size()[1]", TP_RANGE_ALL);
    tp_sym s2 = tp_shape_env_symbol(env, 30, "L['y'].size()[1]", TP_RANGE_ALL);
    TP_NEED(tp_symbol_add_source(s0, "L['y'].size()[0]"));
    TP_NEED(tp_sym_guard(tp_sym_eq(s1, tp_sym_int(20)), &answer) && tp_sym_guard_int(s2, &value));
    TP_EXPECT(answer && value == 30 && tp_symbol_of(s0)->source_count == 2);
    tp_shape_env_format_guards(env, &text);
    TP_NEED(!text.failed);
    TP_EXPECT_TEXT(tp_text_read(&text), " - Eq(s1, 20)\n - Eq(s2, 30)");
    tp_shape_env_freeze(env, true);
    TP_NEED(tp_sym_guard(tp_sym_gt(s0, tp_sym_int(100)), &answer));
    TP_EXPECT(answer && tp_shape_env_guard_count(env) == 2);
out:
    tp_text_fini(&text);
    tp_shape_env_unref(env);
}

TP_TEST(compiled_guards_agree)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    tp_guard_program *program = NULL;
    bool answer;
    TP_NEED(env);
    (void)tp_shape_env_symbol(env, 12, NULL, (tp_range){ 2, 100 });
    (void)tp_shape_env_symbol(env, 8, NULL, TP_RANGE_ALL);
    (void)tp_shape_env_unbacked(env, TP_RANGE_ALL);
    static const char *const conditions[] = { "Eq(Mod(s0*s1, 8), 0)", "s0**2 + 3*s1 - 5 > 2*Max(s0, s1)//3",
                                              "(s0 < 5) | Ne(s1, 9)", "Eq(s0//s1, 4)", "Min(s0, s1, 30) >= 4" };
    for (size_t i = 0; i < TP_COUNT(conditions); i++)
        TP_NEED(tp_sym_guard(tp_sym_parse(env, conditions[i]), &answer));
    TP_NEED(tp_sym_assume(tp_sym_parse(env, "u0 >= 0"), NULL) && (program = tp_guard_program_new(env)));
    static const struct { int64_t values[3]; int failed; } rows[] = {
        { { 12, 8, -5 }, -1 }, { { 13, 8, 0 }, -1 }, { { 13, 7, 0 }, 0 },  { { 8, 9, 0 }, 2 }, { { 40, 9, 0 }, 2 },
        { { 64, 16, 0 }, 3 },  { { 8, 3, 0 }, 4 },   { { 101, 8, 0 }, 6 }, { { 12, 1, 0 }, 7 },
        { { 4, INT64_MAX, 0 }, 0 },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        size_t failed = SIZE_MAX;
        bool holds = tp_guard_program_check(program, rows[i].values, &failed);
        TP_EXPECT(holds == (rows[i].failed < 0) && (holds || failed == (size_t)rows[i].failed));
    }
out:
    tp_guard_program_free(program);
    tp_shape_env_unref(env);
}

static void *take_stack(void *context)
{
    ++*(int *)context;
    return context;
}

static void drop_stack(void *stack)
{
    --*(int *)stack;
}

static void print_stack(void *stack, tp_text *text)
{
    tp_text_add(text, "The following call raised this error: %d", *(int *)stack);
}

TP_TEST(stacks_are_taken_and_released)
{
    int held = 0;
    tp_shape_env_options options = { .stack = { take_stack, drop_stack, print_stack, &held } };
    tp_shape_env *env = tp_shape_env_new(NULL, &options);
    bool answer;
    TP_NEED(env);
    tp_sym s0 = tp_shape_env_symbol(env, 9, NULL, TP_RANGE_ALL), u0 = tp_shape_env_unbacked(env, TP_RANGE_ALL);
    TP_NEED(tp_sym_guard(tp_sym_gt(s0, tp_sym_int(4)), &answer));
    TP_EXPECT(held == 1 && tp_shape_env_guard_at(env, 0)->stack == &held);
    TP_NEED(!tp_sym_is_failed(u0));
    TP_EXPECT(!tp_sym_guard(tp_sym_gt(u0, tp_sym_int(4)), &answer) && held == 1);
    TP_EXPECT(tp_test_quiet || strstr(tp_error_text(), "The following call raised this error: 2"));
out:
    tp_shape_env_unref(env);
    TP_EXPECT(held == 0);
}

TP_TESTS(TP_SWEPT(ranges_grow_tighter), TP_SWEPT(equalities_replace), TP_SWEPT(congruences_are_kept),
         TP_SWEPT(false_answers_are_facts_too), TP_SWEPT(unbacked_symbols_need_facts),
         TP_SWEPT(unbacked_equalities_replace), TP_SWEPT(atoms_pass_ranges_on), TP_SWEPT(zero_and_one_are_integers),
         TP_SWEPT(roots_replace_symbols), TP_SWEPT(numbers_are_conditions),
         TP_SWEPT(guards_print_as_pytorch_prints_them), TP_SWEPT(compiled_guards_agree),
         TP_SWEPT(stacks_are_taken_and_released))
