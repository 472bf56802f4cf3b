/* fft.c - the functions of torch.fft as calls of _fft_c2c, _fft_r2c and _fft_c2r. */
#include "ops/rules/rules.h"

/* ---- layout of results; an op's arguments begin with self, dim ---- */
static void sort_by_stride(const tp_tensor *t, int *dim, int count)
{
    for (int i = 1; i < count; i++) {
        int moving = dim[i], j = i;
        for (; j > 0 && t->stride[dim[j - 1]] < t->stride[moving]; j--)
            dim[j] = dim[j - 1];
        dim[j] = moving;
    }
}

/* Dims from outermost to innermost. */
static bool order_of(const tp_value *arg, bool keep_last, tp_syms *out)
{
    const tp_tensor *self = arg[0].tensor;
    int64_t given[TP_MAX_DIMS];
    int order[TP_MAX_DIMS], transformed[TP_MAX_DIMS], others = 0;
    int count = tp_as_ints(arg[1], given, TP_MAX_DIMS, 0);
    bool bad = count < 0;
    uint64_t mask = tp_wrap_all(given, count, self->ndim, &bad);
    if (bad)
        return false;
    for (int i = 0; i < count; i++)
        transformed[i] = (int)given[i];
    for (int i = 0; i < self->ndim; i++)
        if (!(mask >> i & 1))
            order[others++] = i;
    sort_by_stride(self, order, others);
    sort_by_stride(self, transformed, count - (keep_last && count > 0));
    out->count = 0;
    for (int i = 0; i < self->ndim; i++)
        tp_syms_add(out, tp_sym_int(i < others ? order[i] : transformed[i - others]));
    return true;
}

TP_HOOK_S(tp_s_fft_order)
{
    return order_of(arg, false, out);
}

/* The halved dim stays the last. */
TP_HOOK_S(tp_s_fft_order_half)
{
    return order_of(arg, true, out);
}

/* (g, dim, normalization): every coefficient that stands for two counts twice. */
TP_HOOK_D(tp_d_fft_c2r_backward)
{
    tp_scope s = { 0 };
    int64_t dim[TP_MAX_DIMS];
    int count = tp_as_ints(arg[1], dim, TP_MAX_DIMS, 0);
    (void)op;
    tp_value made = CALL(_fft_r2c, arg[0], arg[1], arg[2], tp_bool(true));
    if (s.failed || count < 1)
        return tp_scope_end(&s);
    int last = (int)tp_wrap(dim[count - 1], arg[0].tensor->ndim, &s.failed);
    tp_sym twice = tp_sym_sub(tp_tensor_sym_size(arg[0].tensor, last), tp_tensor_sym_size(made.tensor, last));
    if (arg[0].tensor->size[last] > made.tensor->size[last])
        (void)CALL(mul__Scalar, CALL(slice_Tensor, made, arg[1].list->item[count - 1], tp_int(1), tp_of_sym(tp_sym_add(twice, tp_sym_int(1)))), tp_int(2));
    return tp_rule_done(&s, made, result);
}

/* ---- arguments ---- */
static bool norm_mode(tp_value norm, bool forward, int64_t *mode)
{
    const char *text = norm.tag == TP_STRING ? norm.string->text : "backward";
    if (!strcmp(text, "ortho"))
        *mode = 1;
    else if (!strcmp(text, "backward"))
        *mode = forward ? 0 : 2;
    else if (!strcmp(text, "forward"))
        *mode = forward ? 2 : 0;
    else
        return tp_fail(TP_ERR_RUNTIME, "Invalid normalization mode: \"%s\"", text);
    return true;
}

/* Numbers that can be transformed: integers become the default type, and complex ones where asked. */
static tp_value promoted(tp_scope *scope, tp_value x, bool complex)
{
    tp_dtype d = (tp_dtype)x.tensor->dtype;
    if (!tp_dtype_is_inexact(d))
        d = (tp_dtype)tp_the_runtime.default_dtype;
    if (d == TP_f16 || d == TP_bf16) {
        (void)tp_fail(TP_ERR_RUNTIME, "Unsupported dtype %s", tp_dtypes[d].title);
        scope->failed = true;
        return tp_none();
    }
    if (complex && !tp_dtype_is_complex(d))
        d = tp_dtype_to_complex(d);
    return d == (tp_dtype)x.tensor->dtype ? x : RUN(_to_copy, x, tp_of_dtype(d));
}

