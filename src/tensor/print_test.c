/* print_test.c - texts as PyTorch gives them. */
#include <math.h>

#include "base/test.h"
#include "tensor/print.h"

static tp_tensor *floats(int ndim, const int64_t *size, const float *value)
{
    tp_tensor *t = tp_tensor_new(TP_f32, ndim, size);
    if (t && value)
        memcpy(tp_tensor_data(t), value, (size_t)t->numel * sizeof *value);
    return t;
}

static void expect(tp_tensor *t, tp_print_options options, const char *suffix, const char *want)
{
    tp_text out = { 0 };
    if (t)
        tp_tensor_print(t, &options, "tensor(", &suffix, suffix ? 1 : 0, &out);
    TP_EXPECT_TEXT(tp_text_read(&out), want);
    tp_text_fini(&out);
    tp_tensor_unref(t);
}

TP_TEST(floats_share_a_width)
{
    tp_print_options o = TP_PRINT_DEFAULTS, scientific = o;
    scientific.scientific = 1;
    expect(floats(1, (int64_t[]){ 3 }, (float[]){ 1, 2, 3 }), o, NULL, "tensor([1., 2., 3.])");
    expect(floats(1, (int64_t[]){ 3 }, (float[]){ 1.5f, -2, NAN }), o, NULL, "tensor([ 1.5000, -2.0000,     nan])");
    expect(floats(1, (int64_t[]){ 2 }, (float[]){ 1e-5f, 1 }), o, NULL, "tensor([1.0000e-05, 1.0000e+00])");
    expect(floats(1, (int64_t[]){ 2 }, (float[]){ 1, 1001 }), o, NULL, "tensor([1.0000e+00, 1.0010e+03])");
    expect(floats(1, (int64_t[]){ 2 }, (float[]){ 0, INFINITY }), o, NULL, "tensor([0., inf])");
    expect(floats(1, (int64_t[]){ 2 }, (float[]){ 0, 0 }), scientific, NULL, "tensor([0., 0.])");
    expect(floats(0, NULL, (float[]){ 2.5f }), o, "requires_grad=True", "tensor(2.5000, requires_grad=True)");
    expect(floats(1, (int64_t[]){ 0 }, NULL), o, NULL, "tensor([])");
}

TP_TEST(dims_nest_and_long_ones_have_dots)
{
    float value[24];
    tp_print_options o = TP_PRINT_DEFAULTS, few = o;
    few.threshold = 5;
    few.edge_items = 1;
    for (int i = 0; i < 24; i++)
        value[i] = (float)i;
    expect(floats(2, (int64_t[]){ 2, 3 }, value), o, NULL, "tensor([[0., 1., 2.],\n        [3., 4., 5.]])");
    expect(floats(3, (int64_t[]){ 2, 1, 2 }, value), o, NULL, "tensor([[[0., 1.]],\n\n        [[2., 3.]]])");
    expect(floats(1, (int64_t[]){ 24 }, value), few, NULL, "tensor([ 0.,  ..., 23.])");
    expect(floats(2, (int64_t[]){ 4, 6 }, value), few, NULL, "tensor([[ 0.,  ...,  5.],\n        ...,\n        [18.,  ..., 23.]])");
    expect(floats(1, (int64_t[]){ 20 }, value), o, "grad_fn=<MulBackward0>",
           "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n        14., 15., 16., 17., 18., 19.], grad_fn=<MulBackward0>)");
}

TP_TESTS(TP_SWEPT(floats_share_a_width), TP_SWEPT(dims_nest_and_long_ones_have_dots))
