"""Sequences of different lengths: padded to one tensor, or packed step by step."""
from typing import NamedTuple, Optional

from ..._root import torch

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence",
    "unpad_sequence", "pack_sequence", "unpack_sequence",
]


class PackedSequence_(NamedTuple):
    data: "torch.Tensor"
    batch_sizes: "torch.Tensor"
    sorted_indices: Optional["torch.Tensor"]
    unsorted_indices: Optional["torch.Tensor"]


def _parts(data, batch_sizes, sorted_indices, unsorted_indices):
    if unsorted_indices is None:
        unsorted_indices = invert_permutation(sorted_indices)
    if batch_sizes is not None:
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in "
                "nn.utils.rnn. https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return data, batch_sizes, sorted_indices, unsorted_indices
    if not isinstance(data, (list, tuple)) or len(data) != 2:
        raise AssertionError("Expected data to be a list or tuple of length 2")
    return data[0], data[1], sorted_indices, unsorted_indices


class PackedSequence(PackedSequence_):
    """Rows of all steps below each other, and how many sequences are still running at each step."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        return super().__new__(cls, *_parts(data, batch_sizes, sorted_indices, unsorted_indices))

    def to(self, *args, **kwargs):
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kwargs = {name: value for name, value in kwargs.items() if name not in ("device", "dtype")}
        indices = (
            None if index is None else index.to(data.device, **kwargs)
            for index in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, *indices)

    def pin_memory(self):
        return type(self)(self.data.pin_memory(), *self[1:])

    def cpu(self, *args, **kwargs):
        return self.to(*args, device="cpu", **kwargs)

    def cuda(self, *args, **kwargs):
        return self.to(*args, device="cuda", **kwargs)

    def double(self):
        return self.to(dtype=torch.double)

    def float(self):
        return self.to(dtype=torch.float)

    def half(self):
        return self.to(dtype=torch.half)

    def long(self):
        return self.to(dtype=torch.long)

    def int(self):
        return self.to(dtype=torch.int)

    def short(self):
        return self.to(dtype=torch.short)

    def char(self):
        return self.to(dtype=torch.int8)

    def byte(self):
        return self.to(dtype=torch.uint8)

    @property
    def is_cuda(self):
        return self.data.is_cuda

    def is_pinned(self):
        return self.data.is_pinned()


def invert_permutation(permutation):
    if permutation is None:
        return None
    return torch.empty_like(permutation, memory_format=torch.contiguous_format).scatter_(
        0, permutation, torch.arange(0, permutation.numel(), device=permutation.device))


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    lengths = torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
    order = None
    if not enforce_sorted:
        lengths, order = torch.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    data, batch_sizes = torch._C._VariableFunctions._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, order, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    longest = sequence.batch_sizes.size(0)
    if total_length is None:
        total_length = longest
    elif total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    padded, lengths = torch._C._VariableFunctions._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, total_length)
    back = sequence.unsorted_indices
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    if isinstance(sequences, torch.Tensor):
        sequences = sequences.unbind(0)
    elif not hasattr(sequences, "__iter__"):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: " + str(type(sequences)))
    return torch._C._nn.pad_sequence(list(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [sequence[:length] for sequence, length in zip(padded_sequences, lengths.tolist())]


def pack_sequence(sequences, enforce_sorted=True):
    lengths = torch.as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
