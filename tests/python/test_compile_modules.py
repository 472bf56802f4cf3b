"""Compiled code and modules of torch.nn: what they were made with, patched methods and children are looked at by every call."""
import pytest

import taper as torch
from taper import nn
import taper._dynamo as dynamo

BACKENDS = ["eager", "aot_eager", "inductor"]
F = nn.functional

SETTINGS = [
    (lambda: nn.LeakyReLU(0.1), "negative_slope", 5.0), (lambda: nn.ELU(), "alpha", 3.0), (lambda: nn.CELU(), "alpha", 3.0),
    (lambda: nn.LayerNorm(4), "eps", 1.0), (lambda: nn.GroupNorm(2, 4), "eps", 1.0), (lambda: nn.RMSNorm(4), "eps", 1.0),
    (lambda: nn.BatchNorm1d(4).eval(), "eps", 1.0), (lambda: nn.BatchNorm1d(4), "momentum", 0.9), (lambda: nn.Softmax(0), "dim", 1),
    (lambda: nn.GELU(), "approximate", "tanh"), (lambda: nn.Softplus(), "beta", 4.0), (lambda: nn.Hardtanh(), "max_val", 0.5),
    (lambda: nn.Flatten(), "start_dim", 0), (lambda: nn.Threshold(0.1, 7.0), "value", -3.0), (lambda: nn.GLU(), "dim", 0),
    (lambda: nn.Hardshrink(), "lambd", 1.5), (lambda: nn.Dropout(0.1), "p", 1.0), (lambda: nn.Linear(4, 4), "training", False),
]


class Inner(nn.Module):
    def __init__(self, child):
        super().__init__()
        self.child = child

    def forward(self, x):
        return self.child(x)


def check(program, change, model, backend):
    """Results and state of three calls, before and after a change, beside those of a model that is not compiled."""
    dynamo.reset()
    x = torch.linspace(-2, 2, 16).reshape(4, 4)
    made, plain = model(), model()
    plain.load_state_dict(made.state_dict())
    compiled = torch.compile(program(made), backend=backend)
    for step in range(3):
        torch.manual_seed(step)
        got = compiled(x)
        torch.manual_seed(step)
        assert torch.equal(got, program(plain)(x)), step
        assert all(torch.equal(a, b) for a, b in zip(made.state_dict().values(), plain.state_dict().values()))
        if step == 0:
            change(made), change(plain)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make, name, value", SETTINGS, ids=[f"{make().__class__.__name__}.{name}" for make, name, _ in SETTINGS])
def test_settings(make, name, value, backend):
    check(lambda m: m, lambda m: setattr(m[0], name, value), lambda: nn.Sequential(make()), backend)
    check(lambda m: lambda x: m(x) + 1, lambda m: setattr(m.child, name, value), lambda: Inner(make()), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forward_of_the_instance(backend):
    def patch(model):
        forward = model[0].forward
        model[0].forward = lambda x: forward(x) * 3

    check(lambda m: m, patch, lambda: nn.Sequential(nn.Linear(4, 4)), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", [
    lambda m: setattr(m, "linear1", m.linear2), lambda m: setattr(m.norm1, "eps", 1.0), lambda m: setattr(m.dropout, "p", 1.0),
    lambda m: setattr(m.self_attn.out_proj, "bias", None), lambda m: m.linear2.register_forward_hook(lambda m, x, y: y * 2), lambda m: m.eval(),
], ids=["child", "setting of a child", "dropout", "tensor of a grandchild", "hook of a child", "mode"])
def test_children_of_a_layer(change, backend):
    check(lambda m: m, change, lambda: nn.TransformerEncoderLayer(4, 2, 4, dropout=0.0), backend)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Identity()

    def __call__(self, x):
        return super().__call__(x) * 2

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_modules_with_a_call_of_their_own(backend):
    dynamo.reset()
    assert torch.compile(Twice(), backend=backend)(torch.ones(1)).item() == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_facts_of_tensors(backend):
    dynamo.reset()
    x = torch.arange(9.0)
    offset = torch.compile(lambda t: t.storage_offset(), backend=backend)
    assert [offset(x[i:i + 2]) for i in (0, 1, 3)] == [0, 1, 3]
    made = torch.compile(lambda t: torch.ones(2, requires_grad=True) * t, backend=backend)(torch.ones(2))
    assert made.requires_grad
    with pytest.raises(dynamo.exc.Unsupported, match="requires_grad=True"):
        torch.compile(lambda t: torch.ones(2, requires_grad=True) * t, backend=backend, fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_mode_that_is_left_on(backend):
    dynamo.reset()

    def program(x):
        torch.set_grad_enabled(False)
        return x * 2

    compiled = torch.compile(program, backend=backend)
    for _ in range(3):
        with torch.enable_grad():
            assert not compiled(torch.ones(2, requires_grad=True)).requires_grad
            assert not torch.is_grad_enabled()

    @torch.no_grad()
    def outside():
        with torch.enable_grad():
            return x * 4

    x = torch.ones(2, requires_grad=True)
    compiled = torch.compile(outside, backend=backend)
    assert all(compiled().requires_grad for _ in range(3))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("space, name", [(torch, "sin"), (F, "relu"), (torch.linalg, "norm"), (torch, "where")])
def test_functions_of_the_package_that_are_exchanged(monkeypatch, space, name, backend):
    dynamo.reset()
    x = torch.linspace(-1, 1, 4)
    programs = {"sin": lambda x: torch.sin(x), "relu": lambda x: F.relu(x), "norm": lambda x: torch.linalg.norm(x), "where": lambda x: torch.where(x > 0, x, -x)}
    compiled = torch.compile(programs[name], backend=backend)
    assert torch.equal(compiled(x), programs[name](x))
    monkeypatch.setattr(space, name, lambda x, *rest: x * 7)
    assert torch.equal(compiled(x), programs[name](x))
    monkeypatch.undo()
    assert torch.equal(compiled(x), programs[name](x))
