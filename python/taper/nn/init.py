"""Filling tensors with their initial values, in place and outside autograd.

Order and kind of draws are PyTorch's: the same seed gives the same weights.
"""
import math
import warnings

from .._root import torch

_GAINS = {
    "linear": 1, "conv1d": 1, "conv2d": 1, "conv3d": 1, "conv_transpose1d": 1, "conv_transpose2d": 1, "conv_transpose3d": 1,
    "sigmoid": 1, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity, param=None):
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


_is_overridden = torch._C._has_torch_function_variadic


def _override(function, tensor, **options):
    """Lets a tensor subclass answer for itself."""
    from ..overrides import handle_torch_function

    return handle_torch_function(function, (tensor,), tensor=tensor, **options)


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    if _is_overridden(tensor):
        return _override(uniform_, tensor, a=a, b=b, generator=generator)
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    if _is_overridden(tensor):
        return _override(normal_, tensor, mean=mean, std=std, generator=generator)
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _share_inside(mean, std, a, b):
    """How much of a normal distribution lies in [a, b]."""
    def below(x):
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    return below(b) - below(a)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal numbers in [a, b], by rejection: whole tensors are drawn, each element takes its first good one.

    Where [a, b] holds less than 0.3 of the distribution, the draws are uniform and accepted by density.
    """
    if (mean < a - 2 * std) or (mean > b + 2 * std):
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    flat = std > 0 and _share_inside(mean, std, a, b) < 0.3
    peak = (min(max(mean, a), b) - mean) / std if flat else 0.0

    def draw(out):
        """Fills `out`, and tells which elements are good."""
        if not flat:
            out.normal_(mean, std, generator=generator)
            return (out >= a) & (out <= b)
        out.uniform_(a, b, generator=generator)
        level = torch.empty_like(out).uniform_(generator=generator)
        place = (out - mean) / std
        return level <= (-0.5 * (place * place - peak * peak)).exp()

    with torch.no_grad():
        good = draw(tensor)
        while not good.all():
            again = torch.empty_like(tensor)
            accepted = draw(again)
            tensor.copy_(torch.where(good, tensor, again))
            good |= accepted
        return tensor


def constant_(tensor, val):
    if _is_overridden(tensor):
        return _override(constant_, tensor, val=val)
    with torch.no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    with torch.no_grad():
        return tensor.fill_(1.0)


def zeros_(tensor):
    with torch.no_grad():
        return tensor.zero_()


def eye_(tensor):
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with torch.no_grad():
        torch.eye(*tensor.shape, out=tensor, requires_grad=tensor.requires_grad)
    return tensor


def dirac_(tensor, groups=1):
    """A convolution kernel that copies its input: one at the middle of each channel's own filter."""
    dims = tensor.ndimension()
    if dims not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    out_per_group = sizes[0] // groups
    middle = tuple(size // 2 for size in sizes[2:])
    with torch.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(out_per_group, sizes[1])):
                tensor[(group * out_per_group + channel, channel, *middle)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(shape[2:]) if len(shape) > 2 else 1
    return shape[1] * field, shape[0] * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    with torch.no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    with torch.no_grad():
        return tensor.normal_(0.0, std, generator=generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if _is_overridden(tensor):
        return _override(kaiming_uniform_, tensor, a=a, mode=mode, nonlinearity=nonlinearity, generator=generator)
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    with torch.no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    with torch.no_grad():
        return tensor.normal_(0, std, generator=generator)


def orthogonal_(tensor, gain=1, generator=None):
    """Rows (or columns, if there are more rows) become orthonormal, times gain."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    if rows < columns:
        flat.t_()
    q, r = torch.linalg.qr(flat)
    # Signs of R's diagonal are the factorisation's whim: moving them into Q makes the draw uniform.
    q *= torch.diag(r, 0).sign()
    if rows < columns:
        q.t_()
    with torch.no_grad():
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = int(math.ceil(sparsity * rows))
    with torch.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[torch.randperm(rows)[:zeros], column] = 0
    return tensor


def _deprecated(function):
    name = function.__name__[:-1]

    def old(*args, **kwargs):
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"Old name of {name}_."
    return old


uniform, normal, constant, eye, dirac, xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal, orthogonal, \
    sparse = map(_deprecated, (
        uniform_, normal_, constant_, eye_, dirac_, xavier_uniform_, xavier_normal_, kaiming_uniform_,
        kaiming_normal_, orthogonal_, sparse_,
    ))
