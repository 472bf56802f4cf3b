"""__torch_function__ from the side of Python: modes, and what functions written in Python call."""
import collections
import contextlib
import functools
import types

from . import _C
from ._C import (
    Tensor, _handle_torch_function as handle_torch_function, _has_torch_function as has_torch_function,
    _has_torch_function_unary as has_torch_function_unary, _has_torch_function_variadic as has_torch_function_variadic,
)

__all__ = [
    "TorchFunctionMode", "BaseTorchFunctionMode", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property", "get_default_nowrap_functions",
    "resolve_name", "wrap_torch_function", "get_ignored_functions", "get_overridable_functions", "enable_reentrant_dispatch",
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
    return func.__name__ in ("__get__", "__set__") or func in _catalog()[1]


def _modules():
    """Where functions of tensors are found: (name, module), the first that has a function names it."""
    from ._root import torch

    return [("torch", torch), ("torch.functional", torch.functional), ("torch.nn.functional", torch.nn.functional), ("torch.nn.init", torch.nn.init),
            ("torch.linalg", torch.linalg), ("torch.fft", torch.fft), ("torch.special", torch.special)]


@functools.lru_cache(None)
def _catalog():
    """(functions by the place they are found in, methods and accessors of Tensor, names of all of them)"""
    package = __name__.rsplit(".", 1)[0]
    ignored, found, names, methods = get_ignored_functions(), collections.defaultdict(list), {}, set()

    def note(place, function, name):
        if place is not Tensor or function not in names:
            names[function] = name          # a later module names it better: torch.norm is torch.functional.norm
        if function not in ignored:
            found[place].append(function)

    for place, module in _modules():
        for name in dir(module):
            function = getattr(module, name, None)
            if name.startswith("_") or name in ("unique_dim",) or isinstance(function, type) or not callable(function):
                continue
            home = getattr(function, "__module__", None) or ""
            if home.startswith((f"{package}._C", place.replace("torch", package, 1))) or home == package or isinstance(function, types.BuiltinFunctionType):
                note(module, function, f"{place.replace('torch', package, 1)}.{name}")
    for name in dir(Tensor):
        value = getattr(Tensor, name, None)
        if name in ("__class__", "__dict__", "__weakref__", "__module__", "__doc__"):
            continue
        if callable(value):
            if not isinstance(value, (type, types.BuiltinMethodType)):
                methods.add(value)
                note(Tensor, value, f"{package}.Tensor.{name}")
        elif hasattr(value, "__get__"):
            for accessor in ("__get__", "__set__"):
                function = getattr(value, accessor, None)
                if function is not None:
                    names.setdefault(function, f"{package}.Tensor.{name}.{accessor}")
            found[value].append(value.__get__)
    return found, methods, names


def resolve_name(f):
    """The name under which a function of tensors is found; None for what is none."""
    if isinstance(f, (_C._OpOverloadBase,)) or hasattr(f, "_qualified_op_name"):
        return str(f)
    try:
        return _catalog()[2].get(f)
    except TypeError:
        return None


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


@functools.lru_cache(None)
def get_ignored_functions():
    """Public functions that nobody can override."""
    from ._root import torch

    named = (
        "typename is_tensor is_storage set_default_tensor_type set_default_device get_default_device set_rng_state get_rng_state manual_seed initial_seed "
        "seed save load set_printoptions fork get_default_dtype get_num_interop_threads get_num_threads import_ir_module init_num_threads is_anomaly_enabled "
        "is_grad_enabled is_inference_mode_enabled set_anomaly_enabled set_flush_denormal set_num_interop_threads set_num_threads wait as_tensor from_numpy "
        "tensor default_generator set_default_dtype sparse_coo_tensor vander arange bartlett_window blackman_window can_cast complex empty empty_permuted "
        "empty_strided eye fft_fftfreq from_file full fill hamming_window hann_window kaiser_window linspace logspace ones promote_types rand randn randint "
        "randperm range scalar_tensor set_grad_enabled tril_indices triu_indices zeros compile set_float32_matmul_precision get_float32_matmul_precision "
        "vmap cond is_warn_always_enabled set_warn_always is_deterministic_algorithms_warn_only_enabled use_deterministic_algorithms enable_grad no_grad "
        "inference_mode get_deterministic_debug_mode set_deterministic_debug_mode are_deterministic_algorithms_enabled autocast_increment_nesting export "
        "_assert_async from_dlpack frombuffer asarray get_file_path while_loop sym_not sym_int sym_float sym_max sym_min sym_ite sym_sqrt sym_sum compiled_with_cxx11_abi")
    methods = (
        "__delitem__ __dir__ __getattribute__ __init__ __iter__ __init_subclass__ __delattr__ __setattr__ __torch_function__ __torch_dispatch__ __new__ "
        "__class__ __subclasshook__ __hash__ as_subclass eig lstsq reinforce new new_tensor new_empty new_empty_strided new_zeros new_ones new_full "
        "_make_subclass _make_wrapper_subclass solve symeig stride unflatten to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc "
        "_typed_storage _reduce_ex_internal _fix_weakref _view_func _rev_view_func_unsafe _make_dtensor")
    return {*(getattr(torch, n) for n in named.split() if hasattr(torch, n)), *(getattr(Tensor, n) for n in methods.split() if hasattr(Tensor, n))}


def get_overridable_functions():
    """{module or Tensor or a property of it: [functions that __torch_function__ may override]}"""
    return _catalog()[0]


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
