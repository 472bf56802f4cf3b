/* mount.c - the four layers whose work is done by whoever is mounted there. */
#include "trace/mount.h"

#include <assert.h>

#include "trace/level.h"

static tp_mount **stack_of(tp_layer_id layer)
{
    tp_thread *self = &tp_self;
    switch (layer) {
    case TP_LAYER_TRACE_P:   return &self->tracer[0];
    case TP_LAYER_TRACE_R:   return &self->tracer[1];
    case TP_LAYER_JIT:       return &self->recorder;
    default:                 return &self->transforms;
    }
}

void tp_mount_push(tp_mount *m, tp_layer_id layer)
{
    tp_mount **top = stack_of(layer);
    m->layer = (uint8_t)layer;
    m->outer = *top;
    *top = m;
    tp_self.active |= TP_LAYER_BIT(layer);
}

void tp_mount_pop(tp_mount *m)
{
    tp_mount **top = stack_of((tp_layer_id)m->layer), **at = top;
    while (*at && *at != m)
        at = &(*at)->outer;
    assert(*at == m);
    *at = m->outer;
    if (!*top)
        tp_self.active &= ~TP_LAYER_BIT(m->layer);
}

static bool hand_to(tp_layer_id layer, const tp_op *op, const tp_value *arg, tp_value *result);

bool tp_mount_next(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (m->layer == TP_LAYER_TRANSFORM && (m->outer || (tp_self.tracer[0] && (tp_self.allowed & TP_LAYER_BIT(TP_LAYER_TRACE_P)))))
        return tp_call(op, arg, result);
    if (m->layer == TP_LAYER_TRANSFORM && (tp_keys_of(op, arg) & TP_LAYER_BIT(TP_LAYER_TRANSFORM)))    /* wrappers of levels long gone */
        return tp_level_call_outside(op, arg, result);
    if (m->passes && m->outer)
        return hand_to((tp_layer_id)m->layer, op, arg, result);
    if (m->layer == TP_LAYER_JIT)               /* shut already; autocast above it stays open for the pieces of the op */
        return tp_call_past(TP_LAYER_JIT, op, arg, result);
    return tp_call_below((tp_layer_id)m->layer, op, arg, result);
}

bool tp_mount_reopen(tp_mount *m, tp_mount_work *work, const tp_op *op, const tp_value *arg, tp_value *result, void *user)
{
    tp_mount **top = stack_of((tp_layer_id)m->layer), *inside = *top;
    uint32_t active = tp_self.active, allowed = tp_self.allowed;
    *top = m;
    tp_self.active |= TP_LAYER_BIT(m->layer);
    tp_self.allowed |= TP_LAYER_BIT(m->layer);
    bool ok = work(op, arg, result, user);
    *top = inside;
    tp_self.active = active;
    tp_self.allowed = allowed;
    return ok;
}

/* Off the stack while it works, whatever happens inside. */
static bool hand_to(tp_layer_id layer, const tp_op *op, const tp_value *arg, tp_value *result)
{
    tp_mount **top = stack_of(layer), *m = *top;
    if (!m)
        return tp_call_below(layer, op, arg, result);
    uint32_t active = tp_self.active, allowed = tp_self.allowed;
    *top = m->outer;
    if (!m->outer)
        tp_self.active &= ~TP_LAYER_BIT(layer);
    if (m->passes && m->outer)          /* its own calls begin at the next tracer: the layers above have had the op */
        tp_self.allowed = (allowed & (TP_LAYER_BIT(layer) - 1)) | TP_LAYER_BIT(layer);
    bool ok = m->call(m, op, arg, result);
    *top = m;
    tp_self.active = active;
    tp_self.allowed = allowed;
    return ok;
}

/* A tracer at P knows nothing of wrappers: levels have the call first, and what they make of it comes to the tracer. */
static bool at_p(const tp_op *op, const tp_value *arg, tp_value *result)
{
    if (!tp_self.transforms)
        return hand_to(TP_LAYER_TRACE_P, op, arg, result);
    tp_self.allowed |= TP_LAYER_BIT(TP_LAYER_TRACE_P);
    return hand_to(TP_LAYER_TRANSFORM, op, arg, result);
}

static bool at_r(const tp_op *op, const tp_value *arg, tp_value *result) { return hand_to(TP_LAYER_TRACE_R, op, arg, result); }
static bool at_jit(const tp_op *op, const tp_value *arg, tp_value *result) { return hand_to(TP_LAYER_JIT, op, arg, result); }
static bool at_transform(const tp_op *op, const tp_value *arg, tp_value *result)
{
    return tp_self.transforms || tp_self.levels ? hand_to(TP_LAYER_TRANSFORM, op, arg, result) : tp_level_call_outside(op, arg, result);
}

static const tp_layer layers[] = {
    { .name = "pre-dispatch trace", .call = at_p, .shuts = TP_LAYER_BIT(TP_LAYER_TRACE_P) },
    { .name = "trace", .call = at_r, .shuts = TP_LAYER_BIT(TP_LAYER_TRACE_R) },
    { .name = "jit recorder", .call = at_jit, .shuts = TP_LAYER_BIT(TP_LAYER_JIT) },
    { .name = "transforms", .call = at_transform },
};

__attribute__((constructor)) static void mount_layers(void)
{
    tp_the_runtime.layer[TP_LAYER_TRACE_P] = &layers[0];
    tp_the_runtime.layer[TP_LAYER_TRACE_R] = &layers[1];
    tp_the_runtime.layer[TP_LAYER_JIT] = &layers[2];
    tp_the_runtime.layer[TP_LAYER_TRANSFORM] = &layers[3];
}
