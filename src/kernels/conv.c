/* conv.c - forward convolution and its gradients, in terms of the grid of conv_grid.c.
 *
 *   forward          y = w * copy(x)            positions step by the stride
 *   input gradient   the outputs h, h + s, h + 2s … see the same taps of grad_y at neighbouring positions, so each
 *                    of the s phases is a grid of its own with the taps that reach it: no multiplication with inserted zeros
 *   weight gradient  grad_y times the turned panels of copy(x), image after image: the order of the sum is fixed */
#include "kernels/conv.h"

#include <string.h>

#include "base/alloc.h"
#include "base/block.h"
#include "base/error.h"
#include "kernels/conv_grid.h"
#include "kernels/conv_half.h"
#include "kernels/each.h"
#include "kernels/gemm_blocked.h"

enum {
    SHARE_IMAGES_FROM = 4,      /* so many images: split between them, else inside */
    LANE_BYTES = 64,            /* of a sum in lanes, gemm_set.h */
};

tp_conv_view tp_conv_view_of(void *data, int64_t channels, const int64_t space[3], bool channels_last)
{
    int64_t pixels = space[0] * space[1] * space[2], step = channels_last ? channels : 1;
    return (tp_conv_view){ data, channels * pixels, channels_last ? 1 : pixels,
                           { space[1] * space[2] * step, space[2] * step, step } };
}

void tp_conv_widen(tp_conv *c, int ndim)
{
    int64_t *sizes[] = { c->in_size, c->out_size, c->kernel, c->stride, c->padding, c->dilation };
    for (size_t s = 0; s < TP_COUNT(sizes); s++) {
        for (int d = 2; d >= 3 - ndim; d--)
            sizes[s][d] = sizes[s][d - 3 + ndim];
        for (int d = 0; d < 3 - ndim; d++)
            sizes[s][d] = sizes[s] != c->padding;
    }
}

static int64_t product(const int64_t v[3])
{
    return v[0] * v[1] * v[2];
}

/* Where tap t of a weight lies from its first tap. */
static int64_t tap_place(const int64_t kernel[3], const int64_t space[3], int64_t t)
{
    return t / (kernel[1] * kernel[2]) * space[0] + t / kernel[2] % kernel[1] * space[1] + t % kernel[2] * space[2];
}

/* Rows of k weights each, gathered into memory the caller frees. */
static void *gather_rows(const tp_conv_view *w, int64_t rows, int64_t row, const int64_t *offset, int64_t k,
                         size_t bytes)
{
    char *made = tp_block_new((size_t)(rows * k) * bytes), *to = made;
    for (int64_t r = 0; made && r < rows; r++)
        for (int64_t i = 0; i < k; i++, to += bytes)
            memcpy(to, (const char *)w->data + (r * row + offset[i]) * (int64_t)bytes, bytes);
    return made;
}

/* ---- forward ---- */

typedef struct forward {
    const tp_conv *c;
    const tp_conv_view *x, *y;
    const tp_conv_view *w;
    const void   *weight;           /* w's data, or gathered rows of it */
    int64_t       weight_row, k;
    bool          weight_plain;     /* column k of the weight begins at k */
    const void   *bias;
    tp_conv_copy  copy;
    size_t        copy_bytes, bytes;
    int64_t      *offset;           /* owned: k places in the copy, then k places in a row of the weight */
    const tp_gemm_kernels *kernels;
} forward;

static const char *image_of(const tp_conv_view *v, int64_t image, int64_t channel, size_t bytes)
{
    return (const char *)v->data + (image * v->outer + channel * v->channel) * (int64_t)bytes;
}

/* The places of every channel and tap of a group, in the copy of x and in the weight. k runs as the weight lies:
 * taps of a channel together, or channels of a tap. */
