/* c_writer.h - a program as one C file: C99, libc and libm only, no allocation.
 *
 *     void model(const float *in_x, float *out_0);
 *
 * Inputs and outputs are row-major arrays; an input that the program writes to is not const, and changes. Weights stand in the
 * file, digit by digit what they are; values in between live in static blocks, planned so that those that are not needed at
 * the same time share memory (memory_plan.h). Views are no code: they are other strides into the memory of what they look at,
 * and writes through them are loops as others are (c_write.c). Element-wise ops are written from their tile programs, so there
 * is no second definition of them; sums run in order with fma, as our own kernels do.
 * The same graph gives the same bytes, and they compile without a warning under -Wall -Wextra -Wpedantic.
 *
 * Fails: TP_ERR_UNIMPLEMENTED naming an op, a weight that is written, a type (halves, complex) or a size that is not known. */
#ifndef TP_FUSE_C_WRITER_H
#define TP_FUSE_C_WRITER_H

#include "base/text.h"
#include "ir/graph.h"

/* All borrowed. The arrays are by node id of the graph. */
typedef struct tp_c_source {
    tp_graph *graph;
    const tp_tensor *const *constant;   /* of get_attr nodes, and of placeholders that hold weights; NULL: an input */
    const char *const *name;            /* what weights and inputs are called; NULL, or a NULL in it: as their node */
    const char *function;               /* NULL: "model" */
    bool with_main;                     /* a main that reads inputs from raw files and prints the outputs */
} tp_c_source;

TP_API TP_CHECK bool tp_c_write(const tp_c_source *s, tp_text *out);

#endif
