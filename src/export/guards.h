/* guards.h - what tracing took for granted of sizes and no range says: conditions that every call must meet.
 *
 *     L['x'].size()[0] < L['y'].size()[0]        (L['x'].size()[0] % 4) == 0        math.trunc(1.5*torch.sym_float(L['x'].size()[0])) > 10
 *
 * Their texts, PyTorch's guards_code, are what Python and files keep; read, they are expressions over the sizes of inputs alone, in an
 * environment of their own that knows nothing of the trace: there nothing holds before it was computed.
 *
 * `L['x'][0]['k']` is the user input whose placeholder is named x_0_k, as placeholders are named by the paths of their inputs.
 * Owners: the caller owns the guards; they keep no pointer to graph or signature. Immutable: threads may share them.
 * Fails: TP_ERR_UNIMPLEMENTED, naming it, for a text that cannot be read; TP_ERR_ASSERTION, with PyTorch's words, for a call that does
 * not meet one. */
#ifndef TP_EXPORT_GUARDS_H
#define TP_EXPORT_GUARDS_H

#include "export/signature.h"
#include "sym/env.h"

typedef struct tp_guards tp_guards;

TP_API TP_CHECK tp_guards *tp_guards_new(const tp_graph *g, const tp_signature *s, const char *const *text, size_t count);
TP_API void tp_guards_free(tp_guards *guards);          /* NULL is fine */
/* Inputs as tp_inputs_check takes them, which has checked them. Symbolic sizes are asked, so that a trace of the call has the guards. */
TP_API TP_CHECK bool tp_guards_check(const tp_guards *guards, const tp_value *input, size_t count);

/* The texts, in `a`, of what the environment recorded and decided since it had `first` guards, without those that follow from what
 * tp_inputs_check enforces. */
TP_API TP_CHECK bool tp_guards_collect(const tp_graph *g, const tp_signature *s, tp_shape_env *env, size_t first, tp_arena *a,
                                       const char ***text, size_t *count);

#endif
