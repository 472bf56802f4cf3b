/* linalg_norm.c - norms, condition, rank and inverses by singular values: which ops a call becomes. */
#include <float.h>
#include <math.h>

#include "ops/rules/matrices.h"

static double epsilon_of(const tp_tensor *t) { return tp_dtype_to_real((tp_dtype)t->dtype) == TP_f64 ? DBL_EPSILON : FLT_EPSILON; }

/* ---- norms of matrices ---- */

/* Two different dims, wrapped. */
static bool two_dims(const tp_tensor *a, tp_value dims, int64_t *dim)
{
    int n = tp_as_ints(dims, dim, 2, 0);
    if (tp_length(dims) != 2) {
        tp_text text = { 0 };
        for (uint32_t i = 0; i < tp_length(dims); i++)
            tp_text_add(&text, i ? ", %lld" : "%lld", LL(tp_as_int(dims.list->item[i])));
        tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: dim must be a 2-tuple. Got %s", tp_text_read(&text));
        tp_text_fini(&text);
        return false;
    }
    bool bad = n != 2;
    for (int i = 0; i < 2 && !bad; i++)
        dim[i] = tp_wrap(dim[i], a->ndim, &bad);
    if (!bad && dim[0] == dim[1])
        return tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: dims must be different. Got (%lld, %lld)", LL(dim[0]), LL(dim[1]));
    return !bad;
}

/* What every order asks of matrix and type. */
static bool check_matrix_norm(const tp_tensor *a, tp_value dims, int64_t *dim, tp_value dtype, bool by_values)
{
    tp_dtype have = (tp_dtype)a->dtype, want = dtype.tag == TP_NONE ? have : tp_dtype_read(dtype);
    if (a->ndim < 2)
        return tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.");
    if (!tp_dtype_is_inexact(have))
        return tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got %s", tp_dtypes[have].title);
    if (by_values && (have == TP_f16 || have == TP_bf16))
        return tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: Low precision dtypes not supported. Got %s", tp_dtypes[have].title);
    if (!two_dims(a, dims, dim))
        return false;
    if (dtype.tag == TP_NONE)
        return true;
    if (!tp_dtype_is_inexact(want))
        return tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: dtype should be floating point or complex, but got %s", tp_dtypes[want].title);
    if (tp_dtype_is_complex(have) != tp_dtype_is_complex(want))
        return tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: dtype should be %s for %s inputs, but got %s", tp_dtype_is_complex(have) ? "complex" : "real",
                       tp_dtype_is_complex(have) ? "complex" : "real", tp_dtypes[want].title);
    if (tp_dtypes[want].bytes < tp_dtypes[have].bytes)
        return tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: the dtype of the input (%s) should be convertible without narrowing to the specified dtype (%s)",
                       tp_dtypes[have].title, tp_dtypes[want].title);
    return true;
}

/* The largest (or, below 0, smallest) along a dim; of no elements the largest is 0. */
static tp_value extreme(tp_scope *scope, tp_value x, int64_t dim, bool keepdim, double order)
{
    tp_value at = tp_int(dim), dims = tp_scope_list(scope, 1, &at);
    if (scope->failed || order < 0 || tp_fixed_size(x, (int)dim) > 0)
        return order > 0 ? RUN(amax, x, dims, tp_bool(keepdim)) : RUN(amin, x, dims, tp_bool(keepdim));
    bool bad = false;
    tp_ints reduce = { .count = 1, .item = { dim } };
    tp_syms have = tp_syms_sizes(x.tensor), size = tp_syms_reduced(&have, &reduce, keepdim, &bad);
    return RUN(zeros, tp_scope_syms(scope, &size), tp_of_dtype((tp_dtype)x.tensor->dtype), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(x.tensor->device));
}

