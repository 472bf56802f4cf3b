"""Datasets: things with items, or things to iterate over."""
import bisect
import math
import warnings
from itertools import accumulate
from typing import Generic, TypeVar

from ..._root import torch

T_co = TypeVar("T_co", covariant=True)

__all__ = [
    "Dataset", "IterableDataset", "TensorDataset", "StackDataset", "ConcatDataset", "ChainDataset", "Subset",
    "random_split",
]


class Dataset(Generic[T_co]):
    """Items by key. `__len__` is expected by most samplers; `__getitems__(indices)` may serve whole batches."""

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """A stream of items."""

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Rows of tensors."""

    def __init__(self, *tensors):
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Several datasets side by side: tuples, or dictionaries if given by name."""

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        parts = self._parts()
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError("Size mismatch between datasets")

    def _parts(self):
        return list(self.datasets.values()) if isinstance(self.datasets, dict) else list(self.datasets)

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """One dataset after another."""

    @staticmethod
    def cumsum(sequence):
        return list(accumulate(len(part) for part in sequence))

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if len(self.datasets) == 0:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        place = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[place][idx - (self.cumulative_sizes[place - 1] if place else 0)]


class ChainDataset(IterableDataset):
    """One stream after another."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from part

    def __len__(self):
        return sum(len(part) for part in self.datasets)


class Subset(Dataset):
    """Some items of a dataset."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        chosen = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)
        return [self.dataset[i] for i in chosen]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    """Disjoint subsets of the given lengths, or of the given shares of the whole."""
    count = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        sizes = []
        for i, share in enumerate(lengths):
            if share < 0 or share > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
            sizes.append(int(math.floor(count * share)))
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
        lengths = sizes
        for i, length in enumerate(lengths):
            if length == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2)
    if sum(lengths) != count:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    generator = torch.default_generator if generator is None else generator
    order = torch.randperm(count, generator=generator).tolist()
    return [
        Subset(dataset, order[end - length:end]) for length, end in zip(lengths, accumulate(lengths))
    ]
