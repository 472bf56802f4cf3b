/* view.c - views and in-place writes under the tape.
 *
 * Writing to a view changes its base, so the base gets a new node, CopySlices, that sends the part of its gradient which
 * the view saw through the write's own node, and the rest to what the base was before:
 *
 *     base ──► CopySlices ──edge 0──► old history of the base
 *                  │ fn               edges 1… : other inputs of the write
 *                  └─► node of the write, for the slice
 *
 * Every view of that base, the written one included, finds its history stale by the version counter and makes a fresh
 * one, as_strided of the base, when it is next asked. as_strided knows one dtype and no signs: where the view or one above it
 * looks at the memory in another dtype, or at its conjugates, the step from one to the other (a turn) is made as it was. */
#include <string.h>

#include "grad/internal.h"
#include "ops/known.h"
#include "ops/run.h"

/* ---- views ---- */

static bool is_turn(const tp_tensor *from, const tp_tensor *to) { return from->dtype != to->dtype || tp_signs(from) != tp_signs(to); }

/* What a view that is not all as_strided of its base is remade from. */
static tp_tensor *turned_from(const tp_tensor *view, tp_tensor *above)
{
    if (is_turn(above, view))
        return above;
    tp_tensor *from = above->autograd ? above->autograd->view_from : NULL;
    return from && is_turn(from, above) ? above : from;
}

/* The op that looks at elements of one dtype as another, or turns a sign; called with the tensor and the dtype. */
static const tp_op *turning_op(tp_dtype from, tp_dtype to, uint32_t signs)
{
    if (signs)
        return signs & TP_KEY_CONJ ? &tp_op__conj : &tp_op__neg_view;
    if (tp_dtype_is_complex(from) && to == tp_dtype_to_real(from))
        return &tp_op_view_as_real;
    if (tp_dtype_is_complex(to) && from == tp_dtype_to_real(to))
        return &tp_op_view_as_complex;
    return &tp_op_view_dtype;
}

bool tp_set_view(tp_tensor *view, tp_tensor *base, tp_view_origin origin)
{
    tp_autograd *a = tp_autograd_of(view);
    if (!a)
        return false;
    if (!tp_count_with(view, base))
        return false;
    const tp_autograd *above = base->autograd;
    tp_tensor *root = above && above->view_base ? above->view_base : base;
    if (above && above->view_base && above->view_origin != TP_VIEW_PLAIN)
        origin = (tp_view_origin)above->view_origin;
    tp_tensor *old = a->view_base, *from = turned_from(view, base), *old_from = a->view_from;
    a->view_base = tp_tensor_ref(root);
    a->view_from = from ? tp_tensor_ref(from) : NULL;
    a->view_origin = (uint8_t)origin;
    a->view_version = tp_version(view);
    tp_grad_mark(view);
    tp_tensor_unref(old_from);
    tp_tensor_unref(old);
    return true;
}

static const char multi_view[] = "This view is the output of a function that returns multiple views. Such functions do not allow the output "
                                 "views to be modified inplace. You should replace the inplace operation by an out-of-place one.";

static const char no_grad_view[] = "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
                                   "both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be "
                                   "tracked) or both outside (if you want the inplace to be tracked).";

/* PyTorch makes such a history by making the view again, which tracers see: the numbers of their graphs' names count it. */
static bool call_to_tracers(const tp_autograd *a, const tp_value *arg)
{
    bool traced = tp_self.active & tp_self.allowed & TP_LAYER_BIT(TP_LAYER_TRACE_R);
    if (TP_LIKELY(!traced) || !a->grad_fn || a->grad_fn->kind != &tp_op_node_kind || ((tp_op_node *)(void *)a->grad_fn)->op != &tp_op_as_strided)
        return true;
    tp_value view;
    if (!tp_call_below(TP_LAYER_GRAD, &tp_op_as_strided, arg, &view))
        return false;
    tp_value_unref(view);
    return true;
}

