"""Neural networks: modules, their functions, their initial values."""
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from . import functional, init
from .modules import *
from . import attention, modules, parallel, utils
from .parallel import DataParallel


def factory_kwargs(kwargs):
    """{"device", "dtype", "memory_format"} out of keyword arguments that may also nest them in "factory_kwargs"."""
    if kwargs is None:
        return {}
    known = {"device", "dtype", "memory_format"}
    extra = kwargs.keys() - known - {"factory_kwargs"}
    if extra:
        raise TypeError(f"unexpected kwargs {extra}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in known:
        if name in kwargs:
            if name in found:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            found[name] = kwargs[name]
    return found


def __getattr__(name):
    if name == "LinearCrossEntropyOptions":
        return getattr(modules, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
