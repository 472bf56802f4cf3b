/* convolution.c - what convolution asks of its arguments, in PyTorch's words. */
#include "ops/hooks.h"
#include "ops/run.h"
#include "ops/symbolic.h"

static void *fail_sizes(const char *before, const tp_tensor *t, const char *after, int64_t number, const char *end)
{
    tp_text text = { 0 };
    for (int i = 0; i < t->ndim; i++)
        tp_text_add(&text, i ? ", %lld" : "%lld", LL(t->size[i]));
    tp_fail(TP_ERR_RUNTIME, "%s[%s]%s%lld%s", before, tp_text_read(&text), after, LL(number), end);
    tp_text_fini(&text);
    return NULL;
}

/* "(2 x 2)": sizes joined by crosses. */
static void cross(tp_text *out, int n, const int64_t *size)
{
    for (int i = 0; i < n; i++)
        tp_text_add(out, i ? " x %lld" : "%lld", LL(size[i]));
}

static bool check_list(const char *name, tp_value v, int n, int64_t *out)
{
    int count = tp_as_ints(v, out, TP_MAX_DIMS, n);
    for (int i = 0; i < count; i++)
        if (!tp_check_representable(tp_scalar_int(out[i]), TP_i32))     /* sizes and places computed from them must not wrap */
            return false;
    if (count == n)
        return true;
    tp_text text = { 0 };
    tp_value_print(v, &text);
    if (count >= 0)
        tp_fail(TP_ERR_RUNTIME, "expected %s to be a single integer value or a list of %d values to match the convolution dimensions, but got %s=%s",
                name, n, name, tp_text_read(&text));
    tp_text_fini(&text);
    return false;
}

/* A question about sizes: guarded where they are symbolic. */
static bool asks(tp_sym condition, bool *bad)
{
    bool yes = false;
    if (!tp_sym_guard(condition, &yes))
        *bad = true;
    return yes;
}

static bool check_channels(const tp_tensor *input, const tp_tensor *weight, int64_t groups, bool transposed)
{
    int64_t wanted = transposed ? weight->size[0] : weight->size[1] * groups;
    bool bad = false;
    tp_sym needed = transposed ? tp_tensor_sym_size(weight, 0) : tp_sym_mul(tp_tensor_sym_size(weight, 1), tp_sym_int(groups));
    if (asks(tp_sym_eq(tp_tensor_sym_size(input, 1), needed), &bad) || bad)
        return !bad;
    tp_text w = { 0 }, x = { 0 };
    for (int i = 0; i < weight->ndim; i++)
        tp_text_add(&w, i ? ", %lld" : "%lld", LL(weight->size[i]));
    for (int i = 0; i < input->ndim; i++)
        tp_text_add(&x, i ? ", %lld" : "%lld", LL(input->size[i]));
    tp_text mode = { 0 };
    if (transposed)
        tp_text_add(&mode, "transposed=1");
    else
        tp_text_add(&mode, "groups=%lld", LL(groups));
    tp_fail(TP_ERR_RUNTIME, "Given %s, weight of size [%s], expected input[%s] to have %lld channels, but got %lld channels instead",
            tp_text_read(&mode), tp_text_read(&w), tp_text_read(&x), LL(wanted), LL(input->size[1]));
    tp_text_fini(&mode);
    tp_text_fini(&w);
    tp_text_fini(&x);
    return false;
}

static bool check_kernel_fits(const tp_tensor *input, const tp_tensor *weight, int n, const int64_t *padding, const int64_t *dilation)
{
    int64_t padded[TP_MAX_DIMS], kernel[TP_MAX_DIMS];
    bool fits = true, bad = false;
    for (int i = 0; i < n; i++) {
        padded[i] = input->size[i + 2] + 2 * padding[i];
        kernel[i] = dilation[i] * (weight->size[i + 2] - 1) + 1;
        tp_sym reach = tp_sym_mul(tp_sym_int(dilation[i]), tp_sym_sub(tp_tensor_sym_size(weight, i + 2), tp_sym_int(1)));
        fits &= asks(tp_sym_gt(tp_sym_add(tp_tensor_sym_size(input, i + 2), tp_sym_int(2 * padding[i])), reach), &bad);
    }
    if (fits || bad)
        return !bad;
    tp_text p = { 0 }, k = { 0 };
    cross(&p, n, padded);
    cross(&k, n, kernel);
    tp_fail(TP_ERR_RUNTIME, "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater than actual input size",
            tp_text_read(&p), tp_text_read(&k));
    tp_text_fini(&p);
    tp_text_fini(&k);
    return false;
}