static bool plan_places(forward *f)
{
    const tp_conv *c = f->c;
    int64_t channels = c->in_channels / c->groups, taps = product(c->kernel);
    bool taps_first = f->w->channel == 1 && channels > 1;
    f->k = channels * taps;
    f->weight_plain = true;
    if (!(f->offset = tp_alloc_array((size_t)f->k, 2 * sizeof *f->offset)))
        return false;
    for (int64_t t = 0; t < taps; t++) {
        int64_t w = t % c->kernel[2] * c->dilation[2], tap = tap_place(c->kernel, f->w->space, t);
        int64_t place = t / (c->kernel[1] * c->kernel[2]) * c->dilation[0] * f->copy.plane +
                        t / c->kernel[2] % c->kernel[1] * c->dilation[1] * f->copy.row +
                        w % f->copy.phases * f->copy.quotient + w / f->copy.phases;
        for (int64_t i = 0; i < channels; i++) {
            int64_t k = taps_first ? t * channels + i : i * taps + t;
            f->offset[k] = i * f->copy.channel + place;
            f->offset[f->k + k] = i * f->w->channel + tap;
            f->weight_plain = f->weight_plain && f->offset[f->k + k] == k;
        }
    }
    return true;
}

static bool plan_forward(forward *f)
{
    const tp_conv *c = f->c;
    f->copy.channels = f->copy.channels ? f->copy.channels : c->in_channels;
    f->copy.phases = c->stride[2];
    for (int d = 0; d < 3; d++) {
        f->copy.low[d] = -c->padding[d];
        f->copy.size[d] = (c->out_size[d] - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1;
    }
    f->weight = f->w->data;
    f->weight_row = f->w->outer;
    return tp_conv_copy_plan(&f->copy, &f->copy_bytes, f->bytes) && plan_places(f);
}

static tp_conv_grid forward_grid(const forward *f, int64_t image, int64_t group, const char *copy)
{
    const tp_conv *c = f->c;
    int64_t channels = c->in_channels / c->groups, rows = c->out_channels / c->groups, bytes = (int64_t)f->bytes;
    return (tp_conv_grid){
        .kernels = f->kernels, .element_bytes = f->bytes, .copy = copy + group * channels * f->copy.channel * bytes,
        .copy_channel = f->copy.channel, .sharing = rows, .offset = f->offset, .k = f->k,
        .plane_step = c->stride[0] * f->copy.plane, .row_step = c->stride[1] * f->copy.row,
        .size = { c->out_size[0], c->out_size[1], c->out_size[2] },
        .weight = (const char *)f->weight + group * rows * f->weight_row * bytes, .rows = rows,
        .weight_row = f->weight_row, .weight_offset = f->weight_plain ? NULL : f->offset + f->k,
        .bias = f->bias ? (const char *)f->bias + group * rows * bytes : NULL,
        .out = (void *)image_of(f->y, image, group * rows, f->bytes), .channel = f->y->channel,
        .space = { f->y->space[0], f->y->space[1], f->y->space[2] },
    };
}

static bool forward_image(void *work, int64_t image)
{
    const forward *f = work;
    const tp_conv *c = f->c;
    char *copy = tp_block_new(f->copy_bytes);
    bool ok = copy != NULL;
    if (ok)
        tp_conv_copy_run(&f->copy, image_of(f->x, image, 0, f->bytes), f->x, c->in_size, f->bytes, copy);
    for (int64_t group = 0; ok && group < c->groups; group++) {
        tp_conv_grid g = forward_grid(f, image, group, copy);
        ok = tp_conv_grid_run(&g, false);
    }
    tp_block_free(copy, f->copy_bytes);
    return ok;
}

/* How many channels a depthwise convolution copies at a time: the copy stays in the second cache, and where channels
 * lie last a line of memory is used whole. */
static int64_t depthwise_block(const tp_conv_view *v)
{
    return v->channel == 1 ? 16 : 4;
}

/* Depthwise: one block of groups of one image. */
static bool forward_block(void *work, int64_t item)
{
    const forward *f = work;
    const tp_conv *c = f->c;
    int64_t block = f->copy.channels, blocks = (c->groups + block - 1) / block, image = item / blocks;
    int64_t first = item % blocks * block;
    tp_conv_copy plan = f->copy;
    char *copy = tp_block_new(f->copy_bytes);
    if (!copy)
        return false;
    plan.channels = c->groups - first < block ? c->groups - first : block;
    tp_conv_copy_run(&plan, image_of(f->x, image, first, f->bytes), f->x, c->in_size, f->bytes, copy);
    tp_conv_grid g = forward_grid(f, image, first, copy);
    g.copy = copy;
    g.rows *= plan.channels;
    bool ok = tp_conv_grid_run(&g, true);
    tp_block_free(copy, f->copy_bytes);
    return ok;
}

/* One tap that meets every pixel: x is B as it lies. */
static bool forward_pointwise(void *work, int64_t image)
{
    const forward *f = work;
    const tp_conv *c = f->c;
    int64_t rows = c->out_channels / c->groups, channels = c->in_channels / c->groups, bytes = (int64_t)f->bytes;
    for (int64_t group = 0; group < c->groups; group++) {
        tp_gemm_problem p = {
            .m = rows, .n = product(c->out_size), .k = channels, .a_row = f->w->outer, .a_column = f->w->channel,
            .a = (const char *)f->w->data + group * rows * f->w->outer * bytes,
            .b = image_of(f->x, image, group * channels, f->bytes), .b_row = f->x->channel,
            .b_column = tp_conv_even_step(c->in_size, f->x->space),
            .c = (void *)image_of(f->y, image, group * rows, f->bytes), .c_row = f->y->channel,
            .c_column = tp_conv_even_step(c->out_size, f->y->space), .alpha = 1, .beta = f->bias ? 1 : 0,
        };
        for (int64_t i = 0; f->bias && i < rows; i++)
            for (int64_t j = 0; j < p.n; j++)
                memcpy((char *)p.c + (i * p.c_row + j * p.c_column) * bytes,
                       (const char *)f->bias + (group * rows + i) * bytes, f->bytes);
        if (!tp_gemm_solve(&p, f->kernels, f->bytes))
            return false;
    }
    return true;
}

/* Where a dim has one tap and no padding only every stride-th coordinate matters: drop the others from the view. */
static void drop_unseen(tp_conv *c, tp_conv_view *x)
{
    for (int d = 0; d < 3; d++)
        if (c->kernel[d] == 1 && c->padding[d] == 0) {
            x->space[d] *= c->stride[d];
            c->in_size[d] = c->out_size[d];
            c->stride[d] = c->dilation[d] = 1;
        }
}

static bool each_image(int64_t batch, tp_item_fn *image, void *work)
{
    if (batch >= SHARE_IMAGES_FROM)
        return tp_each_run(batch, 1, image, work);
    for (int64_t i = 0; i < batch; i++)
        if (!image(work, i))
            return false;
    return true;
}

static bool is_empty(const tp_conv *c)
{
    return !c->batch || !c->out_channels || !product(c->out_size);
}

bool tp_conv_forward(tp_dtype d, const tp_conv *shape, const tp_conv_view *view, const tp_conv_view *w,
                     const void *bias, const tp_conv_view *y)
{
    if (tp_dtype_is_half(d))
        return tp_conv_half_forward(d, shape, view, w, bias, y);
    if (d != TP_f32 && d != TP_f64)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"convolution\" not implemented for '%s'", tp_dtypes[d].title);
    if (is_empty(shape))
        return true;
    tp_conv c = *shape;
    tp_conv_view x = *view;
    forward f = { .c = &c, .x = &x, .w = w, .y = y, .bias = bias, .bytes = tp_dtype_bytes(d),
                  .kernels = tp_gemm_kernels_for(d) };
    int64_t channels = c.in_channels / c.groups;
    void *made = NULL;

    drop_unseen(&c, &x);
    if (product(c.kernel) == 1 && !c.padding[0] && !c.padding[1] && !c.padding[2] && channels > 1 &&
        tp_conv_even_step(c.in_size, x.space) && tp_conv_even_step(c.out_size, y->space))
        return each_image(c.batch, forward_pointwise, &f);
    f.copy.channels = channels == 1 ? depthwise_block(&x) : 0;
    bool ok = plan_forward(&f);
    if (ok && channels == 1 && !f.weight_plain) {
        f.weight = made = gather_rows(w, c.out_channels, w->outer, f.offset + f.k, f.k, f.bytes);
        f.weight_row = f.k;
        ok = made != NULL;
    }
    if (channels == 1)
        ok = ok && tp_each_run(c.batch * ((c.groups + f.copy.channels - 1) / f.copy.channels), 1, forward_block, &f);
    else
        ok = ok && each_image(c.batch, forward_image, &f);
    tp_block_free(made, (size_t)(c.out_channels * f.k) * f.bytes);
    tp_free(f.offset);
    return ok;
}

