/* pool2d.c - max pooling.
 *
 * A strip of outputs is held in lanes: neighbours of an output row, or channels of one output where channels lie last.
 * Taps are visited in order and each lane keeps its best value and the number of the tap it came from, so the loop over
 * lanes has no branches; a tap number becomes an index when the strip is written. */
#include "kernels/pool2d.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "kernels/conv_grid.h"
#include "kernels/each.h"

enum { STRIP = 256, TABLE = 256, CHUNK = 32 << 10 };

typedef struct pooling {
    tp_dtype dtype;
    const tp_maxpool *p;
    const tp_conv_view *x, *y, *index;
    bool     across;            /* lanes are channels */
    int64_t  reach[TABLE];      /* of the first taps: how far in the plane from where the window begins */
    int64_t  rows_a_chunk;      /* output rows */
} pooling;

/* ---- lanes ---- */

/* lowest: what every value beats or equals. F is 1 for types with NaN. */
#define LANES(name, type, tap, lowest, F)                                                                           \
    static inline __attribute__((always_inline)) void take_##name(int64_t n, const type *x, int64_t step,           \
                                                                  tap number, type *restrict best,                  \
                                                                  tap *restrict from)                               \
    {                                                                                                               \
        for (int64_t j = 0; j < n; j++) {                                                                           \
            type v = x[j * step], old = best[j];                                                                    \
            tap other = from[j];                                                                                    \
            bool take = (v > old) | (F && v != v);                                                                  \
            best[j] = take ? v : old;                                                                               \
            from[j] = take ? number : other;                                                                        \
        }                                                                                                           \
    }                                                                                                               \
    static void tap_##name(int64_t n, const type *x, int64_t step, tap number, type *best, tap *from)               \
    {                                                                                                               \
        if (step == 1)                                                                                              \
            take_##name(n, x, 1, number, best, from);                                                               \
        else if (step == 2)                                                                                         \
            take_##name(n, x, 2, number, best, from);                                                               \
        else                                                                                                        \
            take_##name(n, x, step, number, best, from);                                                            \
    }                                                                                                               \
    static void start_##name(int64_t n, type *best, tap *from)                                                      \
    {                                                                                                               \
        for (int64_t j = 0; j < n; j++) {                                                                           \
            best[j] = lowest;                                                                                       \
            from[j] = -1;                                                                                           \
        }                                                                                                           \
    }
LANES(f32, float, int32_t, -INFINITY, 1)
LANES(f64, double, int64_t, -INFINITY, 1)
LANES(u8, uint8_t, int32_t, 0, 0)
LANES(i8, int8_t, int32_t, INT8_MIN, 0)
LANES(i16, int16_t, int32_t, INT16_MIN, 0)
LANES(i32, int32_t, int32_t, INT32_MIN, 0)
LANES(i64, int64_t, int64_t, INT64_MIN, 0)

/* Halves are compared as f32. */
#define HALF_LANES(name, widen)                                                                                     \
    static void tap_##name(int64_t n, const uint16_t *x, int64_t step, int32_t number, float *best, int32_t *from)  \
    {                                                                                                               \
        float wide[STRIP];                                                                                          \
        for (int64_t j = 0; j < n; j++)                                                                             \
            wide[j] = widen(x[j * step]);                                                                           \
        tap_f32(n, wide, 1, number, best, from);                                                                    \
    }
HALF_LANES(f16, tp_half_to_float)
HALF_LANES(bf16, tp_bfloat_to_float)

/* Lanes of any type: values as wide as eight bytes, tap numbers as wide as the type likes. */
typedef struct strip {
    union { float f32[STRIP]; double f64[STRIP]; uint8_t u8[STRIP]; int8_t i8[STRIP]; int16_t i16[STRIP];
            int32_t i32[STRIP]; int64_t i64[STRIP]; } best;
    union { int32_t narrow[STRIP]; int64_t wide[STRIP]; } from;
} strip;

