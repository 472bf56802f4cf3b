/* tape.h - the tape: nodes that know how to send gradients back, and what a tensor remembers of them.
 *
 *     y = f(a, b)          y ──grad_fn──► node f ──edge 0──► node that made a (or AccumulateGrad of the leaf a)
 *                                                ──edge 1──► node that made b
 *
 * Counted edges point one way: tensor to node, node to node, node to saved tensors. A saved *result* is kept without its
 * node, a leaf's AccumulateGrad is borrowed by the leaf, so no cycle arises in C; what Python adds is seen by its collector.
 * Always: `slot` of a node has one entry per result of the forward call, `edge` one per differentiable input. A node with a
 * larger sequence number was made later. Freeing a chain of a million nodes uses no stack. */
#ifndef TP_GRAD_TAPE_H
#define TP_GRAD_TAPE_H

#include <pthread.h>

#include "ops/dispatch.h"

typedef struct tp_grad_node tp_grad_node;

typedef struct tp_edge {
    tp_grad_node *node;         /* counted; NULL: nobody wants this gradient */
    uint32_t      slot;         /* which result of that node's forward call */
} tp_edge;

/* What the engine must know of a result to bring a gradient to its form. */
typedef struct tp_slot {
    uint8_t   dtype, ndim;
    bool      defined;          /* false: the result was no tensor, or not differentiable */
    tp_device device;
    int64_t  *size;             /* `small`, or owned when there are more dims */
    int64_t   small[4];
    tp_value  symbolic;         /* owned list of sizes when some are expressions, else none */
} tp_slot;

/* A hook: a Python callable behind callbacks. */
typedef struct tp_hook {
    struct tp_hook *next;       /* owned, in order of registration */
    int64_t    id;
    tp_handle *callable;        /* counted */
    /* Before a node runs, `gradients` are those of its slots and `results` is NULL; after it, `gradients` are those of its
     * edges and `results` those of its slots. The hook may replace `gradients` in place (owned values). False: the error is set. */
    bool     (*call)(struct tp_hook *h, tp_value *gradients, size_t count, tp_value *results, size_t result_count);
} tp_hook;

typedef struct tp_grad_kind {
    /* Gradients of the results to gradients of the edges (owned by the caller; none: undefined). `out` comes in as none; a
     * node that fails leaves nothing in it to release. */
    bool (*apply)(tp_grad_node *n, const tp_value *g, tp_value *out);
    void (*release)(tp_grad_node *n);               /* forget what was saved; may be NULL */
    void (*free)(tp_grad_node *n);                  /* fini of the kind's own fields, what was saved included; may be NULL */
    bool (*leave)(tp_grad_node *n);                 /* the last owner is gone: false: it lives on (found again, or kept by its leaf). May be NULL */
    const char *(*name)(const tp_grad_node *n);     /* "AddBackward0" */
    bool undefined_ok;                              /* apply takes undefined gradients as they are */
} tp_grad_kind;

struct tp_grad_node {
    tp_count  refs;
    bool      released;         /* saved values are gone: a second backward fails */
    uint8_t   room;             /* node.c: which of its sizes the memory has */
    uint64_t  sequence;
    const tp_grad_kind *kind;
    uint32_t  edge_count, slot_count;
    tp_edge  *edge;             /* owned array behind the struct, or heap */
    tp_slot  *slot;             /* owned array */
    tp_hook  *pre_hooks, *post_hooks;
    tp_hook **slot_hooks;       /* owned array of slot_count lists, may be NULL: Tensor.register_hook */
    tp_tensor **retain;         /* array of slot_count, may be NULL: tensors whose .grad is kept, borrowed while they live */
    void     *wrapper;          /* borrowed: its Python object, may be NULL */
    tp_handle *metadata;        /* counted, may be NULL: anomaly mode's stack, node.metadata */
};

/* Counts the writes of tensors that do not count with their storage (x.data, x after `x.data = y`, their views), or something else
 * that outlives who counts. */
typedef struct tp_counter {
    atomic_uint refs, count;
} tp_counter;

