/* conv_grid.c - the padded copy, the panels cut from it, and the grid of outputs. */
#include "kernels/conv_grid.h"

#include <string.h>

#include "base/block.h"
#include "base/pool.h"
#include "base/runtime.h"
#include "kernels/gemm_blocked.h"

enum {
    COPY_CHUNK = 16 << 10,      /* elements of the copy a chunk makes at least */
    SWEEP_CHUNK = 64 << 10,     /* multiply-adds of a chunk of a depthwise convolution */
    SLACK = 256,                /* bytes behind the copy: panels are cut in whole lines, which may read over its end */
};

/* ---- squares of four by four, turned ---- */

typedef uint32_t square4 __attribute__((vector_size(16)));
typedef uint32_t unaligned4 __attribute__((vector_size(16), aligned(4), may_alias));

/* to[j * width + i] = x[offset[i] + j] */
static inline void turn_square(const uint32_t *x, const int64_t offset[4], int64_t width, uint32_t *to)
{
    static const square4 low = { 0, 4, 1, 5 }, high = { 2, 6, 3, 7 };
    square4 a = *(const unaligned4 *)(x + offset[0]), b = *(const unaligned4 *)(x + offset[1]);
    square4 c = *(const unaligned4 *)(x + offset[2]), d = *(const unaligned4 *)(x + offset[3]);
    square4 ac0 = __builtin_shuffle(a, c, low), ac1 = __builtin_shuffle(a, c, high);
    square4 bd0 = __builtin_shuffle(b, d, low), bd1 = __builtin_shuffle(b, d, high);
    *(unaligned4 *)to = __builtin_shuffle(ac0, bd0, low);
    *(unaligned4 *)(to + width) = __builtin_shuffle(ac0, bd0, high);
    *(unaligned4 *)(to + 2 * width) = __builtin_shuffle(ac1, bd1, low);
    *(unaligned4 *)(to + 3 * width) = __builtin_shuffle(ac1, bd1, high);
}

/* to[j * to_step + i] = x[i * x_step + j], for i below m and j below n. */
static void turn(const void *from, int64_t x_step, int64_t m, int64_t n, void *result, int64_t to_step, size_t bytes)
{
    if (bytes == 4) {
        const uint32_t *x = from;
        uint32_t *to = result;
        int64_t i = 0, step[4] = { 0, x_step, 2 * x_step, 3 * x_step };
        for (; i + 4 <= m; i += 4) {
            int64_t j = 0;
            for (; j + 4 <= n; j += 4)
                turn_square(x + i * x_step + j, step, to_step, to + j * to_step + i);
            for (; j < n; j++)
                for (int64_t k = i; k < i + 4; k++)
                    to[j * to_step + k] = x[k * x_step + j];
        }
        for (; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                to[j * to_step + i] = x[i * x_step + j];
    } else {
        const uint64_t *x = from;
        uint64_t *to = result;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                to[j * to_step + i] = x[i * x_step + j];
    }
}

/* ---- the copy ---- */

bool tp_conv_copy_plan(tp_conv_copy *p, size_t *bytes, size_t element_bytes)
{
    size_t total;
    p->quotient = (p->size[2] + p->phases - 1) / p->phases;
    if (__builtin_mul_overflow(p->quotient, p->phases, &p->row) ||
        __builtin_mul_overflow(p->row, p->size[1], &p->plane) ||
        __builtin_mul_overflow(p->plane, p->size[0], &p->channel) ||
        __builtin_mul_overflow((size_t)p->channel, (size_t)p->channels, &total) ||
        __builtin_mul_overflow(total, element_bytes, &total) || __builtin_add_overflow(total, SLACK, bytes))
        return tp_fail_memory();
    return true;
}

typedef struct copying {
    const tp_conv_copy *plan;
    const char *data;
    const tp_conv_view *view;
    const int64_t *image;
    char   *to;
    int64_t channels_a_chunk, lines_a_chunk;
    size_t  bytes;
} copying;

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* One phase of one row: columns phase, phase + phases … of the copy; x is at the row's coordinate 0. */
#define COPY_PHASE(type)                                                                                            \
    static void copy_phase_##type(const tp_conv_copy *p, int64_t phase, const type *x, int64_t step, int64_t width, \
                                  type *to)                                                                         \
    {                                                                                                               \
        int64_t start = p->low[2] + phase;      /* coordinate of the first */                                       \
        int64_t count = clamp((p->size[2] - phase + p->phases - 1) / p->phases, 0, p->quotient);                    \
        int64_t from = start >= 0 ? 0 : (-start + p->phases - 1) / p->phases;                                       \
        int64_t end = width > start ? (width - start + p->phases - 1) / p->phases : 0;                              \
        from = clamp(from, 0, count);                                                                               \
        end = clamp(end, from, count);                                                                              \
        for (int64_t q = 0; q < from; q++)                                                                          \
            to[q] = 0;                                                                                              \
        if (step == 1 && p->phases == 1)                                                                            \
            memcpy(to + from, x + start + from, (size_t)(end - from) * sizeof(type));                               \
        else                                                                                                        \
            for (int64_t q = from; q < end; q++)                                                                    \
                to[q] = x[(start + q * p->phases) * step];                                                          \
        for (int64_t q = end; q < p->quotient; q++)                                                                 \
            to[q] = 0;                                                                                              \
    }
