/* internal.h - between the files of the tape. */
#ifndef TP_GRAD_INTERNAL_H
#define TP_GRAD_INTERNAL_H

#include "grad/tape.h"

void tp_grad_node_bury(tp_grad_node *n);                /* node.c: frees it now, parts that hold others included */
void tp_hooks_free(tp_hook *list);                      /* node.c */
/* node.c: calls them in order; a hook may remove itself. */
TP_CHECK bool tp_hooks_run(const tp_hook *list, tp_value *gradients, size_t count, tp_value *results, size_t result_count);
const char *tp_grad_node_title(const tp_grad_node *n, char out[64]);   /* node.c: "Exp" of ExpBackward0, for messages */
void tp_grad_mark(tp_tensor *t);                        /* tensor_grad.c: sets or clears the layer's key */
TP_CHECK tp_counter *tp_counter_new(uint32_t count);    /* tensor_grad.c */
tp_counter *tp_counter_ref(tp_counter *c);
void tp_counter_unref(tp_counter *c);                   /* may be NULL */
/* tensor_grad.c: from now on a tensor counts its own writes, the next after `writes`; or counts with another. */
TP_CHECK bool tp_count_apart(tp_tensor *t, uint32_t writes);
TP_CHECK bool tp_count_with(tp_tensor *t, const tp_tensor *other);
/* tensor_grad.c: a fresh tensor is the only result of a node, whose count it takes. */
TP_CHECK bool tp_give_history(tp_tensor *t, tp_grad_node *taken);
TP_CHECK tp_grad_node *tp_accumulate_node_of(tp_tensor *leaf);     /* accumulate.c; counted */
void tp_accumulate_forget(tp_autograd *a);              /* accumulate.c: the leaf dies with a node it keeps */
/* layer.c: a node for a call, with its edges and the arguments it saves; NULL: failed. */
TP_CHECK tp_op_node *tp_op_node_new(const tp_op *op, const tp_value *arg, uint32_t slots);
TP_CHECK bool tp_op_node_save_results(tp_op_node *n, const tp_value *result);
/* engine.c: brings a gradient to the sizes and type of a slot; takes `g`, gives the owned outcome. */
TP_CHECK bool tp_fit_gradient(const tp_slot *slot, tp_value g, tp_value *out);

#endif
