/* pool.c - pooling of tensors over two or three dims: max pooling by kernels/pool2d.h, averages by plain windows.
 *
 * An average is summed in f32 (f64 for f64) row by row in order, so thread count and instruction set change nothing;
 * integers are summed as such. */
#include "kernels/dense.h"
#include "kernels/pool2d.h"
#include "base/pool.h"

/* Sizes that stand in a list of `dims`, moved to the end of three; an empty list of strides is the kernel. */
static bool read_sizes(tp_value v, tp_value otherwise, int dims, int64_t absent, int64_t out[3])
{
    out[0] = absent;
    return tp_as_ints(tp_length(v) || v.tag == TP_INT ? v : otherwise, out + 3 - dims, dims, dims) == dims;
}

static void last_sizes(const tp_tensor *t, int dims, int64_t out[3])
{
    out[0] = 1;
    for (int i = 0; i < dims; i++)
        out[3 - dims + i] = t->size[t->ndim - dims + i];
}

/* ---- max ---- */

static tp_conv_view view_of(const tp_tensor *t, int dims)
{
    bool batched = t->ndim == dims + 2;
    tp_conv_view v = { .data = tp_tensor_data(t), .outer = batched ? t->stride[0] : 0, .channel = t->stride[batched] };
    for (int i = 0; i < dims; i++)
        v.space[3 - dims + i] = t->stride[batched + 1 + i];
    return v;
}

/* kernel, stride, padding, dilation at arg[0…] */
static bool describe(const tp_tensor *in, const tp_tensor *out, int dims, const tp_value *arg, tp_maxpool *p)
{
    bool batched = in->ndim == dims + 2;
    *p = (tp_maxpool){ .batch = batched ? in->size[0] : 1, .channels = in->size[batched] };
    last_sizes(in, dims, p->in_size);
    last_sizes(out, dims, p->out_size);
    return read_sizes(arg[0], arg[0], dims, 1, p->kernel) && read_sizes(arg[1], arg[0], dims, 1, p->stride) &&
           read_sizes(arg[2], arg[2], dims, 0, p->padding) && read_sizes(arg[3], arg[3], dims, 1, p->dilation);
}

static bool max_pool(int dims, const tp_value *arg, tp_tensor **out)
{
    const tp_tensor *x = arg[0].tensor;
    tp_maxpool p;
    if (!describe(x, out[0], dims, arg + 1, &p))
        return false;
    tp_conv_view from = view_of(x, dims), to = view_of(out[0], dims), index = view_of(out[1], dims);
    return tp_maxpool_forward((tp_dtype)x->dtype, &p, &from, &to, &index);
}

/* grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices */
static bool max_pool_backward(int dims, const tp_value *arg, tp_tensor *out)
{
    const tp_tensor *g = arg[0].tensor;
    tp_maxpool p;
    if (!describe(arg[1].tensor, g, dims, arg + 2, &p))
        return false;
    tp_conv_view from = view_of(g, dims), index = view_of(arg[7].tensor, dims), to = view_of(out, dims);
    return tp_maxpool_backward((tp_dtype)g->dtype, &p, &from, &index, &to);
}

TP_HOOK_K(tp_k_max_pool2d) { return max_pool(2, arg, out); }
TP_HOOK_K(tp_k_max_pool3d) { return max_pool(3, arg, out); }
TP_HOOK_K(tp_k_max_pool2d_backward) { return max_pool_backward(2, arg, out[0]); }
TP_HOOK_K(tp_k_max_pool3d_backward) { return max_pool_backward(3, arg, out[0]); }

/* ---- averages ---- */

/* One dim of a window: where it begins and ends inside the input, and how long it is with its padding. */
typedef struct reach {
    int64_t from, to, padded;
} reach;

typedef struct average {
    bool     adaptive, count_padding, backward;
    tp_dtype dtype;
    int64_t  planes, in[3], out[3];
    int64_t  kernel[3], stride[3], padding[3], divisor;     /* divisor 0: the size of the window */
    const void *from;
    void       *to;
} average;

static reach window(const average *a, int axis, int64_t at)
{
    int64_t size = a->in[axis], out = a->out[axis];
    if (a->adaptive)
        return (reach){ at * size / out, ((at + 1) * size + out - 1) / out, 0 };
    int64_t from = at * a->stride[axis] - a->padding[axis], to = from + a->kernel[axis], end = size + a->padding[axis];
    reach r = { from, to < end ? to : end, 0 };
    r.padded = r.to - r.from;
    r.from = r.from < 0 ? 0 : r.from;
    r.to = r.to > size ? size : r.to;
    return r;
}

static int64_t divisor(const average *a, const reach w[3])
{
    int64_t count = 1;
    for (int d = 0; d < 3; d++)
        count *= a->count_padding && !a->adaptive ? w[d].padded : w[d].to - w[d].from;
    return a->divisor ? a->divisor : count;
}

