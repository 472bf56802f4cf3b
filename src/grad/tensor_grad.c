/* tensor_grad.c - what a tensor remembers of the tape: requires_grad, grad, version, leafhood, history. */
#include <string.h>

#include "gen/ops.h"
#include "base/alloc.h"
#include "base/text.h"
#include "grad/internal.h"
#include "grad/tape.h"

enum { FREE_SLOT = 2, MOST_FREE = 64 };

/* Every result of a recorded call has one: they are recycled per thread. */
static tp_autograd *fresh(void)
{
    tp_thread *self = &tp_self;
    tp_autograd *a = self->free_list[FREE_SLOT];
    if (!a || atomic_load_explicit(&tp_the_runtime.allocation_fuse, memory_order_relaxed) >= 0)
        return tp_alloc_zero(sizeof *a);
    self->free_list[FREE_SLOT] = *(void **)a;
    self->free_count[FREE_SLOT]--;
    tp_count_allocation(1);
    memset(a, 0, sizeof *a);
    return a;
}

static void recycle(tp_autograd *a)
{
    tp_thread *self = &tp_self;
    if (TP_WATCHED || self->free_count[FREE_SLOT] >= MOST_FREE) {
        tp_free(a);
        return;
    }
    tp_thread_note_end();
    *(void **)a = self->free_list[FREE_SLOT];
    self->free_list[FREE_SLOT] = a;
    self->free_count[FREE_SLOT]++;
    tp_count_allocation(-1);
}

tp_counter *tp_counter_new(uint32_t count)
{
    tp_counter *c = tp_alloc(sizeof *c);
    if (c) {
        atomic_init(&c->refs, 1);
        atomic_init(&c->count, count);
    }
    return c;
}

tp_counter *tp_counter_ref(tp_counter *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void tp_counter_unref(tp_counter *c)
{
    if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
        tp_free(c);
}

static void free_autograd(void *self)
{
    tp_autograd *a = self;
    tp_counter_unref(a->counter);
    if (a->remade)
        atomic_fetch_add_explicit(&a->remade->count, 1, memory_order_relaxed);      /* it is there no more */
    tp_counter_unref(a->remade);
    if (a->retains_grad && a->grad_fn && a->grad_fn->retain)
        a->grad_fn->retain[a->slot] = NULL;
    tp_tensor_unref(a->grad);
    tp_tensor_unref(a->view_base);
    tp_tensor_unref(a->view_from);
    if (a->hooks)
        tp_hooks_free(a->hooks);
    if (a->post_accumulate)
        tp_hooks_free(a->post_accumulate);
    if (a->python)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = a->python });
    if (a->accumulate)
        tp_accumulate_forget(a);
    tp_grad_node *made_by = a->grad_fn;
    recycle(a);
    tp_grad_node_unref(made_by);
}

tp_autograd *tp_autograd_of(tp_tensor *t)
{
    if (t->autograd)
        return t->autograd;
    tp_autograd *a = fresh();
    if (!a)
        return NULL;
    a->attached.free = free_autograd;
    return t->autograd = a;
}

/* Tensors that the autograd layer must see: those that require a gradient, and views, whose base may come to. */
void tp_grad_mark(tp_tensor *t)
{
    const tp_autograd *a = t->autograd;
    if (a && (a->requires_grad || a->grad_fn || a->view_base))
        t->keys |= TP_LAYER_BIT(TP_LAYER_GRAD);
    else
        t->keys &= ~TP_LAYER_BIT(TP_LAYER_GRAD);
}

static bool view_is_stale(const tp_tensor *t)
{
    const tp_autograd *a = t->autograd;
    return a->view_base && a->view_version != tp_version(t) && tp_requires_grad(a->view_base);
}

bool tp_requires_grad(const tp_tensor *t)
{
    const tp_autograd *a = t->autograd;
    return a && (a->requires_grad || a->grad_fn || view_is_stale(t));
}

bool tp_is_leaf(const tp_tensor *t)
{
    const tp_autograd *a = t->autograd;
    return !a || (!a->grad_fn && !view_is_stale(t));
}

