/* graph.h - the one graph: nodes in order, each a call with its arguments.
 *
 *     x, y placeholder      add  call_function aten.add.Tensor (x, y)      output ((add,),)
 *
 * Nodes stand in a ring through `root`, whose next is the first node and whose previous the last. They are what FX shows:
 * the six kinds, targets that are an op, a name or a Python callable, arguments that nest lists, tuples, dicts and slices
 * around nodes and constants, users in the order of their first use, and names no two nodes ever share.
 *
 * Owners: a graph is counted; whoever keeps a tp_node * counts its graph. Nodes live in slabs, never move, stay readable
 * after they were erased, and die with the graph. A node owns its arguments (tp_value_ref), except that a TP_NODE among
 * them is a plain pointer: nodes of one graph only. Texts and user lists are in the graph's arena.
 *
 * Always: a node's inputs list it once in `user`; an erased node has no users and no arguments, and its ring pointers are
 * those it had. Written by graph.c and edit.c only.
 *
 * Fails: no memory. A graph is sticky: after a failure its builders give NULL, the first error stays in `failed`, and
 * tp_graph_check reports it; a run of building may look once at its end. */
#ifndef TP_IR_GRAPH_H
#define TP_IR_GRAPH_H

#include "base/arena.h"
#include "base/map.h"
#include "ir/builtin.h"
#include "ops/op.h"

typedef struct tp_graph tp_graph;
typedef struct tp_node tp_node;

typedef enum tp_node_kind {
    TP_PLACEHOLDER, TP_GET_ATTR, TP_CALL_FUNCTION, TP_CALL_METHOD, TP_CALL_MODULE, TP_OUTPUT, TP_ROOT
} tp_node_kind;
TP_API extern const char *const tp_node_kind_names[];       /* "placeholder" … */

enum {                              /* tp_node.flags */
    TP_NODE_ERASED = 1 << 0,
    TP_NODE_IMPURE = 1 << 1,        /* kept although nobody reads it, whatever its target says */
    TP_NODE_NO_GRAD = 1 << 2,       /* recorded while gradients were off */
};

/* What a node calls. Placeholders, get_attr, call_method, call_module and output have names ("output"). */
typedef enum tp_target_kind { TP_TARGET_NAME, TP_TARGET_OP, TP_TARGET_BUILTIN, TP_TARGET_HANDLE } tp_target_kind;
typedef struct tp_target {
    uint8_t kind;                   /* tp_target_kind */
    union {
        const char *name;           /* interned in the graph's arena */
        const tp_op *op;
        const tp_builtin *builtin;  /* getitem and arithmetic: these are never handles */
        tp_handle *handle;          /* counted: any other Python callable */
    };
} tp_target;

/* Where a node comes from; shared by the nodes of one line or one original. */
typedef struct tp_origin {
    tp_count   refs;
    tp_string *stack_trace;         /* counted, may be NULL: as Python prints tracebacks */
    tp_handle *module_stack;        /* counted, may be NULL: meta["nn_module_stack"] */
    tp_handle *custom;              /* counted, may be NULL: meta["custom"], what programs annotate */
    uint64_t   sequence;            /* of the tape, 0: none; "seq_nr" */
    bool       backward;            /* made while a backward formula ran */
} tp_origin;

struct tp_node {
    tp_graph  *graph;               /* borrowed */
    tp_node   *prev, *next;
    uint64_t   place;               /* grows along the ring, with gaps: which of two nodes comes first is one comparison */
    uint32_t   id;                  /* dense, never given twice: index of bitsets and side arrays */
    uint16_t   kind, flags;         /* tp_node_kind; TP_NODE_… */
    tp_target  target;
    tp_value  *arg;                 /* arena, items owned: arg_count positional, then keyword_count pairs of string, value */
    uint32_t   arg_count, keyword_count;
    tp_node  **user;                /* arena, in order of first use */
    uint32_t   user_count, user_room;
    const char *name;               /* arena */
    tp_value   fact;                /* owned: what it yields: a fake tensor, a list of them, a symbol; none: not known */
    tp_origin *origin;              /* counted, may be NULL */
    tp_handle *type;                /* counted, may be NULL: annotation */
    tp_handle *meta;                /* counted, may be NULL until Python asks; from then on the dict wins over `fact` */
    void      *wrapper;             /* borrowed by python/, NULL until Python asks */
};

