"""associative_scan: all partial results of an associative function along a dim."""
from .._ops import ops
from ..utils import _pytree as pytree
from .scan import along_first

associative_scan_op = ops.higher_order.associative_scan


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """The running results of `combine_fn` over the slices of `xs` along `dim`."""
    if not callable(combine_fn):
        raise ValueError("Combine_fn must be a callable, but got {}".format(combine_fn))
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = pytree.tree_flatten(xs)
    count = len(leaves)
    if not count:
        raise ValueError("Expected at least 1 xs leaf")

    def flat(*values):
        a, b = list(values[:count]), list(values[count:])
        return pytree.tree_leaves(combine_fn(pytree.tree_unflatten(a, spec), pytree.tree_unflatten(b, spec)))

    results = associative_scan_op(flat, along_first(leaves, dim, reverse), ())
    ys = [y.flip(0) if reverse else y for y in results]
    return pytree.tree_unflatten([y.movedim(0, dim) if dim else y for y in ys], spec)
