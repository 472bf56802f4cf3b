"""The flags of autocast, per device. Those of the CPU are the engine's; there is no tensor that the others could act on."""
import threading
import warnings

from . import _C

_LOWER = {"xla": _C.bfloat16}     # what a device type computes in; float16 where nothing else is said
_NONE = ("meta", "opengl", "opencl", "ideep", "mkldnn", "fpga", "lazy", "vulkan", "ve")
_OTHERS = ("cuda", "ipu", "xpu", "xla", "mps", "hpu", "mtia", "maia", "hip", "privateuseone")
_others = threading.local()


def _device_type(where, given):
    if not isinstance(given, str):
        raise TypeError(f"{where}(): argument 'device_type' (position 1) must be str, not {type(given).__name__}")
    kind = given.partition(":")[0]
    return kind if kind in _OTHERS else _C.device(given).type


def flags_of_other(kind):
    """(enabled, dtype) of a device type that is not the CPU's."""
    return _others.__dict__.get(kind) or (False, _LOWER.get(kind, _C.float16))


def set_flags_of_other(kind, enabled, dtype):
    _others.__dict__[kind] = (enabled, dtype)


def is_autocast_available(device_type):
    return _device_type("_is_autocast_available", device_type) not in _NONE


def is_autocast_enabled(device_type="cuda"):
    kind = _device_type("is_autocast_enabled", device_type)
    return _C._autocast_flags()[0] if kind == "cpu" else flags_of_other(kind)[0]


def get_autocast_dtype(device_type):
    kind = _device_type("get_autocast_dtype", device_type)
    if kind in _NONE:
        raise RuntimeError("unsupported scalarType")
    return _C._autocast_flags()[1] if kind == "cpu" else flags_of_other(kind)[1]


def set_autocast_enabled(*given, **named):
    """set_autocast_enabled(device_type, enabled), or (enabled), which is of CUDA."""
    given += tuple(named[name] for name in ("device_type", "enabled") if name in named)
    device_type, enabled = given if len(given) == 2 else ("cuda", *given)
    kind = _device_type("set_autocast_enabled", device_type)
    if not isinstance(enabled, bool):
        raise TypeError(f"set_autocast_enabled(): argument 'enabled' (position {len(given)}) must be bool, not {type(enabled).__name__}")
    if kind == "cpu":
        _, dtype, cache = _C._autocast_flags()
        _C._set_autocast_flags(enabled, dtype, cache)
    else:
        set_flags_of_other(kind, enabled, flags_of_other(kind)[1])


def set_autocast_dtype(device_type, dtype):
    kind = _device_type("set_autocast_dtype", device_type)
    if not isinstance(dtype, _C.dtype):
        raise TypeError(f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type(dtype).__name__}")
    if kind == "cpu":
        enabled, _, cache = _C._autocast_flags()
        _C._set_autocast_flags(enabled, dtype, cache)
    else:
        set_flags_of_other(kind, flags_of_other(kind)[0], dtype)


def is_autocast_cache_enabled():
    return _C._autocast_flags()[2]


def set_autocast_cache_enabled(enabled):
    _C._set_autocast_flags(*_C._autocast_flags()[:2], enabled)


def autocast_increment_nesting():
    return _C._autocast_nest(1)


def autocast_decrement_nesting():
    return _C._autocast_nest(-1)


clear_autocast_cache = _C.clear_autocast_cache


def _old(name, device_type, function, arguments, shown):
    """A name that has the device in it."""

    def call(*given):
        warnings.warn(
            f"torch.{name}({arguments}) is deprecated. Please use torch.{function.__name__}({shown}) instead.", DeprecationWarning, stacklevel=2)
        return function(device_type, *given)

    call.__name__ = call.__qualname__ = name
    return call


deprecated = {}
for _word, _kind in (("cpu", "cpu"), ("gpu", "cuda"), ("ipu", "ipu"), ("xla", "xla")):
    for _name, _function, _argument in (
        (f"get_autocast_{_word}_dtype", get_autocast_dtype, ""), (f"set_autocast_{_word}_dtype", set_autocast_dtype, "dtype"),
        (f"is_autocast_{_word}_enabled", is_autocast_enabled, ""), (f"set_autocast_{_word}_enabled", set_autocast_enabled, "enabled"),
    ):
        if _word != "gpu" or _name.endswith("dtype"):
            deprecated[_name] = _old(_name, _kind, _function, _argument, f"'{_kind}'" + (_argument and ", " + _argument))
