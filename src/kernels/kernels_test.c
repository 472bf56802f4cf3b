/* kernels_test.c - kernels on boxed arguments: what they give, the same bits from every instruction set and thread count,
 * and clean failures when memory is short. */
#include <math.h>

#include "base/pool.h"
#include "base/test.h"
#include "kernels/filter.h"
#include "kernels/normal16.h"
#include "ops/hooks.h"
#include "tensor/generator.h"
#include "tile/set.h"

TP_HOOK_K(tp_k_randn);
TP_HOOK_K(tp_k_softmax);
TP_HOOK_K(tp_k_log_softmax_backward);
TP_HOOK_K(tp_k_layer_norm);
TP_HOOK_K(tp_k_layer_norm_backward);
TP_HOOK_K(tp_k_batch_norm);
TP_HOOK_K(tp_k_index);
TP_HOOK_K(tp_k_index_put);
TP_HOOK_K(tp_k_gather);
TP_HOOK_K(tp_k_scatter_reduce);
TP_HOOK_K(tp_k_embedding_backward);
TP_HOOK_K(tp_k_nonzero);
TP_HOOK_K(tp_k_sort);
TP_HOOK_K(tp_k_topk);
TP_HOOK_K(tp_k_cat);
TP_HOOK_K(tp_k_roll);
TP_HOOK_K(tp_k_nll_loss);

/* ---- small tensors ---- */
static tp_tensor *make(tp_dtype d, int ndim, const int64_t *size, const double *value)
{
    tp_tensor *t = tp_tensor_new(d, ndim, size);
    for (int64_t i = 0; t && i < t->numel; i++)
        tp_scalar_write(tp_scalar_float(value ? value[i] : 0), (char *)tp_tensor_data(t) + (size_t)i * tp_dtype_bytes(d), d);
    return t;
}
#define VECTOR(d, ...) make(d, 1, (int64_t[]){ TP_COUNT(((double[]){ __VA_ARGS__ })) }, (double[]){ __VA_ARGS__ })
#define MATRIX(d, rows, ...) make(d, 2, (int64_t[]){ rows, TP_COUNT(((double[]){ __VA_ARGS__ })) / (rows) }, (double[]){ __VA_ARGS__ })

static double at(const tp_tensor *t, int64_t i)
{
    tp_dtype d = (tp_dtype)t->dtype;
    return tp_scalar_to_double(tp_scalar_read((const char *)tp_tensor_data(t) + (size_t)i * tp_dtype_bytes(d), d));
}

static bool holds(const tp_tensor *t, const double *want, int64_t count)
{
    bool same = t && t->numel == count;
    for (int64_t i = 0; same && i < count; i++)
        same = fabs(at(t, i) - want[i]) <= 1e-6 * (1 + fabs(want[i]));
    return same;
}
#define EXPECT_HOLDS(t, ...) TP_EXPECT(holds(t, (double[]){ __VA_ARGS__ }, TP_COUNT(((double[]){ __VA_ARGS__ }))))

/* Numbers that differ, the same on every machine. */
static tp_tensor *noise(int ndim, const int64_t *size, uint64_t seed)
{
    tp_tensor *t = tp_tensor_new(TP_f32, ndim, size);
    tp_generator *g = t ? tp_generator_new(seed) : NULL;
    if (g)
        tp_draw_u24s(g, t->numel, tp_tensor_data(t));
    tp_generator_unref(g);
    return t;
}

static void drop(tp_tensor **t, int count)
{
    for (int i = 0; i < count; i++)
        tp_tensor_unref(t[i]);
}

static tp_value list_of(tp_tensor *a, tp_tensor *b)
{
    return tp_value_tensors((tp_tensor *[]){ a, b }, b ? 2 : 1);
}

/* ---- tests ---- */
TP_TEST(normal_numbers_are_torchs)
{
    static const uint32_t first[] = { 0xbf901b85, 0xbfd91446, 0x3f111004, 0x3f4b235d, 0x3f194d8b };     /* randn(17), seed 0 */
    tp_generator *g = tp_generator_new(0);
    tp_tensor *out = tp_tensor_new(TP_f32, 1, (int64_t[]){ 17 });
    TP_NEED(g && out);
    TP_NEED(tp_k_randn((tp_value[]){ tp_none(), { .tag = TP_GENERATOR, .generator = g }, tp_none(), tp_none() }, &out));
    TP_EXPECT(memcmp(tp_tensor_data(out), first, sizeof first) == 0);
out:
    tp_generator_unref(g);
    tp_tensor_unref(out);
}