static void strip_start(tp_dtype d, strip *s, int64_t n)
{
    switch (d) {
    case TP_f32: case TP_f16: case TP_bf16: start_f32(n, s->best.f32, s->from.narrow); break;
    case TP_f64: start_f64(n, s->best.f64, s->from.wide); break;
    case TP_u8: start_u8(n, s->best.u8, s->from.narrow); break;
    case TP_i8: start_i8(n, s->best.i8, s->from.narrow); break;
    case TP_i16: start_i16(n, s->best.i16, s->from.narrow); break;
    case TP_i32: start_i32(n, s->best.i32, s->from.narrow); break;
    default: start_i64(n, s->best.i64, s->from.wide); break;
    }
}

/* n lanes from lane `at` on see element x, x + step … through tap `number`. */
static void strip_tap(tp_dtype d, strip *s, int64_t at, int64_t n, const void *x, int64_t step, int64_t number)
{
    int32_t small = (int32_t)number;
    switch (d) {
    case TP_f32: tap_f32(n, x, step, small, s->best.f32 + at, s->from.narrow + at); break;
    case TP_f16: tap_f16(n, x, step, small, s->best.f32 + at, s->from.narrow + at); break;
    case TP_bf16: tap_bf16(n, x, step, small, s->best.f32 + at, s->from.narrow + at); break;
    case TP_f64: tap_f64(n, x, step, number, s->best.f64 + at, s->from.wide + at); break;
    case TP_u8: tap_u8(n, x, step, small, s->best.u8 + at, s->from.narrow + at); break;
    case TP_i8: tap_i8(n, x, step, small, s->best.i8 + at, s->from.narrow + at); break;
    case TP_i16: tap_i16(n, x, step, small, s->best.i16 + at, s->from.narrow + at); break;
    case TP_i32: tap_i32(n, x, step, small, s->best.i32 + at, s->from.narrow + at); break;
    default: tap_i64(n, x, step, number, s->best.i64 + at, s->from.wide + at); break;
    }
}

static void strip_write(tp_dtype d, const strip *s, int64_t n, char *to, int64_t step)
{
    int64_t bytes = (int64_t)tp_dtype_bytes(d);
    if (d == TP_f16 || d == TP_bf16)
        for (int64_t j = 0; j < n; j++)
            ((uint16_t *)to)[j * step] = d == TP_f16 ? tp_float_to_half(s->best.f32[j])
                                                     : tp_float_to_bfloat(s->best.f32[j]);
    else if (step == 1)
        memcpy(to, &s->best, (size_t)(n * bytes));
    else
        for (int64_t j = 0; j < n; j++)
            memcpy(to + j * step * bytes, (const char *)&s->best + j * bytes, (size_t)bytes);
}

/* ---- windows ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The first tap of dim d that lands inside for output o, and how many do. */
static int64_t taps_inside(const tp_maxpool *p, int d, int64_t o, int64_t *first)
{
    int64_t start = o * p->stride[d] - p->padding[d];
    *first = start >= 0 ? 0 : (-start + p->dilation[d] - 1) / p->dilation[d];
    int64_t end = p->in_size[d] > start ? (p->in_size[d] - start + p->dilation[d] - 1) / p->dilation[d] : 0;
    return least(end, p->kernel[d]) - *first;
}

static int64_t coordinate(const tp_maxpool *p, int d, int64_t o, int64_t t)
{
    return o * p->stride[d] - p->padding[d] + t * p->dilation[d];
}

/* The place in the plane that output o[…] sees through tap `number`; -1: its first tap inside. */
static int64_t index_of(const tp_maxpool *p, const int64_t o[3], int64_t number)
{
    int64_t place = 0, t[3] = { number / (p->kernel[1] * p->kernel[2]), number / p->kernel[2] % p->kernel[1],
                                number % p->kernel[2] };
    for (int d = 0; d < 3; d++) {
        if (number < 0)
            taps_inside(p, d, o[d], &t[d]);
        place = place * p->in_size[d] + coordinate(p, d, o[d], t[d]);
    }
    return place;
}

/* The outputs of o[0], o[1] from column o[2] on that land inside through tap t of the last dim: first and end, counted
 * from o[2]. */