bool tp_set_requires_grad(tp_tensor *t, bool on)
{
    if (!tp_is_leaf(t)) {
        if (on)
            return true;
        return tp_fail(TP_ERR_RUNTIME, "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
                       "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    }
    if (on && (t->keys & TP_KEY_INFERENCE) && !tp_self.inference_mode)
        return tp_fail(TP_ERR_RUNTIME, "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    if (on && !tp_dtype_is_inexact((tp_dtype)t->dtype))
        return tp_fail(TP_ERR_RUNTIME, "Only Tensors of floating point and complex dtype can require gradients");
    if (!on && !t->autograd)
        return true;
    tp_autograd *a = tp_autograd_of(t);
    if (!a)
        return false;
    a->requires_grad = on;
    tp_grad_mark(t);
    return true;
}

bool tp_forget_history(tp_tensor *t)
{
    tp_autograd *a = t->autograd;
    if (a && a->view_base)
        return tp_fail(TP_ERR_RUNTIME, "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
                       "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be "
                       "called on these gradients. To fix this error, please refer to the Optimizer.zero_grad() function in "
                       "torch/optim/optimizer.py as the solution.");
    if (!a)
        return true;
    tp_grad_node_unref(a->grad_fn);
    a->grad_fn = NULL;
    a->slot = 0;
    a->requires_grad = false;
    return tp_set_requires_grad(t, false);
}

uint32_t tp_version(const tp_tensor *t)
{
    const tp_autograd *a = t->autograd;
    return atomic_load_explicit(a && a->counter ? &a->counter->count : &t->storage->version, memory_order_relaxed);
}

bool tp_count_apart(tp_tensor *t, uint32_t writes)
{
    tp_autograd *a = tp_autograd_of(t);
    tp_counter *c = a ? tp_counter_new(writes) : NULL;
    if (!c)
        return false;
    tp_counter_unref(a->counter);
    a->counter = c;
    return true;
}

bool tp_count_with(tp_tensor *t, const tp_tensor *other)
{
    tp_counter *c = other->autograd ? other->autograd->counter : NULL;
    tp_autograd *a = c ? tp_autograd_of(t) : NULL;
    if (!c)
        return true;
    if (!a)
        return false;
    tp_counter_unref(a->counter);
    a->counter = tp_counter_ref(c);
    return true;
}

void tp_bump_version(tp_tensor *t)
{
    tp_autograd *a = t->autograd;
    if (t->keys & TP_KEY_INFERENCE)
        return;
    if (a && a->counter)
        atomic_fetch_add_explicit(&a->counter->count, 1, memory_order_relaxed);
    else
        tp_storage_bump(t->storage);
}

tp_tensor *tp_detach(const tp_tensor *t)
{
    tp_tensor *plain = tp_tensor_alias(t);
    if (plain && tp_count_with(plain, t))
        return plain;
    tp_tensor_unref(plain);
    return NULL;
}

tp_tensor *tp_data(tp_tensor *t)
{
    /* A recorder has to see where the alias comes from; to the tracer of jit it is a constant. */
    bool recorded = tp_self.active & tp_self.allowed & (TP_LAYER_BIT(TP_LAYER_TRACE_R) | TP_LAYER_BIT(TP_LAYER_TRACE_P));
    tp_value whole = tp_of_tensor(t), made = tp_none();
    tp_tensor *plain = !recorded ? tp_tensor_alias(t) : tp_call(&tp_op_detach, &whole, &made) ? made.tensor : NULL;
    if (plain && tp_count_apart(plain, 0))
        return plain;
    tp_tensor_unref(plain);
    return NULL;
}

bool tp_set_data(tp_tensor *t, const tp_tensor *from)
{
    const uint32_t class = TP_LAYER_BIT(TP_LAYER_DISPATCH);
    uint32_t kept = t->keys & class;
    tp_tensor *seen = tp_tensor_alias(from);
    /* Its counter stays: writes to it do not count as writes to `from`, with which it shares memory now. */
    bool ok = seen && ((t->autograd && t->autograd->counter) || tp_count_apart(t, tp_version(t))) && tp_tensor_swap(t, seen);      /* `seen` now has the old elements, and lets go of them */
    tp_tensor_unref(seen);
    if (!ok)
        return false;
    t->keys = (t->keys & ~class) | kept;            /* what watches the tensor still does */
    tp_grad_mark(t);
    if (t->autograd)
        tp_accumulate_forget(t->autograd);          /* it adds up gradients of the old type and sizes */
    return true;
}

static bool check_grad(const tp_tensor *t, const tp_tensor *grad)
{
    if (t == grad)
        return tp_fail(TP_ERR_RUNTIME, "can't assign Variable as its own grad");
    if (t->dtype != grad->dtype)
        return tp_fail(TP_ERR_RUNTIME, "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype '%s'. The gradient must match "
                       "the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute with a specific "
                       "dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may "
                       "break downstream systems that assume they match.", tp_dtypes[grad->dtype].cpp, tp_dtypes[t->dtype].title);
    if (t->ndim == grad->ndim && memcmp(t->size, grad->size, t->ndim * sizeof *t->size) == 0)
        return true;
    tp_text given = { 0 }, wanted = { 0 };
    for (int i = 0; i < grad->ndim; i++)
        tp_text_add(&given, i ? ", %lld" : "%lld", LL(grad->size[i]));
    for (int i = 0; i < t->ndim; i++)
        tp_text_add(&wanted, i ? ", %lld" : "%lld", LL(t->size[i]));
    tp_fail(TP_ERR_RUNTIME, "attempting to assign a gradient of size '[%s]' to a tensor of size '[%s]'. Please ensure that the gradient and "
            "the tensor are the same size", tp_text_read(&given), tp_text_read(&wanted));
    tp_text_fini(&given);
    tp_text_fini(&wanted);
    return false;
}

bool tp_set_grad(tp_tensor *t, tp_tensor *grad)
{
    if (grad && !check_grad(t, grad))
        return false;
    tp_autograd *a = grad || t->autograd ? tp_autograd_of(t) : NULL;
    if (!a)
        return grad == NULL;
    tp_tensor *old = a->grad;
    a->grad = grad ? tp_tensor_ref(grad) : NULL;
    tp_tensor_unref(old);
    return true;
}

static bool retain_at(tp_grad_node *n, uint32_t slot, tp_tensor *t)
{
    if (!n->retain && !(n->retain = tp_alloc_zero(n->slot_count * sizeof *n->retain)))
        return false;
    n->retain[slot] = t;
    return true;
}

bool tp_set_history(tp_tensor *t, tp_grad_node *node, uint32_t slot)
{
    tp_autograd *a = tp_autograd_of(t);
    if (!a || (a->retains_grad && !retain_at(node, slot, t)))
        return false;
    tp_grad_node *old = a->grad_fn;
    if (a->retains_grad && old && old != node && old->retain)
        old->retain[a->slot] = NULL;
    a->grad_fn = tp_grad_node_ref(node);
    a->slot = slot;
    a->requires_grad = false;
    tp_grad_mark(t);
    tp_grad_node_unref(old);
    return true;
}

bool tp_give_history(tp_tensor *t, tp_grad_node *taken)
{
    tp_autograd *a = tp_autograd_of(t);
    if (!a) {
        tp_grad_node_unref(taken);
        return false;
    }
    a->grad_fn = taken;
    a->slot = 0;
    t->keys |= TP_LAYER_BIT(TP_LAYER_GRAD);
    return true;
}

bool tp_gradient_edge(tp_tensor *t, tp_edge *out)
{
    tp_grad_node *made_by;
    uint32_t slot;
    *out = (tp_edge){ 0 };
    if (!t->autograd)
        return true;
    if (!tp_grad_fn(t, &made_by, &slot))
        return false;
    if (made_by) {
        *out = (tp_edge){ tp_grad_node_ref(made_by), slot };
        return true;
    }
    if (!t->autograd->requires_grad)
        return true;
    out->node = tp_accumulate_node_of(t);
    return out->node != NULL;
}

tp_hook **tp_tensor_hooks(tp_tensor *t)
{
    tp_grad_node *made_by;
    uint32_t slot;
    if (!tp_autograd_of(t) || !tp_grad_fn(t, &made_by, &slot))
        return NULL;
    if (!made_by)
        return &t->autograd->hooks;
    if (!made_by->slot_hooks &&
        !(made_by->slot_hooks = tp_alloc_zero(made_by->slot_count * sizeof *made_by->slot_hooks)))
        return NULL;
    return &made_by->slot_hooks[slot];
}

bool tp_retain_grad(tp_tensor *t)
{
    tp_grad_node *made_by;
    uint32_t slot;
    if (!tp_requires_grad(t))
        return tp_fail(TP_ERR_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    if (!tp_grad_fn(t, &made_by, &slot))
        return false;
    if (!made_by)
        return true;
    if (!retain_at(made_by, slot, t))
        return false;
    t->autograd->retains_grad = true;
    return true;
}
