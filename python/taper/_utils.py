"""What pickles of tensors name: functions that build a tensor from its parts."""
from . import _C


def _untyped(storage):
    return getattr(storage, "_untyped_storage", storage)


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _C._tensor_of_storage(_untyped(storage), storage.dtype, storage_offset, tuple(size), tuple(stride))


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    tensor._backward_hooks = backward_hooks if backward_hooks else None
    return tensor


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from .nn.parameter import Parameter

    made = Parameter(data, requires_grad)
    made._backward_hooks = backward_hooks if backward_hooks else None
    return made


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _set_obj_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _rebuild_from_type_v2(func, new_type, args, state):
    made = func(*args)
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    if getattr(made.__class__, "__setstate__", _C.Tensor.__setstate__) is not _C.Tensor.__setstate__:
        made.__setstate__(state)
        return made
    return _set_obj_state(made, state)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    made = _C._VariableFunctions.empty_strided(size, stride, dtype=dtype, device="meta")
    return made.requires_grad_() if requires_grad else made


def _get_obj_state(obj):
    get = getattr(type(obj), "__getstate__", None)
    if get is not None and get is not getattr(object, "__getstate__", None):
        return obj.__getstate__()
    return dict(obj.__dict__)


def _set_obj_state(obj, state):
    if isinstance(state, tuple):
        dict_state, slots_state = state
        for name, value in (slots_state or {}).items():
            setattr(obj, name, value)
        state = dict_state
    for name, value in (state or {}).items():
        setattr(obj, name, value)
    return obj
