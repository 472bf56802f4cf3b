"""Old names of torch.amp, with the device in them."""
import warnings

from ..._C import bfloat16
from ...amp import autocast_mode, grad_scaler

__all__ = ["autocast", "GradScaler"]


def _warn(name, instead):
    warnings.warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{instead}` instead.", FutureWarning, stacklevel=3)


class autocast(autocast_mode.autocast):
    def __init__(self, enabled=True, dtype=bfloat16, cache_enabled=True):
        _warn("autocast", "autocast('cpu', args...)")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    def __init__(self, init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _warn("GradScaler", "GradScaler('cpu', args...)")
        super().__init__(
            "cpu", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor, growth_interval=growth_interval,
            enabled=enabled)
