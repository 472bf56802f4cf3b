/* stft.c - transforms of windows that slide over a signal, and back, as calls of ops. */
#include <math.h>
#include <stdio.h>

#include "ops/copy.h"
#include "ops/rules/rules.h"

/* A call as messages show it. */
static void show_call(char *text, size_t room, const char *head, const tp_tensor *self, const char *before, const tp_tensor *window, const char *after)
{
    tp_text sizes = { 0 };
    char look[96] = "None";
    tp_syms s = tp_syms_sizes(self);
    tp_value list = tp_value_of_syms(&s);
    tp_value_print(list, &sizes);
    if (window)
        snprintf(look, sizeof look, "torch.%s{[%lld]}", tp_dtypes[window->dtype].legacy, LL(window->ndim ? window->size[0] : 0));
    snprintf(text, room, "%s%s, %s, window=%s, %s)", head, sizes.at ? sizes.at : "", before, look, after);
    tp_text_fini(&sizes);
    tp_value_unref(list);
}

static const char *show_flag(tp_value v)
{
    return v.tag == TP_NONE ? "None" : tp_as_bool(v) ? "1" : "0";
}

/* A window shorter than the transform stands in the middle of zeros. */
static tp_value centred(tp_scope *scope, tp_value window, const tp_tensor *self, int64_t length, int64_t n_fft)
{
    int64_t left = (n_fft - length) / 2;
    tp_value n = tp_int(n_fft);
    if (length >= n_fft)
        return window;
    tp_dtype d = window.tag == TP_TENSOR ? (tp_dtype)window.tensor->dtype : (tp_dtype)self->dtype;
    tp_value wide = RUN(zeros, tp_scope_list(scope, 1, &n), tp_of_dtype(d), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(self->device));
    tp_value place = RUN(slice_Tensor, wide, tp_int(0), tp_int(left), tp_int(left + length));
    if (window.tag == TP_TENSOR)
        (void)RUN(copy_, place, window);
    else
        (void)RUN(fill__Scalar, place, tp_int(1));
    return wide;
}

/* Signal to [batch, frames, n_fft], and what it must be before that. */
typedef struct sliding {
    int64_t n_fft, hop, length;
    bool    onesided, complex, one;         /* one signal, without a batch dim */
} sliding;

static bool check_stft(const tp_value *arg, const tp_tensor *x, const sliding *w)
{
    const tp_tensor *window = tp_as_tensor(arg[4]);
    char call[512], head[64], before[128], after[160];
    snprintf(head, sizeof head, x->dtype == TP_b8 ? "stft(CPUBoolType" : "stft(torch.%s", tp_dtypes[x->dtype].legacy);
    snprintf(before, sizeof before, "n_fft=%lld, hop_length=%lld, win_length=%lld", LL(w->n_fft), LL(w->hop), LL(w->length));
    snprintf(after, sizeof after, "normalized=%d, onesided=%s, return_complex=%s, align_to_window=%s", tp_as_bool(arg[7]), show_flag(arg[8]),
             show_flag(arg[9]), show_flag(arg[10]));
    show_call(call, sizeof call, head, x, before, window, after);
    int64_t n = x->ndim ? x->size[x->ndim - 1] : 0;
    if (!tp_dtype_is_inexact((tp_dtype)x->dtype))
        return tp_fail(TP_ERR_RUNTIME, "%s : expected a tensor of floating point or complex values", call);
    if (x->ndim > 2 || x->ndim < 1)
        return tp_fail(TP_ERR_RUNTIME, "%s : expected a 1D or 2D tensor", call);
    if (w->n_fft <= 0 || w->n_fft > n)
        return tp_fail(TP_ERR_RUNTIME, "%s : expected 0 < n_fft < %lld, but got n_fft=%lld", call, LL(n), LL(w->n_fft));
    if (w->hop <= 0)
        return tp_fail(TP_ERR_RUNTIME, "%s : expected hop_length > 0, but got hop_length=%lld", call, LL(w->hop));
    if (w->length <= 0 || w->length > w->n_fft)
        return tp_fail(TP_ERR_RUNTIME, "%s : expected 0 < win_length <= n_fft, but got win_length=%lld", call, LL(w->length));
    if (window && (window->ndim != 1 || window->size[0] != w->length)) {
        tp_syms sizes = tp_syms_sizes(window);
        char text[640];
        snprintf(text, sizeof text, "%s : expected a 1D window tensor of size equal to win_length=%lld, but got window with size {}", call, LL(w->length));
        return tp_fail_with(TP_ERR_RUNTIME, text, 1, (tp_value[]){ tp_value_of_syms(&sizes) });
    }
    return true;
}

