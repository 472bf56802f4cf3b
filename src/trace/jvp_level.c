/* jvp_level.c - dual tensors, and the way of a call through one level of forward mode. */
#include "trace/jvp_level.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "gen/ops.h"
#include "grad/tape.h"
#include "ops/scope.h"
#include "ops/symbolic.h"
#include "trace/level.h"

struct tp_jvp_level {
    tp_level level;
    bool     closed, paused;
};

enum { MOST_RESULTS = 64 };       /* as many as a schema may have */

static bool level_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result);

/* ---- the form of a tangent ---- */
static bool same_sizes(const tp_tensor *a, const tp_tensor *b)
{
    return a->ndim == b->ndim && memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) == 0;
}

/* Views of the primal are repeated on the tangent, so it lies as the primal does. Symbolic sizes are taken at their word. */
static bool lies_like(const tp_tensor *tangent, const tp_tensor *primal)
{
    if (!same_sizes(tangent, primal))
        return false;
    for (int i = 0; i < primal->ndim && primal->numel; i++)
        if (primal->size[i] > 1 && tangent->stride[i] != primal->stride[i] && primal->stride[i] != 0)
            return false;
    return true;
}

static tp_value adopted(tp_scope *s, tp_tensor *primal, tp_value tangent)
{
    if (s->failed || tangent.tag != TP_TENSOR || lies_like(tangent.tensor, primal))
        return tangent;
    tp_value place = tp_scope_geometry(s, primal);
    if (s->failed)
        return tp_none();
    tp_value fresh = tp_rule_call(s, &tp_op_new_empty_strided, 3, (tp_value[]){ tangent, place.list->item[0], place.list->item[1] });
    return tp_rule_call(s, &tp_op_copy_, 2, (tp_value[]){ fresh, tangent });
}

/* The part of the base's tangent that a view of the base looks at. */
static tp_value part_of(tp_scope *s, const tp_tensor *base, tp_tensor *tangent, const tp_tensor *view)
{
    tp_value place = tp_scope_geometry(s, view);
    if (s->failed)
        return tp_none();
    tp_sym offset = tp_sym_add(tp_sym_sub(tp_tensor_sym_offset(view), tp_tensor_sym_offset(base)), tp_tensor_sym_offset(tangent));
    return tp_scope_call(s, &tp_op_as_strided, (tp_value[]){ tp_of_tensor(tangent), place.list->item[0], place.list->item[1], tp_of_sym(offset) });
}

static void put_tangent(tp_scope *s, tp_wrapped *w, tp_value tangent)
{
    if (s->failed || tangent.tag != TP_TENSOR)
        return;
    tp_tensor_ref(tangent.tensor);
    tp_tensor_unref(w->tangent);
    w->tangent = tangent.tensor;
}

/* The tangent of a wrapper, none when it has none; a view finds its part of the base's the first time it is asked. */
static tp_value tangent_of(tp_scope *s, const tp_level *l, tp_wrapped *w)
{
    const tp_wrapped *base = w->base ? tp_wrapped_at(l, w->base) : NULL;
    if (!w->tangent && base && base->tangent)
        put_tangent(s, w, part_of(s, base->inner, base->tangent, w->inner));
    return w->tangent ? tp_of_tensor(w->tangent) : tp_none();
}

/* The tensor that a plain tensor is a view of, as autograd remembers it. */
static tp_tensor *plain_base(const tp_tensor *t)
{
    tp_tensor *base = t->autograd ? t->autograd->view_base : NULL;
    return base && base->dtype == t->dtype ? base : NULL;
}

/* The wrapper whose tangent t has its part of, may be NULL: also of a view made before its base became one. */
static const tp_wrapped *base_of(const tp_level *l, const tp_tensor *t)
{
    const tp_wrapped *w = tp_wrapped_at(l, t);
    const tp_tensor *base = w ? w->base : plain_base(t);
    return base ? tp_wrapped_at(l, base) : NULL;
}

static bool has_tangent(const tp_level *l, const tp_tensor *t)
{
    const tp_wrapped *w = tp_wrapped_at(l, t), *base = base_of(l, t);
    return (w && w->tangent) || (base && base->tangent);
}