static bool refresh(tp_tensor *view)
{
    tp_autograd *a = view->autograd;
    char name[64];
    if (a->view_origin == TP_VIEW_MULTI && a->grad_fn)
        return tp_fail(TP_ERR_RUNTIME, "Output %u of %s is a view and its base or another view of its base has been modified inplace. %s",
                       a->slot, tp_grad_node_title(a->grad_fn, name), multi_view);
    tp_value size = tp_value_ints(view->size, view->ndim), stride = tp_value_ints(view->stride, view->ndim);
    tp_value arg[4] = { tp_of_tensor(a->view_from ? a->view_from : a->view_base), size, stride, tp_int(view->offset) };
    const tp_tensor *from = arg[0].tensor;
    bool turn = is_turn(from, view);
    const tp_op *op = turn ? turning_op((tp_dtype)from->dtype, (tp_dtype)view->dtype, tp_signs(from) ^ tp_signs(view)) : &tp_op_as_strided;
    tp_value turned[2] = { arg[0], tp_of_dtype((tp_dtype)view->dtype) };
    tp_op_node *n = size.tag == TP_LIST && stride.tag == TP_LIST && call_to_tracers(a, arg) ? tp_op_node_new(op, turn ? turned : arg, 1) : NULL;
    bool ok = n && tp_slot_describe(&n->node, 0, view) && tp_set_history(view, &n->node, 0);
    if (ok)
        a->view_version = tp_version(view);
    if (ok && a->remade)
        atomic_fetch_add_explicit(&a->remade->count, 1, memory_order_relaxed);
    if (n)
        tp_grad_node_unref(&n->node);
    tp_value_unref(size);
    tp_value_unref(stride);
    return ok;
}

bool tp_grad_fn(tp_tensor *t, tp_grad_node **out, uint32_t *slot)
{
    tp_autograd *a = t->autograd;
    *out = NULL;
    *slot = 0;
    if (!a)
        return true;
    if (a->view_base && a->view_version != tp_version(t) && tp_requires_grad(a->view_base) && !refresh(t))
        return false;
    *out = a->grad_fn;
    *slot = a->slot;
    return true;
}

