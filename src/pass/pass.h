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

typedef struct tp_pass {
    tp_arena scratch;               /* for this run of this pass */
    bool     changed;
} tp_pass;

typedef struct tp_pass_info {
    const char *name;               /* "dce" */
    bool (*run)(tp_graph *g, tp_pass *p);
} tp_pass_info;

typedef struct tp_pass_options {
    bool verify;                    /* after each pass; its fault names the pass */
    bool round_trip;                /* the text, read again, prints the same; graphs with Python objects are let be */
    /* May be NULL: sees the text before and after each pass that changed something, and how long it took. */
    void (*report)(void *data, const char *pass, const char *before, const char *after, double seconds);
    void *data;
} tp_pass_options;

/* Applies `count` passes in order; *changed (may be NULL) says whether any did something. `options` may be NULL. */
TP_API TP_CHECK bool tp_passes_run(tp_graph *g, const tp_pass_info *passes, size_t count,
                                   const tp_pass_options *options, bool *changed);
/* How Taper cleans a functional graph: reading the array tells all. */
TP_API extern const tp_pass_info tp_pipeline_clean[];
TP_API extern const size_t tp_pipeline_clean_count;

/* ---- the passes ---- */
TP_API TP_CHECK bool tp_pass_dce(tp_graph *g, tp_pass *p);
TP_API TP_CHECK bool tp_pass_cse(tp_graph *g, tp_pass *p);
/* The same among the nodes that `may` allows, whatever they do: the caller knows that they may be merged. */
TP_API TP_CHECK bool tp_cse(tp_graph *g, bool (*may)(const tp_node *n, void *data), void *data, bool *changed);

#endif
