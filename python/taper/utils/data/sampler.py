"""Samplers: in which order items are taken."""
from typing import Generic, TypeVar

from ..._root import torch

T_co = TypeVar("T_co", covariant=True)

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]


def _seed():
    """A seed drawn from the default generator."""
    return int(torch.empty((), dtype=torch.int64).random_().item())


class Sampler(Generic[T_co]):
    """An iterable of keys of a dataset."""

    def __iter__(self):
        raise NotImplementedError


class SequentialSampler(Sampler):
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """A random order. Without a generator, one is seeded from the default one each time."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        count = len(self.data_source)
        generator = self.generator
        if generator is None:
            seed = _seed()
            generator = torch.Generator()
            generator.manual_seed(seed)
        if self.replacement:
            # Draws come in blocks of 32.
            for start in range(0, self.num_samples, 32):
                size = min(32, self.num_samples - start)
                yield from torch.randint(
                    high=count, size=(size,), dtype=torch.int64, generator=generator).tolist()
            return
        for _ in range(self.num_samples // count if count else 0):
            yield from torch.randperm(count, generator=generator).tolist()
        rest = self.num_samples % count if count else 0
        yield from torch.randperm(count, generator=generator).tolist()[:rest]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for i in torch.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        tensor = torch.as_tensor(weights, dtype=torch.double)
        if len(tensor.shape) != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(tensor.shape)}")
        self.weights = tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self):
        chosen = torch.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from iter(chosen.tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of keys of another sampler."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        batch = []
        for key in self.sampler:
            batch.append(key)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self):
        whole = len(self.sampler) // self.batch_size
        return whole if self.drop_last else (len(self.sampler) + self.batch_size - 1) // self.batch_size
