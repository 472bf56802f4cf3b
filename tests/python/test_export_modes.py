"""Regions of forward that switch gradients or autocast: the exported module has the gradients and the types of the module.

With example inputs and calls that require gradients or not, after decompositions, and after save and load."""
import io

import pytest

import taper
from taper import nn
from taper.export import export, export_for_training, load, save
from taper.nn import functional as F


class Region(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.w = nn.Parameter(taper.tensor([1.0, -2.0, 3.0]))
        self.line = nn.Linear(3, 3)
        self.register_buffer("mean", taper.zeros(3))

    def forward(self, x):
        return self.function(self, x)


REGIONS = {}


def region(function):
    REGIONS[function.__name__] = function
    return function


@region
def value_without(m, x):
    with taper.no_grad():
        a = (x * m.w).sin()
    return a * m.w + x


@region
def value_within(m, x):
    a = x * m.w
    with taper.no_grad():
        b = (x * m.w).sin()
        with taper.enable_grad():
            c = b * m.w
        d = c * 2
    return a + b + c + d


@region
def only_result(m, x):
    with taper.no_grad():
        return m.line(x) * m.w


@region
def two_results(m, x):
    with taper.no_grad():
        low = m.line(x)
    return low, low * m.w, m.line(x)


@region
def switched(m, x):
    with taper.set_grad_enabled(False):
        scale = m.w.abs().max()
    with taper.set_grad_enabled(True):
        return m.w / scale + x


@region
def by_decorator(m, x):
    @taper.no_grad()
    def norm(y):
        return y.norm() + m.w.sum()
    return m.line(x) / norm(x)


@region
def by_function(m, x):
    before = taper.is_grad_enabled()
    taper._C._set_grad_enabled(False)
    y = m.w * x
    taper._C._set_grad_enabled(before)
    return y + m.w


@region
def inference(m, x):
    with taper.inference_mode():
        y = m.w * 3
        z = (y + x).sum().item() if False else y + x
    return z.clone() * m.w


@region
def several_of_one(m, x):
    with taper.no_grad():
        low, high = (m.w * x).chunk(2, 1)
        values, places = (m.w * x).sort()
    return low * m.w[0], high.sum() * m.w, values * m.w, places * m.w


@region
def buffer_written(m, x):
    with taper.no_grad():
        m.mean.mul_(0.9).add_(m.line(x).mean(0) * 0.1)
    return (m.line(x) - m.mean) * m.w


@region
def detached_weight(m, x):
    return x * m.w.detach() + m.w


@region
def nested_modes(m, x):
    with taper.no_grad():
        with taper.enable_grad():
            with taper.no_grad():
                a = m.w * 5
            b = m.w * a
        c = b * m.w
    return b + c


@region
def inside_itself(m, x):
    with taper.no_grad():
        y = taper.empty(3)
        y.copy_(m.w * 2)
        y[0] = 7
    return y * m.w


@region
def view_without(m, x):
    with taper.no_grad():
        first = m.line(x)[..., :1]
    return first * m.w


def gradients(module, x, parameters):
    for p in parameters:
        p.grad = None
    x.grad = None
    leaves = [leaf for leaf in taper.utils._pytree.tree_leaves(module(x)) if leaf.is_floating_point()]
    modes = [leaf.requires_grad for leaf in leaves]
    taken = [leaf for leaf in leaves if leaf.requires_grad]
    if taken:
        sum((leaf * (i + 1)).sum() for i, leaf in enumerate(taken)).backward()
    return modes, [leaf.detach().clone() for leaf in leaves], [p.grad for p in parameters], x.grad


def alike(got, want):
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(alike(g, w) for g, w in zip(got, want))
    if isinstance(want, taper.Tensor) and isinstance(got, taper.Tensor):
        return taper.allclose(got, want)
    zero = got is None and isinstance(want, taper.Tensor) and not want.any()        # no way, and a way that gives nothing, are alike
    return got == want or zero


def reloaded(program):
    held = io.BytesIO()
    save(program, held)
    held.seek(0)
    return load(held)


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("name", REGIONS)
def test_gradients_of_regions(name, wanted):
    taper.manual_seed(0)
    x = taper.tensor([[0.5, 1.5, -1.0]])
    model = Region(REGIONS[name])
    program = export(model, (x,))
    assert taper.is_grad_enabled() and not taper.is_inference_mode_enabled()
    want = gradients(model, x.clone().requires_grad_(wanted), list(model.parameters()))
    for made in (program, reloaded(program), program.run_decompositions({}), export_for_training(model, (x,))):
        with taper.no_grad():
            made.module()
        state = {n: p for n, p in made.state_dict.items()}
        if "mean" in state:
            state["mean"].zero_()
        module = made.module()
        parameters = [state[n] for n, _ in model.named_parameters()]
        got = gradients(module, x.clone().requires_grad_(wanted), parameters)
        assert got[0] == want[0] and alike(got, want), (name, got, want)


def test_ambient_mode_is_no_region():
    model = Region(REGIONS["value_without"])
    with taper.no_grad():
        program = export(model, (taper.ones(1, 3),))
    assert "detach" not in program.graph_module.code
    with taper.no_grad(), pytest.raises(NotImplementedError, match="turns them on"):
        export(Region(REGIONS["value_within"]), (taper.ones(1, 3),))
    assert taper.is_grad_enabled()


def test_write_without_gradients_to_what_has_them_is_refused():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(taper.ones(3))

        def forward(self, x):
            z = x * self.w
            with taper.no_grad():
                z.mul_(2)
            return z

    for how in (export, export_for_training):
        with pytest.raises(NotImplementedError, match="gradients"):
            how(Scaled(), (taper.ones(3),))
