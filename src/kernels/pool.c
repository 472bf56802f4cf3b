/* pool.c - pooling of tensors: max pooling by kernels/pool2d.h, averages by plain windows over planes.
 *
 * An average is summed in f32 (f64 for f64) row by row in order, so thread count and instruction set change nothing. */
#include "kernels/dense.h"
#include "kernels/pool2d.h"
#include "base/pool.h"

/* ---- max ---- */

static tp_conv_view view_of(const tp_tensor *t)
{
    bool batched = t->ndim == 4;
    const int64_t *s = t->stride + batched;
    return (tp_conv_view){ .data = tp_tensor_data(t), .outer = batched ? t->stride[0] : 0, .channel = s[0], .space = { 0, s[1], s[2] } };
}

/* input, kernel, stride, padding, dilation at arg[first…] */
static bool describe(const tp_tensor *in, const tp_tensor *out, const tp_value *arg, tp_maxpool *p)
{
    int64_t kernel[2], stride[TP_MAX_DIMS], padding[2], dilation[2];
    const int64_t *size = in->size + (in->ndim == 4);
    if (tp_as_ints(arg[0], kernel, 2, 2) < 0 || tp_as_ints(arg[2], padding, 2, 2) < 0 || tp_as_ints(arg[3], dilation, 2, 2) < 0)
        return false;
    int n = tp_as_ints(arg[1], stride, TP_MAX_DIMS, tp_length(arg[1]) ? 2 : 0);
    if (n < 0)
        return false;
    *p = (tp_maxpool){ .batch = in->ndim == 4 ? in->size[0] : 1, .channels = size[0], .in_size = { 1, size[1], size[2] },
                       .out_size = { 1, out->size[out->ndim - 2], out->size[out->ndim - 1] }, .kernel = { 1, kernel[0], kernel[1] },
                       .stride = { 1, n ? stride[0] : kernel[0], n ? stride[1] : kernel[1] }, .padding = { 0, padding[0], padding[1] },
                       .dilation = { 1, dilation[0], dilation[1] } };
    return true;
}

TP_HOOK_K(tp_k_max_pool2d)
{
    const tp_tensor *x = arg[0].tensor;
    tp_maxpool p;
    if (!describe(x, out[0], arg + 1, &p))
        return false;
    tp_conv_view from = view_of(x), to = view_of(out[0]), index = view_of(out[1]);
    return tp_maxpool_forward((tp_dtype)x->dtype, &p, &from, &to, &index);
}

/* grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices */
TP_HOOK_K(tp_k_max_pool2d_backward)
{
    const tp_tensor *g = arg[0].tensor;
    tp_maxpool p;
    if (!describe(arg[1].tensor, g, arg + 2, &p))
        return false;
    tp_conv_view from = view_of(g), index = view_of(arg[7].tensor), to = view_of(out[0]);
    return tp_maxpool_backward((tp_dtype)g->dtype, &p, &from, &index, &to);
}

/* ---- averages ---- */

/* One axis of a window: where it begins and ends inside the input, and how long it is with its padding. */
typedef struct reach {
    int64_t from, to, padded;
} reach;

typedef struct average {
    bool    adaptive, count_padding, backward;
    tp_dtype dtype;
    int64_t planes, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2], divisor;      /* divisor 0: the size of the window */
    const void *from;
    void       *to;
} average;

static reach window(const average *a, int axis, int64_t at)
{
    int64_t size = axis ? a->width : a->height, out = axis ? a->out_width : a->out_height;
    if (a->adaptive)
        return (reach){ at * size / out, ((at + 1) * size + out - 1) / out, 0 };
    int64_t from = at * a->stride[axis] - a->padding[axis], to = from + a->kernel[axis], end = size + a->padding[axis];
    reach r = { from, to < end ? to : end, 0 };
    r.padded = r.to - r.from;
    r.from = r.from < 0 ? 0 : r.from;
    r.to = r.to > size ? size : r.to;
    return r;
}

static double divisor(const average *a, reach rows, reach columns)
{
    if (a->divisor)
        return (double)a->divisor;
    if (a->count_padding && !a->adaptive)
        return (double)(rows.padded * columns.padded);
    return (double)((rows.to - rows.from) * (columns.to - columns.from));
}

