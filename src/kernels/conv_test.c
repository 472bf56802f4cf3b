/* conv_test.c - convolutions and their gradients against the defining sum; bits across threads and instruction sets. */
#include <math.h>

#include "base/block.h"
#include "base/pool.h"
#include "base/test.h"
#include "kernels/conv.h"
#include "kernels/gemm_set.h"

typedef struct row {
    int ndim;
    int64_t batch, groups, in, out;
    int64_t size[3], kernel[3], stride[3], padding[3], dilation[3];
} row;

static const row rows[] = {
    { 2, 2, 1, 3, 8, { 9, 11 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 2, 1, 1, 5, 7, { 12, 30 }, { 7, 5 }, { 2, 3 }, { 3, 2 }, { 1, 1 } },
    { 2, 5, 1, 4, 6, { 6, 7 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 } },
    { 2, 1, 2, 4, 6, { 9, 9 }, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 1, 1 } },
    { 2, 1, 1, 4, 6, { 6, 7 }, { 1, 1 }, { 1, 1 }, { 1, 2 }, { 1, 1 } },
    { 2, 2, 6, 6, 6, { 10, 21 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 2, 2, 3, 3, 6, { 10, 21 }, { 3, 2 }, { 2, 2 }, { 0, 1 }, { 1, 2 } },
    { 2, 1, 3, 6, 3, { 8, 8 }, { 3, 3 }, { 2, 1 }, { 1, 1 }, { 1, 1 } },
    { 2, 1, 4, 8, 12, { 8, 9 }, { 3, 3 }, { 1, 2 }, { 1, 0 }, { 2, 2 } },
    { 1, 3, 1, 5, 4, { 40 }, { 5 }, { 2 }, { 4 }, { 3 } },
    { 1, 1, 2, 2, 2, { 7 }, { 7 }, { 1 }, { 0 }, { 1 } },
    { 3, 1, 1, 3, 5, { 4, 6, 7 }, { 2, 3, 3 }, { 1, 2, 1 }, { 1, 1, 0 }, { 1, 1, 2 } },
    { 3, 2, 2, 2, 4, { 5, 4, 6 }, { 3, 3, 3 }, { 2, 1, 3 }, { 1, 0, 2 }, { 1, 1, 1 } },
    { 2, 1, 1, 40, 20, { 14, 14 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 2, 1, 1, 2, 3, { 4, 4 }, { 2, 2 }, { 1, 1 }, { 3, 3 }, { 1, 1 } },
    { 2, 1, 1, 3, 16, { 32, 32 }, { 8, 8 }, { 8, 8 }, { 0, 0 }, { 1, 1 } },
    { 2, 2, 1, 60, 70, { 7, 7 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },       /* turned in every set */
};

static tp_conv shape_of(const row *r)
{
    tp_conv c = { .batch = r->batch, .groups = r->groups, .in_channels = r->in, .out_channels = r->out };
    for (int d = 0; d < r->ndim; d++) {
        c.in_size[d] = r->size[d];
        c.kernel[d] = r->kernel[d];
        c.stride[d] = r->stride[d];
        c.padding[d] = r->padding[d];
        c.dilation[d] = r->dilation[d];
        c.out_size[d] = (r->size[d] + 2 * r->padding[d] - r->dilation[d] * (r->kernel[d] - 1) - 1) / r->stride[d] + 1;
    }
    tp_conv_widen(&c, r->ndim);
    return c;
}

static int64_t volume(const int64_t v[3])
{
    return v[0] * v[1] * v[2];
}

/* x, w, bias, y and the three gradients, all of one dtype. */
enum { X, W, B, Y, GX, GW, GB, TENSORS };
typedef struct world {
    tp_dtype dtype;
    tp_conv  c;
    int64_t  count[TENSORS];
    tp_conv_view v[TENSORS];
} world;

static void world_fini(world *w)
{
    for (int t = 0; t < TENSORS; t++)
        tp_block_free(w->v[t].data, (size_t)w->count[t] * tp_dtype_bytes(w->dtype));
}

static bool world_init(world *w, tp_dtype d, const row *r, bool last)
{
    static const int64_t one[3] = { 1, 1, 1 };
    uint64_t state = 7;
    *w = (world){ .dtype = d, .c = shape_of(r) };
    tp_conv *c = &w->c;
    int64_t x = c->batch * c->in_channels * volume(c->in_size), y = c->batch * c->out_channels * volume(c->out_size);
    int64_t k = c->out_channels * (c->in_channels / c->groups) * volume(c->kernel);
    memcpy(w->count, (int64_t[TENSORS]){ x, k, c->out_channels, y, x, k, c->out_channels }, sizeof w->count);
    for (int t = 0; t < TENSORS; t++) {
        const int64_t *space = t == X || t == GX ? c->in_size : t == W || t == GW ? c->kernel
                             : t == Y ? c->out_size : one;
        int64_t channels = t == X || t == GX ? c->in_channels : t == Y ? c->out_channels
                         : t == W || t == GW ? c->in_channels / c->groups : 1;
        char *data = tp_block_new((size_t)w->count[t] * tp_dtype_bytes(d));
        w->v[t] = tp_conv_view_of(data, channels, space, last);
        if (!data)
            return false;
        for (int64_t i = 0; i < w->count[t]; i++) {     /* small whole numbers: sums are exact in any order */
            state = state * 6364136223846793005u + 1442695040888963407u;
            tp_scalar_write(tp_scalar_int((int64_t)(state >> 40) % 5 - 2), data + i * (int64_t)tp_dtype_bytes(d), d);
        }
    }
    return true;
}

static int64_t place(const tp_conv_view *v, int64_t n, int64_t channel, const int64_t p[3])
{
    return n * v->outer + channel * v->channel + p[0] * v->space[0] + p[1] * v->space[1] + p[2] * v->space[2];
}

static double get(const world *w, int t, int64_t at)
{
    return tp_scalar_to_double(tp_scalar_read((char *)w->v[t].data + at * (int64_t)tp_dtype_bytes(w->dtype), w->dtype));
}

/* Visits every (y, w, x) triple of the defining sum with y's, w's and x's places. */
typedef void visit_fn(const world *w, double *sum, int64_t y, int64_t k, int64_t x);

static void visit(const world *w, visit_fn *f, double *sum)
{
    const tp_conv *c = &w->c;
    int64_t ins = c->in_channels / c->groups, outs = c->out_channels / c->groups;
    int64_t taps = volume(c->kernel), outputs = volume(c->out_size);
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t o = 0; o < c->out_channels; o++)
            for (int64_t q = 0; q < outputs; q++)
                for (int64_t i = 0; i < ins; i++)
                    for (int64_t t = 0; t < taps; t++) {
                        int64_t out[3], tap[3], in[3], a = q, b = t;
                        bool inside = true;
                        for (int d = 2; d >= 0; d--) {
                            out[d] = a % c->out_size[d], a /= c->out_size[d];
                            tap[d] = b % c->kernel[d], b /= c->kernel[d];
                            in[d] = out[d] * c->stride[d] + tap[d] * c->dilation[d] - c->padding[d];
                            inside = inside && in[d] >= 0 && in[d] < c->in_size[d];
                        }
                        if (inside)
                            f(w, sum, place(&w->v[Y], n, o, out), place(&w->v[W], o, i, tap),
                              place(&w->v[X], n, o / outs * ins + i, in));
                    }
}

static void sum_y(const world *w, double *sum, int64_t y, int64_t k, int64_t x)
{
    sum[y] += get(w, W, k) * get(w, X, x);
}

static void sum_x(const world *w, double *sum, int64_t y, int64_t k, int64_t x)
{
    sum[x] += get(w, W, k) * get(w, Y, y);
}

static void sum_w(const world *w, double *sum, int64_t y, int64_t k, int64_t x)
{
    sum[k] += get(w, X, x) * get(w, Y, y);
}

/* Compares tensor t with sums, rounded to the dtype. */
static bool same(const world *w, int t, const double *sum)
{
    unsigned char want[8], *got = w->v[t].data;
    int64_t wrong = 0;
    for (int64_t i = 0; i < w->count[t]; i++, got += tp_dtype_bytes(w->dtype)) {
        tp_scalar_write(tp_scalar_float(sum[i]), want, w->dtype);
        wrong += tp_scalar_to_double(tp_scalar_read(want, w->dtype)) !=
                 tp_scalar_to_double(tp_scalar_read(got, w->dtype));
    }
    if (wrong && !tp_test_quiet)
        printf("# tensor %d: %lld of %lld wrong\n", t, LL(wrong), LL(w->count[t]));
    return !wrong;
}

static bool try_row(tp_dtype d, const row *r, bool last, bool with_bias)
{
    world w;
    double *sum = NULL;
    int64_t most = 0;
    bool ok = world_init(&w, d, r, last);
    for (int t = 0; t < TENSORS; t++)
        most = w.count[t] > most ? w.count[t] : most;
    size_t bytes = (size_t)most * sizeof *sum;
    const tp_conv *c = &w.c;
    if (ok && (sum = tp_block_new(bytes))) {
        memset(sum, 0, bytes);
        visit(&w, sum_x, sum);
        ok = tp_conv_backward_input(d, c, &w.v[Y], &w.v[W], &w.v[GX]);
        TP_EXPECT(ok && same(&w, GX, sum));
        memset(sum, 0, bytes);
        visit(&w, sum_w, sum);
        ok = ok && tp_conv_backward_weight(d, c, &w.v[Y], &w.v[X], &w.v[GW]);
        TP_EXPECT(ok && same(&w, GW, sum));
        memset(sum, 0, bytes);
        for (int64_t i = 0; i < w.count[Y]; i++)
            sum[last ? i % c->out_channels : i / volume(c->out_size) % c->out_channels] += get(&w, Y, i);
        ok = ok && tp_conv_backward_bias(d, c, &w.v[Y], w.v[GB].data);
        TP_EXPECT(ok && same(&w, GB, sum));
        for (int64_t i = 0; i < w.count[Y]; i++)
            sum[i] = with_bias ? get(&w, B, last ? i % c->out_channels : i / volume(c->out_size) % c->out_channels) : 0;
        visit(&w, sum_y, sum);
        ok = ok && tp_conv_forward(d, c, &w.v[X], &w.v[W], with_bias ? w.v[B].data : NULL, &w.v[Y]);
        TP_EXPECT(ok && same(&w, Y, sum));
        if (tp_test_bad && !tp_test_quiet)
            printf("# row %d of %s, channels %s\n", (int)(r - rows), tp_dtypes[d].name, last ? "last" : "first");
    }
    ok = ok && sum;
    tp_block_free(sum, bytes);
    world_fini(&w);
    return ok;
}

TP_TEST(every_row_in_both_layouts)
{
    for (size_t r = 0; r < TP_COUNT(rows); r++)
        for (int last = 0; last < 2; last++) {
            TP_NEED(try_row(TP_f32, &rows[r], last, last));
            TP_NEED(try_row(TP_f64, &rows[r], last, !last));
        }
out:
    return;
}

TP_TEST(halves)
{
    for (size_t r = 0; r < TP_COUNT(rows); r += 3) {
        TP_NEED(try_row(TP_bf16, &rows[r], r % 2, true));
        TP_NEED(try_row(TP_f16, &rows[r], r % 2 == 0, false));
    }
out:
    return;
}

/* What the gradient of a sum looks like: one element everywhere. */
static bool try_expanded(tp_dtype d, const row *r, bool last)
{
    world w;
    bool ok = world_init(&w, d, r, last);
    size_t bytes = (size_t)(w.count[W] > w.count[X] ? w.count[W] : w.count[X]) * sizeof(double);
    double *sum = ok ? tp_block_new(bytes) : NULL;
    if ((ok = sum != NULL)) {
        w.v[Y] = (tp_conv_view){ .data = w.v[Y].data };
        memset(sum, 0, bytes);
        visit(&w, sum_x, sum);
        ok = tp_conv_backward_input(d, &w.c, &w.v[Y], &w.v[W], &w.v[GX]);
        TP_EXPECT(ok && same(&w, GX, sum));
        memset(sum, 0, bytes);
        visit(&w, sum_w, sum);
        ok = ok && tp_conv_backward_weight(d, &w.c, &w.v[Y], &w.v[X], &w.v[GW]);
        TP_EXPECT(ok && same(&w, GW, sum));
    }
    tp_block_free(sum, bytes);
    world_fini(&w);
    return ok;
}

TP_TEST(gradients_of_a_sum)
{
    for (size_t r = 0; r < TP_COUNT(rows); r++) {
        TP_NEED(try_expanded(TP_f32, &rows[r], r % 2));
        TP_NEED(try_expanded(TP_f64, &rows[r], r % 2 == 0));
    }
out:
    return;
}

TP_TEST(failures_are_clean)
{
    TP_NEED(try_row(TP_f32, &rows[0], true, true));
    TP_NEED(try_row(TP_f32, &rows[2], false, true));
    TP_NEED(try_row(TP_f64, &rows[6], false, true));
    TP_NEED(try_row(TP_bf16, &rows[10], true, true));
    TP_NEED(try_row(TP_f32, &rows[TP_COUNT(rows) - 1], false, true));
out:
    return;
}

static bool run_all(world *w, int threads, const tp_gemm_set *set, void *to[3])
{
    const tp_gemm_set *before = tp_the_runtime.gemm;
    static const int outputs[3] = { GX, GW, Y };
    tp_the_runtime.gemm = set;
    tp_pool_set_threads(threads);
    bool ok = tp_conv_backward_input(w->dtype, &w->c, &w->v[Y], &w->v[W], &w->v[GX]) &&
              tp_conv_backward_weight(w->dtype, &w->c, &w->v[Y], &w->v[X], &w->v[GW]);
    tp_conv_view y = w->v[Y];
    y.data = to[2];
    ok = ok && tp_conv_forward(w->dtype, &w->c, &w->v[X], &w->v[W], NULL, &y);
    for (int i = 0; ok && i < 2; i++)
        memcpy(to[i], w->v[outputs[i]].data, (size_t)w->count[outputs[i]] * tp_dtype_bytes(w->dtype));
    tp_pool_set_threads(0);
    tp_the_runtime.gemm = before;
    return ok;
}

TP_TEST(bits_do_not_depend_on_threads_nor_instruction_set)
{
    enum { ROOM = 1 << 16 };
    static float results[3][3][ROOM];
    for (size_t r = 0; r < TP_COUNT(rows); r++) {
        world w;
        bool ok = world_init(&w, TP_f32, &rows[r], false);
        for (int t = 0; ok && t < TENSORS; t++)
            for (int64_t i = 0; i < w.count[t]; i++)
                ((float *)w.v[t].data)[i] *= 1.0f + 0.37f * (float)(i % 11);
        for (int run = 0; ok && run < 3; run++)
            ok = run_all(&w, run + 1, run == 2 ? &tp_gemm_set_plain : tp_the_runtime.gemm,
                         (void *[]){ results[run][0], results[run][1], results[run][2] });
        for (int i = 0; ok && i < 3; i++) {
            int t = i == 0 ? GX : i == 1 ? GW : Y;
            size_t bytes = (size_t)w.count[t] * sizeof(float);
            TP_EXPECT(w.count[t] <= ROOM && memcmp(results[0][i], results[1][i], bytes) == 0 &&
                      memcmp(results[0][i], results[2][i], bytes) == 0);
        }
        world_fini(&w);
        TP_NEED(ok);
    }
out:
    return;
}

TP_TESTS(TP_SPARSE(every_row_in_both_layouts), TP_SPARSE(halves), TP_SPARSE(gradients_of_a_sum), TP_SWEPT(failures_are_clean),
         TP_SPARSE(bits_do_not_depend_on_threads_nor_instruction_set))
