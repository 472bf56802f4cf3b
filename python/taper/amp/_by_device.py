"""What torch.cpu.amp and torch.cuda.amp hold: old names of torch.amp, with the device in them."""
import warnings

from .._C import bfloat16, float16
from . import autocast_mode, grad_scaler


def _warn(device, name, instead):
    warnings.warn(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{instead}` instead.", FutureWarning, stacklevel=3)


def _public(cls, device):
    """The class under the name it can be found by."""
    cls.__module__, cls.__qualname__ = f"{__package__.rpartition('.')[0]}.{device}.amp", cls.__name__
    return cls


def _autocast_of(device, lower):
    class autocast(autocast_mode.autocast):
        def __init__(self, enabled=True, dtype=lower, cache_enabled=True):
            _warn(device, "autocast", f"autocast('{device}', args...)")
            super().__init__(device, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    return _public(autocast, device)


def _scaler_of(device):
    class GradScaler(grad_scaler.GradScaler):
        def __init__(self, init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
            _warn(device, "GradScaler", f"GradScaler('{device}', args...)")
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    return _public(GradScaler, device)


cpu_autocast, cpu_GradScaler = _autocast_of("cpu", bfloat16), _scaler_of("cpu")
cuda_autocast, cuda_GradScaler = _autocast_of("cuda", float16), _scaler_of("cuda")


def custom_fwd(fwd=None, *, cast_inputs=None):
    _warn("cuda", "custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    _warn("cuda", "custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
