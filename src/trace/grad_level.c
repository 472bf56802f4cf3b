/* grad_level.c - wrappers with a history of their own, and the way of a call through one level. */
#include "trace/grad_level.h"

#include <string.h>

#include "base/alloc.h"
#include "trace/fake.h"

struct tp_grad_level {
    tp_mount mount;             /* in the transform stack */
    uint64_t id;                /* never given twice in a process: wrappers outlive their level */
    bool     outer_mode;        /* gradients were on outside */
};

typedef struct wrapped {        /* tp_tensor.extra of a wrapper */
    tp_attached attached;
    uint64_t    level;
    tp_tensor  *inner;          /* counted */
} wrapped;

enum { MOST_ARGS = 64, KEY = 1u << TP_LAYER_TRANSFORM };

/* ---- wrappers ---- */
static void wrapped_free(void *self)
{
    wrapped *w = self;
    tp_tensor_unref(w->inner);
    tp_free(w);
}

static void *wrapped_copy(const void *self)
{
    const wrapped *from = self;
    wrapped *w = tp_alloc(sizeof *w);
    if (!w)
        return NULL;
    *w = *from;
    tp_tensor_ref(w->inner);
    return w;
}

static wrapped *wrapped_at(const tp_grad_level *l, const tp_tensor *t)
{
    wrapped *w = t->extra;
    return w && w->attached.free == wrapped_free && w->level == l->id ? w : NULL;
}

tp_tensor *tp_grad_level_wrap(const tp_grad_level *l, tp_tensor *t)
{
    if (wrapped_at(l, t))
        return tp_tensor_ref(t);
    wrapped *w = tp_alloc(sizeof *w);
    tp_tensor *face = w ? tp_tensor_alias(t) : NULL;
    if (!face) {
        tp_free(w);
        return NULL;
    }
    if (face->extra)            /* what the alias has of `t` is the business of the levels below */
        ((tp_attached *)face->extra)->free(face->extra);
    *w = (wrapped){ .attached = { wrapped_free, wrapped_copy }, .level = l->id, .inner = tp_tensor_ref(t) };
    face->extra = w;
    face->keys |= KEY | (t->keys & TP_KEY_NUMBER);
    return face;
}

tp_tensor *tp_grad_level_unwrap(const tp_grad_level *l, tp_tensor *t)
{
    const wrapped *w = wrapped_at(l, t);
    return tp_tensor_ref(w ? w->inner : t);
}

/* ---- values ---- */
typedef tp_tensor *map_tensor(const tp_grad_level *l, tp_tensor *t);

static bool map_value(const tp_grad_level *l, map_tensor *map, tp_value v, tp_value *out)
{
    *out = tp_none();
    if (v.tag == TP_TENSOR) {
        tp_tensor *t = map(l, v.tensor);
        *out = tp_of_tensor(t);
        return t != NULL;
    }
    bool tensors = false;
    for (uint32_t i = 0; v.tag == TP_LIST && i < v.list->count; i++)
        tensors |= v.list->item[i].tag == TP_TENSOR;
    if (!tensors) {
        *out = tp_value_ref(v);
        return out->tag == v.tag;
    }
    tp_list *all = tp_list_new(v.list->count);
    bool ok = all != NULL;
    for (uint32_t i = 0; ok && i < all->count; i++)
        ok = map_value(l, map, v.list->item[i], &all->item[i]);
    if (ok)
        *out = tp_of_list(all);
    else if (all)
        tp_value_unref(tp_of_list(all));
    return ok;
}

static bool map_values(const tp_grad_level *l, map_tensor *map, const tp_value *from, int count, tp_value *to)
{
    for (int i = 0; i < count; i++)
        if (!map_value(l, map, from[i], &to[i])) {
            tp_values_unref(to, (size_t)i);
            return false;
        }
    return true;
}

/* ---- below the level's autograd ---- */