/* By singular values: the two dims go to the end, and back when they are kept. Order 0 sums them. */
static tp_value norm_by_values(tp_scope *scope, tp_value a, const int64_t *dim, bool keepdim, tp_value dtype, double order)
{
    int ndim = a.tensor->ndim, at = 0;
    tp_value places[TP_MAX_DIMS], back[TP_MAX_DIMS], last = tp_int(-1);
    for (int i = 0; i < ndim; i++)
        if (i != dim[0] && i != dim[1])
            places[at++] = tp_int(i);
    places[at++] = tp_int(dim[0]);
    places[at] = tp_int(dim[1]);
    for (int i = 0; i < ndim; i++)
        back[places[i].i] = tp_int(i);
    if (dtype.tag != TP_NONE)
        a = tp_of_tensor(tp_scope_to_dtype(scope, a.tensor, tp_dtype_read(dtype)));
    tp_value values = RUN(linalg_svdvals, RUN(permute, a, tp_scope_list(scope, ndim, places)));
    tp_value x = order == 0 ? RUN(sum_dim_IntList, values, tp_scope_list(scope, 1, &last), tp_bool(keepdim)) : extreme(scope, values, -1, keepdim, order);
    return keepdim ? RUN(permute, RUN(unsqueeze, x, tp_int(-1)), tp_scope_list(scope, ndim, back)) : x;
}

/* arg: self, ord, dim, keepdim, dtype */
TP_HOOK_D(tp_d_linalg_matrix_norm)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_tensor *a = arg[0].tensor;
    double order = tp_as_double(arg[1]), size = fabs(order);
    bool keepdim = tp_as_bool(arg[3]);
    int64_t dim[2];
    (void)op;
    if (size != 1 && size != 2 && !isinf(size)) {
        tp_value text[1] = { tp_value_ref(arg[1]) };
        return tp_fail_with(TP_ERR_RUNTIME, "linalg.matrix_norm: Order {} not supported.", 1, text);
    }
    if (!check_matrix_norm(a, arg[2], dim, arg[4], size == 2))
        return false;
    if (size == 2)
        return tp_rule_done(scope, norm_by_values(scope, arg[0], dim, keepdim, arg[4], order), result);
    int64_t along = dim[size == 1 ? 0 : 1], then = dim[size == 1 ? 1 : 0];
    then -= !keepdim && along < then;
    tp_value first = tp_int(along);
    tp_value sums = RUN(linalg_vector_norm, arg[0], tp_float(1), tp_scope_list(scope, 1, &first), tp_bool(keepdim), arg[4]);
    return tp_rule_done(scope, extreme(scope, sums, then, keepdim, order), result);
}

TP_HOOK_D(tp_d_linalg_matrix_norm_str)
{
    tp_scope own = { 0 }, *scope = &own;
    const char *order = tp_str_read(arg[1]);
    bool nuclear = strcmp(order, "nuc") == 0, keepdim = tp_as_bool(arg[3]);
    int64_t dim[2];
    (void)op;
    if (!nuclear && strcmp(order, "fro") != 0)
        return tp_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: Order %s not supported.", order);
    if (!check_matrix_norm(arg[0].tensor, arg[2], dim, arg[4], nuclear))
        return false;
    if (nuclear)
        return tp_rule_done(scope, norm_by_values(scope, arg[0], dim, keepdim, arg[4], 0), result);
    tp_value dims[2] = { tp_int(dim[0]), tp_int(dim[1]) };
    return tp_rule_done(scope, RUN(linalg_vector_norm, arg[0], tp_int(2), tp_scope_list(scope, 2, dims), arg[3], arg[4]), result);
}

/* ---- condition ---- */

