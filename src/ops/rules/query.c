/* query.c - answers about tensors and types that are no tensors: booleans, integers, types. */
#include <stdio.h>

#include "ops/promote.h"
#include "ops/rules/rules.h"
#include "sym/env.h"

#define ANSWER(name, value)     \
    TP_HOOK_D(name)             \
    {                           \
        (void)op, (void)arg;    \
        result[0] = (value);    \
        return true;            \
    }
#define SELF (arg[0].tensor)
#define TYPE ((tp_dtype)SELF->dtype)

ANSWER(tp_d_is_complex, tp_bool(tp_dtype_is_complex(TYPE)))
ANSWER(tp_d_is_floating_point, tp_bool(tp_dtype_is_float(TYPE)))
ANSWER(tp_d_is_signed, tp_bool(TYPE != TP_u8 && TYPE != TP_b8))
ANSWER(tp_d_is_inference, tp_bool((SELF->keys & TP_KEY_INFERENCE) != 0))
ANSWER(tp_d_is_conj, tp_bool((SELF->keys & TP_KEY_CONJ) != 0))
ANSWER(tp_d_is_neg, tp_bool((SELF->keys & TP_KEY_NEG) != 0))
ANSWER(tp_d_is_never, tp_bool(false))       /* no pinned memory */
ANSWER(tp_d_is_contiguous, tp_bool(op->arg_count == 1 ? tp_tensor_is_contiguous(SELF) : tp_tensor_has_format(SELF, (tp_format)arg[1].i)))
ANSWER(tp_d_get_device, tp_int(SELF->device.type == TP_CPU ? -1 : SELF->device.index))
ANSWER(tp_d_dim, tp_int(SELF->ndim))
ANSWER(tp_d_prim_device, tp_of_device(SELF->device))
ANSWER(tp_d_prim_layout, ((void)arg, (tp_value){ .tag = TP_LAYOUT }))
ANSWER(tp_d_promote_types, tp_of_dtype(tp_dtype_promote((tp_dtype)arg[0].i, (tp_dtype)arg[1].i)))
ANSWER(tp_d_can_cast, tp_bool(tp_dtype_can_cast((tp_dtype)arg[0].i, (tp_dtype)arg[1].i)))

ANSWER(tp_d_has_compatible_shallow_copy_type, tp_bool(SELF->device.type == arg[1].tensor->device.type))

static size_t storage_elements(const tp_tensor *t)
{
    return t->storage->bytes / tp_dtype_bytes((tp_dtype)t->dtype);
}

ANSWER(tp_d_has_same_storage_numel, tp_bool(storage_elements(SELF) == storage_elements(arg[1].tensor)))

static int internal_overlap(const tp_tensor *t)
{
    enum { NO, YES, TOO_HARD };
    if (!t->numel || tp_tensor_is_dense(t))
        return NO;
    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] == 0 && t->size[i] > 1)
            return YES;
    return TOO_HARD;
}

ANSWER(tp_d_has_internal_overlap, tp_int(internal_overlap(SELF)))

TP_HOOK_D(tp_d_result_type)
{
    tp_common c = TP_COMMON_START;
    (void)op;
    tp_common_add(&c, arg[0]);
    tp_common_add(&c, arg[1]);
    result[0] = tp_of_dtype(tp_common_dtype(&c));
    return true;
}

/* ---- sizes, brought to integers ---- */
static bool integer(tp_open_fn *query, const tp_op *op, const tp_value *arg, tp_value *result)
{
    int64_t n;
    if (!query(op, arg, result))
        return false;
    if (result[0].tag == TP_INT)
        return true;
    bool ok = tp_sym_guard_int(tp_sym_read(result[0]), &n);
    tp_value_unref(result[0]);
    result[0] = ok ? tp_int(n) : tp_none();
    return ok;
}

TP_HOOK_D(tp_d_numel) { return integer(tp_d_sym_numel, op, arg, result); }
TP_HOOK_D(tp_d_size) { return integer(tp_d_sym_size, op, arg, result); }
TP_HOOK_D(tp_d_stride) { return integer(tp_d_sym_stride, op, arg, result); }
TP_HOOK_D(tp_d_storage_offset) { return integer(tp_d_sym_storage_offset, op, arg, result); }

/* ---- claims ---- */

/* A condition on sizes is a fact from here on, without a guard where data tell. */
TP_HOOK_D(tp_d_assert_scalar)
{
    (void)op, (void)result;
    if (arg[0].tag == TP_SYM)
        return tp_sym_assume(tp_sym_read(arg[0]), arg[1].string->text);
    tp_c128 c = tp_scalar_to_complex(tp_as_scalar(arg[0]));
    return c.re != 0 || c.im != 0 || tp_fail(TP_ERR_RUNTIME, "%s", arg[1].string->text);
}

TP_HOOK_K(tp_k_print)
{
    (void)out;
    return (puts(arg[0].string->text) >= 0 && fflush(stdout) == 0) || tp_fail(TP_ERR_RUNTIME, "_print: the standard output cannot be written");
}

/* What is said of a size that is an expression is taken for true from here on. */
static bool narrow(tp_sym size, int64_t low, int64_t high)
{
    size = tp_sym_simplify(size);
    if (tp_sym_is_symbol(size))
        return tp_symbol_narrow(size, (tp_range){ low, high });
    return tp_sym_assume(tp_sym_le(tp_sym_int(low), size), NULL) && tp_sym_assume(tp_sym_le(size, tp_sym_int(high)), NULL);
}

static bool constrain(tp_value size, int64_t low, int64_t high)
{
    if (high < low)
        return tp_fail(TP_ERR_RUNTIME, "Max must be greater than or equal to min. Got min=%lld max=%lld", LL(low), LL(high));
    if (size.tag == TP_SYM)
        return narrow(tp_sym_read(size), low, high);
    int64_t n = (int64_t)tp_scalar_to_complex(tp_as_scalar(size)).re;
    return (low <= n && n <= high) || tp_fail(TP_ERR_RUNTIME, "Invalid value range for %lld between [%lld, %lld].", LL(n), LL(low), LL(high));
}

/* arg: size, min, max */
TP_HOOK_D(tp_d_constrain_range)
{
    (void)op, (void)result;
    return constrain(arg[0], tp_is_none(arg[1]) ? INT64_MIN : tp_as_int(arg[1]), tp_is_none(arg[2]) ? INT64_MAX : tp_as_int(arg[2]));
}

TP_HOOK_D(tp_d_constrain_range_for_size)
{
    (void)op, (void)result;
    tp_sym size = arg[0].tag == TP_SYM ? tp_sym_simplify(tp_sym_read(arg[0])) : tp_sym_int(0);
    if (tp_sym_is_symbol(size) && tp_symbol_of(size)->kind == TP_SYMBOL_UNBACKED)
        tp_symbol_set_size_like(size);
    return constrain(arg[0], tp_is_none(arg[1]) ? 0 : tp_as_int(arg[1]), tp_is_none(arg[2]) ? INT64_MAX : tp_as_int(arg[2]));
}