/* ---- input gradient ---- */

/* Outputs start, start + stride … in each dim, the taps that reach them, and their weights. */
typedef struct phase {
    int64_t  start[3], size[3], k;
    int64_t *offset;            /* owned: k places in the copy, then k places in a row of the weight */
    char    *weight;            /* owned, for one_channel alone: in_channels x k */
    size_t   weight_bytes;
} phase;

typedef struct backward {
    const tp_conv *c;
    const tp_conv_view *grad_y, *w, *grad_x;
    tp_conv_copy copy;
    size_t   copy_bytes, bytes;
    phase   *phases;
    int64_t  phase_count;
    const tp_gemm_kernels *kernels;
} backward;

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* Does tap t of dim d reach output `start`, and from which position of grad_y? */
static bool reaches(const tp_conv *c, int d, int64_t start, int64_t t, int64_t *from)
{
    int64_t distance = start + c->padding[d] - t * c->dilation[d];
    *from = floor_divide(distance, c->stride[d]);
    return *from * c->stride[d] == distance;
}

/* Tap number n of the phase: its places for every channel of grad_y. */
static void take_tap(const backward *b, phase *p, int64_t place, int64_t where, int64_t n)
{
    int64_t outs = b->c->out_channels / b->c->groups, taps = p->k / outs;
    for (int64_t o = 0; o < outs; o++) {
        p->offset[o * taps + n] = o * b->copy.channel + where;
        p->offset[p->k + o * taps + n] = o * b->w->outer + place;
    }
}

