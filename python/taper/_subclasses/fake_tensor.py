"""FakeTensorMode: inside it factories make tensors without data; from_tensor makes one of a real tensor, once each."""
import weakref

from .. import _C
from .._tensor import Tensor
from ..autograd.grad_mode import enable_grad


class UnsupportedFakeTensorException(RuntimeError):
    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


class DynamicOutputShapeException(RuntimeError):
    def __init__(self, func):
        super().__init__(func)
        self.func = func


class DataDependentOutputException(RuntimeError):
    def __init__(self, func):
        super().__init__(func)
        self.func = func


class _FakeTensorMeta(type(Tensor)):
    """A fake tensor is a fact of the tensor, not a class of its own: Parameters and subclasses can be fake."""

    def __instancecheck__(cls, instance):
        return _C._is_fake(instance)


class FakeTensor(Tensor, metaclass=_FakeTensorMeta):
    pass


class _Reference(weakref.ref):
    """weakref.KeyedRef without its constructors, which took longer than the fake tensor."""
    __slots__ = ("key", "fake")


class FakeTensorMode(_C._FakeModeBase):
    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None,
                 export=False):
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self._known = {}                    # id of a tensor -> weak reference to it, which has its fake
        mode = weakref.ref(self)

        def forget(reference):
            mine = mode()
            if mine is not None:
                mine._known.pop(reference.key, None)

        self._forget = forget
        self._set(shape_env, allow_non_fake_inputs, allow_fallback_kernels)

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        if _C._is_fake(tensor):
            return tensor
        known = self._known.get(id(tensor))
        if known is not None:
            return known.fake
        static = self.static_shapes if static_shapes is None else static_shapes
        sizes = None if static or self.shape_env is None else self.shape_env._sizes_of(tensor, source, symbolic_context)
        fake = self._fake(tensor, sizes)
        if tensor.requires_grad:
            fake.requires_grad_(True)
            if not tensor.is_leaf:          # nor is its fake
                with enable_grad():
                    fake = fake.clone()
        reference = _Reference(tensor, self._forget)
        reference.key, reference.fake = id(tensor), fake
        self._known[reference.key] = reference
        return fake
