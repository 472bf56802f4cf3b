"""Normalisation, embedding, padding, resampling: the functions with weights or with geometry."""
import math
import warnings

from ..._root import torch
from .common import _nn, any_overridden, overridden, override

__all__ = [
    "embedding", "embedding_bag", "batch_norm", "instance_norm", "layer_norm", "rms_norm", "group_norm",
    "local_response_norm", "pad", "interpolate", "upsample", "upsample_nearest", "upsample_bilinear", "grid_sample",
    "affine_grid", "unfold", "fold", "grouped_mm",
]


def _no_grad_embedding_renorm_(weight, input, max_norm, norm_type):
    with torch.no_grad():
        torch.embedding_renorm_(weight, input, max_norm, norm_type)


def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if any_overridden(input, weight):
        return override(embedding, locals())
    _check_strided("embedding", sparse)
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        input = input.contiguous()
        _no_grad_embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _check_strided(name, sparse):
    """Refused before the table is renormed."""
    if sparse:
        raise NotImplementedError(f"{name}: sparse=True is not implemented, gradients are strided here")


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None
):
    if any_overridden(input, weight, offsets, per_sample_weights):
        return override(embedding_bag, locals())
    if mode != "max":
        _check_strided("embedding_bag", sparse)
    if weight.dtype == torch.long and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if not weight.dim() == 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        offsets = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    _check_bag(mode, scale_grad_by_freq, sparse, per_sample_weights)
    if max_norm is not None:
        _no_grad_embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding_bag(
        weight, input, offsets, scale_grad_by_freq, _BAG_MODES[mode], sparse, per_sample_weights, include_last_offset,
        padding_idx
    )[0]


def _check_bag(mode, scale_grad_by_freq, sparse, per_sample_weights):
    if mode not in _BAG_MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}'). Please open a feature request on GitHub."
        )


def _verify_batch_size(size):
    if math.prod((size[0], *size[2:])) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _verify_spatial_size(size):
    if math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    if any_overridden(input, running_mean, running_var, weight, bias):
        return override(batch_norm, locals())
    if training:
        _verify_batch_size(input.size())
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    if any_overridden(input, running_mean, running_var, weight, bias):
        return override(instance_norm, locals())
    if use_input_stats:
        _verify_spatial_size(input.size())
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    if any_overridden(input, weight, bias):
        return override(layer_norm, locals())
    return torch.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    if any_overridden(input, weight):
        return override(rms_norm, locals())
    return torch.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    if any_overridden(input, weight, bias):
        return override(group_norm, locals())
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    size = input.size()
    _verify_batch_size([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return torch.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    if overridden(input):
        return override(local_response_norm, locals())
    dims = input.dim()
    if dims < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {dims} dimensions)")
    if input.numel() == 0:
        return input
    # Channels are pooled as if they were the rows of an image of one channel.
    squares = input.mul(input).unsqueeze(1)
    before, after = size // 2, (size - 1) // 2
    if dims == 3:
        mean = _nn.avg_pool2d(pad(squares, (0, 0, before, after)), (size, 1), stride=1).squeeze(1)
    else:
        shape = input.size()
        flat = squares.view(shape[0], 1, shape[1], shape[2], -1)
        flat = pad(flat, (0, 0, 0, 0, before, after))
        mean = _nn.avg_pool3d(flat, (size, 1, 1), stride=1).squeeze(1).view(shape)
    return input / mean.mul(alpha).add(k).pow(beta)


def pad(input, pad, mode="constant", value=None):
    if overridden(input):
        return override(_pad, locals())
    return _nn.pad(input, pad, mode, value)


# Inside `pad` the name is the list of widths.
_pad = pad

_MODES = ("nearest", "linear", "bilinear", "bicubic", "trilinear", "lanczos", "area", "nearest-exact")
_CORNERS = ("linear", "bilinear", "bicubic", "trilinear", "lanczos")


def _spatial_size(input, size, scale_factor):
    """(output size, scale factors): exactly one of them is not None."""
    dims = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given, name = (size, "size") if size is not None else (scale_factor, "scale_factor")
    if not isinstance(given, (list, tuple)):
        given = [given] * dims
    elif len(given) != dims:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and output size of {given}. Please provide input tensor in (N, C, d1, d2, "
            "...,dK) format and output size in (o1, o2, ...,oK) format."
            if name == "size" else
            "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(input.shape[2:])} and scale_factor of shape {given}. Please provide input tensor in "
            "(N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
        )
    return (given, None) if name == "size" else (None, list(given))


def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
    antialias=False
):
    if overridden(input):
        return override(interpolate, locals())
    if mode not in _CORNERS:
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    elif align_corners is None:
        align_corners = False
    size, scales = _spatial_size(input, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if mode == "area" and size is None:
        recompute_scale_factor = True
    if recompute_scale_factor:
        size = [math.floor(float(n) * factor) for n, factor in zip(input.size()[2:], scales)]
        scales = None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    return _resample(input, size, scales, mode, align_corners, antialias)


def _resample(input, size, scales, mode, align_corners, antialias):
    dims = input.dim()
    if 3 <= dims <= 5 and mode in ("nearest", "nearest-exact"):
        name = f"{'_' if mode == 'nearest-exact' else ''}upsample_{mode.replace('-', '_')}{dims - 2}d"
        return getattr(_nn, name)(input, size, scales)
    if 3 <= dims <= 5 and mode == "area":
        from .pooling import adaptive_avg_pool2d, adaptive_avg_pool3d

        return (torch.adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[dims - 3](input, size)
    needed = {"linear": 3, "bilinear": 4, "trilinear": 5}
    if 3 <= dims <= 5 and mode in needed:
        if dims != needed[mode]:
            raise NotImplementedError(f"Got {dims}D input, but {mode} mode needs {needed[mode]}D input")
        name = f"upsample_{mode}{dims - 2}d" if dims != 4 else "upsample_bilinear2d"
        if antialias:
            return _nn._upsample_bilinear2d_aa(input, size, align_corners, scales)
        return getattr(_nn, name)(input, size, align_corners, scales)
    if dims == 4 and mode == "bicubic":
        op = _nn._upsample_bicubic2d_aa if antialias else _nn.upsample_bicubic2d
        return op(input, size, align_corners, scales)
    if dims == 4 and mode == "lanczos" and antialias:
        return _nn._upsample_lanczos2d_aa(input, size, align_corners, scales)
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {dims}D) for the modes: {' | '.join(_MODES)} "
        f"(got {mode})"
    )


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    if any_overridden(input, grid):
        return override(grid_sample, locals())
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
            f"'{mode}'"
        )
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=2,
        )
        align_corners = False
    return torch.grid_sampler(input, grid, GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode], align_corners)


def affine_grid(theta, size, align_corners=None):
    if overridden(theta):
        return override(affine_grid, locals())
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=2,
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    dims = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return torch.affine_grid_generator(theta, size, align_corners)


def _pair(value):
    return (value, value) if isinstance(value, int) else value


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    if overridden(input):
        return override(unfold, locals())
    return _nn.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    if overridden(input):
        return override(fold, locals())
    return _nn.col2im(
        input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    return torch._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)
