"""out_dtype: an operator whose result has another type than its operands promote to."""
from .._ops import HigherOrderOperator, OpOverload


class OutDtypeOperator(HigherOrderOperator):
    def __init__(self):
        super().__init__("out_dtype")

    def __call__(self, op, output_dtype, *args):
        if not isinstance(op, OpOverload):
            raise ValueError("out_dtype's first argument must be an OpOverload")
        if op._schema.is_mutable:
            raise ValueError("out_dtype's first argument needs to be a functional operator")
        if len(op._schema.returns) != 1 or str(op._schema.returns[0].type) != "Tensor":
            raise ValueError("out_dtype's can only apply to ops that return a single tensor")
        raise NotImplementedError("the operator out_dtype is not implemented in Taper yet")


out_dtype = OutDtypeOperator()