/* How many taps reach the phase; takes them when `take`. */
static int64_t taps_of(const backward *b, phase *p, bool take)
{
    const tp_conv *c = b->c;
    int64_t tap[3], from[3], count = 0;
    for (tap[0] = 0; tap[0] < c->kernel[0]; tap[0]++)
        for (tap[1] = 0; reaches(c, 0, p->start[0], tap[0], &from[0]) && tap[1] < c->kernel[1]; tap[1]++)
            for (tap[2] = 0; reaches(c, 1, p->start[1], tap[1], &from[1]) && tap[2] < c->kernel[2]; tap[2]++) {
                if (!reaches(c, 2, p->start[2], tap[2], &from[2]))
                    continue;
                int64_t where = (from[0] - b->copy.low[0]) * b->copy.plane + (from[1] - b->copy.low[1]) * b->copy.row +
                                from[2] - b->copy.low[2];
                int64_t place = tap[0] * b->w->space[0] + tap[1] * b->w->space[1] + tap[2] * b->w->space[2];
                if (take)
                    take_tap(b, p, place, where, count);
                count++;
            }
    return count;
}

/* With one channel of grad_y to a group a row of weights is w[group, i]. */
static bool gather_phase(const backward *b, phase *p)
{
    const tp_conv *c = b->c;
    int64_t ins = c->in_channels / c->groups, bytes = (int64_t)b->bytes;
    p->weight_bytes = (size_t)(c->in_channels * p->k * bytes);
    char *to = p->weight = tp_block_new(p->weight_bytes);
    for (int64_t i = 0; to && i < c->in_channels; i++)
        for (int64_t k = 0; k < p->k; k++, to += bytes) {
            int64_t at = i / ins * b->w->outer + i % ins * b->w->channel + p->offset[p->k + k];
            memcpy(to, (const char *)b->w->data + at * bytes, b->bytes);
        }
    return p->weight != NULL;
}

