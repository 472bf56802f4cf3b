"""Old names of torch.amp, for the processor."""
from ..._C import bfloat16
from ...amp import _by_device

__all__ = ["autocast", "GradScaler"]

autocast = _by_device.autocast_of("cpu", bfloat16)
GradScaler = _by_device.scaler_of("cpu")
