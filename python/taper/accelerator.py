"""There is no accelerator in Taper: questions are answered, work is refused."""

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count", "device_index", "empty_cache",
    "empty_host_cache", "get_device_capability", "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
    "set_device_idx", "set_device_index", "set_stream", "synchronize",
]


def is_available():
    return False


def device_count():
    return 0


def current_accelerator(check_available=False):
    return None


def _refuse(*args, **kwargs):
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_idx = current_device_index = set_device_idx = set_device_index = current_stream = set_stream = synchronize = _refuse
empty_cache = empty_host_cache = get_device_capability = get_memory_info = memory_stats = memory_allocated = memory_reserved = _refuse
max_memory_allocated = max_memory_reserved = reset_peak_memory_stats = reset_accumulated_memory_stats = _refuse


class device_index:
    """Makes a device current; None leaves everything as it is."""

    def __init__(self, device, /):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            _refuse()

    def __exit__(self, *error):
        return None
