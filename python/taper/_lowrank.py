"""Singular values of matrices of low rank, by random projections (Halko, Martinsson and Tropp, 2009, algorithms 4.4 and 5.1)."""
from . import _C
from ._C import _VariableFunctions as _functions
from .overrides import handle_torch_function, has_torch_function

_linalg = _C._linalg


def _basis(apply, adjoint, columns, q, niter, like):
    """Orthonormal columns that nearly span the range of a linear map."""
    start = _functions.randn(columns, q, dtype=like.dtype, device=like.device)
    Q = _linalg.linalg_qr(apply(start)).Q
    for _ in range(niter):
        Q = _linalg.linalg_qr(adjoint(Q)).Q
        Q = _linalg.linalg_qr(apply(Q)).Q
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    tensors = (A,) if M is None else (A, M)
    if has_torch_function(tensors):
        return handle_torch_function(svd_lowrank, tensors, A, q=q, niter=niter, M=M)
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    m, n = A.shape[-2:]
    if M is not None:
        A = A - M.broadcast_to(A.size())
    if m < n:
        A = A.mH
    Q = _basis(lambda x: A @ x, lambda x: A.mH @ x, A.shape[-1], q, niter, A)
    U, S, Vh = _linalg.linalg_svd(Q.mH @ A, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if m < n else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    if has_torch_function((A,)):
        return handle_torch_function(pca_lowrank, (A,), A, q=q, center=center, niter=niter)
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(dim=(-2,), keepdim=True) if center else A, q, niter=niter)
