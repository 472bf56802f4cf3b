"""cc and onnx.export run a model to record it: afterwards, and when they refuse or the model raises, it is what it was. So is PyTorch's model
after torch.export and the exporter built on it: calls made to trace leave parameters, buffers, attributes and the generator alone."""
import collections
import copy
import io
import itertools
import types

import pytest

import taper as torch
from taper import nn

TABLE, SEEN = torch.zeros(2), []


class Counting(nn.Module):
    """Writes to its buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.n.add_(1)
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        return x + self.n


class Remembering(nn.Module):
    """Keeps things in attributes of all kinds."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.calls, self.log, self.cache, self.names = 0, [torch.ones(2)], {"steps": [1]}, {"a"}
        self.ring, self.order, self.raw = collections.deque([1, 2], maxlen=2), collections.OrderedDict(a=1, b=2), bytearray(b"ab")
        self.counts, self.pair, self.note = collections.Counter("aab"), (torch.zeros(3), [0]), types.SimpleNamespace(last=None, kept=torch.zeros(3))
        self.ids, self.plain = itertools.count(5), torch.zeros(3)

    def forward(self, x):
        self.calls += 1
        self.log.append(x)
        self.log[0].add_(5)
        self.cache["steps"].append(2)
        self.cache["x"] = x
        self.names.add("b")
        self.ring.append(3)
        self.order.move_to_end("a")
        self.raw += b"c"
        self.counts["a"] += 1
        self.pair[0].add_(1)
        self.pair[1].append(1)
        self.note.last = x
        self.note.kept.mul_(0).add_(2)
        next(self.ids)
        self.plain.add_(1)
        self.fresh = x * 2
        del self.order["b"]
        return self.layer(x)


class Turning(nn.Module):
    """Changes modes, parameters and modules."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.layer = nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3)
        self.tied = self.layer.weight

    def forward(self, x):
        self.eval()
        with torch.no_grad():
            self.layer.weight.mul_(2)
        self.layer.bias = nn.Parameter(torch.zeros(3))
        self.extra = nn.Linear(3, 3)
        return self.layer(self.norm(x))


class Shared(nn.Module):
    """Two buffers of one memory, and a list of the module's own tensors."""

    def __init__(self):
        super().__init__()
        flat = torch.zeros(6)
        self.register_buffer("left", flat[:3])
        self.register_buffer("right", flat[2:5])
        self.list = [self.left, self]

    def forward(self, x):
        self.left.add_(1)
        self.list[0].mul_(2)
        return x + self.right


class Failing(Remembering):
    def forward(self, x):
        super().forward(x)
        torch.rand(3)
        raise ValueError("not today")


class Sorting(Counting):
    def forward(self, x):
        return super().forward(x).sort()


class Slotted:
    __slots__ = ("kept", "steps")

    def __init__(self):
        self.kept, self.steps = torch.zeros(3), []


class Owning(nn.Module):
    """State in an object of its own, and one with slots."""

    class Cache:
        def __init__(self):
            self.keys, self.length = [torch.zeros(3)], 0

    def __init__(self):
        super().__init__()
        self.held, self.slotted = Owning.Cache(), Slotted()

    def forward(self, x):
        self.held.keys[0].copy_(x[0])
        self.held.keys.append(x)
        self.held.length += 1
        self.slotted.kept.add_(1)
        self.slotted.steps.append(x)
        return x + self.held.keys[0]


MODELS = {
    "BatchNorm": lambda: nn.BatchNorm1d(3), "Sequential": lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)),
    "InstanceNorm": lambda: nn.Sequential(nn.Unflatten(0, (1, 4)), nn.InstanceNorm1d(4, track_running_stats=True)), "Dropout": lambda: nn.Dropout(0.5),
    "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), "lazy": lambda: nn.LazyLinear(2), "RNN": lambda: nn.GRU(3, 2),
    "eval": lambda: nn.BatchNorm1d(3).eval(), "RReLU": lambda: nn.RReLU(),
    **{kind.__name__: kind for kind in (Counting, Remembering, Turning, Shared, Failing, Sorting, Owning)},
}
WAYS = {
    "cc": lambda model, x: torch.cc(model, args=(x,)),
    "cc of a function": lambda model, x: torch.cc(lambda y: model(y), args=(x,)),
    "onnx.export": lambda model, x: torch.onnx.export(model, (x,), io.BytesIO()),
    "onnx.dynamo_export": lambda model, x: torch.onnx.dynamo_export(model, x),
}


