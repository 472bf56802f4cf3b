/* symbolic.h - the expressions behind a tensor whose sizes are not plain integers.
 *
 * tp_tensor.symbolic points here while TP_KEY_SYMBOLIC is set; the tensor's own integers are then the hints. One block:
 * `size` and `stride` point behind the struct. Owned by the tensor, freed through `head`. */
#ifndef TP_OPS_SYMBOLIC_H
#define TP_OPS_SYMBOLIC_H

#include <assert.h>

#include "ops/value.h"
#include "sym/sym.h"

typedef struct tp_symbolic {
    tp_attached head;
    int     ndim;
    tp_sym  offset;
    tp_sym *size, *stride;
} tp_symbolic;

static inline bool tp_tensor_is_symbolic(const tp_tensor *t) { return t->keys & TP_KEY_SYMBOLIC; }
static inline tp_sym tp_tensor_sym_size(const tp_tensor *t, int dim)
{
    assert(dim >= 0 && dim < t->ndim);
    return tp_tensor_is_symbolic(t) ? t->symbolic->size[dim] : tp_sym_int(t->size[dim]);
}
static inline tp_sym tp_tensor_sym_stride(const tp_tensor *t, int dim)
{
    assert(dim >= 0 && dim < t->ndim);
    return tp_tensor_is_symbolic(t) ? t->symbolic->stride[dim] : tp_sym_int(t->stride[dim]);
}
static inline tp_sym tp_tensor_sym_offset(const tp_tensor *t)
{
    return tp_tensor_is_symbolic(t) ? t->symbolic->offset : tp_sym_int(t->offset);
}

/* Boxing: an integer is a plain one. */
static inline tp_value tp_of_sym(tp_sym x)
{
    return tp_sym_is_int(x) ? tp_int(tp_sym_as_int(x)) : (tp_value){ .tag = TP_SYM, .sym = x.word };
}
static inline tp_sym tp_sym_read(tp_value v)    /* none gives 0 */
{
    return v.tag == TP_SYM ? (tp_sym){ v.sym } : tp_sym_int(v.tag == TP_NONE ? 0 : tp_as_int(v));
}

#endif
