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

TP_TEST_MAIN(TP_UNSWEPT(add_broadcasts_a_row_and_a_column), TP_UNSWEPT(transposed_operands_and_targets),
             TP_UNSWEPT(several_steps_two_outputs_in_place))
