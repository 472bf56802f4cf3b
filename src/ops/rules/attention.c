/* attention.c - attention as calls of ops: which way is taken, and the way through products and a softmax. */
#include <math.h>

#include "ops/rules/rules.h"

enum { PRODUCTS = 0, BLOCKED = 1 };     /* as SDPBackend numbers MATH and FLASH_ATTENTION */

/* scaled_dot_product_attention(query, key, value, attn_mask, …) */
TP_HOOK_C(tp_c_attention)
{
    const tp_tensor *q = arg[0].tensor, *k = arg[1].tensor, *v = arg[2].tensor, *mask = tp_as_tensor(arg[3]);
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return tp_fail(TP_ERR_RUNTIME, "Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: %s and value.dtype: %s instead.",
                       tp_dtypes[q->dtype].cpp, tp_dtypes[k->dtype].cpp, tp_dtypes[v->dtype].cpp);
    if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
        return tp_fail(TP_ERR_RUNTIME, "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: %d key.dim: %d and value.dim: %d instead.",
                       q->ndim, k->ndim, v->ndim);
    if (mask && mask->dtype != TP_b8 && mask->dtype != TP_f32 && mask->dtype != q->dtype)
        return tp_fail(TP_ERR_RUNTIME, "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: %s and  query.dtype: %s instead.",
                       tp_dtypes[mask->dtype].cpp, tp_dtypes[q->dtype].cpp);
    return true;
}

/* Is size i of one tensor that of another? Guarded where they are symbolic. */
static bool alike(const tp_tensor *a, int i, const tp_tensor *b, int j, bool *bad)
{
    return tp_guard(tp_sym_eq(tp_tensor_sym_size(a, i), tp_tensor_sym_size(b, j)), bad);
}

static bool mask_can(const tp_tensor *mask, const tp_tensor *q, const tp_tensor *k, bool *bad)
{
    if (tp_wants_gradient(mask) || (mask->ndim != 2 && mask->ndim != 4))
        return false;
    if (mask->dtype != q->dtype && !(mask->dtype == TP_f32 && tp_dtype_is_half((tp_dtype)q->dtype)))
        return false;
    for (int i = 0; i < mask->ndim; i++) {
        int dim = 4 - mask->ndim + i;
        if (!tp_guard(tp_sym_eq(tp_tensor_sym_size(mask, i), tp_sym_int(1)), bad) && !alike(mask, i, dim == 3 ? k : q, dim == 3 ? 2 : dim, bad))
            return false;
    }
    return true;
}

/* Can the blocked kernel do it? */
static bool blocked_can(const tp_tensor *q, const tp_tensor *k, const tp_tensor *v, const tp_tensor *mask, double dropout, bool grouped, bool *bad)
{
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4 || !tp_dtype_is_float((tp_dtype)q->dtype) || dropout > 0)
        return false;
    if (!alike(q, 0, k, 0, bad) || !alike(q, 0, v, 0, bad) || !alike(k, 1, v, 1, bad) ||
        !tp_guard(tp_sym_le(tp_tensor_sym_size(k, 2), tp_tensor_sym_size(v, 2)), bad))
        return false;
    if (!alike(q, 3, k, 3, bad) || !alike(q, 3, v, 3, bad) || q->stride[3] != 1 || k->stride[3] != 1 || v->stride[3] != 1)
        return false;
    if (grouped ? !k->size[1] || !tp_guard(tp_sym_eq(tp_sym_mod(tp_tensor_sym_size(q, 1), tp_tensor_sym_size(k, 1)), tp_sym_int(0)), bad) : !alike(q, 1, k, 1, bad))
        return false;
    return !mask || mask_can(mask, q, k, bad);
}

