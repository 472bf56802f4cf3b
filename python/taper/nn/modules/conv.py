"""Convolutions, their transposes, and the lazy forms of both."""
import math

from ..._tensor import Tensor
from .. import functional as F
from .. import init
from ..._root import torch
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single, _triple

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]

_PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}
_PADDING_STRINGS = {"same", "valid"}


class _ConvNd(Module):
    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels",
        "kernel_size",
    ]

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups,
        bias, padding_mode, device=None, dtype=None
    ):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in _PADDING_STRINGS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {_PADDING_STRINGS}")
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._pad_widths()
        across = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(torch.empty((*across, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _pad_widths(self):
        """Widths for pad(), last dimension first. "same" puts the odd element on the right."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        widths = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            for i, (step, size) in enumerate(zip(reversed(self.dilation), reversed(self.kernel_size))):
                total = step * (size - 1)
                widths[2 * i], widths[2 * i + 1] = total // 2, total - total // 2
        return widths

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _padded(self, input):
        """(input padded by the mode, padding left for the op)."""
        if self.padding_mode == "zeros":
            return input, self.padding
        return F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), self._no_padding

    def extra_repr(self):
        count = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * count:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * count:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


def _sizes(parse, kernel_size, stride, padding, dilation):
    return parse(kernel_size), parse(stride), padding if isinstance(padding, str) else parse(padding), parse(dilation)


class Conv1d(_ConvNd):
    _no_padding = _single(0)

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None
    ):
        super().__init__(
            in_channels, out_channels, *_sizes(_single, kernel_size, stride, padding, dilation), False, _single(0),
            groups, bias, padding_mode, device, dtype
        )

    def _conv_forward(self, input, weight, bias):
        input, padding = self._padded(input)
        return F.conv1d(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_ConvNd):
    _no_padding = _pair(0)

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None
    ):
        super().__init__(
            in_channels, out_channels, *_sizes(_pair, kernel_size, stride, padding, dilation), False, _pair(0),
            groups, bias, padding_mode, device, dtype
        )

    def _conv_forward(self, input, weight, bias):
        input, padding = self._padded(input)
        return F.conv2d(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_ConvNd):
    _no_padding = _triple(0)

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None
    ):
        super().__init__(
            in_channels, out_channels, *_sizes(_triple, kernel_size, stride, padding, dilation), False, _triple(0),
            groups, bias, padding_mode, device, dtype
        )

    def _conv_forward(self, input, weight, bias):
        input, padding = self._padded(input)
        return F.conv3d(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups,
        bias, padding_mode, device=None, dtype=None
    ):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups,
            bias, padding_mode, device, dtype
        )

    def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None):
        """What to add on one side so that the result has `output_size`."""
        if output_size is None:
            return _single(self.output_padding)
        batched = input.dim() == num_spatial_dims + 2
        extra = 2 if batched else 1
        if len(output_size) == num_spatial_dims + extra:
            output_size = output_size[extra:]
        if len(output_size) != num_spatial_dims:
            raise ValueError(
                f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must have {num_spatial_dims} "
                f"or {num_spatial_dims + extra} elements (got {len(output_size)})"
            )
        dilation = (1,) * num_spatial_dims if dilation is None else dilation
        sizes = [input.size(i + extra) for i in range(num_spatial_dims)]
        least = [
            (size - 1) * step - 2 * pad + spread * (kernel - 1) + 1
            for size, step, pad, spread, kernel in zip(sizes, stride, padding, dilation, kernel_size)
        ]
        most = [size + step - 1 for size, step in zip(least, stride)]
        if any(not low <= size <= high for low, size, high in zip(least, output_size, most)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} (for an "
                f"input of {input.size()[2:]})"
            )
        return [size - low for size, low in zip(output_size, least)]

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, len(self.kernel_size), self.dilation
        )
        return self._op()(
            input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None
    ):
        super().__init__(
            in_channels, out_channels, *_sizes(_single, kernel_size, stride, padding, dilation), True,
            _single(output_padding), groups, bias, padding_mode, device, dtype
        )

    def _op(self):
        return F.conv_transpose1d


class ConvTranspose2d(_ConvTransposeNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None
    ):
        super().__init__(
            in_channels, out_channels, *_sizes(_pair, kernel_size, stride, padding, dilation), True,
            _pair(output_padding), groups, bias, padding_mode, device, dtype
        )

    def _op(self):
        return F.conv_transpose2d


class ConvTranspose3d(_ConvTransposeNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None
    ):
        super().__init__(
            in_channels, out_channels, *_sizes(_triple, kernel_size, stride, padding, dilation), True,
            _triple(output_padding), groups, bias, padding_mode, device, dtype
        )

    def _op(self):
        return F.conv_transpose3d


class _LazyConvXdMixin(LazyModuleMixin):
    """in_channels is read from the first input."""

    def _begin_lazily(self, out_channels, bias, device, dtype):
        """After __init__ with no channels: puts uninitialised tensors in place."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.transposed:
            across = (self.in_channels, self.out_channels // self.groups)
        else:
            across = (self.out_channels, self.in_channels // self.groups)
        self.weight.materialize((*across, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input):
        dims = len(self.kernel_size)
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == dims + 2 else input.shape[0]


def _lazy(base):
    """The lazy form of a convolution."""
    transposed = issubclass(base, _ConvTransposeNd)

    class Lazy(_LazyConvXdMixin, base):
        cls_to_become = base

        if transposed:
            def __init__(
                self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                dilation=1, padding_mode="zeros", device=None, dtype=None
            ):
                super().__init__(
                    0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
                self._begin_lazily(out_channels, bias, device, dtype)
        else:
            def __init__(
                self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                padding_mode="zeros", device=None, dtype=None
            ):
                super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
                self._begin_lazily(out_channels, bias, device, dtype)

    # super() in a class body finds the class by its cell, not by its name: renaming is safe.
    Lazy.__name__ = Lazy.__qualname__ = "Lazy" + base.__name__
    Lazy.__doc__ = f"{base.__name__} whose in_channels is that of its first input."
    return Lazy


LazyConv1d, LazyConv2d, LazyConv3d = map(_lazy, (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = map(
    _lazy, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
