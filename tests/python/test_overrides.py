"""__torch_function__ and __torch_dispatch__: modes and subclasses."""
import pytest
import taper as torch
from taper.overrides import TorchFunctionMode
from taper.utils._python_dispatch import TorchDispatchMode


class Names(TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Ops(TorchDispatchMode):
    def __init__(self):
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_function_mode():
    x = torch.ones(2, 2)
    with Names() as mode:
        x + 1, 1 + x, x.sum(), x[0], x.shape, x == 1, torch.zeros(1), torch.tensor(1), x.view(4), len(x), -x
    assert mode.seen == ["add", "add", "sum", "__getitem__", "__get__", "eq", "zeros", "tensor", "view", "__len__", "neg"]
    x + 1
    assert len(mode.seen) == 11


def test_function_modes_nest():
    x = torch.ones(1)
    with Names() as outer, Names() as inner:
        x + 1
    assert outer.seen == inner.seen == ["add"]


def test_function_subclass():
    seen = []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(2).as_subclass(Noted)
    assert type(torch.add(torch.ones(2), x)) is Noted and seen == [torch.add]
    assert type(x.sum()) is Noted and seen[-1] is torch.Tensor.sum
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x.sum()) is torch.Tensor
    assert torch.overrides.has_torch_function((x,)) and not torch.overrides.has_torch_function((torch.ones(1),))


def test_objects_that_are_no_tensors():
    class Duck:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func.__name__

    assert torch.add(Duck(), 1) == "add" and torch.cat([torch.ones(1), Duck()]) == "cat" and torch.ones(1) + Duck() == "add"


def test_nobody_answers():
    class No(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="Multiple dispatch failed for 'taper.add'; all __torch_function__ handlers returned NotImplemented"):
        torch.add(torch.ones(1).as_subclass(No), 1)


def test_dispatch_mode():
    x = torch.ones(2, 2, requires_grad=True)
    with Ops() as mode:
        y = (x * 2).sum()
        y.backward()
    assert mode.seen[:2] == ["aten.mul.Tensor", "aten.sum.default"] and x.grad.tolist() == [[2, 2], [2, 2]] and y.requires_grad
    with pytest.raises(ValueError, match="from Python"):
        class Broken(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                raise ValueError("from Python")

        with Broken():
            torch.ones(1) + 1


class Wrapper(torch.Tensor):
    """Holds another tensor and does every op on it."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        opened = [a.inner if isinstance(a, Wrapper) else a for a in args]
        return Wrapper(func(*opened, **(kwargs or {})))

    __torch_function__ = torch._C._disabled_torch_function_impl


def test_wrapper_subclass():
    x = Wrapper(torch.ones(2, 3))
    y = x + x
    assert type(y) is Wrapper and y.inner.tolist() == [[2, 2, 2], [2, 2, 2]] and y.shape == (2, 3)
    assert type(torch.ones(2, 3) * x) is Wrapper


def test_library():
    library = torch.library.Library("test_overrides", "DEF")
    library.define("scaled(Tensor x, float k=2.0) -> Tensor")
    library.impl("scaled", lambda x, k: x * k, "CPU")
    op = torch.ops.test_overrides.scaled
    assert op(torch.ones(2)).tolist() == [2, 2] and op.default(torch.ones(2), 3.0).tolist() == [3, 3]
    x = torch.ones(1)
    with Ops() as mode:
        op(x)
    assert mode.seen[0] == "test_overrides.scaled.default"
    library._destroy()
    with pytest.raises(AttributeError):
        torch.ops.test_overrides.scaled


def test_custom_op():
    @torch.library.custom_op("test_overrides::plus", mutates_args=())
    def plus(x: torch.Tensor, k: float) -> torch.Tensor:
        return x + k

    assert plus(torch.ones(1), 2.0).tolist() == [3]
    assert str(plus._opoverload._schema) == "test_overrides::plus(Tensor x, float k) -> Tensor"


def test_device_context():
    with torch.device("meta"):
        assert torch.ones(2).device.type == "meta" and torch.ones(2, device="cpu").device.type == "cpu"
    assert torch.ones(2).device.type == "cpu"


def test_dispatch_mode_inside_another():
    class Outer(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen += 1
            with Inner():
                return func(*args, **(kwargs or {}))

    class Inner(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Outer() as outer:
        x + 1
        x + 2
    assert outer.seen == 2
