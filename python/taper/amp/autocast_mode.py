"""torch.autocast: a region, or a function, whose ops compute in a lower type where that is safe."""
import collections.abc
import functools
import warnings

from .. import _autocast as flags
from .._C import Tensor, bfloat16, float16
from .._autocast import is_autocast_available

__all__ = ["autocast_decorator", "autocast", "is_autocast_available", "custom_fwd", "custom_bwd"]


def autocast_decorator(autocast_instance, func):
    @functools.wraps(func)
    def decorated(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


def _check_device_type(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


class autocast:
    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        _check_device_type(device_type)
        if not isinstance(enabled, bool):
            enabled = bool(enabled)
        self.device = flags._device_type("autocast", device_type)
        self.fast_dtype = flags.get_autocast_dtype(self.device) if dtype is None else dtype
        self.custom_backend_name = "privateuseone"
        if not is_autocast_available(self.device):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{self.device}'")
        self._cache_enabled = flags.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and self.device == "cuda":
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        if enabled and self.device == "cpu" and self.fast_dtype not in (bfloat16, float16):
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only supports dtypes of "
                "torch.bfloat16, torch.float16 currently.", stacklevel=2)
            enabled = False
        self._enabled = enabled

    def __enter__(self):
        self.prev_cache_enabled = flags.is_autocast_cache_enabled()
        self.prev = flags.is_autocast_enabled(self.device)
        self.prev_fastdtype = flags.get_autocast_dtype(self.device)
        flags.set_autocast_enabled(self.device, self._enabled)
        flags.set_autocast_dtype(self.device, self.fast_dtype)
        flags.autocast_increment_nesting()
        flags.set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        if flags.autocast_decrement_nesting() == 0:
            flags.clear_autocast_cache()
        flags.set_autocast_enabled(self.device, self.prev)
        flags.set_autocast_dtype(self.device, self.prev_fastdtype)
        flags.set_autocast_cache_enabled(self.prev_cache_enabled)
        return False

    def __call__(self, func):
        return autocast_decorator(self, func)


def _enter_autocast(*vals):
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode):
    mode.__exit__(None, None, None)


def _cast(value, device_type, dtype):
    """Tensors of a structure in `dtype`, where autocast would cast them."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype.itemsize < 8
        return value.to(dtype) if eligible else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {_cast(key, device_type, dtype): _cast(item, device_type, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    if isinstance(value, collections.abc.Iterable):
        return (_cast(item, device_type, dtype) for item in value)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For the forward of an autograd.Function: remembers autocast's state for custom_bwd, or casts and runs without autocast."""
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args, **kwargs):
        args[0]._dtype = flags.get_autocast_dtype(device_type)
        on = flags.is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd=None, *, device_type):
    """For the backward of an autograd.Function: runs with the state of autocast that the forward had."""
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args, **kwargs):
        with autocast(device_type=device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
