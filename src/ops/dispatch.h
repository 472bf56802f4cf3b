/* dispatch.h - one boxed call path, a few layers.
 *
 * tp_call hands the call to the highest layer that concerns it; the layer does its part and calls on below itself. A
 * layer concerns a call when a mode switched it on in this thread (`active`), when a tensor argument carries its key, or
 * when the op asks for it (`op->layers`).
 *
 * Two things are kept apart. Going on below for the *same* op: tp_call_below. Calling *other* ops from inside a layer (a
 * decomposition, a cast): plain tp_call, which starts again at the top of what is not excluded. Each layer says which
 * layers are shut for everything that happens inside it; tp_call alone sets and restores that, so no layer can forget to
 * exclude itself. */
#ifndef TP_OPS_DISPATCH_H
#define TP_OPS_DISPATCH_H

#include "ops/op.h"

/* Bits, lowest layer first; also bits of tp_tensor.keys. */
typedef enum tp_layer_id {
    TP_LAYER_KERNEL,
    TP_LAYER_SIGNS,             /* conjugates and negatives that nobody has computed yet: signs.h */
    TP_LAYER_FAKE,
    TP_LAYER_TRACE_R,           /* functionalise and record below autograd: AOT, make_fx */
    TP_LAYER_DISPATCH,          /* __torch_dispatch__: modes, then subclasses */
    TP_LAYER_GRAD,
    TP_LAYER_JIT,               /* jit recorder: the outermost op only */
    TP_LAYER_AUTOCAST,
    TP_LAYER_TRANSFORM,         /* vmap, grad, jvp, functionalize levels */
    TP_LAYER_TRACE_P,           /* pre-dispatch tracing */
    TP_LAYER_COUNT
} tp_layer_id;

#define TP_LAYER_BIT(id) (1u << (id))
_Static_assert(TP_KEYS_OF_ALIAS == (TP_LAYER_BIT(TP_LAYER_FAKE) | TP_LAYER_BIT(TP_LAYER_TRACE_R) | TP_LAYER_BIT(TP_LAYER_TRANSFORM)) &&
                   TP_KEYS_OF_SIGNS == (TP_LAYER_BIT(TP_LAYER_SIGNS) | TP_KEY_CONJ | TP_KEY_NEG),
               "tensor.h names these bits by number");
#define TP_ALL_LAYERS (TP_LAYER_BIT(TP_LAYER_COUNT) - 1)

typedef struct tp_layer {
    const char *name;
    tp_run_fn  *call;           /* what it does with a call; goes on with tp_call_below(TP_LAYER_…, op, …) */
    uint32_t    shuts;          /* layers excluded for everything inside `call`, itself included or not */
} tp_layer;

/* Runs an op: arg has op->arg_count values, all present (defaults filled in), borrowed; result has room for
 * op->result_count and is owned by the caller on success, untouched on failure. */
TP_API TP_CHECK bool tp_call(const tp_op *op, const tp_value *arg, tp_value *result);
/* The same op, by layers below `layer` only; what it calls starts below `layer` too. */
TP_API TP_CHECK bool tp_call_below(tp_layer_id layer, const tp_op *op, const tp_value *arg, tp_value *result);
/* The same, for a layer that has nothing to do with the op: what the op calls may meet the layer again. */
TP_API TP_CHECK bool tp_call_past(tp_layer_id layer, const tp_op *op, const tp_value *arg, tp_value *result);
/* Opens an op here: its decomposition, whose pieces start at the top of what is not excluded. */
TP_API TP_CHECK bool tp_call_open(const tp_op *op, const tp_value *arg, tp_value *result);

/* A call was made, but what had to be noted of it could not be: its results are dropped, and the caller finds none. False. */
TP_API bool tp_call_take_back(const tp_op *op, tp_value *result);

/* The union of the keys of all tensors among the arguments, lists included. */
TP_API uint32_t tp_keys_of(const tp_op *op, const tp_value *arg);

/* Runs `op` by its own kernel or tile program; where the layers end. */
TP_API TP_CHECK bool tp_run_bottom(const tp_op *op, const tp_value *arg, tp_value *result);

#endif
