/* matrices.h - words that formulas of linear algebra share. Each takes the scope of its caller. */
#ifndef TP_OPS_RULES_MATRICES_H
#define TP_OPS_RULES_MATRICES_H

#include "ops/rules/rules.h"

static inline tp_value tp_mul_matrices(tp_scope *scope, tp_value a, tp_value b) { return RUN(matmul, a, b); }
static inline tp_value tp_transposed(tp_scope *scope, tp_value a) { return RUN(transpose_int, a, tp_int(-2), tp_int(-1)); }
static inline tp_value tp_adjoint(tp_scope *scope, tp_value a)
{
    tp_value t = tp_transposed(scope, a);
    return scope->failed ? tp_none() : tp_scope_conj(scope, t);
}
static inline tp_value tp_diagonal_of(tp_scope *scope, tp_value a) { return RUN(diagonal, a, tp_int(0), tp_int(-2), tp_int(-1)); }
static inline tp_value tp_narrowed(tp_scope *scope, tp_value a, int dim, int64_t from, int64_t to)
{
    return RUN(slice_Tensor, a, tp_int(dim), tp_int(from), tp_int(to), tp_int(1));
}
/* The real (0) or imaginary (1) part of a complex tensor. */
static inline tp_value tp_part_of(tp_scope *scope, tp_value a, int which)
{
    const tp_tensor *t = tp_as_tensor(a);
    return t ? RUN(select_int, RUN(view_as_real, a), tp_int(t->ndim), tp_int(which)) : tp_none();
}
static inline bool tp_is_given(tp_value v) { return v.tag == TP_TENSOR; }
/* The sizes of a matrix are fixed by a trace that comes here; 0 of what a failure left. */
static inline int64_t tp_fixed_size(tp_value v, int dim)
{
    bool bad = false;
    return v.tag == TP_TENSOR ? tp_sym_fixed(tp_syms_size(v.tensor, dim, &bad), &bad) : 0;
}
static inline int64_t tp_rows_of(tp_value v) { return tp_fixed_size(v, -2); }
static inline int64_t tp_columns_of(tp_value v) { return tp_fixed_size(v, -1); }
static inline bool tp_is_empty(const tp_tensor *t)
{
    bool bad = false;
    return tp_guard(tp_sym_eq(tp_syms_numel(t), tp_sym_int(0)), &bad);
}
static inline bool tp_is_complex_value(tp_value v) { return v.tag == TP_TENSOR && tp_dtype_is_complex((tp_dtype)v.tensor->dtype); }

#endif