/* |A| |A^-1|; a singular matrix has an infinite inverse. */
static tp_value condition_by_inverse(tp_scope *scope, tp_value a, const tp_op *norm, tp_value order)
{
    tp_value made = tp_scope_call_all(scope, &tp_op_linalg_inv_ex, (tp_value[]){ a, tp_bool(false) });
    if (scope->failed)
        return tp_none();
    tp_value info = RUN(unsqueeze_, RUN(unsqueeze_, made.list->item[1], tp_int(-1)), tp_int(-1));
    tp_value inverse = RUN(masked_fill__Scalar, made.list->item[0], RUN(gt_Scalar, info, tp_int(0)), tp_float(INFINITY));
    tp_value of_a = tp_rule_call(scope, norm, 2, (tp_value[]){ a, order }), of_inverse = tp_rule_call(scope, norm, 2, (tp_value[]){ inverse, order });
    tp_value product = RUN(mul_Tensor, of_a, of_inverse);
    return RUN(nan_to_num_, product, tp_float(INFINITY), tp_float(INFINITY), tp_float(-INFINITY));
}

/* arg: self, p (none, a number or a text) */
TP_HOOK_D(tp_d_linalg_cond)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_tensor *a = arg[0].tensor;
    int64_t m = tp_rows_of(arg[0]), n = tp_columns_of(arg[0]), k = m < n ? m : n;
    double p = arg[1].tag == TP_NONE ? 2 : arg[1].tag == TP_STRING ? 0 : tp_as_double(arg[1]);
    tp_value last = tp_int(-1), made;
    (void)op;
    if (arg[1].tag != TP_STRING && fabs(p) != 1 && fabs(p) != 2 && !isinf(p)) {
        tp_value text[1] = { tp_value_ref(arg[1]) };
        return tp_fail_with(TP_ERR_RUNTIME, "linalg.cond got an invalid norm type: {}", 1, text);
    }
    if (arg[1].tag != TP_STRING && fabs(p) != 2 && m != n && !tp_is_empty(a)) {
        tp_value text[3] = { tp_value_ref(arg[1]), tp_int(m), tp_int(n) };
        return tp_fail_with(TP_ERR_RUNTIME, "linalg.cond(ord={}): A must be batches of square matrices, but they are {} by {} matrices", 3, text);
    }
    if (tp_is_empty(a)) {
        tp_syms batch = tp_syms_sizes(a);
        batch.count -= 2;
        made = RUN(zeros, tp_scope_syms(scope, &batch), tp_of_dtype(tp_dtype_to_real((tp_dtype)a->dtype)), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(a->device));
    } else if (fabs(p) == 2) {
        tp_value values = RUN(linalg_svdvals, arg[0]);
        tp_value high = tp_narrowed(scope, values, -1, 0, 1), low = tp_narrowed(scope, values, -1, k - 1, k);
        made = RUN(squeeze_dim, p > 0 ? RUN(div_Tensor, high, low) : RUN(div_Tensor, low, high), last);
    } else if (arg[1].tag == TP_STRING && strcmp(arg[1].string->text, "nuc") == 0) {
        tp_value values = RUN(linalg_svdvals, arg[0]), dims = tp_scope_list(scope, 1, &last);
        tp_value of_inverse = RUN(sum_dim_IntList, RUN(reciprocal, values), dims);
        made = RUN(mul_Tensor, RUN(sum_dim_IntList, values, dims), of_inverse);
    } else
        made = condition_by_inverse(scope, arg[0], arg[1].tag == TP_STRING ? &tp_op_linalg_matrix_norm_str_ord : &tp_op_linalg_matrix_norm, arg[1]);
    return tp_rule_done(scope, made, result);
}

/* ---- rank, pseudo-inverse ---- */

