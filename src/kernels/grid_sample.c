/* grid_sample.c - images read at places that a grid gives, in two or three dims, and the gradients.
 *
 * A point of the grid becomes a short list of taps: an element of the image, its weight, and how the weight changes with the
 * point. Forward and backward are loops of channels over that list. Places are computed in f32 (f64 for f64), because their
 * last bit decides which elements are read; weights and sums are f64. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernels/dense.h"

enum { LINEAR, NEAREST, CUBIC };
enum { ZEROS, BORDER, REFLECTION };
enum { MOST_TAPS = 16 };

typedef struct sampler {
    int     dims, mode, padding;
    bool    single, corners;                /* single: f32 */
    int64_t batch, channels, pixels, points;
    int64_t in[3];                          /* of the image; unused dims are absent, not 1 */
    const void *x, *grid, *g;               /* g: gradient of the result, NULL forward */
    const void *a, *b;                      /* gradients of dx and dgrid, for second gradients; may be NULL */
    void   *y, *dx, *dgrid;                 /* may be NULL backward */
} sampler;

typedef struct tap {
    int64_t place;
    double  weight, slope[3], bend[3][3];   /* first and second derivatives by the coordinates of the image's dims */
} tap;

static double get(const sampler *s, const void *array, int64_t i)
{
    return s->single ? ((const float *)array)[i] : ((const double *)array)[i];
}

static void put(const sampler *s, void *array, int64_t i, double value)
{
    if (s->single)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

/* ---- places ---- */

static double rounded(const sampler *s, double x)
{
    return s->single ? (float)x : x;
}

/* From -1 … 1 to elements; *slope: how fast. */
static double scaled(const sampler *s, double x, int64_t size, double *slope)
{
    if (s->corners) {
        *slope = (double)(size - 1) / 2;
        return rounded(s, rounded(s, rounded(s, x + 1) / 2) * (double)(size - 1));
    }
    *slope = (double)size / 2;
    return rounded(s, rounded(s, rounded(s, rounded(s, x + 1) * (double)size) - 1) / 2);
}

/* Folds x back and forth between low and low + span. */
static double reflected(const sampler *s, double x, double low, double span, double *slope)
{
    if (span <= 0) {
        *slope = 0;
        return 0;
    }
    double sign = x < low ? -1 : 1, far = fabs(rounded(s, x - low)), rest = fmod(far, span), turns = floor(far / span);
    bool even = fmod(turns, 2) == 0;
    *slope *= even ? sign : -sign;
    return rounded(s, even ? rest + low : span - rest + low);
}

static double clipped(double x, int64_t size, double *slope)
{
    double last = (double)(size - 1);
    if (x <= 0 || x >= last)
        *slope = 0;
    return x <= 0 ? 0 : x >= last ? last : x;
}

/* What the kind of padding makes of a coordinate. What is no number lies outside. */
static double bounded(const sampler *s, double x, int64_t size, double *slope)
{
    if (s->padding == REFLECTION)
        x = s->corners ? reflected(s, x, 0, (double)(size - 1), slope) : reflected(s, x, -0.5, (double)size, slope);
    if (s->padding != ZEROS)
        x = clipped(x, size, slope);
    return isfinite(x) && fabs(x) < 2147483647.0 ? x : -100;
}

/* ---- taps ---- */

static int linear_taps(const sampler *s, const double *at, tap *t)
{
    int n = 0;
    for (int corner = 0; corner < 1 << s->dims; corner++) {
        tap one = { .weight = 1, .slope = { 1, 1, 1 }, .bend = { { 0, 1, 1 }, { 1, 0, 1 }, { 1, 1, 0 } } };
        bool inside = true;
        for (int d = 0; d < s->dims; d++) {
            bool high = corner >> (s->dims - 1 - d) & 1;
            double low = floor(at[d]), share = high ? at[d] - low : low + 1 - at[d];
            int64_t i = (int64_t)low + high;
            inside &= i >= 0 && i < s->in[d];
            one.place = one.place * s->in[d] + i;
            one.weight *= share;
            double sign = high ? 1 : -1;
            for (int k = 0; k < s->dims; k++) {
                one.slope[k] *= k != d ? share : sign;
                for (int m = 0; m < s->dims; m++)
                    one.bend[k][m] *= k == d || m == d ? sign : share;
            }
        }
        if (inside)
            t[n++] = one;
    }
    return n;
}

static int nearest_tap(const sampler *s, const double *at, tap *t)
{
    *t = (tap){ .weight = 1 };
    for (int d = 0; d < s->dims; d++) {
        double i = nearbyint(at[d]);
        if (i < 0 || i >= (double)s->in[d])
            return 0;
        t->place = t->place * s->in[d] + (int64_t)i;
    }
    return 1;
}

/* The four weights of a cubic at distance x behind its second sample, and their derivatives. */
static void cubic_weights(double x, double weight[4], double slope[4], double bend[4])
{
    static const double a = -0.75;
    for (int k = 0; k < 4; k++) {
        double d = k < 2 ? x + 1 - k : k - 1 - x, sign = k < 2 ? 1 : -1;
        bool near = k == 1 || k == 2;
        weight[k] = near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
        slope[k] = sign * (near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a);
        bend[k] = near ? 6 * (a + 2) * d - 2 * (a + 3) : 6 * a * d - 10 * a;
    }
}

/* Two dims; each sample is bounded by itself. */
static int cubic_taps(const sampler *s, const double *at, tap *t)
{
    double weight[2][4], slope[2][4], bend[2][4], ignored = 0;
    int n = 0;
    for (int d = 0; d < 2; d++)
        cubic_weights(at[d] - floor(at[d]), weight[d], slope[d], bend[d]);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int64_t y = (int64_t)bounded(s, floor(at[0]) - 1 + i, s->in[0], &ignored), x = (int64_t)bounded(s, floor(at[1]) - 1 + j, s->in[1], &ignored);
            if (y >= 0 && y < s->in[0] && x >= 0 && x < s->in[1])
                t[n++] = (tap){ y * s->in[1] + x, weight[0][i] * weight[1][j], { slope[0][i] * weight[1][j], weight[0][i] * slope[1][j] },
                                { { bend[0][i] * weight[1][j], slope[0][i] * slope[1][j] }, { slope[0][i] * slope[1][j], weight[0][i] * bend[1][j] } } };
        }
    return n;
}

