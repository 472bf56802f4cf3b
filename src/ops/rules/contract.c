/* contract.c - products of several operands as calls of matrix products: tensordot, multi_dot, powers, _trilinear. */
#include "ops/rules/rules.h"

static bool wrapped(const tp_tensor *t, tp_value dims, int64_t *out, uint64_t *mask)
{
    int count = tp_as_ints(dims, out, TP_MAX_DIMS, 0);
    bool bad = count < 0;
    *mask = tp_wrap_all(out, count, t->ndim, &bad);
    return !bad;
}

/* ---- tensordot(self, other, dims_self, dims_other) ---- */

/* A dim that one operand has with size 1 is summed away in the other. */
static bool match_sizes(tp_scope *scope, tp_value x[2], const tp_value dims[2], int64_t dim[2][TP_MAX_DIMS])
{
    for (uint32_t i = 0; i < tp_length(dims[0]) && !scope->failed; i++) {
        tp_sym a = tp_syms_size(x[0].tensor, tp_as_int(dims[0].list->item[i]), &scope->failed);
        tp_sym b = tp_syms_size(x[1].tensor, tp_as_int(dims[1].list->item[i]), &scope->failed);
        bool one_a = tp_guard(tp_sym_eq(a, tp_sym_int(1)), &scope->failed), one_b = tp_guard(tp_sym_eq(b, tp_sym_int(1)), &scope->failed);
        if (one_a || one_b) {
            int k = one_b ? 0 : 1;
            if (!(one_a && one_b)) {
                tp_value at = tp_int(dim[k][i]);
                x[k] = tp_rule_call(scope, &tp_op_sum_dim_IntList, 3, (tp_value[]){ x[k], tp_scope_list(scope, 1, &at), tp_bool(true) });
            }
        } else if (!tp_guard(tp_sym_eq(a, b), &scope->failed) && !scope->failed) {
            return tp_fail(TP_ERR_RUNTIME, "contracted dimensions need to match, but first has size %lld in dim %lld and second has size %lld in dim %lld",
                           LL(x[0].tensor->size[dim[0][i]]), LL(tp_as_int(dims[0].list->item[i])), LL(x[1].tensor->size[dim[1][i]]),
                           LL(tp_as_int(dims[1].list->item[i])));
        }
    }
    return !scope->failed;
}

TP_HOOK_D(tp_d_tensordot)
{
    tp_scope s = { 0 };
    tp_value x[2] = { arg[0], arg[1] }, dims[2] = { arg[2], arg[3] };
    int64_t dim[2][TP_MAX_DIMS];
    uint64_t mask[2];
    uint32_t count = tp_length(arg[2]);
    (void)op;
    if (!wrapped(arg[0].tensor, arg[2], dim[0], &mask[0]) || !wrapped(arg[1].tensor, arg[3], dim[1], &mask[1]))
        return false;
    if (!match_sizes(&s, x, dims, dim))
        return tp_scope_end(&s) && false;
    tp_syms kept = { 0 };
    tp_sym rest[2] = { tp_sym_int(1), tp_sym_int(1) }, summed = tp_sym_int(1);
    tp_value order[2][TP_MAX_DIMS];
    for (uint32_t i = 0; i < count; i++)
        summed = tp_sym_mul(summed, tp_tensor_sym_size(x[0].tensor, (int)dim[0][i]));
    for (int k = 0; k < 2; k++) {
        int n = x[k].tensor->ndim, next = k ? (int)count : 0;
        for (int i = 0; i < n; i++)
            if (!(mask[k] >> i & 1)) {
                order[k][next++] = tp_int(i);
                tp_syms_add(&kept, tp_tensor_sym_size(x[k].tensor, i));
                rest[k] = tp_sym_mul(rest[k], tp_tensor_sym_size(x[k].tensor, i));
            }
        for (uint32_t i = 0; i < count; i++)        /* dims as they were given: graphs show them so */
            order[k][k ? i : (uint32_t)next + i] = dims[k].list->item[i];
    }
    tp_value a = CALL(permute, x[0], tp_scope_list(&s, (uint32_t)x[0].tensor->ndim, order[0]));
    tp_value shape[2] = { tp_of_sym(rest[0]), tp_of_sym(summed) };
    bool vectors = kept.count == 0 && count == 1;
    if (!vectors)
        a = CALL(reshape, a, tp_scope_list(&s, 2, shape));
    tp_value b = CALL(permute, x[1], tp_scope_list(&s, (uint32_t)x[1].tensor->ndim, order[1]));
    shape[0] = tp_of_sym(summed);
    shape[1] = tp_of_sym(rest[1]);
    if (!vectors)
        b = CALL(reshape, b, tp_scope_list(&s, 2, shape));
    tp_value product = vectors ? CALL(dot, a, b) : CALL(mm, a, b);
    return tp_rule_done(&s, CALL(reshape, product, tp_scope_syms(&s, &kept)), result);
}

