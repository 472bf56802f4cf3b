"""Products with Jacobians and Hessians, and these themselves; the work is in the extension."""
from .. import _C
from .._C import Tensor

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, v J)"""
    return _C._functional_product("vjp", func, inputs, v, create_graph, strict)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, J v)"""
    return _C._functional_product("jvp", func, inputs, v, create_graph, strict)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, v H)"""
    return _C._functional_product("vhp", func, inputs, v, create_graph, strict)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, H v)"""
    return _C._functional_product("hvp", func, inputs, v, create_graph, strict)


def _jacobian(who, func, inputs, create_graph, strict, vectorize, strategy):
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported together (yet). '
            'Please either set `create_graph=False` or `strategy="reverse-mode"`.')
    if vectorize and strict:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please either set "
            "`strict=False` or `vectorize=False`.")
    if strategy == "forward-mode":
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`.")
        one = isinstance(inputs, Tensor)
        args = (inputs,) if one else inputs
        return _C._func_jacfwd(func, 0 if one else tuple(range(len(args))), False, "error", args)[0]
    return _C._functional_jacobian(who, func, inputs, create_graph, strict)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian of each output by each input."""
    assert strategy in ("forward-mode", "reverse-mode"), (
        'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than inputs, '
        '"forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".')
    return _jacobian("jacobian", func, inputs, create_graph, strict, vectorize, strategy)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The Hessian of a function that gives a scalar: the Jacobian of its gradient."""
    assert outer_jacobian_strategy in ("forward-mode", "reverse-mode"), 'Expected strategy to be either "forward-mode" or "reverse-mode".'
    one = isinstance(inputs, Tensor)

    def gradient(*given):
        made = _C._functional_gradient("hessian", func, given, strict)
        return made[0] if one else made

    return _jacobian("hessian", gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
