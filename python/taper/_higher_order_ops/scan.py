"""scan: a function over slices that carries a state from one to the next."""
from .. import _C
from .._ops import ops
from ..utils import _pytree as pytree

scan_op = ops.higher_order.scan


def along_first(leaves, dim, reverse):
    """The tensors with the scanned dim in front, from its end if so wanted."""
    moved = [x.movedim(dim, 0) for x in leaves] if dim else leaves
    return [x.flip(0) for x in moved] if reverse else moved


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """`carry, y = combine_fn(carry, x)` for each slice x of `xs`; gives the last carry and all y stacked along `dim`."""
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    leaves, spec = pytree.tree_flatten(xs)
    start, start_spec = pytree.tree_flatten(init)
    if not start:
        raise RuntimeError("scan() operator requires init leaves.")
    if any(not isinstance(x, _C.Tensor) for x in leaves):
        raise RuntimeError(f"All xs leaves must be a Tensor but got {leaves}")
    if any(x.dim() <= dim or x.shape[dim] == 0 for x in leaves):
        raise RuntimeError("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    nests = []

    def flat(*values):
        carry, x = list(values[:len(start)]), list(values[len(start):])
        carry, y = combine_fn(pytree.tree_unflatten(carry, start_spec), pytree.tree_unflatten(x, spec))
        ys, y_spec = pytree.tree_flatten(y)
        nests[:] = [y_spec]
        return [*pytree.tree_leaves(carry), *ys]

    results = scan_op(flat, start, along_first(leaves, dim, reverse), ())
    ys = [y.flip(0) if reverse else y for y in results[len(start):]]
    return pytree.tree_unflatten(list(results[:len(start)]), start_spec), pytree.tree_unflatten([y.movedim(0, dim) if dim else y for y in ys], nests[0])