/* What a tensor remembers; tp_tensor.autograd. Written by grad/ only. */
typedef struct tp_autograd {
    tp_attached attached;
    bool          requires_grad;    /* of a leaf; others require it when grad_fn is set */
    bool          retains_grad;
    uint8_t       view_origin;      /* tp_view_origin */
    uint32_t      slot;
    tp_counter   *counter;          /* counted; NULL: that of the storage */
    tp_tensor    *grad;             /* counted, may be NULL */
    tp_grad_node *grad_fn;          /* counted, may be NULL */
    tp_grad_node *accumulate;       /* may be NULL: the leaf's AccumulateGrad; borrowed while a graph counts it, then kept. Read under `finding` */
    atomic_flag   finding;          /* a thread looks for `accumulate`, or buries it */
    tp_hook      *hooks;            /* of a leaf: run before its AccumulateGrad; others sit in slot_hooks */
    tp_hook      *post_accumulate;  /* register_post_accumulate_grad_hook */
    tp_tensor    *view_base;        /* counted, may be NULL: the tensor this is a view of, never itself a view */
    tp_tensor    *view_from;        /* counted, may be NULL: of a view in another dtype or sign than its base, what it was made from by
                                     * that change, or the view above it that was */
    uint32_t      view_version;     /* version at which grad_fn of a view was right */
    tp_counter   *remade;           /* counted, may be NULL: how often that of a view was made anew; who saved what was written to it asks */
    tp_handle    *python;           /* counted, may be NULL: _backward_hooks dict and the like */
} tp_autograd;

typedef enum tp_view_origin {
    TP_VIEW_PLAIN,
    TP_VIEW_NO_GRAD,            /* made under no_grad: writing to it with grad on is an error */
    TP_VIEW_MULTI,              /* one of several views of one call (split, unbind) */
    TP_VIEW_INFERENCE,
    TP_VIEW_FUNCTION,           /* returned by a custom Function */
} tp_view_origin;

/* ---- tensors ---- */
TP_API TP_CHECK tp_autograd *tp_autograd_of(tp_tensor *t);          /* made when absent */
TP_API bool tp_requires_grad(const tp_tensor *t);
TP_API TP_CHECK bool tp_set_requires_grad(tp_tensor *t, bool on);   /* PyTorch's errors for integers and non-leaves */
/* detach_: a leaf without gradient from now on; a view cannot. */
TP_API TP_CHECK bool tp_forget_history(tp_tensor *t);
TP_API bool tp_is_leaf(const tp_tensor *t);
/* Borrowed; NULL for leaves. Views whose base was written since are given a new node first. */
TP_API TP_CHECK bool tp_grad_fn(tp_tensor *t, tp_grad_node **out, uint32_t *slot);
/* The number a result has in messages and in Python: among those of its node that are differentiable. */
TP_API uint32_t tp_grad_output(const tp_grad_node *n, uint32_t slot);
/* The edge gradients of t flow to: its grad_fn, or the AccumulateGrad of a leaf. Counted; node NULL when it needs none. */
TP_API TP_CHECK bool tp_gradient_edge(tp_tensor *t, tp_edge *out);
TP_API uint32_t tp_version(const tp_tensor *t);
TP_API void tp_bump_version(tp_tensor *t);
TP_API TP_CHECK tp_tensor *tp_data(tp_tensor *t);       /* the same elements without history, with a count of writes of its own */
/* `t` looks at the elements of `from` from now on, and counts their writes; its history stays. */
TP_API TP_CHECK bool tp_set_data(tp_tensor *t, const tp_tensor *from);
TP_API TP_CHECK tp_tensor *tp_detach(const tp_tensor *t);           /* shares storage and version; no history; not a view */
TP_API TP_CHECK bool tp_retain_grad(tp_tensor *t);
TP_API TP_CHECK bool tp_set_grad(tp_tensor *t, tp_tensor *grad);    /* counted by t; NULL clears. Checks as PyTorch */
/* Makes `t` a result of `node`: its grad_fn is that node at that slot. */
TP_API TP_CHECK bool tp_set_history(tp_tensor *t, tp_grad_node *node, uint32_t slot);
/* The tensor was written in place by an op whose node is `node`: rebases its history, through its base if it is a view. */
TP_API TP_CHECK bool tp_rebase_history(tp_tensor *t, tp_grad_node *node, uint32_t slot);
TP_API TP_CHECK bool tp_set_view(tp_tensor *view, tp_tensor *base, tp_view_origin origin);
/* PyTorch's error when t may not be written in place now. */
TP_API TP_CHECK bool tp_check_inplace(tp_tensor *t, bool requires_grad);

/* ---- nodes ---- */
TP_API TP_CHECK tp_grad_node *tp_grad_node_new(const tp_grad_kind *kind, size_t bytes, uint32_t edges, uint32_t slots);
TP_API void tp_grad_node_free(tp_grad_node *n);                     /* the count has reached zero; uses no stack */
TP_API TP_CHECK bool tp_slot_describe(tp_grad_node *n, uint32_t slot, const tp_tensor *result);
static inline tp_grad_node *tp_grad_node_ref(tp_grad_node *n) { tp_count_up(&n->refs); return n; }
static inline void tp_grad_node_unref(tp_grad_node *n)
{
    if (n && tp_count_down(&n->refs))
        tp_grad_node_free(n);
}
/* Hooks; `id` names one for removal. A node's list is the caller's field. */
TP_API TP_CHECK bool tp_hook_add(tp_hook **list, int64_t id, tp_handle *callable,
                                 bool (*call)(tp_hook *, tp_value *, size_t, tp_value *, size_t), bool first);
