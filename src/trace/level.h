/* level.h - what the levels of the transform stack (vmap, grad, jvp) share: wrappers, and how values get in and out.
 *
 * A wrapper is a tensor that stands for another one level further down: `inner`, kept in tp_tensor.extra under the level's id,
 * which is never given twice in a process. A level finds its own wrappers among the arguments of a call, does its part, and goes
 * on with what they stand for; wrappers of other levels are plain tensors to it.
 *
 *     grad    the wrapper is an alias with autograd data of its own
 *     jvp     `tangent` goes with `inner`, on the same side of the level
 *     vmap    `inner` has the batch as its first dim, the wrapper the shape of one member
 *
 * Owners: a wrapper counts what it wraps, and may outlive its level. What a call outside all levels does with it then, `escaped`
 * says: a wrapper of grad is what it stood for, without the history it had inside; one member of a batch is nothing to compute
 * with, and PyTorch's error; one of jvp is what its memory and its own history say. */
#ifndef TP_TRACE_LEVEL_H
#define TP_TRACE_LEVEL_H

#include "trace/mount.h"

typedef struct tp_level {
    tp_mount mount;             /* in the transform stack */
    uint64_t id;
    bool     outer_mode;        /* gradients were on outside */
} tp_level;

typedef enum tp_escaped { TP_ESCAPED_ITSELF, TP_ESCAPED_INNER, TP_ESCAPED_ERROR } tp_escaped;

typedef struct tp_wrapped {
    tp_attached attached;
    uint8_t     escaped;        /* tp_escaped */
    uint64_t    level;
    tp_tensor  *inner;          /* counted */
    tp_tensor  *tangent;        /* counted, may be NULL */
    tp_tensor  *base;           /* jvp: counted, may be NULL: the wrapper that this one is a view of, never itself a view */
} tp_wrapped;

enum { TP_LEVEL_MOST_ARGS = 64 };

typedef bool tp_level_call(tp_mount *m, const tp_op *op, const tp_value *arg, tp_value *result);

TP_API void tp_level_init(tp_level *l, tp_level_call *call);
TP_API void tp_level_enter(tp_level *l);
TP_API void tp_level_leave(tp_level *l);                /* grad mode is again what it was when the level was entered */

/* The entered level that t is a wrapper of, and its number (1: the outermost); NULL: none. */
TP_API tp_level *tp_level_of(const tp_tensor *t, int *number);
/* What t stands for at this level; NULL: it is no wrapper of this level. Borrowed. */
TP_API tp_wrapped *tp_wrapped_at(const tp_level *l, const tp_tensor *t);
/* Makes `shown` (taken, also on failure; of the shape that is to be seen) a wrapper of `inner`; NULL: an error is set. */
TP_API TP_CHECK tp_tensor *tp_level_wrap(const tp_level *l, tp_escaped escaped, tp_tensor *shown, tp_tensor *inner, tp_tensor *tangent);
/* The call of an op whose arguments hold wrappers while no level is entered. */
TP_API TP_CHECK bool tp_level_call_outside(const tp_op *op, const tp_value *arg, tp_value *result);
/* Counted: what t stands for, itself when it is no wrapper of this level. */
TP_API tp_tensor *tp_level_unwrap(const tp_level *l, tp_tensor *t);

/* Every tensor of these values, in lists too, replaced; all counted. On failure nothing is left in `to`. */
typedef tp_tensor *tp_level_map(const tp_level *l, tp_tensor *t);       /* counted; NULL: an error is set */
TP_API TP_CHECK bool tp_level_map_values(const tp_level *l, tp_level_map *map, const tp_value *from, int count, tp_value *to);
/* Opens a composite with the level back in its place, so that its pieces meet it. */
TP_API TP_CHECK bool tp_level_open(tp_level *l, const tp_op *op, const tp_value *arg, tp_value *result);
/* PyTorch's error when the call writes a tensor from outside with values of this level. */
TP_API TP_CHECK bool tp_level_check_written(const tp_level *l, const tp_op *op, const tp_value *arg);
/* Sends a call on wrappers through autograd, which records on them; `below` has it afterwards, as if at the level itself, and
 * goes on with tp_mount_next. */
typedef bool tp_level_below(tp_level *l, const tp_op *op, const tp_value *given, tp_value *result);
TP_API TP_CHECK bool tp_level_tape(tp_level *l, tp_level_below *below, const tp_op *op, const tp_value *given, tp_value *result);
/* A result that is the inner tensor of an argument is that argument (in-place ops, .contiguous()): the argument's place and, in
 * *shown, the counted wrapper, which has taken the geometry of its inner tensor; -1: it is none of them, -2: an error is set. */
TP_API TP_CHECK int tp_level_find(const tp_level *l, const tp_op *op, const tp_value *arg, const tp_tensor *inner, tp_tensor **shown);

#endif