TP_TEST(normal16_has_the_same_bits_everywhere)
{
    enum { BLOCKS = 40 };
    float plain[16 * BLOCKS], other[16 * BLOCKS];
    tp_generator *g = tp_generator_new(3);
    TP_NEED(g);
    tp_draw_u24s(g, TP_COUNT(plain), plain);
    plain[0] = 0;
    memcpy(other, plain, sizeof other);
    tp_normal16_plain(BLOCKS, plain, 1.5f, 0.3f);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        tp_normal16_avx2(BLOCKS, other, 1.5f, 0.3f);
        TP_EXPECT(memcmp(plain, other, sizeof other) == 0);
    }
out:
    tp_generator_unref(g);
}

TP_TEST(filters_agree)
{
    enum { N = 1000 };
    static const tp_filter *const sets[] = { &tp_filter_plain, &tp_filter_avx2, &tp_filter_avx512 };
    uint8_t byte[N];
    float x[N];
    for (int i = 0; i < N; i++) {
        byte[i] = i * 37 % 11 < 5 ? (uint8_t)(i % 3 + 1) : 0;
        x[i] = i % 50 ? sinf((float)i) : i % 100 ? NAN : -0.0f;
    }
    for (tp_isa isa = 0; isa < TP_ISA_COUNT && tp_tile_set_of(isa); isa++) {
        const tp_filter *f = sets[isa];
        int64_t count = 0, place[2][N];
        uint32_t key[2][N];
        float chosen[2][N];
        for (int i = 0; i < N; i++)
            if (byte[i]) {
                chosen[0][count] = x[i];
                place[0][count++] = i;
            }
        TP_EXPECT(f->count(N, byte) == count);
        f->positions(N, byte, count, place[1]);
        f->compress[2](N, byte, count, x, chosen[1]);
        TP_EXPECT(memcmp(place[0], place[1], (size_t)count * sizeof **place) == 0);
        TP_EXPECT(memcmp(chosen[0], chosen[1], (size_t)count * sizeof **chosen) == 0);
        f->compress[3](N / 2, byte, f->count(N / 2, byte), place[0], place[1]);
        for (int64_t i = 0, k = 0; i < N / 2; i++)
            TP_EXPECT(!byte[i] || place[1][k++] == place[0][i]);
        TP_EXPECT(f->keys_f32(N, x, 0, 0x80000000u, key[0]) == sets[0]->keys_f32(N, x, 0, 0x80000000u, key[1]));
        TP_EXPECT(memcmp(key[0], key[1], sizeof *key) == 0);
    }
}

TP_TEST(softmax_sums_to_one)
{
    tp_tensor *x = MATRIX(TP_f32, 2, 1, 2, 3, 1000, 1000, -INFINITY), *y = tp_tensor_new(TP_f32, 2, (int64_t[]){ 2, 3 });
    TP_NEED(x && y);
    TP_NEED(tp_k_softmax((tp_value[]){ tp_of_tensor(x), tp_int(1), tp_bool(false) }, &y));
    EXPECT_HOLDS(y, 0.09003057, 0.24472847, 0.66524096, 0.5, 0.5, 0);
    TP_NEED(tp_k_softmax((tp_value[]){ tp_of_tensor(x), tp_int(-2), tp_bool(false) }, &y));
    EXPECT_HOLDS(y, 0, 0, 1, 1, 1, 0);
out:
    drop((tp_tensor *[]){ x, y }, 2);
}

/* Longer than one fold of the tile set takes. */
TP_TEST(long_rows_are_summed_whole)
{
    const int64_t n = 3000;
    tp_tensor *x = make(TP_f32, 1, &n, NULL), *y = tp_tensor_new(TP_f32, 1, &n);
    TP_NEED(x && y);
    TP_NEED(tp_k_softmax((tp_value[]){ tp_of_tensor(x), tp_int(0), tp_bool(false) }, &y));
    TP_EXPECT(fabs(at(y, 0) * 3000 - 1) < 1e-6 && fabs(at(y, 2999) * 3000 - 1) < 1e-6);
out:
    drop((tp_tensor *[]){ x, y }, 2);
}