TP_API void tp_hook_remove(tp_hook **list, int64_t id);
TP_API TP_CHECK tp_hook **tp_tensor_hooks(tp_tensor *t);            /* the list Tensor.register_hook adds to */

/* ---- saved values ---- */
/* Of a value that went through hooks: what comes back is a tensor without history, and gets the one it had. */
typedef struct tp_packed {
    bool   (*unpack)(tp_value packed, tp_value *out);
    tp_edge  history;           /* counted; node NULL: it had none, or is a result */
} tp_packed;

typedef struct tp_saved {
    tp_value value;             /* owned; a tensor result without its history; what a pack hook gave */
    uint32_t version;
    uint32_t slot;
    bool     is_result;
    tp_counter *view;           /* counted, may be NULL: of a result written into a view, `remade` of that one, and ... */
    uint32_t remade;            /* ... what it said when the write was recorded */
    bool     is_tensor, released, tracked;      /* tracked: it had a history when it was saved */
    bool     overwritten;       /* by the very call that saved it: kept without history, and never read */
    bool     members;           /* a list whose tensors the formula reads: `version` is the sum of theirs */
    tp_packed *packed;          /* owned; NULL: no hook has seen it */
} tp_saved;

/* pack/unpack hooks of saved_tensors_hooks; tp_thread.saved_hooks points at the innermost. */
typedef struct tp_saved_hooks {
    struct tp_saved_hooks *outer;
    bool (*pack)(struct tp_saved_hooks *h, tp_tensor *t, tp_value *out);
    bool (*unpack)(tp_value packed, tp_value *out);
    const char *disabled;       /* message when hooks are forbidden, may be NULL */
    tp_handle *user;
} tp_saved_hooks;

TP_API TP_CHECK bool tp_save_value(tp_saved *s, tp_value v, bool is_result, uint32_t slot);
TP_API void tp_saved_watch(tp_saved *s);        /* of a list: writes to its tensors are noticed */
/* Gives the value back, owned; checks the version; a saved result gets `node` as its grad_fn again. */
TP_API TP_CHECK bool tp_saved_unpack(const tp_saved *s, tp_grad_node *node, tp_value *out);
TP_API void tp_saved_release(tp_saved *s);

/* A node of an op: what the autograd layer makes. */
typedef struct tp_op_node {
    tp_grad_node node;
    const tp_op *op;
    uint64_t wanted;            /* by argument index */
    bool     list_result;       /* its only result is a list: slots are the items */
    tp_saved saved[];           /* op->gradient->save_count */
} tp_op_node;
TP_API extern const tp_grad_kind tp_op_node_kind, tp_accumulate_kind, tp_copy_slices_kind;

typedef struct tp_accumulate_node {
    tp_grad_node node;
    tp_tensor   *leaf;          /* counted */
    pthread_mutex_t lock;
} tp_accumulate_node;

/* Records a call that was made by a way of its own, below all layers: `result` is given the node that the layer would have
 * made, or none where nobody wants a gradient. For functional ops with one fresh result. False: the error is set, and the
 * result is still the caller's. */
TP_API TP_CHECK bool tp_record_made(const tp_op *op, const tp_value *arg, tp_tensor *result);

/* ---- running backward ---- */
typedef struct tp_backward_request {
    const tp_edge *root;        /* where to begin, borrowed */
    const tp_value *gradient;   /* one tensor per root, borrowed */
    size_t  root_count;
    const tp_edge *input;       /* grad(): what is asked for; NULL: accumulate into leaves */
    size_t  input_count;
    tp_value *captured;         /* one per input, owned afterwards; none where unreachable */
    bool    keep_graph, create_graph;
} tp_backward_request;
TP_API TP_CHECK bool tp_backward_run(const tp_backward_request *request);
/* Inside a backward of this thread, the innermost: its number (-1: there is none), and whether it runs a node, now or later. */
TP_API int64_t tp_backward_number(void);
TP_API bool tp_backward_reaches(const tp_grad_node *n);
/* Adds a gradient to the .grad of a leaf, as a path that ends there would: backward(inputs=…). Hooks of the leaf saw the
 * gradient when it was captured; those of its node run now. */
TP_API TP_CHECK bool tp_accumulate(tp_tensor *leaf, tp_value gradient);

#endif
