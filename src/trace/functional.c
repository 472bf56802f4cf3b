/* functional.c - states, views of them, and writes that become new values. */
#include "trace/functional_graphs.h"

#include <string.h>

#include "gen/ops.h"
#include "trace/fake.h"

/* What all views of one base share. */
typedef struct state {
    tp_count   refs;
    tp_tensor *value;           /* counted: the base as it is now */
    uint64_t   generation;      /* raised by every write */
    uint32_t   writes, hidden, no_grad;
    uint32_t   depth;           /* of functions (torch.cond's branches) that were being traced when it was made */
} state;

/* One view on the way from a state to a wrapper. */
typedef struct step {
    tp_count     refs;
    struct step *before;        /* counted, may be NULL: nearer to the base */
    const tp_op *op;
    int64_t      index;         /* of a list of results; -1: the only one */
    bool         hides;         /* this or an earlier one detaches */
    tp_value     arg[];         /* op->arg_count, owned; the first is none */
} step;

typedef struct functional {     /* tp_tensor.extra of a wrapper */
    tp_attached attached;
    uint64_t    owner;          /* id of its functionaliser */
    state      *state;          /* counted */
    step       *view;           /* counted, may be NULL: the base itself */
    tp_tensor  *value;          /* counted: what it showed at `generation` */
    uint64_t    generation;
    bool        metadata, storage;
} functional;

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
    functional *w = self;
    state_unref(w->state);
    step_unref(w->view);
    tp_tensor_unref(w->value);
    tp_free(w);
}

/* A silent alias of a wrapper (a saved result, .data) looks where it looks. */
static void *functional_copy(const void *self)
{
    const functional *from = self;
    functional *w = tp_alloc(sizeof *w);
    if (!w)
        return NULL;
    *w = *from;
    tp_count_up(&w->state->refs);
    step_ref(w->view);
    tp_tensor_ref(w->value);
    return w;
}

static functional *functional_of(const tp_tensor *t)
{
    functional *w = t->extra;
    return w && w->attached.free == functional_free ? w : NULL;
}

bool tp_is_functional(const tp_functional *f, const tp_tensor *t)
{
    const functional *w = functional_of(t);
    return w && w->owner == f->id;
}

/* ---- making wrappers ---- */

/* Takes the counts of state and view, also when it fails. The face is a fake tensor, in the storage of `beside` if given. */
static tp_tensor *wrapper_new(const tp_functional *f, state *s, step *view, tp_tensor *value, const tp_tensor *beside)
{
    functional *w = s ? tp_alloc(sizeof *w) : NULL;
    tp_tensor *face = w ? tp_fake_beside(value, beside) : NULL;
    if (!face) {
        tp_free(w);
        state_unref(s);
        step_unref(view);
        return NULL;
    }
    *w = (functional){ .attached = { functional_free, functional_copy }, .owner = f->id, .state = s, .view = view,
                       .value = tp_tensor_ref(value), .generation = s->generation };
    face->extra = w;
    return face;
}

static tp_tensor *wrap_fresh(const tp_functional *f, tp_tensor *value)
{
    state *s = tp_alloc_zero(sizeof *s);
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    s->depth = f->depth;
    s->value = tp_tensor_ref(value);
    return wrapper_new(f, s, NULL, value, NULL);
}

tp_tensor *tp_functional_wrap(tp_functional *f, tp_tensor *value)
{
    return wrap_fresh(f, value);
}

/* A detached view hides writes from autograd. */
static bool detaches(const tp_op *op)
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
    s->hides = detaches(op) || (before && before->hides);
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
        if (detaches(s->op))
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

static void set_value(functional *w, tp_tensor *taken)
{
    tp_tensor *old = w->value;
    w->value = taken;
    w->generation = w->state->generation;
    tp_tensor_unref(old);
}

/* The value of a wrapper, borrowed from it; made again when its state was written since. One that is made inside a function is
 * not known outside: it goes when the function ends. */
static tp_tensor *current(tp_functional *f, functional *w)
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
    bool ok = tp_dtype_can_cast((tp_dtype)taken->dtype, (tp_dtype)face->dtype);
    if (!ok)
        (void)tp_fail(TP_ERR_RUNTIME, "result type %s can't be cast to the desired output type %s", tp_dtypes[taken->dtype].title,
                      tp_dtypes[face->dtype].title);
    for (int i = 0; i < op->arg_count; i++)
        arg[i] = tp_arg_default(&op->arg[i]);
    arg[0] = tp_of_tensor(taken);
    arg[1] = tp_of_dtype((tp_dtype)face->dtype);
    arg[2] = (tp_value){ .tag = TP_LAYOUT };
    ok = ok && tp_call(op, arg, &out);
    tp_tensor_unref(taken);
    return ok ? tp_as_tensor(out) : NULL;
}