static void columns_inside(const tp_maxpool *p, int64_t column, int64_t n, int64_t t, int64_t *first, int64_t *end)
{
    int64_t start = coordinate(p, 2, column, t), s = p->stride[2];
    *first = least(start >= 0 ? 0 : (-start + s - 1) / s, n);
    *end = p->in_size[2] > start ? least((p->in_size[2] - start + s - 1) / s, n) : 0;
}

/* One strip: n outputs along a row from o on, or n channels of output o. `x` is at the image, or at the channel. */
static void pool_strip(const pooling *g, const char *x, const int64_t o[3], int64_t n, strip *s)
{
    const tp_maxpool *p = g->p;
    int64_t bytes = (int64_t)tp_dtype_bytes(g->dtype), first[3], count[3];
    for (int d = 0; d < 3; d++)
        count[d] = taps_inside(p, d, o[d], &first[d]);
    if (!g->across)
        first[2] = 0, count[2] = p->kernel[2];
    strip_start(g->dtype, s, n);
    for (int64_t i = first[0]; i < first[0] + count[0]; i++)
        for (int64_t j = first[1]; j < first[1] + count[1]; j++)
            for (int64_t q = first[2]; q < first[2] + count[2]; q++) {
                int64_t from = 0, end = n, number = (i * p->kernel[1] + j) * p->kernel[2] + q;
                int64_t step = g->across ? g->x->channel : p->stride[2] * g->x->space[2];
                if (!g->across)
                    columns_inside(p, o[2], n, q, &from, &end);
                int64_t at = coordinate(p, 0, o[0], i) * g->x->space[0] + coordinate(p, 1, o[1], j) * g->x->space[1] +
                             coordinate(p, 2, o[2], q) * g->x->space[2] + from * step;
                if (from < end)
                    strip_tap(g->dtype, s, from, end - from, x + at * bytes, step, number);
            }
}

static void write_strip(const pooling *g, int64_t image, int64_t channel, const int64_t o[3], int64_t n, const strip *s)
{
    int64_t bytes = (int64_t)tp_dtype_bytes(g->dtype), where[3] = { o[0], o[1], o[2] };
    const tp_conv_view *y = g->y, *v = g->index;
    int64_t at = image * y->outer + channel * y->channel + o[0] * y->space[0] + o[1] * y->space[1] + o[2] * y->space[2];
    strip_write(g->dtype, s, n, (char *)y->data + at * bytes, g->across ? y->channel : y->space[2]);
    if (!v)
        return;
    at = image * v->outer + channel * v->channel + o[0] * v->space[0] + o[1] * v->space[1] + o[2] * v->space[2];
    int64_t *to = (int64_t *)v->data + at, step = g->across ? v->channel : v->space[2], begin = 0;
    bool wide = g->dtype == TP_f64 || g->dtype == TP_i64;
    for (int d = 0; d < 3; d++)
        begin = begin * g->p->in_size[d] + coordinate(g->p, d, o[d], 0);
    for (int64_t j = 0; j < n; j++, to += step) {
        int64_t number = wide ? s->from.wide[j] : s->from.narrow[j];
        *to = (uint64_t)number < TABLE ? begin + g->reach[number] : index_of(g->p, where, number);
        where[2] += !g->across;
        begin += g->across ? 0 : g->p->stride[2];
    }
}

/* One row of outputs: of one channel, or of all of them. */
static void pool_row(const pooling *g, int64_t row)
{
    const tp_maxpool *p = g->p;
    int64_t bytes = (int64_t)tp_dtype_bytes(g->dtype), planes = g->across ? p->batch : p->batch * p->channels;
    int64_t plane = row / (p->out_size[0] * p->out_size[1]) % planes;
    int64_t image = g->across ? plane : plane / p->channels, channel = g->across ? 0 : plane % p->channels;
    int64_t o[3] = { row / p->out_size[1] % p->out_size[0], row % p->out_size[1], 0 };
    int64_t lanes = g->across ? p->channels : p->out_size[2], outer = g->across ? p->out_size[2] : 1;
    strip s;
    for (int64_t column = 0; column < outer; column++)
        for (int64_t lane = 0; lane < lanes; lane += STRIP) {
            int64_t n = least(STRIP, lanes - lane), c = g->across ? lane : channel;
            o[2] = g->across ? column : lane;
            pool_strip(g, (const char *)g->x->data + (image * g->x->outer + c * g->x->channel) * bytes, o, n, &s);
            write_strip(g, image, c, o, n, &s);
        }
}

