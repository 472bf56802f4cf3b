/* grid.c - what sampling by a grid asks of its arguments, and the grids that affine maps make. */
#include "ops/rules/rules.h"
#include "ops/run.h"

static bool fail_with_sizes(const char *text, const tp_tensor *input, const tp_tensor *grid)
{
    tp_syms x = tp_syms_sizes(input), y = tp_syms_sizes(grid);
    return tp_fail_with(TP_ERR_RUNTIME, text, 2, (tp_value[]){ tp_value_of_syms(&x), tp_value_of_syms(&y) });
}

/* (input, grid, interpolation_mode) */
TP_HOOK_C(tp_c_grid_sampler)
{
    const tp_tensor *input = arg[0].tensor, *grid = arg[1].tensor;
    int dims = input->ndim - 2;
    bool bad = false;
    if (input->ndim < 1 || grid->ndim < 1 || !tp_guard(tp_sym_eq(tp_tensor_sym_size(input, 0), tp_tensor_sym_size(grid, 0)), &bad))
        return bad ? false : fail_with_sizes("grid_sampler(): expected grid and input to have same batch size, but got input with sizes {} and grid with sizes {}", input, grid);
    if (!tp_guard(tp_sym_eq(tp_tensor_sym_size(grid, grid->ndim - 1), tp_sym_int(dims)), &bad)) {
        tp_syms sizes = tp_syms_sizes(grid);
        return bad ? false : tp_fail_with(TP_ERR_RUNTIME, "grid_sampler(): expected grid to have size {} in last dimension, but got grid with sizes {}", 2,
                                          (tp_value[]){ tp_int(dims), tp_value_of_syms(&sizes) });
    }
    for (int i = 2; i < input->ndim; i++)
        if (!tp_guard(tp_sym_gt(tp_tensor_sym_size(input, i), tp_sym_int(0)), &bad)) {
            tp_syms sizes = tp_syms_sizes(input);
            return bad ? false : tp_fail_with(TP_ERR_RUNTIME, "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {} with dimension {} being empty",
                                              2, (tp_value[]){ tp_value_of_syms(&sizes), tp_int(i) });
        }
    if (input->ndim != grid->ndim || input->ndim < 4 || input->ndim > 5)
        return fail_with_sizes(input->ndim == 5 ? "grid_sampler(): expected 5D input and grid with same number of dimensions, but got input with sizes {} and grid with sizes {}"
                                                : "grid_sampler(): expected 4D input and grid with same number of dimensions, but got input with sizes {} and grid with sizes {}", input, grid);
    if (input->ndim == 5 && tp_as_int(arg[2]) == 2)
        return tp_fail(TP_ERR_RUNTIME, "grid_sampler(): bicubic interpolation only supports 4D input");
    return true;
}

/* ---- grids of affine maps ---- */

/* The identity's grid [n, space…, dims + 1], made like `like`: coordinate k runs along the dim that is k-th from the end. */
static tp_value base_grid(tp_scope *s, const tp_tensor *like, const tp_syms *size, bool corners)
{
    tp_syms all = { .count = 0 };
    int dims = size->count - 2;
    tp_value dtype = tp_of_dtype((tp_dtype)like->dtype), device = tp_of_device(like->device);
    tp_syms_add(&all, size->item[0]);
    for (int i = 2; i < size->count; i++)
        tp_syms_add(&all, size->item[i]);
    tp_syms_add(&all, tp_sym_int(dims + 1));
    tp_value grid = tp_rule_call(s, &tp_op_empty_memory_format, 4, (tp_value[]){ tp_scope_syms(s, &all), dtype, tp_none(), device });
    for (int k = 0; k < dims; k++) {
        tp_value n = tp_of_sym(size->item[size->count - 1 - k]);
        tp_value place = tp_rule_call(s, &tp_op_select_int, 3, (tp_value[]){ grid, tp_int(-1), tp_int(k) });
        bool bad = false, one = tp_guard(tp_sym_le(size->item[size->count - 1 - k], tp_sym_int(1)), &bad);
        tp_value line = one ? tp_rule_call(s, &tp_op_zeros, 4, (tp_value[]){ tp_scope_list(s, 1, &n), dtype, tp_none(), device })
                            : tp_rule_call(s, &tp_op_linspace, 6, (tp_value[]){ tp_int(-1), tp_int(1), n, dtype, tp_none(), device });
        if (!corners && !one) {
            line = tp_rule_call(s, &tp_op_mul_Scalar, 2, (tp_value[]){ line, tp_of_sym(tp_sym_sub(size->item[size->count - 1 - k], tp_sym_int(1))) });
            line = tp_rule_call(s, &tp_op_div_Scalar, 2, (tp_value[]){ line, n });
        }
        for (int i = 0; i < k; i++)
            line = tp_rule_call(s, &tp_op_unsqueeze_, 2, (tp_value[]){ line, tp_int(-1) });
        tp_rule_call(s, &tp_op_copy_, 2, (tp_value[]){ place, line });
    }
    tp_rule_call(s, &tp_op_fill__Scalar, 2, (tp_value[]){ tp_rule_call(s, &tp_op_select_int, 3, (tp_value[]){ grid, tp_int(-1), tp_int(dims) }), tp_int(1) });
    return grid;
}

/* [n, points, columns] */
static tp_value as_rows(tp_scope *scope, tp_value t, const tp_syms *size, int columns)
{
    tp_sym points = tp_sym_int(1);
    for (int i = 2; i < size->count; i++)
        points = tp_sym_mul(points, size->item[i]);
    tp_syms rows = { 3, { size->item[0], points, tp_sym_int(columns) } };
    return tp_rule_call(scope, &tp_op_view, 2, (tp_value[]){ t, tp_scope_syms(scope, &rows) });
}

/* affine_grid_generator_backward(grad, size, align_corners) */
TP_HOOK_D(tp_d_affine_grid_backward)
{
    tp_scope s = { 0 };
    bool bad = false;
    tp_syms size = tp_syms_read(arg[1], 0, &bad);
    int dims = size.count - 2;
    (void)op;
    if (bad)
        return false;
    tp_value base = base_grid(&s, arg[0].tensor, &size, tp_as_bool(arg[2]));
    tp_value turned = CALL(transpose_int, as_rows(&s, base, &size, dims + 1), tp_int(1), tp_int(2));
    tp_value made = CALL(bmm, turned, as_rows(&s, arg[0], &size, dims));
    return tp_rule_done(&s, CALL(transpose_int, made, tp_int(1), tp_int(2)), result);
}
