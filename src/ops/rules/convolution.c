/* convolution.c - what convolution asks of its arguments, in PyTorch's words; padding by name, and complex numbers. */
#include "ops/rules/rules.h"
#include "ops/run.h"

static bool fail_dims(const tp_tensor *input, const tp_tensor *weight)
{
    tp_syms have = tp_syms_sizes(weight), given = tp_syms_sizes(input);
    return tp_fail_with(TP_ERR_RUNTIME, "Expected {}-dimensional input for {}-dimensional weight{}, but got {}-dimensional input of size {} instead", 5,
                        (tp_value[]){ tp_int(weight->ndim), tp_int(weight->ndim), tp_value_of_syms(&have), tp_int(input->ndim), tp_value_of_syms(&given) });
}

static bool fail_groups(const tp_tensor *weight, int64_t groups)
{
    tp_syms have = tp_syms_sizes(weight);
    return tp_fail_with(TP_ERR_RUNTIME, "Given groups={}, expected weight to be divisible by {} at dimension 0, but got weight of size [{}] instead", 3,
                        (tp_value[]){ tp_int(groups), tp_int(groups), tp_value_of_syms(&have) });
}

/* "(2 x 2)": sizes joined by crosses. */
static void cross(tp_text *out, int n, const int64_t *size)
{
    for (int i = 0; i < n; i++)
        tp_text_add(out, i ? " x %lld" : "%lld", LL(size[i]));
}

static bool check_list(const char *name, tp_value v, int n, int64_t *out)
{
    int count = tp_hints_of(v, out, TP_MAX_DIMS, n);
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
    int channel = input->ndim - weight->ndim + 1;
    if (asks(tp_sym_eq(tp_tensor_sym_size(input, channel), needed), &bad) || bad)
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
            tp_text_read(&mode), tp_text_read(&w), tp_text_read(&x), LL(wanted), LL(input->size[channel]));
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
        int dim = input->ndim - n + i;
        padded[i] = input->size[dim] + 2 * padding[i];
        kernel[i] = dilation[i] * (weight->size[i + 2] - 1) + 1;
        tp_sym reach = tp_sym_mul(tp_sym_int(dilation[i]), tp_sym_sub(tp_tensor_sym_size(weight, i + 2), tp_sym_int(1)));
        fits &= asks(tp_sym_gt(tp_sym_add(tp_tensor_sym_size(input, dim), tp_sym_int(2 * padding[i])), reach), &bad);
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

/* What is added to a transposed convolution's size must be less than its steps. One dim is named as the second of two. */
static bool check_output_padding(int n, const int64_t *extra, const int64_t *stride, const int64_t *dilation)
{
    static const char *const dim[3] = { "depth", "height", "width" };
    bool good = true;
    for (int i = 0; i < n; i++)
        good &= extra[i] < stride[i] || extra[i] < dilation[i];
    if (good || n > 3)
        return true;
    const struct { const char *name; const int64_t *value; int64_t absent; } row[3] = { { "output_padding", extra, 0 }, { "stride", stride, 1 }, { "dilation", dilation, 1 } };
    tp_text text = { 0 };
    for (int k = 0; k < 3; k++)
        for (int i = n < 2 ? -1 : 0; i < n; i++)
            tp_text_add(&text, " %s_%s: %lld", row[k].name, dim[3 - n + i], LL(i < 0 ? row[k].absent : row[k].value[i]));
    tp_fail(TP_ERR_RUNTIME, "output padding must be smaller than either stride or dilation, but got%s", tp_text_read(&text));
    tp_text_fini(&text);
    return false;
}

/* Without elements may be the batch or the channels; windows over nothing, and of nothing, are refused. */
static bool check_extents(const tp_tensor *input, const tp_tensor *weight)
{
    int n = weight->ndim - 2, channel = input->ndim - n - 1;
    bool empty = false, no_kernel = false;
    for (int i = 0; i < n; i++) {
        empty |= input->size[input->ndim - n + i] == 0;
        no_kernel |= weight->size[i + 2] == 0;
    }
    if (input->size[channel] == 0 || (channel && input->size[0] == 0) || (!empty && !no_kernel))
        return true;
    if (!empty)
        return tp_fail(TP_ERR_RUNTIME, "could not create a primitive descriptor for the convolution forward propagation primitive");
    tp_text shape = { 0 };
    for (int i = 0; i < input->ndim; i++)
        tp_text_add(&shape, i ? ", %lld" : channel ? "%lld" : "1, %lld", LL(input->size[i]));
    tp_fail(TP_ERR_RUNTIME, "Only zero batch or zero channel inputs are supported, but got input shape: [%s]", tp_text_read(&shape));
    tp_text_fini(&shape);
    return false;
}

