/* taper.h - load a program that was exported to a .pt2 file, and run it. No Python, no C++.
 *
 *     tp_program *p = tp_program_load("mlp.pt2");
 *     tp_tensor *x = tp_tensor_make("float32", 2, (int64_t[]){ 1, 3 }, (float[]){ 1, 2, 3 }), *y = NULL;
 *     if (!p || !x || !tp_program_call(p, &x, 1, &y, 1))
 *         fprintf(stderr, "%s\n", tp_error_text());
 *
 * Inputs and outputs are the leaves of what the Python module took and gave, in order; those that are no tensors keep the
 * values they had when the program was exported, and are left out here. A program that writes to its buffers remembers that
 * from call to call.
 *
 * Owners: what a function gives is the caller's, to be dropped; NULL may be dropped. Arguments are borrowed.
 * Fails: NULL or false; tp_error_text() then says why, until the next call of this thread. */
#ifndef TAPER_TAPER_H
#define TAPER_TAPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tp_program tp_program;
typedef struct tp_tensor tp_tensor;

const char *tp_error_text(void);

/* ---- programs ---- */
tp_program *tp_program_load(const char *path);
void tp_program_drop(tp_program *p);
size_t tp_program_tensor_inputs(const tp_program *p);
size_t tp_program_tensor_outputs(const tp_program *p);
/* The name of an input: "x". Borrowed; NULL: there is none. */
const char *tp_program_input_name(const tp_program *p, size_t i);
/* `output` gets as many tensors as tp_program_tensor_outputs says; an output that is no tensor is left out. */
bool tp_program_call(tp_program *p, tp_tensor *const *input, size_t input_count, tp_tensor **output, size_t output_count);

/* ---- tensors ---- */
/* Types by PyTorch's names: "float32", "int64", "bool" … Data is copied, row by row; NULL: zeros. */
tp_tensor *tp_tensor_make(const char *dtype, int rank, const int64_t *size, const void *data);
void tp_tensor_drop(tp_tensor *t);
const char *tp_tensor_type(const tp_tensor *t);
int tp_tensor_rank(const tp_tensor *t);
int64_t tp_tensor_length(const tp_tensor *t, int dim);      /* -1: no such dimension */
int64_t tp_tensor_count(const tp_tensor *t);                /* of elements */
/* Copies the elements out, row by row; `bytes` is the room there is and must be enough. */
bool tp_tensor_read(const tp_tensor *t, void *out, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
