/* dispatch.c - which layer has the call. */
#include "ops/dispatch.h"

#include "base/alloc.h"
#include "base/runtime.h"
#include "ops/hooks.h"
#include "sym/sym.h"

static uint32_t keys_of_value(tp_value v)
{
    if (v.tag == TP_TENSOR)
        return v.tensor->keys;
    uint32_t keys = 0;
    if (v.tag == TP_LIST)
        for (uint32_t i = 0; i < v.list->count; i++)
            keys |= keys_of_value(v.list->item[i]);
    return keys;
}

uint32_t tp_keys_of(const tp_op *op, const tp_value *arg)
{
    uint32_t keys = 0;
    for (int i = 0; i < op->arg_count; i++)
        if (arg[i].tag == TP_TENSOR || arg[i].tag == TP_LIST)
            keys |= keys_of_value(arg[i]);
    return keys;
}

/* Hands the call to the highest layer of those that concern it among `open`. What that layer shuts stays shut until it returns. */
static bool hand_over(uint32_t open, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_thread *self = &tp_self;
    uint32_t todo = (self->active | op->layers | tp_keys_of(op, arg)) & open;
    if (TP_LIKELY(!(todo &= TP_ALL_LAYERS & ~TP_LAYER_BIT(TP_LAYER_KERNEL))))
        return tp_run_bottom(op, arg, result);
    /* A composite is opened at autograd's place even when nothing wants a gradient: whoever is below sees its pieces. */
    if (op->kind == TP_LIKE_COMPOSITE && op->open)
        todo |= open & TP_LAYER_BIT(TP_LAYER_GRAD);

    const tp_layer *layer = tp_the_runtime.layer[31 - __builtin_clz(todo)];
    if (!layer)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "a tensor or mode asks for a layer that this build does not have");
    uint32_t allowed = self->allowed;
    self->allowed = allowed & ~layer->shuts;
    bool ok = layer->call(op, arg, result);
    self->allowed = allowed;
    return ok;
}

bool tp_call(const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_thread *self = &tp_self;
    return hand_over(self->allowed, op, arg, result);
}

bool tp_call_below(tp_layer_id layer, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_thread *self = &tp_self;
    uint32_t allowed = self->allowed;
    self->allowed = allowed & (TP_LAYER_BIT(layer) - 1);
    bool ok = hand_over(self->allowed, op, arg, result);
    self->allowed = allowed;
    return ok;
}

bool tp_call_past(tp_layer_id layer, const tp_op *op, const tp_value *arg, tp_value *result)
{
    const tp_thread *self = &tp_self;
    return hand_over(self->allowed & (TP_LAYER_BIT(layer) - 1), op, arg, result);
}

bool tp_call_open(const tp_op *op, const tp_value *arg, tp_value *result)
{
    char name[128];
    if (!op->open)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "%s has no decomposition", tp_op_full_name(op, name));
    return op->open(op, arg, result);
}

bool tp_call_take_back(const tp_op *op, tp_value *result)
{
    for (int i = 0; i < op->result_count; i++) {
        tp_value_unref(result[i]);
        result[i] = tp_none();
    }
    return false;
}

/* What the arguments say of the work to come. */
typedef struct survey {
    bool    meta;               /* a tensor without memory, or its device, is among them: geometry alone */
    bool    symbolic;           /* a number of a shape environment: kernels want numbers */
    bool    hollow;             /* one should have memory and has none: a wrapper of a Python class met with its class off, a storage of no bytes */
    int64_t elements;           /* of all tensors */
} survey;

static inline void note_tensor(survey *s, const tp_tensor *t)
{
    bool cpu = t->device.type == TP_CPU;
    s->meta |= !cpu;
    s->hollow |= cpu && t->numel && !t->storage->data;
    s->elements += t->numel;
}

static survey look_at(const tp_op *op, const tp_value *arg)
{
    survey s = { 0 };
    for (int i = 0; i < op->arg_count; i++) {
        if (arg[i].tag == TP_TENSOR) {
            note_tensor(&s, arg[i].tensor);
        } else if (arg[i].tag == TP_DEVICE) {
            s.meta |= arg[i].device.type != TP_CPU;
        } else if (arg[i].tag == TP_SYM) {
            s.symbolic = true;
        } else {
            for (uint32_t k = 0; k < tp_length(arg[i]); k++) {
                const tp_tensor *t = tp_as_tensor(arg[i].list->item[k]);
                s.symbolic |= arg[i].list->item[k].tag == TP_SYM;
                if (t)
                    note_tensor(&s, t);
            }
        }
    }
    return s;
}

/* ---- long work runs without the GIL ---- */

