"""There is no CUDA in Taper: questions are answered, work is refused."""
from .. import _C
from . import amp


def is_available():
    return False


def device_count():
    return 0


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def manual_seed(seed):
    pass


def manual_seed_all(seed):
    pass


def empty_cache():
    pass


def is_current_stream_capturing():
    return False


def _refuse(*args, **kwargs):
    raise AssertionError("Torch not compiled with CUDA enabled")


synchronize = current_device = set_device = get_device_name = get_device_capability = get_device_properties = _refuse
current_stream = default_stream = memory_allocated = max_memory_allocated = reset_peak_memory_stats = init = _refuse


class device:
    def __init__(self, device):
        self.device = device

    def __enter__(self):
        _refuse()

    def __exit__(self, *error):
        pass


class Stream:
    def __init__(self, *args, **kwargs):
        _refuse()


class Event(Stream):
    pass


_C._cuda_getDeviceCount = device_count
