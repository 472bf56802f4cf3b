"""Methods of Tensor that are thin: copying, pickling, hooks, and what refers to other parts of the package."""
import copy as _copy
import copyreg as _copyreg
import warnings as _warnings

from . import _C, _facades
from ._C import Tensor


def _overridable(method):
    """Lets __torch_function__ see a method that is written here."""
    name = method.__name__

    def wrapper(self, *args, **kwargs):
        if _C._has_torch_function_unary(self):
            return _C._handle_torch_function(getattr(Tensor, name), (self,), self, *args, **kwargs)
        return method(self, *args, **kwargs)

    wrapper.__name__ = name
    wrapper.__qualname__ = "Tensor." + name
    wrapper.__module__ = Tensor.__module__
    wrapper.__doc__ = method.__doc__
    wrapper.__wrapped__ = method            # whoever asks for the signature gets the method's
    setattr(Tensor, name, wrapper)
    return method


@_overridable
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of this tensor to the .grad of the leaves it came from."""
    plain = gradient is None and inputs is None and not create_graph and not retain_graph
    if plain and self.numel() == 1 and self.dtype.is_floating_point:
        _C._run_backward((self,), (None,), False, False)
        return
    from . import autograd

    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@_overridable
def register_hook(self, hook):
    """Calls hook(grad) when the gradient of this tensor is computed; what it returns replaces the gradient."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return _HookHandle(self, _C._register_tensor_hook(self, hook))


@_overridable
def register_post_accumulate_grad_hook(self, hook):
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return _HookHandle(self, _C._register_accumulate_hook(self, hook))


class _HookHandle:
    """Removes a hook of a tensor; also a context."""

    def __init__(self, tensor, id):
        import weakref

        self.id = id
        self.tensor = weakref.ref(tensor)

    def remove(self):
        tensor = self.tensor()
        if tensor is not None:
            _C._remove_tensor_hook(tensor, self.id)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


class _NodeHookHandle:
    """Removes a hook of a node of the tape."""

    def __init__(self, node, id, before):
        self.node, self.id, self.before = node, id, before

    def remove(self):
        self.node._remove_hook(self.id, self.before)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


_C._NodeHookHandle = _NodeHookHandle


@_overridable
def detach_(self):
    """Forgets the history of this tensor in place."""
    return _C._detach_in_place(self)


@_overridable
def storage(self):
    from .storage import TypedStorage

    _warnings.warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
        "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
        "tensor.untyped_storage() instead of tensor.storage()", UserWarning, stacklevel=3)
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def _typed_storage(self):
    from .storage import TypedStorage

    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


Tensor._typed_storage = _typed_storage


@_overridable
def storage_type(self):
    return type(self._typed_storage())


@_overridable
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A tensor of data, of this tensor's dtype and device."""
    if isinstance(data, Tensor):
        _warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than tensor.new_tensor(sourceTensor).",
            UserWarning, stacklevel=3)
        made = data.detach().to(device=device or self.device, dtype=dtype or self.dtype, copy=True)
        return made.requires_grad_(requires_grad)
    return _C.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


@_overridable
def new(self, *args, device=None):
    if len(args) == 1 and not isinstance(args[0], int):
        if isinstance(args[0], _C.Size):
            return self.new_empty(args[0])
        if isinstance(args[0], Tensor):
            return args[0].detach()
        return _C.tensor(args[0], dtype=self.dtype, device=device or self.device)
    return self.new_empty(args if args else (0,))


def __iter__(self):
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    if _C._is_tracing():
        _C._jit_warn(
            "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different shape won't "
            "change the number of iterations executed (and might lead to errors or silently give incorrect results).", 3)
    return iter(self.unbind(0))


Tensor.__iter__ = __iter__              # dim() and unbind() are overridden, not this: members keep their class


@_overridable
def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


@_overridable
def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, complex, bool)):
        return bool((element == self).any().item())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


@_overridable
def __format__(self, format_spec):
    if self.dim() == 0 and not self.is_meta and type(self) is Tensor and not _C._is_fake(self):
        return self.item().__format__(format_spec)
    return object.__format__(self, format_spec)


@_overridable
def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    if dtype is not None:
        array = array.astype(dtype, copy=False)
    return array.copy() if copy else array


@_overridable
def __array_wrap__(self, array, context=None, return_scalar=False):
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array)


Tensor.__array_priority__ = 1000
# Names of Python 2 that PyTorch keeps.
Tensor.__div__, Tensor.__idiv__, Tensor.__rdiv__ = Tensor.__truediv__, Tensor.__itruediv__, Tensor.__rtruediv__
Tensor.__long__, Tensor.__nonzero__ = Tensor.__int__, Tensor.__bool__


@_overridable
def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set")
    if stream is not None and stream != -1:
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and tuple(dl_device) != (1, 0):
        raise BufferError(f"Can't export to the device {tuple(dl_device)}: tensors are on the CPU, (1, 0)")
    # `max_version` may be any: a capsule without a version is what every consumer takes.
    return _C._to_dlpack(self.clone() if copy else self.resolve_neg())


@_overridable
def __dlpack_device__(self):
    return (1, 0)


@_overridable
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If you "
            "were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001")
    if id(self) in memo:
        return memo[id(self)]
    self.untyped_storage()          # of a wrapper of a transform there is none to copy
    wrapper = type(self).__torch_dispatch__ is not Tensor.__torch_dispatch__ and not self.data_ptr()
    with _grad_off():
        made = self.clone() if wrapper else _C._copy_with_storage(self, memo)
    if wrapper and type(made) is not type(self):
        raise RuntimeError(
            "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that properly implement clone(). You should "
            "either properly implement clone() for your subclass or override __deepcopy__().")
    if type(self) is not Tensor and not wrapper:
        made = made.as_subclass(type(self))
    if self.requires_grad:
        made.requires_grad_()
    if self.grad is not None:
        made.grad = self.grad.__deepcopy__(memo)
    if self.__dict__:
        made.__dict__.update(_copy.deepcopy(self.__dict__, memo))
    memo[id(self)] = made
    return made


