/* duals.c - the ops of autograd.forward_ad: a tensor joined with its tangent in the open level, and taken apart again. */
#include "gen/ops.h"
#include "ops/dispatch.h"
#include "ops/hooks.h"
#include "trace/jvp_level.h"

static bool has_tangent(tp_jvp_level *level, tp_tensor *t, bool *has)
{
    tp_tensor *tangent = NULL;
    bool ok = tp_jvp_level_tangent(level, t, &tangent);
    *has = tangent != NULL;
    tp_tensor_unref(tangent);
    return ok;
}

/* arg: primal, tangent, level. */
TP_HOOK_D(tp_d_make_dual)
{
    tp_jvp_level *level = tp_jvp_level_open();
    bool already, nested;
    (void)op;
    if (!level)
        return tp_fail(TP_ERR_RUNTIME, "Trying to access a forward AD level with an invalid index. This index was either not created or is already deleted.");
    if (arg[2].i != 0)
        return tp_fail(TP_ERR_RUNTIME, "Invalid level given to _make_dual");
    if (!has_tangent(level, arg[0].tensor, &already) || !has_tangent(level, arg[1].tensor, &nested))
        return false;
    if (already)
        return tp_fail(TP_ERR_RUNTIME, "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported.");
    if (nested)
        return tp_fail(TP_ERR_RUNTIME, "Setting a forward grad that itself has a forward gradient at the same level0 is not supported.");
    result[0] = tp_of_tensor(tp_jvp_level_dual(level, arg[0].tensor, arg[1].tensor));
    return result[0].tensor;
}

/* arg: self, level. A view of the primal. */
TP_HOOK_D(tp_d_fw_primal)
{
    tp_jvp_level *level = tp_jvp_level_open();
    (void)op;
    if (arg[1].i != 0)
        return tp_fail(TP_ERR_RUNTIME, "Invalid level given to _fw_primal");
    tp_tensor *plain = level ? tp_jvp_level_unwrap(level, arg[0].tensor) : tp_tensor_ref(arg[0].tensor);
    bool ok = plain && tp_call(&tp_op_view_as, (tp_value[]){ tp_of_tensor(plain), tp_of_tensor(plain) }, result);
    tp_tensor_unref(plain);
    return ok;
}

/* arg: dual, level. The primal, and the tangent or none. */
TP_HOOK_D(tp_d_unpack_dual)
{
    tp_jvp_level *level = tp_jvp_level_open();
    tp_tensor *tangent = NULL;
    if ((level && !tp_jvp_level_tangent(level, arg[0].tensor, &tangent)) || !tp_d_fw_primal(op, arg, result)) {
        tp_tensor_unref(tangent);
        return false;
    }
    result[1] = tangent ? tp_of_tensor(tangent) : tp_none();
    return true;
}
