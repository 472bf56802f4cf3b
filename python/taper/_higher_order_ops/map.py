"""control_flow.map: a function applied along the first dim, its results stacked."""
from .._ops import ops
from ..utils import _pytree as pytree
from .utils import is_tensor

map_impl = ops.higher_order.map_impl


def map(f, xs, *args):
    """`f` on each slice of the tensors in `xs`, with `args` as they are."""
    leaves, spec = pytree.tree_flatten(xs)
    if not all(is_tensor(x) for x in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    sizes = [x.shape for x in leaves]
    if any(size[0] != sizes[0][0] for size in sizes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {sizes}.")
    if sizes[0][0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    more, more_spec = pytree.tree_flatten(args)

    def flat(*values):
        mapped, rest = list(values[:len(leaves)]), list(values[len(leaves):])
        return f(pytree.tree_unflatten(mapped, spec), *pytree.tree_unflatten(rest, more_spec))

    return map_impl(flat, leaves, more)