/* Cut, or filled with zeros, to the sizes along dims; a size of -1 stays. Cuts come before the one filling of all dims. */
static tp_value resized(tp_scope *scope, tp_value x, int count, const int64_t *dim, const tp_value *size)
{
    bool fill = false;
    tp_value pad[2 * TP_MAX_DIMS];
    int n = scope->failed ? 0 : x.tensor->ndim;
    for (int i = 0; i < 2 * n; i++)
        pad[i] = tp_int(0);
    for (int i = 0; i < count && !scope->failed; i++) {
        bool stays = size[i].tag == TP_NONE || (size[i].tag == TP_INT && size[i].i == -1);
        tp_sym have = tp_tensor_sym_size(x.tensor, (int)dim[i]);
        tp_sym want = stays ? have : tp_syms_read(tp_scope_list(scope, 1, &size[i]), 0, &scope->failed).item[0];
        if (scope->failed)
            break;
        if (tp_guard(tp_sym_lt(want, tp_sym_int(1)), &scope->failed)) {
            (void)tp_fail(TP_ERR_RUNTIME, "Invalid number of data points (%lld) specified", LL(stays ? 0 : tp_as_int(size[i])));
            scope->failed = true;
        } else if (!stays && tp_guard(tp_sym_lt(have, want), &scope->failed)) {
            pad[2 * (n - 1 - dim[i]) + 1] = tp_of_sym(tp_sym_sub(want, have));
            fill = true;
        } else if (!stays && tp_guard(tp_sym_lt(want, have), &scope->failed)) {
            x = RUN(slice_Tensor, x, tp_int(dim[i]), tp_int(0), size[i]);
        }
    }
    return fill ? RUN(constant_pad_nd, x, tp_scope_list(scope, 2 * (uint32_t)n, pad)) : x;
}

/* Of a call (self, n, dim, norm): which dim, and how results are scaled. */
static bool start_one(tp_scope *scope, const tp_value *arg, bool forward, int64_t *dim, int64_t *mode)
{
    const tp_tensor *self = arg[0].tensor;
    if (self->ndim == 0)
        scope->failed = !tp_fail(TP_ERR_INDEX, "Dimension specified as %lld but tensor has no dimensions", LL(tp_as_int(arg[2])));
    else
        *dim = tp_wrap(tp_as_int(arg[2]), self->ndim, &scope->failed);
    if (!scope->failed && !norm_mode(arg[3], forward, mode))
        scope->failed = true;
    return !scope->failed;
}

/* How long the result of a transform to real numbers is: n, or twice the input but for its ends. */
static tp_value real_length(tp_scope *scope, tp_value x, int64_t dim, tp_value n)
{
    if (scope->failed)
        return tp_none();
    if (n.tag == TP_NONE || (n.tag == TP_INT && n.i == -1))
        n = tp_of_sym(tp_sym_mul(tp_sym_sub(tp_tensor_sym_size(x.tensor, (int)dim), tp_sym_int(1)), tp_sym_int(2)));
    if (tp_hint_of(n) < 1) {
        (void)tp_fail(TP_ERR_RUNTIME, "Invalid number of data points (%lld) specified", LL(tp_hint_of(n)));
        scope->failed = true;
    }
    return n;
}

/* n // 2 + 1 */
static tp_value half_of(tp_scope *scope, tp_value n)
{
    if (n.tag == TP_INT)
        return tp_int(n.i / 2 + 1);
    tp_sym word = tp_syms_read(tp_scope_list(scope, 1, &n), 0, &scope->failed).item[0];
    return tp_of_sym(tp_sym_add(tp_sym_floordiv(word, tp_sym_int(2)), tp_sym_int(1)));
}

/* ---- one dim ---- */
static bool transform_one(const tp_value *arg, bool forward, tp_value *result)
{
    tp_scope s = { 0 };
    int64_t mode, dim;
    if (!start_one(&s, arg, forward, &dim, &mode))
        return tp_scope_end(&s);
    tp_value x = resized(&s, promoted(&s, arg[0], false), 1, &dim, &arg[1]), at = tp_int(dim), dims = tp_scope_list(&s, 1, &at), made;
    if (s.failed)
        return tp_scope_end(&s);
    if (tp_dtype_is_complex((tp_dtype)x.tensor->dtype)) {
        made = CALL(_fft_c2c, x, dims, tp_int(mode), tp_bool(forward));
    } else {
        made = CALL(_fft_r2c, x, dims, tp_int(mode), tp_bool(false));
        made = forward ? made : tp_scope_conj(&s, made);
    }
    return tp_rule_done(&s, made, result);
}

TP_HOOK_D(tp_d_fft_fft)
{
    (void)op;
    return transform_one(arg, true, result);
}

TP_HOOK_D(tp_d_fft_ifft)
{
    (void)op;
    return transform_one(arg, false, result);
}

/* rfft, and ihfft with the other sign. */
static bool from_real(const tp_value *arg, bool forward, tp_value *result)
{
    tp_scope s = { 0 };
    int64_t mode, dim;
    if (!start_one(&s, arg, forward, &dim, &mode))
        return tp_scope_end(&s);
    tp_value x = resized(&s, promoted(&s, arg[0], false), 1, &dim, &arg[1]), at = tp_int(dim);
    tp_value made = CALL(_fft_r2c, x, tp_scope_list(&s, 1, &at), tp_int(mode), tp_bool(true));
    return tp_rule_done(&s, forward ? made : tp_scope_conj(&s, made), result);
}

