/* factory.c - how many numbers a range has, and places a triangle. */
#include <math.h>

#include "ops/emit.h"

/* Whole numbers, maybe symbols: (end - start + step - 1) // step, rounded towards the start for falling ranges. */
static bool count_integers(tp_sym start, tp_sym end, int64_t step, tp_syms *out)
{
    bool bad = false;
    tp_sym span = tp_sym_sub(end, start);
    if (step == 0)
        return tp_fail(TP_ERR_RUNTIME, "step must be nonzero");
    if (!tp_guard(step > 0 ? tp_sym_ge(span, tp_sym_int(0)) : tp_sym_le(span, tp_sym_int(0)), &bad))
        return bad ? false : tp_fail(TP_ERR_RUNTIME, "upper bound and lower bound inconsistent with step sign");
    *out = (tp_syms){ 1, { step == 1 ? span : tp_sym_floordiv(tp_sym_add(span, tp_sym_int(step > 0 ? step - 1 : step + 1)), tp_sym_int(step)) } };
    return !bad;
}

/* Integers are cut before they are counted when the result has an integral type. */
static tp_value cut(tp_value v, tp_value dtype)
{
    return v.tag == TP_FLOAT && dtype.tag == TP_DTYPE_VALUE && tp_dtype_is_integral((tp_dtype)dtype.i) ? tp_int((int64_t)v.f) : v;
}

static bool count_range(tp_value start, tp_value end, tp_value step, tp_value dtype, tp_syms *out)
{
    start = cut(start, dtype);
    end = cut(end, dtype);
    step = cut(step, dtype);
    if (tp_number_is_integral(start) && tp_number_is_integral(end) && tp_number_is_integral(step))
        return count_integers(tp_sym_read(start), tp_sym_read(end), tp_as_int(step), out);
    double from = tp_as_double(start), to = tp_as_double(end), by = tp_as_double(step);
    if (by == 0)
        return tp_fail(TP_ERR_RUNTIME, "step must be nonzero");
    if (!isfinite(from) || !isfinite(to))
        return tp_fail(TP_ERR_RUNTIME, "unsupported range: %g -> %g", from, to);
    if ((by > 0 && to < from) || (by < 0 && to > from))
        return tp_fail(TP_ERR_RUNTIME, "upper bound and lower bound inconsistent with step sign");
    *out = (tp_syms){ 1, { tp_sym_int((int64_t)ceil((to - from) / by)) } };
    return true;
}

TP_HOOK_S(tp_s_arange_end)
{
    return count_range(tp_int(0), arg[0], tp_int(1), arg[1], out);
}

TP_HOOK_S(tp_s_arange_start)
{
    return count_range(arg[0], arg[1], tp_int(1), arg[2], out);
}

TP_HOOK_S(tp_s_arange)
{
    return count_range(arg[0], arg[1], arg[2], arg[3], out);
}

/* ---- range: the end is included ---- */
static bool count_inclusive(tp_value start, tp_value end, tp_value step, tp_syms *out)
{
    double from = tp_as_double(start), to = tp_as_double(end), by = tp_as_double(step);
    if (by == 0)
        return tp_fail(TP_ERR_RUNTIME, "step must be nonzero");
    if (!isfinite(from) || !isfinite(to))
        return tp_fail(TP_ERR_RUNTIME, "unsupported range: %g -> %g", from, to);
    if ((by > 0 && to < from) || (by < 0 && to > from))
        return tp_fail(TP_ERR_RUNTIME, "upper bound and lower bound inconsistent with step sign");
    *out = (tp_syms){ 1, { tp_sym_int((int64_t)((to - from) / by + 1)) } };
    return true;
}

TP_HOOK_S(tp_s_range)
{
    return count_inclusive(arg[0], arg[1], tp_int(1), out);
}

TP_HOOK_S(tp_s_range_step)
{
    return count_inclusive(arg[0], arg[1], arg[2], out);
}

/* ---- triangles: how many places of a matrix they have, for matrices that need not exist ---- */

__extension__ typedef __int128 wide;

/* tril_indices and triu_indices: rows, columns, type, whether it is the upper one */
TP_HOOK_C(tp_c_triangle)
{
    static const char *const name[] = { "row", "col" };
    for (int i = 0; i < 2; i++)
        if (tp_as_int(arg[i]) < 0)
            return tp_fail(TP_ERR_RUNTIME, "%s must be non-negative, got%lld", name[i], LL(tp_as_int(arg[i])));
    tp_dtype d = arg[2].tag == TP_NONE ? TP_i64 : (tp_dtype)arg[2].i;
    return (tp_dtype_is_integral(d) && d != TP_b8) || tp_fail(TP_ERR_UNIMPLEMENTED, "\"%s\" not implemented for '%s'", tp_as_int(arg[3]) ? "triu_indices" : "tril_indices", tp_dtypes[d].title);
}

/* The places on and below a diagonal: rows of 1, 2, 3 … until they are full, after those above it and before those below. */
static wide below_diagonal(int64_t rows, int64_t columns, int64_t offset)
{
    wide first = -(wide)offset, full = (wide)columns - offset;      /* the first row that has a place; that has all */
    wide from = first < 0 ? 0 : first, to = full < 0 ? 0 : full > rows ? rows : full;
    wide whole = full < 0 ? rows : full < rows ? rows - full : 0, rising = to > from ? to - from : 0;
    if (whole > ((wide)1 << 64) || (rising && rising > ((wide)1 << 62)))
        return (wide)1 << 100;
    return rising * (from + offset + 1) + rising * (rising - 1) / 2 + whole * columns;
}

static bool triangle_size(wide places, tp_syms *out)
{
    if (places > INT64_MAX / 2)
        return tp_fail(TP_ERR_RUNTIME, "Storage size calculation overflowed: a triangle of more than 2**62 places");
    *out = (tp_syms){ 2, { tp_sym_int(2), tp_sym_int((int64_t)places) } };
    return true;
}

TP_HOOK_S(tp_s_lower_triangle)
{
    return triangle_size(below_diagonal(tp_as_int(arg[0]), tp_as_int(arg[1]), tp_as_int(arg[2])), out);
}

/* What is not below the diagonal before it. */
TP_HOOK_S(tp_s_upper_triangle)
{
    int64_t rows = tp_as_int(arg[0]), columns = tp_as_int(arg[1]), offset = tp_as_int(arg[2]);
    wide below = offset == INT64_MIN ? 0 : below_diagonal(rows, columns, offset - 1);
    return triangle_size((wide)rows * columns - below, out);
}
