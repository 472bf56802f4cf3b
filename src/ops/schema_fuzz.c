/* schema_fuzz.c - broken schemas: each is read or refused. */
#include "base/fuzz.h"
#include "ops/op.h"

static const char *const seeds[] = {
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "split(Tensor(a -> *) self, SymInt[] sizes, int dim=0) -> Tensor(a)[]",
    "f(Tensor(a!) self, float[] w=[0.5, 1], str how=\"mean\", Tensor?[] more=[], int[2]? pad=None) -> (Tensor(a!) out, int[] n)",
    "space::name.over(bool[3] mask, MemoryFormat? f=contiguous_format, ScalarType? dtype=4) -> ()",
};

static void one_input(const char *text, size_t length)
{
    (void)length;
    tp_op *op = tp_op_define("fuzz", text);
    if (op)
        tp_op_undefine(op);
}

TP_FUZZ_MAIN(seeds, one_input)
