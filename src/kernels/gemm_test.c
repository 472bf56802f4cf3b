/* gemm_test.c - products against the schoolbook loop; bits across threads and instruction sets. */
#include <math.h>

#include "base/block.h"
#include "base/pool.h"
#include "base/test.h"
#include "kernels/gemm.h"
#include "kernels/gemm_set.h"

typedef struct shape {
    int64_t m, n, k;
} shape;

static const shape shapes[] = {
    { 1, 1, 1 },    { 2, 2, 2 },     { 3, 5, 7 },     { 1, 512, 784 }, { 512, 1, 300 }, { 2, 100, 300 }, { 3, 33, 17 },
    { 6, 16, 10 },  { 7, 17, 257 },  { 64, 64, 64 },  { 65, 63, 61 },  { 128, 10, 100 }, { 10, 128, 600 },
    { 97, 270, 40 }, { 200, 64, 513 }, { 300, 300, 30 }, { 1, 7, 1000 }, { 50, 2, 90 },
};

/* How A, B and C lie: by rows, by columns, or with gaps. */
enum { BY_ROWS, BY_COLUMNS, GAPS, LAYOUTS };

static void lay(int64_t layout, int64_t rows, int64_t columns, int64_t *row, int64_t *column)
{
    *row = layout == BY_ROWS ? columns : layout == BY_COLUMNS ? 1 : 2 * columns + 3;
    *column = layout == BY_ROWS ? 1 : layout == BY_COLUMNS ? rows : 2;
}

static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 11) / (double)(1ll << 52) - 1;
}

/* Small whole numbers: every order of summing gives the same, so results can be compared exactly. */
static void fill(tp_dtype d, void *data, int64_t count, uint64_t seed, bool whole)
{
    for (int64_t i = 0; i < count; i++) {
        double x = noise(&seed);
        tp_scalar s = tp_scalar_float(whole ? floor(4 * x) : x);
        tp_scalar_write(s, (char *)data + i * (int64_t)tp_dtype_bytes(d), d);
    }
}

static int64_t room(int64_t rows, int64_t columns)
{
    return rows * (2 * columns + 3) + 2;
}

static tp_scalar at(tp_dtype d, const void *data, int64_t index)
{
    return tp_scalar_read((const char *)data + index * (int64_t)tp_dtype_bytes(d), d);
}

static tp_c128 schoolbook(tp_dtype d, const tp_gemm *g, int64_t item, int64_t i, int64_t j, const void *old)
{
    tp_c128 sum = { 0, 0 };
    for (int64_t p = 0; p < g->k; p++) {
        tp_c128 x = tp_scalar_to_complex(at(d, g->a, item * g->a_batch + i * g->a_row + p * g->a_column));
        tp_c128 y = tp_scalar_to_complex(at(d, g->b, item * g->b_batch + p * g->b_row + j * g->b_column));
        sum.re += x.re * y.re - x.im * y.im;
        sum.im += x.re * y.im + x.im * y.re;
    }
    double alpha = tp_scalar_to_double(g->alpha), beta = tp_scalar_to_double(g->beta);
    tp_c128 c = { 0, 0 };
    if (beta != 0)
        c = tp_scalar_to_complex(at(d, old, item * g->c_batch + i * g->c_row + j * g->c_column));
    return (tp_c128){ alpha * sum.re + beta * c.re, alpha * sum.im + beta * c.im };
}

static bool close_to(tp_dtype d, tp_c128 want, tp_c128 got, int64_t k, bool whole)
{
    double slack = d == TP_f64 || d == TP_c128 ? 1e-15 : d == TP_bf16 ? 8e-3 : d == TP_f16 ? 1e-3 : 1.2e-7;
    if (whole && !tp_dtype_is_half(d)) {
        unsigned char w[16] = { 0 }, v[16] = { 0 };
        tp_scalar a = { .kind = TP_KIND_COMPLEX, .c = want }, b = { .kind = TP_KIND_COMPLEX, .c = got };
        if (tp_dtype_is_integral(d))
            a = tp_scalar_int((int64_t)want.re), b = tp_scalar_int((int64_t)got.re);
        tp_scalar_write(a, w, d);
        tp_scalar_write(b, v, d);
        return tp_dtype_is_integral(d) ? memcmp(w, v, 16) == 0 : want.re == got.re && want.im == got.im;
    }
    slack *= tp_dtype_is_half(d) ? fabs(want.re) + 1 : (double)k / 2 + 4;
    return fabs(want.re - got.re) <= slack && fabs(want.im - got.im) <= slack;
}