TP_HOOK_D(tp_d_fft_rfft)
{
    (void)op;
    return from_real(arg, true, result);
}

TP_HOOK_D(tp_d_fft_ihfft)
{
    (void)op;
    return from_real(arg, false, result);
}

/* irfft, and hfft with the other sign. */
static bool to_real(const tp_value *arg, bool forward, tp_value *result)
{
    tp_scope s = { 0 };
    int64_t mode, dim;
    if (!start_one(&s, arg, forward, &dim, &mode))
        return tp_scope_end(&s);
    tp_value x = promoted(&s, arg[0], true), n = real_length(&s, x, dim, arg[1]), half = half_of(&s, n), at = tp_int(dim);
    x = s.failed ? x : resized(&s, x, 1, &dim, arg[1].tag == TP_NONE ? &arg[1] : &half);
    x = forward ? tp_scope_conj(&s, x) : x;
    return tp_rule_done(&s, CALL(_fft_c2r, x, tp_scope_list(&s, 1, &at), tp_int(mode), n), result);
}

TP_HOOK_D(tp_d_fft_irfft)
{
    (void)op;
    return to_real(arg, false, result);
}

TP_HOOK_D(tp_d_fft_hfft)
{
    (void)op;
    return to_real(arg, true, result);
}

/* ---- several dims ---- */
typedef struct several {
    int      count;
    int64_t  dim[TP_MAX_DIMS];      /* wrapped */
    tp_value size[TP_MAX_DIMS];     /* none: as it is */
    tp_value dims;                  /* boxed, owned by the scope */
} several;

/* Of a call (self, s, dim, norm). Without dim, the last dims that s is about, or all. */
static bool read_several(tp_scope *scope, const tp_value *arg, several *w)
{
    const tp_tensor *self = arg[0].tensor;
    uint64_t seen = 0;
    bool sizes = arg[1].tag != TP_NONE;
    int n = sizes ? (int)tp_length(arg[1]) : 0;
    if (arg[2].tag != TP_NONE) {
        w->count = tp_as_ints(arg[2], w->dim, TP_MAX_DIMS, 0);
        for (int i = 0; i < w->count; i++) {
            w->dim[i] = tp_wrap(w->dim[i], self->ndim, &scope->failed);
            if (scope->failed)
                return false;
            if (seen >> w->dim[i] & 1)
                return tp_fail(TP_ERR_RUNTIME, "FFT dims must be unique");
            seen |= (uint64_t)1 << w->dim[i];
        }
        if (w->count >= 0 && sizes && n != w->count)
            return tp_fail(TP_ERR_RUNTIME, "When given, dim and shape arguments must have the same length");
    } else {
        if (n > self->ndim)
            return tp_fail(TP_ERR_RUNTIME, "Got shape with %d values but input tensor only has %d dimensions.", n, self->ndim);
        w->count = sizes ? n : self->ndim;
        for (int i = 0; i < w->count; i++)
            w->dim[i] = self->ndim - w->count + i;
    }
    tp_value boxed[TP_MAX_DIMS];
    for (int i = 0; i < w->count; i++) {
        w->size[i] = sizes ? arg[1].list->item[i] : tp_none();
        boxed[i] = tp_int(w->dim[i]);
        bool keep = w->size[i].tag == TP_NONE || (w->size[i].tag == TP_INT && w->size[i].i == -1);
        if (!keep && tp_as_int(w->size[i]) < 1)
            return tp_fail(TP_ERR_RUNTIME, "Invalid number of data points (%lld) specified", LL(tp_as_int(w->size[i])));
    }
    w->dims = tp_scope_list(scope, (uint32_t)w->count, boxed);
    return w->count >= 0;
}

/* All dims but the last. */
static tp_value but_last(tp_scope *scope, const several *w)
{
    return tp_scope_list(scope, (uint32_t)w->count - 1, w->dims.list->item);
}

static tp_value only_last(tp_scope *scope, const several *w)
{
    return tp_scope_list(scope, 1, &w->dims.list->item[w->count - 1]);
}

static bool start(tp_scope *scope, const tp_value *arg, bool forward, const char *name, several *w, int64_t *mode)
{
    if (!read_several(scope, arg, w) || !norm_mode(arg[3], forward, mode))
        scope->failed = true;
    else if (name && !w->count)
        scope->failed = !tp_fail(TP_ERR_RUNTIME, "%s must transform at least one axis", name);
    return !scope->failed;
}

