/* query.c - answers about tensors and types that are no tensors: booleans, integers, types. */
#include "ops/promote.h"
#include "ops/rules/rules.h"

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
ANSWER(tp_d_is_never, tp_bool(false))       /* no conjugate or negative bits, no pinned memory */
ANSWER(tp_d_is_contiguous, tp_bool(op->arg_count == 1 ? tp_tensor_is_contiguous(SELF) : tp_tensor_has_format(SELF, (tp_format)arg[1].i)))
ANSWER(tp_d_get_device, tp_int(SELF->device.type == TP_CPU ? -1 : SELF->device.index))
ANSWER(tp_d_dim, tp_int(SELF->ndim))
ANSWER(tp_d_promote_types, tp_of_dtype(tp_dtype_promote((tp_dtype)arg[0].i, (tp_dtype)arg[1].i)))
ANSWER(tp_d_can_cast, tp_bool(tp_dtype_can_cast((tp_dtype)arg[0].i, (tp_dtype)arg[1].i)))

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
