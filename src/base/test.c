/* test.c - the runner behind test.h. With the argument --sweep it adds the allocation-failure sweep. */
#include "base/test.h"

enum { MOST_FAILURES = 10000000, SPARSE_STEP = 2 };

static long long live(void)
{
    tp_runtime_trim();
    return atomic_load(&tp_the_runtime.allocations_live);
}

static bool plain(const tp_test *t)
{
    tp_test_bad = 0;
    long long before = live();
    t->run();
    tp_error_clear();
    long long leaked = live() - before;
    if (leaked)
        printf("# %s: %lld allocations leaked\n", t->name, leaked);
    return !tp_test_bad && !leaked;
}

/* Lights the fuse at the n-th allocation, for n = 0, 1, 2 … until a run does not burn it. */
bool tp_test_sweep(const char *name, bool sparse, void (*run)(void *), void *arg)
{
    bool ok = true;
    tp_test_quiet = true;
    for (long long n = 0; n < MOST_FAILURES && ok; n += sparse ? 1 + n / SPARSE_STEP : 1) {
        long long before = live();
        atomic_store(&tp_the_runtime.allocation_fuse, n);
        run(arg);
        bool burnt = atomic_exchange(&tp_the_runtime.allocation_fuse, -1) < 0;
        tp_error_clear();
        long long leaked = live() - before;
        if (leaked) {
            printf("# %s: with allocation %lld failing, %lld leaked\n", name, n, leaked);
            ok = false;
        }
        if (!burnt)
            break;
    }
    tp_test_quiet = false;
    return ok;
}

static void run_test(void *test)
{
    ((const tp_test *)test)->run();
}

static bool sweep(const tp_test *t)
{
    return t->kind == TP_TEST_IN_PARTS || tp_test_sweep(t->name, t->kind == TP_TEST_SPARSE, run_test, (void *)t);
}

int tp_test_main(const tp_test *tests, size_t count, int argc, char **argv)
{
    tp_test_sweeping = argc > 1 && strcmp(argv[1], "--sweep") == 0;
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    tp_the_runtime.counting = true;
    printf("1..%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        bool ok = plain(&tests[i]) && (!tp_test_sweeping || sweep(&tests[i]));
        printf("%sok %zu - %s\n", ok ? "" : "not ", i + 1, tests[i].name);
        failed += !ok;
    }
    return failed != 0;
}