/* The taps of a point; rate[d]: how dim d's coordinate follows the grid. The grid names the last dim first. */
static int taps_of(const sampler *s, int64_t point, tap *t, double rate[3])
{
    double at[3];
    for (int d = 0; d < s->dims; d++) {
        at[d] = scaled(s, get(s, s->grid, point * s->dims + s->dims - 1 - d), s->in[d], &rate[d]);
        if (s->mode != CUBIC)
            at[d] = bounded(s, at[d], s->in[d], &rate[d]);
        else if (!isfinite(at[d]))
            at[d] = -100;
    }
    return s->mode == LINEAR ? linear_taps(s, at, t) : s->mode == NEAREST ? nearest_tap(s, at, t) : cubic_taps(s, at, t);
}

/* ---- loops ---- */

static void read_point(const sampler *s, int64_t n, int64_t p)
{
    tap t[MOST_TAPS];
    double rate[3];
    int count = taps_of(s, n * s->points + p, t, rate);
    for (int64_t c = 0; c < s->channels; c++) {
        int64_t image = (n * s->channels + c) * s->pixels;
        double sum = 0;
        for (int k = 0; k < count; k++)
            sum += t[k].weight * get(s, s->x, image + t[k].place);
        put(s, s->y, (n * s->channels + c) * s->points + p, sum);
    }
}

static void spread_point(const sampler *s, int64_t n, int64_t p)
{
    tap t[MOST_TAPS];
    double rate[3], slope[3] = { 0 };
    int count = taps_of(s, n * s->points + p, t, rate);
    for (int64_t c = 0; c < s->channels; c++) {
        int64_t image = (n * s->channels + c) * s->pixels;
        double g = get(s, s->g, (n * s->channels + c) * s->points + p);
        for (int k = 0; k < count; k++) {
            if (s->dx)
                put(s, s->dx, image + t[k].place, get(s, s->dx, image + t[k].place) + t[k].weight * g);
            double x = get(s, s->x, image + t[k].place);
            for (int d = 0; d < s->dims; d++)
                slope[d] += t[k].slope[d] * x * g;
        }
    }
    for (int d = 0; s->dgrid && d < s->dims; d++)
        put(s, s->dgrid, (n * s->points + p) * s->dims + s->dims - 1 - d, s->mode == NEAREST ? 0 : slope[d] * rate[d]);
}

