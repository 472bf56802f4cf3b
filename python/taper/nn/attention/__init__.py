"""Which ways scaled_dot_product_attention may take."""
import contextlib
import enum

from ... import _C

__all__ = ["SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self):
        return self.value


def _cur_sdpa_kernel_backends():
    off = _C._get_attention_off()
    return [way for way in SDPBackend if way is not SDPBackend.ERROR and not off >> way.value & 1]


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Only these ways inside the block. Which of them is tried first is the same for any order."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends).__name__}")
    wanted = {backends} if isinstance(backends, SDPBackend) else set(backends)
    before = _C._get_attention_off()
    _C._set_attention_off(sum(1 << way.value for way in SDPBackend if way not in wanted and way is not SDPBackend.ERROR))
    try:
        yield {}
    finally:
        _C._set_attention_off(before)
