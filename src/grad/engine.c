/* engine.c - runs nodes backwards: each when all gradients it waits for have come.
 *
 * First a walk from the roots counts how many gradients each node waits for (and, when inputs are asked for, marks the
 * nodes that lead to one). Then ready nodes run by falling sequence number, AccumulateGrad first, so that the order is that
 * of recording reversed, whatever the shape of the graph; joint-graph text depends on it. All bookkeeping is in this run's
 * own tables: several threads may run over one graph. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "grad/internal.h"
#include "ops/copy.h"
#include "ops/known.h"

typedef struct task {
    tp_grad_node *node;         /* borrowed: the roots hold the graph */
    int64_t   waiting;          /* gradients still to come */
    uint32_t  next_edge;        /* during the walk */
    bool      leads;            /* to something asked for; true of all when nothing was asked for */
    bool      begun;            /* as a root */
    uint32_t  captured;         /* the last input of the request that asks for one of its slots, plus one; 0: none */
    tp_value *buffer;           /* owned array of slot_count, made with the first gradient */
} task;

typedef struct run {
    const tp_backward_request *request;
    tp_map index;               /* node -> position in task */
    tp_array(task) task;
    tp_array(uint32_t) heap;    /* ready tasks, largest sequence on top */
    uint32_t *before;           /* owned, by input of the request: the one before it of the same task, as in `captured` */
    uint64_t  number;           /* of this run, never given twice */
} run;

/* ---- the walk ---- */

static bool find_or_add(run *r, tp_grad_node *n, uint32_t *at, bool *fresh)
{
    uint64_t found;
    *fresh = !tp_map_get(&r->index, (uintptr_t)n, &found);
    if (!*fresh) {
        *at = (uint32_t)found;
        return true;
    }
    *at = (uint32_t)r->task.count;
    task t = { .node = n };
    return tp_map_put(&r->index, (uintptr_t)n, *at) && tp_array_push(&r->task, t);
}

static bool mark_captured(run *r)
{
    size_t count = r->request->input_count;
    if (!(r->before = tp_alloc_array(count + 1, sizeof *r->before)))
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t at;
        if (r->request->input[i].node && tp_map_get(&r->index, (uintptr_t)r->request->input[i].node, &at)) {
            r->before[i] = r->task.item[at].captured;
            r->task.item[at].captured = (uint32_t)i + 1;
        }
    }
    return true;
}

/* Depth first with a stack of our own; `visit` sees every node after all that it leads to. */
static bool walk(run *r, bool (*enter)(run *, uint32_t task, uint32_t child), void (*leave)(run *, uint32_t task))
{
    tp_array(uint32_t) stack = { 0 };
    bool ok = true, fresh;
    for (size_t i = 0; ok && i < r->request->root_count; i++) {
        uint32_t at;
        ok = find_or_add(r, r->request->root[i].node, &at, &fresh);
        if (ok && fresh)
            ok = tp_array_push(&stack, at);
        while (ok && stack.count) {
            uint32_t top = stack.item[stack.count - 1];
            tp_grad_node *n = r->task.item[top].node;
            if (r->task.item[top].next_edge == n->edge_count) {
                if (leave)
                    leave(r, top);
                stack.count--;
                continue;
            }
            tp_grad_node *next = n->edge[r->task.item[top].next_edge++].node;
            if (!next)
                continue;
            uint32_t child;
            ok = find_or_add(r, next, &child, &fresh) && enter(r, top, child) && (!fresh || tp_array_push(&stack, child));
        }
    }
    tp_array_fini(&stack);
    return ok;
}

static bool count_gradient(run *r, uint32_t from, uint32_t child)
{
    (void)from;
    r->task.item[child].waiting++;
    return true;
}

/* A gradient is wanted by a node that is asked for itself or leads to one that is. */
static bool wanted(const task *t)
{
    return t->captured || t->leads;
}

/* `order` has every node after all it leads to. */
static void lead_upwards(run *r, const uint32_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        task *t = &r->task.item[order[i]];
        for (uint32_t e = 0; !t->leads && e < t->node->edge_count; e++) {
            uint64_t at;
            if (t->node->edge[e].node && tp_map_get(&r->index, (uintptr_t)t->node->edge[e].node, &at))
                t->leads = wanted(&r->task.item[at]);
        }
    }
}

