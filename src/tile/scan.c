/* scan.c - running sums, products, maxima and minima along one dim.
 *
 * Each line is walked in order, so bits depend on nothing else; sums and products run in f64, i64 or c128 and are rounded
 * at each output. Lines that lie side by side are walked together as a strip, a row at a time:
 *
 *     the scanned dim is dense:   one line, up to 1024 positions a piece; sums of f32 by a primitive (isa/running.c)
 *     it is not:                  up to 128 lines, one position a piece */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "base/runtime.h"
#include "tile/frame.h"
#include "tile/plan.h"

enum { STRIP = 128, PIECE = 1024, WORTH_SPLITTING = 32768, CHUNK = 16384 };

typedef struct scan {
    const tp_tile_set *set;
    tp_plan      kept;                  /* the other dims */
    tp_reduction kind;
    int          outputs;
    int          compute;               /* f64, i64 or c128 */
    int64_t      length;                /* of a line */
    int64_t      step[3];               /* strides along it: outputs, then the input */
    bool         running;               /* sums of dense f32 as dense f32 */
    int64_t      lines, along, strips, strips_per_chunk;        /* lines of a strip; strips along the inner dim, in all */
} scan;

typedef struct strip_state {
    _Alignas(64) char value[STRIP][16];        /* running values, dense in the compute type */
    int64_t index[STRIP];
} strip_state;

static tp_prim prim_of(tp_reduction kind)
{
    return kind == TP_REDUCE_sum ? TP_PRIM_add : kind == TP_REDUCE_prod ? TP_PRIM_mul
         : kind == TP_REDUCE_max || kind == TP_REDUCE_max_index ? TP_PRIM_maximum : TP_PRIM_minimum;
}

/* A later equal takes the place of an earlier one; NaN is taken once it comes, and again at each NaN. */
#define TRACK(T)                                                                                            \
    {                                                                                                       \
        T *e = (T *)(void *)x, *value = (T *)(void *)state->value;                                          \
        for (int64_t i = 0; i < positions * lines; i++) {                                                   \
            int64_t line = lines == 1 ? 0 : i % lines;                                                      \
            T v = e[i], old = value[line];                                                                  \
            bool take = (first && i < lines) || v != v || (old == old && (largest ? v >= old : v <= old));  \
            value[line] = take ? v : old;                                                                   \
            state->index[line] = take ? position + i / lines : state->index[line];                          \
            e[i] = value[line];                                                                             \
            index[i] = state->index[line];                                                                  \
        }                                                                                                   \
    }

static void track(const scan *s, strip_state *state, char *x, int64_t *index, int64_t position, int64_t positions,
                  int64_t lines)
{
    bool largest = s->kind == TP_REDUCE_max_index, first = position == 0;
    if (s->compute == TP_COMPUTE_f64)
        TRACK(double)
    else
        TRACK(int64_t)
}

/* positions x lines elements, in place. */
static void advance(const scan *s, strip_state *state, char *x, int64_t position, int64_t positions, int64_t lines)
{
    tp_tile_fn *step = s->set->step[s->compute][prim_of(s->kind)][TP_FORM_VECTORS];
    int64_t bytes = tp_compute_bytes(s->compute) * lines;
    char *running = (char *)state->value;
    int64_t i = 0;
    if (position == 0)
        memcpy(running, x, (size_t)bytes), i = 1;
    if (lines == 1 && s->compute == TP_COMPUTE_f64 && s->kind == TP_REDUCE_sum) {       /* without a call each */
        double *e = (double *)(void *)x, sum = *(double *)(void *)running;
        for (; i < positions; i++)
            e[i] = sum += e[i];
        *(double *)(void *)running = sum;
        return;
    }
    for (; i < positions; i++) {
        step(lines, running, running, x + i * bytes, NULL);
        memcpy(x + i * bytes, running, (size_t)bytes);
    }
}

static void store(const scan *s, int output, char *at, const char *from, int compute, int64_t n, int64_t stride)
{
    _Alignas(64) char converted[PIECE * 16];
    tp_dtype dtype = (tp_dtype)s->kept.dtype[output];
    int64_t size = (int64_t)tp_dtype_bytes(dtype);
    tp_patch patch = { 1, n, 0, stride };
    bool dense = stride == size;
    s->set->store[compute][dtype](n, dense ? at : converted, from);
    if (!dense)
        tp_patch_move(s->set, (size_t)size, at, &patch, converted, 0, size);
}