#define PLANE(type)                                                                                         \
    static void plane_##type(const average *a, const type *from, type *to)                                  \
    {                                                                                                       \
        for (int64_t i = 0; a->backward && i < a->in[0] * a->in[1] * a->in[2]; i++)                         \
            to[i] = 0;                                                                                      \
        for (int64_t o = 0; o < a->out[0] * a->out[1] * a->out[2]; o++) {                                   \
            reach w[3] = { window(a, 0, o / a->out[2] / a->out[1]), window(a, 1, o / a->out[2] % a->out[1]), \
                           window(a, 2, o % a->out[2]) };                                                   \
            int64_t all = divisor(a, w);                                                                    \
            type count = (type)(all ? all : 1), sum = 0, share = a->backward ? from[o] / count : 0;         \
            for (int64_t z = w[0].from; z < w[0].to; z++)                                                   \
                for (int64_t y = w[1].from; y < w[1].to; y++) {                                             \
                    int64_t row = (z * a->in[1] + y) * a->in[2];                                            \
                    for (int64_t x = w[2].from; x < w[2].to; x++)                                           \
                        if (a->backward)                                                                    \
                            to[row + x] += share;                                                           \
                        else                                                                                \
                            sum += from[row + x];                                                           \
                }                                                                                           \
            if (!a->backward)                                                                               \
                to[o] = sum / count;                                                                        \
        }                                                                                                   \
    }
PLANE(float)
PLANE(double)
PLANE(int64_t)
#undef PLANE

static void planes(void *work, int64_t index, int64_t count)
{
    const average *a = work;
    int64_t large = a->in[0] * a->in[1] * a->in[2], small = a->out[0] * a->out[1] * a->out[2];
    for (int64_t p = tp_chunk_at(a->planes, index, count); p < tp_chunk_at(a->planes, index + 1, count); p++) {
        int64_t from = p * (a->backward ? small : large), to = p * (a->backward ? large : small);
        if (a->dtype == TP_i64)
            plane_int64_t(a, (const int64_t *)a->from + from, (int64_t *)a->to + to);
        else if (a->dtype == TP_f64)
            plane_double(a, (const double *)a->from + from, (double *)a->to + to);
        else
            plane_float(a, (const float *)a->from + from, (float *)a->to + to);
    }
}

/* `wide` has the sizes of the input side, `narrow` those of the pooled side. */
static bool run(average *a, int dims, const tp_tensor *wide, const tp_tensor *narrow, const tp_tensor *from, tp_tensor *to)
{
    a->dtype = from->dtype == TP_i64 ? TP_i64 : tp_row_dtype((tp_dtype)from->dtype);
    last_sizes(wide, dims, a->in);
    last_sizes(narrow, dims, a->out);
    int64_t area = a->in[0] * a->in[1] * a->in[2];
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
static bool read_windows(average *a, int dims, const tp_value *arg)
{
    if (!read_sizes(arg[0], arg[0], dims, 1, a->kernel) || !read_sizes(arg[1], arg[0], dims, 1, a->stride) ||
        !read_sizes(arg[2], arg[2], dims, 0, a->padding))
        return false;
    a->count_padding = tp_as_bool(arg[4]);
    a->divisor = arg[5].tag == TP_NONE ? 0 : tp_as_int(arg[5]);
    return true;
}

static bool avg_pool(int dims, const tp_value *arg, tp_tensor *out)
{
    average a = { 0 };
    return read_windows(&a, dims, arg + 1) && run(&a, dims, arg[0].tensor, out, arg[0].tensor, out);
}

static bool avg_pool_backward(int dims, const tp_value *arg, tp_tensor *out)
{
    average a = { .backward = true };
    return read_windows(&a, dims, arg + 2) && run(&a, dims, arg[1].tensor, arg[0].tensor, arg[0].tensor, out);
}

static bool adaptive_avg_pool(int dims, const tp_value *arg, tp_tensor *out)
{
    average a = { .adaptive = true };
    return run(&a, dims, arg[0].tensor, out, arg[0].tensor, out);
}

static bool adaptive_avg_pool_backward(int dims, const tp_value *arg, tp_tensor *out)
{
    average a = { .adaptive = true, .backward = true };
    return run(&a, dims, arg[1].tensor, arg[0].tensor, arg[0].tensor, out);
}

TP_HOOK_K(tp_k_avg_pool2d) { return avg_pool(2, arg, out[0]); }
TP_HOOK_K(tp_k_avg_pool3d) { return avg_pool(3, arg, out[0]); }
TP_HOOK_K(tp_k_avg_pool2d_backward) { return avg_pool_backward(2, arg, out[0]); }
TP_HOOK_K(tp_k_avg_pool3d_backward) { return avg_pool_backward(3, arg, out[0]); }
TP_HOOK_K(tp_k_adaptive_avg_pool2d) { return adaptive_avg_pool(2, arg, out[0]); }
TP_HOOK_K(tp_k_adaptive_avg_pool3d) { return adaptive_avg_pool(3, arg, out[0]); }
TP_HOOK_K(tp_k_adaptive_avg_pool2d_backward) { return adaptive_avg_pool_backward(2, arg, out[0]); }
TP_HOOK_K(tp_k_adaptive_avg_pool3d_backward) { return adaptive_avg_pool_backward(3, arg, out[0]); }
