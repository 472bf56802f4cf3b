"""grouped_mm: products of groups of matrices, where groups of a 2-d operand end at `offs`."""
from .._root import torch

__all__ = ["grouped_mm"]


def _check(a, b, offs, bias, out_dtype):
    for name, matrix in (("mat_a", a), ("mat_b", b)):
        if matrix.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            title = str(matrix.dtype).rpartition(".")[2].replace("float64", "double").capitalize()
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {title}")
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if a.size(-1) != b.size(-2):
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if (offs is None) != (a.dim() == 3 and b.dim() == 3):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and offs.dim() != 1:
        raise RuntimeError("offs has to be 1D")
    if offs is not None and offs.dtype != torch.int32:
        raise RuntimeError("Offsets have to be int32")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype != a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Groups of rows of a 2-d mat_a, of columns of a 2-d mat_b, or of what is summed over when both are; else a batch."""
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return torch.bmm(mat_a, mat_b)
    ends = offs.tolist()
    groups = list(enumerate(zip([0, *ends[:-1]], ends)))
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        return torch.stack([mat_a[:, begin:end] @ mat_b[begin:end] for _, (begin, end) in groups])
    if mat_a.dim() == 2:
        # What lies behind the last group belongs to none.
        rest = mat_a.new_zeros(mat_a.size(0) - ends[-1], mat_b.size(-1))
        return torch.cat([mat_a[begin:end] @ mat_b[i] for i, (begin, end) in groups] + [rest])
    rest = mat_b.new_zeros(mat_a.size(1), mat_b.size(1) - ends[-1])
    return torch.cat([mat_a[i] @ mat_b[:, begin:end] for i, (begin, end) in groups] + [rest], 1)