/* A transposed convolution compares input and weight alone, a plain one the bias first. */
static bool check_dtypes(const tp_tensor *input, const tp_tensor *weight, const tp_tensor *bias, bool transposed)
{
    if (!transposed && bias && bias->dtype != input->dtype)
        return tp_fail(TP_ERR_RUNTIME, "Input type (%s) and bias type (%s) should be the same", tp_dtypes[input->dtype].cpp, tp_dtypes[bias->dtype].cpp);
    if (input->dtype != weight->dtype)
        return tp_fail(TP_ERR_RUNTIME, "expected scalar type %s but found %s", tp_dtypes[input->dtype].title, tp_dtypes[weight->dtype].title);
    if (bias && bias->dtype != input->dtype)
        return tp_fail(TP_ERR_RUNTIME, "expected scalar type %s but found %s", tp_dtypes[input->dtype].title, tp_dtypes[bias->dtype].title);
    return true;
}

TP_HOOK_C(tp_c_convolution)
{
    const tp_tensor *input = arg[0].tensor, *weight = arg[1].tensor, *bias = tp_as_tensor(arg[2]);
    bool transposed = tp_as_bool(arg[6]);
    int64_t stride[TP_MAX_DIMS], padding[TP_MAX_DIMS], dilation[TP_MAX_DIMS], extra[TP_MAX_DIMS], groups = tp_as_int(arg[8]);
    int n = weight->ndim - 2;
    if (n < 1)
        return tp_fail(TP_ERR_RUNTIME, "weight should have at least three dimensions");
    if (groups <= 0)
        return tp_fail(TP_ERR_RUNTIME, "non-positive groups is not supported");
    if (!check_list("stride", arg[3], n, stride) || !check_list("padding", arg[4], n, padding) ||
        !check_list("dilation", arg[5], n, dilation) || !check_list("output_padding", arg[7], n, extra))
        return false;
    for (int i = 0; i < n; i++) {
        if (padding[i] < 0)
            return tp_fail(TP_ERR_RUNTIME, "negative padding is not supported");
        if (stride[i] <= 0)
            return tp_fail(TP_ERR_RUNTIME, "non-positive stride is not supported");
        if (dilation[i] <= 0) {
            tp_text text = { 0 };
            tp_value_print(arg[5], &text);
            tp_fail(TP_ERR_RUNTIME, "dilation should be greater than zero, but got %s", tp_text_read(&text));
            tp_text_fini(&text);
            return false;
        }
    }
    if (input->ndim != weight->ndim)
        return fail_sizes("Expected an input of as many dims as the weight, but got input of size ", input, " and a weight of ", weight->ndim, " dims");
    bool bad = false;
    if (!asks(tp_sym_eq(tp_sym_mod(tp_tensor_sym_size(weight, 0), tp_sym_int(groups)), tp_sym_int(0)), &bad))
        return bad ? false : fail_sizes("Given groups, expected weight to be divisible by it at dimension 0, but got weight of size ", weight, " instead, groups=", groups, "");
    if (!check_channels(input, weight, groups, transposed))
        return false;
    int64_t outputs = transposed ? weight->size[1] * groups : weight->size[0];
    tp_sym features = transposed ? tp_sym_mul(tp_tensor_sym_size(weight, 1), tp_sym_int(groups)) : tp_tensor_sym_size(weight, 0);
    if (bias && (bias->ndim != 1 || !asks(tp_sym_eq(tp_tensor_sym_size(bias, 0), features), &bad))) {
        if (bad)
            return false;
        tp_text w = { 0 }, b = { 0 };
        for (int i = 0; i < weight->ndim; i++)
            tp_text_add(&w, i ? ", %lld" : "%lld", LL(weight->size[i]));
        for (int i = 0; i < bias->ndim; i++)
            tp_text_add(&b, i ? ", %lld" : "%lld", LL(bias->size[i]));
        tp_fail(TP_ERR_RUNTIME, "Given %sweight of size [%s], expected bias to be 1-dimensional with %lld elements, but got bias of size [%s] instead",
                transposed ? "transposed=1, " : "", tp_text_read(&w), LL(outputs), tp_text_read(&b));
        tp_text_fini(&w);
        tp_text_fini(&b);
        return false;
    }
    return (transposed || check_kernel_fits(input, weight, n, padding, dilation)) && check_dtypes(input, weight, bias, transposed);
}