/* What counts as zero: max(atol, rtol * largest), by the defaults where one is absent. */
static tp_value zero_below(tp_scope *scope, tp_value matrix, tp_value atol, tp_value rtol, tp_value largest)
{
    const tp_tensor *a = matrix.tensor;
    tp_value f64 = tp_of_dtype(TP_f64), scalar = tp_scope_list(scope, 0, NULL), layout = { .tag = TP_LAYOUT }, device = tp_of_device(a->device);
    int64_t m = tp_rows_of(matrix), n = tp_columns_of(matrix);
    bool given = tp_is_given(atol);
    if (!given)
        atol = RUN(zeros, scalar, f64, layout, device);
    if (!tp_is_given(rtol)) {
        rtol = RUN(full, scalar, tp_float(epsilon_of(a) * (double)(m > n ? m : n)), f64, layout, device);
        if (given) {
            tp_value nothing = RUN(zeros, scalar, f64, layout, device);
            rtol = RUN(where_self, RUN(gt_Scalar, atol, tp_int(0)), nothing, rtol);
        }
    }
    tp_value relative = RUN(mul_Tensor, RUN(unsqueeze, rtol, tp_int(-1)), largest);
    return RUN(maximum, RUN(unsqueeze, atol, tp_int(-1)), relative);
}

/* arg: input, atol, rtol, hermitian */
TP_HOOK_D(tp_d_linalg_matrix_rank)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_tensor *a = arg[0].tensor;
    tp_value last = tp_int(-1), dims = tp_scope_list(scope, 1, &last), values, largest;
    (void)op;
    if (tp_is_empty(a)) {
        tp_syms batch = tp_syms_sizes(a);
        batch.count -= 2;
        return tp_rule_done(scope, RUN(zeros, tp_scope_syms(scope, &batch), tp_of_dtype(TP_i64), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(a->device)), result);
    }
    if (tp_as_bool(arg[3])) {
        values = RUN(abs, RUN(linalg_eigvalsh, arg[0]));
        largest = RUN(amax, values, dims, tp_bool(true));
    } else {
        values = RUN(linalg_svdvals, arg[0]);
        largest = tp_narrowed(scope, values, -1, 0, 1);
    }
    tp_value above = RUN(gt_Tensor, values, zero_below(scope, arg[0], arg[1], arg[2], largest));
    return tp_rule_done(scope, RUN(sum_dim_IntList, above, dims), result);
}

/* arg: self, atol, rtol, hermitian */
TP_HOOK_D(tp_d_linalg_pinv)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_tensor *a = arg[0].tensor;
    bool hermitian = tp_as_bool(arg[3]);
    tp_value last = tp_int(-1), values, sizes, largest, left, right, inverse;
    (void)op;
    if (tp_is_empty(a)) {
        tp_syms size = tp_syms_sizes(a);
        tp_sym m = size.item[size.count - 2];
        size.item[size.count - 2] = size.item[size.count - 1];
        size.item[size.count - 1] = m;
        return tp_rule_done(scope, RUN(new_zeros, arg[0], tp_scope_syms(scope, &size)), result);
    }
    if (hermitian) {
        tp_value made = tp_scope_call_all(scope, &tp_op_linalg_eigh, (tp_value[]){ arg[0], tp_scope_text(scope, "L") });
        values = scope->failed ? tp_none() : made.list->item[0];
        left = scope->failed ? tp_none() : made.list->item[1];
        sizes = RUN(abs, values);
        largest = RUN(amax, sizes, tp_scope_list(scope, 1, &last), tp_bool(true));
        right = tp_adjoint(scope, left);
    } else {
        tp_value made = tp_scope_call_all(scope, &tp_op_linalg_svd, (tp_value[]){ arg[0], tp_bool(false), tp_none() });
        values = sizes = scope->failed ? tp_none() : made.list->item[1];
        largest = tp_narrowed(scope, values, -1, 0, 1);
        left = scope->failed ? tp_none() : tp_adjoint(scope, made.list->item[2]);
        right = scope->failed ? tp_none() : tp_adjoint(scope, made.list->item[0]);
    }
    tp_value above = RUN(gt_Tensor, sizes, zero_below(scope, arg[0], arg[1], arg[2], largest));
    inverse = RUN(where_ScalarOther, above, RUN(reciprocal, values), tp_int(0));
    tp_value scaled = RUN(mul_Tensor, left, RUN(unsqueeze, inverse, tp_int(-2)));
    return tp_rule_done(scope, tp_mul_matrices(scope, scaled, right), result);
}