static void write_tangent(tp_scope *s, const tp_level *l, tp_wrapped *w, tp_value tangent)
{
    tp_value old = tangent_of(s, l, w);
    tp_wrapped *base = w->base ? tp_wrapped_at(l, w->base) : NULL;
    if (old.tag != TP_TENSOR && base) {
        put_tangent(s, base, tp_rule_call(s, &tp_op_zeros_like, 1, (tp_value[]){ tp_of_tensor(base->inner) }));
        old = tangent_of(s, l, w);
    }
    if (old.tag == TP_TENSOR)
        (void)tp_rule_call(s, &tp_op_copy_, 2, (tp_value[]){ old, tangent });
    else
        put_tangent(s, w, adopted(s, w->inner, tangent));
}

/* ---- what comes to the level ---- */

/* Tangents of the arguments, borrowed from the scope or their wrappers; a list has one for each member as soon as it has any. */
static bool gather(tp_scope *s, const tp_level *l, tp_value face, tp_value *out)
{
    *out = tp_none();
    if (face.tag == TP_TENSOR) {
        tp_wrapped *w = tp_wrapped_at(l, face.tensor);
        if (w)
            *out = tangent_of(s, l, w);
        return out->tag == TP_TENSOR;
    }
    bool any = false;
    for (uint32_t i = 0; face.tag == TP_LIST && i < face.list->count; i++)
        any |= face.list->item[i].tag == TP_TENSOR && has_tangent(l, face.list->item[i].tensor);
    if (!any)
        return false;
    tp_values all = { 0 };
    for (uint32_t i = 0; i < face.list->count; i++) {
        tp_value item = face.list->item[i], one;
        if (item.tag == TP_TENSOR && !gather(s, l, item, &one)) {
            const tp_wrapped *w = tp_wrapped_at(l, item.tensor);
            one = tp_rule_call(s, &tp_op_zeros_like, 1, (tp_value[]){ w ? tp_of_tensor(w->inner) : item });
        }
        tp_values_add(s, &all, item.tag == TP_TENSOR ? one : tp_none());
    }
    *out = tp_scope_values(s, &all);
    return true;
}

static bool flows_from(const tp_level *l, tp_value v)
{
    if (v.tag == TP_TENSOR)
        return has_tangent(l, v.tensor);
    for (uint32_t i = 0; v.tag == TP_LIST && i < v.list->count; i++)
        if (flows_from(l, v.list->item[i]))
            return true;
    return false;
}

static const tp_op *formula_of(const tp_op *op)
{
    return op->variant == TP_FUNCTIONAL ? op : op->functional ? op->functional : op->base ? op->base : op;
}

/* Does a tangent reach an argument by which the op, in any of its forms, is differentiated? */
static bool flows_into(const tp_jvp_level *j, const tp_op *op, const tp_value *arg)
{
    const tp_op *of = op->differentiable ? op : formula_of(op);
    bool any = false;
    for (uint64_t left = of->differentiable; left; left &= left - 1)
        any |= flows_from(&j->level, arg[__builtin_ctzll(left)]);
    return any && !j->paused && tp_self.forward_mode;
}

static bool meets_wrapper(const tp_level *l, tp_value v)
{
    if (v.tag == TP_TENSOR)
        return tp_wrapped_at(l, v.tensor) || base_of(l, v.tensor);
    for (uint32_t i = 0; v.tag == TP_LIST && i < v.list->count; i++)
        if (meets_wrapper(l, v.list->item[i]))
            return true;
    return false;
}

static bool refuse(const tp_op *op)
{
    if (op->variant == TP_OUT)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "Trying to use forward AD with %s_out that does not support it because it is an out= function", op->name);
    return tp_fail(TP_ERR_UNIMPLEMENTED, "Trying to use forward AD with %s that does not support it because it has not been implemented yet.\n"
                   "Please file an issue to PyTorch at https://github.com/pytorch/pytorch/issues/new?template=feature-request.yml so that we can "
                   "prioritize its implementation or submit a PR adding the implementation to derivatives.yaml", op->name);
}

/* ---- what leaves it ---- */
static tp_tensor *wrap(const tp_level *l, tp_tensor *t)
{
    if (tp_wrapped_at(l, t))
        return tp_tensor_ref(t);
    tp_tensor *face = tp_tensor_alias(t);
    return face ? tp_level_wrap(l, TP_ESCAPED_ITSELF, face, t, NULL) : NULL;
}