/* One and four threads give the same bits: softmax by rows and strips, the sums of layer_norm's gradient, indexing. */
TP_TEST(threads_do_not_show)
{
    const int64_t size[2] = { 300, 700 };
    tp_tensor *x = noise(2, size, 1), *g = noise(2, size, 2), *w = noise(1, size + 1, 3), *result[2][6] = { { NULL } };
    bool ok = x && g && w;
    for (int run = 0; ok && run < 2; run++) {
        tp_tensor **r = result[run];
        tp_pool_set_threads(run ? 4 : 1);
        ok = (r[0] = tp_tensor_new(TP_f32, 2, size)) && (r[1] = tp_tensor_new(TP_f32, 2, (int64_t[]){ 300, 1 })) &&
             (r[2] = tp_tensor_new(TP_f32, 2, (int64_t[]){ 300, 1 })) && (r[3] = tp_tensor_new(TP_f32, 2, size)) &&
             (r[4] = tp_tensor_new(TP_f32, 1, size + 1)) && (r[5] = tp_tensor_new(TP_f32, 1, size + 1));
        tp_value shape = tp_value_ints(size + 1, 1);
        ok = ok && shape.tag == TP_LIST &&
             tp_k_layer_norm((tp_value[]){ tp_of_tensor(x), shape, tp_of_tensor(w), tp_of_tensor(w), tp_float(1e-5) }, r) &&
             tp_k_layer_norm_backward((tp_value[]){ tp_of_tensor(g), tp_of_tensor(x), shape, tp_of_tensor(r[1]), tp_of_tensor(r[2]), tp_of_tensor(w), tp_of_tensor(w) }, r + 3) &&
             tp_k_log_softmax_backward((tp_value[]){ tp_of_tensor(g), tp_of_tensor(r[0]), tp_int(-2) }, r);
        tp_value_unref(shape);
    }
    tp_pool_set_threads(0);
    for (int i = 0; ok && i < 6; i++)
        TP_EXPECT(memcmp(tp_tensor_data(result[0][i]), tp_tensor_data(result[1][i]), (size_t)result[0][i]->numel * 4) == 0);
    TP_EXPECT(ok);
    drop(result[0], 6);
    drop(result[1], 6);
    drop((tp_tensor *[]){ x, g, w }, 3);
}

TP_TEST(batch_norm_keeps_running_statistics)
{
    tp_tensor *x = MATRIX(TP_f32, 4, 1, 10, 2, 20, 3, 30, 4, 40), *mean = VECTOR(TP_f32, 0, 0), *var = VECTOR(TP_f32, 1, 1);
    tp_tensor *out[3] = { tp_tensor_new(TP_f32, 2, (int64_t[]){ 4, 2 }), tp_tensor_new(TP_f32, 1, (int64_t[]){ 2 }), tp_tensor_new(TP_f32, 1, (int64_t[]){ 2 }) };
    TP_NEED(x && mean && var && out[0] && out[1] && out[2]);
    TP_NEED(tp_k_batch_norm((tp_value[]){ tp_of_tensor(x), tp_none(), tp_none(), tp_of_tensor(mean), tp_of_tensor(var), tp_bool(true), tp_float(0.5), tp_float(0) }, out));
    EXPECT_HOLDS(out[1], 2.5, 25);
    EXPECT_HOLDS(mean, 1.25, 12.5);
    EXPECT_HOLDS(var, 0.5 + 0.5 * 5 / 3, 0.5 + 0.5 * 500 / 3);
    TP_EXPECT(fabs(at(out[0], 0) + 1.5 / sqrt(1.25)) < 1e-6 && fabs(at(out[0], 7) - 15 / sqrt(125)) < 1e-6);
out:
    drop(out, 3);
    drop((tp_tensor *[]){ x, mean, var }, 3);
}

TP_TEST(indices_pick_and_place)
{
    tp_tensor *x = MATRIX(TP_f64, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8), *i = VECTOR(TP_i64, 2, 0, -1), *j = VECTOR(TP_i64, 1, 1, 0), *bad = VECTOR(TP_i64, 3);
    tp_tensor *mask = VECTOR(TP_b8, 1, 0, 1), *value = VECTOR(TP_f64, 10, 20, 30), *out[4] = { NULL };
    tp_value both = i && j ? list_of(i, j) : tp_none(), masked = mask ? list_of(mask, NULL) : tp_none(), wrong = bad ? list_of(bad, NULL) : tp_none();
    TP_NEED(x && value && both.tag == TP_LIST && masked.tag == TP_LIST && wrong.tag == TP_LIST);
    TP_NEED(tp_k_index((tp_value[]){ tp_of_tensor(x), both }, &out[0]));
    EXPECT_HOLDS(out[0], 7, 1, 6);
    TP_NEED(tp_k_index((tp_value[]){ tp_of_tensor(x), masked }, &out[1]));
    EXPECT_HOLDS(out[1], 0, 1, 2, 6, 7, 8);
    TP_EXPECT(!tp_k_index((tp_value[]){ tp_of_tensor(x), wrong }, &out[2]));
    if (!tp_test_quiet)
        TP_EXPECT_TEXT(tp_error_text(), "index 3 is out of bounds for dimension 0 with size 3");
    TP_NEED(tp_k_index_put((tp_value[]){ tp_of_tensor(x), both, tp_of_tensor(value), tp_bool(true) }, &x));
    EXPECT_HOLDS(x, 0, 21, 2, 3, 4, 5, 36, 17, 8);
    TP_NEED(tp_k_nonzero((tp_value[]){ tp_of_tensor(mask) }, &out[3]));
    EXPECT_HOLDS(out[3], 0, 2);
out:
    tp_value_unref(both);
    tp_value_unref(masked);
    tp_value_unref(wrong);
    drop(out, 4);
    drop((tp_tensor *[]){ x, i, j, bad, mask, value }, 6);
}

