/* vmap_level.c - wrappers that stand for batches, and the way of a call through one level. */
#include "trace/vmap_level.h"

#include <string.h>

#include "base/alloc.h"
#include "gen/ops.h"
#include "ops/batch.h"
#include "trace/fake.h"
#include "trace/level.h"

struct tp_vmap_level {
    tp_level level;
    tp_sym   size;
    uint8_t  randomness;        /* tp_randomness */
};

/* ---- wrappers ---- */

static tp_tensor *wrap(const tp_level *l, tp_tensor *inner)
{
    tp_tensor *face = tp_vmap_member(inner);
    return face ? tp_level_wrap(l, TP_ESCAPED_ERROR, face, inner, NULL) : NULL;
}

static tp_tensor *moved(tp_tensor *t, int64_t from, int64_t to)         /* counted */
{
    tp_value out;
    if (from == to)
        return tp_tensor_ref(t);
    return tp_call(&tp_op_movedim_int, (tp_value[]){ tp_of_tensor(t), tp_int(from), tp_int(to) }, &out) ? out.tensor : NULL;
}

tp_tensor *tp_vmap_level_wrap(const tp_vmap_level *l, tp_tensor *t, int64_t dim)
{
    tp_tensor *front = moved(t, dim, 0), *face = front ? wrap(&l->level, front) : NULL;
    tp_tensor_unref(front);
    return face;
}

static tp_tensor *unwrap_or_expand(const tp_level *l, tp_tensor *t)
{
    const tp_vmap_level *v = (const tp_vmap_level *)(const void *)l;
    if (tp_wrapped_at(l, t))
        return tp_level_unwrap(l, t);
    tp_scope s;
    tp_value out = tp_none();
    tp_scope_start(&s);
    tp_scope_keep(&s, &out, tp_vmap_expanded(&s, tp_of_tensor(t), v->size));
    return tp_scope_end(&s) ? out.tensor : NULL;
}

tp_tensor *tp_vmap_level_unwrap(const tp_vmap_level *l, tp_tensor *t, int64_t dim)
{
    tp_tensor *front = unwrap_or_expand(&l->level, t), *out = front ? moved(front, 0, dim) : NULL;
    tp_tensor_unref(front);
    return out;
}

bool tp_vmap_level_has(const tp_vmap_level *l, const tp_tensor *t)
{
    return tp_wrapped_at(&l->level, t);
}

/* ---- arguments ---- */
static bool has_wrapper(const tp_level *l, tp_value v)
{
    if (v.tag == TP_TENSOR)
        return tp_wrapped_at(l, v.tensor);
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (has_wrapper(l, v.list->item[i]))
            return true;
    return false;
}

static uint64_t batched_arguments(const tp_level *l, const tp_op *op, const tp_value *arg)
{
    uint64_t batched = 0;
    for (int i = 0; i < op->arg_count; i++)
        batched |= (uint64_t)has_wrapper(l, arg[i]) << i;
    return batched;
}

/* Of a list that holds a wrapper every tensor gets a batch. */
static bool unwrap_arguments(const tp_level *l, const tp_op *op, const tp_value *arg, uint64_t batched, tp_value *inner)
{
    for (int i = 0; i < op->arg_count; i++) {
        bool expand = (batched >> i & 1) && arg[i].tag == TP_LIST && !op->arg[i].written;
        if (!tp_level_map_values(l, expand ? unwrap_or_expand : tp_level_unwrap, &arg[i], 1, &inner[i])) {
            tp_values_unref(inner, (size_t)i);
            return false;
        }
    }
    return true;
}

/* ---- results ---- */

/* A result that is an argument's batch is that argument; in place its sizes may have changed. */
static tp_tensor *face_of(const tp_level *l, const tp_op *op, const tp_value *arg, tp_tensor *made)
{
    for (int i = 0; i < op->arg_count; i++)
        for (uint32_t k = 0; k < (arg[i].tag == TP_TENSOR ? 1 : tp_length(arg[i])); k++) {
            tp_tensor *t = tp_as_tensor(arg[i].tag == TP_TENSOR ? arg[i] : arg[i].list->item[k]);
            const tp_wrapped *w = t ? tp_wrapped_at(l, t) : NULL;
            if (w ? w->inner == made : t == made)
                return tp_tensor_ref(t);
        }
    return wrap(l, made);
}

static bool rewrap(const tp_level *l, const tp_op *op, const tp_value *arg, tp_value *v)
{
    if (v->tag == TP_TENSOR) {
        tp_tensor *face = face_of(l, op, arg, v->tensor);
        if (!face)
            return false;
        tp_tensor_unref(v->tensor);
        v->tensor = face;
    }
    for (uint32_t i = 0; i < tp_length(*v); i++)
        if (!rewrap(l, op, arg, &v->list->item[i]))
            return false;
    return true;
}

static bool wrap_results(const tp_level *l, const tp_op *op, const tp_value *arg, tp_value *result)
{
    for (int i = 0; i < op->result_count; i++)
        if (!rewrap(l, op, arg, &result[i]))
            return tp_call_take_back(op, result);
    return true;
}

/* ---- writes, and what is refused ---- */