COPY_PHASE(uint32_t)
COPY_PHASE(uint64_t)

/* Stride 2: both phases in one pass. q counts columns of a phase; coordinate low + 2q goes to the first, the one after it
 * to the second. */
static void copy_pairs(const tp_conv_copy *p, const uint32_t *x, int64_t width, uint32_t *restrict to)
{
    static const square4 even = { 0, 2, 4, 6 }, odd = { 1, 3, 5, 7 };
    int64_t low = p->low[2], n = p->quotient, q = 0;
    for (; q < n && low + 2 * q < 0; q++) {
        to[q] = 0;
        to[n + q] = low + 2 * q + 1 >= 0 && low + 2 * q + 1 < width ? x[low + 2 * q + 1] : 0;
    }
    for (; q + 4 <= n && low + 2 * q + 8 <= width; q += 4) {
        square4 a = *(const unaligned4 *)(x + low + 2 * q), b = *(const unaligned4 *)(x + low + 2 * q + 4);
        *(unaligned4 *)(to + q) = __builtin_shuffle(a, b, even);
        *(unaligned4 *)(to + n + q) = __builtin_shuffle(a, b, odd);
    }
    for (; q < n; q++) {
        to[q] = low + 2 * q < width ? x[low + 2 * q] : 0;
        to[n + q] = low + 2 * q + 1 < width ? x[low + 2 * q + 1] : 0;
    }
}

/* A row without phases whose elements lie beside each other. Zeros of up to 16 bytes on either side are stored before what may
 * lie over them: a call for each would take longer than the copy. */
static void copy_plain_row(const copying *c, const char *x, char *to)
{
    const tp_conv_copy *p = c->plan;
    int64_t bytes = (int64_t)c->bytes, from = clamp(-p->low[2], 0, p->row), end = clamp(c->image[2] - p->low[2], from, p->row);
    int64_t left = from * bytes, n = (end - from) * bytes, right = (p->row - end) * bytes, at = 0;
    if (left <= 16 && right <= 16 && p->row * bytes >= 16) {
        memset(to, 0, 16);
        memset(to + p->row * bytes - 16, 0, 16);
    } else {
        memset(to, 0, (size_t)left);
        memset(to + left + n, 0, (size_t)right);
    }
    x += (p->low[2] + from) * bytes;
    to += left;
    for (; at + 32 <= n; at += 32)
        memcpy(to + at, x + at, 32);
    if (n >= 32)
        memcpy(to + n - 32, x + n - 32, 32);
    else if (n > 0)                     /* a gradient of no elements has no memory */
        memcpy(to, x, (size_t)n);
}

static void copy_row(const copying *c, const char *x, bool inside, char *to)
{
    const tp_conv_copy *p = c->plan;
    if (!inside) {
        memset(to, 0, (size_t)p->row * c->bytes);
        return;
    }
    if (p->phases == 1 && c->view->space[2] == 1) {
        copy_plain_row(c, x, to);
        return;
    }
    if (c->bytes == 4 && p->phases == 2 && c->view->space[2] == 1) {
        copy_pairs(p, (const uint32_t *)x, c->image[2], (uint32_t *)to);
        return;
    }
    for (int64_t phase = 0; phase < p->phases; phase++, to += p->quotient * (int64_t)c->bytes)
        if (c->bytes == 4)
            copy_phase_uint32_t(p, phase, (const uint32_t *)x, c->view->space[2], c->image[2], (uint32_t *)to);
        else
            copy_phase_uint64_t(p, phase, (const uint64_t *)x, c->view->space[2], c->image[2], (uint64_t *)to);
}

