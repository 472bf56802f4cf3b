/* orthogonal.c - gradients of QR and of products of reflections, node for node as PyTorch's graphs have them. */
#include "ops/rules/matrices.h"

/* The diagonal of x by a half, in place; of a complex x only its real (0) or imaginary (1) part. */
static void halve_diagonal(tp_scope *scope, tp_value x, int part)
{
    tp_value d = tp_diagonal_of(scope, x);
    if (!scope->failed && tp_is_complex_value(x))
        d = tp_part_of(scope, d, part);
    RUN(mul__Scalar, d, tp_float(0.5));
}

/* m >= n: gA = (gQ + Q syminv(triu(gR R^H - Q^H gQ))) R^-H */
static tp_value qr_tall(tp_scope *scope, tp_value gQ, tp_value Q, tp_value R, tp_value inner)
{
    tp_value upper = RUN(triu, inner);
    tp_value both = RUN(add_Tensor, upper, tp_adjoint(scope, upper));
    halve_diagonal(scope, both, 0);
    tp_value g = tp_mul_matrices(scope, Q, both);
    if (tp_is_given(gQ))
        g = RUN(add_Tensor, g, gQ);
    return RUN(linalg_solve_triangular, tp_adjoint(scope, R), g, tp_bool(false), tp_bool(false));
}

/* m < n: only the first m columns determine Q. */
static tp_value qr_wide(tp_scope *scope, tp_value gR, tp_value Q, tp_value R, tp_value inner)
{
    int64_t m = tp_rows_of(Q), n = tp_columns_of(R);
    tp_value minus = RUN(neg, inner);
    tp_value lower = RUN(tril, RUN(sub_Tensor, minus, tp_adjoint(scope, minus)));
    if (tp_is_complex_value(Q))
        halve_diagonal(scope, lower, 1);
    tp_value turned = tp_mul_matrices(scope, Q, lower), first = tp_narrowed(scope, R, -1, 0, m);
    tp_value g = RUN(linalg_solve_triangular, tp_adjoint(scope, first), turned, tp_bool(false), tp_bool(false));
    if (scope->failed)
        return tp_none();
    tp_value size[TP_MAX_DIMS];
    int ndim = Q.tensor->ndim;
    for (int i = 0; i < ndim; i++)
        size[i] = i == ndim - 1 ? tp_int(n - m) : tp_of_sym(tp_tensor_sym_size(Q.tensor, i));
    tp_value zeros = RUN(new_zeros, g, tp_scope_list(scope, ndim, size));
    g = RUN(cat, tp_scope_list(scope, 2, (tp_value[]){ g, zeros }), tp_int(-1));
    return tp_is_given(gR) ? RUN(add_Tensor, g, tp_mul_matrices(scope, Q, gR)) : g;
}

/* arg: gQ, gR (either may be none), Q, R, mode */
TP_HOOK_D(tp_d_linalg_qr_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_value gQ = arg[0], gR = arg[1], Q = arg[2], R = arg[3], inner;
    const char *mode = tp_str_read(arg[4]);
    (void)op;
    if (!tp_is_given(gQ) && !tp_is_given(gR))
        return true;
    if (mode[0] == 'r' && !mode[1])
        return tp_fail(TP_ERR_RUNTIME, "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.");
    if (mode[0] == 'c' && tp_rows_of(Q) > tp_columns_of(R))
        return tp_fail(TP_ERR_RUNTIME, "The QR decomposition is not differentiable when mode='complete' and nrows > ncols");
    if (tp_is_given(gQ)) {
        inner = tp_mul_matrices(scope, tp_adjoint(scope, Q), gQ);
        inner = tp_is_given(gR) ? RUN(sub_Tensor, tp_mul_matrices(scope, gR, tp_adjoint(scope, R)), inner) : RUN(neg, inner);
    } else
        inner = tp_mul_matrices(scope, gR, tp_adjoint(scope, R));
    tp_value made = tp_rows_of(Q) >= tp_columns_of(R) ? qr_tall(scope, gQ, Q, R, inner) : qr_wide(scope, gR, Q, R, inner);
    return tp_rule_done(scope, made, result);
}

/* ---- reflections: Q = H_1 … H_k; K = Q gQ^H moves along, each H_i undone from the left and done from the right ---- */

/* K[i:] along dim, less `delta`. In place, unless it will be differentiated: what was read of K is needed then. */
static tp_value lessened(tp_scope *scope, tp_value K, int dim, int64_t i, tp_value delta, bool in_place)
{
    int64_t m = tp_rows_of(K);
    tp_value part = tp_narrowed(scope, K, dim, i, m);
    if (in_place) {
        RUN(sub__Tensor, part, delta);
        return K;
    }
    return RUN(slice_scatter, K, RUN(sub_Tensor, part, delta), tp_int(dim), tp_int(i), tp_int(m), tp_int(1));
}