TP_TEST(gather_scatter_and_embedding_rows)
{
    tp_tensor *x = MATRIX(TP_f32, 2, 1, 2, 3, 4, 5, 6), *i = MATRIX(TP_i64, 2, 2, 0, 1, 1), *picked = tp_tensor_new(TP_f32, 2, (int64_t[]){ 2, 2 });
    tp_tensor *rows = VECTOR(TP_i64, 2, 0, 2), *g = MATRIX(TP_f32, 3, 1, 1, 2, 2, 4, 4), *table = tp_tensor_new(TP_f32, 2, (int64_t[]){ 3, 2 });
    tp_value mean = tp_value_string("mean", 4);
    TP_NEED(x && i && picked && rows && g && table && mean.tag == TP_STRING);
    TP_NEED(tp_k_gather((tp_value[]){ tp_of_tensor(x), tp_int(1), tp_of_tensor(i), tp_bool(false) }, &picked));
    EXPECT_HOLDS(picked, 3, 1, 5, 5);
    TP_NEED(tp_k_scatter_reduce((tp_value[]){ tp_of_tensor(x), tp_int(1), tp_of_tensor(i), tp_of_tensor(picked), mean, tp_bool(false) }, &x));
    EXPECT_HOLDS(x, 1, 2, 3, 4, 5, 6);
    TP_NEED(tp_k_embedding_backward((tp_value[]){ tp_of_tensor(g), tp_of_tensor(rows), tp_int(3), tp_int(-1), tp_bool(true) }, &table));
    EXPECT_HOLDS(table, 2, 2, 0, 0, 2.5, 2.5);
out:
    tp_value_unref(mean);
    drop((tp_tensor *[]){ x, i, picked, rows, g, table }, 6);
}

TP_TEST(sorting_is_stable_with_nan_last)
{
    tp_tensor *x = VECTOR(TP_f32, 2, NAN, -1, 2, -0.0, 0), *out[2] = { tp_tensor_new(TP_f32, 1, (int64_t[]){ 6 }), tp_tensor_new(TP_i64, 1, (int64_t[]){ 6 }) };
    tp_tensor *top[2] = { tp_tensor_new(TP_f32, 1, (int64_t[]){ 2 }), tp_tensor_new(TP_i64, 1, (int64_t[]){ 2 }) };
    TP_NEED(x && out[0] && out[1] && top[0] && top[1]);
    TP_NEED(tp_k_sort((tp_value[]){ tp_of_tensor(x), tp_int(0), tp_bool(false) }, out));
    EXPECT_HOLDS(out[1], 2, 4, 5, 0, 3, 1);
    TP_NEED(tp_k_sort((tp_value[]){ tp_of_tensor(x), tp_int(-1), tp_bool(true) }, out));
    EXPECT_HOLDS(out[1], 1, 0, 3, 4, 5, 2);
    TP_NEED(tp_k_topk((tp_value[]){ tp_of_tensor(x), tp_int(2), tp_int(-1), tp_bool(false), tp_bool(true) }, top));
    EXPECT_HOLDS(top[1], 2, 4);
out:
    drop(out, 2);
    drop(top, 2);
    tp_tensor_unref(x);
}

