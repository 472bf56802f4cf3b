/* search.c - checks of searches, and what repeats, takes and marks by index, as calls of ops. */
#include "ops/rules/rules.h"

/* ---- sorted rows ---- */
static tp_value shape_of(const tp_tensor *t)
{
    tp_syms s = tp_syms_sizes(t);
    return tp_value_of_syms(&s);
}

/* A number beside it lifts a tensor of booleans to integers. */
static bool check_searchable(const tp_tensor *t, bool beside_number)
{
    bool good = !tp_dtype_is_complex((tp_dtype)t->dtype) && (t->dtype != TP_b8 || beside_number);
    return good || tp_fail_dtype("searchsorted_out_cpu", (tp_dtype)t->dtype);
}

/* Do all dims but the last `free` agree? */
static bool same_sizes(const tp_tensor *a, const tp_tensor *b, int free, bool *bad)
{
    bool same = a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim - free; i++)
        same = tp_guard(tp_sym_eq(tp_tensor_sym_size(a, i), tp_tensor_sym_size(b, i)), bad);
    return same;
}

/* (sorted_sequence, self, out_int32, right, side, sorter) */
TP_HOOK_C(tp_c_searchsorted)
{
    const tp_tensor *rows = arg[0].tensor, *values = tp_as_tensor(arg[1]), *sorter = tp_as_tensor(arg[5]);
    const char *side = arg[4].tag == TP_STRING ? arg[4].string->text : NULL;
    bool bad = false;
    if (side && strcmp(side, "left") && strcmp(side, "right"))
        return tp_fail(TP_ERR_RUNTIME, "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
    if (side && tp_as_bool(arg[3]) && strcmp(side, "right"))
        return tp_fail(TP_ERR_RUNTIME, "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True");
    if (!rows->ndim)
        return tp_fail(TP_ERR_RUNTIME, "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
    if (rows->ndim > 1 && (!values || !values->ndim))
        return tp_fail(TP_ERR_RUNTIME, "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
                       "boundaries tensor dim(%d) and input value's dim(0) numel(1)", rows->ndim);
    if (rows->ndim > 1 && !same_sizes(rows, values, 1, &bad))
        return bad ? NULL : tp_fail_with(TP_ERR_RUNTIME, "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                            "boundaries tensor and input value tensor must match, but we got boundaries tensor {} and input value tensor {}", 2,
                            (tp_value[]){ shape_of(rows), shape_of(values) });
    if (sorter && !same_sizes(rows, sorter, 0, &bad))
        return bad ? NULL : tp_fail_with(TP_ERR_RUNTIME, "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {}and got "
                            "sorter tensor {}", 2, (tp_value[]){ shape_of(rows), shape_of(sorter) });
    if (sorter && sorter->dtype != TP_i64)
        return tp_fail(TP_ERR_RUNTIME, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s", tp_dtypes[sorter->dtype].title);
    return check_searchable(rows, !values) && (!values || check_searchable(values, false));
}

/* (self, boundaries, …) */
TP_HOOK_C(tp_c_bucketize)
{
    bool number = arg[0].tag != TP_TENSOR;
    return check_searchable(arg[1].tensor, number) && (number || check_searchable(arg[0].tensor, false));
}

/* ---- repeat_interleave(self, repeats, dim, output_size) ---- */
TP_HOOK_D(tp_d_repeat_interleave)
{
    tp_scope s = { 0 };
    tp_value x = arg[2].tag == TP_NONE ? CALL(flatten_using_ints, arg[0]) : arg[0];
    (void)op;
    if (s.failed)
        return tp_scope_end(&s);
    int64_t dim = tp_wrap(arg[2].tag == TP_NONE ? 0 : tp_as_int(arg[2]), x.tensor->ndim, &s.failed);
    if (s.failed)
        return tp_scope_end(&s);
    tp_value wide = CALL(unsqueeze, x, tp_int(dim + 1));        /* a tensor without dims has no room for it */
    if (s.failed)
        return tp_scope_end(&s);
    tp_sym times = tp_syms_read(tp_scope_list(&s, 1, &arg[1]), 0, &s.failed).item[0];
    tp_sym whole = tp_sym_mul(tp_tensor_sym_size(x.tensor, (int)dim), times);
    if (arg[3].tag == TP_INT && tp_sym_is_int(whole) && tp_as_int(arg[3]) != tp_sym_fixed(whole, &s.failed))
        return tp_scope_end(&s) && tp_fail(TP_ERR_RUNTIME, "repeat_interleave: Invalid output_size, expected %lld but got %lld",
                                           LL(tp_sym_fixed(whole, &s.failed)), LL(tp_as_int(arg[3])));
    tp_syms sizes = tp_syms_sizes(wide.tensor);
    sizes.item[dim + 1] = times;
    wide = CALL(clone, CALL(expand, wide, tp_scope_syms(&s, &sizes)), tp_of_format(TP_FORMAT_CONTIGUOUS));
    return tp_rule_done(&s, CALL(flatten_using_ints, wide, tp_int(dim), tp_int(dim + 1)), result);
}

/* ---- take_along_dim(self, indices, dim): both are broadcast but for the dim, negative indices wrap ---- */
TP_HOOK_D(tp_d_take_along_dim)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor, *index = arg[1].tensor;
    int64_t dim = tp_wrap(tp_as_int(arg[2]), self->ndim, &s.failed);
    (void)op;
    if (s.failed)
        return tp_scope_end(&s);
    tp_syms a = tp_syms_sizes(self), b = tp_syms_sizes(index);
    tp_sym own = self->ndim ? a.item[dim] : tp_sym_int(1), taken = self->ndim ? b.item[dim] : tp_sym_int(1);
    if (self->ndim)
        a.item[dim] = b.item[dim] = tp_sym_int(1);
    tp_syms both = tp_syms_broadcast(&a, &b, &s.failed);
    if (self->ndim)
        both.item[dim] = taken;
    tp_value at = CALL(expand, arg[1], tp_scope_syms(&s, &both));
    if (self->ndim)
        both.item[dim] = own;
    tp_value from = CALL(expand, arg[0], tp_scope_syms(&s, &both));
    return tp_rule_done(&s, CALL(gather, from, tp_int(dim), CALL(remainder_Scalar, at, tp_of_sym(own))), result);
}

/* ---- numbers out of tensors ---- */
static int64_t read_int(tp_scope *scope, tp_value t)
{
    tp_value v = tp_rule_call(scope, &tp_op_item, 1, &t);
    return scope->failed ? 0 : tp_as_int(v);
}

TP_HOOK_D(tp_d_is_nonzero)
{
    tp_scope s = { 0 };
    int64_t n = arg[0].tensor->numel;
    (void)op;
    if (n != 1)
        return tp_fail(TP_ERR_RUNTIME, "Boolean value of Tensor with %s is ambiguous", n ? "more than one value" : "no values");
    tp_value v = CALL(item, arg[0]);
    if (!s.failed) {
        tp_c128 c = tp_scalar_to_complex(tp_as_scalar(v));
        result[0] = tp_bool(c.re != 0 || c.im != 0);
    }
    return tp_scope_end(&s);
}

/* one_hot(self, num_classes). Where there are no data to look at, classes are compared with all numbers. */
TP_HOOK_D(tp_d_one_hot)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor;
    int64_t classes = tp_as_int(arg[1]);
    tp_syms size = tp_syms_sizes(self);
    (void)op;
    bool unread = self->storage->kind == TP_MEMORY_NONE || (self->keys & TP_LAYER_BIT(TP_LAYER_TRANSFORM));     /* members of a batch cannot be looked at */
    if (unread && classes >= 0) {
        tp_value all = CALL(arange, tp_int(classes), tp_of_dtype(TP_i64)), column = CALL(unsqueeze, arg[0], tp_int(-1));
        return tp_rule_done(&s, CALL(_to_copy, CALL(eq_Tensor, column, all), tp_of_dtype(TP_i64)), result);
    }
    if (!self->numel && classes <= 0)
        return tp_fail(TP_ERR_RUNTIME, "Can not infer total number of classes from empty tensor.");
    if (self->numel && read_int(&s, CALL(min, arg[0])) < 0 && !s.failed)
        return tp_scope_end(&s) && tp_fail(TP_ERR_RUNTIME, "Class values must be non-negative.");
    int64_t top = self->numel ? read_int(&s, CALL(max, arg[0])) : -1;
    if (s.failed)
        return tp_scope_end(&s);
    if (classes == -1)
        classes = top + 1;
    else if (classes <= top)
        return tp_scope_end(&s) && tp_fail(TP_ERR_RUNTIME, "Class values must be smaller than num_classes.");
    tp_syms_add(&size, tp_sym_int(classes));
    tp_value zero = CALL(zeros, tp_scope_syms(&s, &size), tp_of_dtype(TP_i64));
    return tp_rule_done(&s, CALL(scatter__value, zero, tp_int(-1), CALL(unsqueeze, arg[0], tp_int(-1)), tp_int(1)), result);
}

/* ---- diagonals ---- */

/* fill_diagonal_(self, fill_value, wrap): one step along all dims at once; a tall matrix may begin again below its last column. */
TP_HOOK_D(tp_d_fill_diagonal)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor;
    int64_t step = 0, least = INT64_MAX, rows = 0, columns = 0;
    (void)op;
    for (int i = 0; i < self->ndim; i++) {
        columns = tp_sym_fixed(tp_tensor_sym_size(self, i), &s.failed);
        rows = i ? rows : columns;
        least = columns < least ? columns : least;
        step += self->stride[i];
    }
    bool wraps = tp_as_bool(arg[2]) && self->ndim == 2 && rows > columns + 1;
    for (int64_t row = 0; row < (wraps ? rows : 1) && !s.failed; row += columns + 1) {
        tp_value count = tp_int(!wraps || rows - row > least ? least : rows - row), stride = tp_int(step);
        tp_value line = CALL(as_strided, arg[0], tp_scope_list(&s, 1, &count), tp_scope_list(&s, 1, &stride), tp_int(self->offset + row * self->stride[0]));
        (void)CALL(fill__Scalar, line, arg[1]);
    }
    return tp_rule_done(&s, arg[0], result);
}

/* (self, indices): a list of the indices, each brought into its dim. */
TP_HOOK_D(tp_d_clamped_indices)
{
    tp_scope s = { 0 };
    tp_values all = { 0 };
    (void)op;
    if (tp_length(arg[1]) > (uint32_t)arg[0].tensor->ndim)
        return tp_fail(TP_ERR_INDEX, "too many indices for tensor of dimension %d (got %u)", arg[0].tensor->ndim, tp_length(arg[1]));
    for (uint32_t i = 0; i < tp_length(arg[1]) && !s.failed; i++) {
        tp_value index = arg[1].list->item[i];
        if (index.tag == TP_TENSOR)
            index = CALL(clamp, index, tp_int(0), tp_of_sym(tp_sym_sub(tp_tensor_sym_size(arg[0].tensor, (int)i), tp_sym_int(1))));
        tp_values_add(&s, &all, index);
    }
    return tp_rule_done(&s, tp_scope_values(&s, &all), result);
}
