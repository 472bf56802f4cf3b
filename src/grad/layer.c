/* layer.c - the autograd layer of the dispatcher: records a node for a call that needs one, and keeps versions and views.
 *
 * Order matters. Arguments are saved before the call, because an in-place op overwrites them; results after it. A composite
 * is opened here, above the tape, so that its pieces make the nodes. */
#include <string.h>

#include "base/alloc.h"
#include "gen/ops.h"
#include "grad/internal.h"
#include "ops/copy.h"
#include "ops/known.h"
#include "ops/symbolic.h"

enum { MOST_RESULTS = 8 };

/* ---- the node of an op ---- */

static bool wants_gradient(tp_value v)
{
    if (v.tag == TP_TENSOR)
        return tp_requires_grad(v.tensor);
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (wants_gradient(v.list->item[i]))
            return true;
    return false;
}

static const tp_op *formula_of(const tp_op *op)
{
    return op->gradient->backward || op->gradient->error || !op->base ? op : op->base;
}

static uint32_t edges_of(const tp_op *op, const tp_value *arg)
{
    uint32_t n = 0;
    for (uint64_t left = op->differentiable; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        n += op->arg[i].list ? tp_length(arg[i]) : 1;
    }
    return n;
}

static bool fill_edges(tp_op_node *n, const tp_value *arg)
{
    uint32_t at = 0;
    for (uint64_t left = n->op->differentiable; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        uint32_t count = n->op->arg[i].list ? tp_length(arg[i]) : 1;
        for (uint32_t k = 0; k < count; k++, at++) {
            tp_value v = n->op->arg[i].list ? arg[i].list->item[k] : arg[i];
            if (v.tag != TP_TENSOR)
                continue;
            if (!tp_gradient_edge(v.tensor, &n->node.edge[at]))
                return false;
            if (n->node.edge[at].node)
                n->wanted |= (uint64_t)1 << i;
        }
    }
    return true;
}

/* Another argument that lies in the memory about to be overwritten, y.mul_(y): backward will refuse it by its version. Kept
 * with its history it would hold the written tensor, whose new node holds it. */
static bool save_doomed(tp_saved *s, tp_tensor *t)
{
    tp_tensor *bare = tp_detach(t);
    bool ok = bare && tp_save_value(s, tp_of_tensor(bare), false, t->autograd && t->autograd->view_base);
    s->overwritten = true;
    tp_tensor_unref(bare);
    return ok;
}

/* Does a write to one count as a write to the other? */
static bool counts_with(const tp_tensor *a, const tp_tensor *b)
{
    return a == b || (a->storage == b->storage && (a->autograd ? a->autograd->counter : NULL) == (b->autograd ? b->autograd->counter : NULL));
}

/* A copy of elements; a call to whoever is below, where someone is. */
static tp_tensor *copy_of(const tp_tensor *t)
{
    uint32_t others = TP_ALL_LAYERS & ~TP_LAYER_BIT(TP_LAYER_GRAD);
    if (TP_LIKELY(!((tp_self.active | t->keys) & others)))
        return tp_clone(t, TP_FORMAT_PRESERVE);
    tp_value arg[2] = { tp_of_tensor(t), tp_none() }, copy;
    return tp_call_below(TP_LAYER_GRAD, &tp_op_clone, arg, &copy) ? copy.tensor : NULL;
}

/* The argument an in-place op is about to overwrite is saved as a copy. */
static bool save_argument(const tp_op *op, tp_saved *s, const tp_value *arg, const tp_save *save, bool overwritten)
{
    tp_value v = arg[save->index];
    if (save->what != TP_SAVE_ARG) {
        tp_value facts = tp_save_describe(save->what, v);
        bool ok = tp_save_value(s, facts, false, 0);
        tp_value_unref(facts);
        return ok && (v.tag == TP_NONE || facts.tag != TP_NONE);
    }
    if (op->variant == TP_INPLACE && !overwritten && v.tag == TP_TENSOR && counts_with(v.tensor, arg[0].tensor))
        return save_doomed(s, v.tensor);
    if (!overwritten || v.tag != TP_TENSOR) {
        bool ok = tp_save_value(s, v, false, 0);
        if (ok && v.tag == TP_LIST && op->arg[save->index].items_optional)      /* indices */
            tp_saved_watch(s);
        return ok;
    }
    tp_tensor *before = copy_of(v.tensor);
    tp_autograd *a = before && v.tensor->autograd ? tp_autograd_of(before) : NULL;
    bool ok = before && (!v.tensor->autograd || a);
    if (a) {
        tp_edge edge;
        ok = tp_gradient_edge(v.tensor, &edge);
        if (ok && edge.node)
            ok = tp_set_history(before, edge.node, edge.slot);
        tp_grad_node_unref(edge.node);
    }
    ok = ok && tp_save_value(s, tp_of_tensor(before), false, 0);
    tp_tensor_unref(before);
    return ok;
}

