"""Modules made without their initial values."""
from .._root import torch

__all__ = ["skip_init"]


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