static bool plan_phase(backward *b, int64_t index)
{
    const tp_conv *c = b->c;
    phase *p = &b->phases[index];
    for (int d = 2; d >= 0; d--) {
        p->start[d] = index % c->stride[d];
        p->size[d] = p->start[d] < c->in_size[d] ? (c->in_size[d] - p->start[d] + c->stride[d] - 1) / c->stride[d] : 0;
        index /= c->stride[d];
    }
    if (!product(p->size))
        return true;
    p->k = taps_of(b, p, false) * (c->out_channels / c->groups);
    if (!(p->offset = tp_alloc_array((size_t)p->k, 2 * sizeof *p->offset)))
        return false;
    taps_of(b, p, true);
    return c->out_channels != c->groups || gather_phase(b, p);
}

static bool plan_backward(backward *b)
{
    const tp_conv *c = b->c;
    b->copy.channels = c->out_channels == c->groups ? depthwise_block(b->grad_y) : c->out_channels;
    b->copy.phases = 1;
    for (int d = 0; d < 3; d++) {
        b->copy.low[d] = floor_divide(c->padding[d] - (c->kernel[d] - 1) * c->dilation[d], c->stride[d]);
        b->copy.size[d] = floor_divide(c->in_size[d] - 1 + c->padding[d], c->stride[d]) - b->copy.low[d] + 1;
    }
    b->phase_count = product(c->stride);
    if (!tp_conv_copy_plan(&b->copy, &b->copy_bytes, b->bytes) ||
        !(b->phases = tp_alloc_array((size_t)b->phase_count, sizeof *b->phases)))
        return false;
    memset(b->phases, 0, (size_t)b->phase_count * sizeof *b->phases);
    for (int64_t i = 0; i < b->phase_count; i++)
        if (!plan_phase(b, i))
            return false;
    return true;
}

static tp_conv_grid backward_grid(const backward *b, const phase *p, int64_t image, int64_t group, const char *copy)
{
    const tp_conv *c = b->c;
    const tp_conv_view *x = b->grad_x;
    int64_t rows = c->in_channels / c->groups, outs = c->out_channels / c->groups, bytes = (int64_t)b->bytes;
    int64_t start = p->start[0] * x->space[0] + p->start[1] * x->space[1] + p->start[2] * x->space[2];
    return (tp_conv_grid){
        .kernels = b->kernels, .element_bytes = b->bytes, .copy = copy + group * outs * b->copy.channel * bytes,
        .copy_channel = b->copy.channel, .sharing = rows, .offset = p->offset, .k = p->k,
        .plane_step = b->copy.plane, .row_step = b->copy.row, .size = { p->size[0], p->size[1], p->size[2] },
        .weight = p->weight ? p->weight : (const char *)b->w->data + group * outs * b->w->outer * bytes, .rows = rows,
        .weight_row = p->weight ? p->k : b->w->channel, .weight_offset = p->offset + p->k,
        .out = (void *)(image_of(x, image, group * rows, b->bytes) + start * bytes), .channel = x->channel,
        .space = { x->space[0] * c->stride[0], x->space[1] * c->stride[1], x->space[2] * c->stride[2] },
    };
}

static bool backward_image(void *work, int64_t image)
{
    const backward *b = work;
    const tp_conv *c = b->c;
    char *copy = tp_block_new(b->copy_bytes);
    bool ok = copy != NULL;
    if (ok)
        tp_conv_copy_run(&b->copy, image_of(b->grad_y, image, 0, b->bytes), b->grad_y, c->out_size, b->bytes, copy);
    for (int64_t i = 0; ok && i < b->phase_count; i++)
        for (int64_t group = 0; ok && group < c->groups; group++) {
            tp_conv_grid g = backward_grid(b, &b->phases[i], image, group, copy);
            ok = tp_conv_grid_run(&g, false);
        }
    tp_block_free(copy, b->copy_bytes);
    return ok;
}

