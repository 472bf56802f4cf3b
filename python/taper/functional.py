"""Functions of the root that take tensors one by one, or choose among ops."""
import functools
import operator

from . import _C
from ._C import Tensor
from ._ops import ops

_ops = _C._VariableFunctions


def _spelled(function, args, kwargs):
    """A call as __torch_function__ sees it: what has a default goes by name, given or not."""
    code, defaults = function.__code__, function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    named = dict(zip(code.co_varnames[first:code.co_argcount], defaults), **(function.__kwdefaults__ or {}))
    if code.co_argcount:
        named.update(zip(code.co_varnames[first:], args[first:]))
        args = args[:first]
    return args, {**named, **kwargs}


def _overridable(function):
    """Lets __torch_function__ see a function of tensors that is written here."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        given = [t for a in args for t in (a if isinstance(a, (list, tuple)) else (a,)) if not isinstance(t, (int, str))]
        if _C._has_torch_function(given):
            args, kwargs = _spelled(function, args, kwargs)
            return _C._handle_torch_function(wrapper, given, *args, **kwargs)
        return function(*args, **kwargs)

    return wrapper


def _listed(tensors):
    """f(a, b) and f([a, b]) are the same."""
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors


@_overridable
def atleast_1d(*tensors):
    return _ops.atleast_1d(*tensors) if len(tensors) == 1 else _ops.atleast_1d(tensors)


@_overridable
def atleast_2d(*tensors):
    return _ops.atleast_2d(*tensors) if len(tensors) == 1 else _ops.atleast_2d(tensors)


@_overridable
def atleast_3d(*tensors):
    return _ops.atleast_3d(*tensors) if len(tensors) == 1 else _ops.atleast_3d(tensors)


@_overridable
def block_diag(*tensors):
    return _ops.block_diag(tensors)


@_overridable
def broadcast_tensors(*tensors):
    return _ops.broadcast_tensors(_listed(tensors))


@_overridable
def cartesian_prod(*tensors):
    return _ops.cartesian_prod(tensors)


@_overridable
def chain_matmul(*matrices, out=None):
    matrices = _listed(matrices)
    return _ops.chain_matmul(matrices) if out is None else _ops.chain_matmul(matrices, out=out)


@_overridable
def meshgrid(*tensors, indexing=None):
    tensors = _listed(tensors)
    return _ops.meshgrid(tensors) if indexing is None else _ops.meshgrid(tensors, indexing=indexing)


def _letter(subscript):
    if subscript is Ellipsis:
        return "..."
    if not 0 <= subscript < 52:
        raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return chr((ord("A") if subscript < 26 else ord("a") - 26) + subscript)


def einsum(*args):
    """A sum of products over named dims. Lists of numbers after each operand are another way to write the equation."""
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list")
    if isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    else:
        equation = ",".join("".join(map(_letter, names)) for names in args[1::2])
        if len(args) % 2 == 1:
            equation += "->" + "".join(map(_letter, args[-1]))
            operands = args[:-1:2]
        else:
            operands = args[::2]
    operands = _listed(operands)
    if _C._has_torch_function(operands):
        return _C._handle_torch_function(einsum, operands, equation, *operands)
    return _ops.einsum(equation, operands)


@_overridable
def tensordot(a, b, dims=2, out=None):
    if isinstance(dims, (tuple, list)) or isinstance(dims, Tensor) and dims.numel() > 1:
        dims_a, dims_b = dims.tolist() if isinstance(dims, Tensor) else dims
        dims_a, dims_b = ([d] if isinstance(d, int) else list(d) for d in (dims_a, dims_b))
    else:
        dims = int(dims)
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = list(range(-dims, 0)), list(range(dims))
    return _ops.tensordot(a, b, dims_a, dims_b) if out is None else _ops.tensordot(a, b, dims_a, dims_b, out=out)


def _asked(results, *wanted):
    results = tuple(r for r, w in zip(results, (True, *wanted)) if w)
    return results[0] if len(results) == 1 else results


@_overridable
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, or slices along dim; where each element went, and how many there were of each."""
    if dim is None:
        made = _ops._unique2(input, sorted, return_inverse, return_counts)
    else:
        made = ops.aten.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked(made, return_inverse, return_counts)


@_overridable
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The same for neighbours alone."""
    return _asked(_ops.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts)


@_overridable
def nonzero(input, *, out=None, as_tuple=False):
    if as_tuple:
        return input.nonzero(as_tuple=True)
    return _ops.nonzero(input) if out is None else _ops.nonzero(input, out=out)


@_overridable
def unravel_index(indices, shape):
    """The coordinates of flat indices."""
    if not isinstance(indices, Tensor) or indices.is_floating_point() or indices.is_complex() or indices.dtype == _C.bool:
        raise ValueError(f"expected 'indices' to be integer dtype, but got {getattr(indices, 'dtype', type(indices))}")
    shape = (int(shape),) if isinstance(shape, (int, Tensor)) else tuple(map(int, shape))
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    inner = [functools.reduce(operator.mul, shape[i + 1:], 1) for i in range(len(shape))]
    return tuple(indices.div(step, rounding_mode="floor") % n for step, n in zip(inner, shape))


@_overridable
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of a vector or matrix, by linalg's ops."""
    dims = [dim] if isinstance(dim, int) else dim
    given = {} if out is None else {"out": out}
    if isinstance(p, str) and not (p == "fro" and (dims is None or len(dims) <= 2)):
        return _C._linalg.linalg_matrix_norm(input, p, [*range(input.dim())] if dims is None else dims, keepdim, dtype=dtype, **given)
    return _C._linalg.linalg_vector_norm(input, 2 if p in ("fro", None) else p, dims, keepdim, dtype=dtype, **given)


_COMPUTE_MODES = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2}


@_overridable
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """Distances of all pairs of rows."""
    if compute_mode not in _COMPUTE_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _ops.cdist(x1, x2, p, _COMPUTE_MODES[compute_mode])


@_overridable
def lu(A, pivot=True, get_infos=False, out=None):
    made = _C._VariableFunctions._lu_with_info(A, pivot, not get_infos)
    made = (made.LU, made.pivots, made.info) if get_infos else (made.LU, made.pivots)
    if out is None:
        return made
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) - int(get_infos) != 2:
        raise TypeError(f"expected tuple of {2 + int(get_infos)} elements but got {len(out)}")
    for there, value in zip(out, made):
        there.resize_as_(value).copy_(value)
    return out


@_overridable
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False, onesided=None,
         return_complex=None, align_to_window=None):
    """The spectra of windows that slide over a signal."""
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    return ops.aten.stft.center(input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window)


def split(tensor, split_size_or_sections, dim=0):
    if _C._has_torch_function_unary(tensor):
        return _C._handle_torch_function(split, (tensor,), tensor, split_size_or_sections, dim=dim)
    return Tensor.split(tensor, split_size_or_sections, dim)
