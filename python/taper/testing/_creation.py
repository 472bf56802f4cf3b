"""make_tensor: a tensor of random values, drawn so that a seed gives the values PyTorch gives."""
import math
import warnings

from .._root import torch


def dtypes(*names):
    """Those of the named dtypes that the package has."""
    return tuple(getattr(torch, name) for name in names if hasattr(torch, name))


INTEGRAL = dtypes("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
UNSIGNED = dtypes("uint8", "uint16", "uint32", "uint64")
EIGHT_BITS = dtypes("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
FLOATING = dtypes("float16", "bfloat16", "float32", "float64")
COMPLEX = dtypes("complex32", "complex64", "complex128")


def limits(dtype):
    """The values that `dtype` holds, the upper one excluded for integers and bool."""
    if dtype is torch.bool:
        return 0, 2
    if dtype in INTEGRAL:
        return torch.iinfo(dtype).min, torch.iinfo(dtype).max + (1 if dtype is not torch.int64 else 0)
    return torch.finfo(dtype).min, torch.finfo(dtype).max


def default_interval(dtype):
    if dtype is torch.bool:
        return 0, 2
    if dtype in INTEGRAL:
        return (0, 10) if dtype in UNSIGNED else (-9, 10)
    return -9, 9


def interval(dtype, low, high):
    """[low, high), checked, and cut to what the dtype holds."""
    lowest, highest = default_interval(dtype)
    low, high = lowest if low is None else low, highest if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    discrete = dtype in INTEGRAL or dtype is torch.bool
    if low == high and not discrete:
        warnings.warn("Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated "
                      "since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
                      FutureWarning, stacklevel=3)
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    least, most = limits(dtype)
    if high < least or low > most or (discrete and (high <= least or low >= most)):
        raise ValueError(f"The value interval specified by `low` and `high` is [{low}, {high}), "
                         f"but {dtype} only supports [{least}, {most})")
    low, high = max(low, least), min(high, most)
    return (math.ceil(low), math.ceil(high)) if discrete else (low, high)


def fill(shape, dtype, device, low, high):
    if dtype in INTEGRAL or dtype is torch.bool:
        return torch.randint(low, high, shape, device=device, dtype=dtype)
    if dtype in EIGHT_BITS:
        return torch.empty(shape, device=device, dtype=torch.float32).uniform_(low, high).to(dtype)
    result = torch.empty(shape, device=device, dtype=dtype)
    numbers = torch.view_as_real(result) if dtype in COMPLEX else result
    if high - low > torch.finfo(dtype).max:             # uniform_ refuses an interval it cannot subtract
        numbers.uniform_(low / 2, high / 2).mul_(2)
    else:
        numbers.uniform_(low, high)
    return result


def make_tensor(*shape, dtype, device, low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False, memory_format=None):
    """Random values in [low, high); by default -9 to 9, or 0 to 10 for unsigned integers."""
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = shape[0]
    shape = tuple(shape)
    if dtype not in INTEGRAL + FLOATING + COMPLEX + EIGHT_BITS + (torch.bool,):
        raise TypeError(f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor(). "
                        "To request support, file an issue at: https://github.com/pytorch/pytorch/issues")
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
                         f"but got {noncontiguous=} and {memory_format=}")
    low, high = interval(dtype, low, high)
    if noncontiguous and math.prod(shape) > 1:
        result = fill(shape[:-1] + (2 * shape[-1],), dtype, device, low, high)[..., 1::2]
    else:
        result = fill(shape, dtype, device, low, high)
        if memory_format is not None:
            result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = torch.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
    return result.requires_grad_(True) if requires_grad else result
