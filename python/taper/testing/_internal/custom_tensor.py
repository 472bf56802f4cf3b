"""ConstantExtraMetadataTensor: a tensor subclass that carries a constant beside its tensor."""
from ..._root import torch
from ...utils import _pytree as pytree
from ...utils._python_dispatch import return_and_correct_aliasing


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
