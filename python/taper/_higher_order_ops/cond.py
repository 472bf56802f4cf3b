"""torch.cond: one of two functions, chosen by data."""
from .. import _C
from .._ops import ops
from ..utils import _pytree as pytree
from .utils import flat_function, is_tensor

cond_op = ops.higher_order.cond


def _check(pred, true_fn, false_fn, operands):
    if not isinstance(pred, (bool, int, float, _C.Tensor, _C.SymBool, _C.SymInt)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if is_tensor(pred) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not pytree.tree_all(is_tensor, operands):
        raise RuntimeError("Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
                           f"but got {operands}.")


def cond(pred, true_fn, false_fn, operands=()):
    """`true_fn(*operands)` where pred holds, else `false_fn(*operands)`; recorded as a node with both."""
    if type(pred) in (bool, int, float):        # nothing to choose when the program runs
        return (true_fn if pred else false_fn)(*operands)
    _check(pred, true_fn, false_fn, operands)
    leaves, spec = pytree.tree_flatten(tuple(operands))
    return cond_op(pred, flat_function(true_fn, spec), flat_function(false_fn, spec), leaves)
