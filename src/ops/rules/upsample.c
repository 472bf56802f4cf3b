/* upsample.c - the `.vec` overloads of upsampling: sizes that are given, or made from factors. */
#include "ops/rules/rules.h"

/* A factor that is a whole number keeps a symbolic size symbolic. */
static tp_sym scaled(tp_sym size, double factor, bool *bad)
{
    int64_t whole = (int64_t)factor;
    if ((double)whole == factor)
        return tp_sym_mul(size, tp_sym_int(whole));
    return tp_sym_int((int64_t)((double)tp_sym_fixed(size, bad) * factor));
}

static void *fail_count(const char *name)
{
    return tp_fail(TP_ERR_RUNTIME, "Expected static_cast<int64_t>(%s->size()) == spatial_dimensions to be true, but got false.  "
                   "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)", name);
}

/* arg: input, output_size or none, scale_factors or none. */
TP_HOOK_S(tp_s_upsampled)
{
    const tp_tensor *input = arg[0].tensor;
    int dims = input->ndim - 2;
    bool sized = !tp_is_none(arg[1]), bad = false;
    if (sized == !tp_is_none(arg[2]))
        return tp_fail(TP_ERR_RUNTIME, "Must specify exactly one of output_size and scale_factors");
    if (sized) {
        *out = tp_syms_read(arg[1], 0, &bad);
        return !bad && (out->count == dims || fail_count("output_size"));
    }
    if ((int)tp_length(arg[2]) != dims)
        return fail_count("scale_factors");
    out->count = dims;
    for (int i = 0; i < dims; i++)
        out->item[i] = scaled(tp_tensor_sym_size(input, i + 2), tp_as_double(arg[2].list->item[i]), &bad);
    return !bad;
}

/* arg: scale_factors or none, k. */
TP_HOOK_D(tp_d_scale_factor)
{
    bool bad = false;
    (void)op;
    result[0] = tp_is_none(arg[0]) ? tp_none() : tp_item(arg[0], tp_as_int(arg[1]), &bad);
    return !bad;
}