/* Runs g, whose C lies at c, against the schoolbook; false when an allocation failed. */
static bool check(tp_dtype d, tp_gemm *g, void *c, size_t c_bytes, bool whole)
{
    void *old = tp_block_new(c_bytes);
    bool ok = old != NULL;
    int wrong = 0;
    if (ok)
        memcpy(old, c, c_bytes);
    g->c = c;
    ok = ok && tp_gemm_run(d, g);
    for (int64_t item = 0; ok && item < g->batch; item++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                tp_c128 want = schoolbook(d, g, item, i, j, old);
                tp_c128 got = tp_scalar_to_complex(at(d, c, item * g->c_batch + i * g->c_row + j * g->c_column));
                wrong += !close_to(d, want, got, g->k, whole);
            }
    if (wrong)
        printf("# %s %lldx%lldx%lld: %d wrong\n", tp_dtypes[d].name, LL(g->m), LL(g->n), LL(g->k), wrong);
    TP_EXPECT(!wrong);
    tp_block_free(old, c_bytes);
    return ok;
}

static bool try_shape(tp_dtype d, shape s, int64_t layouts, double alpha, double beta, int64_t batch, bool whole)
{
    size_t bytes = tp_dtype_bytes(d);
    int64_t ra = room(s.m > s.k ? s.m : s.k, s.m < s.k ? s.m : s.k) + room(s.m, s.k);
    int64_t rb = room(s.k, s.n) + room(s.n, s.k), rc = room(s.m, s.n) + room(s.n, s.m);
    size_t sizes[3] = { (size_t)(ra * batch) * bytes, (size_t)(rb * batch) * bytes, (size_t)(rc * batch) * bytes };
    void *a = NULL, *b = NULL, *c = NULL;
    bool ok = (a = tp_block_new(sizes[0])) && (b = tp_block_new(sizes[1])) && (c = tp_block_new(sizes[2]));
    if (ok) {
        tp_gemm g = { .m = s.m, .n = s.n, .k = s.k, .a = a, .b = b, .batch = batch, .a_batch = ra, .b_batch = rb,
                      .c_batch = rc, .alpha = tp_scalar_float(alpha), .beta = tp_scalar_float(beta) };
        lay(layouts % LAYOUTS, s.m, s.k, &g.a_row, &g.a_column);
        lay(layouts / LAYOUTS % LAYOUTS, s.k, s.n, &g.b_row, &g.b_column);
        lay(layouts / LAYOUTS / LAYOUTS, s.m, s.n, &g.c_row, &g.c_column);
        fill(d, a, ra * batch, 1, whole);
        fill(d, b, rb * batch, 2, whole);
        fill(d, c, rc * batch, 3, whole);
        ok = check(d, &g, c, sizes[2], whole);
    }
    tp_block_free(c, sizes[2]);
    tp_block_free(b, sizes[1]);
    tp_block_free(a, sizes[0]);
    return ok;
}

TP_TEST(floats_in_every_layout)
{
    for (size_t s = 0; s < TP_COUNT(shapes); s++)
        for (int64_t layouts = 0, step = 1 + shapes[s].m * shapes[s].n / 500; layouts < LAYOUTS * LAYOUTS * LAYOUTS;
             layouts += step) {
            TP_NEED(try_shape(TP_f32, shapes[s], layouts, layouts % 2 ? 1 : 2, layouts % 4 < 2 ? 0 : 3, 1, true));
            TP_NEED(try_shape(TP_f64, shapes[s], layouts, layouts % 2 ? 1 : -1, layouts % 4 < 2 ? 0 : 1, 1, true));
        }
    TP_NEED(try_shape(TP_f32, (shape){ 100, 90, 700 }, 0, 1, 0, 1, false));
    TP_NEED(try_shape(TP_f64, (shape){ 100, 90, 700 }, 3, 1, 1, 1, false));
    TP_NEED(try_shape(TP_f32, (shape){ 4, 2100, 1100 }, 3, 1, 1, 1, true));
    TP_NEED(try_shape(TP_f32, (shape){ 2100, 4, 300 }, 1, 1, 0, 1, true));
out:
    return;
}

TP_TEST(other_types)
{
    static const tp_dtype types[] = { TP_u8, TP_i8, TP_i16, TP_i32, TP_i64, TP_f16, TP_bf16, TP_c64, TP_c128 };
    for (size_t t = 0; t < TP_COUNT(types); t++)
        for (int64_t layouts = 0; layouts < LAYOUTS * LAYOUTS * LAYOUTS; layouts += 5) {
            TP_NEED(try_shape(types[t], (shape){ 9, 300, 20 }, layouts, 2, layouts % 2 ? 0 : 3, 1, true));
            TP_NEED(try_shape(types[t], (shape){ 4, 5, 6 }, layouts, 1, 1, 3, true));
        }
    TP_EXPECT(!tp_gemm_run(TP_b8, &(tp_gemm){ .m = 1, .n = 1, .k = 1, .batch = 1 }) &&
              tp_error_kind() == TP_ERR_UNIMPLEMENTED);
    tp_error_clear();
out:
    return;
}

TP_TEST(batches)
{
    for (int64_t layouts = 0; layouts < LAYOUTS * LAYOUTS; layouts++) {
        TP_NEED(try_shape(TP_f32, (shape){ 3, 4, 5 }, layouts, 1, 0, 100, true));
        TP_NEED(try_shape(TP_f64, (shape){ 30, 40, 50 }, layouts, 1, 2, 9, true));
    }
    TP_NEED(try_shape(TP_f32, (shape){ 128, 128, 64 }, 3, 1, 0, 10, true));
out:
    return;
}