/* A mask of bools as what is added to scores: 0 where true, -inf elsewhere. */
static tp_value as_scores(tp_scope *s, tp_value mask, const tp_tensor *like)
{
    if (mask.tag != TP_TENSOR || mask.tensor->dtype != TP_b8)
        return mask;
    tp_value dtype = tp_of_dtype((tp_dtype)like->dtype), device = tp_of_device(like->device);
    tp_value hidden = tp_rule_call(s, &tp_op_scalar_tensor, 4, (tp_value[]){ tp_float(-INFINITY), dtype, tp_none(), device });
    tp_value shown = tp_rule_call(s, &tp_op_scalar_tensor, 4, (tp_value[]){ tp_float(0), dtype, { .tag = TP_LAYOUT }, device });
    return tp_rule_call(s, &tp_op_where_self, 3, (tp_value[]){ mask, shown, hidden });
}

/* Without queries, keys or values: zeros, which still depend on all three. */
static tp_value of_nothing(tp_scope *s, const tp_value *arg)
{
    const tp_tensor *q = arg[0].tensor;
    tp_syms size = tp_syms_sizes(q);
    size.item[size.count - 1] = tp_tensor_sym_size(arg[2].tensor, arg[2].tensor->ndim - 1);
    tp_value zeros = tp_rule_call(s, &tp_op_zeros, 4, (tp_value[]){ tp_scope_syms(s, &size), tp_of_dtype((tp_dtype)q->dtype), { .tag = TP_LAYOUT }, tp_of_device(q->device) });
    tp_value v = tp_rule_call(s, &tp_op_sum, 1, &arg[2]), k = tp_rule_call(s, &tp_op_sum, 1, &arg[1]), sum = tp_rule_call(s, &tp_op_sum, 1, &arg[0]);
    sum = tp_rule_call(s, &tp_op_add_Tensor, 2, (tp_value[]){ sum, k });
    sum = tp_rule_call(s, &tp_op_add_Tensor, 2, (tp_value[]){ sum, v });
    sum = tp_rule_call(s, &tp_op_mul_Scalar, 2, (tp_value[]){ sum, tp_int(0) });
    return tp_rule_call(s, &tp_op_add_Tensor, 2, (tp_value[]){ zeros, sum });
}

/* Has it no elements? What depends on data has some. */
static bool is_nothing(const tp_tensor *t, bool *bad)
{
    bool nothing = false;
    *bad = *bad || !tp_sym_guard_or(tp_sym_eq(tp_syms_numel(t), tp_sym_int(0)), false, &nothing);
    return nothing;
}

/* (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) */
TP_HOOK_D(tp_d_attention)
{
    tp_scope s = { 0 };
    const tp_tensor *q = arg[0].tensor, *k = arg[1].tensor, *v = arg[2].tensor;
    (void)op;
    bool nothing = is_nothing(q, &s.failed) || is_nothing(k, &s.failed) || is_nothing(v, &s.failed);
    if (s.failed)
        return tp_scope_end(&s);
    if (nothing)
        return tp_rule_done(&s, of_nothing(&s, arg), result);
    tp_value mask = as_scores(&s, arg[3], q), made = tp_none();
    if (s.failed)
        return tp_scope_end(&s);
    unsigned off = atomic_load(&tp_the_runtime.attention_off);
    if (!(off & 1u << BLOCKED) && blocked_can(q, k, v, tp_as_tensor(mask), tp_as_double(arg[4]), tp_as_bool(arg[7]), &s.failed))
        made = CALL(_scaled_dot_product_flash_attention_for_cpu, arg[0], arg[1], arg[2], arg[4], arg[5], mask, arg[6]);
    else if (off & 1u << PRODUCTS)
        s.failed = !tp_fail(TP_ERR_RUNTIME, "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the math kernel and the fused kernels.");
    else
        made = CALL(_scaled_dot_product_attention_math, arg[0], arg[1], arg[2], mask, arg[4], arg[5], tp_none(), arg[6], arg[7]);
    return tp_rule_done(&s, made, result);
}

