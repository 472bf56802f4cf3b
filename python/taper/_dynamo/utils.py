"""Comparing results."""
from .. import _C
from ..utils import _pytree as pytree


def same(a, b, *, tol=1e-4, equal_nan=False):
    """Are two nested results equal, tensors within a tolerance?"""
    from ..testing import assert_close
    left, right = pytree.tree_flatten(a), pytree.tree_flatten(b)
    if left[1] != right[1]:
        return False
    for x, y in zip(left[0], right[0]):
        if isinstance(x, _C.Tensor) != isinstance(y, _C.Tensor):
            return False
        try:
            if isinstance(x, _C.Tensor):
                assert_close(x, y, rtol=tol, atol=tol, equal_nan=equal_nan)
            elif x != y:
                return False
        except AssertionError:
            return False
    return True
