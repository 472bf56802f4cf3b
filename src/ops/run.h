/* run.h - what the files that run ops share. */
#ifndef TP_OPS_RUN_H
#define TP_OPS_RUN_H

#include "ops/op.h"

/* Fails when a tensor of inference mode is to be written outside it. */
TP_API TP_CHECK bool tp_check_inference(const tp_tensor *out);
/* So does this, and when two elements of a tensor that is to be written share memory. */
TP_CHECK bool tp_check_written(const tp_tensor *out);
/* A result cannot go to a tensor of another device; a factory makes it where that is. */
TP_CHECK bool tp_check_out_device(const tp_op *op, tp_device made, const tp_tensor *out);
/* Fails when one of two tensors is to be written that share memory and are dense, as elements of both then stand at one place.
 * Where it cannot tell that cheaply it passes: who asks makes the result apart. */
TP_CHECK bool tp_check_entangled(const tp_tensor *t, const tp_tensor *written);
/* Fails when what this call writes shares memory with an argument that its op keeps apart (`overlap`). */
TP_CHECK bool tp_check_apart(const tp_op *op, const tp_value *arg);
/* Does what the call writes in this argument share memory with another of its arguments? `resized`: its sizes change, too. */
bool tp_is_entangled(const tp_op *op, const tp_value *arg, int written, bool resized);
/* Fails when a result of one type cannot go into a tensor of another. */
TP_API TP_CHECK bool tp_check_castable(tp_dtype from, tp_dtype to);
/* An `out` argument takes the size of the result, with a warning where it had elements: not where a factory makes new ones. */
TP_CHECK bool tp_resize_out(const tp_op *op, tp_tensor *out, int ndim, const int64_t *size);
/* Fails when a type cannot hold a number. */
TP_API TP_CHECK bool tp_check_representable(tp_scalar s, tp_dtype d);

/* How an element-wise call would run: its tile program, the type it computes for, the type of its result. Arguments may be
 * fake. Whoever writes the program in other words (C, ONNX) asks this. */
TP_API TP_CHECK bool tp_pointwise_form(const tp_op *op, const tp_value *arg, const tp_tile_form **form, tp_dtype *common, tp_dtype *result);

#endif
