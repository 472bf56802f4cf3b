"""Activations, softmax, dropout and the shapes in between."""
import warnings

from ..._root import torch
from .common import _nn, overridden, override

__all__ = [
    "dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "threshold", "relu",
    "glu", "hardtanh", "relu6", "elu", "selu", "celu", "leaky_relu", "rrelu", "tanhshrink", "softsign", "softmin",
    "softmax", "gumbel_softmax", "log_softmax", "tanh", "sigmoid", "hardsigmoid", "silu", "mish", "hardswish",
    "normalize",
]


def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    if overridden(input):
        return override(dropout, locals())
    _check_probability(p)
    return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    if overridden(input):
        return override(alpha_dropout, locals())
    _check_probability(p)
    return torch.alpha_dropout_(input, p, training) if inplace else torch.alpha_dropout(input, p, training)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    if overridden(input):
        return override(feature_alpha_dropout, locals())
    _check_probability(p)
    op = torch.feature_alpha_dropout_ if inplace else torch.feature_alpha_dropout
    return op(input, p, training)


def _feature_dropout(input, p, training, inplace):
    return torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)


def dropout1d(input, p=0.5, training=True, inplace=False):
    if overridden(input):
        return override(dropout1d, locals())
    _check_probability(p)
    dims = input.dim()
    if dims not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {dims}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    if dims == 3:
        return _feature_dropout(input, p, training, inplace)
    batched = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _feature_dropout(batched, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def dropout2d(input, p=0.5, training=True, inplace=False):
    if overridden(input):
        return override(dropout2d, locals())
    _check_probability(p)
    dims = input.dim()
    if dims not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {dims}-D input to dropout2d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout2d exists to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. 3D or 4D inputs).",
            stacklevel=2,
        )
    if dims == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return _feature_dropout(input, p, training, inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    if overridden(input):
        return override(dropout3d, locals())
    _check_probability(p)
    dims = input.dim()
    if dims not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {dims}-D input to dropout3d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout3d exists to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=2,
        )
    if dims == 5:
        return _feature_dropout(input, p, training, inplace)
    batched = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _feature_dropout(batched, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def _threshold(input, threshold, value, inplace=False):
    if overridden(input):
        return override(_threshold, locals())
    op = torch.threshold_ if inplace else torch.threshold
    return op(input, threshold, value)


threshold = _threshold


def relu(input, inplace=False):
    if overridden(input):
        return override(relu, locals())
    return torch.relu_(input) if inplace else torch.relu(input)


def glu(input, dim=-1):
    if overridden(input):
        return override(glu, locals())
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _nn.glu(input, dim)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    if overridden(input):
        return override(hardtanh, locals())
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    op = _nn.hardtanh_ if inplace else _nn.hardtanh
    return op(input, min_val, max_val)


def relu6(input, inplace=False):
    if overridden(input):
        return override(relu6, locals())
    return _nn.relu6_(input) if inplace else _nn.relu6(input)


def elu(input, alpha=1.0, inplace=False):
    if overridden(input):
        return override(elu, locals())
    return _nn.elu_(input, alpha) if inplace else _nn.elu(input, alpha)


def selu(input, inplace=False):
    if overridden(input):
        return override(selu, locals())
    return torch.selu_(input) if inplace else torch.selu(input)


def celu(input, alpha=1.0, inplace=False):
    if overridden(input):
        return override(celu, locals())
    return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    if overridden(input):
        return override(leaky_relu, locals())
    return _nn.leaky_relu_(input, negative_slope) if inplace else _nn.leaky_relu(input, negative_slope)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    if overridden(input):
        return override(rrelu, locals())
    op = torch.rrelu_ if inplace else torch.rrelu
    return op(input, lower, upper, training)


def tanhshrink(input):
    if overridden(input):
        return override(tanhshrink, locals())
    return input - input.tanh()


def softsign(input):
    if overridden(input):
        return override(softsign, locals())
    return input / (input.abs() + 1)


def tanh(input):
    return input.tanh()


def sigmoid(input):
    return input.sigmoid()


def _softmax_dim(name, dims, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if dims in (0, 1, 3) else 1


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    if overridden(input):
        return override(softmin, locals())
    if dim is None:
        dim = _softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    if overridden(input):
        return override(softmax, locals())
    if dim is None:
        dim = _softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    if overridden(input):
        return override(log_softmax, locals())
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    if overridden(logits):
        return override(gumbel_softmax, locals())
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -torch.empty_like(logits, memory_format=torch.legacy_contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    chosen = torch.zeros_like(logits, memory_format=torch.legacy_contiguous_format).scatter_(dim, index, 1.0)
    # The value is the hard choice, the gradient that of the soft one.
    return chosen - soft.detach() + soft


def hardsigmoid(input, inplace=False):
    if overridden(input):
        return override(hardsigmoid, locals())
    return _nn.hardsigmoid_(input) if inplace else _nn.hardsigmoid(input)


def silu(input, inplace=False):
    if overridden(input):
        return override(silu, locals())
    return _nn.silu_(input) if inplace else _nn.silu(input)


def mish(input, inplace=False):
    if overridden(input):
        return override(mish, locals())
    return _nn.mish_(input) if inplace else _nn.mish(input)


def hardswish(input, inplace=False):
    if overridden(input):
        return override(hardswish, locals())
    return _nn.hardswish_(input) if inplace else _nn.hardswish(input)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    if overridden(input) or (out is not None and overridden(out)):
        return override(normalize, locals())
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / length if out is None else torch.div(input, length, out=out)