/* The same row of `channels` channels that lie beside each other, without phases: squares are turned. */
static void copy_rows_last(const copying *c, const char *x, bool inside, int64_t channels, char *to)
{
    const tp_conv_copy *p = c->plan;
    int64_t bytes = (int64_t)c->bytes, step = c->view->space[2];
    int64_t from = clamp(-p->low[2], 0, p->row), end = clamp(c->image[2] - p->low[2], from, p->row);
    if (!inside)
        from = end = p->row;
    for (int64_t i = 0; i < channels; i++) {
        memset(to + i * p->channel * bytes, 0, (size_t)(from * bytes));
        memset(to + (i * p->channel + end) * bytes, 0, (size_t)((p->row - end) * bytes));
    }
    if (from < end)
        turn(x + (p->low[2] + from) * step * bytes, step, end - from, channels, to + from * bytes, p->channel,
             c->bytes);
}

/* One row of `channels` channels, from `channel` on. */
static void copy_line(const copying *c, int64_t channel, int64_t line, int64_t channels)
{
    const tp_conv_copy *p = c->plan;
    int64_t i = line / p->size[1], j = line % p->size[1], z = p->low[0] + i, y = p->low[1] + j, bytes = (int64_t)c->bytes;
    bool inside = z >= 0 && z < c->image[0] && y >= 0 && y < c->image[1];
    int64_t from = inside ? channel * c->view->channel + z * c->view->space[0] + y * c->view->space[1] : 0;
    char *to = c->to + (channel * p->channel + i * p->plane + j * p->row) * bytes;
    if (channels > 1)
        copy_rows_last(c, c->data + from * bytes, inside, channels, to);
    else
        copy_row(c, c->data + from * bytes, inside, to);
}

static void copy_chunk(void *work, int64_t index, int64_t count)
{
    const copying *c = work;
    const tp_conv_copy *p = c->plan;
    int64_t lines = p->size[0] * p->size[1], end = clamp((index + 1) * c->lines_a_chunk, 0, p->channels * lines);
    (void)count;
    for (int64_t line = index * c->lines_a_chunk; line < end; line++)
        copy_line(c, line / lines, line % lines, 1);
}

/* Channels lie last: a line of memory holds so many of a pixel. */
static void copy_last_chunk(void *work, int64_t index, int64_t count)
{
    const copying *c = work;
    const tp_conv_copy *p = c->plan;
    int64_t first = index * c->channels_a_chunk, channels = clamp(p->channels - first, 0, c->channels_a_chunk);
    (void)count;
    for (int64_t line = 0; line < p->size[0] * p->size[1]; line++)
        copy_line(c, first, line, channels);
}

void tp_conv_copy_run(const tp_conv_copy *p, const char *image_data, const tp_conv_view *view, const int64_t image[3],
                      size_t element_bytes, void *to)
{
    int64_t lines = p->channels * p->size[0] * p->size[1], channels = (1 + COPY_CHUNK / (p->channel + 1) + 15) / 16 * 16;
    copying c = { p, image_data, view, image, to, channels, 1 + COPY_CHUNK / (p->row + 1), element_bytes };
    memset((char *)to + (size_t)(p->channel * p->channels) * element_bytes, 0, SLACK);
    if (view->channel == 1 && view->space[2] != 1 && p->phases == 1)
        tp_pool_run((p->channels + channels - 1) / channels, copy_last_chunk, &c);
    else
        tp_pool_run((lines + c.lines_a_chunk - 1) / c.lines_a_chunk, copy_chunk, &c);
}

/* ---- panels ---- */

static int64_t position(const tp_conv_grid *g, int64_t j)
{
    int64_t column = j % g->size[2], row = j / g->size[2];
    return row / g->size[1] * g->plane_step + row % g->size[1] * g->row_step + column;
}

/* Runs of a panel: outputs of one row. */
static int runs_of(const tp_conv_grid *g, int64_t j0, int columns, tp_gemm_stretch *r)
{
    int n = 0;
    r[0] = (tp_gemm_stretch){ 0 };
    for (int start = 0; start < columns; n++) {
        int64_t left = g->size[2] - (j0 + start) % g->size[2];
        r[n] = (tp_gemm_stretch){ position(g, j0 + start), start, (int)(left < columns - start ? left : columns - start) };
        start += r[n].count;
    }
    return n;
}