/* A product with an allocation in each path; small enough to be swept. */
TP_TEST(failures_are_clean)
{
    TP_NEED(try_shape(TP_f32, (shape){ 40, 40, 30 }, 4, 1, 0, 1, true));
    TP_NEED(try_shape(TP_f32, (shape){ 40, 40, 30 }, 4, 1, 0, 12, true));
    TP_NEED(try_shape(TP_bf16, (shape){ 5, 6, 7 }, 0, 1, 1, 2, true));
    TP_NEED(try_shape(TP_i64, (shape){ 5, 6, 7 }, 0, 1, 1, 2, true));
out:
    return;
}

TP_TEST(c_is_not_read_when_beta_is_zero)
{
    static const shape some[] = { { 2, 2, 2 }, { 1, 600, 40 }, { 40, 50, 300 } };
    float one[40 * 600], c[40 * 600];
    for (int i = 0; i < 40 * 600; i++)
        one[i] = 1;
    for (size_t s = 0; s < TP_COUNT(some); s++)
        for (int k = 0; k < 2; k++) {
            int64_t m = some[s].m, n = some[s].n, depth = k ? some[s].k : 0;
            for (int64_t i = 0; i < m * n; i++)
                c[i] = NAN;
            TP_NEED(tp_gemm_f32(m, n, depth, 1, one, depth, 1, one, n, 1, 0, c, n));
            for (int64_t i = 0; i < m * n; i++)
                TP_EXPECT(c[i] == (float)depth);
            one[0] = NAN;
            TP_NEED(tp_gemm_f32(m, n, depth, 0, one, depth, 1, one, n, 1, 2, c, n));
            one[0] = 1;
            for (int64_t i = 0; i < m * n; i++)
                TP_EXPECT(c[i] == 2 * (float)depth);
        }
out:
    return;
}

static bool product(tp_dtype d, shape s, int layout, int threads, const tp_gemm_set *set, const void *a, const void *b,
                    void *c)
{
    tp_gemm g = { .m = s.m, .n = s.n, .k = s.k, .a = a, .b = b, .c = c, .batch = 1, .alpha = tp_scalar_float(1.5),
                  .beta = tp_scalar_float(0.25), .c_row = s.n, .c_column = 1 };
    const tp_gemm_set *before = tp_the_runtime.gemm;
    lay(layout % 2, s.m, s.k, &g.a_row, &g.a_column);
    lay(layout / 2, s.k, s.n, &g.b_row, &g.b_column);
    fill(d, c, s.m * s.n, 9, false);
    tp_the_runtime.gemm = set;
    tp_pool_set_threads(threads);
    bool ok = tp_gemm_run(d, &g);
    tp_pool_set_threads(0);
    tp_the_runtime.gemm = before;
    return ok;
}

TP_TEST(bits_do_not_depend_on_threads_nor_instruction_set)
{
    static const shape some[] = { { 7, 9, 11 },     { 1, 1000, 700 }, { 1000, 1, 333 }, { 3, 300, 300 },
                                  { 130, 250, 70 }, { 210, 90, 600 }, { 20, 70, 1500 } };
    static double a[1000 * 500], b[1000 * 1500], c[2][210 * 1000];
    const tp_gemm_set *best = tp_the_runtime.gemm;
    for (int type = 0; type < 2; type++) {
        tp_dtype d = type ? TP_f64 : TP_f32;
        fill(d, a, TP_COUNT(a), 4, false);
        fill(d, b, TP_COUNT(b), 5, false);
        for (size_t s = 0; s < TP_COUNT(some); s++)
            for (int layout = 0; layout < 4; layout++) {
                size_t bytes = (size_t)(some[s].m * some[s].n) * tp_dtype_bytes(d);
                TP_NEED(product(d, some[s], layout, 1, best, a, b, c[0]));
                TP_NEED(product(d, some[s], layout, 3, best, a, b, c[1]));
                TP_EXPECT(memcmp(c[0], c[1], bytes) == 0);
                TP_NEED(product(d, some[s], layout, 2, &tp_gemm_set_plain, a, b, c[1]));
                TP_EXPECT(memcmp(c[0], c[1], bytes) == 0);
                if (best == &tp_gemm_set_avx512) {
                    TP_NEED(product(d, some[s], layout, 2, &tp_gemm_set_avx2, a, b, c[1]));
                    TP_EXPECT(memcmp(c[0], c[1], bytes) == 0);
                }
            }
    }
out:
    return;
}

TP_TESTS(TP_SPARSE(floats_in_every_layout), TP_SPARSE(other_types), TP_SPARSE(batches),
         TP_SWEPT(failures_are_clean), TP_SWEPT(c_is_not_read_when_beta_is_zero),
         TP_SPARSE(bits_do_not_depend_on_threads_nor_instruction_set))
