/* onnx.h - a model in ONNX's words under construction: what the `onnx` rules of ops speak to.
 *
 * Values of the model are numbers: 0 is absent (an optional input that is not there), others name an input, a constant or
 * the output of a node. A node is begun, given inputs and attributes, and ended; inputs are made before it is begun:
 *
 *     int w = tp_onnx_arg(o, 1);
 *     tp_onnx_begin(o, "Transpose");
 *     tp_onnx_input(o, w);
 *     tp_onnx_ints(o, "perm", (int64_t[]){ 1, 0 }, 2);
 *     tp_onnx_result(o, 0, tp_onnx_end(o));
 *
 * A rule (tp_onnx_fn) lowers one call: `arg` holds the call's arguments with tensors as facts (sizes and types, no data),
 * tp_onnx_arg the same arguments as values of the model. In a call of an element-wise op arguments that promote come in the
 * op's common type, and numbers become constants of it. A rule called with a NULL model only says whether it applies.
 *
 * Sticky: after a failure these functions do nothing and give 0; tp_onnx_good says so at the end. */
#ifndef TP_EXPORT_ONNX_ONNX_H
#define TP_EXPORT_ONNX_ONNX_H

#include "ops/op.h"

typedef struct tp_onnx tp_onnx;

enum { TP_ONNX_OPSET = 18, TP_ONNX_IR = 8 };

/* ---- arguments of the call that is being lowered ---- */
int  tp_onnx_arg(tp_onnx *o, int i);            /* 0 when it is none; a number becomes a constant */
const tp_tensor *tp_onnx_result_fact(const tp_onnx *o, int k);     /* NULL: not known */
void tp_onnx_result(tp_onnx *o, int k, int value);
bool tp_onnx_good(const tp_onnx *o);

/* ---- nodes ---- */
void tp_onnx_begin(tp_onnx *o, const char *operator);
void tp_onnx_input(tp_onnx *o, int value);
void tp_onnx_inputs(tp_onnx *o, int i);         /* every tensor of the argument i, a list */
void tp_onnx_int(tp_onnx *o, const char *name, int64_t v);
void tp_onnx_float(tp_onnx *o, const char *name, double v);
void tp_onnx_text(tp_onnx *o, const char *name, const char *v);
void tp_onnx_ints(tp_onnx *o, const char *name, const int64_t *v, int count);
int  tp_onnx_end(tp_onnx *o);                   /* the value of its only output */
int  tp_onnx_end_many(tp_onnx *o, int outputs); /* the first of several: the others follow it */

/* Operators without attributes in one line; absent inputs at the end are dropped. */
int tp_onnx_1(tp_onnx *o, const char *operator, int a);
int tp_onnx_2(tp_onnx *o, const char *operator, int a, int b);
int tp_onnx_3(tp_onnx *o, const char *operator, int a, int b, int c);

/* ---- other values ---- */
int tp_onnx_cast(tp_onnx *o, int value, tp_dtype d);                /* itself when it is known to have the type */
int tp_onnx_number(tp_onnx *o, tp_value number, tp_dtype d);        /* 0-d; TP_DTYPE_NONE: the common type of the call */
int tp_onnx_list(tp_onnx *o, const int64_t *item, int count);       /* 1-d, i64 */
int tp_onnx_constant(tp_onnx *o, const tp_tensor *t, const char *name);     /* name may be NULL */

#endif
