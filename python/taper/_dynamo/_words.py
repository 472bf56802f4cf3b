"""What the capture in C is told of the package: which classes and functions it treats in which way."""
import builtins
import functools
import gc
import operator
import os
import sys
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
    from .exc import BackendCompilerFailed, BackendNeedsData, Unsupported
    from .._options import warn_once

    if any(getattr(t, "_dynamo_dynamic_indices", None) for t in examples):
        warn_once("torch._dynamo.mark_dynamic: Taper captures a function for the sizes it is called with, and again for others")
    module = GraphModule(attributes, graph, "GraphModule")
    applies = any(node.target is _C._function_apply for node in graph.nodes)
    refusal = "an autograd.Function, where the back end runs the generated code"
    try:
        compiled = backend(module, examples)
        if not callable(compiled):
            raise TypeError("compiler_fn did not return callable")
    except DataDependentOutputException as error:
        raise BackendNeedsData(backend, error) from error
    except Exception as error:
        if applies and isinstance(error, SyntaxError):
            raise Unsupported(refusal) from error
        raise BackendCompilerFailed(backend, error) from error
    if applies and (compiled is module or getattr(compiled, "__self__", None) is module):
        raise Unsupported(refusal)
    return compiled


# Functions of the extension that are no ops. They depend on their arguments and on what an entry assumes of the thread anyway ...
_PURE = (
    "is_tensor promote_types can_cast _result_type _broadcast_shapes tensor as_tensor asarray is_grad_enabled is_inference_mode_enabled "
    "_is_fwd_grad_enabled is_anomaly_enabled is_anomaly_check_nan_enabled get_default_dtype _get_attention_off _get_deterministic _autocast_flags "
    "_has_torch_function _has_torch_function_unary _has_torch_function_variadic _is_torch_function_enabled _len_torch_function_stack "
    "_len_torch_dispatch_stack _get_tracing_state _is_tracing _module_tensors _module_lacks").split()
# ... or set that state, which a graph can do as well; what is on neither list gives a capture up.
_ACTING = "_set_grad_enabled _set_autocast_flags _autocast_nest clear_autocast_cache".split()
# What a refusal calls the most frequent of the others.
_KNOWN_AS = {
    "_gather_gradients": "the step of an optimiser", "_drop_gradients": "zero_grad", "_run_backward": "a backward or autograd.grad",
    "_function_apply": "an autograd.Function", "_set_inference_mode": "inference_mode", "_set_default_dtype": "set_default_dtype",
    "_push_on_torch_function_stack": "a function mode or default device", "_push_on_torch_dispatch_stack": "a dispatch mode",
    "_push_saved_hooks": "hooks of saved tensors", "_disable_saved_hooks": "hooks of saved tensors", "_set_anomaly_enabled": "anomaly detection",
    "_module_swap": "functional_call", "_set_deterministic": "use_deterministic_algorithms", "_set_print_options": "set_printoptions",
    "_set_attention_off": "sdpa_kernel or a switch of attention", "_set_fwd_grad_enabled": "the mode of forward AD",
    "_library_define": "a definition of an op", "_module_put": "a module's conversion", "_module_train_children": "train() or eval() of a module",
}
_TREES = "_pytree_flatten _pytree_leaves _pytree_map _pytree_structure _pytree_unflatten _pytree_is_leaf _pytree_leaves_with_path".split()


def acting():
    """The functions whose calls in a graph change the state of the thread: it must be run as it is written."""
    return {getattr(_C, name) for name in _ACTING}


def _lists():
    """Callables by how they meet state that is not the program's own."""
    from .. import _autocast
    from ..utils.hooks import RemovableHandle
    from . import eval_frame

    # A hook that comes or goes: whether modules are called as they are was asked before.
    eval_frame.breaks.update((RemovableHandle.__init__, RemovableHandle.remove))
    functorch = {getattr(_C._functorch, name) for name in ("is_batchedtensor", "is_gradtrackingtensor", "is_functorch_wrapped_tensor")}
    return {
        "pure": {getattr(_C, name) for name in _PURE} | {_C._nn._parse_to} | functorch,
        "acting": acting(),
        "asked": {_C.get_num_threads, _autocast.flags_of_other, os.getcwd, sys.getrecursionlimit, sys.getswitchinterval,
                  sys.get_int_max_str_digits, gc.isenabled, gc.get_threshold},
        "affirmed": {eval_frame.is_compiling, eval_frame.is_dynamo_compiling},
        "breaks": eval_frame.breaks,
        "trees": {getattr(_C, name) for name in _TREES},
    }


def tell():
    from .. import backends, nn
    from .._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException,
                                           UnsupportedOperatorException)
    from ..autograd.grad_mode import enable_grad, no_grad, set_grad_enabled
    from . import exc
    from .backends.registry import lookup_backend

    _C._capture._configure({
        **_lists(),
        "known_as": _KNOWN_AS,
        "function_apply": _C._function_apply,
        "code_backends": {lookup_backend("eager"), lookup_backend("inductor")},
        "tree_classes": _C._pytree_nodes,
        "switches": backends._Switches,
        "over_limit": exc.FailOnRecompileLimitHit,
        "needs_data": (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException, UnsupportedOperatorException),
        "unsupported": exc.Unsupported,
        "failed": exc.BackendCompilerFailed,
        "recompiled": exc.RecompileError,
        "module": nn.Module,
        "opened": (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict),
        "recorded": _recorded(),
        "contexts": (no_grad, enable_grad, set_grad_enabled),
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