/* The wrapper's elements are `fresh` from now on; its state and all other views follow. */
static bool write_value(tp_functional *f, tp_tensor *face, tp_tensor *taken)
{
    functional *w = functional_of(face);
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
        return current(f, w) != NULL;
    }
    set_value(w, fresh);
    return true;
}

/* ---- the arguments of a call ---- */
typedef struct call {
    tp_functional *f;
    tp_value arg[MOST_ARGS];    /* lists among them are owned */
    bool     any;               /* some argument is a wrapper */
} call;

static bool unwrap_value(tp_functional *f, tp_value v, tp_value *out, bool *any)
{
    *out = v;
    if (v.tag == TP_TENSOR && tp_is_functional(f, v.tensor)) {
        *out = tp_of_tensor(current(f, functional_of(v.tensor)));
        *any = true;
        return out->tag == TP_TENSOR;
    }
    bool tensors = false;
    for (uint32_t i = 0; v.tag == TP_LIST && i < v.list->count; i++)
        tensors |= v.list->item[i].tag == TP_TENSOR;
    if (!tensors)
        return true;
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++) {
        tp_value one;
        if ((ok = unwrap_value(f, v.list->item[i], &one, any)))
            l->item[i] = tp_value_ref(one);
    }
    *out = ok ? tp_of_list(l) : tp_none();
    if (!ok && l)
        tp_value_unref(tp_of_list(l));
    return ok;
}

static void call_fini(call *c, const tp_value *given, int count)
{
    for (int i = 0; i < count; i++)
        if (c->arg[i].tag == TP_LIST && c->arg[i].list != given[i].list)
            tp_value_unref(c->arg[i]);
}

static bool call_init(call *c, tp_functional *f, const tp_value *given, int count)
{
    c->f = f;
    c->any = false;
    for (int i = 0; i < count; i++)
        if (!unwrap_value(f, given[i], &c->arg[i], &c->any)) {
            call_fini(c, given, i);
            return false;
        }
    return true;
}

/* ---- results ---- */

/* The wrapper an op handed through, if it did. */
static tp_tensor *handed_through(const call *c, const tp_value *given, int count, const tp_tensor *value)
{
    for (int i = 0; i < count; i++)
        if (given[i].tag == TP_TENSOR && c->arg[i].tag == TP_TENSOR && c->arg[i].tensor == value && given[i].tensor != value)
            return tp_tensor_ref(given[i].tensor);
    return NULL;
}

static bool wrap_result(const call *c, const tp_value *given, int count, tp_value *v)
{
    if (v->tag == TP_TENSOR) {
        tp_tensor *w = handed_through(c, given, count, v->tensor);
        if (!w && !(w = wrap_fresh(c->f, v->tensor)))
            return false;
        tp_tensor_unref(v->tensor);
        v->tensor = w;
    }
    for (uint32_t i = 0; i < tp_length(*v); i++)
        if (!wrap_result(c, given, count, &v->list->item[i]))
            return false;
    return true;
}

/* ---- kinds of calls ---- */
static bool call_plain(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    call c;
    if (!call_init(&c, (tp_functional *)(void *)m, given, op->arg_count))
        return false;
    bool ok = tp_mount_next(m, op, c.arg, result);
    if (ok)
        for (int i = 0; ok && i < op->result_count; i++)
            ok = wrap_result(&c, given, op->arg_count, &result[i]) || tp_call_take_back(op, result);
    call_fini(&c, given, op->arg_count);
    return ok;
}

static tp_tensor *wrap_view(const tp_functional *f, tp_tensor *of, const tp_op *op, const tp_value *arg, int64_t index, tp_tensor *value)
{
    functional *w = functional_of(of);
    step *s = step_new(w->view, op, arg, index);
    if (!s)
        return NULL;
    tp_count_up(&w->state->refs);
    tp_tensor *view = wrapper_new(f, w->state, s, value, of);
    if (view)                   /* of a state that was written it counts as stale: PyTorch's graphs have such views twice */
        functional_of(view)->generation = 0;
    return view;
}

