/* wrapper.h - a compiled program in the place of the one it was made from: same values, same gradients, same writes.
 *
 *     call:   forward(inputs) ─► returned inputs | outputs | bases | saved
 *             a tape node takes what needs a gradient and keeps what is saved
 *             returned inputs are written back, views are made again from what the caller has
 *     later:  the node runs the backward, which is compiled when first needed
 *
 * What is compiled comes from the host: functions over values. Compiling never touches the caller's tensors.
 *
 * Owners: counted; tape nodes count it too. It owns its facts and what the host gives.
 * Fails: what the compiled functions fail with; TP_ERR_ASSERTION where a call breaks what was assumed (checks on). */
#ifndef TP_AOT_WRAPPER_H
#define TP_AOT_WRAPPER_H

#include "aot/facts.h"

typedef struct tp_aot_code {
    void *context;              /* owned through free, may be NULL */
    /* `in` is borrowed; `out` has room for `results`, owned by the caller afterwards. */
    bool (*call)(void *context, const tp_value *in, uint32_t count, tp_value *out, uint32_t results);
    void (*free)(void *context);
} tp_aot_code;

typedef struct tp_aot_function {
    tp_count refs;
    tp_aot_facts facts;         /* owned */
    tp_aot_code forward;        /* owned */
    tp_aot_code backward;       /* owned; call is NULL until first needed */
    bool (*compile_backward)(void *host, tp_aot_code *out);
    void *host;                 /* borrowed by these two: owned through free_host */
    void (*free_host)(void *host);
    uint32_t saved_tensors, saved_sizes;
    bool     checks;            /* config.debug_assert */
    int64_t  id;                /* of the compilation, for messages */
} tp_aot_function;

/* Takes facts and forward, also when it fails. */
TP_API TP_CHECK tp_aot_function *tp_aot_function_new(tp_aot_facts *facts, tp_aot_code forward);
TP_API tp_aot_function *tp_aot_function_ref(tp_aot_function *f);
TP_API void tp_aot_function_unref(tp_aot_function *f);          /* NULL is fine */
/* A call: one value for each face, one owned value for each output. */
TP_API TP_CHECK bool tp_aot_function_call(tp_aot_function *f, const tp_value *in, tp_value *out);

#endif
