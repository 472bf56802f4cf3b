"""What pickles of tensors name: functions that build a tensor from its parts."""
from . import _C


def _untyped(storage):
    return getattr(storage, "_untyped_storage", storage)


def _rebuild_tensor(storage, storage_offset, size, stride):
    if storage.device.type == "meta":
        return _rebuild_meta_tensor_no_storage(storage.dtype, size, stride, False)
    return _C._tensor_of_storage(_untyped(storage), storage.dtype, storage_offset, tuple(size), tuple(stride))


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    return _finish(_rebuild_tensor(storage, storage_offset, size, stride), requires_grad, backward_hooks, metadata)


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    """Of types that have no storage class of their own: the storage is one of bytes."""
    if storage.device.type == "meta":
        tensor = _rebuild_meta_tensor_no_storage(dtype, size, stride, False)
    else:
        tensor = _C._tensor_of_storage(_untyped(storage), dtype, storage_offset, tuple(size), tuple(stride))
    return _finish(tensor, requires_grad, backward_hooks, metadata)


def _finish(tensor, requires_grad, backward_hooks, metadata):
    if metadata:                # of a tensor that stands for the conjugates or negatives of its storage
        if metadata.get("conj"):
            tensor = tensor.conj().detach()
        if metadata.get("neg"):
            tensor = _C._VariableFunctions._neg_view(tensor).detach()
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


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    made = _C._VariableFunctions.empty_strided(size, stride, dtype=dtype, device="meta")
    return made.requires_grad_() if requires_grad else made


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    return _C.Tensor._make_wrapper_subclass(
        cls, size, strides=stride, storage_offset=storage_offset, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def _get_obj_state(obj):
    get = getattr(type(obj), "__getstate__", None)
    if get is not None and get is not getattr(object, "__getstate__", None):
        return obj.__getstate__()
    return dict(obj.__dict__) or None


def _set_obj_state(obj, state):
    if isinstance(state, tuple):
        dict_state, slots_state = state
        for name, value in (slots_state or {}).items():
            setattr(obj, name, value)
        state = dict_state
    for name, value in (state or {}).items():
        setattr(obj, name, value)
    return obj


def is_compiling():
    """Is a module being exported?"""
    from ._dynamo import is_compiling
    return is_compiling()
