/* level.c - wrappers of the transform stack. */
#include "trace/level.h"

#include "base/alloc.h"
#include "trace/fake.h"

enum { KEY = 1u << TP_LAYER_TRANSFORM };

/* ---- the level ---- */
void tp_level_init(tp_level *l, tp_level_call *call)
{
    l->mount.call = call;
    l->id = atomic_fetch_add(&tp_the_runtime.sequence, 1);
}

void tp_level_enter(tp_level *l)
{
    tp_mount_push(&l->mount, TP_LAYER_TRANSFORM);
    tp_self.levels++;
    l->outer_mode = tp_self.grad_mode;
}

void tp_level_leave(tp_level *l)
{
    tp_mount_pop(&l->mount);
    tp_self.levels--;
    tp_self.grad_mode = l->outer_mode;
}

static bool open_here(const tp_op *op, const tp_value *arg, tp_value *result, void *user)
{
    (void)user;
    return tp_call_open(op, arg, result);
}

bool tp_level_open(tp_level *l, const tp_op *op, const tp_value *arg, tp_value *result)
{
    return tp_mount_reopen(&l->mount, open_here, op, arg, result, NULL);
}

/* ---- a tape of the level's own ---- */

/* Where that tape hands a call on: a tracer of the moment. */
typedef struct bottom {
    tp_mount  mount;
    tp_level *level;
    tp_level_below *below;
    uint32_t  allowed;          /* of the call that came to the level */
    uint32_t  active;
} bottom;

static bool bottom_call(tp_mount *m, const tp_op *op, const tp_value *face, tp_value *result)
{
    const bottom *b = (bottom *)(void *)m;
    uint32_t allowed = tp_self.allowed, active = tp_self.active;
    bool mode = tp_self.grad_mode;
    tp_self.allowed = b->allowed & ~TP_LAYER_BIT(TP_LAYER_AUTOCAST);       /* the casts were made above this level's tape */
    tp_self.active = b->active;
    tp_self.grad_mode = mode && b->level->outer_mode;
    bool ok = b->below(b->level, op, face, result);
    tp_self.allowed = allowed;
    tp_self.active = active;
    tp_self.grad_mode = mode;
    return ok;
}

bool tp_level_tape(tp_level *l, tp_level_below *below, const tp_op *op, const tp_value *face, tp_value *result)
{
    bottom b = { .mount = { .call = bottom_call }, .level = l, .below = below, .allowed = tp_self.allowed, .active = tp_self.active };
    tp_mount_push(&b.mount, TP_LAYER_TRACE_R);
    uint32_t autocast = b.allowed & b.active & TP_LAYER_BIT(TP_LAYER_AUTOCAST);
    tp_self.allowed = tp_self.active = autocast | TP_LAYER_BIT(TP_LAYER_GRAD) | TP_LAYER_BIT(TP_LAYER_TRACE_R);
    bool ok = tp_call(op, face, result);
    tp_self.allowed = b.allowed;
    tp_mount_pop(&b.mount);
    tp_self.active = b.active;
    return ok;
}

bool tp_level_check_written(const tp_level *l, const tp_op *op, const tp_value *arg)
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

/* ---- wrappers ---- */
static void wrapped_free(void *self)
{
    tp_wrapped *w = self;
    tp_tensor_unref(w->inner);
    tp_tensor_unref(w->tangent);
    tp_tensor_unref(w->base);
    tp_free(w);
}

static void *wrapped_copy(const void *self)
{
    const tp_wrapped *from = self;
    tp_wrapped *w = tp_alloc(sizeof *w);
    if (!w)
        return NULL;
    *w = *from;
    tp_tensor_ref(w->inner);
    if (w->tangent)
        tp_tensor_ref(w->tangent);
    if (w->base)
        tp_tensor_ref(w->base);
    return w;
}

tp_wrapped *tp_wrapped_at(const tp_level *l, const tp_tensor *t)
{
    tp_wrapped *w = t->extra;
    return w && w->attached.free == wrapped_free && w->level == l->id ? w : NULL;
}

