"""TwoTensor: a tensor subclass of two tensors on which every op runs twice. It tests how subclasses are traced."""
from ... import _facades
from ..._root import torch
from ...utils import _pytree as pytree
from ...utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing


class TwoTensor(torch.Tensor):
    """Two tensors of one shape, stride, dtype and device, seen as one."""

    @staticmethod
    def __new__(cls, a, b, outer_size=None, outer_stride=None, *, requires_grad=None):
        for name in ("device", "layout", "requires_grad", "dtype"):
            if getattr(a, name) != getattr(b, name):
                raise AssertionError("Expected a and b to have same device, layout, requires_grad, and dtype")
        for name, read in (("shape", lambda t: t.shape), ("stride()", lambda t: t.stride()),
                           ("storage_offset()", lambda t: t.storage_offset())):
            if read(a) != read(b):
                raise AssertionError(f"Expected a.{name} == b.{name}, got {read(a)} != {read(b)}")
        if outer_size is None:
            outer_size = a.size()
        if outer_stride is None:
            outer_stride = a.stride()
        if requires_grad is None:
            requires_grad = a.requires_grad
        return torch.Tensor._make_wrapper_subclass(
            cls, outer_size, strides=outer_stride, storage_offset=a.storage_offset(), device=a.device,
            layout=a.layout, requires_grad=requires_grad, dtype=a.dtype)

    def __init__(self, a, b, outer_size=None, outer_stride=None, *, requires_grad=None):
        self.a, self.b = a, b

    def __repr__(self):
        return f"TwoTensor({self.a!r}, {self.b!r})"

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        return TwoTensor(inner_tensors["a"], inner_tensors["b"], outer_size, outer_stride)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        kwargs = kwargs or {}
        halves = []
        for half in ("a", "b"):
            pick = lambda x: getattr(x, half) if isinstance(x, TwoTensor) else x
            halves.append(func(*pytree.tree_map(pick, args), **pytree.tree_map(pick, kwargs)))
        firsts, spec = pytree.tree_flatten(halves[0])
        seconds = pytree.tree_leaves(halves[1])
        both = [TwoTensor(a, b) if isinstance(a, torch.Tensor) else a for a, b in zip(firsts, seconds)]
        return return_and_correct_aliasing(func, args, kwargs, pytree.tree_unflatten(both, spec))

    def get_elem_a(self):
        return self.a


class TwoTensorMode(TorchDispatchMode):
    """Makes new tensors TwoTensors; what ops compute from given tensors stays as it is."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves((args, kwargs))):
            return out
        return TwoTensor(out, out.clone()) if isinstance(out, torch.Tensor) else out


# ---- ConstantExtraMetadataTensor: a tensor subclass that carries a constant beside its tensor ----------------------
class ConstantExtraMetadataTensor(torch.Tensor):
    """`elem`, and `constant_attribute`, which an op's result does not inherit."""

    @staticmethod
    def __new__(cls, elem):
        return torch.Tensor._make_wrapper_subclass(
            cls, elem.shape, strides=elem.stride(), storage_offset=elem.storage_offset(), device=elem.device,
            layout=elem.layout, requires_grad=elem.requires_grad, dtype=elem.dtype)

    def __init__(self, elem):
        self.elem, self.constant_attribute = elem, 4

    def __repr__(self):
        return f"CustomTensor({self.elem!r})"

    def __tensor_flatten__(self):
        return ["elem"], self.constant_attribute

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        tensor = ConstantExtraMetadataTensor(inner_tensors["elem"])
        tensor.constant_attribute = meta
        return tensor

    def add_constant(self, a):
        self.constant_attribute += a

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        unwrap = lambda x: x.elem if isinstance(x, ConstantExtraMetadataTensor) else x
        out = func(*pytree.tree_map(unwrap, args), **pytree.tree_map(unwrap, kwargs or {}))
        wrap = lambda x: ConstantExtraMetadataTensor(x) if isinstance(x, torch.Tensor) else x
        return return_and_correct_aliasing(func, args, kwargs or {}, pytree.tree_map(wrap, out))


_facades.settle(__name__)
