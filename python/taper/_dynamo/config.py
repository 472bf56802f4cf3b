"""Settings of the capture: plain attributes of this module, and `patch` to change some for a while.

Read so far: the limits of entries (each under two names), error_on_recompile, suppress_errors, raise_on_ctx_manager_usage. The others are
there for programs that set them and change only how often functions are captured, or what is said of it: a value that is not the default
warns once. Captures behave as by the defaults, but that sizes are always static.
"""
import contextlib
import sys
import types

from .. import _C

guard_nn_modules = True
skip_nnmodule_hook_guards = True
inline_inbuilt_nn_modules = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
error_on_recompile = False
raise_on_ctx_manager_usage = True
traceable_tensor_subclasses = set()
suppress_errors = False
assume_static_by_default = True
automatic_dynamic_shapes = True
dynamic_shapes = True
specialize_int = False
verbose = False
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False


class _Patch(contextlib.ContextDecorator):
    def __init__(self, changes):
        self.changes = changes
        self.saved = []

    def _recreate_cm(self):
        return _Patch(self.changes)

    def __enter__(self):
        this = sys.modules[__name__]
        for name in self.changes:
            if not hasattr(this, name):
                raise AttributeError(f"{__name__}.{name} does not exist")
        self.saved.append({name: getattr(this, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(this, name, value)

    def __exit__(self, *_):
        for name, value in self.saved.pop().items():
            setattr(sys.modules[__name__], name, value)


def patch(arg=None, value=None, **changes):
    """`patch("name", value)`, `patch({"name": value})` or `patch(name=value)`: a decorator and a context manager."""
    if isinstance(arg, dict):
        changes.update(arg)
    elif arg is not None:
        changes[arg] = value
    return _Patch(changes)


class _Settings(types.ModuleType):
    """Only settings that exist can be set; a deleted one (as mock.patch does) may come back."""

    def __setattr__(self, name, value):
        if name not in _names and not name.startswith("__"):
            raise AttributeError(f"{__name__}.{name} does not exist")
        super().__setattr__(name, value)
        other = _twins.get(name)
        if other is not None:
            super().__setattr__(other, value)
        if name in _read or other is not None:
            _C._capture._set_limits(cache_size_limit, accumulated_cache_size_limit, error_on_recompile, suppress_errors)
        elif name in _defaults and value != _defaults[name]:
            from .._options import warn_once

            warn_once(f"torch._dynamo.config.{name} = {value!r}: Taper behaves as with {_defaults[name]!r}")


_names = {name for name in globals() if not name.startswith("_")}
_twins = {"cache_size_limit": "recompile_limit", "accumulated_cache_size_limit": "accumulated_recompile_limit"}
_twins.update({new: old for old, new in _twins.items()})
_read = ("error_on_recompile", "suppress_errors", "raise_on_ctx_manager_usage")
_defaults = {name: globals()[name] for name in _names if isinstance(globals()[name], bool) and name not in _read}
sys.modules[__name__].__class__ = _Settings
