/* jvp_level.h - one level of forward mode: every tensor of the level is a primal and, where one flows, its tangent.
 *
 * A wrapper stands for `inner` and `tangent`, both one level down. A call that comes to the level goes through autograd with the
 * wrappers (who may have a history of their own), then to the next level with the inner tensors; the op's `jvp` makes the
 * tangents of the results from calls that begin there too. So outer levels, grad or jvp, differentiate what a level does.
 *
 *     closed   torch.func.jvp: whatever is made inside is a wrapper, tensors from outside are constants and may not be written
 *     open     autograd.forward_ad: only what meets a dual tensor is a wrapper; a tensor written with one becomes one
 *
 * Views: the tangent of a view is the view of the tangent, and lies in its memory. A view without one asks its base when it is
 * read, and gives the base zeros when it is written.
 * Owners: as of level.h. Fails: ops that have a gradient but no rule, `out=` ops, as PyTorch says; what ops fail with. */
#ifndef TP_TRACE_JVP_LEVEL_H
#define TP_TRACE_JVP_LEVEL_H

#include "trace/mount.h"

typedef struct tp_jvp_level tp_jvp_level;

TP_API TP_CHECK tp_jvp_level *tp_jvp_level_new(bool closed);
TP_API void tp_jvp_level_free(tp_jvp_level *l);                 /* NULL is fine; must not be entered */
TP_API void tp_jvp_level_enter(tp_jvp_level *l);
TP_API void tp_jvp_level_leave(tp_jvp_level *l);
/* The innermost level that is entered and for which t has a tangent; NULL: none. */
TP_API tp_jvp_level *tp_jvp_level_of(const tp_tensor *t);
TP_API tp_jvp_level *tp_jvp_level_open(void);                   /* the open level that is entered; NULL: none */
TP_API bool tp_inside_transform(void);                          /* of torch.func: an open level is none */
/* Makes no tangents while it is paused; gives what it was before. */
TP_API bool tp_jvp_level_pause(tp_jvp_level *l, bool paused);

/* Counted. `tangent` may be NULL; it is brought to the strides of the primal. PyTorch's errors for sizes that differ. */
TP_API TP_CHECK tp_tensor *tp_jvp_level_wrap(tp_jvp_level *l, tp_tensor *primal, tp_tensor *tangent);
/* The same of an open level: a view of the primal, which has its history. */
TP_API TP_CHECK tp_tensor *tp_jvp_level_dual(tp_jvp_level *l, tp_tensor *primal, tp_tensor *tangent);
TP_API tp_tensor *tp_jvp_level_unwrap(const tp_jvp_level *l, tp_tensor *t);     /* counted; itself when it is no wrapper of this level */
/* The tangent of t, counted; NULL when it has none. */
TP_API TP_CHECK bool tp_jvp_level_tangent(tp_jvp_level *l, tp_tensor *t, tp_tensor **tangent);
/* t, made a wrapper where it is none, has this tangent from now on; in its own memory where it had one before. */
TP_API TP_CHECK bool tp_jvp_level_set_tangent(tp_jvp_level *l, tp_tensor *t, tp_tensor *tangent);

#endif
