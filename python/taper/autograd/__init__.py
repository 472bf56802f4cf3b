"""Automatic differentiation: backward, grad, Function, and the modes of the tape."""
import warnings

from .. import _C
from .._C import Tensor
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, FunctionCtx, NestedIOFunction, once_differentiable
from .gradcheck import gradcheck, gradgradcheck
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled

__all__ = [
    "Variable", "Function", "backward", "grad", "no_grad", "enable_grad", "set_grad_enabled", "inference_mode",
    "detect_anomaly", "set_detect_anomaly", "grad_mode", "graph", "functional", "gradcheck", "gradgradcheck",
]


def _as_tuple(x):
    if x is None:
        return None
    return tuple(x) if isinstance(x, (list, tuple)) else (x,)


def _gradients(outputs, grads):
    """One gradient for each output; None stands for one, of a scalar. Shapes must match."""
    for i, (out, g) in enumerate(zip(outputs, grads)):
        if isinstance(g, Tensor):
            if g.shape != out.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {out.shape}.")
            if out.dtype.is_complex != g.dtype.is_complex:
                raise RuntimeError(
                    "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
                    f"grad_output[{i}] has a dtype of {g.dtype} and output[{i}] has a dtype of {out.dtype}.")
        elif g is not None:
            raise TypeError("gradients can be either Tensors or None, but got " + type(g).__name__)
        elif out.requires_grad:
            if out.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if not out.dtype.is_floating_point:
                raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
    return grads


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds the gradients of `tensors` to the .grad of leaves, or of `inputs` alone."""
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use `grad_tensors`.")
        grad_tensors = grad_variables
    tensors = _as_tuple(tensors)
    inputs = _as_tuple(inputs)
    if inputs is not None and len(inputs) == 0:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    grads = _as_tuple(grad_tensors) or (None,) * len(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    grads = _gradients(tensors, grads)
    if inputs is None:
        _C._run_backward(tensors, grads, keep, create_graph)
    else:
        _C._run_backward(tensors, grads, keep, create_graph, inputs, True, True)


def _batched(outputs, grads, keep, create_graph, inputs, unused):
    """Gradients for a batch of gradients, along the first dim of each; None where nothing flows."""
    for i, (out, g) in enumerate(zip(outputs, grads)):
        if g.shape[1:] != out.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes of the "
                f"remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: grad_output[{i}] has a "
                f"shape of {g.shape[1:]} and output[{i}] has a shape of {out.shape}. If you only want some tensors in `grad_output` to be "
                "considered batched, consider using vmap.")
    found = []

    def backward(*seeds):
        found[:] = _C._run_backward(outputs, seeds, keep, create_graph, inputs, unused, False)
        return tuple(g for g in found if g is not None)

    made = iter(_C._func_vmap(backward, 0, 0, "error", None, grads, {}))
    return tuple(None if g is None else next(made) for g in found)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of `outputs` with respect to `inputs`, which keep their .grad."""
    if not only_inputs:
        warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts of the "
                      "graph, please use torch.autograd.backward.", FutureWarning, stacklevel=2)
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    grads, unused = _as_tuple(grad_outputs) or (None,) * len(outputs), bool(allow_unused or materialize_grads)
    if is_grads_batched and all(isinstance(g, Tensor) for g in grads):
        result = _batched(outputs, grads, keep, create_graph, inputs, unused)
    else:
        result = _C._run_backward(outputs, _gradients(outputs, grads), keep, create_graph, inputs, unused, False)
    if materialize_grads:
        result = tuple(_C._VariableFunctions.zeros_like(x) if g is None else g for g, x in zip(result, inputs))
    return result


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """The old name of Tensor."""

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if volatile is not None:
            warnings.warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2)
        made = data.detach() if data is not None else _C.tensor([])
        return made.requires_grad_(requires_grad)


def __getattr__(name):
    import importlib

    if name in ("graph", "functional", "forward_ad", "profiler"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