/* `single`: the input may lack its batch dim. */
static bool check(const tp_value *arg, bool single)
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
    if (input->ndim != weight->ndim && !(single && input->ndim == weight->ndim - 1))
        return fail_dims(input, weight);
    bool bad = false;
    if (weight->size[0] < groups) {
        tp_syms have = tp_syms_sizes(weight);
        return tp_fail_with(TP_ERR_RUNTIME, "Given groups={}, expected weight to be at least {} at dimension 0, but got weight of size {} instead", 3,
                            (tp_value[]){ tp_int(groups), tp_int(groups), tp_value_of_syms(&have) });
    }
    if (!asks(tp_sym_eq(tp_sym_mod(tp_tensor_sym_size(weight, 0), tp_sym_int(groups)), tp_sym_int(0)), &bad))
        return bad ? false : fail_groups(weight, groups);
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
    return (transposed ? check_output_padding(n, extra, stride, dilation) : check_kernel_fits(input, weight, n, padding, dilation)) &&
           check_dtypes(input, weight, bias, transposed) && check_extents(input, weight);
}

TP_HOOK_C(tp_c_convolution) { return check(arg, false); }
TP_HOOK_C(tp_c_convolution_loop) { return check(arg, true); }

/* ---- padding by name ---- */

/* arg: input, weight, bias, stride, padding, dilation, groups. "same" pads by dilation * (kernel - 1) in all; what does not
 * split evenly goes after the input. */
static bool convolve_by_name(const tp_value *arg, bool complex, tp_value *result)
{
    const tp_tensor *weight = arg[1].tensor;
    int n = weight->ndim - 2;
    tp_scope s = { 0 };
    bool bad = false, even = true;
    tp_syms zeros = { .count = n < 0 ? 0 : n }, stride = tp_syms_read(arg[3], n, &bad), dilation = tp_syms_read(arg[5], n, &bad), padding = zeros;
    tp_syms extra = { .count = 2 * zeros.count };
    if (n < 1)
        return tp_fail(TP_ERR_RUNTIME, "weight should have at least three dimensions");
    for (int i = 0; i < n; i++)
        zeros.item[i] = padding.item[i] = tp_sym_int(0);
    tp_value input = arg[0];
    if (!bad && !strcmp(tp_str_read(arg[4]), "same")) {
        if (input.tensor->ndim != weight->ndim)
            return fail_dims(input.tensor, weight);
        for (int i = 0; i < n && !bad; i++) {
            if (!tp_guard(tp_sym_eq(stride.item[i < stride.count ? i : 0], tp_sym_int(1)), &bad) && !bad)
                return tp_fail(TP_ERR_RUNTIME, "padding='same' is not supported for strided convolutions");
            tp_sym all = tp_sym_mul(dilation.item[i < dilation.count ? i : 0], tp_sym_sub(tp_tensor_sym_size(weight, i + 2), tp_sym_int(1)));
            padding.item[i] = tp_sym_floordiv(all, tp_sym_int(2));
            extra.item[2 * (n - 1 - i)] = tp_sym_int(0);
            extra.item[2 * (n - 1 - i) + 1] = tp_sym_sub(all, tp_sym_add(padding.item[i], padding.item[i]));
            even &= tp_guard(tp_sym_eq(extra.item[2 * (n - 1 - i) + 1], tp_sym_int(0)), &bad);
        }
        if (!even && !bad)
            input = CALL(constant_pad_nd, input, tp_scope_syms(&s, &extra), tp_int(0));
    }
    if (bad) {
        tp_scope_end(&s);
        return false;
    }
    tp_value full[9] = { input, arg[1], arg[2], arg[3], tp_scope_syms(&s, &padding), arg[5], tp_bool(false), tp_scope_syms(&s, &zeros), arg[6] };
    return tp_rule_done(&s, complex ? tp_scope_piece(&s, tp_d_complex_convolution, full) : tp_scope_call(&s, &tp_op_convolution, full), result);
}

TP_HOOK_D(tp_d_convolution_mode) { (void)op; return convolve_by_name(arg, false, result); }
TP_HOOK_D(tp_d_complex_convolution_mode) { (void)op; return convolve_by_name(arg, true, result); }

