"""Settings and questions that PyTorch keeps at the root."""
import builtins
import functools

from . import _C
from ._C import Tensor
from .functional import _overridable

_default_device = None
_warn_always = False
_precision = "highest"


def set_default_dtype(d, /):
    _C._set_default_dtype(d)


def set_default_tensor_type(t, /):
    name = t if isinstance(t, str) else t.__module__ + "." + t.__name__
    from . import _FACES

    _C._set_default_dtype(getattr(_C, _FACES[name.rsplit(".", 1)[-1]]))


def get_default_device():
    """The device of factories that are given none."""
    from ._device import current_device

    return current_device() or _C.device("cpu")


def set_default_device(device):
    from ._device import set_base_device

    set_base_device(None if device is None else _C.device(device))


def typename(obj, /):
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "") or ""
    qualified = getattr(obj, "__qualname__", None)
    if qualified is None:
        module, qualified = type(obj).__module__, type(obj).__qualname__
    return qualified if module in ("", "builtins") else f"{module}.{qualified}"


@_overridable
def is_floating_point(input):
    return input.is_floating_point()


@_overridable
def is_complex(input):
    return input.is_complex()


@_overridable
def is_signed(input):
    return input.is_signed()


@_overridable
def is_conj(input):
    return input.is_conj()


@_overridable
def is_inference(input):
    return input.is_inference()


@_overridable
def is_nonzero(input):
    if input.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous" if input.numel() == 0
            else "Boolean value of Tensor with more than one value is ambiguous"
        )
    return bool(input)


def is_storage(obj, /):
    from . import storage

    return isinstance(obj, (storage.UntypedStorage, storage.TypedStorage))


@_overridable
def numel(input):
    if not isinstance(input, Tensor):
        raise TypeError(f"numel(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input.numel()


@_overridable
def result_type(tensor1, tensor2):
    return _C._result_type(tensor1, tensor2)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    made = _C._from_dlpack(ext_tensor)
    made = made if device is None else made.to(device)
    return made.clone() if copy else made


def to_dlpack(tensor):
    return _C._to_dlpack(tensor)


def broadcast_shapes(*shapes):
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    for i, shape in enumerate(shapes):
        so_far = _C._broadcast_shapes(*shapes[:i])
        for k in range(-1, -1 - min(len(shape), len(so_far)), -1):
            if 1 != shape[k] != so_far[k] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[k]} at {k}! Mismatching argument at index {i} had {shape}; "
                    f"but expected shape should be broadcastable to {list(so_far)}")
    return _C._broadcast_shapes(*shapes)


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Every op here gives the same bits at every run, so none is refused; what changes is the memory of empty(), see utils.deterministic."""
    for text, given in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if not isinstance(given, bool):
            raise TypeError(f"_set_deterministic_algorithms(): argument {text} must be bool, not {type(given).__name__}")
    _C._set_deterministic(0 if not mode else 2 if warn_only else 1)


def are_deterministic_algorithms_enabled():
    return _C._get_deterministic() != 0


def is_deterministic_algorithms_warn_only_enabled():
    return _C._get_deterministic() == 2


def set_deterministic_debug_mode(debug_mode):
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    level = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)
    if level not in (0, 1, 2):
        known = "`default`, `warn`, `error`" if isinstance(debug_mode, str) else "0, 1, or 2"
        raise RuntimeError(f"invalid value of debug_mode, expected {'one of ' if isinstance(debug_mode, str) else ''}{known}, but got {debug_mode}")
    _C._set_deterministic((0, 2, 1)[level])


def get_deterministic_debug_mode():
    return (0, 2, 1)[_C._get_deterministic()]


def set_float32_matmul_precision(precision):
    global _precision
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f'{precision} is not one of "highest", "high", or "medium"')
    _precision = precision


def get_float32_matmul_precision():
    return _precision


def get_num_interop_threads():
    return 1


def set_num_interop_threads(n):
    if n <= 0:
        raise RuntimeError("Expected positive number of threads")


def set_warn_always(b, /):
    global _warn_always
    _warn_always = builtins.bool(b)


def is_warn_always_enabled():
    return _warn_always


def compiled_with_cxx11_abi():
    return True


def _check_with(error, cond, message):
    if not isinstance(cond, (builtins.bool, _C.SymBool)):
        if isinstance(cond, _C.Tensor):
            raise TypeError("cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert that all "
                            "elements are true.")
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond._expect() if isinstance(cond, _C.SymBool) else cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()) if message is not None else
                "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
                "enhancement request to PyTorch.)")


def _assert(condition, message):
    """An assertion that tracing records."""
    from .overrides import handle_torch_function, has_torch_function

    if type(condition) is not Tensor and has_torch_function((condition,)):
        return handle_torch_function(_assert, (condition,), condition, message)
    assert condition, message


def _check(cond, message=None):
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error, cond, message=None):
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error, cond.all().item(), message)


def _check_tensor_all(cond, message=None):
    """_check of every element."""
    _check_tensor_all_with(RuntimeError, cond, message)


def set_anomaly_enabled(enabled, check_nan=True):
    from .autograd import set_detect_anomaly

    set_detect_anomaly(enabled, check_nan)


def init_num_threads():
    """PyTorch sets the threads of its libraries up here; ours start with the first parallel kernel."""


def get_device(input):
    return input.get_device()


def is_neg(input):
    return input.is_neg()


def spmm(input, mat2):
    """mm; PyTorch's old name for a sparse first matrix."""
    return input.mm(mat2)


dsmm = spmm


def _check_is_size(i, message=None, *, max=None):
    _check(i >= 0, message)
    if isinstance(i, _C.SymInt):
        i._mark_size()
    if max is not None:
        _check(i <= max, message)
