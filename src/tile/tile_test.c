/* tile_test.c - loops: layouts, conversions, programs of several steps. */
#include <math.h>

#include "base/pool.h"
#include "base/test.h"
#include "tile/set.h"

/* A loop over up to 4 operands given by dtype, data and strides; sizes outermost first. */
static tp_tile_loop loop_of(int ndim, const int64_t *size, tp_compute compute)
{
    return (tp_tile_loop){ .ndim = (uint8_t)ndim, .compute = (uint8_t)compute, .size = size };
}

static tp_tile_operand operand(void *data, tp_dtype dtype, const int64_t *stride)
{
    return (tp_tile_operand){ data, (uint8_t)dtype, stride };
}

static tp_tile_program binary(const tp_tile_step *step)
{
    return (tp_tile_program){ step, 1, 2, 0, 3, 1, { 2 } };
}

TP_TEST(add_broadcasts_a_row_and_a_column)
{
    enum { ROWS = 300, COLUMNS = 200 };
    static float x[ROWS][COLUMNS], row[COLUMNS], column[ROWS], out[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            x[i][j] = (float)(i * 7 + j), row[j] = (float)j * 3, column[i] = (float)i * 1000;
    const tp_tile_step step = { TP_PRIM_add, 2, 0, 1, 0 };
    tp_tile_program p = binary(&step);
    int64_t size[] = { ROWS, COLUMNS }, dense[] = { COLUMNS * 4, 4 }, by_column[] = { 0, 4 }, by_row[] = { 4, 0 };
    for (int which = 0; which < 4; which++) {
        tp_tile_loop loop = loop_of(2, size, TP_COMPUTE_f32);
        loop.operand[0] = operand(out, TP_f32, dense);
        loop.operand[1 + which % 2] = operand(x, TP_f32, dense);
        loop.operand[2 - which % 2] = which < 2 ? operand(row, TP_f32, by_column) : operand(column, TP_f32, by_row);
        tp_tile_run(&p, &loop);
        int bad = 0;
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                bad += out[i][j] != x[i][j] + (which < 2 ? row[j] : column[i]);
        TP_EXPECT(bad == 0);
    }
}

TP_TEST(transposed_operands_and_targets)
{
    enum { N = 77, M = 131 };
    static int32_t x[N][M], y[M][N], out[N][M], turned[M][N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            x[i][j] = i * 1000 + j, y[j][i] = i - 5 * j;
    const tp_tile_step step = { TP_PRIM_sub, 2, 0, 1, 0 };
    tp_tile_program p = binary(&step), copy = { NULL, 0, 1, 0, 1, 1, { 0 } };
    int64_t size[] = { N, M }, dense[] = { M * 4, 4 }, transposed[] = { 4, N * 4 };
    tp_tile_loop loop = loop_of(2, size, TP_COMPUTE_i32);
    loop.operand[0] = operand(out, TP_i32, dense);
    loop.operand[1] = operand(x, TP_i32, dense);
    loop.operand[2] = operand(y, TP_i32, transposed);
    tp_tile_run(&p, &loop);
    tp_tile_loop turn = loop_of(2, size, TP_COMPUTE_i32);
    turn.operand[0] = operand(turned, TP_i32, transposed);
    turn.operand[1] = operand(x, TP_i32, dense);
    tp_tile_run(&copy, &turn);
    int bad = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            bad += out[i][j] != x[i][j] - y[j][i] || turned[j][i] != x[i][j];
    TP_EXPECT(bad == 0);
}

/* out0 = (a*b + c) * 2 as f16, out1 = a*b in place of a: a is read by the last step after out1 is known. */
TP_TEST(several_steps_two_outputs_in_place)
{
    enum { N = 5000 };
    static float a[N], before[N];
    static double b[N];
    static int16_t c[N * 2];
    static uint16_t out[N];
    for (int i = 0; i < N; i++)
        a[i] = before[i] = (float)(i % 13), b[i] = i % 7 - 3, c[2 * i] = (int16_t)(i % 5);
    const tp_tile_step steps[] = { { TP_PRIM_mul, 4, 0, 1, 0 }, { TP_PRIM_add, 5, 4, 2, 0 },
                                   { TP_PRIM_mul, 6, 5, 3, 0 }, { TP_PRIM_add, 7, 6, 0, 0 } };
    tp_tile_program p = { steps, 4, 3, 1, 8, 2, { 7, 4 } };
    tp_scalar two = tp_scalar_int(2);
    int64_t size[] = { N }, four[] = { 4 }, eight[] = { 8 }, twos[] = { 2 };
    tp_tile_loop loop = loop_of(1, size, TP_COMPUTE_f32);
    loop.scalar = &two;
    loop.operand[0] = operand(out, TP_f16, twos);
    loop.operand[1] = operand(a, TP_f32, four);
    loop.operand[2] = operand(a, TP_f32, four);
    loop.operand[3] = operand(b, TP_f64, eight);
    loop.operand[4] = operand(c, TP_i16, four);
    tp_tile_run(&p, &loop);
    int bad = 0;
    for (int i = 0; i < N; i++) {
        float product = before[i] * (float)b[i];
        bad += a[i] != product || tp_half_to_float(out[i]) != (product + (float)c[2 * i]) * 2 + before[i];
    }
    TP_EXPECT(bad == 0);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Strides of a random layout of the given sizes: dims in any order, with gaps, some broadcast; bytes needed. */
static int64_t random_strides(uint32_t *seed, int ndim, const int64_t *size, int64_t bytes, bool broadcast, int64_t *stride)
{
    int order[4] = { 0, 1, 2, 3 };
    for (int i = ndim - 1; i > 0; i--) {
        int j = (int)(next_random(seed) % (uint32_t)(i + 1)), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    if (next_random(seed) % 3 == 0)
        for (int i = 0; i < ndim; i++)
            order[i] = ndim - 1 - i;
    int64_t step = next_random(seed) % 4 ? bytes : 2 * bytes;
    for (int i = 0; i < ndim; i++) {
        bool still = broadcast && next_random(seed) % 4 == 0;
        stride[order[i]] = still ? 0 : step;
        if (!still)
            step *= size[order[i]] + (next_random(seed) % 8 == 0);
    }
    return step;
}

typedef struct random_case {
    int      ndim, inputs;
    int64_t  size[4], stride[4][4];
    tp_dtype dtype[4];              /* output first */
    char    *data[4];               /* owned */
    tp_tile_step step[3];
} random_case;

static int64_t apply_prim(int prim, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    return prim == TP_PRIM_add ? (int64_t)(x + y) : prim == TP_PRIM_sub ? (int64_t)(x - y)
         : prim == TP_PRIM_mul ? (int64_t)(x * y) : a > b ? a : b;
}

static int count_wrong(const random_case *c, int steps, int64_t scalar)
{
    int64_t index[4] = { 0 };
    int wrong = 0;
    for (;;) {
        int64_t reg[8], out = 0;
        _Alignas(8) char want[8];
        for (int k = 0; k <= c->inputs; k++) {
            int64_t offset = 0;
            for (int d = 0; d < c->ndim; d++)
                offset += index[d] * c->stride[k][d];
            if (k)
                reg[k - 1] = tp_scalar_to_int(tp_scalar_read(c->data[k] + offset, c->dtype[k]));
            else
                out = offset;
        }
        reg[c->inputs] = scalar;
        for (int i = 0; i < steps; i++)
            reg[c->step[i].to] = apply_prim(c->step[i].prim, reg[c->step[i].a], reg[c->step[i].b]);
        int64_t value = steps ? reg[c->step[steps - 1].to] : reg[0];
        tp_scalar_write(tp_scalar_int(value), want, c->dtype[0]);
        wrong += memcmp(want, c->data[0] + out, tp_dtype_bytes(c->dtype[0])) != 0;
        int d = c->ndim - 1;
        for (; d >= 0 && ++index[d] == c->size[d]; d--)
            index[d] = 0;
        if (d < 0)
            return wrong;
    }
}

TP_TEST(random_loops_agree_with_single_elements)
{
    static const tp_dtype dtypes[] = { TP_i64, TP_i64, TP_i32, TP_i16, TP_u8, TP_b8, TP_i8 };
    static const uint8_t prims[] = { TP_PRIM_add, TP_PRIM_sub, TP_PRIM_mul, TP_PRIM_maximum };
    static const int64_t sizes[] = { 1, 2, 3, 5, 17, 33, 64, 70, 130 };
    uint32_t seed = 9;
    const tp_tile_set *chosen = tp_the_runtime.tile;
    for (int round = 0; round < 400; round++) {
        random_case c = { .ndim = 1 + (int)(next_random(&seed) % 4), .inputs = 1 + (int)(next_random(&seed) % 3) };
        tp_tile_loop loop = { .ndim = (uint8_t)c.ndim, .compute = TP_COMPUTE_i64, .size = c.size };
        int64_t elements = 1;
        for (int d = 0; d < c.ndim; d++) {
            c.size[d] = sizes[next_random(&seed) % TP_COUNT(sizes)];
            if (elements * c.size[d] > 60000)
                c.size[d] = 2;
            elements *= c.size[d];
        }
        for (int k = 0; k <= c.inputs; k++) {
            c.dtype[k] = dtypes[next_random(&seed) % TP_COUNT(dtypes)];
            int64_t bytes = random_strides(&seed, c.ndim, c.size, (int64_t)tp_dtype_bytes(c.dtype[k]), k > 0, c.stride[k]);
            c.data[k] = malloc((size_t)bytes);
            for (int64_t i = 0; i < bytes; i++)
                c.data[k][i] = (char)(next_random(&seed) & (c.dtype[k] == TP_b8 ? 1 : 255));
            loop.operand[k] = operand(c.data[k], c.dtype[k], c.stride[k]);
        }
        int steps = (int)(next_random(&seed) % 4), first = c.inputs + 1;
        tp_scalar scalar = tp_scalar_int((int64_t)next_random(&seed) - 1000);
        for (int i = 0; i < steps; i++)
            c.step[i] = (tp_tile_step){ prims[next_random(&seed) % 4], (uint8_t)(first + i),
                                        (uint8_t)(next_random(&seed) % (uint32_t)(first + i)),
                                        (uint8_t)(next_random(&seed) % (uint32_t)(first + i)), 0 };
        tp_tile_program p = { c.step, (uint8_t)steps, (uint8_t)c.inputs, 1, (uint8_t)(first + steps), 1, { 0 } };
        p.output[0] = steps ? (uint8_t)(first + steps - 1) : 0;
        loop.scalar = &scalar;
        tp_the_runtime.tile = tp_tile_set_of((tp_isa)(round % 3));
        tp_the_runtime.tile = tp_the_runtime.tile ? tp_the_runtime.tile : chosen;
        tp_tile_run(&p, &loop);
        int wrong = count_wrong(&c, steps, scalar.i);
        if (wrong)
            printf("# round %d: %d wrong\n", round, wrong);
        TP_EXPECT(wrong == 0);
        for (int k = 0; k <= c.inputs; k++)
            free(c.data[k]);
    }
    tp_the_runtime.tile = chosen;
}

/* Fills, casts and the shortest way. */
TP_TEST(fills_casts_and_small_calls)
{
    uint16_t half[100];
    int64_t size[] = { 100 }, two[] = { 2 }, four[] = { 4 };
    tp_scalar value = tp_scalar_float(0.1);
    tp_tile_program fill = { NULL, 0, 0, 1, 1, 1, { 0 } }, cast = { NULL, 0, 1, 0, 1, 1, { 0 } };
    tp_tile_loop loop = loop_of(1, size, TP_COMPUTE_f32);
    loop.scalar = &value;
    loop.operand[0] = operand(half, TP_f16, two);
    tp_tile_run(&fill, &loop);
    TP_EXPECT(half[0] == tp_float_to_half(0.1f) && half[99] == half[0]);
    float x[100], sum[4];
    loop.operand[0] = operand(x, TP_f32, four);
    loop.operand[1] = operand(half, TP_f16, two);
    tp_tile_run(&cast, &loop);
    TP_EXPECT(x[57] == tp_half_to_float(half[0]));
    const void *in[] = { x, x + 4 };
    tp_tile_run_small(TP_PRIM_add, TP_COMPUTE_f32, 4, sum, in);
    TP_EXPECT(sum[0] == 2 * x[0] && sum[3] == 2 * x[0]);
}

TP_TESTS(TP_SWEPT(random_loops_agree_with_single_elements), TP_SWEPT(fills_casts_and_small_calls),
         TP_SWEPT(add_broadcasts_a_row_and_a_column), TP_SWEPT(transposed_operands_and_targets),
         TP_SWEPT(several_steps_two_outputs_in_place))
