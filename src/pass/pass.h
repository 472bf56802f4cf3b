/* pass.h - changes of graphs, each a function in a file of its own, and the runner that applies them in order.
 *
 * A pass gets a graph in the order that ir/text.h's verifier asks for and leaves it so. It sets `changed` when it
 * changed something, and returns false on failure, with the error set; the graph is then still whole, though half
 * changed.
 *
 * The runner, not the pass, measures, prints when asked, verifies, and can send the graph through text and back, so
 * that printer, parser and verifier are exercised by every test of a pass.
 *
 * Owners: a pass borrows the graph; `scratch` is the runner's and is reset before each pass. */
#ifndef TP_PASS_PASS_H
#define TP_PASS_PASS_H

#include "ir/graph.h"

/* Attributes that a pass may compute with, lent by who knows the module of the graph. */
typedef struct tp_constants {
    tp_tensor *(*read)(void *data, const char *path);           /* borrowed; NULL: not to be relied on */
    const char *(*store)(void *data, tp_tensor *t);             /* a path that get_attr may name; NULL: failed */
    void  *data;
    size_t limit;                   /* no result beyond so many bytes */
} tp_constants;

typedef struct tp_pass {
    tp_arena scratch;               /* for this run of this pass */
    bool     changed;
    unsigned may_lose;              /* rules.h: TP_LOSES_… that the caller allows */
    const tp_constants *constants;  /* borrowed, may be NULL */
} tp_pass;

/* What may exist between passes; a stage allows what the one after it allows, and more. */
typedef enum tp_stage {
    TP_STAGE_ANY,                   /* whatever FX can hold */
    TP_STAGE_OPS,                   /* calls of ops and builtins: nothing that only Python knows */
    TP_STAGE_FUNCTIONAL,            /* and no op writes into its arguments */
} tp_stage;

typedef struct tp_pass_info {
    const char *name;               /* "dce" */
    bool (*run)(tp_graph *g, tp_pass *p);
    tp_stage stage;                 /* what it needs of its graph, and keeps */
} tp_pass_info;

typedef struct tp_pass_options {
    unsigned may_lose;              /* of the rules; 0: results stay the same bit for bit */
    const tp_constants *constants;  /* borrowed, may be NULL: then only numbers are folded */
    bool verify;                    /* before and after each pass, its stage with it; a fault names the pass */
    bool round_trip;                /* the text, read again, prints the same; graphs with Python objects are let be */
    /* May be NULL: sees the text before and after each pass that changed something, and how long it took. */
    void (*report)(void *data, const char *pass, const char *before, const char *after, double seconds);
    void *data;
} tp_pass_options;

/* Applies `count` passes in order; *changed (may be NULL) says whether any did something. `options` may be NULL. */
TP_API TP_CHECK bool tp_passes_run(tp_graph *g, const tp_pass_info *passes, size_t count,
                                   const tp_pass_options *options, bool *changed);
/* How Taper cleans a graph of ops, and what more it does to a functional one: reading the arrays tells all. */
TP_API extern const tp_pass_info tp_pipeline_clean[];
TP_API extern const size_t tp_pipeline_clean_count;
TP_API extern const tp_pass_info tp_pipeline_simplify[];
TP_API extern const size_t tp_pipeline_simplify_count;

TP_API const char *tp_stage_fault(const tp_node *n, tp_stage stage);    /* why a node is not legal in it; NULL: it is */
/* Is every node legal in this stage? TP_ERR_RUNTIME names the one that is not. */
TP_API TP_CHECK bool tp_stage_verify(const tp_graph *g, tp_stage stage);

/* ---- the passes ---- */
TP_API TP_CHECK bool tp_pass_fold(tp_graph *g, tp_pass *p);
TP_API TP_CHECK bool tp_pass_algebra(tp_graph *g, tp_pass *p);
TP_API TP_CHECK bool tp_pass_dce(tp_graph *g, tp_pass *p);
TP_API TP_CHECK bool tp_pass_cse(tp_graph *g, tp_pass *p);
/* The same among the nodes that `may` allows, whatever they do: the caller knows that they may be merged. */
TP_API TP_CHECK bool tp_cse(tp_graph *g, bool (*may)(const tp_node *n, void *data), void *data, bool *changed);

#endif
