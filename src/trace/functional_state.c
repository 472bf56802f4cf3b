/* functional_state.c - states, views of them, and writes that become new values. */
#include "trace/functional_state.h"

#include <string.h>

#include "gen/ops.h"
#include "grad/tape.h"
#include "ops/run.h"
#include "trace/fake.h"

/* What all views of one base share. */
struct tp_functional_state {
    tp_count   refs;
    tp_tensor *value;           /* counted: the base as it is now */
    uint64_t   generation;      /* raised by every write */
    uint32_t   writes, hidden, no_grad;
    uint32_t   depth;           /* of functions (torch.cond's branches) that were being traced when it was made */
};

/* One view on the way from a state to a wrapper. */
struct tp_functional_step {
    tp_count     refs;
    struct tp_functional_step *before;      /* counted, may be NULL: nearer to the base */
    const tp_op *op;
    int64_t      index;         /* of a list of results; -1: the only one */
    bool         hides;         /* this or an earlier one detaches */
    tp_value     arg[];         /* op->arg_count, owned; the first is none */
};

typedef struct tp_functional_state state;
typedef struct tp_functional_step step;
typedef tp_functional_wrapper looker;

enum { MOST_ARGS = 64, MOST_RESULTS = 64 };

/* ---- owners ---- */
static void state_unref(state *s)
{
    if (s && tp_count_down(&s->refs)) {
        tp_tensor_unref(s->value);
        tp_free(s);
    }
}

static step *step_ref(step *s)
{
    if (s)
        tp_count_up(&s->refs);
    return s;
}

static void step_unref(step *s)
{
    while (s && tp_count_down(&s->refs)) {
        step *before = s->before;
        tp_values_unref(s->arg, s->op->arg_count);
        tp_free(s);
        s = before;
    }
}

static void functional_free(void *self)
{
    looker *w = self;
    state_unref(w->state);
    step_unref(w->view);
    tp_tensor_unref(w->value);
    tp_free(w);
}

/* A silent alias of a wrapper (a saved result, .data) looks where it looks. */
static void *functional_copy(const void *self)
{
    const looker *from = self;
    looker *w = tp_alloc(sizeof *w);
    if (!w)
        return NULL;
    *w = *from;
    tp_count_up(&w->state->refs);
    step_ref(w->view);
    tp_tensor_ref(w->value);
    return w;
}

tp_functional_wrapper *tp_functional_of(const tp_tensor *t)
{
    looker *w = t->extra;
    return w && w->attached.free == functional_free ? w : NULL;
}

bool tp_is_functional(const tp_functional *f, const tp_tensor *t)
{
    const looker *w = tp_functional_of(t);
    return w && w->owner == f->id;
}

/* ---- making wrappers ---- */

/* Takes the counts of state and view, also when it fails. The face is a fake tensor, in the storage of `beside` if given. */
static tp_tensor *new_wrapper(const tp_functional *f, state *s, step *view, tp_tensor *value, const tp_tensor *beside)
{
    looker *w = s ? tp_alloc(sizeof *w) : NULL;
    tp_tensor *face = w ? tp_fake_beside(value, beside) : NULL;
    if (!face) {
        tp_free(w);
        state_unref(s);
        step_unref(view);
        return NULL;
    }
    *w = (looker){ .attached = { functional_free, functional_copy }, .owner = f->id, .state = s, .view = view,
                       .value = tp_tensor_ref(value), .generation = s->generation };
    face->extra = w;
    return face;
}

tp_tensor *tp_functional_wrap(tp_functional *f, tp_tensor *value)
{
    state *s = tp_alloc_zero(sizeof *s);
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    s->depth = f->depth;
    s->value = tp_tensor_ref(value);
    return new_wrapper(f, s, NULL, value, NULL);
}

bool tp_functional_detaches(const tp_op *op)
{
    return !op->differentiable;
}

static step *step_new(step *before, const tp_op *op, const tp_value *arg, int64_t index)
{
    step *s = tp_alloc(sizeof *s + op->arg_count * sizeof *s->arg);
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    s->op = op;
    s->index = index;
    s->before = step_ref(before);
    s->hides = tp_functional_detaches(op) || (before && before->hides);
    s->arg[0] = tp_none();
    for (int i = 1; i < op->arg_count; i++) {
        s->arg[i] = tp_value_ref(arg[i]);
        if (s->arg[i].tag != arg[i].tag) {
            for (i++; i < op->arg_count; i++)
                s->arg[i] = tp_none();
            step_unref(s);
            return NULL;
        }
    }
    return s;
}

