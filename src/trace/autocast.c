/* autocast.c - the layer, and the casts it keeps. */
#include "trace/autocast.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "grad/tape.h"
#include "ops/known.h"
#include "trace/fake.h"

static void forget(tp_autocast_state *s)
{
    for (size_t i = 0; i < s->kept_count; i++) {
        tp_tensor_unref(s->kept[i].from);
        tp_tensor_unref(s->kept[i].to);
    }
    tp_free(s->kept);
    s->kept = NULL;
    s->kept_count = s->kept_room = 0;
}

static void set_active(const tp_autocast_state *s)
{
    if (s && s->enabled)
        tp_self.active |= TP_LAYER_BIT(TP_LAYER_AUTOCAST);
    else
        tp_self.active &= ~TP_LAYER_BIT(TP_LAYER_AUTOCAST);
}

void tp_autocast_enter(tp_autocast_state *s, bool enabled, tp_dtype dtype, bool cache)
{
    *s = (tp_autocast_state){ .outer = tp_self.autocast, .enabled = enabled, .cache = cache, .dtype = (uint8_t)dtype };
    tp_self.autocast = s;
    set_active(s);
}

void tp_autocast_leave(tp_autocast_state *s)
{
    forget(s);
    if (tp_self.autocast != s)
        return;
    tp_self.autocast = s->outer;
    set_active(s->outer);
}

void tp_autocast_change(tp_autocast_state *s, bool enabled, tp_dtype dtype, bool cache)
{
    s->enabled = enabled;
    s->cache = cache;
    s->dtype = (uint8_t)dtype;
    set_active(tp_self.autocast);
}

/* Casts are kept by the outermost region: a weight is cast once, however the regions nest. */
static tp_autocast_state *keeper(tp_autocast_state *s)
{
    while (s->outer)
        s = s->outer;
    return s;
}

void tp_autocast_clear(void)
{
    if (tp_self.autocast)
        forget(keeper(tp_self.autocast));
}

static tp_tensor *kept_cast(const tp_autocast_state *s, const tp_tensor *t, tp_dtype to)
{
    for (size_t i = 0; i < s->kept_count; i++)
        if (s->kept[i].from == t && s->kept[i].to->dtype == to)
            return s->kept[i].to;
    return NULL;
}

static bool cast_tensor(tp_autocast_state *s, tp_tensor *t, tp_dtype to, tp_value *out)
{
    /* A cast made for a capture or trace belongs to it: fakes have no data, and a later trace would find a constant. */
    bool traced = tp_self.fake || tp_self.tracer[0] || tp_self.tracer[1] || tp_self.recorder || tp_is_fake(t);
    bool keep = s->cache && !traced && to != TP_f32 && t->dtype == TP_f32 && tp_requires_grad(t) && tp_is_leaf(t);
    tp_autocast_state *outermost = keeper(s);
    tp_tensor *before = keep ? kept_cast(outermost, t, to) : NULL;
    if (before) {
        *out = tp_of_tensor(tp_tensor_ref(before));
        return true;
    }
    tp_value arg[2] = { tp_of_tensor(t), tp_of_dtype(to) };
    if (!tp_call1(&tp_op__to_copy, 2, arg, out))
        return false;
    if (!keep)
        return true;
    if (outermost->kept_count < outermost->kept_room ||
        tp_array_grow((void **)&outermost->kept, &outermost->kept_room, outermost->kept_count + 1, sizeof *outermost->kept))
        outermost->kept[outermost->kept_count++] = (struct tp_cast){ tp_tensor_ref(t), tp_tensor_ref(out->tensor) };
    else
        tp_error_clear();           /* it will be cast again: slower, not wrong */
    return true;
}

static bool eligible(const tp_tensor *t)
{
    return tp_dtype_is_float((tp_dtype)t->dtype) && t->dtype != TP_f64 && t->device.type == TP_CPU;
}

static bool cast_value(tp_autocast_state *s, tp_value v, tp_dtype to, tp_value *out)
{
    if (v.tag == TP_TENSOR && eligible(v.tensor) && v.tensor->dtype != to)
        return cast_tensor(s, v.tensor, to, out);
    if (v.tag != TP_LIST || !v.list->count || v.list->item[0].tag != TP_TENSOR) {
        *out = tp_value_ref(v);
        return out->tag == v.tag;
    }
    tp_list *l = tp_list_new(v.list->count);
    bool ok = l != NULL;
    for (uint32_t i = 0; ok && i < l->count; i++)
        ok = cast_value(s, v.list->item[i], to, &l->item[i]);
    *out = ok ? tp_of_list(l) : tp_none();
    if (!ok && l)
        tp_value_unref(tp_of_list(l));
    return ok;
}

static void widest_of(tp_value v, tp_dtype *widest)
{
    if (v.tag == TP_TENSOR && eligible(v.tensor))
        *widest = tp_dtype_promote(*widest, (tp_dtype)v.tensor->dtype);
    for (uint32_t i = 0; i < tp_length(v); i++)
        widest_of(v.list->item[i], widest);
}

static bool autocast_call(const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_autocast_state *s = tp_self.autocast;
    if (!s || op->autocast == TP_AUTOCAST_NONE) {
        /* The jit recorder, which stands below, wants a composite whole; its pieces come back here from where it opens. */
        bool recorded = tp_self.active & tp_self.allowed & TP_LAYER_BIT(TP_LAYER_JIT);
        if (s && op->kind == TP_LIKE_COMPOSITE && op->open && !op->rare->graphs && !recorded)
            return op->open(op, arg, result);
        return tp_call_past(TP_LAYER_AUTOCAST, op, arg, result);
    }
    tp_dtype to = op->autocast == TP_AUTOCAST_FP32 ? TP_f32 : (tp_dtype)s->dtype;
    if (op->autocast == TP_AUTOCAST_PROMOTE)
        for (int i = 0; i < op->arg_count; i++)
            widest_of(arg[i], &to);
    tp_value cast[64];
    int n = op->arg_count;
    uint32_t active = tp_self.active;
    tp_self.active &= ~TP_LAYER_BIT(TP_LAYER_AUTOCAST);     /* the casts themselves are not cast */
    while (n > 0 && cast_value(s, arg[n - 1], to, &cast[n - 1]))        /* the last first, as graphs of PyTorch show */
        n--;
    tp_self.active = active;
    bool ok = n == 0 && tp_call_below(TP_LAYER_AUTOCAST, op, cast, result);
    tp_values_unref(cast + n, (size_t)(op->arg_count - n));
    return ok;
}

static const tp_layer autocast_layer = { .name = "autocast", .call = autocast_call };

__attribute__((constructor)) static void mount_layer(void)
{
    tp_the_runtime.layer[TP_LAYER_AUTOCAST] = &autocast_layer;
}
