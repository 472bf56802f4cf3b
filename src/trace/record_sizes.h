/* record_sizes.h - nodes of a graph that compute sizes: from tensors that have a symbol as a size, by arithmetic.
 *
 * A symbol's first tensor gives it (`sym_size_int`); a compound expression that is itself a size of a tensor, or that was
 * noted as a value, is read from there, else computed from its parts. Each word has one node. */
#ifndef TP_TRACE_RECORD_SIZES_H
#define TP_TRACE_RECORD_SIZES_H

#include "base/array.h"
#include "ir/graph.h"
#include "sym/sym.h"

typedef struct tp_size_source {
    tp_node *node;              /* yields a tensor */
    int8_t   dim;               /* its size there; -1: the storage offset; from STRIDE_AT on a stride */
} tp_size_source;

typedef struct tp_size_nodes {
    tp_map known;               /* word -> node */
    tp_map source;              /* word -> index into `sources` */
    tp_array(tp_size_source) sources;
} tp_size_nodes;

void tp_sizes_fini(tp_size_nodes *s);                                           /* a zeroed struct is empty */
TP_CHECK bool tp_sizes_note(tp_size_nodes *s, const tp_tensor *t, tp_node *n);  /* where its symbols may be read */
TP_CHECK bool tp_sizes_prefer(tp_size_nodes *s, const tp_tensor *t, tp_node *n);    /* its compound sizes are read here from now on */
TP_CHECK bool tp_sizes_note_word(tp_size_nodes *s, tp_sym x, tp_node *n);       /* the node yields x itself */
/* The number, or the node that computes it; a NULL node: failed. */
tp_value tp_sizes_value(tp_size_nodes *s, tp_graph *g, tp_sym x);
tp_value tp_sizes_value_as_is(tp_size_nodes *s, tp_graph *g, tp_sym x);         /* of the symbols it has, replaced since or not */
tp_node *tp_sizes_node(const tp_size_nodes *s, tp_sym x);       /* that yields x, or a tensor that has it; NULL: none yet */
/* record_asserts.c: what was declared of the symbols of an environment that come from nodes of numbers, as nodes too. */
TP_CHECK bool tp_sizes_assert(tp_size_nodes *s, tp_graph *g, tp_shape_env *env);

#endif