/* ---- linalg_multi_dot(tensors) ---- */
enum { MOST_MATRICES = 64 };

static bool check_chain(const tp_list *l)
{
    const tp_tensor *first = l->item[0].tensor;
    bool bad = false;
    for (uint32_t i = 0; i < l->count; i++) {
        const tp_tensor *t = l->item[i].tensor;
        bool end = i == 0 || i + 1 == l->count;
        if (end && t->ndim != 1 && t->ndim != 2)
            return tp_fail(TP_ERR_RUNTIME, "multi_dot(): the %s tensor must be 1D or 2D but got %dD", i ? "last" : "first", t->ndim);
        if (!end && t->ndim != 2)
            return tp_fail(TP_ERR_RUNTIME, "multi_dot(): tensor %u must be 2D but got %dD", i, t->ndim);
    }
    for (uint32_t i = 1; i < l->count; i++) {
        const tp_tensor *t = l->item[i].tensor, *before = l->item[i - 1].tensor;
        if (t->dtype != first->dtype)
            return tp_fail(TP_ERR_RUNTIME, "multi_dot(): all tensors must have be the same dtype but tensor 0 is %s and tensor %u %s",
                           tp_dtypes[first->dtype].cpp, i, tp_dtypes[t->dtype].cpp);
        if (!tp_guard(tp_sym_eq(tp_tensor_sym_size(before, before->ndim - 1), tp_tensor_sym_size(t, 0)), &bad)) {
            if (bad)
                return false;
            tp_syms a = tp_syms_sizes(before), b = tp_syms_sizes(t);
            return tp_fail_with(TP_ERR_RUNTIME, "multi_dot(): tensors {} and {} with shapes {} and {} cannot be multiplied", 4,
                                (tp_value[]){ tp_int(i - 1), tp_int(i), tp_value_of_syms(&a), tp_value_of_syms(&b) });
        }
    }
    return true;
}

/* The matrices first … last, multiplied where `split` says it costs least. */
static tp_value chain(tp_scope *scope, const tp_value *x, uint8_t (*split)[MOST_MATRICES], int first, int last)
{
    if (first == last || scope->failed)
        return x[first];
    tp_value a = chain(scope, x, split, first, split[first][last]), b = chain(scope, x, split, split[first][last] + 1, last);
    return tp_rule_call(scope, &tp_op_mm, 2, (tp_value[]){ a, b });
}

static void cheapest(int n, const int64_t *size, uint8_t (*split)[MOST_MATRICES])
{
    double cost[MOST_MATRICES][MOST_MATRICES] = { { 0 } };
    for (int length = 1; length < n; length++)
        for (int i = 0; i + length < n; i++) {
            int j = i + length;
            cost[i][j] = __builtin_inf();
            for (int k = i; k < j; k++) {
                double c = cost[i][k] + cost[k + 1][j] + (double)size[i] * (double)size[k + 1] * (double)size[j + 1];
                if (c < cost[i][j]) {
                    cost[i][j] = c;
                    split[i][j] = (uint8_t)k;
                }
            }
        }
}

