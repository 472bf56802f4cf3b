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

typedef struct reflections {
    tp_value K, sigma;              /* sigma: the factors of the inverse reflections */
    int64_t  m;
    bool     in_place;              /* unless it will be differentiated: what was read of K is needed then */
} reflections;

/* Element i of the last dim. */
static tp_value at_last(tp_scope *scope, tp_value x, int64_t i) { return tp_narrowed(scope, x, -1, i, i + 1); }

static void lessen(tp_scope *scope, reflections *r, int dim, int64_t i, tp_value delta, tp_value part)
{
    if (r->in_place)
        RUN(sub__Tensor, part, delta);
    else
        r->K = RUN(slice_scatter, r->K, RUN(sub_Tensor, part, delta), tp_int(dim), tp_int(i), tp_int(r->m), tp_int(1));
}

/* K = H_i^-1 K, which touches rows from i on. */
static void undo_left(tp_scope *scope, reflections *r, int64_t i, tp_value column, tp_value sigma)
{
    tp_value v = tp_narrowed(scope, column, -2, i, r->m), other = tp_adjoint(scope, tp_narrowed(scope, column, -2, i, r->m));
    tp_value dot = tp_mul_matrices(scope, other, tp_narrowed(scope, r->K, -2, i, r->m));
    tp_value part = tp_narrowed(scope, r->K, -2, i, r->m);
    lessen(scope, r, -2, i, RUN(mul_Tensor, RUN(mul_Tensor, RUN(unsqueeze, sigma, tp_int(-1)), v), dot), part);
}

/* K = K H_i, which touches columns from i on. */
static void do_right(tp_scope *scope, reflections *r, int64_t i, tp_value column, tp_value tau)
{
    tp_value across = tp_narrowed(scope, column, -2, i, r->m), right = tp_narrowed(scope, r->K, -1, i, r->m);
    tp_value v = tp_narrowed(scope, column, -2, i, r->m);
    tp_value dot = tp_mul_matrices(scope, right, RUN(mul_Tensor, RUN(unsqueeze, tau, tp_int(-1)), v));
    tp_value part = tp_narrowed(scope, r->K, -1, i, r->m);
    lessen(scope, r, -1, i, RUN(mul_Tensor, dot, tp_adjoint(scope, across)), part);
}

/* arg: two factors x and y with K = x y^H, input, tau; gives [gradient of input, of tau] */
TP_HOOK_D(tp_d_householder_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_value input = arg[2], tau = arg[3];
    int64_t m = tp_rows_of(input), n = tp_columns_of(input), k = tp_columns_of(tau);
    tp_values grads = { 0 }, tau_grads = { 0 };
    (void)op;
    if (tp_is_empty(input.tensor) || tp_is_empty(tau.tensor))
        return tp_rule_done(scope, tp_scope_list(scope, 2, (tp_value[]){ tp_none(), tp_none() }), result);
    tp_value V = RUN(tril, input, tp_int(-1));
    RUN(fill__Scalar, tp_diagonal_of(scope, V), tp_float(1));
    tp_value used = tp_narrowed(scope, V, -1, 0, k);
    tp_value squares = RUN(sum_dim_IntList, RUN(mul_Tensor, used, scope->failed ? used : tp_scope_conj(scope, used)), tp_scope_list(scope, 1, (tp_value[]){ tp_int(-2) }));
    tp_value sigma = RUN(div_Tensor, tau, RUN(sub_Scalar, RUN(mul_Tensor, tau, squares), tp_float(1)));
    reflections r = { .K = tp_mul_matrices(scope, arg[0], tp_adjoint(scope, arg[1])), .sigma = sigma, .m = m, .in_place = true };
    for (int i = 0; i < 4; i++)
        r.in_place &= !tp_wants_gradient(arg[i].tensor);
    tp_value last = tp_none(), last_tau = tp_none();
    for (int64_t i = 0; i < k && !scope->failed; i++) {
        if (i == 0) {
            tp_value factor = at_last(scope, r.sigma, 0);
            undo_left(scope, &r, 0, at_last(scope, V, 0), factor);
        } else {
            tp_value column = at_last(scope, V, i);
            undo_left(scope, &r, i, column, at_last(scope, r.sigma, i));
            do_right(scope, &r, i - 1, last, last_tau);
        }
        last = at_last(scope, V, i);
        last_tau = at_last(scope, tau, i);
        tp_value v = tp_narrowed(scope, last, -2, i, m), across = tp_adjoint(scope, v);
        tp_value row = tp_mul_matrices(scope, across, tp_narrowed(scope, r.K, -2, i, m));
        tp_value down = tp_mul_matrices(scope, tp_narrowed(scope, r.K, -1, i, m), v);
        tp_value t = RUN(unsqueeze, last_tau, tp_int(-1));
        tp_value second = RUN(squeeze_dim, RUN(mul_Tensor, t, down), tp_int(-1));
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
    g = r.in_place ? RUN(tril_, g, tp_int(-1)) : RUN(tril, g, tp_int(-1));
    return tp_rule_done(scope, tp_scope_list(scope, 2, (tp_value[]){ g, g_tau }), result);
}
