/* reduce_test.c - reductions: the order of operations, layouts, threads, instruction sets, and each kind's meaning. */
#include <math.h>

#include "base/pool.h"
#include "base/test.h"
#include "tile/set.h"

enum { MOST = 1 << 17 };

static const tp_tile_program identity = { NULL, 0, 1, 0, 1, 1, { 0 } };

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The definition, written as plainly as can be: blocks of 1024, runs, lanes, tree, binary tree over blocks. */
static float sum_of_block(const float *x, int64_t n, int64_t step)
{
    float run[4][16] = { { 0 } }, lane[16];
    for (int64_t i = 0; i < n; i++)
        run[i / 256][i % 16] += x[i * step];
    for (int l = 0; l < 16; l++)
        lane[l] = (run[0][l] + run[1][l]) + (run[2][l] + run[3][l]);
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static float sum_of_blocks(const float *x, int64_t n, int64_t step)
{
    if (n <= 1024)
        return sum_of_block(x, n, step);
    int64_t left = 1024;
    while (left * 2 < n)
        left *= 2;
    return sum_of_blocks(x, left, step) + sum_of_blocks(x + left * step, n - left, step);
}

typedef struct shape {
    int64_t rows, columns;
} shape;

static void reduce_rows(tp_reduction r, double parameter, tp_compute compute, tp_dtype from, const void *x, shape s,
                        bool over_rows, tp_dtype to, void *out, int64_t *index)
{
    int64_t size[] = { s.rows, s.columns }, bytes = (int64_t)tp_dtype_bytes(from), step = (int64_t)tp_dtype_bytes(to);
    int64_t dense[] = { s.columns * bytes, bytes }, by_column[] = { 0, step }, by_row[] = { step, 0 };
    int64_t index_by_column[] = { 0, 8 }, index_by_row[] = { 8, 0 };
    tp_tile_loop loop = { .ndim = 2, .compute = (uint8_t)compute, .size = size };
    int k = 0;
    if (out)
        loop.operand[k++] = (tp_tile_operand){ out, (uint8_t)to, over_rows ? by_column : by_row };
    if (index)
        loop.operand[k++] = (tp_tile_operand){ index, TP_i64, over_rows ? index_by_column : index_by_row };
    loop.operand[k] = (tp_tile_operand){ (void *)(uintptr_t)x, (uint8_t)from, dense };
    tp_tile_reduce(&identity, r, parameter, over_rows ? 1 : 2, &loop);
}

TP_TEST(sums_follow_the_definition_in_every_layout)
{
    static const shape shapes[] = { { 1, 1 }, { 1, 100000 }, { 100000, 1 }, { 3, 5000 }, { 5000, 3 }, { 1030, 70 },
                                    { 70, 1030 }, { 40, 2049 }, { 9, 9 }, { 2000, 20 }, { 65536, 2 }, { 2, 65536 } };
    static float x[MOST], out[MOST];
    uint32_t seed = 1;
    for (int i = 0; i < MOST; i++)
        x[i] = (float)next_random(&seed) / 1000.0f - 5000.0f;
    const tp_tile_set *chosen = tp_the_runtime.tile;
    for (tp_isa isa = 0; isa < TP_ISA_COUNT; isa++) {
        if (!(tp_the_runtime.tile = tp_tile_set_of(isa)))
            continue;
        for (int threads = 1; threads <= 3; threads += 2)
            for (size_t s = 0; s < TP_COUNT(shapes); s++) {
                shape n = shapes[s];
                tp_pool_set_threads(threads);
                int bad = 0;
                reduce_rows(TP_REDUCE_sum, 0, TP_COMPUTE_f32, TP_f32, x, n, false, TP_f32, out, NULL);
                for (int64_t i = 0; i < n.rows; i++)
                    bad += out[i] != sum_of_blocks(x + i * n.columns, n.columns, 1);
                reduce_rows(TP_REDUCE_sum, 0, TP_COMPUTE_f32, TP_f32, x, n, true, TP_f32, out, NULL);
                for (int64_t j = 0; j < n.columns; j++)
                    bad += out[j] != sum_of_blocks(x + j, n.rows, n.columns);
                TP_EXPECT(bad == 0);
            }
    }
    tp_the_runtime.tile = chosen;
    tp_pool_set_threads(0);
}

/* Dims 0 and 2 of three, so that the sequence is made of pieces: short rows and long ones. */
TP_TEST(sums_over_two_dims_apart)
{
    static const int64_t sizes[][3] = { { 50, 6, 7 }, { 4, 5, 3000 }, { 700, 3, 40 }, { 30, 9, 1024 } };
    static float x[700 * 3 * 40 + 30 * 9 * 1024], sequence[MOST], out[16];
    uint32_t seed = 2;
    for (size_t i = 0; i < TP_COUNT(x); i++)
        x[i] = (float)next_random(&seed) / 777.0f;
    for (size_t s = 0; s < TP_COUNT(sizes); s++) {
        const int64_t *n = sizes[s];
        int64_t dense[] = { n[1] * n[2] * 4, n[2] * 4, 4 }, kept[] = { 0, 4, 0 };
        tp_tile_loop loop = { .ndim = 3, .compute = TP_COMPUTE_f32, .size = n };
        loop.operand[0] = (tp_tile_operand){ out, TP_f32, kept };
        loop.operand[1] = (tp_tile_operand){ x, TP_f32, dense };
        tp_tile_reduce(&identity, TP_REDUCE_sum, 0, 5, &loop);
        for (int64_t j = 0; j < n[1]; j++) {
            for (int64_t i = 0; i < n[0]; i++)
                memcpy(sequence + i * n[2], x + (i * n[1] + j) * n[2], (size_t)n[2] * 4);
            TP_EXPECT(out[j] == sum_of_blocks(sequence, n[0] * n[2], 1));
        }
    }
}

TP_TEST(kinds_mean_what_they_say)
{
    float x[] = { 3, -1, NAN, 2, 3, 3, 0, -7, -7, 1, 5, 4 }, out[4];     /* 3 x 4 */
    int64_t index[4], whole[4];
    shape s = { 3, 4 };
    uint8_t truth[4];
    reduce_rows(TP_REDUCE_max, 0, TP_COMPUTE_f32, TP_f32, x, s, false, TP_f32, out, NULL);
    TP_EXPECT(isnan(out[0]) && out[1] == 3 && out[2] == 5);
    reduce_rows(TP_REDUCE_min_index, 0, TP_COMPUTE_f32, TP_f32, x, s, true, TP_f32, out, index);
    TP_EXPECT(out[0] == -7 && index[0] == 2 && out[1] == -1 && index[1] == 0 && isnan(out[2]) && index[2] == 0 &&
              out[3] == -7 && index[3] == 1);
    reduce_rows(TP_REDUCE_argmax, 0, TP_COMPUTE_f32, TP_f32, x, s, false, TP_i64, NULL, index);
    TP_EXPECT(index[0] == 2 && index[1] == 0 && index[2] == 2);
    reduce_rows(TP_REDUCE_any, 0, TP_COMPUTE_f32, TP_f32, x, s, false, TP_b8, truth, NULL);
    TP_EXPECT(truth[0] == 1 && truth[1] == 1 && truth[2] == 1);
    reduce_rows(TP_REDUCE_all, 0, TP_COMPUTE_f32, TP_f32, x, s, false, TP_b8, truth, NULL);
    TP_EXPECT(truth[0] == 1 && truth[1] == 0 && truth[2] == 1);
    reduce_rows(TP_REDUCE_count_nonzero, 0, TP_COMPUTE_f32, TP_f32, x, s, true, TP_i64, whole, NULL);
    TP_EXPECT(whole[0] == 3 && whole[2] == 2);
    reduce_rows(TP_REDUCE_mean, 0, TP_COMPUTE_f32, TP_f32, x + 4, (shape){ 2, 4 }, false, TP_f32, out, NULL);
    TP_EXPECT(out[0] == -0.25f && out[1] == 0.75f);
    reduce_rows(TP_REDUCE_prod, 0, TP_COMPUTE_f32, TP_f32, x + 8, (shape){ 1, 4 }, false, TP_f32, out, NULL);
    TP_EXPECT(out[0] == -140);
    reduce_rows(TP_REDUCE_norm, 2, TP_COMPUTE_f32, TP_f32, x + 8, (shape){ 1, 4 }, false, TP_f32, out, NULL);
    TP_EXPECT(out[0] == sqrtf(91));
    reduce_rows(TP_REDUCE_norm, (double)INFINITY, TP_COMPUTE_f32, TP_f32, x + 8, (shape){ 1, 4 }, false, TP_f32, out, NULL);
    TP_EXPECT(out[0] == 7);
    reduce_rows(TP_REDUCE_norm, 0, TP_COMPUTE_f32, TP_f32, x + 4, (shape){ 1, 4 }, false, TP_f32, out, NULL);
    TP_EXPECT(out[0] == 3);
    reduce_rows(TP_REDUCE_norm, 3, TP_COMPUTE_f32, TP_f32, x + 8, (shape){ 1, 4 }, false, TP_f32, out, NULL);
    TP_EXPECT(fabsf(out[0] - cbrtf(533)) < 1e-5f);
}

TP_TEST(nothing_to_reduce)
{
    float out[2] = { 7, 7 };
    reduce_rows(TP_REDUCE_sum, 0, TP_COMPUTE_f32, TP_f32, out, (shape){ 2, 0 }, false, TP_f32, out, NULL);
    TP_EXPECT(out[0] == 0 && out[1] == 0);
    reduce_rows(TP_REDUCE_prod, 0, TP_COMPUTE_f32, TP_f32, out, (shape){ 2, 0 }, false, TP_f32, out, NULL);
    TP_EXPECT(out[0] == 1 && out[1] == 1);
    reduce_rows(TP_REDUCE_mean, 0, TP_COMPUTE_f32, TP_f32, out, (shape){ 2, 0 }, false, TP_f32, out, NULL);
    TP_EXPECT(isnan(out[0]) && isnan(out[1]));
}

TP_TEST(variance_is_accurate_far_from_zero)
{
    enum { N = 100000 };
    static float x[N];
    long double sum = 0, square = 0;
    uint32_t seed = 3;
    float out[2], mean[2];
    for (int i = 0; i < N; i++)
        x[i] = 4000.0f + (float)(next_random(&seed) % 1000) / 100.0f, sum += (long double)x[i];
    for (int i = 0; i < N; i++)
        square += ((long double)x[i] - sum / N) * ((long double)x[i] - sum / N);
    int64_t size[] = { N }, four[] = { 4 }, still[] = { 0 };
    tp_tile_loop loop = { .ndim = 1, .compute = TP_COMPUTE_f32, .size = size };
    loop.operand[0] = (tp_tile_operand){ out, TP_f32, still };
    loop.operand[1] = (tp_tile_operand){ mean, TP_f32, still };
    loop.operand[2] = (tp_tile_operand){ x, TP_f32, four };
    tp_tile_reduce(&identity, TP_REDUCE_var_mean, 1, 1, &loop);
    TP_EXPECT(fabsl((long double)out[0] / (square / (N - 1)) - 1) < 1e-6L);
    TP_EXPECT(fabsl((long double)mean[0] / (sum / N) - 1) < 1e-7L);
}

TP_TEST(equal_numbers_do_not_vary)
{
    enum { N = 3000 };
    float x[N], out[1] = { 7 };
    double wide[N], wide_out[1] = { 7 };
    for (int i = 0; i < N; i++)
        x[i] = 1.37f, wide[i] = 1.37;
    for (int64_t n = 2; n <= N; n += n < 20 ? 1 : 993) {
        reduce_rows(TP_REDUCE_std, 1, TP_COMPUTE_f32, TP_f32, x, (shape){ 1, n }, false, TP_f32, out, NULL);
        reduce_rows(TP_REDUCE_std, 1, TP_COMPUTE_f64, TP_f64, wide, (shape){ 1, n }, false, TP_f64, wide_out, NULL);
        TP_EXPECT(out[0] == 0 && wide_out[0] == 0);
    }
}

TP_TEST(integers_are_exact)
{
    enum { N = 70000 };
    static int32_t x[N];
    static uint8_t bytes[N];
    int64_t sum = 0, byte_sum = 0, out;
    uint32_t seed = 4;
    for (int i = 0; i < N; i++) {
        x[i] = (int32_t)(next_random(&seed) << 8);
        bytes[i] = (uint8_t)next_random(&seed);
        sum += x[i];
        byte_sum += bytes[i];
    }
    reduce_rows(TP_REDUCE_sum, 0, TP_COMPUTE_i32, TP_i32, x, (shape){ 1, N }, false, TP_i64, &out, NULL);
    TP_EXPECT(out == sum);
    reduce_rows(TP_REDUCE_sum, 0, TP_COMPUTE_i64, TP_i32, x, (shape){ N, 1 }, true, TP_i64, &out, NULL);
    TP_EXPECT(out == sum);
    reduce_rows(TP_REDUCE_sum, 0, TP_COMPUTE_i32, TP_u8, bytes, (shape){ 1, N }, false, TP_i64, &out, NULL);
    TP_EXPECT(out == byte_sum);
}

TP_TEST(scans_walk_each_line)
{
    enum { ROWS = 300, COLUMNS = 200 };
    static float x[ROWS][COLUMNS], out[ROWS][COLUMNS];
    static int64_t index[ROWS][COLUMNS];
    uint32_t seed = 5;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            x[i][j] = (float)(next_random(&seed) % 1000) / 7.0f;
    x[40][7] = NAN;
    int64_t size[] = { ROWS, COLUMNS }, dense[] = { COLUMNS * 4, 4 }, dense_index[] = { COLUMNS * 8, 8 };
    tp_tile_loop loop = { .ndim = 2, .compute = TP_COMPUTE_f32, .size = size };
    loop.operand[0] = (tp_tile_operand){ out, TP_f32, dense };
    for (int dim = 0; dim < 2; dim++) {
        int bad = 0;
        loop.operand[1] = (tp_tile_operand){ x, TP_f32, dense };
        tp_tile_scan(TP_REDUCE_sum, dim, &loop);
        for (int line = 0; line < (dim ? ROWS : COLUMNS); line++) {
            double sum = 0;
            for (int i = 0; i < (dim ? COLUMNS : ROWS); i++) {
                float want = (float)(sum += (double)(dim ? x[line][i] : x[i][line])), got = dim ? out[line][i] : out[i][line];
                bad += want != got && !isnan(want);
            }
        }
        loop.operand[1] = (tp_tile_operand){ index, TP_i64, dense_index };
        loop.operand[2] = (tp_tile_operand){ x, TP_f32, dense };
        tp_tile_scan(TP_REDUCE_max_index, dim, &loop);
        for (int line = 0; line < (dim ? ROWS : COLUMNS); line++) {
            float best = -INFINITY;
            int64_t at = 0;
            for (int i = 0; i < (dim ? COLUMNS : ROWS); i++) {
                float v = dim ? x[line][i] : x[i][line], got = dim ? out[line][i] : out[i][line];
                if (isnan(v) || v >= best)
                    best = v, at = i;
                bad += (isnan(best) ? !isnan(got) : got != best) || (dim ? index[line][i] : index[i][line]) != at;
            }
        }
        TP_EXPECT(bad == 0);
    }
}

/* What running sums of every set must be, element by element, on lines that rounding, zeros, infinities and NaN disturb. */
TP_TEST(running_sums_are_in_order)
{
    enum { LENGTH = 5000 };
    static float x[LENGTH], got[LENGTH];
    for (int kind = 0; kind < 8; kind++) {
        uint32_t seed = (uint32_t)kind + 1;
        for (int i = 0; i < LENGTH; i++) {
            float u = (float)((int32_t)next_random(&seed) % 100000) / 7.0f;
            x[i] = kind < 2 ? u : kind == 2 ? ldexpf(u, (int)(next_random(&seed) % 90) - 45) : kind == 3 ? (i % 2 ? -x[i - 1] : u)
                 : kind < 6 ? (i < 900 * (kind - 3) ? -0.0f : kind == 4 ? 0.0f : -0.0f) : u;
        }
        if (kind == 1)
            x[300] = 1e30f;                             /* every later sum is rounded */
        if (kind >= 6)
            x[1000] = INFINITY, x[3000] = kind == 6 ? NAN : -INFINITY;
        for (tp_isa isa = 0; isa < TP_ISA_COUNT; isa++) {
            const tp_tile_set *set = tp_tile_set_of(isa);
            for (int in_place = 0; set && in_place < 2; in_place++) {
                int bad = 0;
                memcpy(got, x, sizeof x);
                set->running_f32(LENGTH, in_place ? got : x, got);
                double sum = -0.0;
                for (int i = 0; i < LENGTH; i++) {
                    float want = (float)(sum += (double)x[i]);
                    bad += isnan(want) ? !isnan(got[i]) : memcmp(&want, &got[i], sizeof want) != 0;
                }
                TP_EXPECT(bad == 0);
            }
        }
    }
}

/* Each kind over rows of a matrix and over columns of its transpose: same sequences, so same bits. */
TP_TEST(kinds_do_not_see_the_layout)
{
    static const shape shapes[] = { { 1500, 33 }, { 40, 50 }, { 2100, 16 }, { 7, 300 }, { 1024, 100 } };
    static float x[MOST], turned[MOST], a[1024], b[1024];
    static int64_t index[2048], index2[2048];
    uint32_t seed = 12;
    for (int i = 0; i < MOST; i++)
        x[i] = (float)(next_random(&seed) % 5000) / 100.0f - 20.0f;
    x[777] = NAN;
    for (size_t s = 0; s < TP_COUNT(shapes); s++) {
        shape n = shapes[s], m = { n.columns, n.rows };
        for (int64_t i = 0; i < n.rows; i++)
            for (int64_t j = 0; j < n.columns; j++)
                turned[j * n.rows + i] = x[i * n.columns + j];
        for (tp_reduction r = 0; r < TP_REDUCE_COUNT; r++) {
            bool arg = r == TP_REDUCE_argmax || r == TP_REDUCE_argmin;
            bool pair = r == TP_REDUCE_max_index || r == TP_REDUCE_min_index;
            if (r == TP_REDUCE_var_mean || r == TP_REDUCE_std_mean)
                continue;
            memset(index, 0, sizeof index), memset(index2, 0, sizeof index2);
            reduce_rows(r, 2, TP_COMPUTE_f32, TP_f32, x, n, true, TP_f32, arg ? NULL : a, arg || pair ? index : NULL);
            reduce_rows(r, 2, TP_COMPUTE_f32, TP_f32, turned, m, false, TP_f32, arg ? NULL : b, arg || pair ? index2 : NULL);
            int bad = memcmp(index, index2, sizeof index) != 0;
            for (int64_t j = 0; !arg && j < n.columns; j++)
                bad += !(isnan(a[j]) && isnan(b[j])) && memcmp(&a[j], &b[j], 4) != 0;
            if (bad)
                printf("# kind %d of %d x %d\n", (int)r, (int)n.rows, (int)n.columns);
            TP_EXPECT(bad == 0);
        }
    }
}

/* The primitives themselves: each set folds as plain C does, and rows are folded as their columns are. */
TP_TEST(folds_agree_in_every_set)
{
    enum { COLUMNS = 37, TALL = 20000 };
    static const int64_t counts[] = { 1, 15, 16, 17, 63, 255, 256, 257, 300, 769, 1023, 1024, 1025, 8192, 8193, 9300, TALL };
    static const tp_compute types[] = { TP_COMPUTE_f32, TP_COMPUTE_f64, TP_COMPUTE_i64 };
    static double source[TALL * COLUMNS], column[TALL];
    uint32_t seed = 31;
    for (size_t k = 0; k < TP_COUNT(types) * TP_FOLD_COUNT * TP_COUNT(counts); k++) {
        tp_compute type = types[k % TP_COUNT(types)];
        int fold = (int)(k / TP_COUNT(types) % TP_FOLD_COUNT), bad = 0;
        int64_t n = counts[k / TP_COUNT(types) / TP_FOLD_COUNT], bytes = tp_compute_bytes(type);
        char *x = (char *)source;
        for (int64_t i = 0; i < n * COLUMNS; i++) {
            double number = (double)next_random(&seed) * 0x1p-24 + 0.5;
            tp_scalar_write(type == TP_COMPUTE_i64 ? tp_scalar_int((int64_t)(number * 1e9)) : tp_scalar_float(number), x + i * bytes,
                            tp_compute_dtype(type));
        }
        for (tp_isa isa = 0; isa < TP_ISA_COUNT; isa++) {
            const tp_tile_set *set = tp_tile_set_of(isa), *plain = tp_tile_set_of(TP_ISA_PLAIN);
            char row[COLUMNS * 8], want[8], got[8];
            if (!set)
                continue;
            if (n <= TP_TILE)
                set->fold_rows[type][fold](n, COLUMNS, row, x, COLUMNS * bytes);
            for (int64_t j = 0; j < COLUMNS; j += n > TP_TILE ? COLUMNS - 1 : 1) {
                for (int64_t i = 0; i < n; i++)
                    memcpy((char *)column + i * bytes, x + (i * COLUMNS + j) * bytes, (size_t)bytes);
                plain->fold[type][fold](n, want, column);
                set->fold[type][fold](n, got, column);
                bad += memcmp(want, got, (size_t)bytes) != 0;
                bad += n <= TP_TILE && memcmp(want, row + j * bytes, (size_t)bytes) != 0;
            }
        }
        TP_EXPECT(bad == 0);
    }
}

TP_TESTS(TP_SWEPT(folds_agree_in_every_set), TP_SWEPT(kinds_do_not_see_the_layout), TP_SWEPT(scans_walk_each_line), TP_SWEPT(running_sums_are_in_order),
         TP_SWEPT(sums_follow_the_definition_in_every_layout), TP_SWEPT(sums_over_two_dims_apart),
         TP_SWEPT(kinds_mean_what_they_say), TP_SWEPT(nothing_to_reduce),
         TP_SWEPT(variance_is_accurate_far_from_zero), TP_SWEPT(equal_numbers_do_not_vary), TP_SWEPT(integers_are_exact))
