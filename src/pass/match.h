/* match.h - the places where a pattern, itself a graph, stands in another graph.
 *
 * A placeholder of the pattern stands for any value, the same wherever it is read; other nodes match nodes that call the same
 * thing with matching arguments, and literals match literals of the same type. Lists and tuples are the same, and a call of an
 * op is compared with its defaults filled in when the two calls spell their arguments differently. What the pattern computes on
 * the way may be read by nobody outside the match; what it returns may.
 *
 * A match begins at the anchors: the returned nodes that nothing else of the pattern reads. Every node of the graph is tried for
 * the first one, in order; for another, only what is reached from what is matched already where the two hang together. With one
 * anchor the search is linear in the graph.
 *
 * Owners: results are in the caller's arena and borrow the graphs' nodes and values: they hold until one of them is changed.
 * Fails: no memory. */
#ifndef TP_PASS_MATCH_H
#define TP_PASS_MATCH_H

#include "ir/graph.h"

typedef struct tp_match_pair {
    tp_node *pattern;
    tp_value found;                 /* TP_NODE, or the literal that a placeholder stands for */
} tp_match_pair;

typedef struct tp_match {
    tp_match_pair *pair;            /* from the first anchor down its arguments, then the next anchor */
    uint32_t count;
} tp_match;

typedef struct tp_match_options {
    bool output;                    /* the output is the anchor, and matches an output */
    bool placeholders;              /* placeholders match placeholders only */
    bool ignore_literals;           /* a literal of the pattern matches anything */
    bool shared;                    /* what is computed on the way may be read outside */
    bool overlapping;               /* matches may share nodes; else the first one in order wins */
    /* Do two get_attr nodes name the same kind of thing? NULL: the same name. */
    bool (*same_attribute)(const tp_node *pattern, const tp_node *n, void *data);
    void *data;
} tp_match_options;

typedef struct tp_matches {
    tp_match *item;
    uint32_t count;
} tp_matches;

TP_API TP_CHECK bool tp_match_find(const tp_graph *pattern, const tp_graph *g, const tp_match_options *o, tp_arena *arena,
                                   tp_matches *out);

#endif