tp_op_node *tp_op_node_new(const tp_op *op, const tp_value *arg, uint32_t slots)
{
    const tp_op *formula = formula_of(op);
    size_t bytes = sizeof(tp_op_node) + formula->gradient->save_count * sizeof(tp_saved);
    tp_op_node *n = (tp_op_node *)(void *)tp_grad_node_new(&tp_op_node_kind, bytes, edges_of(formula, arg), slots);
    if (!n)
        return NULL;
    n->op = formula;
    if (!formula->gradient->backward)
        n->node.sequence = UINT64_MAX;      /* what cannot run is said before anything runs */
    n->list_result = formula->result_count == 1 && formula->result[0].list;
    bool ok = fill_edges(n, arg);
    for (int i = 0; ok && i < formula->gradient->save_count; i++) {
        const tp_save *save = &formula->gradient->save[i];
        if (save->what != TP_SAVE_RESULT && (save->readers & n->wanted))
            ok = save_argument(op, &n->saved[i], arg, save, op->variant == TP_INPLACE && save->index == 0);
    }
    if (!ok) {
        tp_grad_node_unref(&n->node);
        return NULL;
    }
    return n;
}

bool tp_op_node_save_results(tp_op_node *n, const tp_value *result)
{
    for (int i = 0; i < n->op->gradient->save_count; i++) {
        const tp_save *save = &n->op->gradient->save[i];
        if (save->what != TP_SAVE_RESULT || !(save->readers & n->wanted))
            continue;
        /* A result that gets no history closes no cycle; to tracers it stays the value it is. */
        bool plain = tp_self.active && (n->op->gradient->nondifferentiable_results >> save->index & 1);
        if (!tp_save_value(&n->saved[i], result[save->index], !plain, save->index))
            return false;
    }
    return true;
}

/* ---- running a node ---- */

/* To modes and tracers zeros are a call like any other. */
static bool call_zeros(const tp_slot *s, tp_value *out)
{
    tp_value sizes = s->symbolic.tag == TP_LIST ? tp_value_ref(s->symbolic) : tp_value_ints(s->size, s->ndim);
    tp_value arg[5] = { sizes, tp_of_dtype((tp_dtype)s->dtype), { .tag = TP_LAYOUT }, tp_of_device(s->device), tp_none() };
    bool ok = sizes.tag == TP_LIST && tp_call(&tp_op_zeros, arg, out);
    tp_value_unref(sizes);
    return ok;
}

static bool zeros_of(const tp_backward *b, int result, tp_value *out)
{
    const tp_slot *s = &((const tp_grad_node *)b->node)->slot[result];
    tp_geometry g = { .dtype = s->dtype, .ndim = s->ndim, .device = s->device };
    if (!s->defined)
        return tp_fail(TP_ERR_RUNTIME, "%s: the gradient of a result that has none was asked for", b->op->name);
    if (tp_self.active)
        return call_zeros(s, out);
    memcpy(g.size, s->size, s->ndim * sizeof *s->size);
    tp_strides_row_major(g.ndim, g.size, g.stride);
    tp_tensor *t = tp_tensor_new_as(&g);
    if (!t)
        return false;
    if (t->device.type == TP_CPU)
        tp_fill(t, tp_scalar_int(0));
    *out = tp_of_tensor(t);
    return true;
}

/* A list result has one slot an item, but its formula takes one list of gradients. */
static tp_value gather_list(const tp_op_node *n, const tp_value *g)
{
    tp_list *l = tp_list_new(n->node.slot_count);
    for (uint32_t i = 0; l && i < l->count; i++)
        l->item[i] = tp_value_ref(g[i]);
    return l ? tp_of_list(l) : tp_none();
}

/* Gradients by argument to gradients by edge. */
static void spread(const tp_op_node *n, tp_value *grad, tp_value *out)
{
    uint32_t at = 0;
    for (uint64_t left = n->op->differentiable; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        bool last = !(left & (left - 1));
        if (!n->op->arg[i].list) {
            out[at++] = grad[i];
            continue;
        }
        /* How many tensors the list had: all edges that no other argument takes. */
        uint32_t count = last ? n->node.edge_count - at : tp_length(grad[i]);
        for (uint32_t k = 0; k < count; k++)
            out[at++] = k < tp_length(grad[i]) ? tp_value_ref(grad[i].list->item[k]) : tp_none();
        tp_value_unref(grad[i]);
    }
}