bool tp_check_inplace(tp_tensor *t, bool requires_grad)
{
    const tp_autograd *a = t->autograd;
    char name[64];
    if (!tp_check_inference(t))
        return false;
    if (!tp_self.grad_mode || !a)
        return true;
    const tp_autograd *base = a->view_base ? a->view_base->autograd : NULL;
    bool tracked = requires_grad || (a->view_base && tp_requires_grad(a->view_base));
    if (a->view_base && tracked && a->view_origin != TP_VIEW_PLAIN) {
        if (a->view_origin == TP_VIEW_MULTI && a->grad_fn)
            return tp_fail(TP_ERR_RUNTIME, "Output %u of %s is a view and is being modified inplace. %s", a->slot,
                           tp_grad_node_title(a->grad_fn, name), multi_view);
        if (a->view_origin == TP_VIEW_NO_GRAD)
            return tp_fail(TP_ERR_RUNTIME, "A view was created in no_grad mode and is being modified inplace with grad mode enabled. %s", no_grad_view);
        if (a->view_origin == TP_VIEW_FUNCTION)
            return tp_fail(TP_ERR_RUNTIME, "Output %u of %s is a view and is being modified inplace. This view was created inside a custom "
                           "Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would override "
                           "the custom backward associated with the custom Function, leading to incorrect gradients. This behavior is "
                           "forbidden. You can fix this by cloning the output of the custom Function.", a->slot,
                           a->grad_fn ? tp_grad_node_title(a->grad_fn, name) : "a custom Function");
    }
    if (base && base->requires_grad && !base->grad_fn)
        return tp_fail(TP_ERR_RUNTIME, "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    if (a->requires_grad && !a->grad_fn)
        return tp_fail(TP_ERR_RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    return true;
}

/* ---- writes ---- */

typedef struct copy_slices {
    tp_grad_node  node;
    tp_grad_node *fn;           /* counted */
    uint32_t      fn_slot;
    tp_value      base_size, base_stride, size, stride;     /* owned lists */
    tp_value      turns;        /* owned list, from the base down: sizes, strides, offset before a turn, dtype and offset after it, signs turned; or none */
    int64_t       base_offset, offset;
} copy_slices;

static copy_slices *slices_of(tp_grad_node *n)
{
    return (copy_slices *)(void *)n;
}

/* A fresh tensor laid out as the base was, holding the whole gradient. */
static bool whole_gradient(const copy_slices *c, tp_value g, tp_value *out)
{
    tp_value arg[3] = { g, c->base_size, c->base_stride }, copied, pair[3];
    if (!tp_call1(&tp_op_new_empty_strided, 3, arg, out))
        return false;
    pair[0] = *out;
    pair[1] = g;
    pair[2] = tp_bool(false);
    if (!tp_call(&tp_op_copy_, pair, &copied)) {
        tp_value_unref(*out);
        return false;
    }
    tp_value_unref(copied);
    return true;
}

static bool copy_into(tp_value to, tp_value from)
{
    tp_value done, arg[3] = { to, from, tp_bool(false) };
    if (from.tag != TP_TENSOR)
        arg[1] = tp_int(0);
    bool ok = tp_call(&tp_op_copy_, arg, &done);
    if (ok)
        tp_value_unref(done);
    return ok;
}

/* The part of the whole gradient that the view saw, as a view of it. */
static bool slice_of(const copy_slices *c, tp_value whole, tp_value *out)
{
    tp_value at = tp_value_ref(whole), next;
    int64_t shift = c->base_offset;
    bool ok = true;
    for (uint32_t i = 0; ok && i < tp_length(c->turns); i++) {
        const tp_value *turn = c->turns.list->item[i].list->item;
        tp_value view[4] = { at, turn[0], turn[1], tp_int(tp_as_int(turn[2]) - shift) }, more[2] = { tp_none(), turn[3] };
        ok = tp_call1(&tp_op_as_strided, 4, view, &more[0]);
        if (!ok)
            break;
        const tp_op *op = turning_op((tp_dtype)more[0].tensor->dtype, (tp_dtype)turn[3].i, (uint32_t)turn[5].i);
        ok = tp_call1(op, op->arg_count, more, &next);
        tp_value_unref(more[0]);
        if (!ok)
            break;
        tp_value_unref(at);
        at = next;
        shift = tp_as_int(turn[4]) - at.tensor->offset;
    }
    tp_value view[4] = { at, c->size, c->stride, tp_int(c->offset - shift) };
    ok = ok && tp_call1(&tp_op_as_strided, 4, view, out);
    tp_value_unref(at);
    return ok;
}

static bool slices_apply(tp_grad_node *n, const tp_value *g, tp_value *out)
{
    copy_slices *c = slices_of(n);
    tp_value whole, slice = tp_none(), mine = tp_none(), zero = tp_none();
    if (g[0].tag != TP_TENSOR)
        return true;
    if (!c->fn)
        return tp_fail(TP_ERR_RUNTIME, "Trying to backward through the graph a second time (or directly access saved tensors after they "
                       "have already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
                       "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if "
                       "you need to access saved tensors after calling backward.");
    if (!whole_gradient(c, g[0], &whole))
        return false;
    tp_value fn_g[8] = { 0 };
    bool ok = slice_of(c, whole, &slice) && tp_call1(&tp_op_clone, 1, &slice, &mine);
    fn_g[c->fn_slot] = mine;
    bool applied = ok = ok && c->fn->kind->apply(c->fn, fn_g, out);
    bool wanted = n->edge[0].node != NULL;      /* a fresh base has no history: nobody asks for the rest */
    if (ok && wanted && out[0].tag != TP_TENSOR) {
        tp_tensor *none = tp_tensor_new_scalar((tp_dtype)slice.tensor->dtype, tp_scalar_int(0));
        ok = (zero = tp_of_tensor(none)).tag == TP_TENSOR;
    }
    ok = ok && (!wanted || copy_into(slice, out[0].tag == TP_TENSOR ? out[0] : zero));
    if (applied) {
        tp_value_unref(out[0]);
        out[0] = tp_none();
    }
    tp_value_unref(zero);
    tp_value_unref(mine);
    tp_value_unref(slice);
    if (ok && wanted) {
        out[0] = whole;
        return true;
    }
    tp_value_unref(whole);
    if (ok)
        return true;
    for (uint32_t i = 1; applied && i < n->edge_count; i++)
        tp_value_unref(out[i]);
    return false;
}

static void slices_release(tp_grad_node *n)
{
    copy_slices *c = slices_of(n);
    tp_grad_node *fn = c->fn;
    c->fn = NULL;
    tp_grad_node_unref(fn);
}

static void slices_free(tp_grad_node *n)
{
    copy_slices *c = slices_of(n);
    slices_release(n);
    tp_value_unref(c->base_size);
    tp_value_unref(c->base_stride);
    tp_value_unref(c->size);
    tp_value_unref(c->stride);
    tp_value_unref(c->turns);
}

static const char *slices_name(const tp_grad_node *n)
{
    (void)n;
    return "torch::autograd::CopySlices";
}

const tp_grad_kind tp_copy_slices_kind = { .apply = slices_apply, .release = slices_release, .free = slices_free, .name = slices_name };

/* How the view comes from its base: see copy_slices.turns. */
static bool list_turns(const tp_tensor *view, tp_value *out)
{
    const tp_tensor *turn[TP_MAX_DIMS];
    int count = 0;
    *out = tp_none();
    for (const tp_tensor *t = view; t->autograd && t->autograd->view_from; t = t->autograd->view_from)
        if (is_turn(t->autograd->view_from, t)) {
            if (count == TP_MAX_DIMS)
                return tp_fail(TP_ERR_UNIMPLEMENTED, "a write through %d changes of dtype or sign", count + 1);
            turn[count++] = t;
        }
    tp_list *all = count ? tp_list_new((uint32_t)count) : NULL;
    bool ok = !count || all;
    for (int i = 0; ok && i < count; i++) {
        const tp_tensor *after = turn[count - 1 - i], *before = after->autograd->view_from;
        tp_list *l = tp_list_new(6);
        if (!(ok = l != NULL))
            break;
        all->item[i] = tp_of_list(l);
        l->item[0] = tp_value_ints(before->size, before->ndim);
        l->item[1] = tp_value_ints(before->stride, before->ndim);
        l->item[2] = tp_int(before->offset);
        l->item[3] = tp_of_dtype((tp_dtype)after->dtype);
        l->item[4] = tp_int(after->offset);
        l->item[5] = tp_int(tp_signs(before) ^ tp_signs(after));
        ok = l->item[0].tag == TP_LIST && l->item[1].tag == TP_LIST;
    }
    if (all)
        *out = tp_of_list(all);
    return ok;
}

static tp_grad_node *slices_new(tp_tensor *view, tp_tensor *base, tp_grad_node *fn, uint32_t slot)
{
    tp_grad_node *n = tp_grad_node_new(&tp_copy_slices_kind, sizeof(copy_slices), fn->edge_count, 1);
    if (!n)
        return NULL;
    copy_slices *c = slices_of(n);
    c->fn = tp_grad_node_ref(fn);
    c->fn_slot = slot;
    c->base_size = tp_value_ints(base->size, base->ndim);
    c->base_stride = tp_value_ints(base->stride, base->ndim);
    c->size = tp_value_ints(view->size, view->ndim);
    c->stride = tp_value_ints(view->stride, view->ndim);
    c->base_offset = base->offset;
    c->offset = view->offset;
    bool ok = list_turns(view, &c->turns) && c->base_size.tag && c->base_stride.tag && c->size.tag && c->stride.tag && tp_slot_describe(n, 0, base);
    ok = ok && tp_gradient_edge(base, &n->edge[0]);
    for (uint32_t i = 1; ok && i < fn->edge_count; i++)
        if (fn->edge[i].node)
            n->edge[i] = (tp_edge){ tp_grad_node_ref(fn->edge[i].node), fn->edge[i].slot };
    if (ok)
        return n;
    tp_grad_node_unref(n);
    return NULL;
}

bool tp_rebase_history(tp_tensor *t, tp_grad_node *node, uint32_t slot)
{
    tp_tensor *base = t->autograd ? t->autograd->view_base : NULL;
    if (!base)
        return tp_set_history(t, node, slot);
    tp_grad_node *slices = slices_new(t, base, node, slot);
    if (!slices)
        return false;
    bool ok = tp_set_history(base, slices, 0) && refresh(t);
    tp_grad_node_unref(slices);
    return ok;
}
