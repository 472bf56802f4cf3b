"""DataParallel over the devices there are: none but the CPU, so it calls the module."""
from ..modules.module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Keeps programs written for several GPUs running; its state has the module's under "module."."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module
        self.device_ids = []

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)