def described(value, seen):
    """What a value is, as plain data: identities of what keeps its own, contents, elements and versions of tensors."""
    if isinstance(value, torch.Tensor):
        lazy = isinstance(value, nn.parameter.UninitializedParameter)
        return ("tensor", id(value), type(value), value.requires_grad, value._version, None if lazy else value.tolist(), value.grad is None)
    if isinstance(value, (type(None), bool, int, float, str, bytes, type, types.FunctionType)):
        return value
    if id(value) in seen:
        return ("again", id(value))
    seen.add(id(value))
    if isinstance(value, itertools.count):
        return repr(value)
    if isinstance(value, dict):
        return (type(value), id(value), [(key, described(item, seen)) for key, item in value.items()])
    if isinstance(value, (set, bytearray)):
        return (type(value), id(value), sorted(value))
    if isinstance(value, (list, tuple, collections.deque)):
        return (type(value), id(value), [described(item, seen) for item in value])
    if isinstance(value, Slotted):
        return (id(value), described(value.kept, seen), described(value.steps, seen))
    return (type(value), id(value), described(vars(value), seen) if hasattr(value, "__dict__") else None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_what_it_was(name, way):
    torch.manual_seed(3)
    model, x = MODELS[name](), torch.randn(4, 3)
    before, random, given = described(model, set()), torch.get_rng_state(), x.clone()
    try:
        WAYS[way](model, x)
    except (NotImplementedError, ValueError, torch.onnx.OnnxExporterError) as error:
        assert not isinstance(error, ValueError) or "not today" in str(error)
    assert described(model, set()) == before
    assert torch.equal(torch.get_rng_state(), random) and torch.equal(x, given) and x._version == 0


def test_a_pending_backward_still_runs():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), torch.randn(4, 3)
    loss = model(x).sum()
    for way in WAYS.values():
        with pytest.raises((NotImplementedError, torch.onnx.OnnxExporterError)):
            way(model, x)
    loss.backward()
    assert model[0].weight.grad is not None and int(model[1].num_batches_tracked) == 1


def test_functions_and_what_they_close_over():
    own, steps = torch.zeros(2), []

    def function(x, seen=SEEN):
        seen.append(x)
        steps.append(1)
        own.add_(1)
        TABLE.add_(1)
        return x + 1

    function.calls = [0]
    with pytest.raises(NotImplementedError, match="writes to"):
        torch.cc(function, args=(torch.ones(2),))
    assert own.tolist() == TABLE.tolist() == [0, 0] and own._version == TABLE._version == 0 and steps == SEEN == [] and function.calls == [0]


class Averaging(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        return x - self.mean


class Writing(Averaging):
    def forward(self, x):
        self.mean[1:] = x[0, 1:]
        return x - self.mean


class Looking(Averaging):
    def forward(self, x):
        self.seen = x - self.mean
        return self.seen * 2


@pytest.mark.parametrize("way", ["cc", "onnx.export"])
def test_state_that_lasts_is_refused_what_is_only_kept_is_not(way):
    """An attribute that nothing reads is no state of the program."""
    x = torch.randn(4, 3)
    for model, words in ((Averaging(), "gives 'mean' another tensor"), (Writing(), "writes to 'mean'")):
        with pytest.raises(NotImplementedError, match=words):
            WAYS[way](model, x)
        assert model.mean.tolist() == [0, 0, 0] and model.mean._version == 0
    model = Looking()
    model(x)
    kept = model.seen
    assert WAYS[way](model, x) and model.seen is kept


def test_weights_are_those_of_the_model():
    """The text has the numbers the model has, under its names, tied ones once; nothing is traced twice over."""
    model = Remembering()
    text = torch.cc(copy.deepcopy(model).layer, args=(torch.ones(1, 3),))
    assert "w_weight[9]" in text and "w_bias[3]" in text and f"{float(model.layer.bias[0]):.9g}f" in text
    assert torch.cc(model.layer, args=(torch.ones(1, 3),)) == text
