"""__torch_function__ from the side of Python: modes, and what functions written in Python call."""
import contextlib

from . import _C
from ._C import (
    Tensor, _handle_torch_function as handle_torch_function, _has_torch_function as has_torch_function,
    _has_torch_function_unary as has_torch_function_unary, _has_torch_function_variadic as has_torch_function_variadic,
)

__all__ = [
    "TorchFunctionMode", "BaseTorchFunctionMode", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property", "get_default_nowrap_functions",
    "resolve_name", "wrap_torch_function", "get_ignored_functions", "get_overridable_functions",
]


class TorchFunctionMode:
    """Sees every call of a function or method while it is entered."""

    inner: "TorchFunctionMode"

    def __init__(self):
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_on_torch_function_stack(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_torch_function_stack()

    @classmethod
    def push(cls, *args, **kwargs):
        import warnings

        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class _Disable:
    """Subclasses (1) or everything (2) stop overriding functions inside."""

    def __enter__(self):
        self.before = _C._set_torch_function_state(self.state)

    def __exit__(self, *error):
        _C._set_torch_function_state(self.before)


class DisableTorchFunctionSubclass(_Disable):
    state = 1


class DisableTorchFunction(_Disable):
    state = 2


for _cls in (DisableTorchFunctionSubclass, DisableTorchFunction):
    _cls.__module__ = _C.__name__
    setattr(_C, _cls.__name__, _cls)


def is_tensor_like(inp):
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions():
    return {Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__}


def is_tensor_method_or_property(func):
    return func.__name__ == "__get__" or getattr(Tensor, func.__name__, None) is func


def resolve_name(f):
    if isinstance(f, (_C._OpOverloadBase,)) or hasattr(f, "_qualified_op_name"):
        return str(f)
    package = __name__.rsplit(".", 1)[0]
    owner = getattr(f, "__self__", None)
    if f.__name__ == "__get__":
        return f"{package}.Tensor.{owner.__name__}.__get__"
    if getattr(Tensor, f.__name__, None) is f:
        return f"{package}.Tensor.{f.__name__}"
    return f"{getattr(f, '__module__', package)}.{f.__name__}"


def wrap_torch_function(dispatcher):
    """Makes a function of Python overridable; dispatcher gives its relevant arguments."""
    import functools

    def outer(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapper, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapper

    return outer


def get_ignored_functions():
    return {Tensor.__new__, Tensor.__init__, Tensor.__init_subclass__, Tensor.__hash__, Tensor.as_subclass, Tensor._make_subclass}


def get_overridable_functions():
    functions = [v for k, v in vars(_C._VariableFunctions).items() if not k.startswith("__")]
    methods = [getattr(Tensor, k) for k in dir(Tensor) if callable(getattr(Tensor, k, None))]
    return {_C._VariableFunctions: functions, Tensor: methods}


def _get_current_function_mode():
    n = _C._len_torch_function_stack()
    return _C._get_function_stack_at(n - 1) if n else None


def _get_current_function_mode_stack():
    return [_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack())]


@contextlib.contextmanager
def _enable_torch_function():
    before = _C._set_torch_function_state(0)
    try:
        yield
    finally:
        _C._set_torch_function_state(before)


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """Inside __torch_dispatch__: ops meet autograd and the handlers again, as outside."""
    with _C._RestorePythonTLSSnapshot():
        yield


@contextlib.contextmanager
def redispatch_torch_function_mode():
    yield