/* In an open level: a tensor written with a tangent becomes a wrapper where it stands, and so does what it is a view of. */
static bool convert(const tp_level *l, tp_tensor *t)
{
    tp_tensor *base = plain_base(t);
    if (tp_wrapped_at(l, t))
        return true;
    if (base && !convert(l, base))
        return false;
    tp_edge edge = { NULL, 0 };
    tp_tensor *inner = tp_tensor_alias(t);
    bool ok = inner && tp_gradient_edge(t, &edge) && (!edge.node || tp_set_history(inner, edge.node, edge.slot)) &&
              tp_level_wrap(l, TP_ESCAPED_ITSELF, tp_tensor_ref(t), inner, NULL);
    tp_grad_node_unref(edge.node);
    if (ok && base)
        tp_wrapped_at(l, t)->base = tp_tensor_ref(base);
    if (ok)
        tp_tensor_unref(t);
    tp_tensor_unref(inner);
    return ok;
}

/* Before a call: what is about to be written with a tangent, and views whose base has become a wrapper. */
static bool convert_arguments(const tp_level *l, const tp_op *op, const tp_value *arg, bool flows)
{
    for (int i = 0; i < op->arg_count; i++) {
        uint32_t count = arg[i].tag == TP_LIST ? arg[i].list->count : 1;
        for (uint32_t k = 0; k < count; k++) {
            tp_value v = arg[i].tag == TP_LIST ? arg[i].list->item[k] : arg[i];
            if (v.tag == TP_TENSOR && ((flows && op->arg[i].written) || base_of(l, v.tensor)) && !convert(l, v.tensor))
                return false;
        }
    }
    return true;
}

/* A view follows the tangent of what it looks into. */
static void link_view(const tp_level *l, const tp_op *op, const tp_value *face, tp_wrapped *w)
{
    const tp_wrapped *of = op->kind == TP_LIKE_VIEW && op->gradient->jvp && op->arg_count && face[0].tag == TP_TENSOR ? tp_wrapped_at(l, face[0].tensor) : NULL;
    if (of && of->inner->dtype == w->inner->dtype && of->inner->storage == w->inner->storage)
        w->base = tp_tensor_ref(of->base ? of->base : face[0].tensor);
}

/* A tangent that a formula handed through is still that of the argument: a write to the result must not reach it. */
static tp_value own_tangent(tp_scope *s, const tp_level *l, const tp_op *op, const tp_value *face, tp_value tangent)
{
    bool shared = false;
    for (int i = 0; i < op->arg_count; i++) {
        const tp_wrapped *w = face[i].tag == TP_TENSOR ? tp_wrapped_at(l, face[i].tensor) : NULL;
        shared |= w && w->tangent && w->tangent->storage == tangent.tensor->storage;
    }
    return shared ? tp_rule_call(s, &tp_op_clone, 1, &tangent) : tangent;
}

static bool give(tp_scope *s, const tp_level *l, const tp_op *op, const tp_value *face, tp_value tangent, tp_value *v)
{
    if (v->tag == TP_TENSOR) {
        tp_tensor *mine = NULL;
        int at = tp_level_find(l, op, face, v->tensor, &mine);
        if (at == -2 || (at == -1 && !(mine = wrap(l, v->tensor))))
            return false;
        tp_tensor_unref(v->tensor);
        v->tensor = mine;
        tp_wrapped *w = tp_wrapped_at(l, mine);
        if (at == -1)
            link_view(l, op, face, w);
        if (tangent.tag != TP_TENSOR || !tp_dtype_is_inexact((tp_dtype)mine->dtype))
            return true;
        if (tp_dtype_is_complex((tp_dtype)tangent.tensor->dtype) && !tp_dtype_is_complex((tp_dtype)mine->dtype))
            tangent = tp_rule_call(s, &tp_op_real, 1, &tangent);        /* abs, norms: what the formula makes of a complex direction */
        if (s->failed)
            return false;
        if (at >= 0 && op->kind == TP_LIKE_VIEW)        /* x.t_(): the tangent is turned too */
            put_tangent(s, w, tangent);
        else if (at >= 0 && op->arg[at].written)
            write_tangent(s, l, w, tangent);
        else if (at == -1)
            put_tangent(s, w, w->base ? tangent : adopted(s, w->inner, own_tangent(s, l, op, face, tangent)));
    }
    for (uint32_t i = 0; i < tp_length(*v); i++)
        if (!give(s, l, op, face, tangent.tag == TP_LIST && i < tangent.list->count ? tangent.list->item[i] : tp_none(), &v->list->item[i]))
            return false;
    return !s->failed;
}

