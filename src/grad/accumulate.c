/* accumulate.c - the last node of a path: adds a gradient to the .grad of a leaf.
 *
 * A leaf borrows its node, so that two uses of a weight share one; the node counts the leaf. Two threads may arrive with
 * gradients for one weight: each takes the node's lock, waiting for it without the GIL, since its holder may need that. */
#include <sched.h>

#include "base/alloc.h"
#include "grad/internal.h"
#include "ops/copy.h"
#include "ops/known.h"

static tp_accumulate_node *self_of(tp_grad_node *n)
{
    return (tp_accumulate_node *)(void *)n;
}

static void take_lock(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) == 0)
        return;
    void *state = NULL;
    bool held = tp_the_runtime.python.may_touch && tp_the_runtime.python.may_touch();
    if (held)
        tp_the_runtime.python.release_gil(&state);
    pthread_mutex_lock(lock);
    if (held)
        tp_the_runtime.python.restore_gil(&state);
}

/* Does nobody but the engine hold it? */
static bool exclusive(const tp_tensor *g)
{
    return atomic_load(&g->refs) == 1 && atomic_load(&g->storage->refs) == 1 && !g->wrapper;
}

static bool same_order(const tp_tensor *a, const tp_tensor *b)
{
    for (int i = 0; i < a->ndim; i++)
        if (a->size[i] != b->size[i] || (a->size[i] != 1 && a->stride[i] != b->stride[i]))
            return false;
    return a->ndim == b->ndim;
}

/* The first gradient becomes .grad itself when nobody else holds it and it lies in memory like the leaf. */
static bool first_gradient(tp_tensor *leaf, tp_tensor *g)
{
    tp_value made;
    if (!tp_self.grad_mode && (exclusive(g) || tp_self.active) && (same_order(leaf, g) || !tp_tensor_is_dense(leaf))) {
        tp_tensor *plain = tp_detach(g);
        bool kept = plain && tp_set_grad(leaf, plain);
        tp_tensor_unref(plain);
        return kept;
    }
    tp_value arg[2] = { tp_of_tensor(g), tp_of_format(TP_FORMAT_PRESERVE) };
    if (!tp_call1(&tp_op_clone, 2, arg, &made))
        return false;
    bool ok = tp_set_grad(leaf, made.tensor);
    tp_value_unref(made);
    return ok;
}

static bool next_gradient(tp_tensor *leaf, tp_tensor *old, tp_tensor *g)
{
    tp_value sum, arg[3] = { tp_of_tensor(old), tp_of_tensor(g), tp_int(1) };
    bool inplace = !tp_self.grad_mode && !tp_requires_grad(old);
    if (!tp_call(inplace ? &tp_op_add__Tensor : &tp_op_add_Tensor, arg, &sum))
        return false;
    bool ok = inplace || tp_set_grad(leaf, sum.tensor);
    tp_value_unref(sum);
    return ok;
}

static bool accumulate_apply(tp_grad_node *n, const tp_value *g, tp_value *out)
{
    tp_accumulate_node *self = self_of(n);
    tp_tensor *leaf = self->leaf;
    (void)out;
    if (g[0].tag != TP_TENSOR)
        return true;
    take_lock(&self->lock);
    tp_tensor *old = leaf->autograd->grad;
    bool ok = old ? next_gradient(leaf, old, g[0].tensor) : first_gradient(leaf, g[0].tensor);
    pthread_mutex_unlock(&self->lock);
    if (!ok || !leaf->autograd->post_accumulate)
        return ok;
    tp_value v = tp_of_tensor(tp_tensor_ref(leaf));
    ok = tp_hooks_run(leaf->autograd->post_accumulate, &v, 1, NULL, 0);
    tp_value_unref(v);
    return ok;
}

/* ---- finding the node of a leaf ----
 *
 * The leaf only borrows its node, so a thread may look for it while another drops the last count. Whoever looks takes a
 * count that is not zero; whoever drops looks again before it buries: tp_count_down leaves a last count standing at one,
 * and if it grew since, the node was found and lives on.
 *
 * When the last graph lets go, the leaf keeps the node for the next one: a weight is used in every step. A kept node has
 * no count and does not count its leaf (`leaf` is NULL), hence no cycle. One that Python knows is not worth keeping. */

