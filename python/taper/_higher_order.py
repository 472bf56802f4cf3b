"""Operators that take functions: control flow, loops, calls of other operators. What they do is C (src/ops/higher.op)."""
from . import _C, _facades
from ._ops import HigherOrderOperator, OpOverload, ops
from .utils import _pytree as pytree


# ---- What the operators that take functions share: checks of their arguments, nested operands made flat ------------
def is_tensor(x):
    return isinstance(x, _C.Tensor)


def flat_function(function, spec):
    """`function` on the leaves of its arguments."""

    def flat(*leaves):
        return function(*pytree.tree_unflatten(list(leaves), spec))

    return flat


# ---- torch.cond: one of two functions, chosen by data --------------------------------------------------------------
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
    if is_tensor(pred) and _C._functorch.is_batchedtensor(pred):       # members of a batch may choose differently: both, and where
        return pytree.tree_map(lambda a, b: _C._VariableFunctions.where(pred, a, b), true_fn(*operands), false_fn(*operands))
    leaves, spec = pytree.tree_flatten(tuple(operands))
    return cond_op(pred, flat_function(true_fn, spec), flat_function(false_fn, spec), leaves)


# ---- while_loop: a function repeated on its own results while another says so --------------------------------------
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


# ---- control_flow.map: a function applied along the first dim, its results stacked ---------------------------------
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


# ---- scan: a function over slices that carries a state from one to the next ----------------------------------------
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
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    for x in start:
        if not is_tensor(x):
            raise RuntimeError(f"All init leaves must be a Tensor but got {x}")
    for x in leaves:
        if not is_tensor(x):
            raise RuntimeError(f"All xs leaves must be a Tensor but got {x}")
    if not leaves:
        return init, []
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


# ---- associative_scan: all partial results of an associative function along a dim ----------------------------------
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
    if not all(is_tensor(x) for x in leaves):
        raise ValueError(f"xs leaves must be a Tensor but got {next(x for x in leaves if not is_tensor(x))}")
    if any(not -x.dim() <= dim < x.dim() for x in leaves):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-leaves[0].dim()}, {leaves[0].dim() - 1}], but got {dim})")

    def flat(*values):
        a, b = list(values[:count]), list(values[count:])
        made, form = pytree.tree_flatten(combine_fn(pytree.tree_unflatten(a, spec), pytree.tree_unflatten(b, spec)))
        if len(made) != count:
            raise RuntimeError("The number of leaves of the pytree of the output of the operator needs to match the length of the pytree of the input")
        return made

    results = associative_scan_op(flat, along_first(leaves, dim, reverse), ())
    ys = [y.flip(0) if reverse else y for y in results]
    return pytree.tree_unflatten([y.movedim(0, dim) if dim else y for y in ys], spec)


# ---- out_dtype: an operator whose result has another type than its operands promote to -----------------------------
ALLOWABLE_OPS = [ops.aten.linear.default, ops.aten.mm.default, ops.aten.conv2d.default, ops.aten.convolution.default,
                 ops.aten.mul.Tensor, ops.aten.mul.Scalar, ops.aten.div.Tensor, ops.aten.div.Scalar]


class OutDtypeOperator(HigherOrderOperator):
    """`out_dtype(op, dtype, *args)`: computed where operands and result find room, given in `dtype`."""

    def __init__(self):
        super().__init__("out_dtype")

    def __call__(self, op, output_dtype, *args):
        if not isinstance(op, OpOverload):
            raise ValueError("out_dtype's first argument must be an OpOverload")
        if op._schema.is_mutable:
            raise ValueError("out_dtype's first argument needs to be a functional operator")
        if len(op._schema.returns) != 1 or str(op._schema.returns[0].type) != "Tensor":
            raise ValueError("out_dtype's can only apply to ops that return a single tensor"
                             f"Instead got {[r.type for r in op._schema.returns]}")
        if op not in ALLOWABLE_OPS:
            raise ValueError(f"out_dtype only allows the following operators: {ALLOWABLE_OPS}.")
        return _C._op_derived("out_dtype", op)(output_dtype, *args)


out_dtype = OutDtypeOperator()


# ---- auto_functionalized: an operator that writes into its arguments, as one that gives their new values -----------
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


_facades.settle(__name__)