/* A graph that get_attr nodes of another name: what an op that takes functions calls (torch.cond's branches). */
typedef struct tp_child {
    const char *name;               /* arena of the graph it belongs to */
    tp_graph   *graph;              /* counted */
} tp_child;

struct tp_graph {
    tp_count  refs;
    tp_node   root;                 /* its ring is the order of the graph */
    tp_node  *insert;               /* new nodes go before this one: root unless an insertion point is set */
    uint32_t  node_count;           /* ids given out, erased ones too: the size of side arrays */
    uint32_t  live_count;           /* nodes in the ring */
    tp_arena  arena;
    struct tp_names {               /* the namespace, names.c; it never forgets a number */
        tp_text_map used;           /* arena: name -> 1; not those of a stem's run */
        tp_text_map stem;           /* arena: stem -> its tp_stem */
    } names;
    tp_node **slab;                 /* &first_slab, or owned; each owned */
    tp_node  *first_slab;           /* most graphs have one */
    uint32_t  slab_count, slab_room, slab_used;     /* used: nodes of the last slab */
    tp_child *child;                /* owned, may be NULL */
    uint32_t  child_count, child_room;
    tp_err    failed;               /* first error of a builder, with `failure`; TP_ERR_NONE: none */
    char     *failure;              /* arena, may be NULL */
    struct tp_shape_env *env;       /* counted, may be NULL: where the symbols of the facts live */
    void     *wrapper;              /* borrowed by python/ */
    bool      has_handles;          /* or had one: in an argument, target, fact, type or meta */
    void    (*before_edit)(tp_graph *g);        /* may be NULL: called once, before the first change of what the graph's code would say */
};

/* ---- the graph ---- */
TP_API TP_CHECK tp_graph *tp_graph_new(void);
TP_API tp_graph *tp_graph_ref(tp_graph *g);
TP_API void      tp_graph_unref(tp_graph *g);               /* NULL is fine */
TP_API TP_CHECK bool tp_graph_check(const tp_graph *g);     /* false: a builder failed, its error is set again */
/* Copies all nodes but the output of `from` before the insertion point; map[from node id] gets their copies (room for
 * from->node_count). Sets *output to the mapped argument of the output node, owned; none when it has none. */
TP_API TP_CHECK bool tp_graph_append(tp_graph *g, const tp_graph *from, tp_node **map, tp_value *output);
TP_API TP_CHECK tp_graph *tp_graph_copy(const tp_graph *from);  /* output, names, facts, origins, meta handles and all */
/* Adds a graph under this name, counted; one that is there under it goes. */
TP_API TP_CHECK bool tp_graph_set_child(tp_graph *g, const char *name, tp_graph *child);
TP_API tp_graph *tp_graph_child(const tp_graph *g, const char *name);           /* borrowed; NULL: none of that name */
/* Copies one node of another graph before the insertion point, under its own name where that is free; map[id] says what
 * stands for the nodes it reads, and gets the copy. NULL: the graph has failed. */
TP_API TP_CHECK tp_node *tp_node_copy(tp_graph *g, const tp_node *n, tp_node **map);

/* ---- building; NULL: the graph has failed ---- */
/* Adds a node before the insertion point. Arguments are borrowed and counted; `name` is a wish, NULL: from the target,
 * tp_nameless: none, in graphs whose values have names of their own. */
TP_API extern const char tp_nameless[];                     /* "" */
TP_API tp_node *tp_node_new(tp_graph *g, tp_node_kind kind, tp_target target, const tp_value *arg, uint32_t arg_count,
                            uint32_t keyword_count, const char *name);
TP_API tp_node *tp_graph_placeholder(tp_graph *g, const char *name);
TP_API tp_node *tp_graph_call(tp_graph *g, const tp_op *op, const tp_value *arg, uint32_t arg_count);   /* named as the op: "add" */
TP_API tp_node *tp_graph_getitem(tp_graph *g, tp_node *of, int64_t index);
TP_API tp_node *tp_graph_get_attr(tp_graph *g, const char *path);
TP_API tp_node *tp_graph_output(tp_graph *g, tp_value result);
static inline tp_target tp_target_op(const tp_op *op) { return (tp_target){ .kind = TP_TARGET_OP, .op = op }; }
static inline tp_target tp_target_name(const char *name) { return (tp_target){ .kind = TP_TARGET_NAME, .name = name }; }
static inline tp_target tp_target_builtin(const tp_builtin *b) { return (tp_target){ .kind = TP_TARGET_BUILTIN, .builtin = b }; }
static inline tp_target tp_target_handle(tp_handle *h) { return (tp_target){ .kind = TP_TARGET_HANDLE, .handle = h }; }
static inline tp_value tp_of_node(const tp_node *n) { return (tp_value){ .tag = TP_NODE, .node = (void *)n }; }
static inline tp_node *tp_as_node(tp_value v) { return v.tag == TP_NODE ? (tp_node *)v.node : NULL; }
static inline bool tp_node_calls(const tp_node *n, const tp_op *op)
{
    return n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_OP && n->target.op == op;
}

