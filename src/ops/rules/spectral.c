/* spectral.c - gradients of eigenvalues, singular values and their vectors, node for node as PyTorch's graphs have them.
 *
 * A change of A turns the vectors by a matrix whose elements are divided by differences of the values; E holds these
 * differences, its diagonal (where nothing turns) filled with ones. */
#include "ops/rules/matrices.h"

/* x_j - x_i, ones on the diagonal (a whole number or a float, as PyTorch's graphs have it). */
static tp_value differences(tp_scope *scope, tp_value x, tp_value one)
{
    tp_value down = RUN(unsqueeze, x, tp_int(-1)), across = RUN(unsqueeze, x, tp_int(-2));
    tp_value e = RUN(sub_Tensor, across, down);
    RUN(fill__Scalar, tp_diagonal_of(scope, e), one);
    return e;
}

/* Complex vectors are known up to a phase each; a loss that depends on it has no gradient. The imaginary part of
 * what V^H gV has on its diagonal must vanish. What cannot be looked at passes. */
static void refuse_phases(tp_scope *scope, tp_value diagonal, const char *words)
{
    if (scope->failed || !tp_is_complex_value(diagonal) || !tp_rule_readable(diagonal.tensor))
        return;
    bool graded = tp_self.grad_mode;
    tp_self.grad_mode = false;
    tp_value turn = tp_part_of(scope, diagonal, 1);
    tp_value close = RUN(allclose, turn, RUN(zeros_like, turn), tp_float(1e-2), tp_float(1e-2));
    tp_self.grad_mode = graded;
    if (!scope->failed && !tp_as_bool(close))
        tp_scope_fail(scope, TP_ERR_RUNTIME, words);
}

/* arg: gL, gV (either may be none), L, V */
TP_HOOK_D(tp_d_linalg_eigh_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_value gL = arg[0], gV = arg[1], L = arg[2], V = arg[3], made = tp_none();
    (void)op;
    if (!tp_is_given(gV) && tp_is_given(gL)) {
        tp_value adjoint = tp_adjoint(scope, V);
        made = tp_mul_matrices(scope, RUN(mul_Tensor, V, RUN(unsqueeze, gL, tp_int(-2))), adjoint);
    } else if (tp_is_given(gV)) {
        tp_value turn = tp_mul_matrices(scope, tp_adjoint(scope, V), gV);
        refuse_phases(scope, tp_diagonal_of(scope, turn),
                      "linalg_eigh_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. "
                      "The specified loss function depends on this quantity, so it is ill-defined.");
        tp_value half = RUN(mul_Scalar, RUN(sub_Tensor, turn, tp_adjoint(scope, turn)), tp_float(0.5));
        tp_value inner = RUN(div__Tensor, half, differences(scope, L, tp_float(1)));
        if (tp_is_given(gL))
            inner = RUN(diagonal_scatter, inner, gL, tp_int(0), tp_int(-2), tp_int(-1));
        made = tp_mul_matrices(scope, V, tp_mul_matrices(scope, inner, tp_adjoint(scope, V)));
    }
    return tp_rule_done(scope, made, result);
}

/* V^-H x, by the solver. */
static tp_value solved(tp_scope *scope, tp_value V, tp_value x)
{
    return RUN(linalg_solve, tp_adjoint(scope, V), x);
}

