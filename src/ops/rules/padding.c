/* padding.c - circular padding as slices copied within a fresh tensor. */
#include "ops/rules/rules.h"

static tp_value slice(tp_scope *s, tp_value t, int dim, tp_sym from, tp_sym to)
{
    return tp_rule_call(s, &tp_op_slice_Tensor, 4, (tp_value[]){ t, tp_int(dim), tp_of_sym(from), tp_of_sym(to) });
}

static tp_sym at_least_0(tp_sym x) { return tp_sym_max(x, tp_sym_int(0)); }

/* One dim of a padding: what stands before and after, and the padded size. */
typedef struct side {
    tp_sym low, high, size;
} side;

static bool read_sides(const tp_tensor *self, tp_value pad, int n, side *sides)
{
    bool bad = false;
    tp_syms given = tp_syms_read(pad, 0, &bad);
    for (int k = 0; !bad && k < n; k++) {
        int dim = self->ndim - 1 - k;
        tp_sym low = given.item[2 * k], high = given.item[2 * k + 1], size = tp_tensor_sym_size(self, dim);
        sides[k] = (side){ low, high, tp_sym_add(tp_sym_add(size, low), high) };
        if (!tp_guard(tp_sym_and(tp_sym_le(low, size), tp_sym_le(high, size)), &bad) && !bad)
            return tp_fail(TP_ERR_RUNTIME, "Padding value causes wrapping around more than once.");
        if (!bad && !tp_guard(tp_sym_ge(sides[k].size, tp_sym_int(0)), &bad) && !bad)
            return tp_fail(TP_ERR_RUNTIME, "Negative padding value is resulting in an empty dimension");
    }
    return !bad;
}

/* _pad_circular(self, pad): the middle is copied, then each end from the other, last dim first. */
TP_HOOK_D(tp_d_pad_circular)
{
    const tp_tensor *self = arg[0].tensor;
    int n = (int)tp_length(arg[1]) / 2;
    side sides[3];
    tp_scope s = { 0 };
    (void)op;
    if (n > 3 || n > self->ndim || (int)tp_length(arg[1]) != 2 * n)
        return tp_fail(TP_ERR_RUNTIME, "Invalid padding size, expected %d but got %d", 2 * (self->ndim - 2), (int)tp_length(arg[1]));
    if (!read_sides(self, arg[1], n, sides))
        return false;
    tp_syms size = tp_syms_sizes(self);
    for (int k = 0; k < n; k++)
        size.item[self->ndim - 1 - k] = sides[k].size;
    tp_value made = CALL(new_empty, arg[0], tp_scope_syms(&s, &size), tp_of_dtype((tp_dtype)self->dtype), tp_none(), tp_of_device(self->device));
    tp_value to = made, from = arg[0];
    for (int k = 0; k < n; k++) {
        int dim = self->ndim - 1 - k;
        tp_sym zero = tp_sym_int(0), low = sides[k].low, high = sides[k].high;
        to = slice(&s, to, dim, at_least_0(low), tp_sym_sub(sides[k].size, at_least_0(high)));
        from = slice(&s, from, dim, at_least_0(tp_sym_sub(zero, low)), tp_sym_sub(tp_tensor_sym_size(self, dim), at_least_0(tp_sym_sub(zero, high))));
    }
    CALL(copy_, to, from);
    for (int k = 0; k < n; k++) {
        int dim = self->ndim - 1 - k;
        bool bad = false;
        tp_sym low = sides[k].low, high = sides[k].high, end = tp_sym_sub(sides[k].size, at_least_0(high));
        if (tp_guard(tp_sym_gt(low, tp_sym_int(0)), &bad)) {
            tp_value place = slice(&s, made, dim, tp_sym_int(0), low);
            CALL(copy_, place, slice(&s, made, dim, tp_sym_sub(end, low), end));
        }
        if (tp_guard(tp_sym_gt(high, tp_sym_int(0)), &bad)) {
            tp_value place = slice(&s, made, dim, end, sides[k].size);
            CALL(copy_, place, slice(&s, made, dim, at_least_0(low), tp_sym_add(at_least_0(low), high)));
        }
        s.failed |= bad;
    }
    return tp_rule_done(&s, made, result);
}

/* A padding says both ends of every dim: one number does not stand for all. (padding, how many, does the text say how many there are?) */
TP_HOOK_C(tp_c_pads)
{
    long long wanted = LL(tp_as_int(arg[1])), given = tp_length(arg[0]);
    if (arg[0].tag == TP_LIST && given == wanted)
        return true;
    return tp_as_int(arg[2]) ? tp_fail(TP_ERR_RUNTIME, "padding size is expected to be %lld, but got: %lld", wanted, given)
                             : tp_fail(TP_ERR_RUNTIME, "padding size is expected to be %lld", wanted);
}
