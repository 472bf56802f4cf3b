"""__torch_dispatch__ modes and helpers of wrapper subclasses."""
import contextlib

from .. import _C
from .._C import Tensor
from .._tags import Tag


class TorchDispatchMode:
    """Sees every op below autograd while it is entered."""

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key=None):
        pass

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_on_torch_dispatch_stack(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_torch_dispatch_stack()

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode():
    n = _C._len_torch_dispatch_stack()
    return _C._get_dispatch_stack_at(n - 1) if n else None


def _get_current_dispatch_mode_stack():
    return [_C._get_dispatch_stack_at(i) for i in range(_C._len_torch_dispatch_stack())]


def is_in_torch_dispatch_mode(include_infra_modes=True):
    return _C._len_torch_dispatch_stack() > 0


@contextlib.contextmanager
def _disable_current_modes():
    """Takes all modes off for a while."""
    taken = []
    while _C._len_torch_dispatch_stack():
        taken.append(_C._pop_torch_dispatch_stack())
    try:
        yield list(reversed(taken))
    finally:
        for mode in reversed(taken):
            _C._push_on_torch_dispatch_stack(mode)


def is_traceable_wrapper_subclass_type(t):
    """Does the class say how its tensors are flattened into plain ones?"""
    return issubclass(t, Tensor) and t is not Tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass(t):
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """Rebuilds a wrapper from its inner tensors, each passed through callback(name, tensor)."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    return type(t).__tensor_unflatten__({n: callback(n, getattr(t, n)) for n in names}, context, outer_size, outer_stride)


def _letters(argument):
    return None if argument.alias_info is None else tuple(sorted(argument.alias_info.before_set))


def _alias_storage(func, argument, result):
    """The result of a view looks at the memory of its argument, as far as anybody can see."""
    if isinstance(result, (list, tuple)):
        for item in result:
            _alias_storage(func, argument, item)
    elif isinstance(result, Tensor):
        if type(result) is not type(argument):
            raise AssertionError(f"Called {func} with input of type {type(argument)}\nand output of type {type(result)}. But expected types to match.")
        _C._share_storage(result, argument)


def return_and_correct_aliasing(func, args, kwargs, out):
    """Results that the schema says are arguments, written in place, are given as those very arguments; views share their memory."""
    schema = func._schema
    written, read = {}, {}
    for i, a in enumerate(schema.arguments):
        if a.alias_info is not None:
            (written if a.alias_info.is_write else read)[_letters(a)] = args[i] if i < len(args) else kwargs.get(a.name)
    if read and func.namespace == "aten":
        values = [out] if len(schema.returns) == 1 else out
        for r, value in zip(schema.returns, values):
            if is_traceable_wrapper_subclass(read.get(_letters(r))):
                _alias_storage(func, read[_letters(r)], value)
    if not written:
        return out
    if Tag.inplace_view in func.tags:           # t_(): the wrapper itself is turned, too
        with _C._DisableTorchDispatch():
            func(*args, **kwargs)
    results = [written.get(_letters(r)) for r in schema.returns]
    if len(results) == 1:
        return out if results[0] is None else results[0]
    given = list(out) if isinstance(out, (list, tuple)) else [out]
    return type(out)(g if r is None else r for r, g in zip(results, given)) if results else out
