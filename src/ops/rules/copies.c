/* copies.c - conversions that may return their input, and values read out of tensors. */
#include "base/runtime.h"
#include "ops/copy.h"
#include "ops/rules/rules.h"
#include "ops/symbolic.h"
#include "sym/env.h"

static bool has_format(const tp_tensor *t, tp_value format)
{
    if (format.tag == TP_NONE || format.i == TP_FORMAT_PRESERVE)
        return true;
    return tp_tensor_has_format(t, (tp_format)format.i);
}

static bool same_device(tp_device a, tp_device b)
{
    return a.type == b.type && (a.index == b.index || a.index <= 0);
}

/* arg: self, dtype, layout, device, pin_memory, non_blocking, copy, memory_format */
TP_HOOK_D(tp_d_to)
{
    tp_scope s = { 0 };
    const tp_tensor *self = arg[0].tensor;
    bool done = (arg[1].tag == TP_NONE || arg[1].i == self->dtype) && (arg[3].tag == TP_NONE || same_device(arg[3].device, self->device)) &&
                has_format(self, arg[7]);
    (void)op;
    if (done && !tp_as_bool(arg[6])) {
        result[0] = tp_value_ref(arg[0]);
        return true;
    }
    if (arg[3].tag == TP_DEVICE && arg[3].device.type != TP_CPU && arg[3].device.type != TP_META && !(self->keys & TP_LAYER_BIT(TP_LAYER_FAKE)))
        return tp_fail(TP_ERR_RUNTIME, "Taper runs on the CPU: a device of another kind exists on fake tensors only");
    return tp_rule_done(&s, CALL(_to_copy, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5], arg[7]), result);
}

/* arg: self, other, then as to.other has them, or nothing for type_as */
TP_HOOK_D(tp_d_to_other)
{
    const tp_tensor *other = arg[1].tensor;
    bool more = op->arg_count > 2;
    tp_value full[8] = { arg[0], tp_of_dtype((tp_dtype)other->dtype), { .tag = TP_LAYOUT }, tp_of_device(other->device), tp_none(),
                         more ? arg[2] : tp_bool(false), more ? arg[3] : tp_bool(false), more ? arg[4] : tp_none() };
    return tp_d_to(op, full, result);
}

/* ---- copies that keep gaps ---- */

/* Does a copy of t keep its strides to the letter though it has gaps? Not when elements of an expanded dim are one. */
static bool keeps_gaps(const tp_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] == 0 && t->size[i] != 1)
            return false;
    return t->numel && !tp_tensor_is_dense(t);
}

TP_HOOK_S(tp_s_kept_strides)
{
    const tp_tensor *t = arg[0].tensor;
    tp_sym_geometry like;
    bool bad = false;
    tp_syms sizes = tp_syms_sizes(t);
    *out = tp_syms_strides(t);
    if (keeps_gaps(t))
        return true;
    tp_sym_geometry_start(&like, (tp_dtype)t->dtype, &sizes, t->device, &bad);
    tp_sym_geometry_like(&like, t);
    for (int i = 0; i < t->ndim; i++)
        out->item[i] = like.stride[i];
    return !bad;
}

/* (self) */
TP_HOOK_D(tp_d_kept_copy)
{
    const tp_tensor *t = arg[0].tensor;
    tp_scope s;
    (void)op;
    tp_scope_start(&s);
    if (!keeps_gaps(t))
        return tp_rule_done(&s, CALL(clone, arg[0], tp_none()), result);
    tp_syms sizes = tp_syms_sizes(t), strides = tp_syms_strides(t);
    tp_value made = CALL(new_empty_strided, arg[0], tp_scope_syms(&s, &sizes), tp_scope_syms(&s, &strides), tp_none(), tp_none(), tp_none(), tp_none());
    return tp_rule_done(&s, CALL(copy_, made, arg[0], tp_bool(false)), result);
}

/* ---- numbers ---- */

static bool single(const tp_tensor *t)
{
    if (t->numel == 1)
        return true;
    return tp_fail(TP_ERR_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar", LL(t->numel));
}

/* The number in a tensor without data: a symbol of its own. */
static bool unknown_number(const tp_op *op, const tp_tensor *t, tp_value *result)
{
    tp_shape_env *env = tp_self.shape_env;
    tp_dtype d = (tp_dtype)t->dtype;
    tp_sym x;
    if (!env || !tp_shape_env_names_numbers(env))
        return tp_fail_op(TP_ERR_DATA_OUTPUT, op);
    if (tp_dtype_is_complex(d))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "local_scalar_dense/item NYI for torch.%s", tp_dtypes[d].python);
    if (tp_dtype_is_float(d))
        x = tp_shape_env_unbacked_float(env);
    else if (d == TP_b8)
        x = tp_sym_eq(tp_shape_env_unbacked(env, (tp_range){ 0, 1 }), tp_sym_int(1));
    else
        x = tp_shape_env_unbacked(env, TP_RANGE_ALL);
    result[0] = (tp_value){ .tag = TP_SYM, .sym = x.word };
    return !tp_sym_is_failed(x);
}

