"""out_dtype: an operator whose result has another type than its operands promote to."""
from .. import _C
from .._ops import HigherOrderOperator, OpOverload, ops

ALLOWABLE_OPS = [ops.aten.linear.default, ops.aten.mm.default, ops.aten.conv2d.default, ops.aten.convolution.default,
                 ops.aten.mul.Tensor, ops.aten.mul.Scalar, ops.aten.div.Tensor, ops.aten.div.Scalar]


class OutDtypeOperator(HigherOrderOperator):
    """`out_dtype(op, dtype, *args)`: computed where operands and result find room, given in `dtype`."""

    def __init__(self):
        super().__init__("out_dtype")

    def __call__(self, op, output_dtype, *args):
        if not isinstance(op, OpOverload):
            raise ValueError("out_dtype's first argument must be an OpOverload")
        if op._schema.is_mutable:
            raise ValueError("out_dtype's first argument needs to be a functional operator")
        if len(op._schema.returns) != 1 or str(op._schema.returns[0].type) != "Tensor":
            raise ValueError("out_dtype's can only apply to ops that return a single tensor"
                             f"Instead got {[r.type for r in op._schema.returns]}")
        if op not in ALLOWABLE_OPS:
            raise ValueError(f"out_dtype only allows the following operators: {ALLOWABLE_OPS}.")
        return _C._op_derived("out_dtype", op)(output_dtype, *args)


out_dtype = OutDtypeOperator()