/* ---- the way of a call ---- */
static bool below(tp_level *l, const tp_op *op, const tp_value *face, tp_value *result)
{
    tp_value inner[TP_LEVEL_MOST_ARGS], primal[TP_LEVEL_MOST_ARGS], tangent[TP_LEVEL_MOST_ARGS], made[MOST_RESULTS];
    bool flows = flows_into((tp_jvp_level *)(void *)l, op, face), ran = false;
    tp_scope s;
    for (int i = 0; i < op->result_count; i++)
        made[i] = tp_none();
    if (!tp_level_map_values(l, tp_level_unwrap, face, op->arg_count, inner))
        return false;
    memcpy(primal, inner, op->arg_count * sizeof *inner);
    tp_scope_start(&s);
    for (int i = 0; i < op->arg_count && flows; i++)
        (void)gather(&s, l, face[i], &tangent[i]);
    if (flows && op->variant == TP_INPLACE && op->gradient->jvp != tp_jvp_linear)    /* the formula reads what is about to be overwritten */
        primal[0] = tp_rule_call(&s, &tp_op_clone, 1, inner);
    bool ok = !s.failed && (ran = tp_mount_next(&l->mount, op, inner, result)) && (!flows || op->gradient->jvp(formula_of(op), primal, tangent, result, made));
    for (int i = 0; ok && i < op->result_count; i++)
        ok = give(&s, l, op, face, op->gradient->nondifferentiable_results >> i & 1 ? tp_none() : made[i], &result[i]);
    tp_values_unref(made, op->result_count);
    tp_values_unref(inner, op->arg_count);
    s.failed |= !ok;
    ok = tp_scope_end(&s);
    return ok || (ran && tp_call_take_back(op, result));
}

static bool level_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_jvp_level *j = (tp_jvp_level *)(void *)m;
    tp_level *l = &j->level;
    bool mine = j->closed;
    for (int i = 0; i < op->arg_count && !mine; i++)
        mine = meets_wrapper(l, arg[i]);
    if (!mine)
        return tp_mount_next(m, op, arg, result);
    bool flows = flows_into(j, op, arg);
    if (op->open && (op->kind == TP_LIKE_COMPOSITE || (flows && !op->gradient->jvp && op->variant != TP_OUT)))
        return tp_level_open(l, op, arg, result);
    if (flows && !op->gradient->jvp)
        return refuse(op);
    if (!j->closed)
        return convert_arguments(l, op, arg, flows) && tp_level_tape(l, below, op, arg, result);
    tp_value faces[TP_LEVEL_MOST_ARGS];
    if (!tp_level_check_written(l, op, arg) || !tp_level_map_values(l, wrap, arg, op->arg_count, faces))
        return false;
    bool ok = tp_level_tape(l, below, op, faces, result);
    tp_values_unref(faces, op->arg_count);
    return ok;
}

/* ---- levels ---- */
tp_jvp_level *tp_jvp_level_new(bool closed)
{
    tp_jvp_level *j = tp_alloc_zero(sizeof *j);
    if (j) {
        tp_level_init(&j->level, level_call);
        j->closed = closed;
    }
    return j;
}

void tp_jvp_level_free(tp_jvp_level *j)
{
    tp_free(j);
}

void tp_jvp_level_enter(tp_jvp_level *j)
{
    tp_level_enter(&j->level);
    if (!j->closed)
        tp_self.dual_level = &j->level.mount;
}

void tp_jvp_level_leave(tp_jvp_level *j)
{
    tp_level_leave(&j->level);
    if (!j->closed)
        tp_self.dual_level = NULL;
}

tp_jvp_level *tp_jvp_level_of(const tp_tensor *t)
{
    for (tp_mount *m = tp_self.transforms; m; m = m->outer)
        if (m->call == level_call && has_tangent((tp_level *)(void *)m, t))
            return (tp_jvp_level *)(void *)m;
    return NULL;
}

tp_jvp_level *tp_jvp_level_open(void)
{
    return (tp_jvp_level *)(void *)tp_self.dual_level;
}

bool tp_inside_transform(void)
{
    for (tp_mount *m = tp_self.transforms; m; m = m->outer)
        if (m != tp_self.dual_level)
            return true;
    return false;
}

bool tp_jvp_level_pause(tp_jvp_level *j, bool paused)
{
    bool before = j->paused;
    j->paused = paused;
    return before;
}

