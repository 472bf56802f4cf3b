/* pooling.c - what windows over two or three dims ask of their sizes, in PyTorch's words. */
#include "ops/hooks.h"
#include "ops/run.h"

/* How many numbers there may be, by the kind of pooling: max pools word it a little unlike average pools of three dims. */
static bool read_list(const char *pool, const char *name, const char *form, tp_value v, int n, int64_t *out)
{
    int count = tp_as_ints(v, out, TP_MAX_DIMS, n);
    if (count >= 0 && count != n)
        tp_fail(TP_ERR_RUNTIME, "%s%dd: %s must %sa single int, or a tuple of %s ints", pool, n, name, form, n == 2 ? "two" : "three");
    for (int i = 0; i < n && count == n; i++)
        if (!tp_check_representable(tp_scalar_int(out[i]), TP_i32))     /* sizes and places computed from them must not wrap */
            return false;
    return count == n;
}

static bool fail_sizes(const char *what, const char *letter, int n, const int64_t *value)
{
    tp_text text = { 0 };
    for (int i = 0; i < n; i++)
        tp_text_add(&text, "%s%s%c: %lld", i ? " " : "", letter, "THW"[3 - n + i], LL(value[i]));
    tp_fail(TP_ERR_RUNTIME, "%s should be greater than zero, but got %s", what, tp_text_read(&text));
    tp_text_fini(&text);
    return false;
}

static bool positive(const char *what, const char *letter, int n, const int64_t *value)
{
    for (int i = 0; i < n; i++)
        if (value[i] <= 0)
            return fail_sizes(what, letter, n, value);
    return true;
}

/* (kernel_size, stride or an empty list, padding, dilation or none, number of dims) */
TP_HOOK_C(tp_c_pool)
{
    int n = (int)tp_as_int(arg[4]);
    bool max = !tp_is_none(arg[3]);
    const char *pool = max ? "max_pool" : "avg_pool", *form = max || n == 2 ? "either be " : "be ", *omitted = max || n == 2 ? "either be omitted, " : "be omitted, ";
    int64_t kernel[TP_MAX_DIMS], stride[TP_MAX_DIMS], padding[TP_MAX_DIMS], dilation[TP_MAX_DIMS] = { 1, 1, 1 };
    if (!read_list(pool, "kernel_size", form, arg[0], n, kernel) ||
        !read_list(pool, "stride", omitted, tp_length(arg[1]) || arg[1].tag == TP_INT ? arg[1] : arg[0], n, stride) ||
        !read_list(pool, "padding", form, arg[2], n, padding) || (max && !read_list(pool, "dilation", "be either ", arg[3], n, dilation)))
        return false;
    for (int i = 0; i < n; i++)
        if (!stride[i])
            return tp_fail(TP_ERR_RUNTIME, "stride should not be zero");
    for (int i = 0; i < n; i++)
        if (padding[i] < 0)
            return tp_fail(TP_ERR_RUNTIME, "pad must be non-negative, but got pad: %lld", LL(padding[i]));
    for (int i = 0; i < n; i++)
        if (padding[i] > (dilation[i] * (kernel[i] - 1) + 1) / 2)
            return tp_fail(TP_ERR_RUNTIME, "pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and dilation=%lld",
                           LL(padding[i]), LL(kernel[i]), LL(dilation[i]));
    return positive("kernel size", "k", n, kernel) && positive("stride", "d", n, stride) && positive("dilation", "dilation", n, dilation);
}
