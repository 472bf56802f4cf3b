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


class FakeTensorMode(_C._FakeModeBase):
    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None,
                 export=False):
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self._known = {}
        self._set(shape_env, allow_non_fake_inputs, allow_fallback_kernels)

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        if _C._is_fake(tensor):
            return tensor
        known = self._known.get(id(tensor))
        if known is not None:
            return known[1]
        static = self.static_shapes if static_shapes is None else static_shapes
        sizes = None if static or self.shape_env is None else self.shape_env._sizes_of(tensor, source, symbolic_context)
        fake = self._fake(tensor, sizes)
        if tensor.requires_grad:
            fake.requires_grad_(True)
            if not tensor.is_leaf:          # nor is its fake
                with enable_grad():
                    fake = fake.clone()
        key, known = id(tensor), weakref.ref(self)

        def forget(_, key=key, mode=known):
            mode = mode()
            if mode is not None:
                mode._known.pop(key, None)

        self._known[key] = (weakref.ref(tensor, forget), fake)
        return fake
