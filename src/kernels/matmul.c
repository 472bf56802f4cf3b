/* matmul.c - matrix products of tensors: strides and scalars handed to kernels/gemm.h. */
#include "kernels/dense.h"
#include "kernels/gemm.h"
#include "ops/copy.h"
#include "ops/hooks.h"

/* alpha a b + beta out, where a and b are matrices or batches of them. `out` holds the addend when beta is not 0; `name` is
 * for the message that refuses booleans. */
static bool multiply(const char *name, const tp_tensor *a, const tp_tensor *b, tp_tensor *out, tp_scalar alpha, tp_scalar beta)
{
    int r = a->ndim - 2;                /* 0, or 1 with a batch dim in front */
    tp_gemm g = {
        .m = a->size[r], .k = a->size[r + 1], .n = b->size[r + 1], .a = tp_tensor_data(a), .b = tp_tensor_data(b), .c = tp_tensor_data(out),
        .a_row = a->stride[r], .a_column = a->stride[r + 1], .b_row = b->stride[r], .b_column = b->stride[r + 1],
        .c_row = out->stride[r], .c_column = out->stride[r + 1], .batch = r ? a->size[0] : 1, .alpha = alpha, .beta = beta,
    };
    if (r) {
        g.a_batch = a->stride[0];
        g.b_batch = b->stride[0];
        g.c_batch = out->stride[0];
    }
    if (a->dtype == TP_b8)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "\"%s\" not implemented for 'Bool'", name);
    return !out->numel || tp_gemm_run((tp_dtype)a->dtype, &g);
}

static const tp_scalar one = { .kind = TP_KIND_INTEGER, .i = 1 }, zero = { .kind = TP_KIND_INTEGER };

TP_HOOK_K(tp_k_mm)
{
    return multiply("addmm_impl_cpu_", arg[0].tensor, arg[1].tensor, out[0], one, zero);
}

TP_HOOK_K(tp_k_bmm)
{
    return multiply("bmm", arg[0].tensor, arg[1].tensor, out[0], one, zero);
}

/* self, a, b, beta, alpha: the addend is spread over the result first. A beta of 0 ignores it, NaN and all. */
static bool add_product(const char *name, const tp_value *arg, const tp_tensor *a, const tp_tensor *b, tp_tensor *out)
{
    tp_scalar beta = tp_as_scalar(arg[3]);
    if (!tp_scalar_is_zero(beta) && out != arg[0].tensor)
        tp_copy(out, arg[0].tensor);
    return multiply(name, a, b, out, tp_as_scalar(arg[4]), beta);
}

TP_HOOK_K(tp_k_addmm)
{
    return add_product("addmm_impl_cpu_", arg, arg[1].tensor, arg[2].tensor, out[0]);
}

TP_HOOK_K(tp_k_baddbmm)
{
    return add_product("baddbmm", arg, arg[1].tensor, arg[2].tensor, out[0]);
}

/* A view on the stack: nothing counts it, and its sizes stand inside it. */
static tp_tensor *placed(tp_tensor *m)
{
    m->size = m->dims;
    m->stride = m->dims + TP_INLINE_DIMS;
    return m;
}

/* Member `i` of a batch, or of a matrix the part of dim `dim` between two ends; a view on the stack. */
static tp_tensor group_of(const tp_tensor *t, int64_t i, int dim, int64_t begin, int64_t end)
{
    tp_tensor m = *t;
    int drop = t->ndim - 2;
    int64_t skip = drop ? i * t->stride[0] : begin * t->stride[dim];
    for (int d = 0; d < 2; d++) {
        m.dims[d] = !drop && d == dim ? end - begin : t->size[drop + d];
        m.dims[TP_INLINE_DIMS + d] = t->stride[drop + d];
    }
    m.ndim = 2;
    m.offset += skip;
    m.numel = m.dims[0] * m.dims[1];
    return m;
}

static bool check_ends(const int32_t *end, int64_t count, int64_t most)
{
    for (int64_t i = 0; i < count; i++)
        if (end[i] < (i ? end[i - 1] : 0) || end[i] > most)
            return tp_fail(TP_ERR_RUNTIME, "_grouped_mm: offs must rise from 0 to at most %lld, got %d", (long long)most, (int)end[i]);
    return true;
}

/* self, mat2, offs. What lies behind the last group belongs to none and is zero. */
TP_HOOK_K(tp_k_grouped_mm)
{
    const tp_tensor *a = arg[0].tensor, *b = arg[1].tensor;
    if (a->ndim == 3 && b->ndim == 3)
        return multiply("bmm", a, b, out[0], one, zero);
    tp_tensor *ends = tp_dense(arg[2].tensor, TP_i32);
    if (!ends)
        return false;
    const int32_t *end = tp_tensor_data(ends);
    bool ok = check_ends(end, ends->numel, a->ndim == 2 ? a->size[b->ndim == 2] : b->size[1]);
    if (ok)
        tp_fill(out[0], tp_scalar_int(0));
    for (int64_t i = 0; ok && i < ends->numel; i++) {
        int64_t begin = i ? end[i - 1] : 0;
        tp_tensor left = group_of(a, i, b->ndim == 2, begin, end[i]), right = group_of(b, i, a->ndim == 3, begin, end[i]);
        tp_tensor made = group_of(out[0], i, a->ndim == 3, begin, end[i]);
        ok = multiply("_grouped_mm", placed(&left), placed(&right), placed(&made), one, zero);
    }
    tp_tensor_unref(ends);
    return ok;
}

/* A vector as a matrix of one column. The struct is a view on the stack: nothing counts it. */
static tp_tensor as_column(const tp_tensor *v)
{
    tp_tensor m = *v;
    m.ndim = 2;
    m.size = m.dims;
    m.stride = m.dims + TP_INLINE_DIMS;
    m.dims[0] = v->ndim ? v->size[0] : 1;
    m.dims[1] = 1;
    m.dims[TP_INLINE_DIMS] = v->ndim ? v->stride[0] : 1;
    m.dims[TP_INLINE_DIMS + 1] = 1;
    return m;
}

TP_HOOK_K(tp_k_mv)
{
    tp_tensor v = as_column(arg[1].tensor), y = as_column(out[0]);
    return multiply("addmv_impl_cpu", arg[0].tensor, placed(&v), placed(&y), one, zero);
}

TP_HOOK_K(tp_k_addmv)
{
    tp_tensor v = as_column(arg[2].tensor), y = as_column(out[0]);
    tp_scalar beta = tp_as_scalar(arg[3]);
    if (!tp_scalar_is_zero(beta) && out[0] != arg[0].tensor)
        tp_copy(out[0], arg[0].tensor);
    return multiply("addmv_impl_cpu", arg[1].tensor, placed(&v), placed(&y), tp_as_scalar(arg[4]), beta);
}

TP_HOOK_K(tp_k_dot)
{
    tp_tensor column = as_column(arg[1].tensor), row = as_column(arg[0].tensor), y = as_column(out[0]);
    placed(&row);
    row.dims[1] = row.dims[0];
    row.dims[0] = 1;
    row.dims[TP_INLINE_DIMS + 1] = row.dims[TP_INLINE_DIMS];
    row.dims[TP_INLINE_DIMS] = 1;
    return multiply("dot", &row, placed(&column), placed(&y), one, zero);
}
