"""The default device of factories: `with device(...)` and set_default_device, as a mode that adds `device=`."""
from . import _C
from .overrides import TorchFunctionMode

_base = None
_entered = []
_factories = None


def _factory_functions():
    global _factories
    if _factories is None:
        names = (
            "empty empty_strided full ones zeros rand randn randint randperm arange range linspace logspace eye tril_indices "
            "triu_indices scalar_tensor complex empty_permuted hann_window hamming_window bartlett_window blackman_window"
        ).split()
        functions = vars(_C._VariableFunctions)
        _factories = {functions[n] for n in names if n in functions} | {_C.tensor, _C.as_tensor, _C.asarray}
    return _factories


class DeviceContext(TorchFunctionMode):
    """Gives factories the device they were not given."""

    def __init__(self, device):
        self.device = device

    def __enter__(self):
        _entered.append(self.device)
        return super().__enter__()

    def __exit__(self, *error):
        _entered.pop()
        return super().__exit__(*error)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _factory_functions() and kwargs.get("device") is None:
            kwargs["device"] = self.device
        return func(*args, **kwargs)


def current_device():
    return _entered[-1] if _entered else None


def set_base_device(device):
    """set_default_device: one context that stays entered."""
    global _base
    if _base is not None:
        _base.__exit__(None, None, None)
        _base = None
    if device is not None:
        _base = DeviceContext(device)
        _base.__enter__()