/* ---- complex numbers ---- */

static tp_value part(tp_scope *scope, tp_value real, int which)
{
    return real.tag == TP_TENSOR ? tp_rule_call(scope, &tp_op_select_int, 3, (tp_value[]){ real, tp_int(real.tensor->ndim - 1), tp_int(which) }) : tp_none();
}

/* arg: those of convolution; an input without its batch dim too. Three real convolutions:
 * (a + bi)(c + di) = (ac - bd) + ((a + b)(c + d) - ac - bd)i. */
TP_HOOK_D(tp_d_complex_convolution)
{
    tp_scope s = { 0 };
    tp_value half[3][2], full[3][9], x = arg[0];
    bool single = x.tensor->ndim == arg[1].tensor->ndim - 1, bias = arg[2].tag == TP_TENSOR;
    (void)op;
    if (single)
        x = CALL(unsqueeze, x, tp_int(0));
    for (int i = 0; i < 3; i++) {
        tp_value whole = i ? arg[i] : x, real = i < 2 || bias ? CALL(view_as_real, CALL(resolve_conj, whole)) : tp_none();
        for (int k = 0; k < 2; k++)
            half[i][k] = part(&s, real, k);
    }
    for (int i = 0; i < 3; i++)
        memcpy(full[i], arg, sizeof full[i]);
    for (int i = 0; i < 3; i++) {
        full[0][i] = half[i][0];
        full[1][i] = i < 2 ? half[i][1] : tp_none();
    }
    tp_value a = s.failed ? tp_none() : tp_scope_call(&s, &tp_op_convolution, full[0]);
    tp_value b = s.failed ? tp_none() : tp_scope_call(&s, &tp_op_convolution, full[1]);
    full[2][2] = bias ? CALL(add_Tensor, half[2][0], half[2][1]) : tp_none();
    full[2][1] = CALL(add_Tensor, half[1][0], half[1][1]);
    full[2][0] = CALL(add_Tensor, half[0][0], half[0][1]);
    tp_value c = s.failed ? tp_none() : tp_scope_call(&s, &tp_op_convolution, full[2]);
    tp_value imaginary = CALL(mul_Scalar, CALL(sub_Tensor, CALL(sub_Tensor, c, a), b), tp_scope_own(&s, tp_value_complex(0, 1)));
    tp_value y = CALL(add_Tensor, CALL(sub_Tensor, a, b), imaginary);
    return tp_rule_done(&s, single ? CALL(squeeze_dim, y, tp_int(0)) : y, result);
}

/* ---- time first, channels last ---- */

/* conv_tbc(self, weight, bias, pad): a product for each tap. */
TP_HOOK_D(tp_d_conv_tbc)
{
    tp_scope s = { 0 };
    int64_t pad = tp_as_int(arg[3]);
    tp_sym taps = tp_tensor_sym_size(arg[1].tensor, 0);
    bool bad = false;
    int64_t count = tp_sym_fixed(taps, &bad);
    (void)op;
    if (bad)
        return false;
    tp_sym steps = tp_sym_add(tp_tensor_sym_size(arg[0].tensor, 0), tp_sym_int(2 * pad - count + 1));
    tp_value padded = CALL(constant_pad_nd, arg[0], tp_scope_list(&s, 6, (tp_value[]){ tp_int(0), tp_int(0), tp_int(0), tp_int(0), tp_int(pad), tp_int(pad) }), tp_int(0));
    tp_sym batch = tp_tensor_sym_size(arg[0].tensor, 1), in = tp_tensor_sym_size(arg[0].tensor, 2), out = tp_tensor_sym_size(arg[1].tensor, 2);
    tp_syms rows = { 2, { tp_sym_mul(steps, batch), in } }, size = { 3, { steps, batch, out } };
    tp_value sum = arg[2];
    for (int64_t k = 0; k < count && !s.failed; k++) {
        tp_value part = CALL(slice_Tensor, padded, tp_int(0), tp_int(k), tp_of_sym(tp_sym_add(steps, tp_sym_int(k))));
        sum = CALL(addmm, sum, CALL(reshape, part, tp_scope_syms(&s, &rows)), CALL(select_int, arg[1], tp_int(0), tp_int(k)));
    }
    return tp_rule_done(&s, CALL(view, sum, tp_scope_syms(&s, &size)), result);
}
