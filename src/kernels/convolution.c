/* convolution.c - convolutions of tensors: sizes and strides handed to kernels/conv.h.
 *
 * A transposed convolution is the gradient of a plain one with input and output changing places, so all three forms come
 * down to the same three loops. */
#include <stdio.h>

#include "kernels/conv.h"
#include "kernels/conv_integer.h"
#include "kernels/dense.h"
#include "tile/tile.h"

enum { INPUT, WEIGHT, BIAS, STRIDE, PADDING, DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS };

static tp_conv_view view_of(const tp_tensor *t)
{
    tp_conv_view v = { .data = tp_tensor_data(t), .outer = t->stride[0], .channel = t->stride[1] };
    int missing = 5 - t->ndim;
    for (int i = 0; i < 3; i++)
        v.space[i] = i < missing ? 0 : t->stride[2 + i - missing];
    return v;
}

/* `image` is the side that a plain convolution reads, `feature` the side it writes. */
static bool describe(const tp_value *arg, const tp_tensor *image, const tp_tensor *feature, const tp_tensor *weight, int at, tp_conv *c)
{
    int n = image->ndim - 2;
    int64_t stride[TP_MAX_DIMS], padding[TP_MAX_DIMS], dilation[TP_MAX_DIMS];
    if (n > 3)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "convolution of %d spatial dims", n);
    if (tp_as_ints(arg[at], stride, TP_MAX_DIMS, n) < 0 || tp_as_ints(arg[at + 1], padding, TP_MAX_DIMS, n) < 0 ||
        tp_as_ints(arg[at + 2], dilation, TP_MAX_DIMS, n) < 0)
        return false;
    *c = (tp_conv){ .batch = image->size[0], .groups = tp_as_int(arg[at + 5]), .in_channels = image->size[1], .out_channels = feature->size[1] };
    for (int i = 0; i < n; i++) {
        c->in_size[i] = image->size[2 + i];
        c->out_size[i] = feature->size[2 + i];
        c->kernel[i] = weight->size[2 + i];
        c->stride[i] = stride[i];
        c->padding[i] = padding[i];
        c->dilation[i] = dilation[i];
    }
    tp_conv_widen(c, n);
    return true;
}

/* out[:, channel] += bias[channel], as a tile program over the channel dim. */
static void add_bias(tp_tensor *out, const tp_tensor *bias)
{
    static const tp_tile_step add = { .prim = TP_PRIM_add, .to = 2, .a = 0, .b = 1 };
    static const tp_tile_program program = { .step = &add, .step_count = 1, .input_count = 2, .register_count = 3, .output_count = 1, .output = { 2 } };
    int64_t stride[TP_MAX_DIMS], channel[TP_MAX_DIMS] = { 0 }, bytes = (int64_t)tp_dtype_bytes((tp_dtype)out->dtype);
    for (int i = 0; i < out->ndim; i++)
        stride[i] = out->stride[i] * bytes;
    channel[1] = bias->stride[0] * bytes;
    tp_tile_loop loop = { .ndim = out->ndim, .compute = (uint8_t)tp_tile_compute((tp_dtype)out->dtype), .size = out->size };
    loop.operand[0] = loop.operand[1] = (tp_tile_operand){ tp_tensor_data(out), out->dtype, stride };
    loop.operand[2] = (tp_tile_operand){ tp_tensor_data(bias), bias->dtype, channel };
    tp_tile_run(&program, &loop);
}

/* Integers convolve in i64; of those only i64 itself is transposed, as in PyTorch. */
static bool convolve_integers(const tp_conv *c, const tp_tensor *input, const tp_tensor *weight, const tp_tensor *bias, bool transposed, tp_tensor *out)
{
    tp_tensor *x = tp_dense(input, TP_i64), *w = x ? tp_dense(weight, TP_i64) : NULL, *y = w ? tp_dense_out(out, TP_i64) : NULL;
    bool ok = y != NULL;
    if (ok)
        (transposed ? tp_conv_integer_backward_input : tp_conv_integer_forward)(c, tp_tensor_data(x), tp_tensor_data(w), tp_tensor_data(y));
    tp_tensor_unref(x);
    tp_tensor_unref(w);
    ok = tp_dense_done(y, out, ok);
    if (ok && bias)
        add_bias(out, bias);
    return ok;
}

/* A transposed convolution of halves with a bias stays in f32 until the bias is added: it is rounded once. */
static bool transpose_halves(const tp_conv *c, const tp_tensor *input, const tp_tensor *weight, const tp_tensor *bias, tp_tensor *out)
{
    tp_tensor *x = tp_dense(input, TP_f32), *w = x ? tp_dense(weight, TP_f32) : NULL, *b = w ? tp_dense(bias, TP_f32) : NULL;
    tp_tensor *y = b ? tp_dense_out(out, TP_f32) : NULL;
    bool ok = false;
    if (y) {
        tp_conv_view from = view_of(x), taps = view_of(w), to = view_of(y);
        ok = tp_conv_backward_input(TP_f32, c, &from, &taps, &to);
        if (ok)
            add_bias(y, b);
    }
    tp_tensor_unref(x);
    tp_tensor_unref(w);
    tp_tensor_unref(b);
    return tp_dense_done(y, out, ok);
}

/* What PyTorch calls the loop that lacks the type. */
static bool fail_dtype(tp_dtype d, int dims, bool transposed)
{
    char name[64];
    if (transposed)
        snprintf(name, sizeof name, "slow_conv_transpose%dd_out_cpu", dims < 3 ? 2 : 3);
    else
        snprintf(name, sizeof name, dims < 3 ? "slow_conv2d_cpu" : "compute_columns3d");
    return tp_fail(TP_ERR_UNIMPLEMENTED, "\"%s\" not implemented for '%s'", name, tp_dtypes[d].title);
}