/* Keys or values for each head that shares them. */
static tp_value repeated(tp_scope *s, tp_value t, const tp_tensor *q)
{
    const tp_tensor *x = t.tensor;
    int64_t heads = x->ndim > 2 ? x->size[x->ndim - 3] : 0, wanted = q->ndim > 2 ? q->size[q->ndim - 3] : 0;
    if (s->failed || heads == wanted)
        return t;
    if (!heads || wanted % heads) {
        s->failed = !tp_fail(TP_ERR_RUNTIME, "Number of heads in key and value must divide the number of heads in ");
        return tp_none();
    }
    return tp_rule_call(s, &tp_op_repeat_interleave_self_int, 3, (tp_value[]){ t, tp_int(wanted / heads), tp_int(-3) });
}

static tp_value in_type(tp_scope *s, tp_value t, tp_dtype d)
{
    return s->failed ? tp_none() : tp_of_tensor(tp_scope_to_dtype(s, t.tensor, d));
}

/* True on and below the diagonal, as scores to add. */
static tp_value causal_mask(tp_scope *s, const tp_tensor *q, const tp_tensor *k)
{
    tp_syms size = { 2, { tp_tensor_sym_size(q, q->ndim - 2), tp_tensor_sym_size(k, k->ndim - 2) } };
    tp_value ones = tp_rule_call(s, &tp_op_ones, 4, (tp_value[]){ tp_scope_syms(s, &size), tp_of_dtype(TP_b8), { .tag = TP_LAYOUT }, tp_of_device(q->device) });
    tp_value shown = tp_rule_call(s, &tp_op_tril, 1, &ones);
    return s->failed ? tp_none() : as_scores(s, shown, q);
}

/* (query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale, enable_gqa) -> (output, weights) */
TP_HOOK_D(tp_d_attention_math)
{
    tp_scope s = { 0 };
    const tp_tensor *query = arg[0].tensor;
    tp_dtype origin = (tp_dtype)query->dtype;
    tp_dtype d = tp_dtype_is_half(origin) ? TP_f32 : origin;
    (void)op;
    if (query->ndim < 2 || arg[1].tensor->ndim < 2 || arg[2].tensor->ndim < 2)
        return tp_fail(TP_ERR_RUNTIME, "Expected query, key, and value to all be at least 2 dimensional");
    /* The scale is a number in the graph, so the width it comes from is guarded on. */
    double dropout = tp_as_double(arg[4]);
    double scale = arg[7].tag == TP_NONE ? 1 / sqrt((double)tp_sym_fixed(tp_tensor_sym_size(query, query->ndim - 1), &s.failed)) : tp_as_double(arg[7]);
    double root = sqrt(fabs(scale));
    tp_value q = in_type(&s, arg[0], d), k = in_type(&s, arg[1], d), v = in_type(&s, arg[2], d), mask = arg[3];
    q = CALL(mul_Scalar, q, tp_float(scale < 0 ? -root : root));
    if (!s.failed && tp_as_bool(arg[5]))
        mask = causal_mask(&s, q.tensor, k.tensor);
    if (!s.failed && tp_as_bool(arg[8])) {
        k = repeated(&s, k, q.tensor);
        v = repeated(&s, v, q.tensor);
    }
    tp_value scores = CALL(matmul, q, CALL(mul_Scalar, CALL(transpose_int, k, tp_int(-2), tp_int(-1)), tp_float(root)));
    if (mask.tag == TP_TENSOR)
        scores = CALL(add_Tensor, scores, mask);
    tp_value weights = CALL(_safe_softmax, scores, tp_int(-1)), shown = in_type(&s, weights, origin);
    if (dropout > 0 && arg[6].tag == TP_TENSOR) {
        weights = CALL(masked_fill_Scalar, weights, CALL(logical_not, arg[6]), tp_float(0));
        v = CALL(mul_Scalar, v, tp_float(1 / (1 - dropout)));
    } else if (dropout > 0) {
        weights = shown = CALL(dropout, weights, tp_float(dropout), tp_bool(true));
    }
    tp_value made = in_type(&s, CALL(matmul, weights, v), origin);
    if (!s.failed) {
        tp_scope_keep(&s, &result[0], made);
        tp_scope_keep(&s, &result[1], shown);
    }
    return tp_scope_end(&s);
}