/* The last rows must be exact, as many as a vector of 64 bytes may reach over: behind them lies the next panel, which may be
 * another thread's. */
static void fill(const tp_conv_grid *g, int64_t k0, int64_t kc, int64_t j0, int columns, int width, int64_t element,
                 char *to)
{
    tp_gemm_stretch r[64];
    int runs = runs_of(g, j0, columns, r);
    int64_t exact = 1 + 64 / element / (width + 1), quick = kc > exact ? kc - exact : 0;
    g->kernels->cut(quick, g->copy, g->offset + k0, r, runs, width, to);
    for (int64_t p = quick; p < kc; p++)
        for (int i = 0; i < runs; i++)
            memcpy(to + (p * width + r[i].start) * element,
                   (const char *)g->copy + (g->offset[k0 + p] + r[i].position) * element, (size_t)(r[i].count * element));
}

static void fill_uint32_t(const void *source, int64_t k0, int64_t kc, int64_t j0, int columns, int width, void *panel)
{
    fill(source, k0, kc, j0, columns, width, 4, panel);
}

static void fill_uint64_t(const void *source, int64_t k0, int64_t kc, int64_t j0, int columns, int width, void *panel)
{
    fill(source, k0, kc, j0, columns, width, 8, panel);
}

/* Rows are output positions here, columns are offsets: runs lie along the rows, so squares are turned. */
static void turn_run_uint32_t(const uint32_t *x, const int64_t *offset, int64_t n, int columns, int width, uint32_t *to)
{
    int64_t q = 0;
    int j;
    for (; q + 4 <= n; q += 4, to += 4 * width) {
        for (j = 0; j + 4 <= columns; j += 4)
            turn_square(x + q, offset + j, width, to + j);
        for (; j < columns; j++)
            for (int i = 0; i < 4; i++)
                to[i * width + j] = x[offset[j] + q + i];
    }
    for (; q < n; q++, to += width)
        for (j = 0; j < columns; j++)
            to[j] = x[offset[j] + q];
}

static void turn_run_uint64_t(const uint64_t *x, const int64_t *offset, int64_t n, int columns, int width, uint64_t *to)
{
    for (int64_t q = 0; q < n; q++, to += width)
        for (int j = 0; j < columns; j++)
            to[j] = x[offset[j] + q];
}

#define FILL_TURNED(type)                                                                                           \
    static void fill_turned_##type(const void *source, int64_t k0, int64_t kc, int64_t j0, int columns, int width,  \
                                   void *panel)                                                                     \
    {                                                                                                               \
        const tp_conv_grid *g = source;                                                                             \
        for (int64_t p = 0; p < kc;) {                                                                              \
            int64_t left = g->size[2] - (k0 + p) % g->size[2], n = left < kc - p ? left : kc - p;                   \
            turn_run_##type((const type *)g->copy + position(g, k0 + p), g->offset + j0, n, columns, width,         \
                            (type *)panel + p * width);                                                             \
            p += n;                                                                                                 \
        }                                                                                                           \
    }
FILL_TURNED(uint32_t)
FILL_TURNED(uint64_t)

tp_gemm_fill *tp_conv_fill_turned(size_t element_bytes)
{
    return element_bytes == 4 ? fill_turned_uint32_t : fill_turned_uint64_t;
}

/* ---- the grid ---- */

static int64_t pixels(const tp_conv_grid *g)
{
    return g->size[0] * g->size[1] * g->size[2];
}

int64_t tp_conv_even_step(const int64_t size[3], const int64_t space[3])
{
    int64_t step = 1, expected = 0;
    bool seen = false;
    for (int d = 2; d >= 0; d--)
        if (size[d] > 1) {
            if (seen && space[d] != expected)
                return 0;
            step = seen ? step : space[d];
            expected = space[d] * size[d];
            seen = true;
        }
    return step;
}

static double element(const void *data, int64_t index, size_t bytes)
{
    return bytes == 4 ? ((const float *)data)[index] : ((const double *)data)[index];
}

static void set_element(void *data, int64_t index, size_t bytes, double x)
{
    if (bytes == 4)
        ((float *)data)[index] = (float)x;
    else
        ((double *)data)[index] = x;
}

