"""Ops that a program defines: gradients by register_autograd, Autograd kernels and composites; fake kernels."""
import gc

import pytest
import taper as torch
from taper import Tensor
from taper.library import Library, custom_op, register_autograd


@pytest.fixture
def scaled_sin():
    @custom_op("gradients::scaled_sin", mutates_args=())
    def scaled_sin(x: Tensor, k: float = 2.0) -> Tensor:
        return torch.sin(x) * k

    yield scaled_sin
    scaled_sin._lib._destroy()


@pytest.fixture
def library():
    library = Library("gradients", "FRAGMENT")
    yield library
    library._destroy()


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.k = inputs[1]


def scaled_cos(ctx, g):
    x, = ctx.saved_tensors
    return g * x.cos() * ctx.k, None


def test_without_a_formula(scaled_sin):
    y = scaled_sin(torch.ones(3, requires_grad=True))
    assert y.requires_grad and type(y.grad_fn).__name__ == "GeneratedBackwardFor_gradients_scaled_sin_defaultBackward"
    with pytest.raises(RuntimeError, match="Trying to backward through gradients.scaled_sin.default but no autograd formula was registered"):
        y.sum().backward()


def test_with_a_formula(scaled_sin):
    scaled_sin.register_autograd(scaled_cos, setup_context=keep)
    x = torch.linspace(0, 1, 4, requires_grad=True)
    scaled_sin(x, 3.0).sum().backward()
    assert torch.equal(x.grad, x.detach().cos() * 3.0)
    assert not scaled_sin(x.detach()).requires_grad
    with torch.no_grad():
        assert not scaled_sin(x).requires_grad


def test_lists_and_keywords():
    @custom_op("gradients::joined", mutates_args=())
    def joined(xs: list[Tensor], *, scale: float = 1.0) -> Tensor:
        return torch.cat(xs) * scale

    def keep_sizes(ctx, inputs, keyword_only_inputs, output):
        ctx.sizes, ctx.scale = [x.shape[0] for x in inputs[0]], keyword_only_inputs["scale"]

    def split(ctx, g):
        assert ctx.needs_input_grad == ([True, False],)
        return [piece * ctx.scale for piece in g.split(ctx.sizes)]

    register_autograd("gradients::joined", split, setup_context=keep_sizes)
    a, b = torch.ones(2, requires_grad=True), torch.ones(3)
    joined([a, b], scale=3.0).sum().backward()
    assert a.grad.tolist() == [3, 3] and b.grad is None
    register_autograd("gradients::joined", lambda ctx, g: g, setup_context=keep_sizes)
    with pytest.raises(RuntimeError, match="Expected the return from backward to be of the same structure as the inputs"):
        joined([a, b]).sum().backward()
    joined._lib._destroy()


def test_ops_that_write_have_no_formula():
    @custom_op("gradients::bump", mutates_args=("x",))
    def bump(x: Tensor) -> None:
        x.add_(1)

    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        bump.register_autograd(lambda ctx: None)
    x = torch.zeros(2)
    before = x._version
    bump(x)
    assert x.tolist() == [1, 1] and x._version > before
    bump._lib._destroy()


def test_results_are_fresh():
    @custom_op("gradients::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x.view(-1)

    with pytest.raises(RuntimeError, match="may not alias any inputs to this custom operator"):
        same(torch.ones(2))
    same._lib._destroy()


def test_kernels_of_a_library(library):
    library.define("through(Tensor x) -> Tensor")
    library.impl("through", lambda x: x.sin(), "CPU")
    x = torch.ones(2, requires_grad=True)
    assert torch.ops.gradients.through(x).grad_fn.name() == "SinBackward0"      # no kernel at autograd: its pieces are recorded
    seen = []

    def at_autograd(x):
        seen.append(x.requires_grad)
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.gradients.through(x)

    library.impl("through", at_autograd, "Autograd")
    assert not torch.ops.gradients.through(x).requires_grad
    torch.ops.gradients.through(x.detach())
    assert seen == [True, False]


def test_composites_open_at_autograd(library):
    library.define("pieces(Tensor x) -> Tensor")
    library.impl("pieces", lambda x: x.sin().exp(), "CompositeImplicitAutograd")
    assert torch.ops.gradients.pieces(torch.ones(2, requires_grad=True)).grad_fn.name() == "ExpBackward0"


def test_fake_kernels(scaled_sin):
    from taper._subclasses.fake_tensor import FakeTensorMode
    from taper.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode():
        with pytest.raises(RuntimeError, match="There was no fake impl registered for <CustomOpDef.gradients::scaled_sin.>"):
            scaled_sin(torch.ones(3))
    scaled_sin.register_fake(lambda x, k=2.0: torch.empty_like(x))
    with FakeTensorMode():
        assert scaled_sin(torch.ones(3)).shape == (3,)
    scaled_sin.register_fake(lambda x, k=2.0: x.new_empty(torch.library.get_ctx().new_dynamic_size()))
    with FakeTensorMode(shape_env=ShapeEnv()):
        assert str(scaled_sin(torch.ones(3)).shape[0]) == "u0"


def test_meta_without_a_kernel(library):
    library.define("plain(Tensor x) -> Tensor")
    library.impl("plain", lambda x: x + 1, "CPU")
    with pytest.raises(NotImplementedError, match="attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel"):
        torch.ops.gradients.plain(torch.empty(2, device="meta"))


def test_custom_op_lives_though_nobody_keeps_what_defined_it():
    def define():
        @torch.library.custom_op("kept::doubled", mutates_args=())
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return x * 2

    define()
    gc.collect()
    torch.library.register_fake("kept::doubled", lambda x: torch.empty_like(x))
    gc.collect()
    assert torch.ops.kept.doubled(torch.ones(2)).tolist() == [2, 2]
    assert torch.ops.kept.doubled.default(torch.ones(2, device="meta")).shape == (2,)
