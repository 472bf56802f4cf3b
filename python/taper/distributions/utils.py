"""What distributions share: broadcasting of parameters, probabilities and their logarithms, values computed once."""
from numbers import Number

from .. import _C
from ..nn import functional as F
from ..overrides import is_tensor_like

torch = __import__(__name__.partition(".")[0])

euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """Tensors of one shape; numbers become tensors of the type of the first tensor, or of the default one."""
    if not all(is_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    if not all(is_tensor_like(v) for v in values):
        first = next((v for v in values if isinstance(v, torch.Tensor)), None)
        options = {"dtype": torch.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
        values = [v if is_tensor_like(v) else torch.tensor(v, **options) for v in values]
    return torch.broadcast_tensors(*values)


def _standard_normal(shape, dtype, device):
    return torch.normal(torch.zeros(shape, dtype=dtype, device=device), torch.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value, count):
    return value.reshape(value.shape[:-count] + (-1,)).sum(-1) if count else value


def clamp_probs(probs):
    """Away from 0 and 1 by the type's precision."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits, is_binary=False):
    return torch.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def probs_to_logits(probs, is_binary=False):
    inside = clamp_probs(probs)
    return torch.log(inside) - torch.log1p(-inside) if is_binary else torch.log(inside)


class lazy_property:
    """Computed when first asked for, then an attribute of the object; on the class it is a plain property."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance, owner=None):
        if instance is None:
            return property(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat, diag=0):
    """The lower triangle, up to a diagonal, row by row."""
    n = mat.shape[-1]
    if not isinstance(diag, int) or diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    places = torch.arange(n)
    return mat[..., places < places.view(-1, 1) + (diag + 1)]


def vec_to_tril_matrix(vec, diag=0):
    """The inverse of tril_matrix_to_vec."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not round(n) - n == 0:
        raise ValueError(f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square D x D matrix.")
    n = round(n)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    places = torch.arange(n)
    mat[..., places < places.view(-1, 1) + (diag + 1)] = vec
    return mat


def _size(shape=()):
    return shape if isinstance(shape, torch.Size) else torch.Size(shape)