static void pool_chunk(void *work, int64_t index, int64_t count)
{
    const pooling *g = work;
    const tp_maxpool *p = g->p;
    int64_t rows = p->batch * (g->across ? 1 : p->channels) * p->out_size[0] * p->out_size[1];
    (void)count;
    for (int64_t r = index * g->rows_a_chunk; r < least((index + 1) * g->rows_a_chunk, rows); r++)
        pool_row(g, r);
}

bool tp_maxpool_forward(tp_dtype d, const tp_maxpool *p, const tp_conv_view *x, const tp_conv_view *y,
                        const tp_conv_view *index)
{
    if (d == TP_b8 || tp_dtype_is_complex(d))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"max_pool2d\" not implemented for '%s'", tp_dtypes[d].title);
    pooling g = { .dtype = d, .p = p, .x = x, .y = y, .index = index,
                  .across = x->channel == 1 && p->channels >= 4 && x->space[2] != 1 };
    int64_t rows = p->batch * (g.across ? 1 : p->channels) * p->out_size[0] * p->out_size[1];
    int64_t row = p->out_size[2] * (g.across ? p->channels : 1) * p->kernel[0] * p->kernel[1] * p->kernel[2];
    g.rows_a_chunk = 1 + CHUNK / (row + 1);
    for (int64_t t = 0; t < least(TABLE, p->kernel[0] * p->kernel[1] * p->kernel[2]); t++)
        g.reach[t] = (t / (p->kernel[1] * p->kernel[2]) * p->dilation[0] * p->in_size[1] +
                      t / p->kernel[2] % p->kernel[1] * p->dilation[1]) * p->in_size[2] +
                     t % p->kernel[2] * p->dilation[2];
    tp_pool_run((rows + g.rows_a_chunk - 1) / g.rows_a_chunk, pool_chunk, &g);
    return true;
}

/* ---- gradient ---- */

typedef struct spreading {
    tp_dtype dtype;
    const tp_maxpool *p;
    const tp_conv_view *grad_y, *index, *grad_x;
} spreading;

static char *at(const tp_conv_view *v, int64_t n, int64_t c, int64_t i, int64_t j, int64_t q, size_t bytes)
{
    return (char *)v->data + (n * v->outer + c * v->channel + i * v->space[0] + j * v->space[1] + q * v->space[2]) *
                                 (int64_t)bytes;
}

/* Halves and integers are rounded at each addition, as PyTorch does. */
static void add_element(tp_dtype d, void *to, const void *from)
{
    switch (d) {
    case TP_f32: *(float *)to += *(const float *)from; break;
    case TP_f64: *(double *)to += *(const double *)from; break;
    default: {
        tp_scalar a = tp_scalar_read(to, d), b = tp_scalar_read(from, d);
        tp_scalar_write(tp_dtype_is_float(d) ? tp_scalar_float(a.f + b.f)
                                             : tp_scalar_int((int64_t)((uint64_t)a.i + (uint64_t)b.i)), to, d);
    }
    }
}

/* Channels of a block: neighbours where they lie last, so that memory is walked in its own order. */
enum { BLOCK = 32 };

static int64_t block_of(const tp_conv_view *grad_x)
{
    return grad_x->channel == 1 ? BLOCK : 1;
}

