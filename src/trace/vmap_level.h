/* vmap_level.h - one level of torch.func.vmap: calls on one member become calls on the whole batch.
 *
 * A wrapper has the shape of one member and the memory of the first; what it stands for has the batch as its first dim. A call
 * with no wrapper of the level among its arguments goes on as it is. Otherwise composites are opened with the level in
 * place, and other ops are replaced by their batching rule (ops/batch.h), whose calls meet the levels further out.
 *
 *     vmap(f)(x)      inner [B, 2, 3]      wrapper [2, 3]      sum(wrapper)  =>  sum(inner, [1, 2])
 *
 * A list that holds one wrapper holds only batched tensors when a rule sees it: the others are expanded. Views of wrappers
 * look at the batch; writes reach it. Random ops do as `randomness` says.
 *
 * Owners: a wrapper counts what it wraps; the level must outlive its last call.
 * Fails: writes of a batch into a tensor that has none, results that depend on data, out= forms: in PyTorch's words. */
#ifndef TP_TRACE_VMAP_LEVEL_H
#define TP_TRACE_VMAP_LEVEL_H

#include "sym/sym.h"
#include "trace/mount.h"

typedef struct tp_vmap_level tp_vmap_level;

typedef enum tp_randomness { TP_RANDOM_ERROR, TP_RANDOM_DIFFERENT, TP_RANDOM_SAME } tp_randomness;

TP_API TP_CHECK tp_vmap_level *tp_vmap_level_new(tp_sym size, tp_randomness randomness);
TP_API void tp_vmap_level_free(tp_vmap_level *l);               /* NULL is fine; must not be entered */
TP_API void tp_vmap_level_enter(tp_vmap_level *l);
TP_API void tp_vmap_level_leave(tp_vmap_level *l);
/* Counted: one member of t, whose batch is along `dim`. */
TP_API TP_CHECK tp_tensor *tp_vmap_level_wrap(const tp_vmap_level *l, tp_tensor *t, int64_t dim);
/* Counted: what t stands for, batch along `dim`; a tensor that is no wrapper of this level is repeated for all members. */
TP_API TP_CHECK tp_tensor *tp_vmap_level_unwrap(const tp_vmap_level *l, tp_tensor *t, int64_t dim);
/* Is this mount a level of vmap? NULL: it is not. */
TP_API tp_vmap_level *tp_vmap_level_at(tp_mount *m);
TP_API tp_sym tp_vmap_level_size(const tp_vmap_level *l);
TP_API tp_randomness tp_vmap_level_randomness(const tp_vmap_level *l);
TP_API bool tp_is_batched(const tp_tensor *t);          /* t, or what it stands for, is a wrapper of an entered level of vmap */
TP_API bool tp_vmap_level_has(const tp_vmap_level *l, const tp_tensor *t);      /* is it a wrapper of this level? */

#endif
