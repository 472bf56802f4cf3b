"""Old names of torch.amp, with the device in them."""
import warnings

from ..._C import float16
from ...amp import autocast_mode, grad_scaler

__all__ = ["autocast", "GradScaler", "custom_bwd", "custom_fwd"]


def _warn(name, instead):
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{instead}` instead.", FutureWarning, stacklevel=3)


class autocast(autocast_mode.autocast):
    def __init__(self, enabled=True, dtype=float16, cache_enabled=True):
        _warn("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    def __init__(self, init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _warn("GradScaler", "GradScaler('cuda', args...)")
        super().__init__(
            "cuda", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor, growth_interval=growth_interval,
            enabled=enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    _warn("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    _warn("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