/* ---- from outside a call ---- */

/* Work on inner tensors and tangents happens under the level, which may be entered meanwhile. */
typedef struct aside {
    tp_mount *transforms;
    uint32_t  active;
} aside;

static aside step_under(const tp_jvp_level *j)
{
    aside a = { tp_self.transforms, tp_self.active };
    for (const tp_mount *m = tp_self.transforms; m; m = m->outer)
        if (m == &j->level.mount) {
            tp_self.transforms = m->outer;
            if (!m->outer)
                tp_self.active &= ~TP_LAYER_BIT(TP_LAYER_TRANSFORM);
        }
    return a;
}

static bool step_back(aside a, tp_scope *s)
{
    bool ok = tp_scope_end(s);
    tp_self.transforms = a.transforms;
    tp_self.active = a.active;
    return ok;
}

static bool fits(const tp_tensor *primal, const tp_tensor *tangent)
{
    tp_text a = { 0 }, b = { 0 };
    if (same_sizes(primal, tangent))
        return true;
    tp_text_add_sizes(&a, primal->ndim, primal->size);
    tp_text_add_sizes(&b, tangent->ndim, tangent->size);
    tp_fail(TP_ERR_RUNTIME, "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. "
            "Tensor is of size %s while the given forward gradient is of size %s.", tp_text_read(&a), tp_text_read(&b));
    tp_text_fini(&a);
    tp_text_fini(&b);
    return false;
}

/* Takes the face; NULL after an error. */
static tp_tensor *with_tangent(tp_jvp_level *j, tp_tensor *face, tp_tensor *primal, tp_tensor *tangent)
{
    tp_scope s;
    if (!face || !tangent)
        return face;
    aside a = step_under(j);
    tp_scope_start(&s);
    put_tangent(&s, tp_wrapped_at(&j->level, face), adopted(&s, primal, tp_of_tensor(tangent)));
    if (step_back(a, &s))
        return face;
    tp_tensor_unref(face);
    return NULL;
}

tp_tensor *tp_jvp_level_wrap(tp_jvp_level *j, tp_tensor *primal, tp_tensor *tangent)
{
    return tangent && !fits(primal, tangent) ? NULL : with_tangent(j, wrap(&j->level, primal), primal, tangent);
}

tp_tensor *tp_jvp_level_dual(tp_jvp_level *j, tp_tensor *primal, tp_tensor *tangent)
{
    tp_tensor *plain = tp_level_unwrap(&j->level, primal), *dual = NULL;
    tp_value pair[2] = { tp_of_tensor(plain), tp_of_tensor(plain) }, face, inner;
    if (fits(plain, tangent) && tp_call(&tp_op_view_as, pair, &face)) {
        if (tp_call(&tp_op_view_as, pair, &inner)) {
            dual = with_tangent(j, tp_level_wrap(&j->level, TP_ESCAPED_ITSELF, tp_tensor_ref(face.tensor), inner.tensor, NULL), inner.tensor, tangent);
            tp_value_unref(inner);
        }
        tp_value_unref(face);
    }
    tp_tensor_unref(plain);
    return dual;
}

tp_tensor *tp_jvp_level_unwrap(const tp_jvp_level *j, tp_tensor *t)
{
    return tp_level_unwrap(&j->level, t);
}

bool tp_jvp_level_tangent(tp_jvp_level *j, tp_tensor *t, tp_tensor **tangent)
{
    tp_scope s;
    *tangent = NULL;
    if (base_of(&j->level, t) && !convert(&j->level, t))
        return false;
    tp_wrapped *w = tp_wrapped_at(&j->level, t);
    aside a = step_under(j);
    tp_scope_start(&s);
    tp_value found = w ? tangent_of(&s, &j->level, w) : tp_none();
    *tangent = found.tag == TP_TENSOR ? tp_tensor_ref(found.tensor) : NULL;
    return step_back(a, &s);
}

bool tp_jvp_level_set_tangent(tp_jvp_level *j, tp_tensor *t, tp_tensor *tangent)
{
    tp_scope s;
    if (!fits(t, tangent) || !convert(&j->level, t))
        return false;
    aside a = step_under(j);
    tp_scope_start(&s);
    write_tangent(&s, &j->level, tp_wrapped_at(&j->level, t), tp_of_tensor(tangent));
    return step_back(a, &s);
}
