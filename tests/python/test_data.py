"""utils.data: which items come in which batch. Expected values were observed on PyTorch 2.13."""
from collections import namedtuple

import pytest

import taper as torch

data = torch.utils.data


def firsts(loader):
    return [batch[0].tolist() for batch in loader]


def ten():
    return data.TensorDataset(torch.arange(10), torch.arange(10.0) * 2)


def test_order_and_draws():
    torch.manual_seed(0)
    assert firsts(data.DataLoader(ten(), 3, shuffle=True)) == [[6, 7, 1], [4, 2, 0], [9, 8, 3], [5]]
    assert torch.rand(1).item() == 0.30742281675338745
    torch.manual_seed(0)
    assert firsts(data.DataLoader(ten(), 3)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert torch.rand(1).item() == 0.08847743272781372


def test_order_by_own_generator():
    generator = torch.Generator()
    generator.manual_seed(3)
    assert firsts(data.DataLoader(ten(), 4, shuffle=True, generator=generator)) == [[7, 4, 2, 9], [1, 5, 0, 8], [6, 3]]


def test_random_split():
    torch.manual_seed(0)
    assert [list(part.indices) for part in data.random_split(ten(), [3, 7])] == [[4, 1, 7], [5, 3, 9, 0, 8, 6, 2]]
    assert [len(part) for part in data.random_split(range(10), [0.5, 0.25, 0.25])] == [6, 2, 2]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        data.random_split(range(10), [3, 3])


def test_samplers():
    torch.manual_seed(0)
    assert list(data.RandomSampler(range(6))) == [0, 1, 2, 3, 5, 4]
    assert list(data.RandomSampler(range(6), replacement=True, num_samples=40))[:8] == [0, 3, 3, 2, 3, 3, 3, 1]
    assert list(data.RandomSampler(range(4), num_samples=10)) == [3, 2, 0, 1, 1, 2, 0, 3, 0, 3]
    assert list(data.SubsetRandomSampler([5, 6, 7])) == [6, 7, 5]
    assert list(data.WeightedRandomSampler([0.1, 0.2, 0.7], 5)) == [2, 2, 1, 2, 2]
    assert list(data.BatchSampler(data.SequentialSampler(range(7)), 3, True)) == [[0, 1, 2], [3, 4, 5]]


def test_distributed_sampler():
    def taken(**given):
        sampler = data.DistributedSampler(list(range(11)), **given)
        assert len(list(sampler)) == len(sampler)
        return list(sampler)

    assert taken(num_replicas=3, rank=0) == [10, 3, 2, 7] and taken(num_replicas=3, rank=2) == [4, 8, 9, 10]
    assert taken(num_replicas=3, rank=1, drop_last=True) == [0, 5, 1]
    assert taken(num_replicas=4, rank=3, shuffle=False) == [3, 7, 0] and taken(num_replicas=30, rank=29, shuffle=False) == [7]
    sampler = data.DistributedSampler(list(range(11)), num_replicas=3, rank=0)
    sampler.set_epoch(2)
    assert list(sampler) == [3, 0, 5, 6]
    with pytest.raises(ValueError, match=r"^Invalid rank 2, rank should be in the interval \[0, 1\]$"):
        taken(num_replicas=2, rank=2)
    with pytest.raises(ValueError, match="^Default process group has not been initialized"):
        taken()


def test_lengths():
    assert len(data.DataLoader(ten(), 3)) == 4
    assert len(data.DataLoader(ten(), 3, drop_last=True)) == 3


def test_collate():
    assert data.default_collate([1, 2]).tolist() == [1, 2]
    assert data.default_collate([1.0, 2.0]).dtype == torch.float64
    assert data.default_collate(["a", "b"]) == ["a", "b"]
    item = data.default_collate([{"a": 1, "b": (1, 2)}, {"a": 2, "b": (3, 4)}])
    assert item["a"].tolist() == [1, 2] and [part.tolist() for part in item["b"]] == [[1, 3], [2, 4]]
    point = namedtuple("point", "x y")
    assert data.default_collate([point(1, 2), point(3, 4)]).y.tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([[1], [1, 2]])


def test_streams():
    class Five(data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [batch.tolist() for batch in data.DataLoader(Five(), 2)] == [[0, 1], [2, 3], [4]]
    assert [batch.tolist() for batch in data.DataLoader(Five(), 2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(data.DataLoader(Five(), None)) == [0, 1, 2, 3, 4]
    assert list(Five() + Five()) == [0, 1, 2, 3, 4] * 2


def test_datasets():
    joined = data.ConcatDataset([range(3), range(10, 12)])
    assert len(joined) == 5 and joined[4] == 11 and joined[-1] == 11
    assert data.Subset(range(10), [3, 5])[1] == 5
    assert data.StackDataset(range(3), range(3, 6))[1] == (1, 4)
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(torch.ones(2), torch.ones(3))


@pytest.mark.parametrize("options, message", [
    ({"shuffle": True, "sampler": [1]}, "sampler option is mutually exclusive with shuffle"),
    ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
])
def test_loader_errors(options, message):
    with pytest.raises(ValueError) as caught:
        data.DataLoader(ten(), **options)
    assert str(caught.value) == message