/* Second gradients: y is what the gradient of the result gets, dx and dgrid what image and grid get. */
static void bend_point(const sampler *s, int64_t n, int64_t p)
{
    tap t[MOST_TAPS];
    double rate[3], along[3] = { 0 }, slope[3] = { 0 };
    int64_t point = n * s->points + p;
    int count = taps_of(s, point, t, rate);
    for (int d = 0; d < s->dims; d++)
        along[d] = s->b ? rate[d] * get(s, s->b, point * s->dims + s->dims - 1 - d) : 0;
    for (int64_t c = 0; c < s->channels; c++) {
        int64_t image = (n * s->channels + c) * s->pixels, at = (n * s->channels + c) * s->points + p;
        double g = get(s, s->g, at), sum = 0;
        for (int k = 0; k < count; k++) {
            double x = get(s, s->x, image + t[k].place), a = s->a ? get(s, s->a, image + t[k].place) : 0, moved = 0;
            for (int d = 0; d < s->dims; d++) {
                moved += along[d] * t[k].slope[d];
                slope[d] += g * t[k].slope[d] * a;
                for (int e = 0; e < s->dims; e++)
                    slope[d] += g * along[e] * t[k].bend[d][e] * x;
            }
            sum += t[k].weight * a + moved * x;
            put(s, s->dx, image + t[k].place, get(s, s->dx, image + t[k].place) + g * moved);
        }
        put(s, s->y, at, sum);
    }
    for (int d = 0; d < s->dims; d++)
        put(s, s->dgrid, point * s->dims + s->dims - 1 - d, slope[d] * rate[d]);
}

static void read_chunk(void *work, int64_t index, int64_t count)
{
    const sampler *s = work;
    int64_t all = s->batch * s->points;
    for (int64_t i = tp_chunk_at(all, index, count); i < tp_chunk_at(all, index + 1, count); i++)
        read_point(s, i / s->points, i % s->points);
}

/* One image a chunk: points of the grid may share its elements. */
static void spread_chunk(void *work, int64_t index, int64_t count)
{
    const sampler *s = work;
    (void)count;
    for (int64_t p = 0; p < s->points; p++)
        (s->y ? bend_point : spread_point)(s, index, p);
}

/* interpolation_mode, padding_mode, align_corners at arg[0…] */
static sampler describe(const tp_tensor *x, const tp_tensor *grid, const tp_value *arg)
{
    sampler s = { .dims = x->ndim - 2, .mode = (int)tp_as_int(arg[0]), .padding = (int)tp_as_int(arg[1]), .corners = tp_as_bool(arg[2]),
                  .single = x->dtype != TP_f64, .batch = x->size[0], .channels = x->size[1], .pixels = 1, .points = 1 };
    s.mode = s.mode < LINEAR || s.mode > CUBIC ? LINEAR : s.mode;
    for (int d = 0; d < s.dims; d++) {
        s.pixels *= s.in[d] = x->size[d + 2];
        s.points *= grid->size[d + 1];
    }
    return s;
}

/* (input, grid, interpolation_mode, padding_mode, align_corners) */
TP_HOOK_K(tp_k_grid_sampler)
{
    const tp_tensor *input = arg[0].tensor, *grid = arg[1].tensor;
    tp_dtype d = tp_row_dtype((tp_dtype)input->dtype);
    sampler s = describe(input, grid, arg + 2);
    tp_tensor *x = tp_dense(input, d), *places = x ? tp_dense(grid, d) : NULL, *y = places ? tp_dense_out(out[0], d) : NULL;
    bool ok = y != NULL;
    if (ok) {
        s.x = tp_tensor_data(x);
        s.grid = tp_tensor_data(places);
        s.y = tp_tensor_data(y);
        tp_pool_run(tp_chunks_of(s.batch * s.points, 8 * s.channels), read_chunk, &s);
    }
    tp_tensor_unref(x);
    tp_tensor_unref(places);
    return tp_dense_done(y, out[0], ok);
}