/* Half a transform is mirrored, or whatever the mode says, beyond both ends. */
static tp_value padded(tp_scope *scope, tp_value x, int64_t n_fft, tp_value mode)
{
    const tp_tensor *t = x.tensor;
    int extra = 3 - t->ndim;
    tp_value size[3] = { tp_int(1), tp_int(1), tp_int(1) }, side[2] = { tp_int(n_fft / 2), tp_int(n_fft / 2) };
    if (t->ndim > 2)
        return RUN(pad, x, tp_scope_list(scope, 2, side), mode);
    for (int i = 0; i < t->ndim; i++)
        size[extra + i] = tp_of_sym(tp_tensor_sym_size(t, i));
    tp_value wide = RUN(pad, RUN(view, x, tp_scope_list(scope, 3, size)), tp_scope_list(scope, 2, side), mode);
    if (scope->failed)
        return tp_none();
    for (int i = extra; i < 3; i++)
        size[i - extra] = tp_of_sym(tp_tensor_sym_size(wide.tensor, i));
    return RUN(view, wide, tp_scope_list(scope, (uint32_t)t->ndim, size));
}

/* (self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window) */
TP_HOOK_D(tp_d_stft)
{
    tp_scope s = { 0 };
    const tp_tensor *window = tp_as_tensor(arg[4]);
    sliding w = { .n_fft = tp_as_int(arg[1]) };
    tp_value x = arg[0];
    (void)op;
    w.hop = arg[2].tag == TP_NONE ? w.n_fft / 4 : tp_as_int(arg[2]);
    w.length = arg[3].tag == TP_NONE ? w.n_fft : tp_as_int(arg[3]);
    w.complex = tp_dtype_is_complex((tp_dtype)x.tensor->dtype) || (window && tp_dtype_is_complex((tp_dtype)window->dtype));
    if (arg[9].tag == TP_NONE && !w.complex)
        return tp_fail(TP_ERR_RUNTIME, "stft requires the return_complex parameter be given for real inputs, and will further require that "
                       "return_complex=True in a future PyTorch release.");
    if (tp_as_bool(arg[5]))
        x = padded(&s, x, w.n_fft, arg[6]);
    if (s.failed || !check_stft(arg, x.tensor, &w))
        return tp_scope_end(&s) && false;
    w.onesided = arg[8].tag == TP_NONE ? !w.complex : tp_as_bool(arg[8]);
    if (w.onesided && w.complex)
        return tp_scope_end(&s) && tp_fail(TP_ERR_RUNTIME, "Cannot have onesided output if window or input is complex");
    w.one = x.tensor->ndim == 1;
    x = w.one ? CALL(unsqueeze, x, tp_int(0)) : x;
    tp_value shape = centred(&s, arg[4], x.tensor, w.length, w.n_fft), last = tp_int(2), dims = tp_scope_list(&s, 1, &last);
    if (s.failed)
        return tp_scope_end(&s);
    int64_t frames = 1 + (tp_sym_fixed(tp_tensor_sym_size(x.tensor, 1), &s.failed) - w.n_fft) / w.hop;     /* a trace is for this length */
    tp_value size[3] = { tp_of_sym(tp_tensor_sym_size(x.tensor, 0)), tp_int(frames), tp_int(w.n_fft) };
    tp_value stride[3] = { tp_int(x.tensor->stride[0]), tp_int(w.hop * x.tensor->stride[1]), tp_int(x.tensor->stride[1]) };
    x = CALL(as_strided, x, tp_scope_list(&s, 3, size), tp_scope_list(&s, 3, stride));
    if (shape.tag == TP_TENSOR)
        x = CALL(mul_Tensor, x, shape);
    tp_value mode = tp_int(tp_as_bool(arg[7]) ? 1 : 0);
    if (s.failed)
        return tp_scope_end(&s);
    tp_value made = tp_dtype_is_complex((tp_dtype)x.tensor->dtype) ? CALL(_fft_c2c, x, dims, mode, tp_bool(true))
                                                                   : CALL(_fft_r2c, x, dims, mode, tp_bool(w.onesided));
    made = CALL(transpose_, made, tp_int(1), tp_int(2));
    made = w.one ? CALL(squeeze__dim, made, tp_int(0)) : made;
    bool complex = arg[9].tag == TP_NONE ? true : tp_as_bool(arg[9]);
    return tp_rule_done(&s, complex ? made : CALL(view_as_real, made), result);
}

