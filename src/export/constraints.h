/* constraints.h - did tracing need more of the declared sizes than the user declared?
 *
 * A declared size (a Dim) is a symbol of the environment. What the trace found out about it sits there already: a replacement
 * (it is a number, or a linear function of another size), a range, a residue. What is none of these, a relation of several
 * symbols, is too complex: its symbols would have to be the numbers of the example. So would be a root that only its derived
 * sizes pin down. Each finding is a line of the message,
 * and a replacement for the user's declaration where there is one:
 *
 *     Constraints violated (dim)! For more information, run with TORCH_LOGS="+dynamic".
 *       - Not all values of dim = L['x'].size()[0] in the specified range satisfy the generated guard …
 *     Suggested fixes:
 *       dim = Dim('dim', min=3, max=6)
 *
 * Fails: no memory only; a violation is a text. */
#ifndef TP_EXPORT_CONSTRAINTS_H
#define TP_EXPORT_CONSTRAINTS_H

#include "sym/env.h"

/* x as factor * symbol + offset, factor above 0, by its values at 0, 1 and 2; false, without an error: it is no such thing. */
TP_API bool tp_size_is_linear(tp_sym x, tp_sym symbol, int64_t *factor, int64_t *offset);

typedef struct tp_dim {
    const char *name;           /* borrowed: "batch" */
    const char *source;         /* borrowed, may be NULL: "L['x'].size()[0]", the first size that has it */
    tp_sym      symbol;         /* or an integer, where the example's size was 0 or 1; of a derived size its expression */
    bool        derived;        /* from dims[root]: "2*batch + 1"; comes after it */
    size_t      root;
} tp_dim;

/* Appends the message; nothing when all is as declared. `keep_complex`: relations of several symbols are let be. */
TP_API TP_CHECK bool tp_dims_check(tp_shape_env *env, const tp_dim *dim, size_t count, bool keep_complex, tp_text *out);

#endif