static bool transform_several(const tp_value *arg, bool forward, tp_value *result)
{
    tp_scope s = { 0 };
    several w;
    int64_t mode = 0;
    if (!start(&s, arg, forward, NULL, &w, &mode))
        return tp_scope_end(&s);
    tp_value x = resized(&s, promoted(&s, arg[0], true), w.count, w.dim, w.size);
    if (!w.count)
        return tp_rule_done(&s, x.tag == TP_TENSOR && x.tensor == arg[0].tensor ? CALL(clone, x) : x, result);
    return tp_rule_done(&s, CALL(_fft_c2c, x, w.dims, tp_int(mode), tp_bool(forward)), result);
}

TP_HOOK_D(tp_d_fft_fftn)
{
    (void)op;
    return transform_several(arg, true, result);
}

TP_HOOK_D(tp_d_fft_ifftn)
{
    (void)op;
    return transform_several(arg, false, result);
}

TP_HOOK_D(tp_d_fft_rfftn)
{
    tp_scope s = { 0 };
    several w;
    int64_t mode = 0;
    (void)op;
    if (!start(&s, arg, true, "rfftn", &w, &mode))
        return tp_scope_end(&s);
    tp_value x = resized(&s, promoted(&s, arg[0], false), w.count, w.dim, w.size);
    return tp_rule_done(&s, CALL(_fft_r2c, x, w.dims, tp_int(mode), tp_bool(true)), result);
}

/* The last dim of a transform to real numbers: its length, and the size of the input there. */
static tp_value last_length(tp_scope *scope, tp_value x, several *w)
{
    tp_value given = w->size[w->count - 1], n = real_length(scope, x, w->dim[w->count - 1], given);
    if (given.tag != TP_NONE && !(given.tag == TP_INT && given.i == -1))
        w->size[w->count - 1] = half_of(scope, n);
    return n;
}

TP_HOOK_D(tp_d_fft_irfftn)
{
    tp_scope s = { 0 };
    several w;
    int64_t mode = 0;
    (void)op;
    if (!start(&s, arg, false, "irfftn", &w, &mode))
        return tp_scope_end(&s);
    tp_value x = promoted(&s, arg[0], true), n = last_length(&s, x, &w);
    return tp_rule_done(&s, CALL(_fft_c2r, resized(&s, x, w.count, w.dim, w.size), w.dims, tp_int(mode), n), result);
}

TP_HOOK_D(tp_d_fft_hfftn)
{
    tp_scope s = { 0 };
    several w;
    int64_t mode = 0;
    (void)op;
    if (!start(&s, arg, true, "hfftn", &w, &mode))
        return tp_scope_end(&s);
    tp_value x = promoted(&s, arg[0], true), n = last_length(&s, x, &w);
    x = resized(&s, x, w.count, w.dim, w.size);
    if (w.count > 1)
        x = CALL(_fft_c2c, x, but_last(&s, &w), tp_int(mode), tp_bool(true));
    return tp_rule_done(&s, CALL(_fft_c2r, tp_scope_conj(&s, x), only_last(&s, &w), tp_int(mode), n), result);
}

TP_HOOK_D(tp_d_fft_ihfftn)
{
    tp_scope s = { 0 };
    several w;
    int64_t mode = 0;
    (void)op;
    if (!start(&s, arg, false, "ihfftn", &w, &mode))
        return tp_scope_end(&s);
    tp_value x = resized(&s, promoted(&s, arg[0], false), w.count, w.dim, w.size);
    x = tp_scope_conj(&s, CALL(_fft_r2c, x, only_last(&s, &w), tp_int(mode), tp_bool(true)));
    return tp_rule_done(&s, w.count > 1 ? CALL(_fft_c2c, x, but_last(&s, &w), tp_int(mode), tp_bool(false)) : x, result);
}

/* ---- (n, d, dtype, layout, device, pin_memory): 0 … then, for a whole transform, the negative ones, over n d ---- */
static bool frequencies(const tp_value *arg, bool half, tp_value *result)
{
    tp_scope s = { 0 };
    int64_t n = tp_as_int(arg[0]);
    tp_value places = CALL(arange, tp_int(half ? n / 2 + 1 : n), arg[2].tag == TP_NONE ? tp_of_dtype((tp_dtype)tp_the_runtime.default_dtype) : arg[2],
                           arg[3], arg[4], arg[5]);
    if (!half)
        (void)CALL(add__Scalar, CALL(slice_Tensor, places, tp_int(0), tp_int((n + 1) / 2)), tp_int(-n));
    return tp_rule_done(&s, CALL(mul__Scalar, places, tp_float(1 / ((double)n * tp_as_double(arg[1])))), result);
}

TP_HOOK_D(tp_d_fft_fftfreq)
{
    (void)op;
    return frequencies(arg, false, result);
}

TP_HOOK_D(tp_d_fft_rfftfreq)
{
    (void)op;
    return frequencies(arg, true, result);
}