/* ---- views there and back ---- */
static tp_tensor *look(const step *s, tp_tensor *at)
{
    tp_value arg[MOST_ARGS], result[MOST_RESULTS];
    tp_tensor *seen = NULL;
    memcpy(arg, s->arg, s->op->arg_count * sizeof *arg);
    arg[0] = tp_of_tensor(at);
    if (!tp_call(s->op, arg, result))
        return NULL;
    tp_value one = s->index < 0 || result[0].tag != TP_LIST ? result[0] : s->index < result[0].list->count ? result[0].list->item[s->index] : tp_none();
    if (one.tag == TP_TENSOR)
        seen = tp_tensor_ref(one.tensor);
    else
        (void)tp_fail(TP_ERR_RUNTIME, "functionalize: %s gives fewer views than it did", s->op->name);
    tp_values_unref(result, s->op->result_count);
    return seen;
}

static tp_tensor *look_from_base(const step *s, tp_tensor *base)
{
    if (!s)
        return tp_tensor_ref(base);
    tp_tensor *at = look_from_base(s->before, base), *seen = at ? look(s, at) : NULL;
    tp_tensor_unref(at);
    return seen;
}

/* `base` as it is when `fresh` stands where the view looks. */
static tp_tensor *put_back(const step *s, tp_tensor *base, tp_tensor *fresh)
{
    tp_value arg[MOST_ARGS], out = tp_none();
    char name[128];
    if (!s->op->rare->inverse) {
        if (tp_functional_detaches(s->op))
            return tp_tensor_ref(fresh);
        return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: a write through %s, which has no inverse", tp_op_full_name(s->op, name));
    }
    memcpy(arg, s->arg, s->op->arg_count * sizeof *arg);
    arg[0] = tp_of_tensor(base);
    return s->op->rare->inverse(s->op, arg, base, fresh, s->index < 0 ? 0 : s->index, &out) ? tp_as_tensor(out) : NULL;
}

/* The new base after `fresh` was written through a chain of views: all but the last are looked through again, base first,
 * then each takes the new value back. */
static tp_tensor *base_after(const step *view, tp_tensor *base, tp_tensor *fresh)
{
    tp_array(const step *) steps = { 0 };
    tp_array(tp_tensor *) at = { 0 };
    bool ok = true;
    for (const step *s = view; s && ok; s = s->before)
        ok = tp_array_push(&steps, s);
    ok = ok && tp_array_reserve(&at, steps.count + 1);
    if (ok)
        at.item[at.count++] = tp_tensor_ref(base);
    for (size_t i = steps.count; ok && i-- > 1;) {      /* steps are nearest to the wrapper first */
        tp_tensor *next = look(steps.item[i], at.item[at.count - 1]);
        if ((ok = next != NULL))
            at.item[at.count++] = next;
    }
    tp_tensor *now = ok ? tp_tensor_ref(fresh) : NULL;
    for (size_t i = 0; now && i < steps.count; i++) {
        tp_tensor *nearer = put_back(steps.item[i], at.item[steps.count - 1 - i], now);
        tp_tensor_unref(now);
        now = nearer;
    }
    for (size_t i = 0; i < at.count; i++)
        tp_tensor_unref(at.item[i]);
    tp_array_fini(&at);
    tp_array_fini(&steps);
    return now;
}

static void set_value(looker *w, tp_tensor *taken)
{
    tp_tensor *old = w->value;
    w->value = taken;
    w->generation = w->state->generation;
    tp_tensor_unref(old);
}

tp_tensor *tp_functional_current(tp_functional *f, looker *w)
{
    if (w->generation == w->state->generation)
        return w->value;
    tp_tensor *seen = look_from_base(w->view, w->state->value);
    if (!seen)
        return NULL;
    if (w->state->depth >= f->depth) {
        set_value(w, seen);
        return seen;
    }
    if (tp_array_push(&f->held, seen))
        return seen;
    tp_tensor_unref(seen);
    return NULL;
}

/* ---- writing ---- */

/* A new value has the type of what it is written into. */
static tp_tensor *fitted(const tp_tensor *face, tp_tensor *taken)
{
    if (!taken || taken->dtype == face->dtype)
        return taken;
    tp_value arg[MOST_ARGS], out;
    const tp_op *op = &tp_op__to_copy;
    bool ok = tp_check_castable((tp_dtype)taken->dtype, (tp_dtype)face->dtype);
    for (int i = 0; i < op->arg_count; i++)
        arg[i] = tp_arg_default(&op->arg[i]);
    arg[0] = tp_of_tensor(taken);
    arg[1] = tp_of_dtype((tp_dtype)face->dtype);
    arg[2] = (tp_value){ .tag = TP_LAYOUT };
    ok = ok && tp_call(op, arg, &out);
    tp_tensor_unref(taken);
    return ok ? tp_as_tensor(out) : NULL;
}

