"""make_fx: a function's tensor operations as a graph. Recording is done in C; here inputs are prepared and named."""
import contextlib
import functools
import types

from ... import _C
from ..._options import refuse
from ...utils import _pytree as pytree
from .. import GraphModule, traceback
from ..graph import _PyTreeCodeGen, _PyTreeInfo

__all__ = ["make_fx", "PythonKeyTracer", "dispatch_trace", "get_proxy_mode", "is_sym_node", "get_isolated_graphmodule"]


_STARS = 0x4 | 0x8          # CO_VARARGS, CO_VARKEYWORDS: `inspect` takes longer to import than a small model to compile
_ROUTINES = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType,
             types.MethodWrapperType, types.ClassMethodDescriptorType)


def is_sym_node(node):
    return isinstance(node._val, (_C.SymInt, _C.SymFloat, _C.SymBool))


def _unwrapped(function):
    """What the user wrote: transforms keep the signature of what they wrap."""
    seen, outermost = {id(function)}, function
    while callable(function) and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
        if id(function) in seen:
            raise ValueError(f"wrapper loop when unwrapping {outermost!r}")
        seen.add(id(function))
    return function


def _argument_names(function, count):
    """Names of the positional arguments; None where the function does not say."""
    code = getattr(_unwrapped(function), "__code__", None)
    if code is None or code.co_kwonlyargcount or code.co_flags & _STARS:
        return None
    wanted = code.co_argcount - (1 if isinstance(function, types.MethodType) else 0)
    if wanted != count:
        raise RuntimeError(f"Tracing expected {wanted} arguments but got {count} concrete arguments")
    return list(code.co_varnames[code.co_argcount - wanted:code.co_argcount])


def _class_name(function):
    return getattr(function, "__name__", "<lambda>") if isinstance(function, _ROUTINES) else "<lambda>"


def _find_mode(leaves):
    return next((mode for mode in (getattr(x, "fake_mode", None) for x in leaves) if mode is not None), None)


def _prepared(leaves, tracing_mode, allow_non_fake_inputs):
    """The inputs as the mode wants them, and the context in which the function runs."""
    if tracing_mode == "real":
        return leaves, contextlib.nullcontext()
    if tracing_mode not in ("fake", "symbolic"):
        raise AssertionError(f"Unexpected tracing type: {tracing_mode}")
    from ..._subclasses.fake_tensor import FakeTensorMode
    from .symbolic_shapes import ShapeEnv

    symbolic = tracing_mode == "symbolic"
    mode = FakeTensorMode(allow_fallback_kernels=True, allow_non_fake_inputs=allow_non_fake_inputs, shape_env=ShapeEnv(),
                          static_shapes=not symbolic)
    if not symbolic:
        return mode._fakes(leaves), mode
    prepared = []
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, _C.Tensor):
            leaf = mode.from_tensor(leaf, source=f"arg{i}")
        elif type(leaf) is int:
            leaf = leaf if leaf in (0, 1) else mode.shape_env._integer(leaf, f"arg{i}", -2**63, 2**63 - 1)
        prepared.append(leaf)
    return prepared, mode


def _table(decomposition_table):
    if not decomposition_table:
        return None
    return {op: function for op, function in decomposition_table.items() if isinstance(op, _C._OpOverloadBase)}


def _trace(function, args, decomposition_table, tracing_mode, allow_non_fake_inputs, pre_dispatch, lines=False):
    names = _argument_names(function, len(args))
    leaves, spec = pytree.tree_flatten(args)
    nested = any(not child.is_leaf() for child in spec.children())
    given = names or [f"arg{i}" for i in range(len(args))]
    # Leaves are called after their argument: x_1; a nested argument's x_1, x_2 …
    wishes = [f"{name}_1" for name, child in zip(given, spec.children()) for _ in range(child.num_leaves)]
    prepared, context = _prepared(leaves, tracing_mode, allow_non_fake_inputs)
    with context:
        graph, constants, out_spec = _C._make_fx(function, prepared, wishes, spec, pre_dispatch, _table(decomposition_table), nested, lines,
                                                 traceback.has_preserved_node_meta())
    if nested:
        in_spec = pytree.TreeSpec(list, None, spec.children())
        graph._codegen = _PyTreeCodeGen(_PyTreeInfo(given, in_spec, out_spec))
    module = GraphModule(constants, graph, _class_name(_unwrapped(function)))
    if getattr(context, "shape_env", None) is not None:
        module.shape_env = context.shape_env
    return module


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *, pre_dispatch=False,
            record_module_stack=False, _allow_fake_constant=False, _error_on_data_dependent_ops=True, record_stack_traces=False,
            proxy_module_inputs=False, _disable_torch_fn_metadata_mode=False):
    """A function that, called with example inputs, gives the GraphModule of what `f` does with them."""
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f'tracing_mode must be "real", "fake", or "symbolic", got {tracing_mode}')
    refuse("make_fx", record_module_stack=(record_module_stack, False), proxy_module_inputs=(proxy_module_inputs, False))

    @functools.wraps(f, updated=())
    def wrapped(*args):
        return _trace(f, args, decomposition_table, tracing_mode, _allow_non_fake_inputs, pre_dispatch, record_stack_traces)

    return wrapped


def dispatch_trace(root, tracer=None, concrete_args=None):
    refuse("dispatch_trace", tracer=(tracer, None))
    return _trace(root, tuple(concrete_args or ()), None, "real", False, False)


def get_isolated_graphmodule(func, args, kwargs, tracing_mode="real", decomposition_table=None):
    """The graph of a call with keyword arguments, untouched by whoever traces around it."""
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def flat(*leaves):
        positional, named = pytree.tree_unflatten(leaves, spec)
        return func(*positional, **named)

    return make_fx(flat, decomposition_table, tracing_mode)(*leaves)


class PythonKeyTracer:
    """Kept for its name: the recorder is C's."""

    def __init__(self):
        raise NotImplementedError("PythonKeyTracer: tracing is done by make_fx")


def get_proxy_mode():
    """The recorder that is at work is no Python object."""
    return None