/* squeeze_ and the like: the wrapper comes to stand for another view of its batch. */
static bool change_view(const tp_level *l, const tp_op *op, const tp_value *arg, tp_value *inner, uint64_t batched, tp_sym size, tp_value *result)
{
    const tp_op *view = op->functional ? op->functional : op->base;
    tp_wrapped *w = tp_wrapped_at(l, arg[0].tensor);
    tp_value seen;
    char name[128];
    if (!view || !view->vmap)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "%s has no batching rule", tp_op_full_name(op, name));
    if (!view->vmap(view, inner, batched, size, &seen))
        return false;
    tp_tensor *face = tp_vmap_member(seen.tensor);
    bool ok = face && tp_fake_take_geometry(arg[0].tensor, face);
    tp_tensor_unref(face);
    if (!ok) {
        tp_value_unref(seen);
        return false;
    }
    tp_tensor_unref(w->inner);
    w->inner = seen.tensor;
    *result = tp_of_tensor(tp_tensor_ref(arg[0].tensor));
    return true;
}

static bool check_call(const tp_op *op, const tp_value *arg, const tp_level *l, uint64_t batched)
{
    char name[128];
    if (op->variant == TP_OUT || (op->kind == TP_LIKE_VIEW && !op->vmap))       /* a copy would be no view */
        return tp_fail(TP_ERR_RUNTIME, "Batching rule not implemented for %s; the fallback path doesn't work on out= or view ops.",
                       tp_op_full_name(op, name));
    if (op->kind == TP_LIKE_METADATA)
        return tp_fail(TP_ERR_RUNTIME, "Batching rule not implemented for %s. We could not generate a fallback.", tp_op_full_name(op, name));
    for (int i = 0; i < op->arg_count; i++) {
        bool plain = op->arg[i].written && arg[i].tag != TP_NONE && !(batched >> i & 1);
        for (uint32_t k = 0; op->arg[i].written && k < tp_length(arg[i]); k++)
            plain |= !has_wrapper(l, arg[i].list->item[k]);
        if (plain)
            return tp_vmap_refuse_write(op);
    }
    return true;
}

/* ---- random numbers ---- */
static bool random_call(tp_vmap_level *l, const tp_op *op, const tp_value *arg, uint64_t batched, tp_value *result)
{
    tp_value inner[TP_LEVEL_MOST_ARGS];
    if (l->randomness == TP_RANDOM_ERROR)
        return tp_fail(TP_ERR_RUNTIME, "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                       "randomness flags on vmap or perform the randomness operation out of vmap");
    if (l->randomness == TP_RANDOM_SAME && !batched)
        return tp_mount_next(&l->level.mount, op, arg, result);
    if (!unwrap_arguments(&l->level, op, arg, batched, inner))
        return false;
    bool ok = l->randomness == TP_RANDOM_SAME ? tp_vmap_random_same(op, inner, batched, l->size, result)
              : op->vmap && batched           ? op->vmap(op, inner, batched, l->size, result)
                                              : tp_vmap_random(op, inner, batched, l->size, result);
    tp_values_unref(inner, op->arg_count);
    if (!ok || (l->randomness == TP_RANDOM_SAME && op->variant != TP_INPLACE))
        return ok;                      /* the same numbers for all are no batch */
    return wrap_results(&l->level, op, arg, result);
}

/* ---- the level ---- */
static bool level_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_vmap_level *l = (tp_vmap_level *)(void *)m;
    tp_value inner[TP_LEVEL_MOST_ARGS];
    if (op->kind == TP_LIKE_COMPOSITE && op->open && !op->vmap)
        return tp_level_open(&l->level, op, arg, result);
    uint64_t batched = batched_arguments(&l->level, op, arg);
    if (op->flags & TP_OP_RNG)
        return random_call(l, op, arg, batched, result);
    if (!batched)
        return tp_mount_next(m, op, arg, result);
    if (!op->vmap && op->open && op->variant == TP_FUNCTIONAL)
        return tp_level_open(&l->level, op, arg, result);
    if (!check_call(op, arg, &l->level, batched) || !unwrap_arguments(&l->level, op, arg, batched, inner))
        return false;
    bool view = op->kind == TP_LIKE_VIEW && op->variant == TP_INPLACE;
    tp_vmap_fn *rule = op->vmap ? op->vmap : tp_vmap_loop;
    bool ok = view ? change_view(&l->level, op, arg, inner, batched, l->size, result) : rule(op, inner, batched, l->size, result);
    tp_values_unref(inner, op->arg_count);
    return ok && (view || wrap_results(&l->level, op, arg, result));
}

tp_vmap_level *tp_vmap_level_new(tp_sym size, tp_randomness randomness)
{
    tp_vmap_level *l = tp_alloc_zero(sizeof *l);
    if (l) {
        tp_level_init(&l->level, level_call);
        l->size = size;
        l->randomness = (uint8_t)randomness;
    }
    return l;
}

tp_vmap_level *tp_vmap_level_at(tp_mount *m)
{
    return m && m->call == level_call ? (tp_vmap_level *)(void *)m : NULL;
}

tp_sym tp_vmap_level_size(const tp_vmap_level *l)
{
    return l->size;
}

tp_randomness tp_vmap_level_randomness(const tp_vmap_level *l)
{
    return (tp_randomness)l->randomness;
}

bool tp_is_batched(const tp_tensor *t)
{
    int number;
    for (tp_level *l = tp_level_of(t, &number); l; l = tp_level_of(t, &number)) {
        if (tp_vmap_level_at(&l->mount))
            return true;
        t = tp_wrapped_at(l, t)->inner;
    }
    return false;
}

void tp_vmap_level_free(tp_vmap_level *l)
{
    tp_free(l);
}

void tp_vmap_level_enter(tp_vmap_level *l)
{
    tp_level_enter(&l->level);
}

void tp_vmap_level_leave(tp_vmap_level *l)
{
    tp_level_leave(&l->level);
}
