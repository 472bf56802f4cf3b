/* derived.h - ops made of other ops.
 *
 *     testlib::foo(Tensor(a!) x, Tensor y, int k=3) -> ()
 *       auto_functionalized     (Tensor x, Tensor y, int k=3) -> (Any?, Tensor)      what x becomes is a result
 *     aten::mm(Tensor self, Tensor mat2) -> Tensor
 *       out_dtype               (ScalarType output_dtype, Tensor self, Tensor mat2) -> Tensor
 *
 * A derived op is a run-time op like any other: layers see one call of it, recorders write it down whole, at the bottom and on
 * fake tensors it calls the op it was made of. There is one for each op and derivation, made when it is first asked for; it dies
 * with its op. Python knows it as torch.ops.higher_order.NAME(op, …), and that is how graphs show it where a recorder's host
 * can (trace/record.h). In the registry it is higher_order::NAME with the op's own name as its overload.
 * Fails: TP_ERR_UNIMPLEMENTED or TP_ERR_RUNTIME where an op cannot be made into such a one. */
#ifndef TP_OPS_DERIVED_H
#define TP_OPS_DERIVED_H

#include "ops/op.h"

typedef enum tp_derivation { TP_AUTO_FUNCTIONALIZED, TP_OUT_DTYPE, TP_DERIVATION_COUNT } tp_derivation;

typedef struct tp_derivation_info {
    const char *name;           /* in higher_order */
    bool by_name;               /* a graph shows every argument by its name; otherwise by place */
    bool (*shape)(const tp_op *of, tp_op *made, tp_arg *arg, tp_arg *result);   /* what it takes, gives and does; false: it cannot be made */
} tp_derivation_info;
TP_API extern const tp_derivation_info tp_derivations[TP_DERIVATION_COUNT];

TP_API TP_CHECK const tp_op *tp_op_derive(tp_derivation how, const tp_op *of);
TP_API const tp_op *tp_op_derived(tp_derivation how, const tp_op *of);         /* NULL: none was made yet, no error set */

/* Can what the op writes be results? It writes, and gives nothing that lives in its arguments. */
TP_API bool tp_op_can_functionalize(const tp_op *op);

#endif