/* a, b (each may be NULL), g, input, grid of a gradient; results where they are wanted. */
static bool run_backward(sampler *s, const tp_tensor *const in[5], tp_tensor *y, tp_tensor *dx, tp_tensor *dgrid)
{
    tp_dtype d = s->single ? TP_f32 : TP_f64;
    tp_tensor *dense[5] = { NULL }, *result[3] = { NULL }, *const out[3] = { y, dx, dgrid };
    bool ok = true;
    for (int i = 0; i < 5; i++)
        ok = ok && (!in[i] || (dense[i] = tp_dense(in[i], d)));
    for (int i = 0; i < 3; i++)
        ok = ok && (!out[i] || (result[i] = tp_dense_out(out[i], d)));
    if (ok) {
        const void **from[5] = { &s->a, &s->b, &s->g, &s->x, &s->grid };
        void **to[3] = { &s->y, &s->dx, &s->dgrid };
        for (int i = 0; i < 5; i++)
            *from[i] = dense[i] ? tp_tensor_data(dense[i]) : NULL;
        for (int i = 0; i < 3; i++)
            *to[i] = result[i] ? tp_tensor_data(result[i]) : NULL;
        if (dx && dx->numel)
            memset(s->dx, 0, (size_t)dx->numel * tp_dtype_bytes(d));
        tp_pool_run(s->batch, spread_chunk, s);
    }
    for (int i = 0; i < 5; i++)
        tp_tensor_unref(dense[i]);
    for (int i = 0; i < 3; i++)
        if (out[i])
            ok = tp_dense_done(result[i], out[i], ok);
    return ok;
}

/* (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask) */
TP_HOOK_K(tp_k_grid_sampler_backward)
{
    const tp_tensor *const in[5] = { NULL, NULL, arg[0].tensor, arg[1].tensor, arg[2].tensor };
    sampler s = describe(in[3], in[4], arg + 3);
    return run_backward(&s, in, NULL, out[0], out[1]);
}

/* (grad_grad_input, grad_grad_grid, grad_output, input, grid, interpolation_mode, padding_mode, align_corners) */
TP_HOOK_K(tp_k_grid_sampler_twice)
{
    const tp_tensor *const in[5] = { tp_as_tensor(arg[0]), tp_as_tensor(arg[1]), arg[2].tensor, arg[3].tensor, arg[4].tensor };
    sampler s = describe(in[3], in[4], arg + 5);
    return run_backward(&s, in, out[0], out[1], out[2]);
}

/* ---- affine maps of the grid that leaves an image as it is ---- */

/* Element i of n numbers from -1 to 1: the corners, or the middles of n equal parts. Counted from both ends, so that they
 * lie the same on both sides. */
static double even(bool single, bool corners, int64_t i, int64_t n)
{
    if (n <= 1)
        return 0;
    double step = 2.0 / (double)(n - 1), x = i < n / 2 ? -1 + step * (double)i : 1 - step * (double)(n - 1 - i);
    if (!corners)
        x = (single ? (float)x : x) * (double)(n - 1) / (double)n;
    return single ? (float)x : x;
}

/* affine_grid_generator(theta, size, align_corners): theta times (x, y, [z,] 1) for each place. */
TP_HOOK_K(tp_k_affine_grid)
{
    const tp_tensor *theta = arg[0].tensor;
    tp_dtype d = tp_row_dtype((tp_dtype)theta->dtype);
    bool single = d == TP_f32, corners = tp_as_bool(arg[2]);
    int dims = out[0]->ndim - 2;
    tp_tensor *map = tp_dense(theta, d), *grid = map ? tp_dense_out(out[0], d) : NULL;
    sampler s = { .single = single };
    for (int64_t i = 0; grid && i < grid->numel; i++) {
        int64_t point = i / dims, rest = point, row = i % dims;
        double sum = 0, base[4] = { [3] = 0 };
        for (int k = 0; k < dims; k++) {
            int64_t n = grid->size[grid->ndim - 2 - k];
            base[k] = even(single, corners, rest % n, n);
            rest /= n;
        }
        base[dims] = 1;
        for (int k = 0; k <= dims; k++)
            sum += base[k] * get(&s, tp_tensor_data(map), (rest * dims + row) * (dims + 1) + k);
        put(&s, tp_tensor_data(grid), i, sum);
    }
    tp_tensor_unref(map);
    return tp_dense_done(grid, out[0], grid != NULL);
}
