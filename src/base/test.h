/* test.h - C tests: rows of checks that print TAP, and a sweep that fails every allocation in turn.
 *
 *     TP_TEST(arena_keeps_alignment) { tp_arena a; … TP_EXPECT(p != NULL); … }
 *     TP_TEST_MAIN(arena_keeps_alignment, arena_is_sticky)
 *
 * Each test runs once plainly. Then, unless it is listed as unswept, it runs again with its 1st, 2nd, 3rd … allocation
 * failing until it gets through: it must not crash nor leak, and its checks are silent, for what it computes is then
 * undefined. Inside a test, TP_NEED(x) leaves through `out:` when x fails, as the code under test would. */
#ifndef TP_BASE_TEST_H
#define TP_BASE_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime.h"

typedef struct tp_test {
    const char *name;
    void (*run)(void);
    bool sweep;
} tp_test;

extern int tp_test_bad;         /* failed checks of the running test */
extern bool tp_test_quiet;      /* inside the sweep */

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

int tp_test_main(const tp_test *tests, size_t count, int argc, char **argv);

#define TP_SWEPT(n) { #n, n, true }
#define TP_UNSWEPT(n) { #n, n, false }
#define TP_TEST_MAIN(...)                                             \
    int tp_test_bad;                                                  \
    bool tp_test_quiet;                                               \
    int main(int argc, char **argv)                                   \
    {                                                                 \
        static const tp_test tests[] = { __VA_ARGS__ };               \
        return tp_test_main(tests, TP_COUNT(tests), argc, argv);      \
    }

#endif
