/* tile_bench.c - how long loops take: `bench-tile [threads]` prints nanoseconds an element (best of many runs).
 *
 * Rows are named as tools that compare with other libraries name them: step, type, elements. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/block.h"
#include "base/pool.h"
#include "base/runtime.h"
#include "tile/set.h"

typedef void work_fn(void *work);

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(const char *name, double elements, work_fn *work, void *argument)
{
    double best = 1e9, begin = seconds();
    work(argument);
    for (int i = 0; i < 200 && (i < 5 || seconds() - begin < 0.15); i++) {
        double start = seconds();
        work(argument);
        double took = seconds() - start;
        best = took < best ? took : best;
    }
    printf("%-24s %9.4f ns/element %12.2f us\n", name, best / elements * 1e9, best * 1e6);
}

typedef struct element_wise {
    tp_tile_program program;
    tp_tile_step    step;
    tp_tile_loop    loop;
} element_wise;

static void run_element_wise(void *work)
{
    element_wise *w = work;
    tp_tile_run(&w->program, &w->loop);
}

typedef struct reduction {
    tp_tile_loop loop;
    tp_reduction kind;
    uint64_t     reduced;
} reduction;

static const tp_tile_program identity = { NULL, 0, 1, 0, 1, 1, { 0 } };

static void run_reduction(void *work)
{
    reduction *w = work;
    tp_tile_reduce(&identity, w->kind, 1, w->reduced, &w->loop);
}

static const char *const names[] = {
#define TP_PRIM(name, count, types) #name,
#include "tile/prims.def"
#undef TP_PRIM
};

static float *fresh(int64_t n)
{
    float *x = tp_block_new((size_t)n * 4);
    if (!x)
        abort();
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 7919 % 100003) / 100003.0f * 6.0f - 3.0f;
    return x;
}

static void bench_steps(float *out, float *x, float *y, tp_compute compute, tp_dtype dtype)
{
    int64_t n = 1 << 20, size[] = { n }, stride[] = { (int64_t)tp_dtype_bytes(dtype) };
    for (int prim = 0; prim < TP_PRIM_COUNT; prim++) {
        if (!tp_tile_has((tp_prim)prim, compute))
            continue;
        int operands = tp_tile_operands(prim);
        element_wise w = { .step = { (uint8_t)prim, (uint8_t)operands, 0, (uint8_t)(operands > 1), (uint8_t)(operands > 2 ? 2 : 0) } };
        w.program = (tp_tile_program){ &w.step, 1, (uint8_t)operands, 0, (uint8_t)(operands + 1), 1, { (uint8_t)operands } };
        w.loop = (tp_tile_loop){ .ndim = 1, .compute = (uint8_t)compute, .size = size };
        w.loop.operand[0] = (tp_tile_operand){ out, (uint8_t)dtype, stride };
        w.loop.operand[1] = (tp_tile_operand){ x, (uint8_t)dtype, stride };
        w.loop.operand[2] = (tp_tile_operand){ y, (uint8_t)dtype, stride };
        w.loop.operand[3] = (tp_tile_operand){ y, (uint8_t)dtype, stride };
        char name[64];
        snprintf(name, sizeof name, "%s %s 1M", names[prim], tp_dtypes[dtype].name);
        report(name, (double)n, run_element_wise, &w);
    }
}

static void bench_layouts(float *out, float *x, float *y)
{
    int64_t size[] = { 1024, 1024 }, dense[] = { 4096, 4 }, turned[] = { 4, 4096 }, row[] = { 0, 4 }, column[] = { 4, 0 };
    double n = 1 << 20;
    element_wise copy = { .program = identity, .loop = { .ndim = 2, .compute = TP_COMPUTE_f32, .size = size } };
    copy.loop.operand[0] = (tp_tile_operand){ out, TP_f32, dense };
    copy.loop.operand[1] = (tp_tile_operand){ x, TP_f32, dense };
    report("copy 1024x1024", n, run_element_wise, &copy);
    copy.loop.operand[1].stride = turned;
    report("copy of transposed", n, run_element_wise, &copy);
    element_wise add = { .step = { TP_PRIM_add, 2, 0, 1, 0 }, .loop = copy.loop };
    add.program = (tp_tile_program){ &add.step, 1, 2, 0, 3, 1, { 2 } };
    add.loop.operand[2] = (tp_tile_operand){ y, TP_f32, dense };
    report("add transposed", n, run_element_wise, &add);
    add.loop.operand[1].stride = row;
    report("add row", n, run_element_wise, &add);
    add.loop.operand[1].stride = column;
    report("add column", n, run_element_wise, &add);
    tp_scalar one = tp_scalar_float(1.5);
    add.program = (tp_tile_program){ &add.step, 1, 1, 1, 3, 1, { 2 } };
    add.loop.operand[1].stride = dense;
    add.loop.scalar = &one;
    report("add scalar", n, run_element_wise, &add);
    int64_t halves[] = { 2048, 2 };
    copy.loop.operand[0] = (tp_tile_operand){ y, TP_f16, halves };
    copy.loop.operand[1] = (tp_tile_operand){ x, TP_f32, dense };
    report("f32 to f16", n, run_element_wise, &copy);
    copy.loop.operand[0] = (tp_tile_operand){ out, TP_f32, dense };
    copy.loop.operand[1] = (tp_tile_operand){ y, TP_f16, halves };
    report("f16 to f32", n, run_element_wise, &copy);
    copy.loop.operand[1] = (tp_tile_operand){ x, TP_f32, dense };
    copy.loop.operand[0] = (tp_tile_operand){ out, TP_i32, dense };
    report("f32 to i32", n, run_element_wise, &copy);
}

static void bench_reductions(float *out, float *x)
{
    static const char *const kinds[] = { "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "max_index",
                                         "min_index", "mean", "var", "std", "var_mean", "std_mean", "norm",
                                         "count_nonzero", "logsumexp" };
    int64_t size[] = { 1024, 1024 }, dense[] = { 4096, 4 }, none[] = { 0, 0 }, by_column[] = { 0, 8 }, by_row[] = { 8, 0 };
    for (int kind = 0; kind < TP_REDUCE_COUNT; kind++)
        for (int over = 1; over <= 3; over++) {
            bool two = strchr(kinds[kind], '_') && kind != TP_REDUCE_count_nonzero, index = strstr(kinds[kind], "arg");
            reduction w = { .kind = (tp_reduction)kind, .reduced = (uint64_t)over };
            const int64_t *stride = over == 1 ? by_column : over == 2 ? by_row : none;
            w.loop = (tp_tile_loop){ .ndim = 2, .compute = TP_COMPUTE_f32, .size = size };
            w.loop.operand[0] = (tp_tile_operand){ out, index ? TP_i64 : TP_f32, stride };
            w.loop.operand[1] = (tp_tile_operand){ out + 4096, strstr(kinds[kind], "index") ? TP_i64 : TP_f32, stride };
            w.loop.operand[1 + two] = (tp_tile_operand){ x, TP_f32, dense };
            char name[64];
            snprintf(name, sizeof name, "%s over %s", kinds[kind], over == 1 ? "dim 0" : over == 2 ? "dim 1" : "all");
            report(name, 1 << 20, run_reduction, &w);
        }
}

static void bench_large(void)
{
    int64_t n = 1 << 25, size[] = { n }, stride[] = { 4 };
    float *x = fresh(n), *y = fresh(n), *out = fresh(n);
    element_wise w = { .step = { TP_PRIM_add, 2, 0, 1, 0 } };
    w.program = (tp_tile_program){ &w.step, 1, 2, 0, 3, 1, { 2 } };
    w.loop = (tp_tile_loop){ .ndim = 1, .compute = TP_COMPUTE_f32, .size = size };
    w.loop.operand[0] = (tp_tile_operand){ out, TP_f32, stride };
    w.loop.operand[1] = (tp_tile_operand){ x, TP_f32, stride };
    w.loop.operand[2] = (tp_tile_operand){ y, TP_f32, stride };
    report("add f32 32M", (double)n, run_element_wise, &w);
    w.program = identity;
    report("copy f32 32M", (double)n, run_element_wise, &w);
    reduction r = { .kind = TP_REDUCE_sum, .reduced = 1, .loop = w.loop };
    int64_t none[] = { 0 };
    r.loop.operand[0].stride = none;
    report("sum f32 32M", (double)n, run_reduction, &r);
    tp_block_free(x, (size_t)n * 4);
    tp_block_free(y, (size_t)n * 4);
    tp_block_free(out, (size_t)n * 4);
}

static void run_small(void *work)
{
    void **p = work;
    for (int i = 0; i < 1000; i++)
        tp_tile_run_small(TP_PRIM_add, TP_COMPUTE_f32, 4, p[0], (const void *const *)(p + 1));
}

static void run_short(void *work)
{
    for (int i = 0; i < 1000; i++)
        run_element_wise(work);
}

/* What a call costs that computes next to nothing. */
static void bench_calls(float *out, float *x, float *y)
{
    int64_t size[] = { 4, 4 }, dense[] = { 16, 4 }, turned[] = { 4, 16 };
    element_wise w = { .step = { TP_PRIM_add, 2, 0, 1, 0 } };
    w.program = (tp_tile_program){ &w.step, 1, 2, 0, 3, 1, { 2 } };
    w.loop = (tp_tile_loop){ .ndim = 2, .compute = TP_COMPUTE_f32, .size = size };
    w.loop.operand[0] = (tp_tile_operand){ out, TP_f32, dense };
    w.loop.operand[1] = (tp_tile_operand){ x, TP_f32, dense };
    w.loop.operand[2] = (tp_tile_operand){ y, TP_f32, dense };
    report("a loop of 4x4", 1000, run_short, &w);
    w.loop.operand[2].stride = turned;
    report("a loop of 4x4, turned", 1000, run_short, &w);
    void *small[] = { out, x, y };
    report("small add of 4", 1000, run_small, small);
}

int main(int argc, char **argv)
{
    tp_pool_set_threads(argc > 1 ? atoi(argv[1]) : 1);
    const char *only = argc > 2 ? argv[2] : "";
    int64_t n = 1 << 21;
    float *x = fresh(n), *y = fresh(n), *out = fresh(n);
    if (!*only || !strcmp(only, "f32"))
        bench_steps(out, x, y, TP_COMPUTE_f32, TP_f32);
    if (!strcmp(only, "f64")) {
        for (int64_t i = n / 2; i-- > 0;)
            ((double *)(void *)x)[i] = (double)(i * 7919 % 100003) / 100003.0 * 6.0 - 3.0;
        memcpy(y, x, (size_t)n * 4);
        bench_steps(out, x, y, TP_COMPUTE_f64, TP_f64);
    }
    if (!*only || !strcmp(only, "layout"))
        bench_layouts(out, x, y);
    if (!*only || !strcmp(only, "reduce"))
        bench_reductions(out, x);
    if (!*only || !strcmp(only, "large"))
        bench_large();
    bench_calls(out, x, y);
    tp_block_free(x, (size_t)n * 4);
    tp_block_free(y, (size_t)n * 4);
    tp_block_free(out, (size_t)n * 4);
    return 0;
}
