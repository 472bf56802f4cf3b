/* saved.c - values kept for backward, and the check that nobody wrote over them since. */
#include "grad/internal.h"

#include "base/alloc.h"
#include "gen/ops.h"

/* Below autograd a tracer is at work on this very tensor: what is kept must be a value that it knows. */
static bool is_traced(const tp_tensor *t)
{
    return (tp_self.active & tp_self.allowed & TP_LAYER_BIT(TP_LAYER_TRACE_R)) && !(t->keys & TP_LAYER_BIT(TP_LAYER_TRANSFORM));
}

/* A result without its history; to tracers a call of detach. */
static tp_tensor *without_history(const tp_tensor *t)
{
    tp_value arg[1] = { tp_of_tensor(t) }, bare;
    if (TP_LIKELY(!is_traced(t)))
        return tp_detach(t);
    bool outer = tp_self.saving;
    tp_self.saving = true;
    bool ok = tp_call_below(TP_LAYER_GRAD, &tp_op_detach, arg, &bare);
    tp_self.saving = outer;
    if (!ok || tp_count_with(bare.tensor, t))
        return ok ? bare.tensor : NULL;
    tp_value_unref(bare);
    return NULL;
}

static bool pack(tp_saved *s, tp_tensor *t, tp_saved_hooks *hooks)
{
    if (!(s->packed = tp_alloc_zero(sizeof *s->packed)))
        return false;
    s->packed->unpack = hooks->unpack;
    if (!s->is_result && !tp_gradient_edge(t, &s->packed->history))
        return false;
    tp_tensor *plain = s->is_result ? without_history(t) : tp_tensor_ref(t);
    bool ok = plain && hooks->pack(hooks, plain, &s->value);
    tp_tensor_unref(plain);
    return ok;
}

/* The writes to all members of a list of tensors. */
static uint32_t list_version(tp_value v)
{
    uint32_t version = 0;
    for (uint32_t i = 0; v.tag == TP_LIST && i < tp_length(v); i++)
        if (v.list->item[i].tag == TP_TENSOR)
            version += tp_version(v.list->item[i].tensor);
    return version;
}

/* A result that was written into a view: the view's history is about to be made anew, and is named if a later write is found while
 * it is still that one. */
static bool watch_view(tp_saved *s, tp_autograd *view)
{
    if (!view->remade && !(view->remade = tp_counter_new(0)))
        return false;
    s->view = tp_counter_ref(view->remade);
    s->remade = atomic_load_explicit(&view->remade->count, memory_order_relaxed) + 1;
    return true;
}

bool tp_save_value(tp_saved *s, tp_value v, bool is_result, uint32_t slot)
{
    *s = (tp_saved){ .value = tp_none(), .slot = slot, .is_result = is_result, .is_tensor = v.tag == TP_TENSOR };
    if (v.tag != TP_TENSOR) {
        s->value = tp_value_ref(v);
        return s->value.tag == v.tag;
    }
    tp_tensor *t = v.tensor;
    if ((t->keys & TP_KEY_INFERENCE) && !tp_self.inference_mode)
        return tp_fail(TP_ERR_RUNTIME, "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode "
                       "in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, "
                       "or use `torch.no_grad()` instead of `torch.inference_mode()`.");
    s->version = tp_version(t);
    if (is_result && t->autograd && t->autograd->view_base && !watch_view(s, t->autograd))
        return false;
    s->tracked = !is_result && t->autograd && t->autograd->grad_fn;
    tp_saved_hooks *hooks = tp_self.saved_hooks;
    if (TP_UNLIKELY(hooks && hooks->pack))
        return pack(s, t, hooks);
    /* A result is about to be given this node, if it has not been yet: kept as it is it would close a cycle. A leaf that
     * requires a gradient is never given one. */
    bool cycle = is_result && !(t->autograd && t->autograd->requires_grad);
    tp_tensor *kept = cycle ? without_history(t) : tp_tensor_ref(t);
    s->value = tp_of_tensor(kept);
    return kept != NULL;
}

void tp_saved_watch(tp_saved *s)
{
    s->members = true;
    s->version = list_version(s->value);
}

static void print_origin(tp_text *out, const tp_grad_node *node, uint32_t slot)
{
    char name[64];
    tp_text_add(out, ", which is output %u of %s,", tp_grad_output(node, slot), tp_grad_node_title(node, name));
}

/* Where the saved tensor comes from, by its history of today: that of a view whose base was written is a new one. */
static void add_origin(tp_text *out, const tp_saved *s, const tp_grad_node *node, tp_tensor *t)
{
    tp_grad_node *made_by = NULL;
    uint32_t slot;
    if (s->view && atomic_load_explicit(&s->view->count, memory_order_relaxed) == s->remade)
        tp_text_add(out, ", which is output 0 of AsStrided,");
    else if (s->is_result)
        print_origin(out, node, s->slot);
    else if (s->overwritten)
        tp_text_add(out, ", which is output 0 of %s,", s->slot ? "AsStrided" : tp_grad_node_title(node, (char[64]){ 0 }));
    else if (tp_grad_fn(t, &made_by, &slot) && made_by)
        print_origin(out, made_by, slot);
}

