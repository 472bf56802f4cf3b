"""Old names of torch.amp, for CUDA."""
from ..._C import float16
from ...amp import _by_device, autocast_mode

__all__ = ["autocast", "GradScaler", "custom_bwd", "custom_fwd"]

autocast = _by_device.autocast_of("cuda", float16)
GradScaler = _by_device.scaler_of("cuda")


def custom_fwd(fwd=None, *, cast_inputs=None):
    _by_device.warn("cuda", "custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    _by_device.warn("cuda", "custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