static void each_tensor(const tp_op *op, const tp_value *arg, void (*visit)(tp_tensor *t, void *user), void *user)
{
    for (int i = 0; i < op->arg_count; i++) {
        if (arg[i].tag == TP_TENSOR)
            visit(arg[i].tensor, user);
        for (uint32_t k = 0; k < tp_length(arg[i]); k++)
            if (arg[i].list->item[k].tag == TP_TENSOR)
                visit(arg[i].list->item[k].tensor, user);
    }
}

static void hold(tp_tensor *t, void *user)
{
    (void)user;
    tp_tensor_ref(t);
}

static void drop(tp_tensor *t, void *user)
{
    (void)user;
    tp_tensor_unref(t);
}

/* More than about 20 microseconds of work that calls nothing but itself. */
static bool is_long(const tp_op *op, int64_t elements)
{
    const tp_op *base = op->base ? op->base : op;
    return elements > (op->kind == TP_LIKE_CONTRACTION ? 1 << 14 : 1 << 16) && tp_the_runtime.python.release_gil &&
           (base->work->kernel || base->pointwise || base->work->reducing) && !(op->flags & TP_OP_RUNTIME) &&
           tp_the_runtime.python.may_touch();
}

/* The arguments are held by a plain count taken first, so nothing inside comes near the steps that need the GIL. */
static bool run_released(const tp_op *op, const tp_value *arg, tp_value *result)
{
    void *state = NULL;
    each_tensor(op, arg, hold, NULL);
    tp_the_runtime.python.release_gil(&state);
    bool ok = op->run(op, arg, result);
    tp_the_runtime.python.restore_gil(&state);
    each_tensor(op, arg, drop, NULL);
    return ok;
}

/* ---- numbers that are decided now ---- */

static bool decide(tp_value v, tp_value *out)
{
    tp_sym x = { v.sym };
    *out = tp_none();
    if (v.tag == TP_SYM) {
        bool truth = false;
        int64_t whole = 0;
        double real = 0;
        tp_sym_type type = tp_sym_type_of(x);
        if (!(type == TP_SYM_BOOL ? tp_sym_guard(x, &truth) : type == TP_SYM_INT ? tp_sym_guard_int(x, &whole) : tp_sym_guard_float(x, &real)))
            return false;
        *out = type == TP_SYM_BOOL ? tp_bool(truth) : type == TP_SYM_INT ? tp_int(whole) : tp_float(real);
        return true;
    }
    if (v.tag != TP_LIST) {
        *out = tp_value_ref(v);
        return true;
    }
    tp_list *l = tp_list_new(v.list->count);
    *out = l ? tp_of_list(l) : tp_none();
    for (uint32_t i = 0; l && i < l->count; i++)
        if (!decide(v.list->item[i], &l->item[i]))
            return false;
    return l != NULL;
}

/* Without a layer that traces, a symbolic number is what it is in the example, and that is guarded. */
static bool run_decided(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_value *plain = tp_alloc_array(op->arg_count, sizeof *plain);
    bool ok = plain != NULL;
    int count = 0;
    while (ok && count < op->arg_count) {
        ok = decide(arg[count], &plain[count]);
        count++;
    }
    ok = ok && tp_run_bottom(op, plain, result);
    if (plain)
        tp_values_unref(plain, count);
    tp_free(plain);
    return ok;
}

bool tp_run_bottom(const tp_op *op, const tp_value *arg, tp_value *result)
{
    survey s = look_at(op, arg);
    if (TP_UNLIKELY(s.symbolic) && !(op->flags & TP_OP_RUNTIME) && !op->rare->graphs)
        return run_decided(op, arg, result);
    if (TP_UNLIKELY(s.meta) && !(op->flags & TP_OP_RUNTIME) && op->kind != TP_LIKE_VIEW && op->kind != TP_LIKE_COMPOSITE)
        return tp_run_meta(op, arg, result);
    if (TP_UNLIKELY(s.hollow) && op->kind != TP_LIKE_VIEW && op->kind != TP_LIKE_COMPOSITE && (op->work->kernel || op->pointwise || op->work->reducing))
        return tp_fail(TP_ERR_RUNTIME, "The tensor has a non-zero number of elements, but its data is not allocated yet.\nIf you're using torch.compile/export/fx, "
                       "it is likely that we are erroneously tracing into a custom kernel. To fix this, please wrap the custom kernel into an opaque custom op. "
                       "Please see the following for details: https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html\nIf you're using Caffe2, Caffe2 "
                       "uses a lazy allocation, so you will need to call mutable_data() or raw_mutable_data() to actually allocate memory.");
    return TP_UNLIKELY(is_long(op, s.elements)) ? run_released(op, arg, result) : op->run(op, arg, result);
}
