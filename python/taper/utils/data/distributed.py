"""A sampler for one of several processes that share a dataset."""
from ... import distributed
from ..._root import torch
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every `num_replicas`-th key from `rank` on, of an order that all processes make alike from the seed and the epoch. All get as many:
    keys from the beginning are taken again, or with `drop_last` those at the end left out."""

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.num_samples = len(dataset) // num_replicas if drop_last else -(-len(dataset) // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        count = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(count, generator=generator).tolist()
        else:
            order = range(count)
        return iter([order[i % count] for i in range(self.rank, self.total_size, self.num_replicas)])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Another epoch, another order."""
        self.epoch = epoch
