"""FakeTensorMode as PyTorch has it: whose a fake tensor is, what it may not tell, devices, aliases, copies; meta tensors.

Classes and words are what PyTorch 2.13 raises for the same calls."""
import copy
import gc
import weakref

import pytest
import taper as torch
from taper._subclasses.fake_tensor import (
    DataDependentOutputException, DynamicOutputShapeException, FakeCopyMode, FakeTensor, FakeTensorDeviceMismatchError, FakeTensorMode,
    UnsupportedOperatorException, is_fake, unset_fake_temporarily)
from taper.fx.experimental.proxy_tensor import make_fx
from taper.fx.experimental.symbolic_shapes import DimDynamic, GuardOnDataDependentSymNode, ShapeEnv, StatelessSymbolicContext

aten = torch.ops.aten


def test_a_fake_belongs_to_its_mode_and_modes_do_not_mix():
    one, other = FakeTensorMode(), FakeTensorMode()
    a, b = one.from_tensor(torch.ones(3)), other.from_tensor(torch.ones(3))
    assert a.fake_mode is one and (a + 1).fake_mode is one and a[1:].fake_mode is one and is_fake(a) and not is_fake(torch.ones(1))
    with one:
        assert torch.ones(2).fake_mode is one
    with pytest.raises(AssertionError, match="Mixing fake modes NYI"):
        a + b
    assert other.from_tensor(a).fake_mode is other
    assert not hasattr(torch.ones(1), "fake_mode")


def test_tensors_keep_their_mode_and_nothing_else_does():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    real, seen = torch.ones(3), weakref.ref(mode)
    fake = mode.from_tensor(real)
    del mode
    gc.collect()
    assert fake.fake_mode is seen()
    del fake
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("ask, error, op", [
    (lambda a: a[0].item(), DataDependentOutputException, aten._local_scalar_dense.default),
    (lambda a: bool(a[0] > 0), DataDependentOutputException, aten._local_scalar_dense.default),
    (lambda a: a.tolist(), DataDependentOutputException, aten._local_scalar_dense.default),
    (lambda a: torch.equal(a, a), DataDependentOutputException, aten.equal.default),
    (lambda a: a.nonzero(), DynamicOutputShapeException, aten.nonzero.default),
    (lambda a: torch.unique(a), DynamicOutputShapeException, aten._unique2.default),
    (lambda a: torch.masked_select(a, a > 0), DynamicOutputShapeException, aten.masked_select.default),
])
def test_what_depends_on_data_is_refused_without_a_shape_env(ask, error, op):
    with pytest.raises(error) as caught:
        ask(FakeTensorMode().from_tensor(torch.ones(3)))
    assert caught.value.func is op


def test_what_depends_on_data_is_a_symbol_with_one():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(torch.ones(3, 4), static_shapes=True)
    assert str(x.nonzero().shape) in ("taper.Size([u0, 2])", "torch.Size([u0, 2])")
    assert str(x[x > 0].shape[0]) == "u1" and mode.shape_env.size_like == {"u0", "u1"}
    assert str(x[0, 0].item()) == "zuf0" and str(x[0, 0].long().item()) == "u2" and str((x[0, 0] > 0).item()) == "Eq(u3, 1)"
    with pytest.raises(GuardOnDataDependentSymNode, match=r"Could not guard on data-dependent expression Eq\(u4, 1\)"):
        bool(x[0, 0] > 0)
    assert [type(n) for n in x[0].long().tolist()] == [torch.SymInt] * 4


def test_real_tensors_are_for_modes_that_allow_them():
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'"):
        FakeTensorMode().from_tensor(torch.ones(3)) + torch.ones(3)
    assert is_fake(FakeTensorMode(allow_non_fake_inputs=True).from_tensor(torch.ones(3)) + torch.ones(3))


def test_devices_that_are_not_here():
    with FakeTensorMode():
        g = torch.ones(3, device="cuda")
        assert repr(g) == "FakeTensor(..., device='cuda:0', size=(3,))" and g.fake_device == torch.device("cuda:0") and g.is_cuda
        assert (g + 1).device == g.new_ones(2).device == (g + torch.tensor(1.0)).device == g.device and g.cpu().device.type == "cpu"
        for mixed in (lambda: g + torch.ones(3), lambda: torch.cat([g, torch.ones(2)])):
            with pytest.raises(FakeTensorDeviceMismatchError, match="Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"):
                mixed()
        with pytest.raises(FakeTensorDeviceMismatchError, match="cuda:1 and cuda:0"):
            torch.ones(3, device="cuda:1") + g
        g.fake_device = torch.device("xpu:0")
        assert (g + 1).device == torch.device("xpu:0")