/* ---- names (names.c) ---- */
/* A name of the graph that starts as `wish`, unused so far and no Python word; owned by the arena. */
TP_API const char *tp_graph_name(tp_graph *g, const char *wish);
/* What FX would wish for a node of this target: "add_tensor" of aten.add.Tensor, "relu" of torch.relu. */
TP_API void tp_target_op_text(const tp_op *op, const char *prefix, tp_text *out);  /* "aten.add.Tensor" behind the prefix */
TP_API TP_CHECK bool tp_target_wish(tp_target target, tp_text *out);

/* ---- editing (edit.c) ---- */
TP_API TP_CHECK bool tp_node_set_args(tp_node *n, const tp_value *arg, uint32_t arg_count, uint32_t keyword_count);
TP_API TP_CHECK bool tp_node_set_arg(tp_node *n, uint32_t i, tp_value v);       /* positional or, from arg_count on, the i-th keyword's value */
TP_API void tp_node_set_target(tp_node *n, tp_target target);
TP_API void tp_node_set_fact(tp_node *n, tp_value fact);                        /* borrows and counts */
TP_API void tp_node_set_origin(tp_node *n, tp_origin *o);                       /* borrows and counts; NULL is fine */
TP_API TP_CHECK bool tp_node_set_name(tp_node *n, const char *name);            /* as it is: the caller knows that it is free */
TP_API void tp_node_set_type(tp_node *n, tp_handle *type);                      /* these two borrow and count; NULL is fine */
TP_API void tp_node_set_meta(tp_node *n, tp_handle *meta);
TP_API void tp_node_move_before(tp_node *at, tp_node *n);                       /* n leaves its place and stands before `at` */
TP_API void tp_node_erase(tp_node *n);                                          /* must have no users */
/* Every reader of `old` for which `choose` (may be NULL) says yes reads `fresh` instead; how many, -1: no memory. */
TP_API int tp_node_replace_uses(tp_node *old, tp_node *fresh, bool (*choose)(tp_node *user, void *data), void *data);
/* `v` with each node replaced by what `map` gives; the result is owned, none with the error set on failure. */
typedef tp_value tp_map_node(tp_node *n, void *data);       /* gives an owned value */
TP_API TP_CHECK bool tp_value_map_nodes(tp_value v, tp_map_node *map, void *data, tp_value *out);

/* ---- reading ---- */
static inline tp_node *tp_graph_first(const tp_graph *g) { return g->root.next; }
static inline bool tp_node_is_root(const tp_node *n) { return n->kind == TP_ROOT; }
#define tp_graph_each(g, n) for (tp_node *n = (g)->root.next; n != &(g)->root; n = n->next)
TP_API tp_node *tp_graph_output_node(const tp_graph *g);    /* NULL: none */
TP_API const tp_value *tp_node_keyword(const tp_node *n, const char *name);     /* NULL: absent */
/* Calls visit for every node among the arguments, in order, again for each appearance. */
TP_API void tp_node_each_input(const tp_node *n, void (*visit)(tp_node *input, void *data), void *data);
TP_API void tp_value_each_node(tp_value v, void (*visit)(tp_node *n, void *data), void *data);
/* The arguments of a call of an op, completed: `out` has op->arg_count values, borrowed, defaults filled in. */
TP_API TP_CHECK bool tp_node_op_args(const tp_node *n, tp_value *out);
/* Must it stay though nobody reads it? Placeholders, output, writers, random, io, and what Python might do. */
TP_API bool tp_node_has_effect(const tp_node *n);
/* Every handle that a graph owns, for Python's collector. */
TP_API int tp_graph_each_handle(const tp_graph *g, int (*visit)(tp_handle *h, void *data), void *data);

TP_API TP_CHECK tp_origin *tp_origin_new(void);
TP_API tp_origin *tp_origin_ref(tp_origin *o);
TP_API void tp_origin_unref(tp_origin *o);

#endif