static void note_order(run *r, uint32_t at)
{
    r->heap.item[r->heap.count++] = at;         /* the heap is still empty: its memory holds the order for a moment */
}

static bool keep_room(run *r, uint32_t from, uint32_t child)
{
    return count_gradient(r, from, child) && tp_array_reserve(&r->heap, r->task.count + 1);
}

static bool prepare(run *r)
{
    if (!tp_array_reserve(&r->heap, r->request->root_count + 1))
        return false;
    if (!r->request->input) {
        if (!walk(r, count_gradient, NULL))
            return false;
        for (size_t i = 0; i < r->task.count; i++)
            r->task.item[i].leads = true;
        return true;
    }
    if (!walk(r, keep_room, note_order) || !mark_captured(r))
        return false;
    lead_upwards(r, r->heap.item, r->heap.count);
    r->heap.count = 0;
    return true;
}

/* ---- ready nodes ---- */

static bool later(const run *r, uint32_t a, uint32_t b)
{
    return r->task.item[a].node->sequence > r->task.item[b].node->sequence;
}

static bool heap_push(run *r, uint32_t at)
{
    if (!tp_array_push(&r->heap, at))
        return false;
    uint32_t *h = r->heap.item;
    for (size_t i = r->heap.count - 1; i && later(r, h[i], h[(i - 1) / 2]); i = (i - 1) / 2) {
        uint32_t swap = h[i];
        h[i] = h[(i - 1) / 2];
        h[(i - 1) / 2] = swap;
    }
    return true;
}

static uint32_t heap_pop(run *r)
{
    uint32_t *h = r->heap.item, top = h[0];
    h[0] = h[--r->heap.count];
    for (size_t i = 0;;) {
        size_t best = i, left = 2 * i + 1;
        if (left < r->heap.count && later(r, h[left], h[best]))
            best = left;
        if (left + 1 < r->heap.count && later(r, h[left + 1], h[best]))
            best = left + 1;
        if (best == i)
            return top;
        uint32_t swap = h[i];
        h[i] = h[best];
        h[best] = swap;
        i = best;
    }
}

/* ---- gradients on their way ---- */

static bool same_sizes(const tp_slot *s, const tp_tensor *t)
{
    return t->ndim == s->ndim && memcmp(t->size, s->size, s->ndim * sizeof *s->size) == 0;
}

/* Sums a broadcast gradient back: leading dims away, stretched dims to one. */
static bool sum_to(const tp_slot *s, tp_value g, tp_value *out)
{
    const tp_tensor *t = g.tensor;
    int64_t dims[TP_MAX_DIMS];
    int lead = t->ndim - s->ndim, n = 0;
    for (int i = 0; i < t->ndim; i++)
        if (i < lead || (s->size[i - lead] == 1 && t->size[i] != 1))
            dims[n++] = i;
    tp_value list = tp_value_ints(dims, (size_t)n), wanted = s->symbolic.tag == TP_LIST ? tp_value_ref(s->symbolic) : tp_value_ints(s->size, s->ndim);
    tp_value arg[4] = { g, list, tp_bool(true), tp_none() }, summed = tp_none();
    bool ok = list.tag == TP_LIST && wanted.tag == TP_LIST;
    if (ok && n == 0)
        summed = tp_value_ref(g);
    else
        ok = ok && tp_call(&tp_op_sum_dim_IntList, arg, &summed);
    if (ok && lead > 0) {
        tp_value view[2] = { summed, wanted };
        ok = tp_call(&tp_op_view, view, out);
        tp_value_unref(summed);
    } else if (ok) {
        *out = summed;
    }
    tp_value_unref(list);
    tp_value_unref(wanted);
    return ok;
}

static bool can_sum_to(const tp_slot *s, const tp_tensor *t)
{
    int lead = t->ndim - s->ndim;
    if (lead < 0)
        return false;
    for (int i = 0; i < s->ndim; i++)
        if (s->size[i] != t->size[lead + i] && s->size[i] != 1)
            return false;
    return true;
}