static bool call_view(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    tp_functional *f = (tp_functional *)(void *)m;
    tp_tensor *of = given[0].tensor;
    tp_value arg[MOST_ARGS];
    memcpy(arg, given, op->arg_count * sizeof *arg);
    /* Stale or not: a view of a written state is looked at anew when it is used. One that t_ and the like changed is brought up to
     * date first; graphs of PyTorch tell. */
    functional *seen = functional_of(of);
    arg[0] = tp_of_tensor(seen->metadata ? current(f, seen) : seen->value);
    if (arg[0].tag != TP_TENSOR || !tp_mount_next(m, op, arg, result))
        return false;
    /* The detach of a program is three in PyTorch's graphs of mid 2024. */
    for (int i = 0; i < 2 && detaches(op) && m->layer == TP_LAYER_TRACE_R && !tp_self.saving; i++) {
        tp_value once = result[0];
        arg[0] = once;
        bool ok = tp_mount_next(m, op, arg, result);
        tp_value_unref(once);
        if (!ok)
            return false;
    }
    bool list = result[0].tag == TP_LIST;
    uint32_t count = list ? result[0].list->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        tp_value *v = list ? &result[0].list->item[i] : &result[0];
        tp_tensor *w = wrap_view(f, of, op, arg, list ? (int64_t)i : -1, v->tensor);
        if (!w)
            return tp_call_take_back(op, result);
        tp_tensor_unref(v->tensor);
        v->tensor = w;
    }
    return true;
}

/* t_, squeeze_: the wrapper looks through one more view. */
static bool call_view_in_place(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    const tp_op *view = op->functional;
    tp_tensor *face = given[0].tensor;
    functional *w = functional_of(face);
    tp_value arg[MOST_ARGS], seen;
    memcpy(arg, given, op->arg_count * sizeof *arg);
    arg[0] = tp_of_tensor(current((tp_functional *)(void *)m, w));
    step *s = arg[0].tag == TP_TENSOR ? step_new(w->view, view, arg, -1) : NULL;
    if (!s || !tp_mount_next(m, view, arg, &seen)) {
        step_unref(s);
        return false;
    }
    if (!tp_fake_take_geometry(face, seen.tensor)) {
        step_unref(s);
        tp_value_unref(seen);
        return false;
    }
    step_unref(w->view);
    w->view = s;
    w->metadata = true;
    set_value(w, seen.tensor);
    result[0] = tp_value_ref(given[0]);
    return true;
}

static bool call_set(tp_functional *f, const tp_op *op, const tp_value *given, tp_value *result)
{
    functional *w = functional_of(given[0].tensor), *from = given[1].tag == TP_TENSOR ? functional_of(given[1].tensor) : NULL;
    char name[128];
    if (!from || from->owner != w->owner)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s of a tensor that is not traced", tp_op_full_name(op, name));
    tp_tensor *value = current(f, from);
    if (!value || !tp_fake_take_geometry(given[0].tensor, value))
        return false;
    tp_count_up(&from->state->refs);
    state_unref(w->state);
    w->state = from->state;
    step *old = w->view;
    w->view = step_ref(from->view);
    step_unref(old);
    w->storage = true;
    set_value(w, tp_tensor_ref(value));
    result[0] = tp_value_ref(given[0]);
    return true;
}

static bool same_sizes(const tp_tensor *a, const tp_tensor *b)
{
    return a->ndim == b->ndim && memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) == 0;
}

/* The value of one written argument, or of the members of a list, taken from the result that stands for it. */
static bool write_result(tp_functional *f, const tp_op *op, tp_value to, tp_value *made)
{
    bool ok = true;
    for (uint32_t k = 0; made->tag == TP_LIST && ok && k < tp_length(*made); k++)
        ok = write_result(f, op, to.list->item[k], &made->list->item[k]);
    if (made->tag == TP_LIST)
        return ok;
    if (!same_sizes(to.tensor, made->tensor))
        return tp_fail(TP_ERR_RUNTIME, "%s: the result does not have the sizes of the tensor it is written into", op->name);
    tp_tensor *value = made->tensor;
    *made = tp_none();
    return write_value(f, to.tensor, value);
}

static bool call_in_place(tp_mount *m, const tp_op *op, const tp_op *plain, const tp_value *given, tp_value *result)
{
    call c;
    tp_value made[MOST_RESULTS];
    int next = 0;
    if (!call_init(&c, (tp_functional *)(void *)m, given, op->arg_count))
        return false;
    bool ok = tp_mount_next(m, plain, c.arg, made);
    call_fini(&c, given, op->arg_count);
    if (!ok)
        return false;
    for (int i = 0; ok && i < op->arg_count && next < plain->result_count; i++)
        if (op->arg[i].written)
            ok = write_result((tp_functional *)(void *)m, op, given[i], &made[next++]);
    tp_values_unref(made, plain->result_count);
    if (ok && op->result_count)
        result[0] = tp_value_ref(given[0]);
    return ok;
}

