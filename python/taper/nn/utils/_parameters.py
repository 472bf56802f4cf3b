"""What is done with the parameters of a module as a whole: laid out as one vector or for a memory format, left without initial
values, replaced for one call."""
import warnings

from ... import _facades
from ..._root import torch


# ---- Parameters as one vector, and back ----------------------------------------------------------------------------
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


# ---- Weights of convolutions laid out for a memory format ----------------------------------------------------------
def _convert(module, memory_format, kinds):
    if isinstance(module, kinds):
        module.weight.data = module.weight.detach().clone(memory_format=memory_format)
    for child in module.children():
        _convert(child, memory_format, kinds)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    return _convert(module, memory_format, (torch.nn.Conv2d, torch.nn.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    return _convert(module, memory_format, (torch.nn.Conv3d, torch.nn.ConvTranspose3d))


# ---- Modules made without their initial values ---------------------------------------------------------------------
def skip_init(module_cls, *args, **kwargs):
    """The module with uninitialised parameters: made without memory, then given some."""
    import inspect      # only here: it is slow to import

    if not issubclass(module_cls, torch.nn.Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    final = kwargs.pop("device", "cpu")
    kwargs["device"] = "meta"
    return module_cls(*args, **kwargs).to_empty(device=final)


# ---- Modules called with other parameters than their own -----------------------------------------------------------
def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use "
        "torch.func.functional_call instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return torch.func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


_facades.settle(__name__)
