"""Parameters and buffers: tensors that a Module notices when they are assigned to it."""
from collections import OrderedDict

from .._root import NAME, torch

__all__ = [
    "Parameter", "UninitializedParameter", "is_lazy", "Buffer", "UninitializedBuffer", "UninitializedTensorMixin",
]

Tensor = torch.Tensor


class _ParameterMeta(type(Tensor)):
    """A tensor of a custom class counts as a Parameter when Parameter() made it so."""

    def __instancecheck__(cls, instance):
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that joins a module's parameters() when assigned as its attribute.

    A tensor of a subclass keeps its class and is only marked.
    """

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = torch.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        marked = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {type(marked).__name__} was found instead. To use the "
                "type as a Parameter, please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        marked._is_param = True
        return marked

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copied = type(self)(self.data.clone(memory_format=torch.preserve_format), self.requires_grad)
            memo[id(self)] = copied
        return memo[id(self)]

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        from .. import _utils

        # The empty dictionary is where older files kept hooks.
        content = (self.data, self.requires_grad, OrderedDict())
        if self.__dict__:
            return (_utils._rebuild_parameter_with_state, (*content, dict(self.__dict__)))
        return (_utils._rebuild_parameter, content)

    __torch_function__ = torch._C._disabled_torch_function_impl


# Plain operators take the same short way for parameters as for tensors.
torch._C._set_parameter_class(Parameter)


class UninitializedTensorMixin:
    """A tensor without shape: it can be moved and converted, all else raises until materialize()."""

    _allowed_methods = {
        "__hash__", "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double", "char", "short",
        "int", "long", "cuda", "cpu", "to", "get_device", "_has_compatible_shallow_copy_type",
    }

    def materialize(self, shape, device=None, dtype=None):
        """Gives the tensor a shape and uninitialised memory, in place; its class becomes the initialised one."""
        self.data = torch.empty(shape, device=device or self.data.device, dtype=dtype or self.data.dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self):
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol):
        return (type(self), (self.requires_grad,))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        # Property getters (`Tensor.device.__get__`) are slot wrappers and always allowed.
        name = getattr(func, "__name__", "")
        if name in cls._allowed_methods or type(func).__name__ == "method-wrapper":
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `{NAME}.nn.parameter.{cls.__name__}` objects. When using "
            "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch functions"
        )


def is_lazy(param):
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape is not known yet."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class _BufferMeta(type(Tensor)):
    def __instancecheck__(cls, instance):
        if cls is not Buffer:
            return super().__instancecheck__(instance)
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """Marks a tensor so that assigning it to a module registers a buffer. The tensor itself is returned, detached."""

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = torch.empty(0)
        marked = data.detach().requires_grad_(data.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked

    __torch_function__ = torch._C._disabled_torch_function_impl


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        lazy = Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)
        lazy.persistent = persistent
        lazy._is_buffer = True
        return lazy
