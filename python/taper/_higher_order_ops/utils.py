"""What the operators that take functions share: checks of their arguments, nested operands made flat."""
from .. import _C
from ..utils import _pytree as pytree


def is_tensor(x):
    return isinstance(x, _C.Tensor)


def flat_function(function, spec):
    """`function` on the leaves of its arguments."""

    def flat(*leaves):
        return function(*pytree.tree_unflatten(list(leaves), spec))

    return flat