/* ---- least squares ---- */

/* arg: gX, gR (either may be none), A, B, X; gives [gA, gB]. X = A^+ B, R = |A X - B|^2. */
TP_HOOK_D(tp_d_linalg_lstsq_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_value gX = arg[0], gR = arg[1], A = arg[2], B = arg[3], X = arg[4], grads[2] = { tp_none(), tp_none() };
    bool vector = X.tensor->ndim < A.tensor->ndim, residuals = tp_is_given(gR) && !tp_is_empty(gR.tensor);
    (void)op;
    if (!tp_is_given(gX) && !residuals)
        return true;
    tp_value b = vector ? RUN(unsqueeze, B, tp_int(-1)) : B, x = vector && residuals ? RUN(unsqueeze, X, tp_int(-1)) : X;
    if (tp_is_given(gX)) {
        tp_value g = vector ? RUN(unsqueeze, gX, tp_int(-1)) : gX;
        tp_value pinv = RUN(linalg_pinv_atol_rtol_tensor, A, tp_none(), tp_none(), tp_bool(false));
        tp_value of_pinv = tp_mul_matrices(scope, g, tp_adjoint(scope, b));
        grads[0] = tp_scope_piece(scope, tp_d_pinv_backward, (tp_value[]){ of_pinv, pinv, A });
        grads[1] = tp_mul_matrices(scope, tp_adjoint(scope, pinv), g);
    }
    if (residuals) {
        tp_value rest = RUN(sub_Tensor, tp_mul_matrices(scope, A, x), b), g = RUN(unsqueeze, gR, tp_int(-2));
        tp_value weighted = RUN(mul_Tensor, g, rest);
        tp_value of_a = RUN(mul_Scalar, tp_mul_matrices(scope, weighted, tp_adjoint(scope, x)), tp_int(2));
        grads[0] = tp_is_given(grads[0]) ? RUN(add_Tensor, grads[0], of_a) : of_a;
        tp_value of_b = RUN(mul_Tensor, RUN(mul_Scalar, g, tp_int(-2)), rest);
        grads[1] = tp_is_given(grads[1]) ? RUN(add_Tensor, grads[1], of_b) : of_b;
    }
    if (vector)
        grads[1] = RUN(squeeze_dim, grads[1], tp_int(-1));
    return tp_rule_done(scope, tp_scope_list(scope, 2, grads), result);
}

/* arg: g, A^+, A. The cheaper of two forms by the shape of A. */
TP_HOOK_D(tp_d_pinv_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_value P = arg[1], A = arg[2], ph = tp_adjoint(scope, P), gh = tp_adjoint(scope, arg[0]), made;
    (void)op;
    if (tp_rows_of(A) <= tp_columns_of(A)) {
        tp_value k = tp_mul_matrices(scope, gh, P), kp = tp_mul_matrices(scope, k, ph), square = tp_mul_matrices(scope, ph, P);
        tp_value rest = tp_mul_matrices(scope, square, RUN(sub_Tensor, gh, tp_mul_matrices(scope, k, A)));
        tp_value inside = tp_mul_matrices(scope, tp_mul_matrices(scope, A, P), kp);
        made = RUN(add_Tensor, RUN(neg, tp_adjoint(scope, tp_mul_matrices(scope, P, k))), kp);
        made = RUN(add_Tensor, RUN(sub_Tensor, made, inside), rest);
    } else {
        tp_value k = tp_mul_matrices(scope, P, gh), pk = tp_mul_matrices(scope, ph, k);
        tp_value inside = tp_mul_matrices(scope, tp_mul_matrices(scope, pk, P), A);
        tp_value rest = tp_mul_matrices(scope, tp_mul_matrices(scope, RUN(sub_Tensor, gh, tp_mul_matrices(scope, A, k)), P), ph);
        made = RUN(add_Tensor, RUN(neg, tp_adjoint(scope, tp_mul_matrices(scope, k, P))), rest);
        made = RUN(sub_Tensor, RUN(add_Tensor, made, pk), inside);
    }
    return tp_rule_done(scope, made, result);
}

