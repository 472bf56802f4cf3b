/* linalg.c - pieces of linear algebra's definitions that are more than an expression. */
#include <float.h>

#include "ops/rules/matrices.h"

/* ---- an op that tells by `info`, and the check that raises ---- */

/* Results of `op` but `info`, its last one, which is checked in the words of `name`. */
static bool checked(const tp_op *op, const tp_value *arg, const char *name, int kept, tp_value *result)
{
    tp_scope s = { 0 };
    int info = op->result_count - 1;
    tp_value made = tp_scope_call_all(&s, op, arg);
    if (!s.failed) {
        CALL(_linalg_check_errors, made.list->item[info], tp_scope_text(&s, name), tp_bool(tp_as_tensor(arg[0])->ndim == 2));
        for (int i = 0; !s.failed && i < kept; i++)
            tp_scope_keep(&s, &result[i], made.list->item[i]);
    }
    return tp_scope_end(&s);
}

/* arg: A, pivot */
TP_HOOK_D(tp_d_linalg_lu_factor)
{
    (void)op;
    return checked(&tp_op_linalg_lu_factor_ex, (tp_value[]){ arg[0], arg[1], tp_bool(false) }, "torch.linalg.lu_factor", 2, result);
}

/* arg: self, hermitian */
TP_HOOK_D(tp_d_linalg_ldl_factor)
{
    (void)op;
    return checked(&tp_op_linalg_ldl_factor_ex, (tp_value[]){ arg[0], arg[1], tp_bool(false) }, "torch.linalg.ldl_factor", 2, result);
}

/* arg: A */
TP_HOOK_D(tp_d_linalg_inv)
{
    (void)op;
    return checked(&tp_op_linalg_inv_ex, (tp_value[]){ arg[0], tp_bool(false) }, "linalg.inv", 1, result);
}

/* arg: A. What tensorinv calls: the message names another function. */
TP_HOOK_D(tp_d_linalg_inv_of_tensor)
{
    (void)op;
    return checked(&tp_op_linalg_inv_ex, (tp_value[]){ arg[0], tp_bool(false) }, "inv", 1, result);
}

/* arg: self, upper */
TP_HOOK_D(tp_d_linalg_cholesky)
{
    (void)op;
    return checked(&tp_op_linalg_cholesky_ex, (tp_value[]){ arg[0], arg[1], tp_bool(false) }, "linalg.cholesky", 1, result);
}

/* arg: A, B, left */
TP_HOOK_D(tp_d_linalg_solve)
{
    (void)op;
    return checked(&tp_op__linalg_solve_ex, (tp_value[]){ arg[0], arg[1], arg[2], tp_bool(false) }, "torch.linalg.solve", 1, result);
}

/* ---- determinants: det(A) A^-H, by the factors that are there, or, to be differentiated again, from A itself ---- */

/* A diagonal matrix with the number d for each matrix, seen transposed. */
static tp_value scaled_identity(tp_scope *scope, const tp_tensor *a, tp_value d)
{
    tp_value size[TP_MAX_DIMS];
    for (int i = 0; i < a->ndim - 1; i++)
        size[i] = tp_of_sym(tp_tensor_sym_size(a, i));
    tp_value row = RUN(expand, RUN(unsqueeze, d, tp_int(-1)), tp_scope_list(scope, a->ndim - 1, size));
    return tp_transposed(scope, RUN(diag_embed, row));
}

/* A^-H g. The factors of a row-major real matrix are those of its transpose. */
static tp_value solve_by_factors(tp_scope *scope, const tp_tensor *a, tp_value lu, tp_value pivots, tp_value g)
{
    bool of_transpose = tp_tensor_is_contiguous(a) && !tp_dtype_is_complex((tp_dtype)a->dtype);
    return RUN(linalg_lu_solve, lu, pivots, g, tp_bool(true), tp_bool(!of_transpose));
}

/* By singular values, which serves singular matrices too: U (the products of the other values) V^H, times det U det V^H. */
static tp_value det_by_values(tp_scope *scope, tp_value a, tp_value g)
{
    tp_value made = tp_scope_call_all(scope, &tp_op__linalg_svd, (tp_value[]){ a, tp_bool(true), tp_bool(true), tp_none() });
    if (scope->failed)
        return tp_none();
    tp_value U = made.list->item[0], S = made.list->item[1], Vh = made.list->item[2];
    tp_value of_v = RUN(linalg_det, Vh), turns = RUN(mul_Tensor, RUN(linalg_det, U), of_v);
    g = RUN(unsqueeze, RUN(mul_Tensor, scope->failed ? turns : tp_scope_conj(scope, turns), g), tp_int(-1));
    tp_value others = tp_product_of_others(scope, S, a.tensor->ndim - 2);
    return tp_mul_matrices(scope, RUN(mul_Tensor, U, RUN(unsqueeze, RUN(mul_Tensor, g, others), tp_int(-2))), Vh);
}

/* arg: g, det, A, LU, pivots. A zero pivot is made a little larger. */
TP_HOOK_D(tp_d_linalg_det_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    const tp_tensor *a = tp_as_tensor(arg[2]);
    (void)op;
    tp_value d = scaled_identity(scope, a, RUN(mul_Tensor, arg[0], tp_scope_conj(scope, arg[1])));
    if (tp_self.grad_mode && !tp_is_empty(a))
        return tp_rule_done(scope, det_by_values(scope, arg[2], arg[0]), result);
    double epsilon = tp_dtype_to_real((tp_dtype)a->dtype) == TP_f64 ? DBL_EPSILON : FLT_EPSILON;
    tp_value zero = RUN(eq_Scalar, tp_diagonal_of(scope, arg[3]), tp_float(0));
    tp_value lu = RUN(add_Tensor, arg[3], RUN(diag_embed, RUN(where_Scalar, zero, tp_float(epsilon), tp_float(0))));
    return tp_rule_done(scope, solve_by_factors(scope, a, lu, arg[4], d), result);
}

/* arg: g of the sign, g of the logarithm (either may be none), sign, A, LU, pivots */
TP_HOOK_D(tp_d_linalg_slogdet_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    const tp_tensor *a = tp_as_tensor(arg[3]);
    tp_value g = arg[1];
    (void)op;
    if (!tp_dtype_is_complex((tp_dtype)a->dtype)) {
        if (g.tag != TP_TENSOR)
            return true;                            /* a real sign does not change */
    } else if (arg[0].tag == TP_TENSOR) {           /* the sign turns: only the imaginary part of conj(g) sign counts */
        tp_value imaginary = tp_part_of(scope, RUN(mul_Tensor, tp_scope_conj(scope, arg[0]), arg[2]), 1);
        bool both = g.tag == TP_TENSOR;
        tp_value turn = RUN(mul_Scalar, imaginary, tp_scope_own(scope, tp_value_complex(0, both ? 1 : -1)));
        g = both ? RUN(sub_Tensor, g, turn) : turn;
    } else
        g = tp_of_tensor(tp_scope_to_dtype(scope, tp_as_tensor(g), (tp_dtype)a->dtype));
    tp_value d = scaled_identity(scope, a, g);
    tp_value made = tp_self.grad_mode ? RUN(linalg_solve, tp_adjoint(scope, arg[3]), d) : solve_by_factors(scope, a, arg[4], arg[5], d);
    return tp_rule_done(scope, made, result);
}
