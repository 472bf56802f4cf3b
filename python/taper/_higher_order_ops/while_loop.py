"""while_loop: a function repeated on its own results while another says so."""
from .._ops import ops
from ..utils import _pytree as pytree
from .utils import flat_function

while_loop_op = ops.higher_order.while_loop


def while_loop(cond_fn, body_fn, carried_inputs):
    """`carried = body_fn(*carried)` while `cond_fn(*carried)` holds."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple, but got {type(carried_inputs)}.")
    leaves, spec = pytree.tree_flatten(tuple(carried_inputs))
    results = while_loop_op(flat_function(cond_fn, spec), flat_function(body_fn, spec), leaves, ())
    return pytree.tree_unflatten(pytree.tree_leaves(results), spec)
