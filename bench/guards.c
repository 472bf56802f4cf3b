/* guards.c - what a call pays for the guards of its sizes: ten of them, with sums, products and remainders, as a program of steps. */
#include <stdio.h>
#include <time.h>

#include "sym/program.h"
#include "sym/sym.h"

static const char *const guards[] = {
    "Eq(s0, 2*s1)",    "s0 + s1 > 7",     "Eq(Mod(s2, 8), 0)", "s0*s1 < 100000",      "Ne(s3, 5)",
    "s3 + s4 <= 4096", "Eq(Mod(s4, 3), 1)", "s2 >= 16",        "Eq(Mod(s3*s4, 4), 0)", "Ne(s0 + s2, s3)",
};
static const int64_t hint[] = { 24, 12, 64, 100, 7 };
enum { SYMBOLS = sizeof hint / sizeof *hint, GUARDS = sizeof guards / sizeof *guards, CALLS = 200000, ROUNDS = 20 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    bool holds = env;
    for (int i = 0; holds && i < SYMBOLS; i++)
        tp_shape_env_symbol(env, hint[i], "x", (tp_range){ 2, INT64_MAX });
    for (int i = 0; holds && i < GUARDS; i++)
        if (!tp_sym_guard(tp_sym_parse(env, guards[i]), &holds) || !holds)
            return fprintf(stderr, "%s does not hold\n", guards[i]), 1;
    tp_guard_program *p = holds ? tp_guard_program_new(env) : NULL;
    if (!p)
        return 1;
    double best = 1;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now();
        for (int i = 0; i < CALLS; i++)
            holds &= tp_guard_program_check(p, hint, NULL);
        double took = now() - begin;
        best = took < best ? took : best;
    }
    printf("%zu guards in %zu steps: %.1f ns%s\n", tp_shape_env_guard_count(env), tp_guard_program_steps(p), best / CALLS * 1e9, holds ? "" : " (they fail)");
    tp_guard_program_free(p);
    tp_shape_env_unref(env);
    return !holds;
}