bool tp_fit_gradient(const tp_slot *s, tp_value g, tp_value *out)
{
    tp_value fitted = g;
    if (!same_sizes(s, g.tensor)) {
        bool ok = sum_to(s, g, &fitted);
        tp_value_unref(g);
        if (!ok)
            return false;
    }
    if (fitted.tensor->dtype != s->dtype) {
        tp_value arg[2] = { fitted, tp_of_dtype((tp_dtype)s->dtype) }, cast;
        bool ok = tp_call1(&tp_op__to_copy, 2, arg, &cast);
        tp_value_unref(fitted);
        if (!ok)
            return false;
        fitted = cast;
    }
    *out = fitted;
    return true;
}

static bool bad_shape(const tp_grad_node *n, size_t index, const tp_slot *s, const tp_tensor *t)
{
    tp_text got = { 0 }, want = { 0 };
    for (int i = 0; i < t->ndim; i++)
        tp_text_add(&got, i ? ", %lld" : "%lld", LL(t->size[i]));
    for (int i = 0; i < s->ndim; i++)
        tp_text_add(&want, i ? ", %lld" : "%lld", LL(s->size[i]));
    tp_fail(TP_ERR_RUNTIME, "Function %s returned an invalid gradient at index %zu - got [%s] but expected shape compatible with [%s]",
            n->kind->name(n), index, tp_text_read(&got), tp_text_read(&want));
    tp_text_fini(&got);
    tp_text_fini(&want);
    return false;
}

static bool exclusive(const tp_tensor *t)
{
    return atomic_load(&t->refs) == 1 && atomic_load(&t->storage->refs) == 1 && !t->wrapper && tp_tensor_is_dense(t);
}

/* Takes `g` into the buffer of a slot, adding it to what came before. */
static bool deliver(task *t, uint32_t slot, tp_value g)
{
    if (!t->buffer && !(t->buffer = tp_alloc_zero(t->node->slot_count * sizeof *t->buffer))) {
        tp_value_unref(g);
        return false;
    }
    tp_value *at = &t->buffer[slot];
    if (at->tag != TP_TENSOR) {
        *at = g;
        return true;
    }
    bool inplace = !tp_self.grad_mode && !tp_self.active && exclusive(at->tensor) && at->tensor->dtype == g.tensor->dtype;
    tp_value sum, arg[3] = { *at, g, tp_int(1) };
    bool ok = tp_call(inplace ? &tp_op_add__Tensor : &tp_op_add_Tensor, arg, &sum);
    tp_value_unref(g);
    if (!ok)
        return false;
    tp_value_unref(*at);
    *at = sum;
    return true;
}

static bool route(run *r, const tp_grad_node *n, tp_value *out)
{
    bool ok = true;
    for (uint32_t e = 0; e < n->edge_count; e++) {
        uint64_t at;
        const tp_edge *edge = &n->edge[e];
        if (!edge->node || !tp_map_get(&r->index, (uintptr_t)edge->node, &at)) {
            tp_value_unref(out[e]);
            continue;
        }
        task *next = &r->task.item[at];
        if (ok && wanted(next) && out[e].tag == TP_TENSOR) {
            const tp_slot *s = &edge->node->slot[edge->slot];
            if (s->defined && !same_sizes(s, out[e].tensor) && !can_sum_to(s, out[e].tensor)) {
                ok = bad_shape(n, e, s, out[e].tensor);
                tp_value_unref(out[e]);
            } else {
                tp_value fitted = out[e];
                ok = (!s->defined || tp_fit_gradient(s, out[e], &fitted)) && deliver(next, edge->slot, fitted);
            }
        } else {
            tp_value_unref(out[e]);
        }
        if (--next->waiting == 0 && wanted(next) && ok)
            ok = heap_push(r, (uint32_t)at);
    }
    return ok;
}

/* ---- running one node ---- */