/* Rows much longer than what is kept: the best are those a sort puts first, for both widths of keys. */
TP_TEST(topk_is_the_front_of_a_sort)
{
    enum { N = 40000, K = 30 };
    tp_tensor *x[2] = { noise(1, (int64_t[]){ N }, 3), tp_tensor_new(TP_i64, 1, (int64_t[]){ N }) };
    tp_tensor *sorted[2] = { tp_tensor_new(TP_f32, 1, (int64_t[]){ N }), tp_tensor_new(TP_i64, 1, (int64_t[]){ N }) };
    tp_tensor *top[2] = { tp_tensor_new(TP_f32, 1, (int64_t[]){ K }), tp_tensor_new(TP_i64, 1, (int64_t[]){ K }) };
    TP_NEED(x[0] && x[1] && sorted[0] && sorted[1] && top[0] && top[1]);
    for (int64_t i = 0; i < N; i++)
        ((int64_t *)tp_tensor_data(x[1]))[i] = i * 7919 % 1009 - 500;
    for (int k = 0; k < 4; k++) {
        tp_tensor *s[2] = { k / 2 ? NULL : sorted[0], sorted[1] }, *t[2] = { k / 2 ? NULL : top[0], top[1] };
        TP_NEED(tp_k_sort((tp_value[]){ tp_of_tensor(x[k / 2]), tp_int(0), tp_bool(k % 2) }, s));
        TP_NEED(tp_k_topk((tp_value[]){ tp_of_tensor(x[k / 2]), tp_int(K), tp_int(0), tp_bool(k % 2), tp_bool(true) }, t));
        TP_EXPECT(memcmp(tp_tensor_data(t[1]), tp_tensor_data(s[1]), K * sizeof(int64_t)) == 0);
    }
out:
    drop(x, 2);
    drop(sorted, 2);
    drop(top, 2);
}

TP_TEST(tensors_are_joined_and_rolled)
{
    tp_tensor *a = MATRIX(TP_i64, 2, 1, 2, 3, 4), *b = MATRIX(TP_f32, 2, 0.5, 1.5), *out = tp_tensor_new(TP_f32, 2, (int64_t[]){ 2, 3 });
    tp_tensor *rolled = tp_tensor_new(TP_f32, 2, (int64_t[]){ 2, 1 });
    tp_value both = a && b ? list_of(a, b) : tp_none(), shift = tp_value_ints((int64_t[]){ 1 }, 1), all = tp_value_ints(NULL, 0);
    TP_NEED(out && rolled && both.tag == TP_LIST && shift.tag == TP_LIST && all.tag == TP_LIST);
    TP_NEED(tp_k_cat((tp_value[]){ both, tp_int(-1) }, &out));
    EXPECT_HOLDS(out, 1, 2, 0.5, 3, 4, 1.5);
    TP_NEED(tp_k_roll((tp_value[]){ tp_of_tensor(b), shift, all }, &rolled));
    EXPECT_HOLDS(rolled, 1.5, 0.5);
out:
    tp_value_unref(both);
    tp_value_unref(shift);
    tp_value_unref(all);
    drop((tp_tensor *[]){ a, b, out, rolled }, 4);
}

TP_TEST(losses_skip_ignored_targets)
{
    tp_tensor *x = MATRIX(TP_f32, 2, -1, -2, -3, -4), *target = VECTOR(TP_i64, 1, -100), *out[2] = { tp_tensor_new(TP_f32, 0, NULL), tp_tensor_new(TP_f32, 0, NULL) };
    TP_NEED(x && target && out[0] && out[1]);
    TP_NEED(tp_k_nll_loss((tp_value[]){ tp_of_tensor(x), tp_of_tensor(target), tp_none(), tp_int(1), tp_int(-100) }, out));
    EXPECT_HOLDS(out[0], 2);
    EXPECT_HOLDS(out[1], 1);
    TP_EXPECT(!tp_k_nll_loss((tp_value[]){ tp_of_tensor(x), tp_of_tensor(target), tp_none(), tp_int(1), tp_int(7) }, out));
out:
    drop(out, 2);
    drop((tp_tensor *[]){ x, target }, 2);
}

TP_TESTS(TP_SWEPT(normal_numbers_are_torchs), TP_SWEPT(normal16_has_the_same_bits_everywhere), TP_SWEPT(softmax_sums_to_one),
         TP_SWEPT(filters_agree), TP_SWEPT(long_rows_are_summed_whole),
         TP_SWEPT(threads_do_not_show), TP_SWEPT(batch_norm_keeps_running_statistics), TP_SWEPT(indices_pick_and_place),
         TP_SWEPT(gather_scatter_and_embedding_rows), TP_SWEPT(sorting_is_stable_with_nan_last), TP_SWEPT(topk_is_the_front_of_a_sort),
         TP_SWEPT(tensors_are_joined_and_rolled),
         TP_SWEPT(losses_skip_ignored_targets))