/* One channel of grad_y to a group: one block of groups of one image. */
static bool backward_block(void *work, int64_t item)
{
    const backward *b = work;
    const tp_conv *c = b->c;
    int64_t block = b->copy.channels, blocks = (c->groups + block - 1) / block, image = item / blocks;
    int64_t first = item % blocks * block, ins = c->in_channels / c->groups;
    tp_conv_copy plan = b->copy;
    char *copy = tp_block_new(b->copy_bytes);
    bool ok = copy != NULL;
    plan.channels = c->groups - first < block ? c->groups - first : block;
    if (ok)
        tp_conv_copy_run(&plan, image_of(b->grad_y, image, first, b->bytes), b->grad_y, c->out_size, b->bytes, copy);
    for (int64_t i = 0; ok && i < b->phase_count; i++) {
        const phase *p = &b->phases[i];
        tp_conv_grid g = backward_grid(b, p, image, first, copy);
        g.copy = copy;
        g.weight = p->weight ? p->weight + first * ins * p->k * (int64_t)b->bytes : NULL;
        g.rows *= plan.channels;
        ok = tp_conv_grid_run(&g, true);
    }
    tp_block_free(copy, b->copy_bytes);
    return ok;
}

bool tp_conv_backward_input(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y, const tp_conv_view *w,
                            const tp_conv_view *grad_x)
{
    if (tp_dtype_is_half(d))
        return tp_conv_half_backward_input(d, c, grad_y, w, grad_x);
    if (d != TP_f32 && d != TP_f64)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"convolution_backward\" not implemented for '%s'", tp_dtypes[d].title);
    if (!c->batch || !c->in_channels || !product(c->in_size))
        return true;
    backward b = { .c = c, .grad_y = grad_y, .w = w, .grad_x = grad_x, .bytes = tp_dtype_bytes(d),
                   .kernels = tp_gemm_kernels_for(d) };
    bool ok = plan_backward(&b);
    if (c->out_channels == c->groups)
        ok = ok && tp_each_run(c->batch * ((c->groups + b.copy.channels - 1) / b.copy.channels), 1, backward_block, &b);
    else
        ok = ok && each_image(c->batch, backward_image, &b);
    for (int64_t i = 0; b.phases && i < b.phase_count; i++) {
        tp_free(b.phases[i].offset);
        tp_block_free(b.phases[i].weight, b.phases[i].weight_bytes);
    }
    tp_free(b.phases);
    return ok;
}

/* ---- weight and bias gradients ---- */

typedef struct weight_gradient {
    forward      f;             /* of x */
    tp_conv_copy y_plan;        /* of grad_y, when its pixels are not evenly spaced */
    size_t       y_bytes;
    tp_conv_view y;             /* grad_y of the image at hand */
    const char  *copy;          /* of x, of the image at hand */
    char        *rows;          /* out_channels x k, `row` apart */
    int64_t      row;
    char        *made;          /* rows, when they are scratch */
    char        *lanes;         /* depthwise: LANE_BYTES of sums for each weight, instead of rows */
    size_t       sum_bytes;
    bool         first;         /* image: the sum begins */
} weight_gradient;

static bool gradient_group(void *work, int64_t group)
{
    const weight_gradient *g = work;
    const tp_conv *c = g->f.c;
    int64_t rows = c->out_channels / c->groups, bytes = (int64_t)g->f.bytes;
    tp_conv_grid grid = forward_grid(&g->f, 0, group, g->copy);
    tp_gemm_problem p = {
        .m = rows, .n = g->f.k, .k = product(c->out_size), .a = image_of(&g->y, 0, group * rows, g->f.bytes),
        .a_row = g->y.channel, .a_column = tp_conv_even_step(c->out_size, g->y.space), .b_column = 1,
        .c = g->rows + group * rows * g->row * bytes, .c_row = g->row, .c_column = 1, .alpha = 1,
        .beta = g->first ? 0 : 1, .fill = tp_conv_fill_turned(g->f.bytes), .source = &grid,
    };
    return tp_gemm_solve(&p, g->f.kernels, g->f.bytes);
}

