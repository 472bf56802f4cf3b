"""auto_functionalized: an operator that writes into its arguments, as one that gives their new values."""
from .. import _C
from .._ops import HigherOrderOperator, OpOverload


def can_auto_functionalize(op):
    """Does the operator write, and give nothing that lives in its arguments?"""
    return isinstance(op, OpOverload) and _C._op_can_functionalize(op)


class AutoFunctionalized(HigherOrderOperator):
    """`auto_functionalized(op, **arguments)` gives what `op` gives, then each argument that it would have written; None first
    when it gives nothing. The arguments themselves stay as they are."""

    def __init__(self, name="auto_functionalized"):
        super().__init__(name)

    def __call__(self, _mutable_op, /, **kwargs):
        if not can_auto_functionalize(_mutable_op):
            raise AssertionError(f"Cannot auto-functionalize op {_mutable_op}")
        return _C._op_derived("auto_functionalized", _mutable_op)(**kwargs)


auto_functionalized = AutoFunctionalized()
auto_functionalized_v2 = HigherOrderOperator("auto_functionalized_v2")