TP_HOOK_D(tp_d_multi_dot)
{
    tp_scope s = { 0 };
    const tp_list *l = arg[0].list;
    tp_value x[MOST_MATRICES];
    int64_t size[MOST_MATRICES + 1];
    uint8_t split[MOST_MATRICES][MOST_MATRICES] = { { 0 } };
    tp_syms shape = { 0 };
    (void)op;
    if (l->count < 2)
        return tp_fail(TP_ERR_RUNTIME, "multi_dot(): expected at least 2 tensors but got %u", l->count);
    if (l->count > MOST_MATRICES)
        return tp_fail(TP_ERR_RUNTIME, "multi_dot(): more than %d tensors", MOST_MATRICES);
    if (!check_chain(l))
        return false;
    int n = (int)l->count;
    memcpy(x, l->item, l->count * sizeof *x);
    if (x[0].tensor->ndim == 1)
        x[0] = CALL(unsqueeze, x[0], tp_int(0));
    else
        tp_syms_add(&shape, tp_tensor_sym_size(x[0].tensor, 0));
    if (x[n - 1].tensor->ndim == 1)
        x[n - 1] = CALL(unsqueeze, x[n - 1], tp_int(-1));
    else
        tp_syms_add(&shape, tp_tensor_sym_size(x[n - 1].tensor, 1));
    if (s.failed)
        return tp_scope_end(&s);
    for (int i = 0; i < n; i++)
        size[i] = tp_sym_fixed(tp_tensor_sym_size(x[i].tensor, 0), &s.failed);
    size[n] = tp_sym_fixed(tp_tensor_sym_size(x[n - 1].tensor, 1), &s.failed);
    cheapest(n, size, split);
    return tp_rule_done(&s, CALL(view, chain(&s, x, split, 0, n - 1), tp_scope_syms(&s, &shape)), result);
}

/* ---- sums with factors ---- */
static tp_value times(tp_scope *scope, tp_value x, tp_value factor)
{
    bool one = factor.tag == TP_INT && factor.i == 1;
    return one ? x : tp_rule_call(scope, &tp_op_mul_Scalar, 2, (tp_value[]){ x, factor });
}

static bool is_zero(tp_value factor)
{
    tp_c128 c = tp_scalar_to_complex(tp_as_scalar(factor));
    return c.re == 0 && c.im == 0;
}

/* beta * self + made: a beta of 0 forgets self, NaN and all. */
static tp_value joined(tp_scope *scope, tp_value self, tp_value beta, tp_value made)
{
    return is_zero(beta) ? made : tp_rule_call(scope, &tp_op_add_Tensor, 2, (tp_value[]){ times(scope, self, beta), made });
}

/* addr(self, vec1, vec2, beta, alpha) */
TP_HOOK_D(tp_d_addr)
{
    tp_scope s = { 0 };
    (void)op;
    tp_dtype d = tp_promoted(arg, 7, false);
    tp_value product = CALL(outer, arg[1], arg[2]);
    if (d == TP_b8)
        product = tp_as_bool(arg[4]) ? product : CALL(zeros_like, product);
    else
        product = times(&s, product, arg[4]);
    tp_value sum = d != TP_b8 ? joined(&s, arg[0], arg[3], product) : tp_as_bool(arg[3]) ? CALL(logical_or, arg[0], product) : product;
    if (!s.failed)
        sum = tp_of_tensor(tp_scope_to_dtype(&s, sum.tensor, d));
    return tp_rule_done(&s, sum, result);
}

/* The batches of a matrix side by side: [b, n, k] as [n, b * k], or [b, k, m] as [b * k, m]. */
static tp_value side_by_side(tp_scope *scope, tp_value x, bool rows)
{
    tp_sym b = tp_tensor_sym_size(x.tensor, 0), n = tp_tensor_sym_size(x.tensor, 1), k = tp_tensor_sym_size(x.tensor, 2);
    tp_value size[2] = { tp_of_sym(rows ? n : tp_sym_mul(b, n)), tp_of_sym(rows ? tp_sym_mul(b, k) : k) };
    if (rows)
        x = tp_rule_call(scope, &tp_op_transpose_int, 3, (tp_value[]){ x, tp_int(0), tp_int(1) });
    return tp_rule_call(scope, &tp_op_reshape, 2, (tp_value[]){ x, tp_scope_list(scope, 2, size) });
}

/* addbmm(self, batch1, batch2, beta, alpha): one product. Half types round after each batch, as PyTorch does. */
TP_HOOK_D(tp_d_addbmm)
{
    tp_scope s = { 0 };
    const tp_tensor *a = arg[1].tensor;
    tp_value sum = arg[0], beta = arg[3];
    (void)op;
    if (!tp_dtype_among((tp_dtype)a->dtype, TP_ANY_HALF) || !a->size[0])
        return tp_rule_done(&s, CALL(addmm, arg[0], side_by_side(&s, arg[1], true), side_by_side(&s, arg[2], false), beta, arg[4]), result);
    for (int64_t i = 0; i < a->size[0] && !s.failed; i++, beta = tp_int(1))
        sum = CALL(addmm, sum, CALL(select_int, arg[1], tp_int(0), tp_int(i)), CALL(select_int, arg[2], tp_int(0), tp_int(i)), beta, arg[4]);
    return tp_rule_done(&s, sum, result);
}

