/* copy_views.c - one call: the copying variant instead of the view. */
#include "trace/copy_views.h"

#include <stdio.h>

static bool copy_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    char name[96];
    const tp_op *copy = NULL;
    if (op->kind == TP_LIKE_VIEW && op->variant == TP_FUNCTIONAL && snprintf(name, sizeof name, "%s_copy", op->name) < (int)sizeof name)
        copy = tp_op_find(op->space, name, op->overload);
    return tp_mount_next(m, copy && copy->arg_count == op->arg_count ? copy : op, arg, result);
}

void tp_copy_views_enter(tp_mount *m)
{
    *m = (tp_mount){ .call = copy_call };
    tp_mount_push(m, TP_LAYER_TRANSFORM);
}

void tp_copy_views_leave(tp_mount *m)
{
    tp_mount_pop(m);
}