static bool op_apply(tp_grad_node *node, const tp_value *g, tp_value *out)
{
    tp_op_node *n = (tp_op_node *)(void *)node;
    tp_value saved[64], grad[64], list = tp_none();
    int count = 0;
    if (!n->op->gradient->backward)
        return tp_fail(TP_ERR_RUNTIME, n->op->gradient->error ? "%s" : "derivative for aten::%s is not implemented",
                       n->op->gradient->error ? n->op->gradient->error : n->op->name);
    bool ok = true;
    while (ok && count < n->op->gradient->save_count)
        if ((ok = tp_saved_unpack(&n->saved[count], node, &saved[count])))
            count++;
    if (ok && n->list_result)
        ok = (list = gather_list(n, g)).tag == TP_LIST;
    if (ok) {
        for (int i = 0; i < n->op->arg_count; i++)
            grad[i] = tp_none();
        tp_backward b = { .op = n->op, .saved = saved, .g = n->list_result ? &list : g, .wanted = n->wanted, .grad = grad,
                          .zeros = zeros_of, .node = node };
        ok = n->op->gradient->backward(&b);
        if (ok)
            spread(n, grad, out);
        else
            tp_values_unref(grad, n->op->arg_count);
    }
    tp_value_unref(list);
    tp_values_unref(saved, (size_t)count);
    return ok;
}

static bool holds_tensor(tp_value v)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (holds_tensor(v.list->item[i]))
            return true;
    return v.tag == TP_TENSOR;
}

/* Sizes and numbers stay: a node that saved nothing else may run again. */
static void op_release(tp_grad_node *node)
{
    tp_op_node *n = (tp_op_node *)(void *)node;
    for (int i = 0; i < n->op->gradient->save_count; i++)
        if (n->saved[i].packed || holds_tensor(n->saved[i].value))
            tp_saved_release(&n->saved[i]);
}

static void op_free(tp_grad_node *node)
{
    tp_op_node *n = (tp_op_node *)(void *)node;
    for (int i = 0; i < n->op->gradient->save_count; i++)
        if (TP_UNLIKELY(n->saved[i].packed || n->saved[i].view))
            tp_saved_release(&n->saved[i]);
        else
            tp_value_unref(n->saved[i].value);
}

static const char *op_name(const tp_grad_node *node)
{
    const tp_op *op = ((const tp_op_node *)(const void *)node)->op;
    return op->gradient->name ? op->gradient->name : "NotImplemented";
}

const tp_grad_kind tp_op_node_kind = { .apply = op_apply, .release = op_release, .free = op_free, .name = op_name };

uint32_t tp_grad_output(const tp_grad_node *node, uint32_t slot)
{
    if (node->kind != &tp_op_node_kind || slot >= 64)
        return slot;
    const tp_op *op = ((const tp_op_node *)(const void *)node)->op;
    uint64_t before = ((uint64_t)1 << slot) - 1;
    return op->result[0].list ? slot : slot - (uint32_t)__builtin_popcountll(op->gradient->nondifferentiable_results & before);
}

/* ---- the layer ---- */

static uint32_t result_slots(const tp_op *op, const tp_value *result)
{
    return op->result_count == 1 && result[0].tag == TP_LIST ? result[0].list->count : op->result_count;
}

static bool differentiable(const tp_op *op, uint32_t slot, tp_value v)
{
    if (v.tag != TP_TENSOR || !tp_dtype_is_inexact((tp_dtype)v.tensor->dtype))
        return false;
    return slot >= 64 || op->result[0].list || !(op->gradient->nondifferentiable_results >> slot & 1);
}

static bool attach(tp_op_node *n, const tp_op *op, const tp_value *result)
{
    bool list = op->result_count == 1 && result[0].tag == TP_LIST;
    for (uint32_t i = 0; i < n->node.slot_count; i++) {
        tp_value v = list ? result[0].list->item[i] : result[i];
        if (!differentiable(n->op, i, v))
            continue;
        if (!tp_slot_describe(&n->node, i, v.tensor))
            return false;
        bool written = op->variant == TP_INPLACE && n->op->kind != TP_LIKE_VIEW;
        if (written ? !tp_rebase_history(v.tensor, &n->node, i) : !tp_set_history(v.tensor, &n->node, i))
            return false;
        if (op->variant == TP_INPLACE && !written)      /* t_: no element changed, a view's history goes on from what it was */
            v.tensor->autograd->view_version = tp_version(v.tensor);
    }
    return true;
}