/* Says that a tensor was written `writes` times since it was saved. */
static void fail_changed(const tp_saved *s, const tp_grad_node *node, tp_tensor *t, uint32_t writes)
{
    /* such tensors have no class of their own to be named by */
    bool plain = tp_dtype_is_complex((tp_dtype)t->dtype) || t->dtype == TP_b8 || t->dtype == TP_bf16;
    tp_text sizes = { 0 };
    for (int i = 0; i < t->ndim; i++)
        tp_text_add(&sizes, i ? ", %lld" : "%lld", LL(t->size[i]));
    tp_text origin = { 0 };
    add_origin(&origin, s, node, t);
    tp_fail(TP_ERR_RUNTIME, "one of the variables needed for gradient computation has been modified by an inplace operation: "
            "[%s%s%s [%s]]%s is at version %u; expected version %u instead. Hint: %s",
            plain ? "CPU" : "torch.", plain ? tp_dtypes[t->dtype].title : tp_dtypes[t->dtype].legacy, plain ? "Type" : "",
            tp_text_read(&sizes), tp_text_read(&origin), tp_version(t), tp_version(t) - writes,
            node->metadata ? "the backtrace further above shows the operation that failed to compute its gradient. "
                             "The variable in question was changed in there or anywhere later. Good luck!"
                           : "enable anomaly detection to find the operation that failed to compute its gradient, "
                             "with torch.autograd.set_detect_anomaly(True, check_nan=False).");
    tp_text_fini(&sizes);
    tp_text_fini(&origin);
}

static bool changed_since(const tp_saved *s, const tp_grad_node *node)
{
    tp_value v = s->value;
    if (!s->is_tensor && !s->members)
        return false;
    uint32_t version = s->is_tensor ? tp_version(v.tensor) : list_version(v), writes = version - s->version;
    if (!writes)
        return false;
    if (s->is_tensor) {
        fail_changed(s, node, v.tensor, writes);
        return true;
    }
    for (uint32_t i = 0; i < tp_length(v); i++)         /* a member that may be the one */
        if (v.list->item[i].tag == TP_TENSOR && tp_version(v.list->item[i].tensor) >= writes) {
            fail_changed(s, node, v.list->item[i].tensor, writes);
            break;
        }
    return true;
}

static bool with_history(const tp_tensor *t, tp_grad_node *node, uint32_t slot, tp_value *out)
{
    tp_tensor *again = without_history(t);
    bool ok = again && tp_set_history(again, node, slot);
    if (!ok) {
        tp_tensor_unref(again);
        return false;
    }
    *out = tp_of_tensor(again);
    return true;
}

/* Hooks may give any tensor: its elements count, and whatever made them, gradients go where the saved one's went. */
static bool unpack(const tp_saved *s, tp_grad_node *node, tp_value *out)
{
    tp_edge to = s->is_result ? (tp_edge){ node, s->slot } : s->packed->history;
    tp_value given;
    if (!s->packed->unpack(s->value, &given))
        return false;
    if (!to.node || given.tag != TP_TENSOR) {
        *out = given;
        return true;
    }
    bool ok = with_history(given.tensor, to.node, to.slot, out);
    tp_value_unref(given);
    return ok;
}

bool tp_saved_unpack(const tp_saved *s, tp_grad_node *node, tp_value *out)
{
    if (s->released)
        return tp_fail(TP_ERR_RUNTIME, "Trying to backward through the graph a second time (or directly access saved tensors after they "
                       "have already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
                       "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if "
                       "you need to access saved tensors after calling backward.");
    if (s->packed)
        return unpack(s, node, out);
    if (changed_since(s, node))
        return false;
    if (!s->is_tensor) {
        *out = tp_value_ref(s->value);
        return out->tag == s->value.tag;
    }
    tp_tensor *t = s->value.tensor;
    if (s->tracked && !s->overwritten && !t->autograd->grad_fn)
        return tp_fail(TP_ERR_RUNTIME, "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, "
                       "please use out-of-place `.detach()` instead");
    if (!s->is_result || (t->autograd && t->autograd->requires_grad)) {
        *out = tp_of_tensor(tp_tensor_ref(t));
        return true;
    }
    return with_history(t, node, s->slot, out);
}

void tp_saved_release(tp_saved *s)
{
    tp_value v = s->value;
    tp_packed *packed = s->packed;
    s->value = tp_none();
    s->packed = NULL;
    s->released = true;
    tp_counter_unref(s->view);
    s->view = NULL;
    if (packed)
        tp_grad_node_unref(packed->history.node);
    tp_free(packed);
    tp_value_unref(v);
}