/* Hooks of tensors: those of a leaf sit with it, others with the node that made them. */
static bool run_tensor_hooks(tp_grad_node *n, tp_value *g)
{
    if (n->kind == &tp_accumulate_kind && g[0].tag == TP_TENSOR)
        return tp_hooks_run(((tp_accumulate_node *)(void *)n)->leaf->autograd->hooks, g, 1, NULL, 0);
    for (uint32_t i = 0; n->slot_hooks && i < n->slot_count; i++)
        if (g[i].tag == TP_TENSOR && !tp_hooks_run(n->slot_hooks[i], &g[i], 1, NULL, 0))
            return false;
    return true;
}

static bool retain_one(tp_tensor *t, tp_value g)
{
    tp_value kept, arg[3] = { tp_of_tensor(t->autograd->grad), g, tp_int(1) };
    if (t->autograd->grad ? !tp_call(&tp_op_add_Tensor, arg, &kept) : !tp_call1(&tp_op_clone, 1, &g, &kept))
        return false;
    bool ok = tp_set_grad(t, kept.tensor);
    tp_value_unref(kept);
    return ok;
}

static bool retain(tp_grad_node *n, tp_value *g)
{
    for (uint32_t i = 0; n->retain && i < n->slot_count; i++)
        if (n->retain[i] && g[i].tag == TP_TENSOR && !retain_one(n->retain[i], g[i]))
            return false;
    return true;
}

static void capture(run *r, const task *t, const tp_value *g)
{
    for (uint32_t at = t->captured; at; at = r->before[at - 1]) {
        tp_value *to = &r->request->captured[at - 1];
        tp_value_unref(*to);
        *to = tp_value_ref(g[r->request->input[at - 1].slot]);
    }
}

static bool has_nan(const tp_tensor *t)
{
    tp_tensor *flat = tp_contiguous(t);
    bool found = false;
    for (int64_t i = 0; flat && !found && i < flat->numel; i++) {
        tp_scalar s = tp_scalar_read((char *)tp_tensor_data(flat) + i * (int64_t)tp_dtype_bytes((tp_dtype)flat->dtype), (tp_dtype)flat->dtype);
        found = s.kind == TP_KIND_COMPLEX ? isnan(s.c.re) || isnan(s.c.im) : s.kind == TP_KIND_FLOAT && isnan(s.f);
    }
    tp_tensor_unref(flat);
    return found;
}

static bool check_nan(tp_grad_node *n, const tp_value *out)
{
    if (!tp_self.anomaly || !tp_self.anomaly_nan)
        return true;
    for (uint32_t i = 0; i < n->edge_count; i++)
        if (out[i].tag == TP_TENSOR && tp_dtype_is_inexact((tp_dtype)out[i].tensor->dtype) && has_nan(out[i].tensor))
            return tp_fail(TP_ERR_RUNTIME, "Function '%s' returned nan values in its %uth output.", n->kind->name(n), i);
    return true;
}

/* In anomaly mode the warning that names the user's line comes before the error itself, which is kept. */
static void report_origin(tp_grad_node *n)
{
    if (!tp_self.anomaly || !tp_the_runtime.python.report_stack)
        return;
    tp_err kind = tp_self.error;
    char *text = kind == TP_ERR_FOREIGN ? NULL : tp_alloc_text(tp_error_text());
    (void)tp_the_runtime.python.report_stack(n->kind->name(n), n->metadata);
    if (text)
        tp_fail(kind, "%s", text);
    tp_free(text);
}

/* The node itself between its hooks. Whatever happens `out` is the caller's to release. */
static bool run_node(run *r, tp_grad_node *n, tp_value *g, tp_value *out)
{
    bool any = n->kind->undefined_ok;
    if (n->pre_hooks && !tp_hooks_run(n->pre_hooks, g, n->slot_count, NULL, 0))
        return false;
    for (uint32_t i = 0; !any && i < n->slot_count; i++)
        any = g[i].tag == TP_TENSOR;
    if (any) {
        bool applied = n->kind->apply(n, g, out);
        for (uint32_t i = 0; !applied && i < n->edge_count; i++)
            out[i] = tp_none();
        if (!applied || !check_nan(n, out)) {
            report_origin(n);
            return false;
        }
    }
    if (n->post_hooks && !tp_hooks_run(n->post_hooks, out, n->edge_count, g, n->slot_count))
        return false;
    if (!r->request->keep_graph && n->kind->release)
        n->kind->release(n);
    return true;
}