/* out=: the results become the values of the tensors given for them. */
static bool call_out(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    const tp_op *plain = op->functional;
    int first = op->arg_count - plain->result_count;
    call c;
    tp_value made[MOST_RESULTS];
    if (!call_init(&c, (tp_functional *)(void *)m, given, first))
        return false;
    bool ok = tp_mount_next(m, plain, c.arg, made);
    call_fini(&c, given, first);
    for (int i = 0; ok && i < plain->result_count; i++) {
        tp_tensor *face = given[first + i].tensor;
        tp_tensor *value = made[i].tensor;
        made[i] = tp_none();
        if (!same_sizes(face, value))
            ok = functional_of(face)->view ? tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s that changes the size of a view", op->name) != NULL
                                           : tp_fake_take_geometry(face, value);
        if (!ok)
            tp_tensor_unref(value);
        ok = ok && write_value((tp_functional *)(void *)m, face, value);
        if (!ok)
            tp_values_unref(made, plain->result_count);
    }
    for (int i = 0; ok && i < op->result_count; i++)
        result[i] = tp_value_ref(given[first + i]);
    return ok;
}

/* Batch norm in training writes its running statistics: its twin gives them as results. */
static bool call_twin(tp_mount *m, const tp_op *op, const tp_value *given, tp_value *result)
{
    const tp_op *twin = op->rare->functional_twin;
    call c;
    tp_value made[MOST_RESULTS];
    int next = 0;
    if (!call_init(&c, (tp_functional *)(void *)m, given, op->arg_count))
        return false;
    bool ok = tp_mount_next(m, twin, c.arg, made);
    for (int i = 0; ok && i < op->result_count; i++)
        ok = wrap_result(&c, given, op->arg_count, &made[i]) || tp_call_take_back(twin, made);
    call_fini(&c, given, op->arg_count);
    if (!ok)
        return false;
    for (int i = 0; i < op->arg_count; i++) {
        if (!(op->rare->hidden_writes >> i & 1) && !op->arg[i].written)
            continue;
        int at = op->rare->functional_map[next++ & 1];
        tp_tensor *value = made[at].tensor;
        made[at] = tp_none();
        if (!write_value((tp_functional *)(void *)m, given[i].tensor, value))
            return tp_call_take_back(twin, made);
    }
    memcpy(result, made, op->result_count * sizeof *result);
    return true;
}

/* ---- which kind ---- */

static bool same_arguments(const tp_op *a, const tp_op *b)
{
    bool same = a->arg_count == b->arg_count;
    for (int i = 0; same && i < a->arg_count; i++)
        same = a->arg[i].type == b->arg[i].type && a->arg[i].list == b->arg[i].list;
    return same;
}

/* The op that gives what this one writes: its variant, or else an op of its own entry, bernoulli.p of bernoulli_.float. */
static const tp_op *variant_of(const tp_op *op)
{
    char name[96];
    size_t length = strlen(op->name);
    const tp_op *const *all;
    if (op->functional || op->variant != TP_INPLACE || length < 2 || length >= sizeof name || op->name[length - 1] != '_')
        return op->functional;
    memcpy(name, op->name, length - 1);
    name[length - 1] = 0;
    for (size_t i = 0, count = tp_op_overloads(op->space, name, &all); i < count; i++)
        if (all[i]->variant == TP_FUNCTIONAL && same_arguments(op, all[i]))
            return all[i];
    return NULL;
}

static bool is_wrapper(const tp_functional *f, tp_value v)
{
    return v.tag == TP_TENSOR && tp_is_functional(f, v.tensor);
}

static bool any_wrapper(const tp_functional *f, tp_value v)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (any_wrapper(f, v.list->item[i]))
            return true;
    return is_wrapper(f, v);
}

/* Written arguments must be wrappers, unless nothing of the call is. 1: they are; 0: nothing is; -1: mixed. */
static int check_written(const tp_functional *f, const tp_op *op, const tp_value *arg)
{
    bool outside = false, any = false;
    for (int i = 0; i < op->arg_count; i++) {
        any |= any_wrapper(f, arg[i]);
        outside |= op->arg[i].written && arg[i].tag == TP_TENSOR && !is_wrapper(f, arg[i]);
    }
    if (!outside)
        return 1;
    if (!any)
        return 0;
    (void)tp_fail(TP_ERR_RUNTIME, "mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of your inputs "
                  "are wrapped inside of a functionalize() call.");
    return -1;
}

static bool writes(const tp_op *op)
{
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].written)
            return true;
    return false;
}

/* Of an op that writes in training only: is this that? */
static bool in_training(const tp_op *op, const tp_value *arg)
{
    int training = tp_op_arg_index(op, "training");
    return training < 0 || tp_as_bool(arg[training]);
}

