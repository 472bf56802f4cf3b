"""Modules spread over devices: here there is one."""
from .data_parallel import DataParallel

__all__ = ["DataParallel"]
