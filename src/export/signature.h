/* signature.h - what the inputs and outputs of an exported graph are, and edits of graphs that depend on it.
 *
 *     inputs:   p_l_weight  PARAMETER l.weight      x  USER_INPUT
 *     outputs:  add  BUFFER_MUTATION n              linear  USER_OUTPUT
 *
 * One row for each placeholder, in order, and one for each item of the output. State comes first among the inputs, what was
 * written comes first among the outputs.
 *
 * Owners: rows and texts are in the arena of whoever made them. Nothing here keeps a pointer.
 * Fails: TP_ERR_VALUE where rows and graph do not fit; TP_ERR_RUNTIME for inputs that break what was promised, in
 * PyTorch's words. */
#ifndef TP_EXPORT_SIGNATURE_H
#define TP_EXPORT_SIGNATURE_H

#include "ir/graph.h"

/* Numbered as Python's InputKind and OutputKind. */
typedef enum tp_input_kind {
    TP_INPUT_USER = 1, TP_INPUT_PARAMETER, TP_INPUT_BUFFER, TP_INPUT_CONSTANT, TP_INPUT_OBJECT, TP_INPUT_TOKEN
} tp_input_kind;
typedef enum tp_output_kind {
    TP_OUTPUT_USER = 1, TP_OUTPUT_LOSS, TP_OUTPUT_BUFFER, TP_OUTPUT_PARAMETER_GRADIENT, TP_OUTPUT_INPUT_GRADIENT, TP_OUTPUT_INPUT,
    TP_OUTPUT_TOKEN
} tp_output_kind;

typedef struct tp_input_spec {
    tp_input_kind kind;
    bool persistent;                /* of a buffer */
    const char *name;               /* arena: of the placeholder */
    const char *target;             /* arena: of state, its name there; NULL for user inputs */
} tp_input_spec;

typedef struct tp_output_spec {
    tp_output_kind kind;
    const char *target;             /* arena: the buffer, parameter or user input it is the new value (gradient) of; NULL */
} tp_output_spec;

typedef struct tp_signature {
    tp_input_spec  *input;          /* arena */
    tp_output_spec *output;         /* arena */
    size_t input_count, output_count;
} tp_signature;

/* Do the rows fit the graph: as many as placeholders and outputs, of these names, and targets that exist? */
TP_API TP_CHECK bool tp_signature_check(const tp_signature *s, const tp_graph *g);

/* ---- lift.c ---- */
/* Every get_attr of `attr` becomes the placeholder `name`, made before the node `before`. */
TP_API TP_CHECK bool tp_graph_lift(tp_graph *g, const char *attr, const char *name, tp_node *before);
/* The opposite for all state: placeholders become get_attr of their targets (or nothing, unused), what was written is
 * written back by copy_, and only user outputs are left. */
TP_API TP_CHECK bool tp_graph_unlift(tp_graph *g, const tp_signature *s);

/* ---- grad_modes.c ---- */
/* Makes a recorded graph's gradients those of the program: values from where gradients were off go on detached. The first `state` inputs
 * are state, which has gradients only if it says so; `outside` is the mode of the whole call. Fails (TP_ERR_UNIMPLEMENTED) where
 * this cannot be said. */
TP_API TP_CHECK bool tp_graph_keep_grad_modes(tp_graph *g, size_t state, bool outside);

/* ---- check.c ---- */
enum { TP_LEAST_CHECKED_SIZE = 2 };     /* a lower bound up to this is not enforced, so that sizes 0 and 1 pass an ordinary Dim */
/* May these user inputs, one for each user row, be given to the graph? Sizes are compared with the facts of placeholders:
 * symbols unify in order. Symbolic sizes are asked, so that a trace of the call promises them, too. `path` gives what messages call the i-th input. */
typedef const char *tp_input_path(void *data, size_t i);
TP_API TP_CHECK bool tp_inputs_check(const tp_graph *g, const tp_signature *s, const tp_value *input, size_t count,
                                     tp_input_path *path, void *data);

#endif
