/* hooks.h - the prototypes of C functions that entries of *.op files name, one per prefix.
 *
 * opgen declares each named function with the macro of its prefix, so a wrong signature is a compile error.
 *
 *     tp_k_  kernels/        the work of an op on allocated results
 *     tp_c_  ops/rules/      a check of the arguments beyond the entry's `check` lines
 *     tp_s_  ops/rules/      the sizes of a result
 *     tp_d_  ops/rules/      a decomposition: calls other ops through the dispatcher
 *     tp_v_  ops/rules/      a batching rule
 *     tp_j_  ops/rules/      a forward-mode rule (tp_j_transposed: trace/)
 *     tp_o_  export/onnx/    the ONNX nodes of a call */
#ifndef TP_OPS_HOOKS_H
#define TP_OPS_HOOKS_H

#include "ops/op.h"
#include "sym/sym.h"

/* Sizes, strides: as many words as are used. Also what generated shape rules compute with. */
typedef struct tp_syms {
    int    count;
    tp_sym item[TP_MAX_DIMS];
} tp_syms;

/* The symbolic twin of tp_geometry. */
typedef struct tp_sym_geometry {
    uint8_t dtype, ndim;
    bool    unknown;            /* never set: data-dependent sizes are fresh symbols here */
    bool    absent;             /* not asked for by this call: the result is none */
    tp_device device;
    tp_sym  offset;
    tp_sym  size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
} tp_sym_geometry;

#define TP_HOOK_K(name) bool name(const tp_value *arg, tp_tensor **out)
#define TP_HOOK_C(name) bool name(const tp_value *arg)
#define TP_HOOK_S(name) bool name(const tp_value *arg, tp_syms *out)
#define TP_HOOK_D(name) bool name(const tp_op *op, const tp_value *arg, tp_value *result)
#define TP_HOOK_V(name) bool name(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result)
#define TP_HOOK_J(name) bool name(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out)
#define TP_HOOK_O(name) int name(struct tp_onnx *o, const tp_value *arg)

/* ---- how the kinds run (ops/run_*.c); opgen puts them into tp_op.run and tp_op.infer ---- */
bool tp_run_pointwise(const tp_op *op, const tp_value *arg, tp_value *result);
bool tp_run_reduction(const tp_op *op, const tp_value *arg, tp_value *result);
bool tp_run_kernel(const tp_op *op, const tp_value *arg, tp_value *result);     /* infer, allocate, op->work->kernel */
bool tp_infer_seldom(const tp_op *op, const tp_value *arg, tp_geometry *out);   /* infer_sym, for `seldom` ops the only rule */
bool tp_run_view(const tp_op *op, const tp_value *arg, tp_value *result);       /* infer, alias the first argument */
bool tp_run_turn(const tp_op *op, const tp_value *arg, tp_value *result);       /* a view of conjugates or negatives */
bool tp_run_open(const tp_op *op, const tp_value *arg, tp_value *result);       /* the decomposition, at the bottom */
bool tp_open_named(const tp_op *op, const tp_value *arg, tp_value *result);     /* opens another name of an op: calls the op */
bool tp_open_each(const tp_op *op, const tp_value *arg, tp_value *result);      /* calls another op for each member of its lists */
bool tp_open_on_copies(const tp_op *op, const tp_value *arg, tp_value *result); /* the functional and out forms of a step that writes lists */
bool tp_run_metadata(const tp_op *op, const tp_value *arg, tp_value *result);   /* kernel writes and returns argument 0 */
bool tp_run_variant(const tp_op *op, const tp_value *arg, tp_value *result);    /* in-place, out and functional twins of kernel ops */
bool tp_run_list_view(const tp_op *op, const tp_value *arg, tp_value *result);  /* `results k < n`: open makes the list */
bool tp_run_meta(const tp_op *op, const tp_value *arg, tp_value *result);       /* sizes without memory: infer alone */
bool tp_infer_pointwise(const tp_op *op, const tp_value *arg, tp_geometry *out);
/* Strides of a dense tensor whose dims stand in memory in the order of these integer ones. */
void tp_sym_strides_by_hint(int ndim, const int64_t *hint, const tp_sym *size, tp_sym *stride);
bool tp_infer_pointwise_sym(const tp_op *op, const tp_value *arg, tp_sym_geometry *out);

#endif
