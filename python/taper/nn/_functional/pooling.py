"""Pooling and its inverses."""
import math

from ..._root import torch
from .common import _nn, overridden, override

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
]


def _tuple_of(value, count):
    return (value,) * count if isinstance(value, (int, float)) else tuple(value)


def _stride(stride, kernel_size):
    return kernel_size if stride is None else stride


def max_pool1d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    if overridden(input):
        return override(max_pool1d_with_indices, locals())
    return torch.max_pool1d_with_indices(
        input, kernel_size, _stride(stride, kernel_size), padding, dilation, ceil_mode
    )


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    if return_indices:
        return max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode, True)
    if overridden(input):
        return override(max_pool1d, locals())
    return torch.max_pool1d(input, kernel_size, _stride(stride, kernel_size), padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    if overridden(input):
        return override(max_pool2d_with_indices, locals())
    return _nn.max_pool2d_with_indices(input, kernel_size, _stride(stride, kernel_size), padding, dilation, ceil_mode)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    if return_indices:
        return max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode, True)
    if overridden(input):
        return override(max_pool2d, locals())
    return torch.max_pool2d(input, kernel_size, _stride(stride, kernel_size), padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    if overridden(input):
        return override(max_pool3d_with_indices, locals())
    return _nn.max_pool3d_with_indices(input, kernel_size, _stride(stride, kernel_size), padding, dilation, ceil_mode)


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    if return_indices:
        return max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode, True)
    if overridden(input):
        return override(max_pool3d, locals())
    return torch.max_pool3d(input, kernel_size, _stride(stride, kernel_size), padding, dilation, ceil_mode)


def _fractional_sizes(input, kernel_size, output_size, output_ratio, random_samples, dims, name):
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios = _tuple_of(output_ratio, dims)
        output_size = [int(input.size(i - dims) * ratio) for i, ratio in enumerate(ratios)]
    if random_samples is None:
        batch = 1 if input.dim() == dims + 1 else input.size(0)
        random_samples = torch.rand(
            batch, input.size(-dims - 1), dims, dtype=input.dtype, device=input.device
        )
    return output_size, random_samples


def fractional_max_pool2d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    if overridden(input):
        return override(fractional_max_pool2d_with_indices, locals())
    size, samples = _fractional_sizes(
        input, kernel_size, output_size, output_ratio, _random_samples, 2, "fractional_max_pool2d")
    return _nn.fractional_max_pool2d(input, kernel_size, size, samples)


def fractional_max_pool2d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    if overridden(input):
        return override(fractional_max_pool2d, locals())
    both = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
    return both if return_indices else both[0]


def fractional_max_pool3d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    if overridden(input):
        return override(fractional_max_pool3d_with_indices, locals())
    size, samples = _fractional_sizes(
        input, kernel_size, output_size, output_ratio, _random_samples, 3, "fractional_max_pool3d")
    return _nn.fractional_max_pool3d(input, kernel_size, size, samples)


def fractional_max_pool3d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    if overridden(input):
        return override(fractional_max_pool3d, locals())
    both = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
    return both if return_indices else both[0]


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    """The size the pooling came from: given, or the smallest that fits."""
    dims = len(kernel_size)
    default = [
        (size - 1) * step + kernel - 2 * pad
        for size, step, kernel, pad in zip(input.size()[-dims:], stride, kernel_size, padding)
    ]
    if output_size is None:
        return default
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for i, size in enumerate(output_size):
        low, high = default[i] - stride[i], default[i] + stride[i]
        if not low < size < high:
            raise ValueError(f"invalid output_size \"{output_size}\" (dim {i} must be between {low} and {high})")
    return list(output_size)


def _unpool(input, kernel_size, stride, padding, output_size, dims):
    kernel = _tuple_of(kernel_size, dims)
    step = _tuple_of(_stride(stride, kernel), dims)
    pad = _tuple_of(padding, dims)
    return _unpool_output_size(input, kernel, step, pad, output_size), step, pad


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    if overridden(input):
        return override(max_unpool1d, locals())
    size, _, _ = _unpool(input, kernel_size, stride, padding, output_size, 1)
    return _nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    if overridden(input):
        return override(max_unpool2d, locals())
    size, _, _ = _unpool(input, kernel_size, stride, padding, output_size, 2)
    return _nn.max_unpool2d(input, indices, size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    if overridden(input):
        return override(max_unpool3d, locals())
    size, step, pad = _unpool(input, kernel_size, stride, padding, output_size, 3)
    return _nn.max_unpool3d(input, indices, size, step, pad)


def _power_mean(mean, count, norm_type):
    """Turns means of x**p over `count` elements into p-norms, keeping the sign a mean of odd powers may have."""
    return (torch.sign(mean) * torch.relu(torch.abs(mean))).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    if overridden(input):
        return override(lp_pool1d, locals())
    mean = torch.avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode) if stride is not None else (
        torch.avg_pool1d(input.pow(norm_type), kernel_size, padding=0, ceil_mode=ceil_mode))
    return _power_mean(mean, kernel_size, norm_type)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    if overridden(input):
        return override(lp_pool2d, locals())
    mean = _nn.avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _power_mean(mean, math.prod(_tuple_of(kernel_size, 2)), norm_type)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    if overridden(input):
        return override(lp_pool3d, locals())
    mean = _nn.avg_pool3d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _power_mean(mean, math.prod(_tuple_of(kernel_size, 3)), norm_type)


def _with_default(output_size, input):
    """None in an output size keeps the input's size there."""
    if isinstance(output_size, int):
        return output_size
    sizes = input.size()
    if len(sizes) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    tail = sizes[-len(output_size):]
    return [size if wanted is None else wanted for wanted, size in zip(output_size, tail)]


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    if overridden(input):
        return override(adaptive_max_pool1d_with_indices, locals())
    return torch.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    if return_indices:
        return adaptive_max_pool1d_with_indices(input, output_size, True)
    if overridden(input):
        return override(adaptive_max_pool1d, locals())
    return adaptive_max_pool1d_with_indices(input, output_size)[0]


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    if overridden(input):
        return override(adaptive_max_pool2d_with_indices, locals())
    return _nn.adaptive_max_pool2d(input, _with_default(output_size, input))


def adaptive_max_pool2d(input, output_size, return_indices=False):
    if return_indices:
        return adaptive_max_pool2d_with_indices(input, output_size, True)
    if overridden(input):
        return override(adaptive_max_pool2d, locals())
    return adaptive_max_pool2d_with_indices(input, output_size)[0]


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    if overridden(input):
        return override(adaptive_max_pool3d_with_indices, locals())
    return _nn.adaptive_max_pool3d(input, _with_default(output_size, input))


def adaptive_max_pool3d(input, output_size, return_indices=False):
    if return_indices:
        return adaptive_max_pool3d_with_indices(input, output_size, True)
    if overridden(input):
        return override(adaptive_max_pool3d, locals())
    return adaptive_max_pool3d_with_indices(input, output_size)[0]


def adaptive_avg_pool2d(input, output_size):
    if overridden(input):
        return override(adaptive_avg_pool2d, locals())
    return _nn.adaptive_avg_pool2d(input, _with_default(output_size, input))


def adaptive_avg_pool3d(input, output_size):
    if overridden(input):
        return override(adaptive_avg_pool3d, locals())
    return _nn.adaptive_avg_pool3d(input, _with_default(output_size, input))