static bool run_task(run *r, uint32_t at)
{
    task *t = &r->task.item[at];
    tp_grad_node *n = t->node;
    tp_value *g = t->buffer, few[8], *out = few;
    if (!g && !(g = tp_alloc_zero((n->slot_count ? n->slot_count : 1) * sizeof *g)))
        return false;
    t->buffer = NULL;
    if (n->edge_count > TP_COUNT(few))
        out = tp_alloc_array(n->edge_count, sizeof *out);
    for (uint32_t i = 0; out && i < n->edge_count; i++)
        out[i] = tp_none();
    void *outer = tp_self.engine;
    tp_self.engine = n;                 /* tracers ask whose formula it is that they see */
    bool ok = out && run_tensor_hooks(n, g) && retain(n, g);
    if (ok)
        capture(r, t, g);
    ok = ok && (!t->leads || run_node(r, n, g, out));
    tp_values_unref(g, n->slot_count);
    tp_free(g);
    if (ok)
        ok = route(r, n, out);
    else if (out)
        tp_values_unref(out, n->edge_count);
    tp_self.engine = outer;
    if (out != few)
        tp_free(out);
    return ok;
}

static bool begin(run *r)
{
    bool ok = true;
    for (size_t i = 0; ok && i < r->request->root_count; i++) {
        const tp_edge *root = &r->request->root[i];
        uint64_t at = 0;
        (void)tp_map_get(&r->index, (uintptr_t)root->node, &at);
        ok = deliver(&r->task.item[at], root->slot, tp_value_ref(r->request->gradient[i]));
    }
    /* A root that another root leads to waits for it. */
    for (size_t i = 0; ok && i < r->request->root_count; i++) {
        uint64_t at = 0;
        (void)tp_map_get(&r->index, (uintptr_t)r->request->root[i].node, &at);
        task *t = &r->task.item[at];
        if (!t->begun && t->waiting == 0 && wanted(t))
            ok = heap_push(r, (uint32_t)at);
        t->begun = true;
    }
    return ok;
}

bool tp_backward_run(const tp_backward_request *request)
{
    run r = { .request = request, .number = atomic_fetch_add(&tp_the_runtime.sequence, 1) };
    tp_thread *self = &tp_self;
    void *outer = self->backward;
    bool grad_mode = self->grad_mode, some_inputs = self->some_inputs;
    for (size_t i = 0; request->input && i < request->input_count; i++)
        request->captured[i] = tp_none();
    self->grad_mode = request->create_graph;
    self->some_inputs = request->input;
    self->backward = &r;
    bool ok = prepare(&r) && begin(&r);
    while (ok && r.heap.count) {
        ok = run_task(&r, heap_pop(&r));
        if (ok && tp_the_runtime.python.poll_interrupt)
            ok = tp_the_runtime.python.poll_interrupt();
    }
    self->grad_mode = grad_mode;
    self->some_inputs = some_inputs;
    self->backward = outer;
    for (size_t i = 0; i < r.task.count; i++)
        if (r.task.item[i].buffer) {
            tp_values_unref(r.task.item[i].buffer, r.task.item[i].node->slot_count);
            tp_free(r.task.item[i].buffer);
        }
    if (!ok && request->input) {
        tp_values_unref(request->captured, request->input_count);
        for (size_t i = 0; i < request->input_count; i++)
            request->captured[i] = tp_none();
    }
    tp_map_fini(&r.index);
    tp_array_fini(&r.task);
    tp_array_fini(&r.heap);
    tp_free(r.before);
    return ok;
}

int64_t tp_backward_number(void)
{
    const run *r = tp_self.backward;
    return r ? (int64_t)r->number : -1;
}

bool tp_backward_reaches(const tp_grad_node *n)
{
    const run *r = tp_self.backward;
    uint64_t at;
    return r && tp_map_get(&r->index, (uintptr_t)n, &at) && wanted(&r->task.item[at]);
}
