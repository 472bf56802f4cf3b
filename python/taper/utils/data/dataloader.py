"""DataLoader in one process, and how items become batches."""
import collections.abc
from typing import Generic

from ..._root import torch
from .dataset import IterableDataset, T_co
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


class _DatasetKind:
    Map = 0
    Iterable = 1


class _InfiniteConstantSampler(Sampler):
    """The keys of a stream: it has none."""

    def __iter__(self):
        while True:
            yield None


def get_worker_info():
    """None: there are no workers but the process itself."""
    return None


def default_convert(data):
    """numpy arrays become tensors, containers keep their kind, all else is left alone."""
    if isinstance(data, torch.Tensor):
        return data
    if type(data).__module__ == "numpy" and hasattr(data, "dtype") and data.dtype.kind not in "SUOa":
        return torch.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return type(data)({key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return type(data)([default_convert(value) for value in data])
    return data


def default_collate(batch):
    """A list of items becomes one item with a batch dimension in front."""
    first = batch[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(batch, 0)
    if type(first).__module__ == "numpy" and hasattr(first, "dtype"):
        if first.dtype.kind in "SUOa":
            raise TypeError(
                "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                f"{first.dtype}")
        if getattr(first, "shape", ()) == ():
            return torch.as_tensor(batch)
        return torch.stack([torch.as_tensor(item) for item in batch], 0)
    if isinstance(first, float):
        return torch.tensor(batch, dtype=torch.float64)
    if isinstance(first, int):
        return torch.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, collections.abc.Mapping):
        return type(first)({key: default_collate([item[key] for item in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(part)) for part in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(list(part)) for part in zip(*batch)]
        return parts if isinstance(first, tuple) else type(first)(parts)
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}")


class DataLoader(Generic[T_co]):
    """Iterates over batches of a dataset."""

    def __init__(
        self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
        pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None,
        generator=None, *, prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True
    ):
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if num_workers > 0:
            raise NotImplementedError("DataLoader: worker processes are not there yet; use num_workers=0")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
                "multiprocessing, otherwise set prefetch_factor to None."
            )
        if persistent_workers:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
        self._check_choices(stream, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if stream:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn

    @staticmethod
    def _check_choices(stream, batch_size, shuffle, sampler, batch_sampler, drop_last):
        if stream:
            if shuffle not in (False, None):
                raise ValueError(
                    "DataLoader with IterableDataset: expected unspecified shuffle option, but got "
                    f"shuffle={shuffle}"
                )
            if sampler is not None:
                raise ValueError(
                    "DataLoader with IterableDataset: expected unspecified sampler option, but got "
                    f"sampler={sampler}"
                )
            if batch_sampler is not None:
                raise ValueError(
                    "DataLoader with IterableDataset: expected unspecified batch_sampler option, but got "
                    f"batch_sampler={batch_sampler}"
                )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self):
        return _Iterator(self)

    def __len__(self):
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        count = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class _Iterator:
    """One pass over a loader."""

    def __init__(self, loader):
        self._loader = loader
        self._keys = iter(loader._index_sampler)
        # Workers would be seeded with this number; it is drawn without them too, and later draws depend on that.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._stream = iter(loader.dataset) if loader._dataset_kind == _DatasetKind.Iterable else None
        self._ended = False

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._loader._index_sampler)

    def __next__(self):
        keys = next(self._keys)
        return self._from_stream(keys) if self._stream is not None else self._from_map(keys)

    def _from_map(self, keys):
        loader = self._loader
        if not loader._auto_collation:
            return loader.collate_fn(loader.dataset[keys])
        if callable(getattr(loader.dataset, "__getitems__", None)):
            return loader.collate_fn(loader.dataset.__getitems__(keys))
        return loader.collate_fn([loader.dataset[key] for key in keys])

    def _from_stream(self, keys):
        if self._ended:
            raise StopIteration
        loader = self._loader
        if not loader._auto_collation:
            return loader.collate_fn(next(self._stream))
        items = []
        for _ in keys:
            try:
                items.append(next(self._stream))
            except StopIteration:
                self._ended = True
                break
        if not items or (loader.drop_last and len(items) < len(keys)):
            raise StopIteration
        return loader.collate_fn(items)