static void clear_block(const spreading *s, int64_t n, int64_t c, int64_t channels, int64_t step)
{
    const int64_t *in = s->p->in_size;
    size_t bytes = tp_dtype_bytes(s->dtype);
    if (step == 1 && channels == 1)
        memset(at(s->grad_x, n, c, 0, 0, 0, bytes), 0, (size_t)(in[0] * in[1] * in[2]) * bytes);
    else        /* channels are neighbours, or one */
        for (int64_t i = 0; i < in[0]; i++)
            for (int64_t j = 0; j < in[1]; j++)
                for (int64_t q = 0; q < in[2]; q++)
                    memset(at(s->grad_x, n, c, i, j, q, bytes), 0, (size_t)channels * bytes);
}

/* A row of outputs of `channels` channels; false: an index is no place of the plane. Inlined for the common cases. */
static inline __attribute__((always_inline)) bool spread_row(const spreading *s, bool single, char *x, int64_t step,
                                                             const char *y, const int64_t *index, int64_t channels)
{
    const int64_t in1 = s->p->in_size[1], in2 = s->p->in_size[2], pixels = s->p->in_size[0] * in1 * in2;
    const int64_t *space = s->grad_x->space, bytes = single ? 4 : (int64_t)tp_dtype_bytes(s->dtype);
    const int64_t x_channel = s->grad_x->channel, y_channel = s->grad_y->channel * bytes, i_channel = s->index->channel;
    const int64_t y_step = s->grad_y->space[2] * bytes, i_step = s->index->space[2], columns = s->p->out_size[2];
    bool good = true;
    for (int64_t q = 0; q < columns; q++, y += y_step, index += i_step)
        for (int64_t c = 0; c < channels; c++) {
            int64_t k = index[c * i_channel];
            if ((uint64_t)k >= (uint64_t)pixels) {
                good = false;
                continue;
            }
            k = step ? k * step : k / (in1 * in2) * space[0] + k / in2 % in1 * space[1] + k % in2 * space[2];
            if (single)
                ((float *)x)[k + c * x_channel] += *(const float *)(y + c * y_channel);
            else
                add_element(s->dtype, x + (k + c * x_channel) * bytes, y + c * y_channel);
        }
    return good;
}

static bool spread_block(void *work, int64_t item)
{
    const spreading *s = work;
    const tp_maxpool *p = s->p;
    int64_t block = block_of(s->grad_x), blocks = (p->channels + block - 1) / block, n = item / blocks;
    int64_t c = item % blocks * block, channels = least(block, p->channels - c);
    int64_t step = tp_conv_even_step(p->in_size, s->grad_x->space);
    size_t bytes = tp_dtype_bytes(s->dtype);
    char *x = at(s->grad_x, n, c, 0, 0, 0, bytes);
    bool good = true;
    clear_block(s, n, c, channels, step);
    for (int64_t i = 0; i < p->out_size[0]; i++)
        for (int64_t j = 0; j < p->out_size[1]; j++) {
            const char *y = at(s->grad_y, n, c, i, j, 0, bytes);
            const int64_t *index = (const int64_t *)at(s->index, n, c, i, j, 0, sizeof(int64_t));
            if (s->dtype == TP_f32 && channels == 1 && step == 1)
                good &= spread_row(s, true, x, 1, y, index, 1);
            else if (s->dtype == TP_f32)
                good &= spread_row(s, true, x, step, y, index, channels);
            else
                good &= spread_row(s, false, x, step, y, index, channels);
        }
    return good;
}

bool tp_maxpool_backward(tp_dtype d, const tp_maxpool *p, const tp_conv_view *grad_y, const tp_conv_view *index,
                         const tp_conv_view *grad_x)
{
    if (d == TP_b8 || tp_dtype_is_complex(d))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"max_pool2d_backward\" not implemented for '%s'", tp_dtypes[d].title);
    int64_t pixels = p->in_size[0] * p->in_size[1] * p->in_size[2];
    int64_t block = block_of(grad_x), blocks = (p->channels + block - 1) / block;
    spreading s = { d, p, grad_y, index, grad_x };
    if (!tp_each_run(p->batch * blocks, 1 + CHUNK / (pixels * block + 1), spread_block, &s))
        return tp_fail(TP_ERR_RUNTIME, "max_pool2d_with_indices_backward: an index lies outside the input plane");
    return true;
}
