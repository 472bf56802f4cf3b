/* grad_level.c - wrappers with a history of their own, and the way of a call through one level. */
#include "trace/grad_level.h"

#include "base/alloc.h"
#include "trace/fake.h"
#include "trace/level.h"

struct tp_grad_level {
    tp_level level;
};

static tp_tensor *wrap(const tp_level *l, tp_tensor *t)
{
    if (tp_wrapped_at(l, t))
        return tp_tensor_ref(t);
    tp_tensor *face = tp_tensor_alias(t);
    return face ? tp_level_wrap(l, face, t, NULL) : NULL;
}

tp_tensor *tp_grad_level_wrap(const tp_grad_level *l, tp_tensor *t)
{
    return wrap(&l->level, t);
}

tp_tensor *tp_grad_level_unwrap(const tp_grad_level *l, tp_tensor *t)
{
    return tp_level_unwrap(&l->level, t);
}

/* ---- below the level's autograd ---- */

/* Where the level's tape hands a call on: a tracer of the moment that unwraps, goes down, and wraps what comes back. */
typedef struct bottom {
    tp_mount mount;
    tp_level *level;
    uint32_t allowed;           /* of the call that came to the level */
    uint32_t active;
} bottom;

/* A result that is an argument's inner tensor is that argument (in-place ops, .contiguous()). */
static bool rewrap(const tp_level *l, const tp_op *op, const tp_value *arg, tp_value *v)
{
    if (v->tag == TP_TENSOR) {
        tp_tensor *face = NULL;
        for (int i = 0; i < op->arg_count && !face; i++) {
            const tp_wrapped *w = arg[i].tag == TP_TENSOR ? tp_wrapped_at(l, arg[i].tensor) : NULL;
            if (w && w->inner == v->tensor)
                face = tp_tensor_ref(arg[i].tensor);
        }
        if (face && !tp_tensor_same_place(face, v->tensor) && !tp_fake_take_geometry(face, v->tensor)) {
            tp_tensor_unref(face);
            return false;
        }
        if (!face && !(face = wrap(l, v->tensor)))
            return false;
        tp_tensor_unref(v->tensor);
        v->tensor = face;
    }
    for (uint32_t i = 0; i < tp_length(*v); i++)
        if (!rewrap(l, op, arg, &v->list->item[i]))
            return false;
    return true;
}

static bool bottom_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    const bottom *b = (bottom *)(void *)m;
    tp_value inner[TP_LEVEL_MOST_ARGS];
    if (!tp_level_map_values(b->level, tp_level_unwrap, arg, op->arg_count, inner))
        return false;
    uint32_t allowed = tp_self.allowed, active = tp_self.active;
    bool mode = tp_self.grad_mode;
    tp_self.allowed = b->allowed & ~TP_LAYER_BIT(TP_LAYER_AUTOCAST);       /* the casts were made above this level's tape */
    tp_self.active = b->active;
    tp_self.grad_mode = mode && b->level->outer_mode;
    bool ok = tp_mount_next(&b->level->mount, op, inner, result);
    tp_self.allowed = allowed;
    tp_self.active = active;
    tp_self.grad_mode = mode;
    tp_values_unref(inner, op->arg_count);
    bool made = ok;
    for (int i = 0; ok && i < op->result_count; i++)
        ok = rewrap(b->level, op, arg, &result[i]);
    for (int i = 0; made && !ok && i < op->result_count; i++) {     /* made, but not wrapped: the caller finds no result */
        tp_value_unref(result[i]);
        result[i] = tp_none();
    }
    return ok;
}

/* ---- the level ---- */
static bool check_written(const tp_level *l, const tp_op *op, const tp_value *arg)
{
    bool any = false;
    char name[128];
    for (int i = 0; i < op->arg_count; i++)
        any |= arg[i].tag == TP_TENSOR && !op->arg[i].written && tp_wrapped_at(l, arg[i].tensor);
    for (int i = 0; i < op->arg_count; i++)
        if (any && op->arg[i].written && arg[i].tag == TP_TENSOR && !tp_wrapped_at(l, arg[i].tensor))
            return tp_fail(TP_ERR_RUNTIME, "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
                           "(%s) that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to "
                           "explicitly accept the mutated Tensor(s) as inputs.", tp_op_full_name(op, name));
    return true;
}

static bool level_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_level *l = (tp_level *)(void *)m;
    tp_value faces[TP_LEVEL_MOST_ARGS];
    if (op->kind == TP_LIKE_COMPOSITE && op->open)
        return tp_level_open(l, op, arg, result);
    if (!check_written(l, op, arg) || !tp_level_map_values(l, wrap, arg, op->arg_count, faces))
        return false;
    bottom b = { .mount = { .call = bottom_call }, .level = l, .allowed = tp_self.allowed, .active = tp_self.active };
    tp_mount_push(&b.mount, TP_LAYER_TRACE_R);
    uint32_t autocast = b.allowed & b.active & TP_LAYER_BIT(TP_LAYER_AUTOCAST);
    tp_self.allowed = tp_self.active = autocast | TP_LAYER_BIT(TP_LAYER_GRAD) | TP_LAYER_BIT(TP_LAYER_TRACE_R);
    bool ok = tp_call(op, faces, result);
    tp_self.allowed = b.allowed;
    tp_mount_pop(&b.mount);
    tp_self.active = b.active;
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