/* ---- powers, tensors as matrices ---- */

/* arg: self, n */
TP_HOOK_D(tp_d_linalg_matrix_power)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_tensor *a = arg[0].tensor;
    int64_t n = tp_as_int(arg[1]);
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    tp_value z = n < 0 ? RUN(linalg_inv, arg[0]) : arg[0], power = tp_none(), contiguous = { .tag = TP_FORMAT_VALUE, .i = TP_FORMAT_CONTIGUOUS };
    (void)op;
    if (n == 0) {
        tp_value copy = RUN(clone, z, contiguous);
        tp_value eye = RUN(eye, tp_of_sym(tp_tensor_sym_size(a, a->ndim - 1)), tp_of_dtype((tp_dtype)a->dtype), (tp_value){ .tag = TP_LAYOUT }, tp_of_device(a->device));
        return tp_rule_done(scope, RUN(copy_, copy, eye), result);
    }
    if (n == 1)
        return tp_rule_done(scope, RUN(clone, z, contiguous), result);
    if (left == 3) {                                /* one product fewer to keep */
        power = tp_mul_matrices(scope, tp_mul_matrices(scope, z, z), z);
        left = 0;
    }
    for (; left > 0 && !scope->failed; left >>= 1) {
        if (left & 1)
            power = tp_is_given(power) ? tp_mul_matrices(scope, power, z) : z;
        if (left > 1)
            z = tp_mul_matrices(scope, z, z);
    }
    return tp_rule_done(scope, power, result);
}

/* arg: self, other, dims. Dims that are named go to the end; then those before other's dims are rows. */
TP_HOOK_D(tp_d_linalg_tensorsolve)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_tensor *a = arg[0].tensor, *b = arg[1].tensor;
    tp_value x = arg[0], all = tp_int(-1);
    int64_t ndim = a->ndim, n = tp_length(arg[2]);
    tp_ints size = { 0 }, shape = { 0 };
    bool bad = false;
    (void)op;
    if (arg[2].tag != TP_NONE) {
        tp_value from[TP_MAX_DIMS], to[TP_MAX_DIMS];
        for (int64_t i = 0; i < n && !bad; i++) {
            from[i] = tp_int(tp_wrap(tp_as_int(arg[2].list->item[i]), ndim, &bad));
            to[i] = tp_int(ndim - n + i);
        }
        if (bad)
            return false;
        x = RUN(movedim_intlist, x, tp_scope_list(scope, (uint32_t)n, from), tp_scope_list(scope, (uint32_t)n, to));
    }
    const tp_tensor *t = tp_as_tensor(x);
    for (int64_t i = b->ndim; t && i < t->ndim; i++)
        tp_ints_add(&shape, tp_fixed_size(x, (int)i));
    int64_t rows = tp_ints_product(&shape);
    if (!scope->failed && rows != b->numel) {
        tp_fail(TP_ERR_RUNTIME, "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got %lld != %lld",
                LL(rows), LL(b->numel));
        scope->failed = true;
    }
    tp_ints_add(&size, rows);
    tp_ints_add(&size, rows);
    tp_value matrix = RUN(reshape, x, tp_scope_ints(scope, &size)), flat = b->ndim == 1 ? arg[1] : RUN(reshape, arg[1], tp_scope_list(scope, 1, &all));
    tp_value solved = RUN(linalg_solve, matrix, flat);
    return tp_rule_done(scope, RUN(reshape, solved, tp_scope_ints(scope, &shape)), result);
}