TP_HOOK_K(tp_k_convolution)
{
    const tp_tensor *input = arg[INPUT].tensor, *weight = arg[WEIGHT].tensor, *bias = tp_as_tensor(arg[BIAS]);
    tp_dtype d = (tp_dtype)input->dtype;
    tp_conv c;
    bool transposed = tp_as_bool(arg[TRANSPOSED]);
    const tp_tensor *image = transposed ? out[0] : input, *feature = transposed ? input : out[0];
    if (!describe(arg, image, feature, weight, STRIDE, &c))
        return false;
    if (d == TP_b8 || tp_dtype_is_complex(d) || (transposed && tp_dtype_is_integral(d) && d != TP_i64))
        return fail_dtype(d, input->ndim - 2, transposed);
    if (tp_dtype_is_integral(d))
        return convolve_integers(&c, input, weight, bias, transposed, out[0]);
    tp_conv_view x = view_of(input), w = view_of(weight), y = view_of(out[0]);
    if (!transposed) {
        tp_tensor *dense = bias ? tp_contiguous(bias) : NULL;
        bool ok = (!bias || dense) && tp_conv_forward(d, &c, &x, &w, dense ? tp_tensor_data(dense) : NULL, &y);
        tp_tensor_unref(dense);
        return ok;
    }
    if (bias && (d == TP_f16 || d == TP_bf16))
        return transpose_halves(&c, input, weight, bias, out[0]);
    if (!tp_conv_backward_input(d, &c, &x, &w, &y))
        return false;
    if (bias)
        add_bias(out[0], bias);
    return true;
}

TP_HOOK_K(tp_k_convolution_backward)
{
    enum { GRAD, X, W, BIAS_SIZES, FIRST };
    const tp_tensor *grad = arg[GRAD].tensor, *input = arg[X].tensor, *weight = arg[W].tensor;
    tp_dtype d = (tp_dtype)grad->dtype;
    tp_conv c;
    bool transposed = tp_as_bool(arg[FIRST + 3]);
    const tp_tensor *image = transposed ? grad : input, *feature = transposed ? input : grad;
    if (!describe(arg, image, feature, weight, FIRST, &c))
        return false;
    if (!tp_dtype_is_float(d))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"slow_conv2d_cpu_grad_input\" not implemented for '%s'", tp_dtypes[d].title);
    tp_conv_view g = view_of(grad), x = view_of(input), w = view_of(weight);
    if (out[0]) {
        tp_conv_view to = view_of(out[0]);
        if (!(transposed ? tp_conv_forward(d, &c, &g, &w, NULL, &to) : tp_conv_backward_input(d, &c, &g, &w, &to)))
            return false;
    }
    if (out[1]) {
        tp_conv_view to = view_of(out[1]);
        if (!(transposed ? tp_conv_backward_weight(d, &c, &x, &g, &to) : tp_conv_backward_weight(d, &c, &g, &x, &to)))
            return false;
    }
    if (!out[2])
        return true;
    tp_conv sums = c;
    if (transposed) {
        sums.out_channels = c.in_channels;
        for (int i = 0; i < 3; i++)
            sums.out_size[i] = c.in_size[i];
    }
    return tp_conv_backward_bias(d, &sums, &g, tp_tensor_data(out[2]));
}

/* ---- loops by name ---- */

/* The tensor with a batch of one in front, when it has only `dims` and channels. Counted. */
static tp_tensor *batched(const tp_tensor *t, int dims)
{
    int64_t size[TP_MAX_DIMS] = { 1 }, stride[TP_MAX_DIMS] = { t->numel };
    if (t->ndim == dims + 2)
        return tp_tensor_ref(t);
    for (int i = 0; i < t->ndim; i++) {
        size[i + 1] = t->size[i];
        stride[i + 1] = t->stride[i];
    }
    return tp_tensor_view(t, t->ndim + 1, size, stride, t->offset);
}

/* (self, weight, kernel_size, bias, stride, padding, …); a number stands for a list of it. */
static bool run_loop(const tp_value *arg, tp_tensor *out, tp_value dilation, bool transposed, tp_value output_padding)
{
    int dims = arg[1].tensor->ndim - 2;
    tp_tensor *x = batched(arg[0].tensor, dims), *y = x ? batched(out, dims) : NULL;
    tp_value full[9] = { tp_of_tensor(x), arg[1], arg[3], arg[4], arg[5], dilation, tp_bool(transposed), output_padding, tp_int(1) };
    bool ok = y && tp_k_convolution(full, &y);
    tp_tensor_unref(x);
    tp_tensor_unref(y);
    return ok;
}

TP_HOOK_K(tp_k_slow_conv) { return run_loop(arg, out[0], tp_int(1), false, tp_int(0)); }
TP_HOOK_K(tp_k_slow_conv_dilated) { return run_loop(arg, out[0], arg[6], false, tp_int(0)); }
TP_HOOK_K(tp_k_slow_conv_transpose) { return run_loop(arg, out[0], arg[7], true, arg[6]); }

/* (grad_output, self, weight, kernel_size, stride, padding, output_mask) */
TP_HOOK_K(tp_k_slow_conv_backward)
{
    tp_value full[11] = { arg[0], arg[1], arg[2], tp_none(), arg[4], arg[5], tp_int(1), tp_bool(false), tp_int(0), tp_int(1), arg[6] };
    return tp_k_convolution_backward(full, out);
}
