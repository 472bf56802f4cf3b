"""Recurrent layers and their cells."""
import math
import numbers
import warnings

from ..._tensor import Tensor
from .. import init
from ..._root import torch
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

# mode -> rows of a weight for each hidden unit
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """Layers of weights under the names weight_ih_l0, weight_hh_l0, bias_ih_l0, …, each with its `_reverse` twin."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, proj_size=0, device=None, dtype=None
    ):
        super().__init__()
        self._check_options(hidden_size, num_layers, dropout, proj_size)
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                self._add_weights(layer, suffix, device, dtype)
        self.reset_parameters()

    @staticmethod
    def _check_options(hidden_size, num_layers, dropout, proj_size):
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=4,
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def _add_weights(self, layer, suffix, device, dtype):
        rows = _GATES[self.mode] * self.hidden_size
        out = self.proj_size if self.proj_size > 0 else self.hidden_size
        width = self.input_size if layer == 0 else out * (2 if self.bidirectional else 1)
        shapes = {f"weight_ih_l{layer}{suffix}": (rows, width), f"weight_hh_l{layer}{suffix}": (rows, out)}
        if self.bias:
            shapes[f"bias_ih_l{layer}{suffix}"] = shapes[f"bias_hh_l{layer}{suffix}"] = (rows,)
        if self.proj_size > 0:
            shapes[f"weight_hr_l{layer}{suffix}"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            setattr(self, name, Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self._all_weights.append(list(shapes))

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self):
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Nothing to do: weights need not lie next to each other."""

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input, batch_sizes):
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype and not torch.is_autocast_enabled():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input, batch_sizes, width=None):
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        directions = 2 if self.bidirectional else 1
        if width is None:
            width = self.proj_size if self.proj_size > 0 else self.hidden_size
        return (self.num_layers * directions, batch, width)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else hx.index_select(1, permutation)

    def _zero_state(self, input, width=None, batch_sizes=None):
        size = self.get_expected_hidden_size(input, batch_sizes, width)
        return torch.zeros(size, dtype=input.dtype, device=input.device)

    def _options(self, packed=False):
        """What every recurrent op takes after input, state and weights."""
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        return options if packed else (*options, self.batch_first)

    def _batched(self, input, got):
        """(input with a batch dimension, whether it had one)."""
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 2D or 3D, got {got.format(input.dim())} instead")
        if input.dim() == 3:
            return input, True
        return input.unsqueeze(0 if self.batch_first else 1), False

    def _run_packed(self, op, packed, hx):
        """forward over a packed sequence; states come and go in the order of the sequences."""
        data, batch_sizes, order, back = packed
        if hx is None:
            hx = self._zero_state(data, batch_sizes=batch_sizes)
        else:
            hx = self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = getattr(torch, op)(data, batch_sizes, hx, self._flat_weights, *self._options(packed=True))
        return PackedSequence(output, batch_sizes, order, back), self.permute_hidden(hidden, back)

    def _run(self, op, input, hx, got):
        """forward of the layers with one state tensor; `op` is the name of what computes it."""
        if isinstance(input, PackedSequence):
            return self._run_packed(op, input, hx)
        input, batched = self._batched(input, got)
        if hx is None:
            hx = self._zero_state(input)
        else:
            if hx.dim() != (3 if batched else 2):
                kind, dims = ("batched", 3) if batched else ("unbatched", 2)
                raise RuntimeError(
                    f"For {kind} {dims}-D input, hx should also be {dims}-D but got {hx.dim()}-D tensor")
            if not batched:
                hx = hx.unsqueeze(1)
        self.check_forward_args(input, hx, None)
        output, hidden = getattr(torch, op)(input, hx, self._flat_weights, *self._options())
        if not batched:
            return output.squeeze(0 if self.batch_first else 1), hidden.squeeze(1)
        return output, hidden

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
                            ("dropout", 0), ("bidirectional", False)):
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        return text


class RNN(RNNBase):
    """h' = tanh(W x + b + U h + c), or relu of it."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", *args, **kwargs):
        if kwargs.get("proj_size", 0):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        return self._run(self.mode.lower(), input, hx, "{}D tensor")


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(self, *args, **kwargs):
        if kwargs.get("proj_size", 0):
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input, hx=None):
        return self._run("gru", input, hx, "{}D")


class LSTM(RNNBase):
    """Long short-term memory: the state is a pair."""

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def check_forward_args(self, input, hidden, batch_sizes):
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0], self.get_expected_hidden_size(input, batch_sizes), "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(
            hidden[1], self.get_expected_hidden_size(input, batch_sizes, self.hidden_size),
            "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx, permutation):
        return hx if permutation is None else tuple(part.index_select(1, permutation) for part in hx)

    def _forward_packed(self, packed, hx):
        data, batch_sizes, order, back = packed
        if hx is None:
            hx = tuple(self._zero_state(data, width, batch_sizes) for width in (None, self.hidden_size))
        else:
            hx = self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, batch_sizes)
        output, *state = torch.lstm(data, batch_sizes, hx, self._flat_weights, *self._options(packed=True))
        return PackedSequence(output, batch_sizes, order, back), self.permute_hidden(tuple(state), back)

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        input, batched = self._batched(input, "{}D")
        if hx is None:
            hx = (self._zero_state(input), self._zero_state(input, self.hidden_size))
        else:
            kind, dims = ("batched", 3) if batched else ("unbatched", 2)
            if hx[0].dim() != dims or hx[1].dim() != dims:
                raise RuntimeError(
                    f"For {kind} {dims}-D input, hx and cx should also be {dims}-D but got ({hx[0].dim()}-D, "
                    f"{hx[1].dim()}-D) tensors")
            if not batched:
                hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        self.check_forward_args(input, hx, None)
        output, hidden, cell = torch.lstm(input, hx, self._flat_weights, *self._options())
        if not batched:
            return output.squeeze(0 if self.batch_first else 1), (hidden.squeeze(1), cell.squeeze(1))
        return output, (hidden, cell)


class RNNCellBase(Module):
    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(torch.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(torch.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            values = Parameter(torch.empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self):
        return (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def _check_dims(self, value, what):
        if value.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected {what} to be 1D or 2D, got {value.dim()}D instead")

    def _run(self, op, input, hx):
        """forward of the cells with one state tensor."""
        self._check_dims(input, "input")
        if hx is not None:
            self._check_dims(hx, "hidden")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        result = op(input, hx, *self._weights())
        return result if batched else result.squeeze(0)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._run(torch.rnn_tanh_cell if self.nonlinearity == "tanh" else torch.rnn_relu_cell, input, hx)


class GRUCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._run(torch.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        self._check_dims(input, "input")
        if hx is not None:
            for i, part in enumerate(hx):
                self._check_dims(part, f"hx[{i}]")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = torch.lstm_cell(input, hx, *self._weights())
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))
