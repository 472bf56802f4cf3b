"""Keeping gradients small."""
import warnings

from ..._root import torch

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _tensors(parameters):
    """A list of the tensors given, one of them or many."""
    if isinstance(parameters, torch.Tensor):
        return [parameters]
    return list(parameters)


def _grads(parameters):
    return [param.grad for param in _tensors(parameters) if param.grad is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as if they were one vector."""
    tensors = _tensors(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return torch.tensor(0.0)
    device = tensors[0].device
    norms = [torch.linalg.vector_norm(tensor, norm_type).to(device) for tensor in tensors]
    total = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    if error_if_nonfinite and torch.logical_or(total.isnan(), total.isinf()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    grads = _grads(parameters)
    if not grads:
        return
    # Multiplying by min(c, 1) instead of asking whether c < 1 keeps the host from waiting for a device.
    scale = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    for grad in grads:
        grad.mul_(scale.to(grad.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    else:
        generator = hasattr(parameters, "__next__")
        parameters = list(parameters)
        if generator and not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    with torch.no_grad():
        total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite, foreach)
        clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    clip_value = float(clip_value)
    with torch.no_grad():
        for grad in _grads(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)
