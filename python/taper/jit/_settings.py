"""Switches of PyTorch's executors, of which we have one: they are kept, and change nothing that can be seen."""
import builtins
import contextlib
import typing

from .. import _C

_flags = {"inline_everything": False, "optimized": True}


def _get_inline():
    return _flags["inline_everything"]


def _set_inline(on):
    _flags["inline_everything"] = bool(on)


_C._jit_get_inline_everything_mode = _get_inline
_C._jit_set_inline_everything_mode = _set_inline


@contextlib.contextmanager
def optimized_execution(should_optimize):
    saved, _flags["optimized"] = _flags["optimized"], bool(should_optimize)
    try:
        yield
    finally:
        _flags["optimized"] = saved


@contextlib.contextmanager
def fuser(name):
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


def set_fusion_strategy(strategy):
    return strategy


def enable_onednn_fusion(enabled):
    return None


class strict_fusion:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def last_executed_optimized_graph():
    raise NotImplementedError("torch.jit.last_executed_optimized_graph: Taper runs graphs as they were recorded")


def is_scripting():
    return False


def isinstance(obj, target_type):
    """Like the builtin, on types as annotations spell them."""
    origin = typing.get_origin(target_type)
    arguments = typing.get_args(target_type)
    if origin in (list, tuple, dict) and not arguments:
        raise RuntimeError(f"Attempted to use {target_type} without a contained type. Please add a contained type, e.g. List[int]")
    if origin is typing.Union:
        return any(isinstance(obj, one) for one in arguments)
    if origin is list:
        return builtins.isinstance(obj, list) and all(isinstance(item, arguments[0]) for item in obj)
    if origin is dict:
        return builtins.isinstance(obj, dict) and all(
            isinstance(key, arguments[0]) and isinstance(item, arguments[1]) for key, item in obj.items())
    if origin is tuple:
        return builtins.isinstance(obj, tuple) and len(obj) == len(arguments) and all(map(isinstance, obj, arguments))
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    return builtins.isinstance(obj, target_type)


def _unwrap_optional(x):
    assert x is not None, "Unwrapping null optional"
    return x
