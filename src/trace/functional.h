/* functional.h - programs that write become programs that do not.
 *
 *     y = x.clone()                      %clone  = aten.clone(%x)
 *     z = y[0]                           %select = aten.select(%clone, 0, 0)
 *     z.add_(1)               =>         %add    = aten.add(%select, 1)
 *     return y                           %next   = aten.select_scatter(%clone, %add, 0, 0)
 *                                        return %next
 *
 * Inside, every tensor of the program is a wrapper: a fake tensor that knows the *state* it looks into (one for all views of
 * one base: its newest value and how often it was written) and by which views it looks there. A write computes the new
 * value by the functional variant of the op, carries it through the inverses of the views to the base, and bumps the
 * state; other views notice that they are stale when next used and look again. What is below (a recorder, kernels, the next
 * level) sees functional calls on plain values only.
 *
 * One function serves three places: mounted at R above a recorder (AOT), at P (export), or as a level of the transform stack
 * (torch.func.functionalize). Views stay views; composites are opened where the layer table says.
 *
 * Owners: a wrapper owns its part of this bookkeeping, counts its state and its value. The functionaliser must outlive its
 * last call, not its wrappers: one that escapes is an ordinary fake tensor. The caller wraps inputs and asks at the end.
 * An op of the program that writes has no functional variant: the op derived from it is called (ops/derived.h).
 * Fails: TP_ERR_UNIMPLEMENTED naming an op of ours that writes and has no functional variant, or a view without an inverse that was
 * written through; TP_ERR_RUNTIME where a tensor from outside is written with traced values. */
#ifndef TP_TRACE_FUNCTIONAL_H
#define TP_TRACE_FUNCTIONAL_H

#include "trace/mount.h"

typedef struct tp_functional tp_functional;

TP_API TP_CHECK tp_functional *tp_functional_new(void);
TP_API void tp_functional_free(tp_functional *f);                                   /* NULL is fine; must not be entered */
TP_API void tp_functional_enter(tp_functional *f, tp_layer_id layer);               /* TRACE_R, TRACE_P or TRANSFORM */
TP_API void tp_functional_leave(tp_functional *f);

/* A wrapper around `value`, which it counts; a new state. Requires no gradient: set that on the wrapper where autograd is
 * above, keep it on the value where it is below. */
TP_API TP_CHECK tp_tensor *tp_functional_wrap(tp_functional *f, tp_tensor *value);
TP_API bool tp_is_functional(const tp_functional *f, const tp_tensor *t);           /* a wrapper of this functionaliser */
/* The newest value behind a wrapper, counted; views that are stale are made again by calls. Call it after leaving, so that
 * a recorder still sees these calls. A tensor that is no wrapper is its own value. */
TP_API TP_CHECK tp_tensor *tp_functional_value(tp_functional *f, tp_tensor *t);
/* Every tensor of a value unwrapped, containers kept; the result is owned. */
TP_API TP_CHECK bool tp_functional_unwrap(tp_functional *f, tp_value v, tp_value *out);

/* What happened to an input since it was wrapped. */
typedef struct tp_functional_changes {
    bool data;                  /* its elements were written, by itself or through any view of its state */
    bool metadata;              /* its sizes, strides or offset are others now (t_, squeeze_) */
    bool storage;               /* set_ gave it the memory of another tensor */
    bool hidden;                /* all writes went through a detached alias: autograd need not know */
    bool no_grad;               /* all writes were made under no_grad or inference_mode (or hidden) */
} tp_functional_changes;
TP_API tp_functional_changes tp_functional_changes_of(const tp_functional *f, const tp_tensor *wrapper);
/* Do two wrappers look into the same state? */
TP_API bool tp_functional_share(const tp_tensor *a, const tp_tensor *b);
/* The views between a wrapper and its state, base first: `visit` gets the op, its arguments (the first is none) and which
 * of several results was taken (-1: the only one). Gives how many; stops when visit says false. */
typedef bool tp_functional_visit(const tp_op *op, const tp_value *arg, int64_t index, void *user);
TP_API size_t tp_functional_each_view(const tp_tensor *wrapper, tp_functional_visit *visit, void *user);

#endif