/* Where the level's tape hands a call on: a tracer of the moment that unwraps, goes down, and wraps what comes back. */
typedef struct bottom {
    tp_mount mount;
    const tp_grad_level *level;
    uint32_t allowed;           /* of the call that came to the level */
    uint32_t active;
} bottom;

/* A result that is an argument's inner tensor is that argument (in-place ops, .contiguous()). */
static bool rewrap(const tp_grad_level *l, const tp_op *op, const tp_value *arg, tp_value *v)
{
    if (v->tag == TP_TENSOR) {
        tp_tensor *face = NULL;
        for (int i = 0; i < op->arg_count && !face; i++) {
            const wrapped *w = arg[i].tag == TP_TENSOR ? wrapped_at(l, arg[i].tensor) : NULL;
            if (w && w->inner == v->tensor)
                face = tp_tensor_ref(arg[i].tensor);
        }
        if (face && !tp_tensor_same_place(face, v->tensor) && !tp_fake_take_geometry(face, v->tensor)) {
            tp_tensor_unref(face);
            return false;
        }
        if (!face && !(face = tp_grad_level_wrap(l, v->tensor)))
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
    tp_value inner[MOST_ARGS];
    if (!map_values(b->level, tp_grad_level_unwrap, arg, op->arg_count, inner))
        return false;
    uint32_t allowed = tp_self.allowed, active = tp_self.active;
    bool mode = tp_self.grad_mode;
    tp_self.allowed = b->allowed;
    tp_self.active = b->active;
    tp_self.grad_mode = mode && b->level->outer_mode;
    bool ok = tp_mount_next((tp_mount *)&b->level->mount, op, inner, result);
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
static bool open_here(const tp_op *op, const tp_value *arg, tp_value *result, void *user)
{
    (void)user;
    return tp_call_open(op, arg, result);
}

static bool check_written(const tp_grad_level *l, const tp_op *op, const tp_value *arg)
{
    bool any = false;
    char name[128];
    for (int i = 0; i < op->arg_count; i++)
        any |= arg[i].tag == TP_TENSOR && !op->arg[i].written && wrapped_at(l, arg[i].tensor);
    for (int i = 0; i < op->arg_count; i++)
        if (any && op->arg[i].written && arg[i].tag == TP_TENSOR && !wrapped_at(l, arg[i].tensor))
            return tp_fail(TP_ERR_RUNTIME, "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
                           "(%s) that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to "
                           "explicitly accept the mutated Tensor(s) as inputs.", tp_op_full_name(op, name));
    return true;
}

static bool level_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_grad_level *l = (tp_grad_level *)(void *)m;
    tp_value faces[MOST_ARGS];
    if (op->kind == TP_LIKE_COMPOSITE && op->open)
        return tp_mount_reopen(m, open_here, op, arg, result, NULL);
    if (!check_written(l, op, arg) || !map_values(l, tp_grad_level_wrap, arg, op->arg_count, faces))
        return false;
    bottom b = { .mount = { .call = bottom_call }, .level = l, .allowed = tp_self.allowed, .active = tp_self.active };
    tp_mount_push(&b.mount, TP_LAYER_TRACE_R);
    tp_self.allowed = TP_LAYER_BIT(TP_LAYER_GRAD) | TP_LAYER_BIT(TP_LAYER_TRACE_R);
    tp_self.active = TP_LAYER_BIT(TP_LAYER_TRACE_R) | TP_LAYER_BIT(TP_LAYER_GRAD);
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
    if (l) {
        l->mount.call = level_call;
        l->id = atomic_fetch_add(&tp_the_runtime.sequence, 1);
    }
    return l;
}

void tp_grad_level_free(tp_grad_level *l)
{
    tp_free(l);
}

void tp_grad_level_enter(tp_grad_level *l)
{
    tp_mount_push(&l->mount, TP_LAYER_TRANSFORM);
    l->outer_mode = tp_self.grad_mode;
    tp_self.grad_mode = true;
}

void tp_grad_level_leave(tp_grad_level *l)
{
    tp_mount_pop(&l->mount);
    tp_self.grad_mode = l->outer_mode;
}