#define PLANE(type)                                                                                         \
    static void plane_##type(const average *a, const type *from, type *to)                                  \
    {                                                                                                       \
        for (int64_t i = 0; a->backward && i < a->height * a->width; i++)                                   \
            to[i] = 0;                                                                                      \
        for (int64_t y = 0; y < a->out_height; y++)                                                         \
            for (int64_t x = 0; x < a->out_width; x++) {                                                    \
                reach rows = window(a, 0, y), columns = window(a, 1, x);                                    \
                type count = (type)divisor(a, rows, columns), sum = 0;                                      \
                type share = a->backward ? from[y * a->out_width + x] / count : 0;                          \
                for (int64_t i = rows.from; i < rows.to; i++)                                               \
                    for (int64_t j = columns.from; j < columns.to; j++)                                     \
                        if (a->backward)                                                                    \
                            to[i * a->width + j] += share;                                                  \
                        else                                                                                \
                            sum += from[i * a->width + j];                                                  \
                if (!a->backward)                                                                           \
                    to[y * a->out_width + x] = sum / count;                                                 \
            }                                                                                               \
    }
PLANE(float)
PLANE(double)
#undef PLANE

static void planes(void *work, int64_t index, int64_t count)
{
    const average *a = work;
    int64_t in = a->height * a->width, small = a->out_height * a->out_width;
    for (int64_t p = tp_chunk_at(a->planes, index, count); p < tp_chunk_at(a->planes, index + 1, count); p++) {
        int64_t from = p * (a->backward ? small : in), to = p * (a->backward ? in : small);
        if (a->dtype == TP_f64)
            plane_double(a, (const double *)a->from + from, (double *)a->to + to);
        else
            plane_float(a, (const float *)a->from + from, (float *)a->to + to);
    }
}

/* `wide` has the sizes of the input side, `narrow` those of the pooled side. */
static bool run(average *a, const tp_tensor *wide, const tp_tensor *narrow, const tp_tensor *from, tp_tensor *to)
{
    a->dtype = tp_row_dtype((tp_dtype)from->dtype);
    a->height = wide->size[wide->ndim - 2];
    a->width = wide->size[wide->ndim - 1];
    a->out_height = narrow->size[narrow->ndim - 2];
    a->out_width = narrow->size[narrow->ndim - 1];
    int64_t area = a->height * a->width;
    a->planes = area ? wide->numel / area : 0;
    tp_tensor *source = tp_dense(from, a->dtype), *target = source ? tp_dense_out(to, a->dtype) : NULL;
    bool ok = target != NULL;
    if (ok) {
        a->from = tp_tensor_data(source);
        a->to = tp_tensor_data(target);
        tp_pool_run(tp_chunks_of(a->planes, area), planes, a);
        ok = tp_dense_done(target, to, true);
    }
    tp_tensor_unref(source);
    return ok;
}

/* kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override at arg[0…] */
static bool read_windows(average *a, const tp_value *arg)
{
    int64_t stride[TP_MAX_DIMS];
    int n = tp_as_ints(arg[1], stride, TP_MAX_DIMS, tp_length(arg[1]) ? 2 : 0);
    if (n < 0 || tp_as_ints(arg[0], a->kernel, 2, 2) < 0 || tp_as_ints(arg[2], a->padding, 2, 2) < 0)
        return false;
    for (int i = 0; i < 2; i++)
        a->stride[i] = n ? stride[i] : a->kernel[i];
    a->count_padding = tp_as_bool(arg[4]);
    a->divisor = arg[5].tag == TP_NONE ? 0 : tp_as_int(arg[5]);
    if (arg[5].tag != TP_NONE && !a->divisor)
        return tp_fail(TP_ERR_RUNTIME, "divisor must be not zero");
    return true;
}

TP_HOOK_K(tp_k_avg_pool2d)
{
    average a = { 0 };
    return read_windows(&a, arg + 1) && run(&a, arg[0].tensor, out[0], arg[0].tensor, out[0]);
}

TP_HOOK_K(tp_k_avg_pool2d_backward)
{
    average a = { .backward = true };
    return read_windows(&a, arg + 2) && run(&a, arg[1].tensor, arg[0].tensor, arg[0].tensor, out[0]);
}

TP_HOOK_K(tp_k_adaptive_avg_pool2d)
{
    average a = { .adaptive = true };
    return run(&a, arg[0].tensor, out[0], arg[0].tensor, out[0]);
}

TP_HOOK_K(tp_k_adaptive_avg_pool2d_backward)
{
    average a = { .adaptive = true, .backward = true };
    return run(&a, arg[1].tensor, arg[0].tensor, arg[0].tensor, out[0]);
}