static bool before_writes(const tp_op *op, const tp_value *arg, bool recording)
{
    if (op->variant == TP_OUT && recording)
        return tp_fail(TP_ERR_RUNTIME, "%s(): functions with out=... arguments don't support automatic differentiation, but one of the "
                       "arguments requires grad.", op->name);
    /* What such an op does to a tensor cannot be undone by a gradient: its entry's error speaks at the call. */
    if (op->kind == TP_LIKE_METADATA && op->gradient->error && tp_requires_grad(arg[0].tensor))
        return tp_fail(TP_ERR_RUNTIME, "%s", op->gradient->error);
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].written && arg[i].tag == TP_TENSOR && !tp_check_inplace(arg[i].tensor, recording))
            return false;
    return true;
}

/* Does the call give back what it writes to this argument? What it only fills for its own backward (the noise of rrelu_) counts no write. */
static bool gives_back(const tp_op *op, int i)
{
    bool found = !op->result_count;
    for (int k = 0; k < op->result_count; k++)
        found |= op->result[k].alias == op->arg[i].alias;
    return found;
}

static void after_writes(const tp_op *op, const tp_value *arg)
{
    for (int i = 0; i < op->arg_count; i++) {
        if (!op->arg[i].written || !gives_back(op, i))
            continue;
        if (arg[i].tag == TP_TENSOR)
            tp_bump_version(arg[i].tensor);
        for (uint32_t k = 0; k < tp_length(arg[i]); k++)
            if (arg[i].list->item[k].tag == TP_TENSOR)
                tp_bump_version(arg[i].list->item[k].tensor);
    }
}

/* Results that look into the first argument remember it. */
static bool note_views(const tp_value *arg, const tp_value *result)
{
    tp_view_origin origin = tp_self.inference_mode ? TP_VIEW_INFERENCE : tp_self.grad_mode ? TP_VIEW_PLAIN : TP_VIEW_NO_GRAD;
    tp_tensor *base = arg[0].tensor;
    if (result[0].tag == TP_TENSOR)
        return result[0].tensor == base || tp_set_view(result[0].tensor, base, origin);
    for (uint32_t i = 0; i < tp_length(result[0]); i++)
        if (!tp_set_view(result[0].list->item[i].tensor, base, origin == TP_VIEW_PLAIN ? TP_VIEW_MULTI : origin))
            return false;
    return true;
}

static bool is_view(const tp_op *op)
{
    /* detach and _unsafe_view are none */
    return op->kind == TP_LIKE_VIEW && op->variant == TP_FUNCTIONAL && op->differentiable && op->result[0].alias;
}

static bool wants_record(const tp_op *formula, const tp_value *arg)
{
    if (tp_self.grad_mode)
        for (uint64_t left = formula->differentiable; left; left &= left - 1)
            if (wants_gradient(arg[__builtin_ctzll(left)]))
                return true;
    return false;
}

/* The only result, without a history yet, takes the node. */
static bool attach_only(tp_op_node *n, tp_tensor *result)
{
    bool inexact = tp_dtype_is_inexact((tp_dtype)result->dtype);
    if (inexact && tp_slot_describe(&n->node, 0, result))
        return tp_give_history(result, &n->node);
    tp_grad_node_unref(&n->node);
    return !inexact;
}

bool tp_record_made(const tp_op *op, const tp_value *arg, tp_tensor *result)
{
    if (!wants_record(op, arg))
        return true;
    tp_value boxed = tp_of_tensor(result);
    tp_op_node *n = tp_op_node_new(op, arg, 1);
    if (!n)
        return false;
    if (tp_op_node_save_results(n, &boxed))
        return attach_only(n, result);
    tp_grad_node_unref(&n->node);
    return false;
}

/* What lies in an argument and is no view of it. detach gives one that counts writes with it. Pieces (unsafe_split) are written one by
 * one and each counts its own, as does _unsafe_view; where nobody outside has the argument, who could write to it? */
static bool count_writes(const tp_op *op, const tp_value *arg, const tp_value *result)
{
    const tp_tensor *whole = op->arg_count ? tp_as_tensor(arg[0]) : NULL;
    if (op->kind == TP_LIKE_VIEW && op->variant == TP_FUNCTIONAL && whole && result[0].tag == TP_TENSOR)
        return op->result[0].alias ? tp_count_with(result[0].tensor, whole) : !whole->wrapper || tp_count_apart(result[0].tensor, 0);
    if (op->result_count != 1 || result[0].tag != TP_LIST)
        return true;
    for (uint32_t i = 0; whole && i < tp_length(result[0]); i++) {
        tp_tensor *piece = tp_as_tensor(result[0].list->item[i]);
        if (piece && piece->storage == whole->storage && !tp_count_apart(piece, 0))
            return false;
    }
    return true;
}

