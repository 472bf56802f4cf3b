/* grad_level.h - one level of torch.func.grad and vjp: a tape of its own above everything that was there before.
 *
 * Inside a level every tensor is a wrapper: an alias whose autograd data belong to this level alone, and which remembers the
 * tensor it stands for. A call that comes to the level goes through autograd with the wrappers, then, unwrapped, to the
 * next level or the layers below, so that each level records its own history and an outer one sees the inner one's work.
 * Tensors from outside are constants to the level.
 *
 *     grad(grad(f))     level 2:  wrapper of wrapper of x     tape 2
 *                       level 1:  wrapper of x                tape 1, records what level 2's formulas call
 *
 * Owners: a wrapper counts what it wraps; the level must outlive its last call, not its wrappers, which are plain aliases
 * once it is gone. It may be entered again, also on another stack: a vjp function runs its formulas inside its level.
 * Fails: writes into a tensor from outside, as PyTorch says; what ops and autograd fail with. */
#ifndef TP_TRACE_GRAD_LEVEL_H
#define TP_TRACE_GRAD_LEVEL_H

#include "trace/mount.h"

typedef struct tp_grad_level tp_grad_level;

TP_API TP_CHECK tp_grad_level *tp_grad_level_new(void);
TP_API void tp_grad_level_free(tp_grad_level *l);               /* NULL is fine; must not be entered */
/* Gradients are on inside, whatever they were outside; leaving restores that. */
TP_API void tp_grad_level_enter(tp_grad_level *l);
TP_API void tp_grad_level_leave(tp_grad_level *l);
TP_API tp_grad_level *tp_grad_level_at(tp_mount *m);            /* is this mount a level of grad? NULL: it is not */
TP_API TP_CHECK tp_tensor *tp_grad_level_wrap(const tp_grad_level *l, tp_tensor *t);    /* counted; a wrapper of this level stays itself */
TP_API tp_tensor *tp_grad_level_unwrap(const tp_grad_level *l, tp_tensor *t);           /* counted; itself when it is no wrapper of this level */

#endif
