"""Reductions and normalisations over the elements that a mask keeps: the others become the neutral element of the function."""
from . import _C

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median", "norm", "normalize",
           "prod", "softmax", "softmin", "std", "sum", "var"]
_f = _C._VariableFunctions
_INTEGERS = (_C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64)


def _lowest(dtype, sign):
    """-inf, or the least number of an integral type; with the other sign the greatest."""
    if dtype.is_floating_point:
        return -sign * float("inf")
    limits = _C.iinfo(dtype)
    return limits.min if sign > 0 else limits.max


def _broadcast(mask, input):
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return mask.to(_C.bool).expand(input.shape)


def _kept(input, mask, neutral):
    if mask is None:
        return input
    return _f.where(_broadcast(mask, input), input, _f.scalar_tensor(neutral, dtype=input.dtype, device=input.device))


def _dims(input, dim):
    """All dims for None and for an empty tuple."""
    if dim is None or dim == ():
        return tuple(range(input.ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    for i, d in enumerate(dims):
        if d in dims[:i]:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
    return dims


def _summed_dtype(input, dtype):
    return dtype or (_C.int64 if input.dtype in _INTEGERS else input.dtype)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _f.sum(_kept(input, mask, 0), _dims(input, dim), bool(keepdim), dtype=_summed_dtype(input, dtype))


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    result = _kept(input, mask, 1).to(_summed_dtype(input, dtype))
    for d in sorted((d % (input.ndim or 1) for d in _dims(input, dim)), reverse=True):
        result = _f.prod(result, d, bool(keepdim))
    return result


def cumsum(input, dim, *, dtype=None, mask=None):
    return _f.cumsum(_kept(input, mask, 0), dim, dtype=_summed_dtype(input, dtype))


def cumprod(input, dim, *, dtype=None, mask=None):
    return _f.cumprod(_kept(input, mask, 1), dim, dtype=_summed_dtype(input, dtype))


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _f.amax(_kept(input, mask, _lowest(input.dtype, 1)), _dims(input, dim), bool(keepdim)).to(dtype or input.dtype)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _f.amin(_kept(input, mask, _lowest(input.dtype, -1)), _dims(input, dim), bool(keepdim)).to(dtype or input.dtype)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _f.argmax(_kept(input, mask, _lowest(input.dtype, 1)), dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _f.argmin(_kept(input, mask, _lowest(input.dtype, -1)), dim, bool(keepdim)).to(dtype or input.dtype)


def _count(input, mask, dim, keepdim):
    ones = _f.ones(input.shape, dtype=_C.int64, device=input.device)
    return sum(ones, dim, keepdim=keepdim, mask=mask)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _f.div(sum(input, dim, keepdim=keepdim, dtype=dtype or input.dtype, mask=mask), _count(input, mask, dim, keepdim))


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    input = input.to(dtype or input.dtype)
    floating = input.dtype.is_floating_point
    if mask is None:
        return (_f.nanmedian if floating else _f.median)(input, dim, bool(keepdim)).values
    result = _f.nanmedian(_kept(input if floating else input.to(_C.float64), mask, float("nan")), dim, bool(keepdim)).values
    if not floating and result.isnan().any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return result.to(input.dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _f.logsumexp(_kept(input, mask, _lowest(input.dtype, 1)), _dims(input, dim), bool(keepdim)).to(dtype or input.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    both = (_kept(x, mask, -float("inf")) for x, mask in ((input, input_mask), (other, other_mask)))
    return _f.logaddexp(*both).to(dtype or input.dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    kept = _kept(input, mask, float("inf") if ord == -float("inf") else 0)
    return _C._linalg.linalg_vector_norm(kept, ord, _dims(input, dim), bool(keepdim), dtype=dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _f.div(_kept(input, mask, 0), length.clamp(min=eps))


def _moments(input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    correction = 1 if correction is None and unbiased in (None, True) else correction or 0
    dtype = dtype or (_C.float32 if input.dtype in _INTEGERS else input.dtype)
    centred = _f.sub(input, mean(input.to(dtype), dim, keepdim=True, mask=mask))
    count = _count(input, mask, dim, keepdim)
    squares = sum(centred * centred.conj(), dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return _f.div(squares, (count - correction).clamp(min=0))


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    return _moments(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    return _f.sqrt(_moments(input, dim, unbiased, correction, keepdim, dtype, mask))


def softmax(input, dim, *, dtype=None, mask=None):
    return _f.softmax(_kept(input, mask, -float("inf")), dim, dtype=dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    return _f.log_softmax(_kept(input, mask, -float("inf")), dim, dtype=dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    return _f.softmax(_f.neg(_kept(input, mask, float("inf"))), dim, dtype=dtype)


def __getattr__(name):
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
