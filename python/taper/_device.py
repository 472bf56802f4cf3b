"""The default device of factories, and streams and events of devices."""
from . import _C
from ._C import device as _device
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


# ---- torch.Stream and torch.Event: the CPU has one stream, which has always ended its work, and no events ----------
def _place(given):
    if isinstance(given, int):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    place = _device("cpu") if given is None else _device(given)
    if place.type != "cpu":
        raise RuntimeError(f"PyTorch is not linked with support for {place.type} devices")
    return place


def _no_events(*args, **kwargs):
    raise RuntimeError("cpu backend doesn't support events.")


class Stream:
    device_type = 0
    device_index = -1
    stream_id = 0

    def __init__(self, device=None, *, priority=0):
        self.device = _place(device)

    def __repr__(self):
        return "torch.Stream device_type=cpu, device_index=-1, stream_id=0"

    def __eq__(self, other):
        return isinstance(other, Stream)

    def __hash__(self):
        return hash(Stream)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def query(self):
        return True

    def synchronize(self):
        pass

    record_event = wait_event = wait_stream = _no_events

    @property
    def native_handle(self):
        raise RuntimeError("Backend doesn't support getting stream native handle.")


class Event:
    event_id = 0

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self.device = _place(device)
        self._timing = enable_timing

    def __repr__(self):
        return "torch.Event device_type=cpu, device_index=-1, event_flag=0, event_id=0"

    record = _no_events

    def wait(self, stream=None):
        pass

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, end_event):
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise ValueError("Both events must be recorded before calculating elapsed time.")


for _class in (Stream, Event):
    _class.__module__ = __name__.rpartition(".")[0]


def get_device_module(device=None):
    """The module of a kind of device: torch.cpu, torch.cuda and so on."""
    import importlib

    if device is None:
        kind = "cpu"
    elif isinstance(device, (str, _device)):
        kind = _device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    package = __name__.rpartition(".")[0]
    try:
        return importlib.import_module(f"{package}.{kind}")
    except ModuleNotFoundError:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.") from None
