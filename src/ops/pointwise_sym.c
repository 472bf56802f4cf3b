/* pointwise_sym.c - the shape of an element-wise result over symbolic sizes.
 *
 * The integers of a symbolic tensor are the hints of its expressions, so the integer rule already gives type, rank and
 * order of dims; what is left is to say the sizes as expressions, guarding where two must be equal, and to multiply the
 * strides up in that order. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/hooks.h"
#include "ops/symbolic.h"

static bool is_one(tp_sym x)
{
    return tp_sym_is_int(x) && tp_sym_as_int(x) == 1;
}

static bool join(tp_sym *mine, tp_sym other)
{
    bool same;
    if (is_one(other) || tp_sym_same(*mine, other))
        return true;
    if (is_one(*mine)) {
        *mine = other;
        return true;
    }
    if (!tp_sym_guard(tp_sym_eq(*mine, other), &same))
        return false;
    if (same) {
        if (tp_sym_is_int(other))       /* the plainer of two equal words */
            *mine = other;
        return true;
    }
    bool one;
    if (!tp_sym_guard(tp_sym_eq(other, tp_sym_int(1)), &one))
        return false;
    if (!one)
        *mine = other;                  /* hints differ and broadcast: mine is 1 */
    return true;
}

/* Strides of a dense tensor whose dims stand in memory in the order of the hints. */
void tp_sym_strides_by_hint(int ndim, const int64_t *hint, const tp_sym *size, tp_sym *stride)
{
    int order[TP_MAX_DIMS];             /* innermost first; of equal strides a size of 1, then the later dim is inside */
    for (int i = ndim - 1, n = 0; i >= 0; i--, n++) {
        int j = n;
        bool one = tp_sym_is_int(size[i]) && tp_sym_as_int(size[i]) == 1;
        for (; j > 0 && (hint[order[j - 1]] > hint[i] || (one && hint[order[j - 1]] == hint[i])); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    tp_sym step = tp_sym_int(1);
    for (int i = 0; i < ndim; i++) {
        stride[order[i]] = step;
        tp_sym n = size[order[i]];
        step = tp_sym_mul(step, tp_sym_is_int(n) && tp_sym_as_int(n) == 0 ? tp_sym_int(1) : n);
    }
}

/* The hints do not broadcast. That they differ is a guard like any other, for the program may catch the error and go on. */
static bool fail_with_guards(const tp_op *base, const tp_value *arg)
{
    tp_sym joined[TP_MAX_DIMS];
    char text[400];
    tp_err kind = tp_error_kind();
    snprintf(text, sizeof text, "%s", tp_error_text());
    for (int i = 0; i < TP_MAX_DIMS; i++)
        joined[i] = tp_sym_int(1);
    bool ok = true;
    for (int a = 0; ok && a < base->arg_count; a++) {
        const tp_tensor *t = base->arg[a].type == TP_TYPE_TENSOR ? tp_as_tensor(arg[a]) : NULL;
        for (int i = 0; t && ok && i < t->ndim; i++)
            ok = join(&joined[TP_MAX_DIMS - t->ndim + i], tp_tensor_sym_size(t, i)) &&
                 (is_one(tp_tensor_sym_size(t, i)) || tp_sym_note_decided(TP_NE, tp_tensor_sym_size(t, i), tp_sym_int(1), true));
    }
    return ok && tp_fail(kind, "%s", text);
}

bool tp_infer_pointwise_sym(const tp_op *op, const tp_value *arg, tp_sym_geometry *out)
{
    tp_geometry g;
    const tp_op *base = op->base ? op->base : op;
    if (!tp_infer_pointwise(op, arg, &g))
        return tp_error_kind() == TP_ERR_RUNTIME && fail_with_guards(base, arg);
    out->dtype = g.dtype;
    out->ndim = g.ndim;
    out->device = g.device;
    out->offset = tp_sym_int(0);
    for (int i = 0; i < g.ndim; i++)
        out->size[i] = tp_sym_int(1);
    for (int a = 0; a < base->arg_count; a++) {
        const tp_tensor *t = base->arg[a].type == TP_TYPE_TENSOR ? tp_as_tensor(arg[a]) : NULL;
        for (int i = 0; t && i < t->ndim && t->ndim <= g.ndim; i++)
            if (!join(&out->size[g.ndim - t->ndim + i], tp_tensor_sym_size(t, i)))
                return false;
    }
    tp_sym_strides_by_hint(g.ndim, g.stride, out->size, out->stride);
    return true;
}
