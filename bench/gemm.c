/* gemm.c - one library's f32 products of matrices, timed: gemm taper|onednn|onednn_sgemm|libxsmm THREADS
 *
 * A line "NAME SECONDS" for each shape, the best of many calls; bench/gemm.py runs libraries in turn and compares. Libraries
 * whose headers were not there when this was compiled say nothing. All matrices lie row by row; C is overwritten. */
#include "base/pool.h"
#include "kernels/gemm.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#define HAVE_ONEDNN 1
#endif
#if __has_include(<libxsmm.h>)
#include <libxsmm.h>
#define HAVE_LIBXSMM 1
#endif

enum { MILLISECONDS_EACH = 200, FEWEST = 5 };

typedef struct product {
    const char *name;
    int64_t batch, m, n, k;
    const float *a, *b;
    float *c;
    int threads;
    void *state;                /* what a library prepared */
} product;

static const product shapes[] = {
    { .name = "64", 1, 64, 64, 64 },
    { .name = "128", 1, 128, 128, 128 },
    { .name = "256", 1, 256, 256, 256 },
    { .name = "512", 1, 512, 512, 512 },
    { .name = "1024", 1, 1024, 1024, 1024 },
    { .name = "128x768x768", 1, 128, 768, 768 },
    { .name = "1x784x512", 1, 1, 512, 784 },
    { .name = "48x(128x64x128)", 48, 128, 128, 64 },
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "gemm: %s failed\n", what);
        exit(1);
    }
}

/* ---- Taper ---- */
static bool taper_prepare(product *p) { return tp_pool_set_threads(p->threads), true; }

static void taper_run(const product *p)
{
    tp_gemm g = { .m = p->m, .n = p->n, .k = p->k, .a = p->a, .b = p->b, .c = p->c, .a_row = p->k, .a_column = 1, .b_row = p->n, .b_column = 1,
                  .c_row = p->n, .c_column = 1, .batch = p->batch, .a_batch = p->m * p->k, .b_batch = p->k * p->n, .c_batch = p->m * p->n,
                  .alpha = tp_scalar_float(1), .beta = tp_scalar_float(0) };
    check(tp_gemm_run(TP_f32, &g), "tp_gemm_run");
}

/* ---- oneDNN ---- */
#ifdef HAVE_ONEDNN
typedef struct onednn { dnnl_primitive_t primitive; dnnl_stream_t stream; dnnl_exec_arg_t arg[3]; } onednn;

static dnnl_memory_desc_t matrices(int64_t batch, int64_t rows, int64_t columns)
{
    dnnl_memory_desc_t made;
    dnnl_dims_t size = { batch, rows, columns }, stride = { rows * columns, columns, 1 };
    check(dnnl_memory_desc_create_with_strides(&made, 3, size, dnnl_f32, stride) == dnnl_success, "dnnl_memory_desc_create_with_strides");
    return made;
}

static bool onednn_prepare(product *p)
{
    onednn *o = p->state = calloc(1, sizeof *o);
    dnnl_engine_t engine;
    dnnl_primitive_desc_t description;
    dnnl_memory_desc_t form[3] = { matrices(p->batch, p->m, p->k), matrices(p->batch, p->k, p->n), matrices(p->batch, p->m, p->n) };
    void *data[3] = { (void *)p->a, (void *)p->b, p->c };
    static const int word[3] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
    omp_set_num_threads(p->threads);
    check(o && dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success &&
              dnnl_stream_create(&o->stream, engine, dnnl_stream_default_flags) == dnnl_success &&
              dnnl_matmul_primitive_desc_create(&description, engine, form[0], form[1], NULL, form[2], NULL) == dnnl_success &&
              dnnl_primitive_create(&o->primitive, description) == dnnl_success, "oneDNN's preparation");
    for (int i = 0; i < 3; i++) {
        o->arg[i].arg = word[i];
        check(dnnl_memory_create(&o->arg[i].memory, form[i], engine, data[i]) == dnnl_success, "dnnl_memory_create");
    }
    return true;
}

static void onednn_run(const product *p)
{
    onednn *o = p->state;
    check(dnnl_primitive_execute(o->primitive, o->stream, 3, o->arg) == dnnl_success && dnnl_stream_wait(o->stream) == dnnl_success,
          "dnnl_primitive_execute");
}