/* A depthwise weight: each of its taps correlates a plane of grad_y with a plane of the copy. */
static bool correlate_channel(void *work, int64_t channel)
{
    const weight_gradient *g = work;
    const tp_conv *c = g->f.c;
    int64_t bytes = (int64_t)g->f.bytes, from = channel / (c->out_channels / c->groups) * g->f.copy.channel;
    for (int64_t i = 0; i < c->out_size[0]; i++)
        for (int64_t j = 0; j < c->out_size[1]; j++) {
            int64_t at = from + i * c->stride[0] * g->f.copy.plane + j * c->stride[1] * g->f.copy.row;
            int64_t y = channel * g->y.channel + i * g->y.space[0] + j * g->y.space[1];
            g->f.kernels->correlate(c->out_size[2], g->f.k, g->copy + at * bytes, g->f.offset,
                                    (const char *)g->y.data + y * bytes, g->lanes + channel * g->f.k * LANE_BYTES);
        }
    return true;
}

static bool gradient_image(weight_gradient *g, const tp_conv_view *grad_y, int64_t image, char *copy, char *y_copy)
{
    const tp_conv *c = g->f.c;
    const char *y = image_of(grad_y, image, 0, g->f.bytes);
    tp_conv_copy_run(&g->f.copy, image_of(g->f.x, image, 0, g->f.bytes), g->f.x, c->in_size, g->f.bytes, copy);
    g->y = *grad_y;
    g->y.data = (void *)y;
    if (y_copy) {
        tp_conv_copy_run(&g->y_plan, y, grad_y, c->out_size, g->f.bytes, y_copy);
        g->y = tp_conv_view_of(y_copy, c->out_channels, c->out_size, false);
    }
    g->copy = copy;
    g->first = image == 0;
    if (g->lanes)
        return tp_each_run(c->out_channels, 1 + (64 << 10) / (product(c->out_size) * g->f.k), correlate_channel, g);
    if (c->groups == 1)
        return gradient_group(g, 0);
    return tp_each_run(c->groups, 1, gradient_group, g);
}

/* Rows without gaps to where the weight has them. */
static void scatter_rows(const weight_gradient *g, const tp_conv_view *w)
{
    const int64_t *place = g->f.offset + g->f.k;
    size_t bytes = g->f.bytes;
    const char *from = g->rows;
    for (int64_t o = 0; o < g->f.c->out_channels; o++)
        for (int64_t k = 0; k < g->f.k; k++, from += bytes)
            memcpy((char *)w->data + (o * w->outer + place[k]) * (int64_t)bytes, from, bytes);
}

static void finish_lanes(tp_dtype d, const weight_gradient *g, const tp_conv_view *w)
{
    for (int64_t i = 0; i < g->f.c->out_channels * g->f.k; i++) {
        int64_t at = i / g->f.k * w->outer + g->f.offset[g->f.k + i % g->f.k];
        tp_scalar_write(tp_scalar_float(g->f.kernels->sum_lanes(g->lanes + i * LANE_BYTES)),
                        (char *)w->data + at * (int64_t)g->f.bytes, d);
    }
}

/* Scratch of the sum: lanes, or rows where the weight's own memory has not the shape of a product. */
static bool plan_sum(weight_gradient *g, const tp_conv_view *grad_w)
{
    const tp_conv *c = g->f.c;
    if (c->in_channels == c->groups) {
        g->sum_bytes = (size_t)(c->out_channels * g->f.k) * LANE_BYTES;
        if (!(g->lanes = tp_block_new(g->sum_bytes)))
            return false;
        memset(g->lanes, 0, g->sum_bytes);
    } else if (g->f.weight_plain) {
        g->rows = grad_w->data;
        g->row = grad_w->outer;
    } else {
        g->sum_bytes = (size_t)(c->out_channels * g->f.k) * g->f.bytes;
        g->row = g->f.k;
        g->rows = g->made = tp_block_new(g->sum_bytes);
    }
    return g->lanes || g->rows;
}

