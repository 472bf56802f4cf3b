"""How the engine was built."""
from . import get_num_interop_threads, get_num_threads
from .torch_version import __version__


def show():
    import platform

    return f"Taper, as PyTorch {__version__}, built with:\n  - C17\n  - {platform.machine()}, CPU only\n"


def parallel_info():
    return f"get_num_threads() : {get_num_threads()}\nget_num_interop_threads() : {get_num_interop_threads()}\n"