/* ---- _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim): three operands given common dims, multiplied and summed ---- */
static tp_value expanded(tp_scope *scope, tp_value x, tp_value dims)
{
    for (uint32_t i = 0; i < tp_length(dims) && !scope->failed; i++)
        x = tp_rule_call(scope, &tp_op_unsqueeze, 2, (tp_value[]){ x, dims.list->item[i] });
    return x;
}

TP_HOOK_D(tp_d_trilinear)
{
    tp_scope s = { 0 };
    tp_value x[3];
    uint64_t sums = 0, early = 0;
    (void)op;
    for (int i = 0; i < 3; i++)
        x[i] = expanded(&s, arg[i], arg[3 + i]);
    if (s.failed)
        return tp_scope_end(&s);
    int n = x[0].tensor->ndim;
    for (int i = 1; i < 3; i++)
        if (!s.failed && x[i].tensor->ndim != n)
            s.failed = !tp_fail(TP_ERR_RUNTIME, "_trilinear: operands must have as many dimensions once expanded, got %d and %d", n, x[i].tensor->ndim);
    if (s.failed)
        return tp_scope_end(&s);
    for (uint32_t i = 0; i < tp_length(arg[6]) && !s.failed; i++)
        sums |= (uint64_t)1 << tp_wrap(tp_as_int(arg[6].list->item[i]), n, &s.failed);
    for (int d = 0; d < n && !s.failed; d++)        /* what the third operand does not have is summed with the first product */
        if (sums >> d & 1 && tp_guard(tp_sym_eq(tp_tensor_sym_size(x[2].tensor, d), tp_sym_int(1)), &s.failed))
            early |= (uint64_t)1 << d;
    tp_value first = tp_rule_sum_product(&s, x[0], x[1], early, true);
    if (s.failed)
        return tp_scope_end(&s);
    tp_value made = tp_rule_sum_product(&s, first, x[2], sums & ~early, true);
    for (int d = n - 1; d >= 0; d--)
        if (sums >> d & 1)
            made = CALL(squeeze_dim, made, tp_int(d));
    return tp_rule_done(&s, made, result);
}

static bool unlike(const tp_tensor *a, int i, const tp_tensor *b, int k, bool *bad)
{
    return !tp_guard(tp_sym_eq(tp_tensor_sym_size(a, i), tp_tensor_sym_size(b, k)), bad) && !*bad;
}

/* (input1, input2, weight, bias) */
TP_HOOK_C(tp_c_bilinear)
{
    const tp_tensor *a = arg[0].tensor, *b = arg[1].tensor, *w = arg[2].tensor, *bias = tp_as_tensor(arg[3]);
    bool bad = false;
    if (!a->ndim || w->ndim != 3)
        return tp_fail(TP_ERR_RUNTIME, "bilinear(): expected inputs of at least 1 dimension and a weight of 3");
    for (int i = 0; i + 1 < a->ndim; i++)
        if (unlike(a, i, b, i, &bad))
            return tp_fail(TP_ERR_RUNTIME, "bilinear(): input batch dimensions do not match at dim %d: got %lld and %lld", i, LL(a->size[i]), LL(b->size[i]));
    if (unlike(a, a->ndim - 1, w, 1, &bad))
        return tp_fail(TP_ERR_RUNTIME, "bilinear(): input1 size does not match weight size: got %lld but expected %lld", LL(a->size[a->ndim - 1]), LL(w->size[1]));
    if (unlike(b, b->ndim - 1, w, 2, &bad))
        return tp_fail(TP_ERR_RUNTIME, "bilinear(): input2 size does not match weight size: got %lld but expected %lld", LL(b->size[b->ndim - 1]), LL(w->size[2]));
    if (bias && (!bias->ndim || unlike(bias, 0, w, 0, &bad)))
        return tp_fail(TP_ERR_RUNTIME, "bilinear(): bias size does not match weight size: got %lld but expected %lld", LL(bias->ndim ? bias->size[0] : 1),
                       LL(w->size[0]));
    return !bad;
}