static bool sum_images(weight_gradient *g, const tp_conv_view *grad_y)
{
    const tp_conv *c = g->f.c;
    bool even = g->lanes ? c->out_size[2] == 1 || grad_y->space[2] == 1
                         : tp_conv_even_step(c->out_size, grad_y->space) != 0;
    char *copy = NULL, *y_copy = NULL;
    bool ok = tp_conv_copy_plan(&g->y_plan, &g->y_bytes, g->f.bytes) && (copy = tp_block_new(g->f.copy_bytes)) &&
              (even || (y_copy = tp_block_new(g->y_bytes)));
    for (int64_t i = 0; ok && i < c->batch; i++)
        ok = gradient_image(g, grad_y, i, copy, y_copy);
    tp_block_free(y_copy, g->y_bytes);
    tp_block_free(copy, g->f.copy_bytes);
    return ok;
}

bool tp_conv_backward_weight(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y, const tp_conv_view *x,
                             const tp_conv_view *grad_w)
{
    if (tp_dtype_is_half(d))
        return tp_conv_half_backward_weight(d, c, grad_y, x, grad_w);
    if (d != TP_f32 && d != TP_f64)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"convolution_backward\" not implemented for '%s'", tp_dtypes[d].title);
    weight_gradient g = { .f = { .c = c, .x = x, .w = grad_w, .y = grad_y, .bytes = tp_dtype_bytes(d),
                                 .kernels = tp_gemm_kernels_for(d) },
                          .y_plan = { .phases = 1, .channels = c->out_channels,
                                      .size = { c->out_size[0], c->out_size[1], c->out_size[2] } } };
    bool empty = is_empty(c);
    if (!c->out_channels || !c->in_channels)
        return true;
    bool ok = plan_forward(&g.f) && plan_sum(&g, grad_w);
    if (ok && empty)
        for (int64_t o = 0; g.rows && o < c->out_channels; o++)
            memset(g.rows + o * g.row * (int64_t)g.f.bytes, 0, (size_t)g.f.k * g.f.bytes);
    else
        ok = ok && sum_images(&g, grad_y);
    if (ok && g.made)
        scatter_rows(&g, grad_w);
    if (ok && g.lanes)
        finish_lanes(d, &g, grad_w);
    tp_block_free(g.lanes ? g.lanes : g.made, g.sum_bytes);
    tp_free(g.f.offset);
    return ok;
}

typedef struct bias_gradient {
    tp_dtype dtype;
    const tp_conv *c;
    const tp_conv_view *y;
    char *to;
} bias_gradient;

/* Rows are summed by themselves, then images: errors stay small, and f64 holds the sums of f32. */
static bool bias_channel(void *work, int64_t channel)
{
    const bias_gradient *b = work;
    const tp_conv *c = b->c;
    size_t bytes = tp_dtype_bytes(b->dtype);
    double total = 0;
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t i = 0; i < c->out_size[0]; i++)
            for (int64_t j = 0; j < c->out_size[1]; j++) {
                const char *row = image_of(b->y, n, channel, bytes) +
                                  (i * b->y->space[0] + j * b->y->space[1]) * (int64_t)bytes;
                int64_t step = b->y->space[2];
                double sum = 0;
                for (int64_t q = 0; q < c->out_size[2]; q++, row += step * (int64_t)bytes)
                    sum += b->dtype == TP_f32   ? *(const float *)row
                           : b->dtype == TP_f64 ? *(const double *)row
                                                : tp_scalar_to_double(tp_scalar_read(row, b->dtype));
                total += sum;
            }
    tp_scalar_write(tp_scalar_float(total), b->to + channel * (int64_t)bytes, b->dtype);
    return true;
}

bool tp_conv_backward_bias(tp_dtype d, const tp_conv *c, const tp_conv_view *grad_y, void *grad_bias)
{
    if (!tp_dtype_is_float(d))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"convolution_backward\" not implemented for '%s'", tp_dtypes[d].title);
    int64_t elements = c->batch * product(c->out_size);
    return tp_each_run(c->out_channels, 1 + (16 << 10) / (elements + 1), bias_channel,
                       &(bias_gradient){ d, c, grad_y, grad_bias });
}
