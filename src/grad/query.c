/* query.c - ops that ask about the tape or change what a tensor has to do with it. */
#include "gen/ops.h"
#include "grad/tape.h"

#define SELF (arg[0].tensor)

TP_HOOK_D(tp_d_is_leaf)
{
    (void)op;
    result[0] = tp_bool(tp_is_leaf(SELF));
    return true;
}

TP_HOOK_D(tp_d_output_nr)
{
    tp_grad_node *node;
    uint32_t slot = 0;
    (void)op;
    if (!tp_grad_fn(SELF, &node, &slot))
        return false;
    result[0] = tp_int(node ? tp_grad_output(node, slot) : 0);
    return true;
}

TP_HOOK_D(tp_d_retains_grad)
{
    (void)op;
    result[0] = tp_bool(SELF->autograd && SELF->autograd->retains_grad);
    return true;
}

TP_HOOK_D(tp_d_data)
{
    (void)op;
    tp_tensor *bare = tp_detach(SELF);
    result[0] = bare ? tp_of_tensor(bare) : tp_none();
    return bare != NULL;
}

TP_HOOK_D(tp_d_requires_grad_)
{
    (void)op;
    if (!tp_set_requires_grad(SELF, tp_as_bool(arg[1])))
        return false;
    result[0] = tp_value_ref(arg[0]);
    return true;
}

TP_HOOK_D(tp_d_retain_grad)
{
    (void)op, (void)result;
    if (!tp_requires_grad(SELF))
        return tp_fail(TP_ERR_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    return tp_is_leaf(SELF) || tp_retain_grad(SELF);
}
