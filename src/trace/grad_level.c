/* grad_level.c - wrappers with a history of their own, and the way of a call through one level. */
#include "trace/grad_level.h"

#include "base/alloc.h"
#include "trace/level.h"

struct tp_grad_level {
    tp_level level;
};

static tp_tensor *wrap(const tp_level *l, tp_tensor *t)
{
    if (tp_wrapped_at(l, t))
        return tp_tensor_ref(t);
    tp_tensor *face = tp_tensor_alias(t);
    return face ? tp_level_wrap(l, TP_ESCAPED_INNER, face, t, NULL) : NULL;
}

tp_tensor *tp_grad_level_wrap(const tp_grad_level *l, tp_tensor *t)
{
    return wrap(&l->level, t);
}

tp_tensor *tp_grad_level_unwrap(const tp_grad_level *l, tp_tensor *t)
{
    return tp_level_unwrap(&l->level, t);
}

/* ---- the way of a call ---- */
static bool rewrap(const tp_level *l, const tp_op *op, const tp_value *arg, tp_value *v)
{
    if (v->tag == TP_TENSOR) {
        tp_tensor *face = NULL;
        int at = tp_level_find(l, op, arg, v->tensor, &face);
        if (at == -2 || (at == -1 && !(face = wrap(l, v->tensor))))
            return false;
        tp_tensor_unref(v->tensor);
        v->tensor = face;
    }
    for (uint32_t i = 0; i < tp_length(*v); i++)
        if (!rewrap(l, op, arg, &v->list->item[i]))
            return false;
    return true;
}

static bool below(tp_level *l, const tp_op *op, const tp_value *face, tp_value *result)
{
    tp_value inner[TP_LEVEL_MOST_ARGS];
    if (!tp_level_map_values(l, tp_level_unwrap, face, op->arg_count, inner))
        return false;
    bool ok = tp_mount_next(&l->mount, op, inner, result);
    tp_values_unref(inner, op->arg_count);
    for (int i = 0; ok && i < op->result_count; i++)
        if (!rewrap(l, op, face, &result[i]))
            return tp_call_take_back(op, result);
    return ok;
}

static bool level_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_level *l = (tp_level *)(void *)m;
    tp_value faces[TP_LEVEL_MOST_ARGS];
    if (op->kind == TP_LIKE_COMPOSITE && op->open)
        return tp_level_open(l, op, arg, result);
    if (!tp_level_check_written(l, op, arg) || !tp_level_map_values(l, wrap, arg, op->arg_count, faces))
        return false;
    bool ok = tp_level_tape(l, below, op, faces, result);
    tp_values_unref(faces, op->arg_count);
    return ok;
}

tp_grad_level *tp_grad_level_new(void)
{
    tp_grad_level *l = tp_alloc_zero(sizeof *l);
    if (l)
        tp_level_init(&l->level, level_call);
    return l;
}

tp_grad_level *tp_grad_level_at(tp_mount *m)
{
    return m && m->call == level_call ? (tp_grad_level *)(void *)m : NULL;
}

void tp_grad_level_free(tp_grad_level *l)
{
    tp_free(l);
}

void tp_grad_level_enter(tp_grad_level *l)
{
    tp_level_enter(&l->level);
    tp_self.grad_mode = true;
}

void tp_grad_level_leave(tp_grad_level *l)
{
    tp_level_leave(&l->level);
}
