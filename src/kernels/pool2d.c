/* pool2d.c - max pooling.
 *
 * A strip of outputs is held in lanes (pool2d_lanes.h): neighbours of an output row, or channels of one output where channels
 * lie last. Taps are visited in order and each lane keeps its best value and how far from the window's beginning it lies in the
 * plane; that becomes an index when the strip is written. */
#include "kernels/pool2d.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/runtime.h"
#include "kernels/conv_grid.h"
#include "kernels/each.h"
#include "kernels/element.h"
#include "kernels/pool2d_lanes.h"

enum { CHUNK = 32 << 10, WHOLE = 64 };

typedef struct pooling {
    tp_dtype dtype;
    const tp_maxpool *p;
    const tp_conv_view *x, *y, *index;
    bool     across;            /* lanes are channels */
    const tp_pool_lanes *lanes;
    int64_t  offset[WHOLE], reach[WHOLE];       /* of the taps of a whole window; whole is 0 when there are more */
    int64_t  whole;
    int64_t  rows_a_chunk;      /* output rows */
} pooling;

/* ---- strips ---- */

/* Lanes of any type: values and distances as wide as eight bytes. */
typedef struct strip {
    _Alignas(64) char best[TP_POOL_STRIP * 8], from[TP_POOL_STRIP * 8];
} strip;

