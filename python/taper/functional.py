"""Functions of the root that choose among ops."""
from . import _C
from ._C import Tensor


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of a vector or matrix, by linalg's ops."""
    if _C._has_torch_function_unary(input):
        return _C._handle_torch_function(norm, (input,), input, p=p, dim=dim, keepdim=keepdim, out=out, dtype=dtype)
    dim = [dim] if isinstance(dim, int) else dim
    if isinstance(p, str) and p != "fro":
        return _C._linalg.linalg_matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    return _C._linalg.linalg_vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype, out=out)


def lu(A, pivot=True, get_infos=False):
    if _C._has_torch_function_unary(A):
        return _C._handle_torch_function(lu, (A,), A, pivot=pivot, get_infos=get_infos)
    made = _C._VariableFunctions._lu_with_info(A, pivot, not get_infos)
    return (made.LU, made.pivots, made.info) if get_infos else (made.LU, made.pivots)


def split(tensor, split_size_or_sections, dim=0):
    if _C._has_torch_function_unary(tensor):
        return _C._handle_torch_function(split, (tensor,), tensor, split_size_or_sections, dim=dim)
    return Tensor.split(tensor, split_size_or_sections, dim)