def _grad_off():
    from .autograd.grad_mode import no_grad

    return no_grad()


@_overridable
def __reduce_ex__(self, protocol):
    from collections import OrderedDict

    from . import _utils

    if type(self).__torch_dispatch__ is not Tensor.__torch_dispatch__ and not self.data_ptr():
        func = _utils._rebuild_wrapper_subclass
        args = (type(self), self.dtype, tuple(self.size()), self.stride(), self.storage_offset(), self.layout, self.device, self.requires_grad)
    elif self.is_meta:
        func = _utils._rebuild_meta_tensor_no_storage
        args = (self.dtype, tuple(self.size()), self.stride(), self.requires_grad)
    else:
        func = _utils._rebuild_tensor_v2
        for hook in (self._backward_hooks or {}).values():
            if not hasattr(hook, "__torch_unserializable__"):
                _warnings.warn(
                    f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                    "function with @torch.utils.hooks.unserializable_hook to suppress this warning", stacklevel=2)
        # The empty dictionary is where older files kept hooks.
        args = (self._typed_storage(), self.storage_offset(), tuple(self.size()), self.stride(), self.requires_grad, OrderedDict())
        signs = {name: True for name, has in (("conj", self.is_conj()), ("neg", self.is_neg())) if has}
        args += (signs,) if signs else ()
    if type(self) is Tensor and not self.__dict__:
        return (func, args)
    return (_rebuild_from_type_v2, (func, type(self), args, _utils._get_obj_state(self)))


def _rebuild_from_type_v2(func, new_type, args, state):
    from . import _utils

    made = func(*args)
    if not isinstance(made, Tensor):        # a file may name what it likes here
        raise TypeError(f"a tensor cannot be rebuilt from a {type(made).__name__}")
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    if getattr(made.__class__, "__setstate__", Tensor.__setstate__) is not Tensor.__setstate__:
        made.__setstate__(state)
        return made
    return _utils._set_obj_state(made, state)


def __setstate__(self, state):
    raise RuntimeError("__setstate__ can be only called on leaf Tensors made by old pickles, which Taper does not read")


Tensor.__setstate__ = __setstate__


@_overridable
def share_memory_(self):
    raise NotImplementedError("Tensor.share_memory_ is not implemented in Taper yet")


@_overridable
def pin_memory(self, device=None):
    raise RuntimeError("Cannot access accelerator device when none is available.")


@_overridable
def is_same_size(self, other):
    return self.shape == other.shape


@_overridable
def dim_order(self, *, ambiguity_check=False):
    if not isinstance(ambiguity_check, bool) and not (isinstance(ambiguity_check, list) and all(isinstance(f, _C.memory_format) for f in ambiguity_check)):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = self.stride()
    order = tuple(sorted(range(self.dim()), key=lambda i: (-strides[i], i)))
    if ambiguity_check and (len(set(strides)) < len(strides) or 1 in self.shape):
        formats = [f for f in (_C.contiguous_format, _C.channels_last, _C.channels_last_3d) if self.is_contiguous(memory_format=f)]
        if ambiguity_check is True or len(formats) != 1 or formats[0] not in ambiguity_check:
            raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.")
    return order


@_overridable
def apply_(self, callable):
    if self.requires_grad:
        raise RuntimeError("apply_() is not supported for tensors that require gradient.")
    flat = [callable(x) for x in self.reshape(-1).tolist()]
    return self.copy_(_C.tensor(flat, dtype=self.dtype).view(self.shape))


@_overridable
def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    from . import functional

    return functional.norm(self, p, dim, keepdim, dtype=dtype)


@_overridable
def nonzero(self, *, as_tuple=False):
    from ._ops import ops

    return tuple(ops.aten.nonzero_numpy(self)) if as_tuple else ops.aten.nonzero(self)


@_overridable
def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    from . import functional

    return functional.unique(self, sorted, return_inverse, return_counts, dim)


@_overridable
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    from . import functional

    return functional.unique_consecutive(self, return_inverse, return_counts, dim)


@_overridable
def lu(self, pivot=True, get_infos=False):
    from . import functional

    return functional.lu(self, pivot, get_infos)


def _dir(self):
    names = set(dir(type(self))) | set(self.__dict__)
    return sorted(names)


Tensor.__dir__ = _dir


def _reduce_layout(layout):
    from .serialization import _get_layout

    return _get_layout, ("torch." + str(layout).split(".")[-1],)


_copyreg.pickle(_C.layout, _reduce_layout)


# ---- set_printoptions: the options of the printer, which is in C ---------------------------------------------------
_profiles = {
    "default": dict(precision=4, threshold=1000, edgeitems=3, linewidth=80),
    "short": dict(precision=2, threshold=1000, edgeitems=2, linewidth=80),
    "full": dict(precision=4, threshold=float("inf"), edgeitems=3, linewidth=80),
}
_options = dict(_profiles["default"], sci_mode=None)


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    if profile is not None:
        _options.update(_profiles[profile])
    given = dict(precision=precision, threshold=threshold, edgeitems=edgeitems, linewidth=linewidth)
    _options.update((k, v) for k, v in given.items() if v is not None)
    _options["sci_mode"] = sci_mode
    _C._set_print_options(_options)


def get_printoptions():
    return dict(_options)


class printoptions:
    """Sets options for a while."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        self.before = dict(_options)
        set_printoptions(**self.options)

    def __exit__(self, *error):
        set_printoptions(**self.before)


_facades.settle(__name__)
