/* mount.h - observers of calls: tracers, the jit recorder, the levels of the transform stack.
 *
 * A mount is what a layer of the dispatcher hands its calls to. Mounts of one kind form a stack in the thread, innermost
 * first; while any is there the layer is active. While a mount has a call it is off its stack, so that what it calls meets
 * the next one; a tracer at P or R and the recorder also shut their own layer for everything inside, a transform does not:
 * the levels below it must still act. Owned by whoever pushed it. */
#ifndef TP_TRACE_MOUNT_H
#define TP_TRACE_MOUNT_H

#include "ops/dispatch.h"

typedef struct tp_mount {
    struct tp_mount *outer;             /* borrowed */
    /* Does its part of the call; goes on with tp_mount_next. */
    bool (*call)(struct tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result);
    uint8_t layer;                      /* TP_LAYER_TRACE_P, _TRACE_R, _JIT or _TRANSFORM */
    bool    passes;                     /* of a tracer: what it calls meets the next tracer of its layer, as nothing else does */
} tp_mount;

TP_API void tp_mount_push(tp_mount *m, tp_layer_id layer);
TP_API void tp_mount_pop(tp_mount *m);                  /* also from under others: levels that Python enters and leaves need not nest */
/* The rest of the way of a call that the mount does not replace: the next level, or the layers below. */
TP_API TP_CHECK bool tp_mount_next(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result);
/* Inside the call of a mount: `work` runs with the mount back in its place, as if the op had not come to it yet, so that
 * the pieces of an op it opens meet it again. */
typedef bool tp_mount_work(const tp_op *op, const tp_value *arg, tp_value *result, void *user);
TP_API TP_CHECK bool tp_mount_reopen(tp_mount *m, tp_mount_work *work, const tp_op *op, const tp_value *arg, tp_value *result, void *user);

#endif