static bool record(const tp_op *op, const tp_value *arg, tp_value *result)
{
    /* A list result's length is known after the call; its node saves no argument that the call could change. */
    bool late = op->result_count == 1 && op->result[0].list;
    tp_op_node *n = late ? NULL : tp_op_node_new(op, arg, op->result_count);
    if (!late && !n)
        return false;
    if (!tp_call_below(TP_LAYER_GRAD, op, arg, result)) {
        if (n)
            tp_grad_node_unref(&n->node);
        return false;
    }
    if (op->variant == TP_INPLACE)
        after_writes(op, arg);
    bool ok = (is_view(op) ? note_views(arg, result) : count_writes(op, arg, result)) &&
              (n || (n = tp_op_node_new(op, arg, result_slots(op, result)))) && tp_op_node_save_results(n, result);
    if (ok && op->result_count == 1 && result[0].tag == TP_TENSOR && !result[0].tensor->autograd &&
        !n->op->gradient->nondifferentiable_results)
        return attach_only(n, result[0].tensor) || tp_call_take_back(op, result);
    ok = ok && attach(n, op, result);
    if (n)
        tp_grad_node_unref(&n->node);
    return ok || tp_call_take_back(op, result);
}

/* Inside a composite of fake tensors, factories make fakes as well; where another layer comes first, it sees to that. */
static bool open_composite(const tp_op *op, const tp_value *arg, tp_value *result)
{
    const uint32_t below = TP_LAYER_BIT(TP_LAYER_GRAD) - 1, fake = TP_LAYER_BIT(TP_LAYER_FAKE);
    uint32_t active = tp_self.active, todo = (active | tp_keys_of(op, arg)) & tp_self.allowed & below;
    tp_self.active = active | (todo >= fake && todo < 2 * fake ? fake : 0);
    bool ok = op->open(op, arg, result);
    tp_self.active = active;
    return ok;
}

/* What an op writes behind its schema's back (running statistics) takes no gradient, nor may it be asked for one: the write would
 * go unrecorded. */
static bool statistics_are_plain(const tp_op *op, const tp_value *arg)
{
    for (uint64_t left = tp_self.grad_mode ? op->rare->hidden_writes & ~op->differentiable : 0; left; left &= left - 1)
        if (wants_gradient(arg[__builtin_ctzll(left)]))
            return tp_fail(TP_ERR_RUNTIME, "The function '%s' is not differentiable with respect to argument '%s'. This input cannot have requires_grad True.",
                           op->name, op->arg[__builtin_ctzll(left)].name);
    return true;
}

static bool grad_call(const tp_op *op, const tp_value *arg, tp_value *result)
{
    /* Functions are opened here, above the tape, unless a tracer below wants the call as it is. */
    if (op->rare->graphs && (tp_self.active & tp_self.allowed & TP_LAYER_BIT(TP_LAYER_TRACE_R)))
        return tp_the_runtime.differentiate(op, arg, result);
    if (op->kind == TP_LIKE_COMPOSITE && op->open)
        return open_composite(op, arg, result);
    if (op->flags & TP_OP_RUNTIME)      /* without a way of its own, the ops its kernel calls are recorded */
        return op->rare->autograd ? op->rare->autograd(op, arg, result) : tp_call_past(TP_LAYER_GRAD, op, arg, result);

    if (op->variant == TP_INPLACE && op->kind == TP_LIKE_VIEW && !op->differentiable)       /* detach_ */
        return tp_forget_history(arg[0].tensor) && tp_call_below(TP_LAYER_GRAD, op, arg, result);
    if (!statistics_are_plain(op, arg))
        return false;
    bool recording = wants_record(formula_of(op), arg);
    bool writes = op->variant != TP_FUNCTIONAL;
    if (writes && !before_writes(op, arg, recording))
        return false;
    if (recording)
        return record(op, arg, result);
    if (!tp_call_below(TP_LAYER_GRAD, op, arg, result))
        return false;
    if (writes)
        after_writes(op, arg);
    return (is_view(op) ? note_views(arg, result) : count_writes(op, arg, result)) || tp_call_take_back(op, result);
}

static const tp_layer grad_layer = { .name = "autograd", .call = grad_call };

__attribute__((constructor)) static void mount(void)
{
    tp_the_runtime.layer[TP_LAYER_GRAD] = &grad_layer;
    tp_the_runtime.requires_grad = tp_requires_grad;
}
