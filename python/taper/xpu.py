"""There is no XPU in Taper: questions are answered, work is refused."""


def is_available():
    return False


is_initialized = is_bf16_supported = is_available


def device_count():
    return 0


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = lambda device=None: 0


def manual_seed(seed):
    pass


manual_seed_all = manual_seed


def empty_cache():
    pass


def _refuse(*args, **kwargs):
    raise AssertionError("Torch not compiled with XPU enabled")


current_device = set_device = synchronize = get_device_properties = get_device_name = get_device_capability = mem_get_info = _refuse
current_stream = set_stream = stream = get_rng_state = get_rng_state_all = set_rng_state = set_rng_state_all = seed = init = _refuse


def is_current_stream_capturing():
    raise RuntimeError("Tried to instantiate dummy base class _xpu_isCurrentStreamCapturing")


class device:
    def __init__(self, device):
        self.idx = device

    def __enter__(self):
        raise NotImplementedError("PyTorch was compiled without XPU support")

    def __exit__(self, *error):
        pass


class Stream:
    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"Tried to instantiate dummy base class {type(self).__name__}")


class Event(Stream):
    pass