static void begin_finding(tp_autograd *a)
{
    while (atomic_flag_test_and_set_explicit(&a->finding, memory_order_acquire))
        sched_yield();
}

static void end_finding(tp_autograd *a)
{
    atomic_flag_clear_explicit(&a->finding, memory_order_release);
}

static bool accumulate_leave(tp_grad_node *n)
{
    tp_tensor *leaf = self_of(n)->leaf;
    if (!leaf)
        return true;
    tp_autograd *a = leaf->autograd;
    begin_finding(a);
    /* A count of one is ours: nobody else has the node, and who looks for it waits. */
    bool last = atomic_load(&n->refs) <= 1 || atomic_fetch_sub(&n->refs, 1) == 1;
    if (last)
        atomic_store_explicit(&n->refs, 0, memory_order_relaxed);
    bool keep = last && a->accumulate == n && !n->wrapper && !n->pre_hooks && !n->post_hooks && !n->metadata;
    if (keep)
        self_of(n)->leaf = NULL;
    else if (last && a->accumulate == n)
        a->accumulate = NULL;
    end_finding(a);
    if (keep)
        tp_tensor_unref(leaf);          /* may be the end of the leaf, and of the node with it */
    return last && !keep;
}

static tp_grad_node *found(tp_tensor *leaf)
{
    tp_autograd *a = leaf->autograd;
    begin_finding(a);
    tp_grad_node *n = a->accumulate;
    int refs = n ? atomic_load(&n->refs) : 0;
    if (n && !self_of(n)->leaf) {
        self_of(n)->leaf = tp_tensor_ref(leaf);
        atomic_store_explicit(&n->refs, refs = 1, memory_order_relaxed);        /* under `finding` */
    } else {
        while (refs && !atomic_compare_exchange_weak(&n->refs, &refs, refs + 1))
            continue;
    }
    end_finding(a);
    return refs ? n : NULL;
}

void tp_accumulate_forget(tp_autograd *a)
{
    if (a->accumulate && !self_of(a->accumulate)->leaf)
        tp_grad_node_bury(a->accumulate);
    a->accumulate = NULL;
}

static void accumulate_free(tp_grad_node *n)
{
    tp_accumulate_node *self = self_of(n);
    pthread_mutex_destroy(&self->lock);
    tp_tensor_unref(self->leaf);
}

static const char *accumulate_name(const tp_grad_node *n)
{
    (void)n;
    return "torch::autograd::AccumulateGrad";
}

const tp_grad_kind tp_accumulate_kind = { .apply = accumulate_apply, .leave = accumulate_leave, .free = accumulate_free,
                                         .name = accumulate_name };

tp_grad_node *tp_accumulate_node_of(tp_tensor *leaf)
{
    tp_autograd *a = leaf->autograd;
    tp_grad_node *n = found(leaf);
    if (n)
        return n;
    if (!(n = tp_grad_node_new(&tp_accumulate_kind, sizeof(tp_accumulate_node), 0, 1)))
        return NULL;
    pthread_mutex_init(&self_of(n)->lock, NULL);
    n->sequence = UINT64_MAX;           /* first among the ready nodes: its gradient is complete anyway */
    if (!tp_slot_describe(n, 0, leaf)) {
        tp_grad_node_unref(n);
        return NULL;
    }
    self_of(n)->leaf = tp_tensor_ref(leaf);
    begin_finding(a);
    tp_grad_node *first = a->accumulate;        /* another thread may have made one meanwhile */
    bool ours = !first || (atomic_load(&first->refs) == 0 && self_of(first)->leaf);     /* else: found, or kept */
    if (ours)
        a->accumulate = n;
    end_finding(a);
    if (ours)
        return n;
    tp_grad_node_unref(n);
    return tp_accumulate_node_of(leaf);
}

bool tp_accumulate(tp_tensor *leaf, tp_value gradient)
{
    tp_grad_node *n = tp_autograd_of(leaf) ? tp_accumulate_node_of(leaf) : NULL;
    tp_value mine = tp_value_ref(gradient);
    bool ok = n && tp_hooks_run(n->pre_hooks, &mine, 1, NULL, 0) && accumulate_apply(n, &mine, NULL) &&
              tp_hooks_run(n->post_hooks, NULL, 0, &mine, 1);
    tp_value_unref(mine);
    tp_grad_node_unref(n);
    return ok;
}
