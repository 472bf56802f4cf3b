/* test.c - the runner behind test.h: `taper-test FILE [--sweep [PART PARTS]]`. */
#include "base/test.h"

int tp_test_bad;
bool tp_test_quiet;
size_t tp_test_part, tp_test_parts;
static tp_test_file *files;

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
    return t->kind == TP_TEST_IN_PARTS || t->kind == TP_TEST_SWEEPER || tp_test_sweep(t->name, t->kind == TP_TEST_SPARSE, run_test, (void *)t);
}

void tp_test_enter(tp_test_file *file)
{
    file->next = files;
    files = file;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int run_file(const tp_test_file *file)
{
    int failed = 0;
    if (file->prepare)
        file->prepare();
    tp_the_runtime.counting = true;
    printf("1..%zu\n", file->count);
    for (size_t i = 0; i < file->count; i++) {
        const tp_test *t = &file->tests[i];
        bool ours = tp_test_part == 0 || t->kind == TP_TEST_SWEEPER;
        bool ok = !ours || (plain(t) && (!tp_test_parts || sweep(t)));
        printf("%sok %zu - %s\n", ok ? "" : "not ", i + 1, t->name);
        failed += !ok;
    }
    return failed != 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2 && strcmp(argv[2], "--sweep") == 0) {
        tp_test_part = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
        tp_test_parts = argc > 4 ? strtoul(argv[4], NULL, 10) : 1;
    }
    for (const tp_test_file *f = files; f && argc > 1; f = f->next) {
        if (ends_with(f->path, argv[1]))
            return run_file(f);
    }
    fprintf(stderr, "usage: %s FILE [--sweep [PART PARTS]], with one of\n", argv[0]);
    for (const tp_test_file *f = files; f; f = f->next)
        fprintf(stderr, "    %s\n", f->path);
    return 2;
}