tp_level *tp_level_of(const tp_tensor *t, int *number)
{
    const tp_wrapped *w = t->extra;
    tp_level *found = NULL;
    int count = 0;
    if (!w || w->attached.free != wrapped_free)
        return NULL;
    for (tp_mount *m = tp_self.transforms; m; m = m->outer) {
        count += found != NULL;
        if (!found && ((tp_level *)(void *)m)->id == w->level)
            found = (tp_level *)(void *)m;
    }
    *number = count + 1;
    return found;
}

tp_tensor *tp_level_wrap(const tp_level *l, tp_escaped escaped, tp_tensor *face, tp_tensor *inner, tp_tensor *tangent)
{
    tp_wrapped *w = tp_alloc(sizeof *w);
    if (!w) {
        tp_tensor_unref(face);
        return NULL;
    }
    if (face->extra)            /* what an alias has of `inner` is the business of the levels below */
        ((tp_attached *)face->extra)->free(face->extra);
    *w = (tp_wrapped){ .attached = { wrapped_free, wrapped_copy }, .escaped = (uint8_t)escaped, .level = l->id, .inner = tp_tensor_ref(inner),
                       .tangent = tangent ? tp_tensor_ref(tangent) : NULL };
    face->extra = w;
    face->keys |= KEY | (inner->keys & TP_KEY_NUMBER);
    tp_set_signs(face, tp_signs(inner));
    return face;
}

tp_tensor *tp_level_unwrap(const tp_level *l, tp_tensor *t)
{
    const tp_wrapped *w = tp_wrapped_at(l, t);
    return tp_tensor_ref(w ? w->inner : t);
}

int tp_level_find(const tp_level *l, const tp_op *op, const tp_value *arg, const tp_tensor *inner, tp_tensor **face)
{
    for (int i = 0; i < op->arg_count; i++) {
        const tp_wrapped *w = arg[i].tag == TP_TENSOR ? tp_wrapped_at(l, arg[i].tensor) : NULL;
        if (!w || w->inner != inner)
            continue;
        if (!tp_tensor_same_place(arg[i].tensor, inner) && !tp_fake_take_geometry(arg[i].tensor, inner))
            return -2;
        *face = tp_tensor_ref(arg[i].tensor);
        return i;
    }
    return -1;
}

/* ---- values ---- */
static bool map_value(const tp_level *l, tp_level_map *map, tp_value v, tp_value *out)
{
    *out = tp_none();
    if (v.tag == TP_TENSOR) {
        tp_tensor *t = map(l, v.tensor);
        if (t)
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

bool tp_level_map_values(const tp_level *l, tp_level_map *map, const tp_value *from, int count, tp_value *to)
{
    for (int i = 0; i < count; i++)
        if (!map_value(l, map, from[i], &to[i])) {
            tp_values_unref(to, (size_t)i);
            return false;
        }
    return true;
}

/* ---- outside ---- */
static tp_tensor *escaped_value(const tp_level *l, tp_tensor *t)
{
    (void)l;
    for (const tp_wrapped *w = t->extra; w && w->attached.free == wrapped_free && w->escaped != TP_ESCAPED_ITSELF; w = t->extra) {
        if (w->escaped == TP_ESCAPED_ERROR)
            return tp_fail(TP_ERR_RUNTIME, "Either your tensor may have escaped from inside a function being vmapped and this is a user error (see "
                           "https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch error in `gen_vmap_plumbing` Please "
                           "file an issue if it looks like the latter");
        t = w->inner;
    }
    return tp_tensor_ref(t);
}

bool tp_level_call_outside(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_value inner[TP_LEVEL_MOST_ARGS];
    if (!tp_level_map_values(NULL, escaped_value, arg, op->arg_count, inner))
        return false;
    bool ok = tp_call_below(TP_LAYER_TRANSFORM, op, inner, result);
    for (int i = 0; ok && i < op->result_count; i++)       /* what was written is given as it came */
        for (int k = 0; k < op->arg_count && result[i].tag == TP_TENSOR; k++)
            if (op->arg[k].written && arg[k].tag == TP_TENSOR && inner[k].tensor == result[i].tensor && arg[k].tensor != inner[k].tensor) {
                tp_tensor_unref(result[i].tensor);
                result[i].tensor = tp_tensor_ref(arg[k].tensor);
            }
    tp_values_unref(inner, op->arg_count);
    return ok;
}