/* Element i of the last dim, with one more dim behind it. */
static tp_value factor(tp_scope *scope, tp_value tau, int64_t i)
{
    return RUN(unsqueeze, tp_narrowed(scope, tau, -1, i, i + 1), tp_int(-1));
}

static tp_value vector(tp_scope *scope, tp_value V, int64_t i)
{
    return tp_narrowed(scope, tp_narrowed(scope, V, -1, i, i + 1), -2, i, tp_rows_of(V));
}

/* arg: two factors x and y with K = x y^H, input, tau; gives [gradient of input, of tau] */
TP_HOOK_D(tp_d_householder_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_value input = arg[2], tau = arg[3];
    int64_t m = tp_rows_of(input), n = tp_columns_of(input), k = tp_columns_of(tau);
    bool in_place = true;
    tp_values grads = { 0 }, tau_grads = { 0 };
    (void)op;
    if (tp_is_empty(input.tensor) || tp_is_empty(tau.tensor))
        return tp_rule_done(scope, tp_scope_list(scope, 2, (tp_value[]){ tp_none(), tp_none() }), result);
    tp_value V = RUN(tril, input, tp_int(-1));
    RUN(fill__Scalar, tp_diagonal_of(scope, V), tp_float(1));
    tp_value used = tp_narrowed(scope, V, -1, 0, k);
    tp_value squares = RUN(sum_dim_IntList, RUN(mul_Tensor, used, scope->failed ? used : tp_scope_conj(scope, used)), tp_scope_list(scope, 1, (tp_value[]){ tp_int(-2) }));
    tp_value sigma = RUN(div_Tensor, tau, RUN(sub_Scalar, RUN(mul_Tensor, tau, squares), tp_float(1)));
    tp_value K = tp_mul_matrices(scope, arg[0], tp_adjoint(scope, arg[1]));
    for (int i = 0; i < 4; i++)
        in_place &= !tp_wants_gradient(arg[i].tensor);
    for (int64_t i = 0; i < k && !scope->failed; i++) {
        tp_value v = vector(scope, V, i);
        tp_value dot = tp_mul_matrices(scope, tp_adjoint(scope, v), tp_narrowed(scope, K, -2, i, m));
        K = lessened(scope, K, -2, i, RUN(mul_Tensor, RUN(mul_Tensor, factor(scope, sigma, i), v), dot), in_place);
        if (i > 0) {
            tp_value last = vector(scope, V, i - 1);
            tp_value right = tp_mul_matrices(scope, tp_narrowed(scope, K, -1, i - 1, m), RUN(mul_Tensor, factor(scope, tau, i - 1), last));
            K = lessened(scope, K, -1, i - 1, RUN(mul_Tensor, right, tp_adjoint(scope, last)), in_place);
        }
        tp_value row = tp_mul_matrices(scope, tp_adjoint(scope, v), tp_narrowed(scope, K, -2, i, m));
        tp_value column = tp_mul_matrices(scope, tp_narrowed(scope, K, -1, i, m), v);
        tp_value t = factor(scope, tau, i);
        tp_value second = RUN(squeeze_dim, RUN(mul_Tensor, t, column), tp_int(-1));
        tp_value turned = RUN(mul_Tensor, RUN(neg, t), row);
        tp_value first = RUN(squeeze_dim, scope->failed ? turned : tp_scope_conj(scope, turned), tp_int(-2));
        tp_value g = RUN(sub_Tensor, first, second);
        tp_value scale = tp_mul_matrices(scope, tp_narrowed(scope, row, -1, i, m), v);
        tp_value g_tau = RUN(squeeze_dim, RUN(neg, scope->failed ? scale : tp_scope_conj(scope, scale)), tp_int(-1));
        tp_values_add(scope, &grads, RUN(unsqueeze, g, tp_int(-1)));
        tp_values_add(scope, &tau_grads, g_tau);
    }
    for (int64_t i = k; i < n && !scope->failed; i++)   /* columns that no reflection is made of */
        tp_values_add(scope, &grads, RUN(zeros_like, tp_narrowed(scope, input, -1, i, i + 1)));
    tp_value g = RUN(cat, tp_scope_values(scope, &grads), tp_int(-1)), g_tau = RUN(cat, tp_scope_values(scope, &tau_grads), tp_int(-1));
    g = in_place ? RUN(tril_, g, tp_int(-1)) : RUN(tril, g, tp_int(-1));
    return tp_rule_done(scope, tp_scope_list(scope, 2, (tp_value[]){ g, g_tau }), result);
}
