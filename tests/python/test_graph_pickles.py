"""Graphs that earlier builds pickled (tests/data) load and run: what they give was pickled with them."""
import math
import pathlib
import pickle

import pytest
import taper as torch
from taper import fx

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
FILES = sorted(path.name for path in DATA.glob("graph_*.pkl"))


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and (torch.equal(a, b) or torch.allclose(a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b)))


def load(name):
    kept = pickle.loads((DATA / name).read_bytes())
    graph = kept["graph"]
    return graph, fx.GraphModule({}, graph) if isinstance(graph, fx.Graph) else graph, kept["inputs"], kept["result"]


def test_there_are_six():
    assert len(FILES) >= 6


@pytest.mark.parametrize("name", FILES)
def test_loads_and_runs(name):
    _, module, inputs, result = load(name)
    module.graph.lint()
    with torch.no_grad():
        assert same(module(*inputs), result)
        assert same(fx.Interpreter(module).run(*inputs), result) or "*rest" in module.code
        again = pickle.loads(pickle.dumps(module))
        assert again.code == module.code and same(again(*inputs), result)


def test_a_symbolic_graph_runs_at_other_sizes():
    _, module, _, _ = load("graph_symbolic.pkl")
    assert module(torch.ones(1, 4), torch.ones(2, 4)).tolist() == [16.0, 16.0, 16.0]


def test_parameters_train_again():
    _, module, inputs, _ = load("graph_mlp.pkl")
    module(*inputs).sum().backward()
    assert all(p.grad is not None for p in module.parameters()) and len(list(module.parameters())) == 5


def test_a_graph_keeps_what_is_known_of_its_nodes():
    graph, _, _, _ = load("graph_described.pkl")
    relu = list(graph.nodes)[1]
    assert relu.name == "relu" and relu.meta["note"] == {"who": ["relu"]}
    assert relu.stack_trace == 'File "model.py", line 1, in forward\n    return torch.relu(x) * 2'