bool tp_functional_write(tp_functional *f, tp_tensor *face, tp_tensor *taken)
{
    looker *w = tp_functional_of(face);
    /* Gradients would flow as if nobody had written; the new value, made without, has none to give. */
    if (f->mount.layer == TP_LAYER_TRACE_P && (!tp_self.grad_mode || tp_self.inference_mode) && tp_requires_grad(w->state->value))
        return tp_fail(TP_ERR_UNIMPLEMENTED, "a graph of a program that writes, with gradients off, to a tensor that has them is not implemented "
                       "in Taper yet");
    tp_tensor *fresh = fitted(face, taken);
    if (!fresh)
        return false;
    tp_tensor *base = base_after(w->view, w->state->value, fresh), *old = w->state->value;
    if (!base) {
        tp_tensor_unref(fresh);
        return false;
    }
    state *s = w->state;
    bool hidden = w->view && w->view->hides;
    s->value = base;
    s->generation++;
    s->writes++;
    s->hidden += hidden;
    s->no_grad += hidden || !tp_self.grad_mode || tp_self.inference_mode;
    tp_tensor_unref(old);
    if (w->view) {              /* it looks at the new base, as every other view will */
        tp_tensor_unref(fresh);
        return tp_functional_current(f, w) != NULL;
    }
    set_value(w, fresh);
    return true;
}

/* ---- what wrappers do ---- */
tp_tensor *tp_functional_wrap_view(const tp_functional *f, tp_tensor *of, const tp_op *op, const tp_value *arg, int64_t index, tp_tensor *value)
{
    looker *w = tp_functional_of(of);
    step *s = step_new(w->view, op, arg, index);
    if (!s)
        return NULL;
    tp_count_up(&w->state->refs);
    tp_tensor *view = new_wrapper(f, w->state, s, value, of);
    if (view)                   /* of a state that was written it counts as stale: PyTorch's graphs have such views twice */
        tp_functional_of(view)->generation = 0;
    return view;
}

bool tp_functional_look_on(tp_tensor *face, const tp_op *op, const tp_value *arg, tp_tensor *taken)
{
    looker *w = tp_functional_of(face);
    step *s = step_new(w->view, op, arg, -1);
    if (!s || !tp_fake_take_geometry(face, taken)) {
        step_unref(s);
        tp_tensor_unref(taken);
        return false;
    }
    step_unref(w->view);
    w->view = s;
    w->metadata = true;
    set_value(w, taken);
    return true;
}

bool tp_functional_look_elsewhere(tp_functional *f, tp_tensor *face, const tp_tensor *where)
{
    looker *w = tp_functional_of(face), *from = tp_functional_of(where);
    tp_tensor *value = tp_functional_current(f, from);
    if (!value || !tp_fake_take_geometry(face, value))
        return false;
    tp_count_up(&from->state->refs);
    state_unref(w->state);
    w->state = from->state;
    step *old = w->view;
    w->view = step_ref(from->view);
    step_unref(old);
    w->storage = true;
    set_value(w, tp_tensor_ref(value));
    return true;
}

/* ---- asking ---- */
tp_tensor *tp_functional_value(tp_functional *f, tp_tensor *t)
{
    tp_tensor *value = tp_is_functional(f, t) ? tp_functional_current(f, tp_functional_of(t)) : t;
    return value ? tp_tensor_ref(value) : NULL;
}

bool tp_functional_unwrap(tp_functional *f, tp_value v, tp_value *out)
{
    *out = tp_none();
    if (v.tag == TP_TENSOR) {
        tp_tensor *t = tp_functional_value(f, v.tensor);
        *out = tp_of_tensor(t);
        return t != NULL;
    }
    if (v.tag < TP_LIST || v.tag > TP_SLICE) {
        *out = tp_value_ref(v);
        return out->tag == v.tag;
    }
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++)
        ok = tp_functional_unwrap(f, v.list->item[i], &l->item[i]);
    if (ok)
        *out = (tp_value){ .tag = v.tag, .list = l };
    else if (l)
        tp_value_unref(tp_of_list(l));
    return ok;
}

uint32_t tp_functional_depth(const tp_tensor *wrapper)
{
    return tp_functional_of(wrapper)->state->depth;
}

tp_functional_changes tp_functional_changes_of(const tp_functional *f, const tp_tensor *wrapper)
{
    const looker *w = tp_functional_of(wrapper);
    if (!w || w->owner != f->id)
        return (tp_functional_changes){ 0 };
    const state *s = w->state;
    return (tp_functional_changes){ .data = s->writes > 0, .metadata = w->metadata, .storage = w->storage,
                                    .hidden = s->writes && s->hidden == s->writes, .no_grad = s->writes && s->no_grad == s->writes };
}

bool tp_functional_share(const tp_tensor *a, const tp_tensor *b)
{
    const looker *x = tp_functional_of(a), *y = tp_functional_of(b);
    return x && y && x->state == y->state;
}

static bool visit_views(const step *s, tp_functional_visit *visit, void *user, size_t *count)
{
    if (!s)
        return true;
    if (!visit_views(s->before, visit, user, count))
        return false;
    ++*count;
    return !visit || visit(s->op, s->arg, s->index, user);
}

size_t tp_functional_each_view(const tp_tensor *wrapper, tp_functional_visit *visit, void *user)
{
    const looker *w = tp_functional_of(wrapper);
    size_t count = 0;
    if (w)
        (void)visit_views(w->view, visit, user, &count);
    return count;
}
