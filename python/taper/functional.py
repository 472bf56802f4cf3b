"""Functions of the root that choose among ops."""
from . import _C
from ._C import Tensor


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of a vector or matrix, by linalg's ops."""
    order = 2.0 if p in ("fro", None) else p
    if isinstance(order, str) and order != "nuc":
        raise RuntimeError(f"linalg.matrix_norm: Order {order} not supported.")
    if order == "nuc":
        raise NotImplementedError("norm(p='nuc') is not implemented in Taper yet")
    if dim is not None and isinstance(dim, int):
        dim = [dim]
    return _C._linalg.linalg_vector_norm(input, order, dim, keepdim, dtype=dtype)


def split(tensor, split_size_or_sections, dim=0):
    if _C._has_torch_function_unary(tensor):
        return _C._handle_torch_function(split, (tensor,), tensor, split_size_or_sections, dim=dim)
    return Tensor.split(tensor, split_size_or_sections, dim)
