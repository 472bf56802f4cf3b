"""Modules read from an archive: what nn.Module offers works on them, or is refused before it has an effect."""
import copy
import io

import pytest
import taper as torch
from taper import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        return self.b(self.a(x)) + self.shift


@pytest.fixture
def loaded():
    traced = torch.jit.trace(Net().eval(), torch.ones(3, 2), check_trace=False)
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    return torch.jit.load(file)


def test_names(loaded):
    names = ["a.weight", "a.bias", "b.0.weight", "b.0.bias"]
    buffers = ["shift", "b.0.running_mean", "b.0.running_var", "b.0.num_batches_tracked"]
    assert [name for name, _ in loaded.named_parameters()] == names and len(list(loaded.parameters())) == 4
    assert sorted(name for name, _ in loaded.named_buffers()) == sorted(buffers) and len(list(loaded.buffers())) == 4
    assert [name for name, _ in loaded.named_modules()] == ["", "a", "b", "b.0", "b.1"] and len(list(loaded.modules())) == 5
    assert [name for name, _ in loaded.named_children()] == ["a", "b"] and len(list(loaded.children())) == 2
    assert sorted(loaded.state_dict()) == sorted(names + buffers)


def test_modes_and_types(loaded):
    assert not loaded.eval().training and not loaded.a.training
    assert loaded.train().training and loaded.b.training
    assert loaded.eval().to(torch.float64) is loaded
    assert loaded(torch.ones(1, 2, dtype=torch.float64)).dtype is torch.float64
    assert next(loaded.float().parameters()).dtype is torch.float32
    assert loaded.cpu() is loaded and loaded.zero_grad() is None and loaded.apply(lambda module: None) is loaded


def test_state_goes_in_and_out(loaded):
    state = {name: torch.zeros_like(value) for name, value in loaded.state_dict().items()}
    loaded.load_state_dict(state)
    assert not loaded.a.weight.any() and not loaded.shift.any()
    loaded.a.bias = nn.Parameter(torch.full((2,), 5.0))
    loaded.load_state_dict({**state, "a.bias": torch.full((2,), 5.0), "b.0.running_var": torch.ones(2), "b.0.weight": torch.ones(2)})
    assert torch.allclose(loaded.eval()(torch.ones(1, 2)), torch.full((1, 2), 5.0), atol=1e-3)
    twin = copy.deepcopy(loaded)
    assert twin.a.bias.tolist() == [5.0, 5.0] and twin.a.bias is not loaded.a.bias


@pytest.mark.parametrize("change", [
    lambda m: setattr(m, "more", nn.Parameter(torch.ones(1))), lambda m: m.register_parameter("more", nn.Parameter(torch.ones(1))),
    lambda m: m.register_buffer("more", torch.ones(1)), lambda m: m.add_module("more", nn.Linear(1, 1)), lambda m: setattr(m, "more", nn.Linear(1, 1)),
    lambda m: setattr(m, "a", nn.Linear(2, 2)), lambda m: delattr(m, "shift"),
])
def test_what_its_graphs_do_not_know_is_refused(loaded, change):
    before = sorted(loaded.state_dict())
    with pytest.raises(RuntimeError):
        change(loaded)
    assert sorted(loaded.state_dict()) == before and not hasattr(loaded, "more")
