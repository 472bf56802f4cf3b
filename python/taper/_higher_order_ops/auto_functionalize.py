"""auto_functionalized: an operator that writes into its arguments, as one that gives their new values."""
from .._ops import HigherOrderOperator


class AutoFunctionalized(HigherOrderOperator):
    def __init__(self, name="auto_functionalized"):
        super().__init__(name)


auto_functionalized = AutoFunctionalized()
auto_functionalized_v2 = AutoFunctionalized("auto_functionalized_v2")
