"""There is no MTIA in Taper: questions are answered, work is refused."""


def is_available():
    return False


is_initialized = is_available


def device_count():
    return 0


def memory_allocated(device=None):
    return 0


def _refuser(what):
    def refuse(*args, **kwargs):
        raise RuntimeError(f"Cannot execute {what}() without MTIA backend.")

    return refuse


current_device = synchronize = _refuser("getCurrentDevice")
empty_cache = _refuser("emptyCache")
set_device = _refuser("setDevice")
current_stream = _refuser("getCurrentStream")