/* Outputs of one channel without gaps, to where they belong. */
#define SCATTER(type)                                                                                               \
    static void scatter_##type(const tp_conv_grid *g, const type *from, type *to)                                   \
    {                                                                                                               \
        for (int64_t i = 0; i < g->size[0]; i++)                                                                    \
            for (int64_t j = 0; j < g->size[1]; j++) {                                                              \
                type *row = to + i * g->space[0] + j * g->space[1];                                                 \
                for (int64_t q = 0; q < g->size[2]; q++)                                                            \
                    row[q * g->space[2]] = *from++;                                                                 \
            }                                                                                                       \
    }
SCATTER(uint32_t)
SCATTER(uint64_t)

typedef struct sweeping {
    const tp_conv_grid *g;
    char   *beside;             /* rows x pixels, NULL: the outputs are written where they belong */
    int64_t rows_a_chunk;       /* output rows of the image, over all channels */
    bool    square;             /* rows are done four at a time */
} sweeping;

/* Taps three by three, where a row of outputs looks at what the one above it saw a row of taps lower? */
static bool is_square(const tp_conv_grid *g)
{
    const int64_t *o = g->offset;
    bool square = g->k == 9 && g->size[2] * (int64_t)g->element_bytes >= 64;
    for (int t = 3; square && t < 9; t++)
        square = o[t] - o[t - 3] == g->row_step;
    return square;
}

static void scatter_chunk(void *work, int64_t channel, int64_t count)
{
    const sweeping *s = work;
    const tp_conv_grid *g = s->g;
    int64_t bytes = (int64_t)g->element_bytes;
    const char *from = s->beside + channel * pixels(g) * bytes;
    char *to = (char *)g->out + channel * g->channel * bytes;
    (void)count;
    if (bytes == 4)
        scatter_uint32_t(g, (const uint32_t *)from, (uint32_t *)to);
    else
        scatter_uint64_t(g, (const uint64_t *)from, (uint64_t *)to);
}

/* Channels lie last: a row of outputs of all channels is turned at once. */
static void turn_chunk(void *work, int64_t row, int64_t count)
{
    const sweeping *s = work;
    const tp_conv_grid *g = s->g;
    int64_t bytes = (int64_t)g->element_bytes, i = row / g->size[1], j = row % g->size[1];
    (void)count;
    turn(s->beside + row * g->size[2] * bytes, pixels(g), g->rows, g->size[2],
         (char *)g->out + (i * g->space[0] + j * g->space[1]) * bytes, g->space[2], g->element_bytes);
}

static void sweep_chunk(void *work, int64_t index, int64_t count)
{
    const sweeping *s = work;
    const tp_conv_grid *g = s->g;
    int64_t bytes = (int64_t)g->element_bytes, lines = g->size[0] * g->size[1];
    int64_t end = clamp((index + 1) * s->rows_a_chunk, 0, lines * g->rows);
    (void)count;
    for (int64_t r = index * s->rows_a_chunk, done; r < end; r += done) {
        int64_t channel = r / lines, line = r % lines, i = line / g->size[1], j = line % g->size[1];
        char *to = s->beside ? s->beside + r * g->size[2] * bytes
                             : (char *)g->out + (channel * g->channel + i * g->space[0] + j * g->space[1]) * bytes;
        int64_t at = channel / g->sharing * g->copy_channel + i * g->plane_step + j * g->row_step;
        const char *from = (const char *)g->copy + at * bytes, *weight = (const char *)g->weight + channel * g->weight_row * bytes;
        double start = g->bias ? element(g->bias, channel, g->element_bytes) : 0;
        done = s->square && j + TP_SQUARE_ROWS <= g->size[1] && r + TP_SQUARE_ROWS <= end ? TP_SQUARE_ROWS : 1;
        if (done > 1)
            g->kernels->square(g->size[2], from, g->offset, g->row_step, weight, start, to, s->beside ? g->size[2] : g->space[1]);
        else
            g->kernels->taps(g->size[2], g->k, from, g->offset, weight, start, to);
    }
}

/* Short rows that nearly touch in the copy are swept as one; what falls between them is dropped. */
enum { SHORT_ROW = 40, SHORT_PLANE = 4096 };

static bool rows_join(const tp_conv_grid *g)
{
    return g->size[2] < SHORT_ROW && g->row_step * 2 <= g->size[2] * 3 && g->row_step * g->size[1] <= SHORT_PLANE;
}

