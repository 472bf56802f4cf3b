"""What the capture in C is told of the package: which classes and functions it treats in which way."""
import builtins
import functools
import operator
import types

from .. import _C

_IN_PLACE = ("iadd iand ifloordiv ilshift imatmul imul imod ior ipow irshift isub itruediv ixor").split()
_PLAIN = ("add and_ floordiv lshift matmul mul mod or_ pow rshift sub truediv xor").split()


def _recorded():
    """Python functions that become one node each: those users know as torch's own."""
    from .. import functional
    from ..nn import functional as nn_functional

    found = set()
    for module in (nn_functional, functional):
        for name, value in vars(module).items():
            if isinstance(value, types.FunctionType) and not name.startswith("__"):
                found.add(value)
    return found


def _compile_graph(backend, graph, attributes, examples):
    """Hands a captured graph to a back end; what comes back runs it."""
    from ..fx import GraphModule
    from .._subclasses.fake_tensor import DataDependentOutputException
    from .exc import BackendCompilerFailed, BackendNeedsData

    module = GraphModule(attributes, graph, "GraphModule")
    try:
        compiled = backend(module, examples)
        if not callable(compiled):
            raise TypeError("compiler_fn did not return callable")
    except DataDependentOutputException as error:
        raise BackendNeedsData(backend, error) from error
    except Exception as error:
        raise BackendCompilerFailed(backend, error) from error
    return compiled


def tell():
    from .. import nn
    from ..autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
    from . import eval_frame, exc

    _C._capture._configure({
        "unsupported": exc.Unsupported,
        "failed": exc.BackendCompilerFailed,
        "recompiled": exc.RecompileError,
        "module": nn.Module,
        "opened": (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict),
        "recorded": _recorded(),
        "contexts": (no_grad, enable_grad, set_grad_enabled, inference_mode),
        "breaks": eval_frame.breaks,
        "operators": tuple(getattr(operator, name) for name in _PLAIN + _IN_PLACE),
        "comparisons": (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge),
        "getitem": operator.getitem,
        "setitem": operator.setitem,
        "neg": operator.neg,
        "pos": operator.pos,
        "invert": operator.invert,
        "getattr": builtins.getattr,
        "set_grad_enabled": _C._set_grad_enabled,
        "partial": functools.partial,
        "compile_graph": _compile_graph,
    })