static void run_strip(const scan *s, char *const *base, int64_t lines)
{
    _Alignas(64) char gathered[PIECE * 16], x[PIECE * 16];
    _Alignas(64) int64_t index[PIECE];
    strip_state state;
    int inner = s->kept.ndim - 1, input = s->outputs;
    tp_dtype dtype = (tp_dtype)s->kept.dtype[input];
    int64_t size = (int64_t)tp_dtype_bytes(dtype), most = lines == 1 ? PIECE : 1;
    if (lines == 1 && s->running) {
        s->set->running_f32(s->length, (const float *)(void *)base[input], (float *)(void *)base[0]);
        return;
    }
    for (int64_t position = 0; position < s->length; position += most) {
        int64_t positions = s->length - position < most ? s->length - position : most, n = positions * lines;
        const char *from = base[input] + position * s->step[input];
        int64_t stride = lines == 1 ? s->step[input] : s->kept.stride[input][inner];
        tp_patch dense = { 1, n, 0, size };
        if (stride != size)
            tp_patch_move(s->set, (size_t)size, gathered, &dense, from, 0, stride);
        s->set->load[dtype][s->compute](n, x, stride == size ? from : gathered);
        if (s->outputs == 2)
            track(s, &state, x, index, position, positions, lines);
        else
            advance(s, &state, x, position, positions, lines);
        for (int k = 0; k < s->outputs; k++)
            store(s, k, base[k] + position * s->step[k], k ? (const char *)index : x, k ? TP_COMPUTE_i64 : s->compute, n,
                  lines == 1 ? s->step[k] : s->kept.stride[k][inner]);
    }
}

static void run_chunk(void *work, int64_t chunk, int64_t count)
{
    (void)count;
    const scan *s = work;
    int inner = s->kept.ndim - 1;
    int64_t end = (chunk + 1) * s->strips_per_chunk;
    for (int64_t strip = chunk * s->strips_per_chunk; strip < end && strip < s->strips; strip++) {
        char *base[TP_TILE_OPERANDS];
        int64_t first = strip % s->along * s->lines, left = s->kept.size[inner] - first;
        for (int k = 0; k < s->kept.operands; k++)
            base[k] = s->kept.data[k] + first * s->kept.stride[k][inner];
        tp_plan_seek(&s->kept, 0, inner, strip / s->along, base);
        run_strip(s, base, left < s->lines ? left : s->lines);
    }
}

void tp_tile_scan(tp_reduction r, int dim, const tp_tile_loop *loop)
{
    scan s = { .set = tp_the_runtime.tile, .kind = r, .length = loop->ndim ? loop->size[dim] : 1 };
    s.outputs = r == TP_REDUCE_max_index || r == TP_REDUCE_min_index ? 2 : 1;
    s.compute = loop->compute == TP_COMPUTE_i32 || loop->compute == TP_COMPUTE_i64     ? TP_COMPUTE_i64
                : loop->compute == TP_COMPUTE_c64 || loop->compute == TP_COMPUTE_c128 ? TP_COMPUTE_c128
                                                                                      : TP_COMPUTE_f64;
    tp_plan_init(&s.kept, loop, s.outputs + 1, loop->ndim ? ~(UINT64_C(1) << dim) : UINT64_MAX);
    if (s.kept.elements == 0 || s.length == 0)
        return;
    tp_plan_sort(&s.kept);
    tp_plan_coalesce(&s.kept);
    for (int k = 0; k <= s.outputs; k++)
        s.step[k] = loop->ndim ? loop->operand[k].stride[dim] : 0;
    int inner = s.kept.ndim - 1;
    int64_t size = (int64_t)tp_dtype_bytes((tp_dtype)s.kept.dtype[s.outputs]);
    bool dense = s.step[s.outputs] == size || s.kept.size[inner] == 1;
    s.lines = dense && s.length > 16 ? 1 : s.kept.size[inner] < STRIP ? s.kept.size[inner] : STRIP;
    s.along = (s.kept.size[inner] + s.lines - 1) / s.lines;
    s.strips = s.along * (s.kept.elements / s.kept.size[inner]);
    s.running = r == TP_REDUCE_sum && s.kept.dtype[0] == TP_f32 && s.kept.dtype[1] == TP_f32 && s.step[0] == size && s.step[1] == size;
    int64_t chunks = s.kept.elements * s.length < WORTH_SPLITTING ? 1 : s.kept.elements * s.length / CHUNK;
    s.strips_per_chunk = (s.strips + chunks - 1) / chunks;
    tp_pool_run((s.strips + s.strips_per_chunk - 1) / s.strips_per_chunk, run_chunk, &s);
}