static void plane_chunk(void *work, int64_t index, int64_t count)
{
    const sweeping *s = work;
    const tp_conv_grid *g = s->g;
    int64_t bytes = (int64_t)g->element_bytes, n = (g->size[1] - 1) * g->row_step + g->size[2];
    int64_t end = clamp((index + 1) * s->rows_a_chunk, 0, g->size[0] * g->rows);
    double joined[SHORT_PLANE];
    (void)count;
    for (int64_t p = index * s->rows_a_chunk; p < end; p++) {
        int64_t channel = p / g->size[0], i = p % g->size[0];
        int64_t from = channel / g->sharing * g->copy_channel + i * g->plane_step;
        g->kernels->taps(n, g->k, (const char *)g->copy + from * bytes, g->offset,
                         (const char *)g->weight + channel * g->weight_row * bytes,
                         g->bias ? element(g->bias, channel, g->element_bytes) : 0, joined);
        for (int64_t j = 0; j < g->size[1]; j++) {
            char *to = s->beside ? s->beside + (p * g->size[1] + j) * g->size[2] * bytes
                                 : (char *)g->out + (channel * g->channel + i * g->space[0] + j * g->space[1]) * bytes;
            memcpy(to, (const char *)joined + j * g->row_step * bytes, (size_t)(g->size[2] * bytes));
        }
    }
}

static void sweep_taps(const tp_conv_grid *g, char *beside)
{
    bool square = is_square(g), join = !square && rows_join(g);
    int64_t rows = g->size[0] * g->rows * (join ? 1 : g->size[1]), row = g->size[2] * (join ? g->size[1] : 1);
    sweeping s = { g, beside, 1 + SWEEP_CHUNK / (row * g->k + 1), square };
    if (square)         /* whole channels, so that rows of four are not cut */
        s.rows_a_chunk = (s.rows_a_chunk + g->size[1] - 1) / g->size[1] * g->size[1];
    tp_pool_run((rows + s.rows_a_chunk - 1) / s.rows_a_chunk, join ? plane_chunk : sweep_chunk, &s);
}

/* The bias is what C holds before the product is added. */
static void spread_bias(const tp_conv_grid *g, const tp_gemm_problem *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        double x = g->bias ? element(g->bias, i, g->element_bytes) : 0;
        for (int64_t j = 0; j < p->n; j++)
            set_element(p->c, i * p->c_row + j * p->c_column, g->element_bytes, x);
    }
}

/* Are all places one step from each other? */
static bool evenly_placed(const int64_t *place, int64_t count, int64_t *step)
{
    *step = count > 1 ? place[1] - place[0] : 1;
    for (int64_t p = 2; p < count; p++)
        if (place[p] - place[p - 1] != *step)
            return false;
    return count > 0;
}

/* Is B the copy itself? So it is for kernels of one tap. */
static bool is_plain(const tp_conv_grid *g, int64_t *step)
{
    return g->row_step == g->size[2] && (g->size[0] == 1 || g->plane_step == g->size[1] * g->row_step) &&
           evenly_placed(g->offset, g->k, step);
}

/* ---- few outputs a channel: the product turned ----
 *
 * Lanes are output channels then, and outputs are rows, of which a micro-tile wastes none: of 7 x 7 outputs a quarter of the lanes
 * would be idle. Weights are read once, in order, and turned a panel at a time, where packing would write them to memory and read
 * them again; rows of the copy are packed before. Each output is the same chain of multiply-adds either way. */
static bool is_turned(const tp_conv_grid *g, int64_t step)
{
    int64_t n = pixels(g), vector = g->kernels->columns / 2, idle = (n + vector - 1) / vector * vector - n;
    bool large = g->rows * g->k >= 256 << 10;           /* weights that do not stay in the second cache */
    return n <= TP_GEMM_PACKED_ROWS && (idle > n / 8 || large) && g->rows >= 2 * g->kernels->columns && g->k >= TP_GEMM_K &&
           !g->weight_offset && step && (step == 1 || g->channel == 1);
}

typedef struct packing {
    const tp_conv_grid *g;
    char *to;
    int64_t padded;             /* rows of A, whole panels */
} packing;

