/* test.h - C tests: rows of checks that print TAP, and a sweep that fails every allocation in turn.
 *
 *     TP_TEST(arena_keeps_alignment) { tp_arena a; … TP_EXPECT(p != NULL); … }
 *     TP_TESTS(TP_SWEPT(arena_keeps_alignment), TP_SWEPT(arena_is_sticky))
 *
 * One program holds all files, so that an edit links once; it runs the file it is asked for: `taper-test arena/arena_test.c`.
 * Each test runs once plainly. With --sweep it runs again with its 1st, 2nd, 3rd … allocation failing until it gets
 * through: it must not crash nor leak, and its checks are silent, for what it computes is then undefined. A long test takes
 * ever longer steps (TP_SPARSE), or a test of its file sweeps the parts one by one (TP_IN_PARTS, TP_SWEEPER, tp_test_sweep), which
 * several runs may share: `--sweep 1 4` is the second of four, and only the first has the other tests too. Inside
 * a test, TP_NEED(x) leaves through `out:` when x fails, as the code under test would. */
#ifndef TP_BASE_TEST_H
#define TP_BASE_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime.h"

typedef enum tp_test_kind { TP_TEST_SWEPT, TP_TEST_SPARSE, TP_TEST_IN_PARTS, TP_TEST_SWEEPER } tp_test_kind;

typedef struct tp_test {
    const char *name;
    void (*run)(void);
    tp_test_kind kind;
} tp_test;

extern int tp_test_bad;         /* failed checks of the running test */
extern bool tp_test_quiet;      /* inside the sweep */
extern size_t tp_test_part, tp_test_parts;  /* which share of the sweep is asked for; of 0: none */

#define TP_TEST(name) static void name(void)
#define TP_EXPECT(c)                                                                                      \
    do {                                                                                                  \
        if (!(c) && !tp_test_quiet) {                                                                     \
            tp_test_bad++;                                                                                \
            printf("# %s:%d: expected %s (error: %s)\n", __FILE__, __LINE__, #c, tp_error_text());        \
        }                                                                                                 \
    } while (0)
#define TP_EXPECT_TEXT(got, want)                                                                         \
    do {                                                                                                  \
        const char *g_ = (got), *w_ = (want);                                                             \
        if ((!g_ || strcmp(g_, w_) != 0) && !tp_test_quiet) {                                             \
            tp_test_bad++;                                                                                \
            printf("# %s:%d: got  %s\n# %*s want %s\n", __FILE__, __LINE__, g_ ? g_ : "NULL", 0, "", w_); \
        }                                                                                                 \
    } while (0)
#define TP_NEED(x)                                \
    do {                                          \
        if (!(x)) {                               \
            TP_EXPECT(tp_test_quiet && #x);       \
            goto out;                             \
        }                                         \
    } while (0)

/* The tests of one source file; they enter the program's list before main. */
typedef struct tp_test_file {
    const char *path;
    void (*prepare)(void);      /* NULL, or makes what outlives its tests, before allocations are counted */
    const tp_test *tests;
    size_t count;
    struct tp_test_file *next;
} tp_test_file;

void tp_test_enter(tp_test_file *file);

/* Runs with each allocation failing in turn; false, and a line printed that begins with `name`, when one run leaks. */
bool tp_test_sweep(const char *name, bool sparse, void (*run)(void *), void *arg);

#define TP_SWEPT(n) { #n, n, TP_TEST_SWEPT }
#define TP_SPARSE(n) { #n, n, TP_TEST_SPARSE }
#define TP_IN_PARTS(n) { #n, n, TP_TEST_IN_PARTS }
#define TP_SWEEPER(n) { #n, n, TP_TEST_SWEEPER }
#define TP_TESTS(...) TP_TESTS_AFTER(NULL, __VA_ARGS__)
#define TP_TESTS_AFTER(prepare, ...)                                                                \
    static const tp_test tests_here[] = { __VA_ARGS__ };                                            \
    static tp_test_file file_here = { __FILE__, prepare, tests_here, TP_COUNT(tests_here), NULL };  \
    __attribute__((constructor)) static void enter_tests_here(void) { tp_test_enter(&file_here); }

#endif
