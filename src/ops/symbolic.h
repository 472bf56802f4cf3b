/* symbolic.h - the expressions behind a tensor whose sizes are not plain integers.
 *
 * tp_tensor.symbolic points here while TP_KEY_SYMBOLIC is set; the tensor's own integers are then the hints. One block:
 * `size` and `stride` point behind the struct. Owned by the tensor, freed through `head`. */
#ifndef TP_OPS_SYMBOLIC_H
#define TP_OPS_SYMBOLIC_H

#include "sym/sym.h"
#include "tensor/tensor.h"

typedef struct tp_symbolic {
    tp_attached head;
    int     ndim;
    tp_sym  offset;
    tp_sym *size, *stride;
} tp_symbolic;

static inline bool tp_tensor_is_symbolic(const tp_tensor *t) { return t->keys & TP_KEY_SYMBOLIC; }
static inline tp_sym tp_tensor_sym_size(const tp_tensor *t, int dim)
{
    return tp_tensor_is_symbolic(t) ? t->symbolic->size[dim] : tp_sym_int(t->size[dim]);
}
static inline tp_sym tp_tensor_sym_stride(const tp_tensor *t, int dim)
{
    return tp_tensor_is_symbolic(t) ? t->symbolic->stride[dim] : tp_sym_int(t->stride[dim]);
}
static inline tp_sym tp_tensor_sym_offset(const tp_tensor *t)
{
    return tp_tensor_is_symbolic(t) ? t->symbolic->offset : tp_sym_int(t->offset);
}

#endif