/* ---- back ---- */
static bool check_istft(const tp_value *arg, const sliding *w)
{
    const tp_tensor *self = arg[0].tensor, *window = tp_as_tensor(arg[4]);
    char call[512], head[64], before[128], after[160], length[24] = "None";
    int64_t rows = self->size[self->ndim - 2], columns = self->size[self->ndim - 1], expected = w->onesided ? w->n_fft / 2 + 1 : w->n_fft;
    if (arg[8].tag != TP_NONE)
        snprintf(length, sizeof length, "%lld", LL(tp_as_int(arg[8])));
    snprintf(head, sizeof head, "istft(CPU%sType", tp_dtypes[self->dtype].title);
    snprintf(before, sizeof before, "n_fft=%lld, hop_length=%lld, win_length=%lld", LL(w->n_fft), LL(w->hop), LL(w->length));
    snprintf(after, sizeof after, "center=%d, normalized=%d, onesided=%s, length=%s, return_complex=%d", tp_as_bool(arg[5]), tp_as_bool(arg[6]),
             show_flag(arg[7]), length, tp_as_bool(arg[9]));
    show_call(call, sizeof call, head, self, before, window, after);
    if (!self->numel)
        return tp_fail(TP_ERR_RUNTIME, "%s : input tensor cannot be empty.", call);
    if (self->ndim != 2 && self->ndim != 3)
        return tp_fail(TP_ERR_RUNTIME, "%s : expected a tensor with 3 or 4 dimensions, but got %d", call, self->ndim + 1);
    if (rows != expected && !(rows > expected && w->onesided))
        return tp_fail(TP_ERR_RUNTIME, "%s : expected the frequency dimension (3rd to the last) of the input tensor to match %s when onesided=%s, but got %lld",
                       call, w->onesided ? "n_fft / 2 + 1" : "n_fft", w->onesided ? "True" : "False", LL(rows));
    (void)columns;
    if (w->hop <= 0 || w->hop > w->length)
        return tp_fail(TP_ERR_RUNTIME, "%s : expected 0 < hop_length <= win_length", call);
    if (w->length <= 0 || w->length > w->n_fft)
        return tp_fail(TP_ERR_RUNTIME, "%s : expected 0 < win_length <= n_fft", call);
    if (window && (window->ndim != 1 || window->size[0] != w->length))
        return tp_fail(TP_ERR_RUNTIME, "%s : Invalid window shape. window has to be 1D and length of `win_length`", call);
    return true;
}

/* Frames [batch, frames, n_fft] added up where they overlap. */
static tp_value overlapped(tp_scope *scope, tp_value frames, int64_t total, const sliding *w)
{
    if (scope->failed)
        return tp_none();
    tp_value size[2] = { tp_of_sym(tp_tensor_sym_size(frames.tensor, 0)), tp_int(total) };
    return RUN(unfold_backward, frames, tp_scope_list(scope, 2, size), tp_int(1), tp_int(w->n_fft), tp_int(w->hop));
}

static bool reaches_zero(const tp_tensor *envelope)
{
    if (!tp_rule_readable(envelope))
        return false;
    tp_tensor *wide = tp_tensor_new(TP_f64, envelope->ndim, envelope->size);
    bool zero = false;
    if (!wide)
        return false;
    tp_copy(wide, envelope);
    for (int64_t i = 0; i < wide->numel; i++)
        zero |= fabs(((const double *)tp_tensor_data(wide))[i]) < 1e-11;
    tp_tensor_unref(wide);
    return zero;
}

/* istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex) */
TP_HOOK_D(tp_d_istft)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor, *window = tp_as_tensor(arg[4]);
    sliding w = { .n_fft = tp_as_int(arg[1]), .one = self->ndim == 2 };
    bool complex = tp_as_bool(arg[9]), center = tp_as_bool(arg[5]);
    (void)op;
    if (!tp_dtype_is_complex((tp_dtype)self->dtype))
        return tp_fail(TP_ERR_RUNTIME, "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.");
    if (self->ndim < 2)
        return tp_fail(TP_ERR_INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got -3)");
    w.hop = arg[2].tag == TP_NONE ? w.n_fft / 4 : tp_as_int(arg[2]);
    w.length = arg[3].tag == TP_NONE ? w.n_fft : tp_as_int(arg[3]);
    w.onesided = arg[7].tag == TP_NONE ? self->size[self->ndim - 2] != w.n_fft : tp_as_bool(arg[7]);
    if (!check_istft(arg, &w))
        return false;
    if (complex && w.onesided)
        return tp_fail(TP_ERR_RUNTIME, "Cannot have onesided output if window or input is complex");
    tp_value shape = arg[4], n = tp_int(w.n_fft), last = tp_int(2), dims = tp_scope_list(&s, 1, &last), zero = tp_int(0), one = tp_int(1);
    if (!window)
        shape = CALL(ones, tp_scope_list(&s, 1, &n), tp_of_dtype(tp_dtype_to_real((tp_dtype)self->dtype)), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(self->device));
    else if (w.length < w.n_fft) {
        int64_t left = (w.n_fft - w.length) / 2;
        tp_value side[2] = { tp_int(left), tp_int(w.n_fft - w.length - left) };
        shape = CALL(constant_pad_nd, shape, tp_scope_list(&s, 2, side));
    }
    tp_value x = CALL(view_as_real, CALL(resolve_conj, arg[0]));
    x = CALL(view_as_complex, CALL(transpose_int, w.one ? CALL(unsqueeze, x, zero) : x, one, last));
    if (s.failed)
        return tp_scope_end(&s);
    int64_t frames = x.tensor->size[1], total = w.n_fft + w.hop * (frames - 1);
    tp_value mode = tp_int(tp_as_bool(arg[6]) ? 1 : 2);
    if (complex) {
        x = CALL(_fft_c2c, x, dims, mode, tp_bool(false));
    } else {
        if (!w.onesided)
            x = CALL(slice_Tensor, x, tp_int(-1), zero, tp_int(w.n_fft / 2 + 1));
        x = CALL(_fft_c2r, x, dims, mode, n);
    }
    tp_value row[3] = { one, one, n }, each[3] = { one, tp_int(frames), n };
    x = overlapped(&s, CALL(mul_Tensor, x, CALL(view, shape, tp_scope_list(&s, 3, row))), total, &w);
    tp_value weight = overlapped(&s, CALL(expand, CALL(pow_Tensor_Scalar, shape, last), tp_scope_list(&s, 3, each)), total, &w);
    tp_value start = tp_int(center ? w.n_fft / 2 : 0), end = tp_int(total);
    if (arg[8].tag != TP_NONE)
        end = tp_int(start.i + tp_as_int(arg[8]));
    else if (center)
        end = tp_int(-(w.n_fft / 2));
    x = CALL(slice_Tensor, x, one, start, end);
    weight = CALL(slice_Tensor, weight, one, start, end);
    if (!s.failed && reaches_zero(weight.tensor))
        return tp_scope_end(&s) && tp_fail(TP_ERR_RUNTIME, "window overlap add min: 1");
    x = CALL(div_Tensor, x, weight);
    x = w.one ? CALL(squeeze_dim, x, zero) : x;
    if (!s.failed && arg[8].tag != TP_NONE && start.i + tp_as_int(arg[8]) > total) {
        int64_t have = x.tensor->size[x.tensor->ndim - 1];
        tp_value side[2] = { zero, tp_int(tp_as_int(arg[8]) - have) };
        x = CALL(constant_pad_nd, x, tp_scope_list(&s, 2, side));
    }
    return tp_rule_done(&s, x, result);
}