/* arg: gL, gV (either may be none), L, V, A (its type alone counts) */
TP_HOOK_D(tp_d_linalg_eig_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_value gL = arg[0], gV = arg[1], L = arg[2], V = arg[3], made = tp_none();
    (void)op;
    if (!tp_is_given(gV) && tp_is_given(gL)) {
        tp_value adjoint = tp_adjoint(scope, V);
        made = solved(scope, V, RUN(mul_Tensor, RUN(unsqueeze, gL, tp_int(-1)), adjoint));
    } else if (tp_is_given(gV)) {
        tp_value turn = tp_mul_matrices(scope, tp_adjoint(scope, V), gV);
        tp_value diagonal = tp_diagonal_of(scope, turn);
        refuse_phases(scope, diagonal,
                      "linalg_eig_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. "
                      "The specified loss function depends on this quantity, so it is ill-defined.");
        tp_value lengths = tp_part_of(scope, diagonal, 0);                          /* vectors keep their length */
        tp_value kept = RUN(mul_Tensor, V, RUN(unsqueeze, lengths, tp_int(-2)));
        tp_value inner = RUN(sub_Tensor, turn, tp_mul_matrices(scope, tp_adjoint(scope, V), kept));
        inner = RUN(div__Tensor, inner, differences(scope, scope->failed ? L : tp_scope_conj(scope, L), tp_float(1)));
        if (tp_is_given(gL))
            inner = RUN(diagonal_scatter, inner, gL, tp_int(0), tp_int(-2), tp_int(-1));
        made = solved(scope, V, tp_mul_matrices(scope, inner, tp_adjoint(scope, V)));
    }
    if (!scope->failed && tp_is_given(made) && !tp_is_complex_value(arg[4]))
        made = tp_part_of(scope, made, 0);
    return tp_rule_done(scope, made, result);
}

static tp_value skew(tp_scope *scope, tp_value x) { return RUN(sub_Tensor, x, tp_adjoint(scope, x)); }

/* The gradient of U S V^H in the coordinates of U and V: from those of U and V (either may be none) and of the values. */
static tp_value svd_core(tp_scope *scope, tp_value gU, tp_value gS, tp_value gVh, tp_value U, tp_value S, tp_value Vh)
{
    tp_value left = tp_none(), right = tp_none(), inner;
    bool complex = tp_is_complex_value(U);
    if (tp_is_given(gU))
        left = skew(scope, tp_mul_matrices(scope, tp_adjoint(scope, U), gU));
    if (tp_is_given(gVh))
        right = skew(scope, tp_mul_matrices(scope, Vh, tp_adjoint(scope, gVh)));
    if (complex) {
        tp_value both = tp_is_given(left) && tp_is_given(right) ? RUN(add_Tensor, left, right) : tp_is_given(left) ? left : right;
        refuse_phases(scope, tp_diagonal_of(scope, RUN(div_Scalar, both, tp_int(2))),
                      "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. "
                      "The specified loss function depends on this phase term, making it ill-defined.");
    }
    tp_value e = differences(scope, RUN(mul_Tensor, S, S), tp_int(1));
    if (tp_is_given(left) && tp_is_given(right)) {
        tp_value second = RUN(mul_Tensor, RUN(unsqueeze, S, tp_int(-1)), right);
        tp_value first = RUN(mul_Tensor, left, RUN(unsqueeze, S, tp_int(-2)));
        inner = RUN(div_Tensor, RUN(add_Tensor, first, second), e);
    } else if (tp_is_given(left)) {
        tp_value across = RUN(unsqueeze, S, tp_int(-2));
        inner = RUN(mul_Tensor, RUN(div_Tensor, left, e), across);
    } else {
        tp_value quotient = RUN(div_Tensor, right, e);
        inner = RUN(mul_Tensor, RUN(unsqueeze, S, tp_int(-1)), quotient);
    }
    if (complex && tp_is_given(left)) {             /* U and V turn by a common phase: half of what skew made of it */
        tp_value phase = RUN(div_Tensor, tp_diagonal_of(scope, left), RUN(mul_Scalar, S, tp_int(2)));
        inner = RUN(add_Tensor, inner, RUN(diag_embed, phase));
    }
    return tp_is_given(gS) ? RUN(add_Tensor, inner, RUN(diag_embed, gS)) : inner;
}