static bool sgemm_prepare(product *p) { return omp_set_num_threads(p->threads), p->batch == 1; }

static void sgemm_run(const product *p)
{
    check(dnnl_sgemm('N', 'N', p->m, p->n, p->k, 1, p->a, p->k, p->b, p->n, 0, p->c, p->n) == dnnl_success, "dnnl_sgemm");
}
#endif

/* ---- LIBXSMM: a kernel of the whole size, or of half of it for each of two threads; its matrices lie column by column ---- */
#ifdef HAVE_LIBXSMM
static bool libxsmm_prepare(product *p)
{
    libxsmm_blasint wide = (libxsmm_blasint)p->n, deep = (libxsmm_blasint)p->k;
    int64_t rows = p->batch > 1 ? p->m : p->m / p->threads;
    float one = 1, zero = 0;
    omp_set_num_threads(p->threads);
    if (rows * (p->batch > 1 ? 1 : p->threads) != p->m)
        return false;
    libxsmm_smmfunction kernel = libxsmm_smmdispatch(wide, (libxsmm_blasint)rows, deep, &wide, &deep, &wide, &one, &zero, NULL, NULL);
    memcpy(&p->state, &kernel, sizeof kernel);
    return kernel != NULL;
}

static void libxsmm_run(const product *p)
{
    libxsmm_smmfunction kernel;
    memcpy(&kernel, &p->state, sizeof kernel);
    if (p->batch == 1 && p->threads == 1) {
        kernel(p->b, p->a, p->c);
        return;
    }
    int64_t pieces = p->batch > 1 ? p->batch : p->threads, rows = p->batch > 1 ? p->m : p->m / p->threads;
#pragma omp parallel for num_threads(p->threads)
    for (int64_t i = 0; i < pieces; i++)
        kernel(p->batch > 1 ? p->b + i * p->k * p->n : p->b, p->a + i * rows * p->k, p->c + i * rows * p->n);
}
#endif

/* prepare says whether the library has this shape. */
static const struct library { const char *name; bool (*prepare)(product *); void (*run)(const product *); } libraries[] = {
    { "taper", taper_prepare, taper_run },
#ifdef HAVE_ONEDNN
    { "onednn", onednn_prepare, onednn_run },
    { "onednn_sgemm", sgemm_prepare, sgemm_run },
#endif
#ifdef HAVE_LIBXSMM
    { "libxsmm", libxsmm_prepare, libxsmm_run },
#endif
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *numbers(int64_t count)
{
    float *made = aligned_alloc(64, ((size_t)count * sizeof *made + 63) / 64 * 64);
    check(made, "aligned_alloc");
    for (int64_t i = 0; i < count; i++)
        made[i] = (float)(i * 7 % 31 - 15) / 16;
    return made;
}

/* Small integers over 16: sums are exact, so a wrong product shows in one element. */
static void verify(const product *p)
{
    int64_t row = p->m / 2, column = p->n / 3, last = p->batch - 1;
    double sum = 0;
    for (int64_t i = 0; i < p->k; i++)
        sum += (double)p->a[(last * p->m + row) * p->k + i] * p->b[(last * p->k + i) * p->n + column];
    check((float)sum == p->c[(last * p->m + row) * p->n + column], p->name);
}

static void measure(const struct library *library, product p)
{
    p.a = numbers(p.batch * p.m * p.k), p.b = numbers(p.batch * p.k * p.n), p.c = numbers(p.batch * p.m * p.n);
    if (!library->prepare(&p))
        return;
    double best = 1e9, spent = 0;
    library->run(&p);
    verify(&p);
    for (int i = 0; i < FEWEST || spent < MILLISECONDS_EACH * 1e-3; i++) {
        double start = now();
        library->run(&p);
        double took = now() - start;
        best = took < best ? took : best;
        spent += took;
    }
    printf("%s %.9f\n", p.name, best);
}

int main(int count, char **word)
{
    for (size_t i = 0; count == 3 && i < sizeof libraries / sizeof *libraries; i++)
        if (strcmp(libraries[i].name, word[1]) == 0)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                product p = shapes[s];
                p.threads = atoi(word[2]);
                measure(&libraries[i], p);
            }
    return 0;
}