TP_HOOK_D(tp_d_local_scalar)
{
    const tp_tensor *t = arg[0].tensor;
    if (!single(t))
        return false;
    if (t->storage->kind == TP_MEMORY_NONE && t->device.type == TP_META)
        return tp_fail(TP_ERR_RUNTIME, "Tensor.item() cannot be called on meta tensors");
    if (t->storage->kind == TP_MEMORY_NONE || t->storage->stale)
        return unknown_number(op, t, result);
    tp_scalar s = tp_tensor_element(t, tp_tensor_data(t));
    result[0] = tp_value_scalar(s);
    return result[0].tag != TP_NONE;
}

TP_HOOK_D(tp_d_item)
{
    tp_scope s = { 0 };
    (void)op;
    if (!single(arg[0].tensor))
        return false;
    return tp_rule_done(&s, CALL(_local_scalar_dense, arg[0]), result);
}

static bool same_sizes(const tp_tensor *a, const tp_tensor *b)
{
    return a->ndim == b->ndim && memcmp(a->size, b->size, a->ndim * sizeof *a->size) == 0;
}

TP_HOOK_D(tp_d_is_same_size)
{
    const tp_tensor *a = arg[0].tensor, *b = arg[1].tensor;
    bool same = a->ndim == b->ndim;
    (void)op;
    for (int i = 0; same && i < a->ndim; i++)
        if (!tp_sym_guard(tp_sym_eq(tp_tensor_sym_size(a, i), tp_tensor_sym_size(b, i)), &same))
            return false;
    result[0] = tp_bool(same);
    return true;
}

/* NaN is unlike itself. */
TP_HOOK_D(tp_d_equal)
{
    tp_tensor *a = arg[0].tensor, *b = arg[1].tensor;
    tp_scope s = { 0 };
    if (a->storage->kind == TP_MEMORY_NONE && a->device.type != TP_META)
        return tp_fail_op(TP_ERR_DATA_OUTPUT, op);
    if (!same_sizes(a, b)) {
        result[0] = tp_bool(false);
        return true;
    }
    if (a->dtype != b->dtype)
        return tp_fail(TP_ERR_RUNTIME, "Expected object of data type %s but got data type %s for argument #2 'other' in call to equal",
                       tp_dtypes[a->dtype].cpp, tp_dtypes[b->dtype].cpp);
    tp_value same = CALL(item, CALL(all, CALL(eq_Tensor, arg[0], arg[1])));
    if (!s.failed)
        result[0] = tp_bool(tp_as_bool(same));
    return tp_scope_end(&s);
}

/* ---- sizes ---- */
static bool wrap_dim(const tp_tensor *t, tp_value dim, int *out)
{
    int64_t d = tp_as_int(dim), n = t->ndim;
    *out = 0;
    if (d < -n || d >= n)
        return tp_fail(TP_ERR_INDEX, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)", LL(-n), LL(n - 1), LL(d));
    *out = (int)(d < 0 ? d + n : d);
    return true;
}

TP_HOOK_D(tp_d_sym_size)
{
    int dim;
    (void)op;
    if (!wrap_dim(arg[0].tensor, arg[1], &dim))
        return false;
    result[0] = tp_of_sym(tp_tensor_sym_size(arg[0].tensor, dim));
    return true;
}

TP_HOOK_D(tp_d_sym_sizes)
{
    tp_scope s = { 0 };
    tp_syms sizes = tp_syms_sizes(arg[0].tensor);
    (void)op;
    return tp_rule_done(&s, tp_scope_syms(&s, &sizes), result);
}

TP_HOOK_D(tp_d_sym_strides)
{
    tp_scope s = { 0 };
    tp_syms strides = { .count = arg[0].tensor->ndim };
    (void)op;
    for (int i = 0; i < arg[0].tensor->ndim; i++)
        strides.item[i] = tp_tensor_sym_stride(arg[0].tensor, i);
    return tp_rule_done(&s, tp_scope_syms(&s, &strides), result);
}

TP_HOOK_D(tp_d_sym_stride)
{
    int dim;
    (void)op;
    if (!wrap_dim(arg[0].tensor, arg[1], &dim))
        return false;
    result[0] = tp_of_sym(tp_tensor_sym_stride(arg[0].tensor, dim));
    return true;
}

TP_HOOK_D(tp_d_sym_numel)
{
    tp_sym n = tp_sym_int(1);
    (void)op;
    for (int i = 0; i < arg[0].tensor->ndim; i++)
        n = tp_sym_mul(n, tp_tensor_sym_size(arg[0].tensor, i));
    result[0] = tp_of_sym(n);
    return !tp_sym_is_failed(n);
}

TP_HOOK_D(tp_d_sym_storage_offset)
{
    (void)op;
    result[0] = tp_of_sym(tp_tensor_sym_offset(arg[0].tensor));
    return true;
}

/* is_set_to(self, tensor): the same memory, seen the same way. */
TP_HOOK_D(tp_d_is_set_to)
{
    const tp_tensor *a = arg[0].tensor, *b = arg[1].tensor;
    bool same = a->storage == b->storage && a->offset == b->offset && a->ndim == b->ndim;
    (void)op;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->size[i] == b->size[i] && a->stride[i] == b->stride[i];
    result[0] = tp_bool(same);
    return true;
}
