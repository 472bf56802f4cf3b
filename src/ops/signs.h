/* signs.h - tensors that stand for the conjugates, or the negatives, of what is in their memory.
 *
 * x.conj() of a complex tensor is a view: it shares memory, is written through, and carries a sign (tp_signs). So does every view of
 * it, and the imaginary part of it stands for negatives. Nothing is computed until somebody reads. Who reads is a kernel, and the
 * lowest layer stands before them all: it gives them elements as they are meant, and takes theirs back into memory with the
 * signs undone. What only looks at geometry, and copies (copy.h knows signs), it lets pass.
 *
 * The layer is the lowest, where PyTorch's stands above tracers: a graph has the conjugate as a view and its reader, without the
 * copy between them. Below that layer nobody meets a sign. */
#ifndef TP_OPS_SIGNS_H
#define TP_OPS_SIGNS_H

#include "ops/op.h"

/* The sign that a view turns, 0: none. */
static inline uint32_t tp_turns(const tp_op *op)
{
    return (op->flags & TP_OP_TURNS_CONJ ? TP_KEY_CONJ : 0) | (op->flags & TP_OP_TURNS_NEG ? TP_KEY_NEG : 0);
}

#endif
