/* print.h - a tensor as PyTorch prints it.
 *
 *     tensor([[ 1.0000,  2.5000],
 *             [-3.0000,     nan]], dtype=torch.float64, grad_fn=<MulBackward0>)
 *
 * The numbers, their common width, the choice of scientific notation, line breaks and the dots of long tensors are ours;
 * what follows the closing bracket (dtype, device, grad_fn …) is given by the caller, who knows the package's name.
 * Nothing fails but memory: look at out->failed. The tensor must have data. */
#ifndef TP_TENSOR_PRINT_H
#define TP_TENSOR_PRINT_H

#include "base/text.h"
#include "tensor/tensor.h"

typedef struct tp_print_options {
    int64_t threshold;          /* more elements are summarised */
    int     precision, edge_items, line_width;
    int     scientific;         /* -1: decided by the values, 0 never, 1 always */
} tp_print_options;

#define TP_PRINT_DEFAULTS ((tp_print_options){ 1000, 4, 3, 80, -1 })

/* Appends `prefix` ("tensor("), the elements, each suffix after a comma (on a line of its own when it does not fit), ")". */
TP_API void tp_tensor_print(const tp_tensor *t, const tp_print_options *options, const char *prefix, const char *const *suffix, int suffix_count,
                            tp_text *out);
/* The elements alone, as they stand behind a prefix of `indent` characters. */
TP_API void tp_tensor_print_elements(const tp_tensor *t, const tp_print_options *options, int indent, tp_text *out);

#endif