static void strip_write(tp_dtype d, const strip *s, int64_t n, char *to, int64_t step)
{
    int64_t bytes = (int64_t)tp_dtype_bytes(d);
    const float *halves = (const float *)(const void *)s->best;
    if (d == TP_f16 || d == TP_bf16)
        for (int64_t j = 0; j < n; j++)
            ((uint16_t *)to)[j * step] = d == TP_f16 ? tp_float_to_half(halves[j]) : tp_float_to_bfloat(halves[j]);
    else
        tp_move_elements((size_t)bytes, n, to, step * bytes, s->best, bytes);
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

/* How far in the plane tap t lies from where the window begins. */
static int64_t reach_of(const tp_maxpool *p, const int64_t t[3])
{
    return (t[0] * p->dilation[0] * p->in_size[1] + t[1] * p->dilation[1]) * p->in_size[2] + t[2] * p->dilation[2];
}

/* The outputs of o[0], o[1] from column o[2] on that land inside through tap t of the last dim: first and end, counted
 * from o[2]. */
static void columns_inside(const tp_maxpool *p, int64_t column, int64_t n, int64_t t, int64_t *first, int64_t *end)
{
    int64_t start = coordinate(p, 2, column, t), s = p->stride[2];
    *first = least(start >= 0 ? 0 : (-start + s - 1) / s, n);
    *end = p->in_size[2] > start ? least((p->in_size[2] - start + s - 1) / s, n) : 0;
}

/* A lane begins at the first tap that lands inside: for outputs of a row that differs at the border. */
static void start_strip(const pooling *g, const int64_t o[3], int64_t n, const int64_t first[3], strip *s)
{
    int64_t width = g->lanes->wide ? 8 : 4, t[3] = { first[0], first[1], g->across ? first[2] : 0 };
    g->lanes->start(n, reach_of(g->p, t), s->best, s->from);
    for (int64_t j = 0; !g->across && j < n && taps_inside(g->p, 2, o[2] + j, &t[2]) >= 0 && t[2] > 0; j++)
        if (width == 8)
            ((int64_t *)(void *)s->from)[j] = reach_of(g->p, t);
        else
            ((int32_t *)(void *)s->from)[j] = (int32_t)reach_of(g->p, t);
}

/* The taps of a strip that land inside in each dim; the last dim's are asked for each lane, unless lanes are channels. */
typedef struct taps {
    int64_t first[3], count[3];
} taps;

/* Where tap t of output o lies, from the image or channel on. */
static int64_t place_of(const pooling *g, const int64_t o[3], const int64_t t[3])
{
    int64_t at = 0;
    for (int d = 0; d < 3; d++)
        at += coordinate(g->p, d, o[d], t[d]) * g->x->space[d];
    return at;
}

/* All n lanes see every tap that lands inside, one after another; they begin at lane `low` of the strip. */
static void pool_lanes(const pooling *g, const char *x, const int64_t o[3], const taps *k, int64_t low, int64_t n, strip *s)
{
    const tp_maxpool *p = g->p;
    int64_t bytes = (int64_t)tp_dtype_bytes(g->dtype), width = g->lanes->wide ? 8 : 4, t[3];
    int64_t held = tp_dtype_is_half(g->dtype) ? 4 : bytes, step = g->across ? g->x->channel : p->stride[2] * g->x->space[2];
    for (t[0] = k->first[0]; t[0] < k->first[0] + k->count[0]; t[0]++)
        for (t[1] = k->first[1]; t[1] < k->first[1] + k->count[1]; t[1]++)
            for (t[2] = k->first[2]; t[2] < k->first[2] + k->count[2]; t[2]++) {
                int64_t from = 0, end = n;
                if (!g->across && n > 1)
                    columns_inside(p, o[2], n, t[2], &from, &end);
                if (from < end)
                    g->lanes->tap(end - from, x + (place_of(g, o, t) + from * step) * bytes, step, reach_of(p, t),
                                  s->best + (low + from) * held, s->from + (low + from) * width);
            }
}

/* Outputs low … high of a row, one by one: those at the border, where windows are cut. */
static void pool_border(const pooling *g, const char *x, const int64_t o[3], taps k, int64_t low, int64_t high, strip *s)
{
    for (int64_t j = low; j < high; j++) {
        int64_t at[3] = { o[0], o[1], o[2] + j };
        k.count[2] = taps_inside(g->p, 2, at[2], &k.first[2]);
        pool_lanes(g, x, at, &k, j, 1, s);
    }
}

/* One strip: n outputs along a row from o on, or n channels of output o. `x` is at the image, or at the channel. Outputs of
 * a row whose windows are whole are done in one go, where the set has a function for it. */
static void pool_strip(const pooling *g, const char *x, const int64_t o[3], int64_t n, strip *s)
{
    const tp_maxpool *p = g->p;
    int64_t low = 0, high = n, other, step = p->stride[2] * g->x->space[2];
    taps k;
    for (int d = 0; d < 3; d++)
        k.count[d] = taps_inside(p, d, o[d], &k.first[d]);
    start_strip(g, o, n, k.first, s);
    if (g->across || n == 1) {          /* every lane sees the same taps */
        pool_lanes(g, x, o, &k, 0, n, s);
        return;
    }
    columns_inside(p, o[2], n, 0, &low, &other);
    columns_inside(p, o[2], n, p->kernel[2] - 1, &other, &high);
    if (g->whole && high - low >= TP_POOL_VECTOR && k.count[0] == p->kernel[0] && k.count[1] == p->kernel[1]) {
        int64_t at = place_of(g, o, (int64_t[]){ 0, 0, 0 }) + low * step;
        g->lanes->windows(high - low, g->whole, x + at * (int64_t)tp_dtype_bytes(g->dtype), step, g->offset, g->reach,
                          (float *)(void *)s->best + low, (int32_t *)(void *)s->from + low);
        pool_border(g, x, o, k, 0, low, s);
        pool_border(g, x, o, k, high, n, s);
        return;
    }
    k.first[2] = 0;
    k.count[2] = p->kernel[2];
    pool_lanes(g, x, o, &k, 0, n, s);
}

static void write_strip(const pooling *g, int64_t image, int64_t channel, const int64_t o[3], int64_t n, const strip *s)
{
    int64_t bytes = (int64_t)tp_dtype_bytes(g->dtype), begin = 0, place[TP_POOL_STRIP];
    const tp_conv_view *y = g->y, *v = g->index;
    int64_t at = image * y->outer + channel * y->channel + o[0] * y->space[0] + o[1] * y->space[1] + o[2] * y->space[2];
    strip_write(g->dtype, s, n, (char *)y->data + at * bytes, g->across ? y->channel : y->space[2]);
    if (!v)
        return;
    at = image * v->outer + channel * v->channel + o[0] * v->space[0] + o[1] * v->space[1] + o[2] * v->space[2];
    int64_t *to = (int64_t *)v->data + at, step = g->across ? v->channel : v->space[2];
    for (int d = 0; d < 3; d++)
        begin = begin * g->p->in_size[d] + coordinate(g->p, d, o[d], 0);
    g->lanes->places(n, s->from, begin, g->across ? 0 : g->p->stride[2], step == 1 ? to : place);
    for (int64_t j = 0; step != 1 && j < n; j++)
        to[j * step] = place[j];
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
        for (int64_t lane = 0; lane < lanes; lane += TP_POOL_STRIP) {
            int64_t n = least(TP_POOL_STRIP, lanes - lane), c = g->across ? lane : channel;
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

/* The taps of a whole window of f32, in order; only steps of one or two have functions. */
static void plan_whole(pooling *g)
{
    const tp_maxpool *p = g->p;
    int64_t step = p->stride[2] * g->x->space[2], count = p->kernel[0] * p->kernel[1] * p->kernel[2], t[3];
    if (g->across || !g->lanes->windows || count > WHOLE || step < 1 || step > 2)
        return;
    for (t[0] = 0; t[0] < p->kernel[0]; t[0]++)
        for (t[1] = 0; t[1] < p->kernel[1]; t[1]++)
            for (t[2] = 0; t[2] < p->kernel[2]; t[2]++) {
                g->offset[g->whole] = t[0] * p->dilation[0] * g->x->space[0] + t[1] * p->dilation[1] * g->x->space[1] +
                                      t[2] * p->dilation[2] * g->x->space[2];
                g->reach[g->whole++] = reach_of(p, t);
            }
}

bool tp_maxpool_forward(tp_dtype d, const tp_maxpool *p, const tp_conv_view *x, const tp_conv_view *y,
                        const tp_conv_view *index)
{
    if (d == TP_b8 || tp_dtype_is_complex(d))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"max_pool2d\" not implemented for '%s'", tp_dtypes[d].title);
    static const tp_pool_lanes_set *const by_isa[] = { &tp_pool_lanes_plain, &tp_pool_lanes_avx2, &tp_pool_lanes_avx512 };
    const tp_pool_lanes *lanes = &(*by_isa[tp_the_runtime.instruction_set])[d];
    if (!lanes->wide && reach_of(p, (int64_t[]){ p->kernel[0], p->kernel[1], p->kernel[2] }) > INT32_MAX)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "max_pool: a window that reaches over more than 2^31 elements");
    pooling g = { .dtype = d, .lanes = lanes, .p = p, .x = x, .y = y, .index = index,
                  .across = x->channel == 1 && p->channels >= 4 && x->space[2] != 1 };
    int64_t rows = p->batch * (g.across ? 1 : p->channels) * p->out_size[0] * p->out_size[1];
    int64_t row = p->out_size[2] * (g.across ? p->channels : 1) * p->kernel[0] * p->kernel[1] * p->kernel[2];
    g.rows_a_chunk = 1 + CHUNK / (row + 1);
    plan_whole(&g);
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