static void pack_rows_chunk(void *work, int64_t panel, int64_t count)
{
    const packing *a = work;
    const tp_conv_grid *g = a->g;
    int rows = g->kernels->rows;
    int64_t first = panel * rows, left = pixels(g) - first;
    tp_gemm_fill *fill_rows = g->element_bytes == 4 ? fill_uint32_t : fill_uint64_t;
    (void)count;
    for (int64_t k0 = 0; k0 < g->k; k0 += TP_GEMM_K) {
        int64_t kc = g->k - k0 < TP_GEMM_K ? g->k - k0 : TP_GEMM_K;
        fill_rows(g, k0, kc, first, (int)(left < rows ? left : rows), rows, a->to + (k0 * a->padded + first * kc) * (int64_t)g->element_bytes);
    }
}

static bool multiply_turned(const tp_conv_grid *g, int64_t step)
{
    int64_t n = pixels(g), rows = g->kernels->rows, padded = (n + rows - 1) / rows * rows, line = g->rows * (int64_t)g->element_bytes;
    bool last = g->channel == 1;            /* channels lie beside each other: C is out itself */
    size_t a_bytes = ((size_t)(padded * g->k) * g->element_bytes + 63) / 64 * 64, c_bytes = last ? 0 : (size_t)(n * line);
    char *scratch = tp_block_new(a_bytes + c_bytes), *c = last ? g->out : scratch + a_bytes;
    if (!scratch)
        return false;
    tp_gemm_problem p = {
        .m = n, .n = g->rows, .k = g->k, .packed_a = scratch, .b = g->weight, .b_row = 1, .b_column = g->weight_row,
        .c = c, .c_row = last ? step : g->rows, .c_column = 1, .alpha = 1, .beta = g->bias ? 1 : 0,
    };
    for (int64_t i = 0; g->bias && i < n; i++)
        memcpy(c + i * p.c_row * (int64_t)g->element_bytes, g->bias, (size_t)line);
    tp_pool_run(padded / rows, pack_rows_chunk, &(packing){ g, scratch, padded });
    bool ok = tp_gemm_solve(&p, g->kernels, g->element_bytes);
    if (ok && !last)
        turn(c, g->rows, n, g->rows, g->out, g->channel, g->element_bytes);
    tp_block_free(scratch, a_bytes + c_bytes);
    return ok;
}

static bool multiply(const tp_conv_grid *g, char *beside, int64_t step)
{
    tp_gemm_problem p = {
        .m = g->rows, .n = pixels(g), .k = g->k, .a = g->weight, .a_row = g->weight_row, .a_column = 1,
        .a_offset = g->weight_offset,
        .b_column = 1, .c = beside ? beside : g->out, .c_row = beside ? pixels(g) : g->channel,
        .c_column = beside ? 1 : step, .alpha = 1, .beta = g->bias ? 1 : 0,
        .fill = g->element_bytes == 4 ? fill_uint32_t : fill_uint64_t, .source = g,
    };
    if (is_plain(g, &p.b_row)) {
        p.fill = NULL;
        p.b = (const char *)g->copy + g->offset[0] * (int64_t)g->element_bytes;
    }
    if (p.a_offset && evenly_placed(p.a_offset, g->k, &p.a_column)) {
        p.a = (const char *)g->weight + p.a_offset[0] * (int64_t)g->element_bytes;
        p.a_offset = NULL;
    }
    if (g->bias || !g->k)
        spread_bias(g, &p);
    return !g->k || tp_gemm_solve(&p, g->kernels, g->element_bytes);
}

bool tp_conv_grid_run(const tp_conv_grid *g, bool one_channel)
{
    int64_t step = tp_conv_even_step(g->size, g->space);
    bool ok = true, direct = one_channel ? g->space[2] == 1 || g->size[2] == 1 : step && (step == 1 || g->channel != 1);
    size_t bytes = (size_t)(pixels(g) * g->rows) * g->element_bytes;
    char *beside = NULL;

    if (!pixels(g))
        return true;
    if (!one_channel && is_turned(g, step))
        return multiply_turned(g, step);
    if (!direct && !(beside = tp_block_new(bytes)))
        return false;
    if (one_channel)
        sweep_taps(g, beside);
    else
        ok = multiply(g, beside, step);
    if (ok && beside && g->channel == 1)
        tp_pool_run(g->size[0] * g->size[1], turn_chunk, &(sweeping){ g, beside, 1, false });
    else if (ok && beside)
        tp_pool_run(g->rows, scatter_chunk, &(sweeping){ g, beside, 1, false });
    tp_block_free(beside, bytes);
    return ok;
}
