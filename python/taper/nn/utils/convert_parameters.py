"""Parameters as one vector, and back."""
from .._root import torch

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _device_number(param, known):
    """Checks that all parameters are on one device, named by its number, or -1 for the CPU."""
    here = param.get_device() if param.is_cuda else -1
    if known is not None and here != known:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return here


def parameters_to_vector(parameters):
    device, parts = None, []
    for param in parameters:
        device = _device_number(param, device)
        parts.append(param.view(-1))
    return torch.cat(parts)


def vector_to_parameters(vec, parameters):
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {torch.typename(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _device_number(param, device)
        count = param.numel()
        param.data = vec[start:start + count].view_as(param).data
        start += count