/* arg: gU, gS, gVh (each may be none), U, S, Vh, full_matrices, sizes of A */
TP_HOOK_D(tp_d_linalg_svd_backward)
{
    tp_scope own = { 0 }, *scope = &own;
    tp_value gU = arg[0], gS = arg[1], gVh = arg[2], U = arg[3], S = arg[4], Vh = arg[5], made;
    int64_t m = tp_rows_of(U), n = tp_columns_of(Vh), k = m < n ? m : n;
    (void)op;
    if (tp_as_bool(arg[6])) {
        Vh = tp_narrowed(scope, Vh, -2, 0, k);
        U = tp_narrowed(scope, U, -1, 0, k);
        gVh = tp_is_given(gVh) ? tp_narrowed(scope, gVh, -2, 0, k) : gVh;
        gU = tp_is_given(gU) ? tp_narrowed(scope, gU, -1, 0, k) : gU;
    }
    if (!tp_is_given(gU) && !tp_is_given(gVh)) {
        made = tp_none();
        if (tp_is_given(gS) && m >= n)
            made = tp_mul_matrices(scope, U, RUN(mul_Tensor, RUN(unsqueeze, gS, tp_int(-1)), Vh));
        else if (tp_is_given(gS))
            made = tp_mul_matrices(scope, RUN(mul_Tensor, U, RUN(unsqueeze, gS, tp_int(-2))), Vh);
        return tp_rule_done(scope, made, result);
    }
    tp_value inner = svd_core(scope, gU, gS, gVh, U, S, Vh);
    if (m > k && tp_is_given(gU)) {                 /* what lies outside the columns of U */
        inner = tp_mul_matrices(scope, U, inner);
        tp_value rest = RUN(div_Tensor, gU, RUN(unsqueeze, S, tp_int(-2)));
        tp_value inside = tp_mul_matrices(scope, U, tp_mul_matrices(scope, tp_adjoint(scope, U), rest));
        inner = RUN(sub_Tensor, RUN(add_Tensor, inner, rest), inside);
        made = tp_mul_matrices(scope, inner, Vh);
    } else if (n > k && tp_is_given(gVh)) {
        inner = tp_mul_matrices(scope, inner, Vh);
        tp_value rest = RUN(div_Tensor, gVh, RUN(unsqueeze, S, tp_int(-1)));
        tp_value inside = tp_mul_matrices(scope, tp_mul_matrices(scope, rest, tp_adjoint(scope, Vh)), Vh);
        inner = RUN(sub_Tensor, RUN(add_Tensor, inner, rest), inside);
        made = tp_mul_matrices(scope, U, inner);
    } else
        made = tp_mul_matrices(scope, U, tp_mul_matrices(scope, inner, Vh));
    return tp_rule_done(scope, made, result);
}

/* ---- values alone: vectors are computed when a gradient will want them, or a level's tangent may ---- */
static bool wants_vectors(const tp_tensor *t)
{
    return tp_wants_gradient(t) || (t->keys & TP_LAYER_BIT(TP_LAYER_TRANSFORM));
}

/* arg: A, driver */
TP_HOOK_D(tp_d_linalg_svdvals)
{
    tp_scope own = { 0 }, *scope = &own;
    (void)op;
    tp_value made = tp_scope_call_all(scope, &tp_op__linalg_svd, (tp_value[]){ arg[0], tp_bool(false), tp_bool(wants_vectors(arg[0].tensor)), arg[1] });
    return tp_rule_done(scope, scope->failed ? tp_none() : made.list->item[1], result);
}

/* arg: A, UPLO */
TP_HOOK_D(tp_d_linalg_eigvalsh)
{
    tp_scope own = { 0 }, *scope = &own;
    (void)op;
    return tp_rule_done(scope, RUN(_linalg_eigh, arg[0], arg[1], tp_bool(wants_vectors(arg[0].tensor))), result);
}

/* arg: A */
TP_HOOK_D(tp_d_linalg_eigvals)
{
    tp_scope own = { 0 }, *scope = &own;
    (void)op;
    return tp_rule_done(scope, wants_vectors(arg[0].tensor) ? RUN(linalg_eig, arg[0]) : RUN(_linalg_eigvals, arg[0]), result);
}
