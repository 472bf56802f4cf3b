"""FakeTensorMode: inside it factories make tensors without data; from_tensor makes one of a real tensor, once each."""
import contextlib

from .. import _C
from .._options import refuse
from .._tensor import Tensor
from ..autograd.grad_mode import enable_grad
from ..overrides import DisableTorchFunctionSubclass, TorchFunctionMode


class UnsupportedFakeTensorException(RuntimeError):
    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


class _OfOp(RuntimeError):
    """An error that is about one op."""

    def __init__(self, func):
        super().__init__(func)
        self.func = func


class DynamicOutputShapeException(_OfOp):
    pass


class DataDependentOutputException(_OfOp):
    pass


class UnsupportedOperatorException(_OfOp):
    pass


class FakeTensorDeviceMismatchError(RuntimeError):
    pass


class _FakeTensorMeta(type(Tensor)):
    """A fake tensor is a fact of the tensor, not a class of its own: Parameters and subclasses can be fake."""

    def __instancecheck__(cls, instance):
        return _C._is_fake(instance)


class FakeTensor(Tensor, metaclass=_FakeTensorMeta):
    def __new__(cls, fake_mode, elem, device, constant=None, real_tensor=None, pytype=None, dispatch_keys=None):
        """A fake of the mode with the sizes of a meta tensor, on a device."""
        if elem.device.type != "meta":
            raise AssertionError(f"elem.device.type must be 'meta', got {elem.device.type}")
        refuse("FakeTensor", constant=(constant, None), real_tensor=(real_tensor, None), pytype=(pytype, None), dispatch_keys=(dispatch_keys, None))
        from .. import empty_strided

        with fake_mode:
            return empty_strided(elem.shape, elem.stride(), dtype=elem.dtype, device=device, requires_grad=elem.requires_grad)

    @staticmethod
    def from_tensor(t, fake_mode):
        return fake_mode.from_tensor(t)


class FakeTensorConverter:
    """Fakes of real tensors; the mode remembers which is whose."""

    def from_real_tensor(self, fake_mode, t, make_constant=False, shape_env=None, *, source=None, symbolic_context=None, trace=True):
        refuse("FakeTensorConverter.from_real_tensor", make_constant=(make_constant, False))
        return fake_mode.from_tensor(t, static_shapes=shape_env is None, source=source, symbolic_context=symbolic_context)

    def from_meta_and_device(self, fake_mode, t, device, pytype=None, dispatch_keys=None):
        return FakeTensor(fake_mode, t, device, pytype=pytype, dispatch_keys=dispatch_keys)

    def __call__(self, fake_mode, t, device=None, **options):
        return self.from_real_tensor(fake_mode, t, **options) if device is None else self.from_meta_and_device(fake_mode, t, device)


class FakeTensorMode(_C._FakeModeBase):
    def is_our_fake(self, t):
        return is_fake(t) and t.fake_mode is self

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None,
                 export=False):
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self.fake_tensor_converter = FakeTensorConverter()
        self._set(shape_env, allow_non_fake_inputs, allow_fallback_kernels)

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        static = self.static_shapes if static_shapes is None else static_shapes
        fake = self._known(tensor, static or self.shape_env is None)
        if fake is not None:
            return fake
        if static_shapes and symbolic_context is not None:
            raise AssertionError("cannot set both static_shapes and symbolic_context")
        fake = self._fake(tensor, None if static or self.shape_env is None else self.shape_env._sizes_of(tensor, source, symbolic_context))
        if tensor.requires_grad:
            fake.requires_grad_(True)
            if not tensor.is_leaf:          # nor is its fake
                with enable_grad():
                    fake = fake.clone()
        if type(tensor) is not Tensor:
            from ..nn.parameter import Parameter

            if isinstance(tensor, Parameter):
                fake = Parameter(fake, tensor.requires_grad)
        if tensor.is_leaf and tensor.grad is not None:
            fake.grad = self.from_tensor(tensor.grad, static_shapes=static_shapes, source=source)
        self._keep(tensor, fake)
        return fake


def is_fake(x):
    return _C._is_fake(x)


def maybe_get_fake_mode(t):
    return getattr(t, "fake_mode", None)


def get_plain_tensors(subclass, *, out=None):
    """The tensors that a wrapper subclass is made of, itself if it is no wrapper."""
    found = [] if out is None else out
    if not hasattr(subclass, "__tensor_flatten__"):
        found.append(subclass)
        return found
    for name in subclass.__tensor_flatten__()[0]:
        get_plain_tensors(getattr(subclass, name), out=found)
    return found


@contextlib.contextmanager
def unset_fake_temporarily():
    """Inside, tensors are real again; gives the mode that was on, or None."""
    mode, outside = _C._leave_fake()
    try:
        yield mode
    finally:
        _C._enter_fake_again(outside)


class FakeCopyMode(TorchFunctionMode):
    """Inside, copies of real tensors are fake ones of the mode."""

    def __init__(self, fake_mode):
        self.fake_mode = fake_mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is _C.Tensor.clone:
            return func(self.fake_mode.from_tensor(args[0], static_shapes=True), **kwargs)
        if func is Tensor.__deepcopy__:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor, static_shapes=True)
            return memo[id(tensor)]
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
