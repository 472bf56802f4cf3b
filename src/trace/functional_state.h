/* functional_state.h - inside the functionaliser: states, the wrappers that look into them, and writes.
 *
 *     state: newest value, count of writes        y = x.clone()      one state, looked at without a view
 *       |- wrapper y                              z = y[0]           the same state through one step, select(0, 0)
 *       `- step select -- wrapper z               z.add_(1)          base = select_scatter(base, z + 1); y and z are stale
 *
 * What becomes of a call is functional.c's business. Owners: a wrapper counts its state and its last step, a step counts the one
 * before it. */
#ifndef TP_TRACE_FUNCTIONAL_STATE_H
#define TP_TRACE_FUNCTIONAL_STATE_H

#include "base/array.h"
#include "trace/functional.h"

struct tp_functional {
    tp_mount mount;
    uint64_t id;                /* never given twice in a process: wrappers outlive their functionaliser */
    uint32_t depth;             /* functions being traced */
    const char *function;       /* borrowed: what the innermost is called; NULL: none */
    tp_array(tp_tensor *) held; /* counted: values of tensors from outside the innermost function, looked at anew inside it */
};

typedef struct tp_functional_wrapper {          /* tp_tensor.extra of a wrapper */
    tp_attached attached;
    uint64_t    owner;          /* id of its functionaliser */
    struct tp_functional_state *state;          /* counted */
    struct tp_functional_step *view;            /* counted, may be NULL: the base itself */
    tp_tensor  *value;          /* counted: what it showed at `generation` */
    uint64_t    generation;
    bool        metadata, storage;
} tp_functional_wrapper;

tp_functional_wrapper *tp_functional_of(const tp_tensor *t);        /* NULL: no wrapper of any functionaliser */
uint32_t tp_functional_depth(const tp_tensor *wrapper);             /* at which its state was made */
bool tp_functional_detaches(const tp_op *view);                     /* a detached view hides writes from autograd */

/* The value of a wrapper, borrowed from it; made again when its state was written since. One that is made inside a function is
 * not known outside: it goes when the function ends. */
TP_CHECK tp_tensor *tp_functional_current(tp_functional *f, tp_functional_wrapper *w);
/* The wrapper's elements are what was taken from now on, in its own type; its state and all other views follow. */
TP_CHECK bool tp_functional_write(tp_functional *f, tp_tensor *face, tp_tensor *taken);
/* A wrapper of what a view of `of` gave: `value`, the `index`-th of several or (-1) the only one. */
TP_CHECK tp_tensor *tp_functional_wrap_view(const tp_functional *f, tp_tensor *of, const tp_op *op, const tp_value *arg, int64_t index, tp_tensor *value);
/* t_, squeeze_: the wrapper looks through one more view, and sees what was taken. */
TP_CHECK bool tp_functional_look_on(tp_tensor *face, const tp_op *view, const tp_value *arg, tp_tensor *taken);
/* set_: the wrapper looks where another looks. */
TP_CHECK bool tp_functional_look_elsewhere(tp_functional *f, tp_tensor *face, const tp_tensor *where);

#endif
