/* linalg.c - pieces of linear algebra's definitions that are more than an expression. */
#include "ops/rules/rules.h"

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

/* ---- determinants: the gradient is det A^-H, by the factors that are there. ---- */

/* A^-H d, where d is a number for each matrix. The factors of a row-major real matrix are those of its transpose. */
static tp_value solve_diagonal(tp_scope *scope, const tp_tensor *a, tp_value lu, tp_value pivots, tp_value d)
{
    tp_value size[TP_MAX_DIMS];
    tp_value g = tp_rule_call(scope, &tp_op_unsqueeze, 2, (tp_value[]){ d, tp_int(-1) });
    for (int i = 0; i < a->ndim - 1; i++)
        size[i] = tp_of_sym(tp_tensor_sym_size(a, i));
    g = tp_rule_call(scope, &tp_op_expand, 2, (tp_value[]){ g, tp_scope_list(scope, a->ndim - 1, size) });
    g = tp_rule_call(scope, &tp_op_diag_embed, 1, (tp_value[]){ g });
    g = tp_rule_call(scope, &tp_op_transpose_int, 3, (tp_value[]){ g, tp_int(-2), tp_int(-1) });
    bool of_transpose = tp_tensor_is_contiguous(a) && !tp_dtype_is_complex((tp_dtype)a->dtype);
    return tp_rule_call(scope, &tp_op_linalg_lu_solve, 5, (tp_value[]){ lu, pivots, g, tp_bool(true), tp_bool(!of_transpose) });
}

/* arg: g, det, A, LU, pivots. Where the gradient may be differentiated again, it is written by ops of A, as PyTorch does;
 * otherwise by its factors, a zero pivot made a little larger. */
TP_HOOK_D(tp_d_linalg_det_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *a = tp_as_tensor(arg[2]);
    (void)op;
    tp_value g = CALL(mul_Tensor, arg[0], tp_scope_conj(&s, arg[1]));
    double epsilon = tp_dtype_to_real((tp_dtype)a->dtype) == TP_f64 ? 0x1p-52 : 0x1p-23;
    tp_value zero = CALL(eq_Scalar, CALL(diagonal, arg[3], tp_int(0), tp_int(-2), tp_int(-1)), tp_float(0));
    tp_value more = CALL(where_Scalar, zero, tp_float(epsilon), tp_float(0));
    tp_value lu = CALL(add_Tensor, arg[3], CALL(diag_embed, more));
    return tp_rule_done(&s, solve_diagonal(&s, a, lu, arg[4], g), result);
}

/* arg: g of the sign, g of the logarithm (either may be none), sign, A, LU, pivots */
TP_HOOK_D(tp_d_linalg_slogdet_backward)
{
    tp_scope s = { 0 };
    const tp_tensor *a = tp_as_tensor(arg[3]);
    tp_value g = arg[1];
    (void)op;
    if (!tp_dtype_is_complex((tp_dtype)a->dtype)) {
        if (g.tag != TP_TENSOR)
            return true;                            /* a real sign does not change */
    } else {
        if (arg[0].tag == TP_TENSOR) {              /* the sign turns: only the imaginary part of conj(g) sign counts */
            tp_value product = CALL(mul_Tensor, tp_scope_conj(&s, arg[0]), arg[2]);
            tp_value imaginary = CALL(select_int, CALL(view_as_real, product), tp_int(a->ndim - 2), tp_int(1));
            tp_value turn = CALL(mul_Scalar, imaginary, tp_scope_own(&s, tp_value_complex(0, 1)));
            g = g.tag == TP_TENSOR ? CALL(sub_Tensor, g, turn) : CALL(neg, turn);
        } else
            g = tp_of_tensor(tp_scope_to_dtype(&s, tp_as_tensor(g), (tp_dtype)a->dtype));
    }
    return tp_rule_done(&s, solve_diagonal(&s, a, arg[4], arg[5], g), result);
}