static bool trains(const tp_functional *f, const tp_op *op, const tp_value *arg)
{
    if (!op->rare->functional_twin || !in_training(op, arg))
        return false;
    for (int i = 0; i < op->arg_count; i++)
        if (((op->rare->hidden_writes >> i & 1) || op->arg[i].written) && !is_wrapper(f, arg[i]))
            return false;
    return true;
}

static bool opens(const tp_mount *m, const tp_op *op)
{
    if (op->kind != TP_LIKE_COMPOSITE || !op->open || op->rare->graphs)
        return false;
    if (m->layer != TP_LAYER_TRACE_P || (op->flags & TP_OP_ALIAS_MAYBE) || op->rare->hidden_writes)
        return true;
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].alias || op->arg[i].written)
            return true;
    return false;
}

static bool open_here(const tp_op *op, const tp_value *arg, tp_value *result, void *user)
{
    (void)user;
    return tp_call_open(op, arg, result);
}

/* Does the op write a tensor from outside the function that is being traced? */
static bool writes_outside(const tp_functional *f, const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++)
        if ((op->arg[i].written || (op->rare->hidden_writes >> i & 1)) && is_wrapper(f, arg[i]) && functional_of(arg[i].tensor)->state->depth < f->depth)
            return true;
    return false;
}

static bool functional_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_functional *f = (tp_functional *)(void *)m;
    char name[128];
    if (op->rare->graphs)
        return tp_functional_graphs(f, op, arg, result);
    if (f->depth && writes_outside(f, op, arg))
        return tp_fail(TP_ERR_RUNTIME, "%s might be modifying the input!", f->function);
    if (opens(m, op))
        return tp_mount_reopen(m, open_here, op, arg, result, NULL);
    if (trains(f, op, arg))
        return call_twin(m, op, arg, result);
    if (writes(op) && (!op->rare->functional_twin || in_training(op, arg))) {
        int can = check_written(f, op, arg);
        if (can <= 0)
            return can == 0 && tp_mount_next(m, op, arg, result);
        if (op == &tp_op_set__source_Tensor)
            return call_set(f, op, arg, result);
        const tp_op *plain = variant_of(op);
        if (!plain || op->kind == TP_LIKE_METADATA)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "functionalize: %s has no functional variant", tp_op_full_name(op, name));
        if (op->variant == TP_OUT)
            return call_out(m, op, arg, result);
        if (plain->kind == TP_LIKE_VIEW)
            return call_view_in_place(m, op, arg, result);
        return call_in_place(m, op, plain, arg, result);
    }
    bool view = op->kind == TP_LIKE_VIEW && op->variant == TP_FUNCTIONAL && (op->rare->inverse || detaches(op));
    return view && is_wrapper(f, arg[0]) ? call_view(m, op, arg, result) : call_plain(m, op, arg, result);
}

/* ---- the functionaliser ---- */
tp_functional *tp_functional_new(void)
{
    tp_functional *f = tp_alloc_zero(sizeof *f);
    if (f) {
        f->mount.call = functional_call;
        f->mount.passes = true;
        f->id = atomic_fetch_add(&tp_the_runtime.sequence, 1);
    }
    return f;
}

void tp_functional_free(tp_functional *f)
{
    if (f)
        tp_array_fini(&f->held);
    tp_free(f);
}

void tp_functional_enter(tp_functional *f, tp_layer_id layer)
{
    tp_mount_push(&f->mount, layer);
}

void tp_functional_leave(tp_functional *f)
{
    tp_mount_pop(&f->mount);
}

tp_tensor *tp_functional_value(tp_functional *f, tp_tensor *t)
{
    tp_tensor *value = tp_is_functional(f, t) ? current(f, functional_of(t)) : t;
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
    return functional_of(wrapper)->state->depth;
}

tp_functional_changes tp_functional_changes_of(const tp_functional *f, const tp_tensor *wrapper)
{
    const functional *w = functional_of(wrapper);
    if (!w || w->owner != f->id)
        return (tp_functional_changes){ 0 };
    const state *s = w->state;
    return (tp_functional_changes){ .data = s->writes > 0, .metadata = w->metadata, .storage = w->storage,
                                    .hidden = s->writes && s->hidden == s->writes, .no_grad = s->writes && s->no_grad == s->writes };
}

bool tp_functional_share(const tp_tensor *a, const tp_tensor *b)
{
    const functional *x = functional_of(a), *y = functional_of(b);
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
    const functional *w = functional_of(wrapper);
    size_t count = 0;
    if (w)
        (void)visit_views(w->view, visit, user, &count);
    return count;
}