def test_aliases_stay_aliases():
    mode, base = FakeTensorMode(), torch.ones(4, 4)
    second = base[1]
    row, whole = mode.from_tensor(second), mode.from_tensor(base)
    assert row.untyped_storage()._cdata == whole.untyped_storage()._cdata and row.storage_offset() == 4
    assert mode.from_tensor(base) is whole and mode.from_tensor(torch.ones(4, 4)).untyped_storage()._cdata != whole.untyped_storage()._cdata


def test_parameters_copies_and_leaving_for_a_while():
    mode = FakeTensorMode()
    weight = mode.from_tensor(torch.nn.Parameter(torch.ones(2)))
    assert isinstance(weight, torch.nn.Parameter) and isinstance(weight, FakeTensor) and weight.requires_grad
    assert is_fake(copy.deepcopy(weight.detach())) and copy.deepcopy(weight.detach()).fake_mode is mode
    with FakeCopyMode(mode):
        assert is_fake(copy.deepcopy(torch.nn.Linear(2, 2)).weight)
    with mode:
        with unset_fake_temporarily() as left:
            assert left is mode and not is_fake(torch.ones(2))
        assert is_fake(torch.ones(2))
    with unset_fake_temporarily() as left:
        assert left is None


def test_ops_without_a_rule_are_named():
    library = torch.library.Library("fakeless", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x + 1, "CPU")
    with pytest.raises(UnsupportedOperatorException) as caught:
        torch.ops.fakeless.f(FakeTensorMode().from_tensor(torch.ones(2)))
    assert caught.value.func is torch.ops.fakeless.f.default


def test_how_each_size_is_made():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    ways = [DimDynamic.DYNAMIC, DimDynamic.DUCK, DimDynamic.STATIC, DimDynamic.UNBACKED, DimDynamic.DUCK]
    x = mode.from_tensor(torch.ones(5, 5, 5, 5, 5), source="x", symbolic_context=StatelessSymbolicContext(ways))
    assert [str(size) for size in x.shape] == ["s0", "s1", "5", "u0", "s1"]
    assert mode.shape_env.var_to_sources == {"s0": ["x.size()[0]"], "s1": ["x.size()[1]", "x.size()[4]"]}


def test_numbers_are_nodes_of_a_graph():
    def f(x, y):
        n = x.item()
        torch._check(n <= y.shape[0])
        torch._check(n >= 2)
        return y[:n] * n
    made = make_fx(f, tracing_mode="symbolic")(torch.tensor(3), torch.ones(5))
    assert [node.name for node in made.graph.nodes] == ["x_1", "y_1", "_local_scalar_dense", "slice_1", "mul", "output"]
    assert torch.equal(made(torch.tensor(4), torch.ones(7)), torch.full((4,), 4.0))
    made = make_fx(lambda x: torch.zeros(x.nonzero().shape[0]), tracing_mode="fake")(torch.tensor([0, 1, 1]))
    assert made(torch.tensor([1, 1, 1, 0])).shape == (3,)


def test_meta_tensors_have_nothing_to_copy():
    x = torch.ones(2, 3).to("meta")
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))" and torch.equal(torch.zeros_like(x, device="cpu"), torch.zeros(2, 3))
    for copied in (lambda: x.cpu(), lambda: torch.zeros(2, 3).copy_(x), lambda: x.tolist()):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            copied()
    with pytest.raises(RuntimeError, match="Tensor on device cpu is not on the expected device meta!"):
        x + torch.ones(2, 3)
    assert (x + torch.tensor(1.0)).is_meta and torch.empty(2, 3, device="meta").copy_(torch.ones(2, 3)).is_meta


def test_a_mode_remembers_the_fakes_of_the_living_only():
    mode = FakeTensorMode()
    kept = [(real, mode.from_tensor(real)) for real in [torch.rand(2) for _ in range(100)]]
    for i in range(1000):
        real = torch.rand(i % 7 + 1)
        assert mode.from_tensor(real).shape == real.shape
    assert all(mode.from_tensor(real) is fake for real, fake in kept)
    base = torch.rand(4)
    fake, part = mode.from_tensor(base), mode.from_tensor(base[1:])
    assert part.untyped_storage()._cdata == fake.untyped_storage()._cdata


def test_numbers_in_literals_and_changed_literals_are_asked_for():
    with FakeTensorMode():
        with pytest.raises(DataDependentOutputException):
            torch.tensor([torch.ones(())])
        x = torch.tensor([1, 2])
        x.resize_(3)
        with pytest.raises(DataDependentOutputException):
            x.tolist()
        y = torch.tensor(3)
        y[None].add_(torch.ones(1, dtype=torch.int64))
        with pytest.raises(DataDependentOutputException):
            y.item()


def test_copies_and_indices_cross_devices():
    with FakeTensorMode():
        x = torch.ones(3, 3, device="cuda")
        assert str(x[torch.tensor([0, 1])].device) == "cuda:0" and str(x.copy_(torch.ones(3, 3)).device) == "cuda:0"
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            x + torch.ones(3, 3)
