"""backward, grad, Function, hooks and modes seen from Python."""
import pytest
import taper as torch

from lifetimes import assert_no_growth


def leaf():
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


def test_backward():
    x = leaf()
    y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [[2, 4], [6, 8]]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [[5, 7], [9, 11]]


def test_backward_of_some_inputs():
    x, w = leaf(), leaf()
    (x * w).sum().backward(inputs=[x])
    assert x.grad is not None and w.grad is None


def test_grad():
    x = leaf()
    (g,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert g.tolist() == [[3, 12], [27, 48]] and h.tolist() == [[6, 12], [18, 24]] and x.grad is None
    unused = leaf()
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad((x * 2).sum(), unused)
    assert torch.autograd.grad((x * 2).sum(), unused, allow_unused=True) == (None,)


def test_grad_of_one_input_asked_for_twice():
    x, y = leaf(), leaf()
    a, b, c = torch.autograd.grad((x * y).sum() + y.sum(), [y, x, y])
    assert a.tolist() == c.tolist() == (x + 1).tolist() and b.tolist() == y.tolist()


@pytest.mark.parametrize("call, text", [
    (lambda: (leaf() * 2).backward(), "grad can be implicitly created only for scalar outputs"),
    (lambda: torch.ones(1).backward(), "element 0 of tensors does not require grad and does not have a grad_fn"),
    (lambda: torch.ones(1).register_hook(print), "cannot register a hook on a tensor that doesn't require gradient"),
    (lambda: leaf().add_(1), "a leaf Variable that requires grad is being used in an in-place operation."),
    (lambda: setattr(leaf() * 2, "requires_grad", False), "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."),
    (lambda: torch.ones(1, dtype=torch.int64).requires_grad_(), "only Tensors of floating point dtype can require gradients"),
    (lambda: leaf().numpy(), "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."),
])
def test_errors(call, text):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value) == text


def test_nodes():
    x = leaf()
    y = (x * 2).sum()
    node = y.grad_fn
    assert node.name() == type(node).__name__ == "SumBackward0" and node is y.grad_fn
    ((mul, index),) = node.next_functions
    assert mul.name() == "MulBackward0" and index == 0
    ((last, _), (none, _)) = mul.next_functions if len(mul.next_functions) == 2 else (*mul.next_functions, (None, 0))
    assert last.name() == "torch::autograd::AccumulateGrad" and type(last).__name__ == "AccumulateGrad" and last.variable is x and none is None
    assert node.metadata == {} and x.is_leaf and not y.is_leaf and y.output_nr == 0


@pytest.mark.parametrize("call, name, gradients", [
    (lambda x, y: x + y, "AddBackward0", (1, 1)),
    (lambda x, y: x - y, "SubBackward0", (1, -1)),
    (lambda x, y: x * y, "MulBackward0", (4, 2)),
    (lambda x, y: x / y, "DivBackward0", (0.25, -0.125)),
    (lambda x, y: x * 3.0, "MulBackward0", (3, None)),
    (lambda x, y: x / 4.0, "DivBackward0", (0.25, None)),
    (lambda x, y: torch.add(x, y), "AddBackward0", (1, 1)),
    (lambda x, y: x.sub(y), "SubBackward0", (1, -1)),
])
def test_small_operators(call, name, gradients):
    for shape in ((2, 2), (), (2, 1, 1, 2, 1, 2), (100,)):
        x, y = (torch.full(shape, value, requires_grad=True) for value in (2.0, 4.0))
        z = call(x, y)
        assert z.grad_fn.name() == name and z.requires_grad and not z.is_leaf
        found = torch.autograd.grad(z.sum(), (x, y), allow_unused=True)
        for gradient, wanted in zip(found, gradients):
            assert gradient is None if wanted is None else (gradient == wanted).all() and gradient.shape == x.shape
    with torch.no_grad():
        assert call(x, y).grad_fn is None
    assert call(x.detach(), y.detach()).grad_fn is None


def test_small_operators_keep_the_rules_of_the_tape():
    x, y = leaf(), leaf()
    z = x * y
    with torch.no_grad():
        y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*is at version 1; expected version 0"):
        z.sum().backward()
    with torch.inference_mode():
        frozen = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * frozen
    whole = torch.arange(4).view(2, 2)          # a view concerns the tape, whatever its type
    assert (whole + whole).tolist() == [[0, 2], [4, 6]] and (whole * whole).grad_fn is None
    base = torch.ones(4)
    view = base.view(2, 2)
    base.mul_(torch.full((4,), 2.0, requires_grad=True))
    assert (view + view.detach()).grad_fn.next_functions[0][0].name() == "AsStridedBackward0"
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        z = leaf() * leaf()
    assert len(packed) == 2
    with pytest.warns(UserWarning, match="Error detected in MulBackward0. Traceback of forward call(.|\n)*test_small_operators"):
        with torch.autograd.detect_anomaly(check_nan=False), pytest.raises(RuntimeError, match="the backtrace further above"):
            z = x * y
            y.detach().add_(1.0)
            z.sum().backward()


def test_hooks():
    x, seen = leaf(), []
    y = x * 3
    handle = y.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    y.sum().backward()
    assert seen == [[[1, 1], [1, 1]]] and x.grad.tolist() == [[6, 6], [6, 6]]
    handle.remove()
    x.grad = None
    y = x * 3
    y.retain_grad()
    y.sum().backward()
    assert len(seen) == 1 and y.grad.tolist() == [[1, 1], [1, 1]]


def test_node_hooks():
    x, seen = leaf(), []
    y = (x * 3).sum()
    y.grad_fn.register_prehook(lambda g: seen.append(("before", g[0].tolist())))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(("after", inputs[0].shape, outputs[0].shape)) or (inputs[0] * 2,))
    y.backward()
    assert seen == [("before", 1), ("after", (2, 2), ())] and x.grad.tolist() == [[6, 6], [6, 6]]


def test_errors_of_hooks_arrive():
    y = leaf() * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return grad * 2 * x * ctx.scale, None


def test_function():
    x = leaf()
    y = Square.apply(x, 3.0)
    assert y.grad_fn.name() == "SquareBackward"
    y.sum().backward()
    assert x.grad.tolist() == [[6, 12], [18, 24]]
    assert not Square.apply(x.detach(), 3.0).requires_grad


def test_function_with_setup_context():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2, x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, a, b):
            assert b.tolist() == [[0, 0], [0, 0]]
            return a * 2

    x = leaf()
    a, b = Twice.apply(x)
    assert a.requires_grad and not b.requires_grad
    a.sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def test_function_in_place():
    class AddOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf()
    y = x * 1
    z = AddOne.apply(y)
    assert z is y and y.grad_fn.name() == "AddOneBackward"
    y.sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]


def test_a_function_forgets_what_it_marked():
    contexts = []

    class AddOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(ctx)
            positive = x > 0
            ctx.mark_dirty(x)
            ctx.mark_non_differentiable(positive)
            ctx.save_for_backward(positive)
            return x.add_(1), positive

        @staticmethod
        def backward(ctx, grad, _):
            return grad

    for x in (leaf() * 1, torch.ones(2)):
        for _ in range(2):
            AddOne.apply(x)
        assert [(c.dirty_tensors, c.non_differentiable, c.to_save) for c in contexts] == [(None, None, None)] * 2
        contexts.clear()

    def run():
        AddOne.apply(AddOne.apply(leaf() * 1)[0])   # the second history holds the first, whose context must not hold the tensor
        contexts.clear()

    assert_no_growth(run)


def test_wrong_number_of_gradients():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="function WrongBackward returned an incorrect number of gradients \\(expected 2, got 1\\)"):
        Wrong.apply(leaf(), leaf()).sum().backward()


def test_modes():
    x = leaf()
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    with torch.inference_mode():
        y = torch.ones(1)
        assert y.is_inference() and not (x * 2).requires_grad
    assert torch.is_grad_enabled()

    @torch.no_grad()
    def quiet():
        return (x * 2).requires_grad

    @torch.no_grad
    def also_quiet():
        yield (x * 2).requires_grad

    assert quiet() is False and list(also_quiet()) == [False]
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()


def test_saved_tensor_hooks():
    x, seen = leaf(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append("pack") or t.tolist(), lambda v: torch.tensor(v)):
        y = (x.exp() * x).sum()
    y.backward()
    assert seen and x.grad is not None


def test_detach_in_place():
    y = leaf() * 2
    assert y.detach_() is y and not y.requires_grad and y.grad_fn is None


def test_a_view_in_another_dtype_survives_writes_to_its_base():
    x = torch.rand(2, 4, requires_grad=True)
    base = x.clone()
    z = torch.view_as_complex(base.reshape(-1, 2))
    base.mul_(2)
    assert z.grad_fn.name() == "ViewAsComplexBackward0"
    (g,) = torch.autograd.grad(torch.view_as_real(z).sum(), x)      # an expanded gradient, too
    assert torch.equal(g, torch.full((2, 4), 2.0))
    c = torch.rand(3, dtype=torch.complex64, requires_grad=True)
    whole = c.clone()
    whole.imag.mul_(3)
    (g,) = torch.autograd.grad(torch.view_as_real(whole).sum(), c)
    assert torch.equal(g, torch.full((3,), 1 + 3j))


def test_writes_through_views_of_a_reshaped_copy_are_seen():
    x = torch.rand(2, 3, requires_grad=True)
    y = (x * 2).t().reshape(-1)         # a copy, then _unsafe_view
    assert not y._is_view()
    z = y * y
    y[0].detach().mul_(2)
    with pytest.raises(RuntimeError, match="which is output 0 of UnsafeView, is at version 1"):
        z.sum().backward()


def test_cat_remembers_the_sizes_it_saw():
    x = torch.rand(1, 3, requires_grad=True)
    y = x * 2
    out = torch.cat([y, y], 1)
    y.transpose_(0, 1)
    (g,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(g, torch.full((1, 3), 4.0))


def test_as_strided_of_what_overlaps():
    x = torch.rand(3, requires_grad=True)
    e = x.expand(4, 3)
    (g,) = torch.autograd.grad(e.as_strided((3,), (1,)).sum(), e)
    assert torch.equal(g, torch.full((4, 3), 0.25))


def test_which_overwritten_value_is_named():
    x, y = torch.rand(2, 3, requires_grad=True), torch.rand(1, 3, requires_grad=True)
    a, b = x * 1, y * 1
    c = a * b
    a.detach().mul_(2), b.detach().mul_(2)
    with pytest.raises(RuntimeError, match=r"FloatTensor \[1, 3\]"):        # other comes before self
        c.sum().backward()
    a = x * 1
    b = torch.gather(a, 0, torch.zeros(1, 3, dtype=torch.int64))
    a.squeeze_()
    with pytest.raises(RuntimeError, match="output 0 of Squeeze3"):
        b.sum().backward()
    a = x * 1
    b = torch.gather(a, 0, torch.zeros(1, 3, dtype=torch.int64))
    a.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        b.sum().backward()


@pytest.mark.parametrize("pack", [lambda t: t, lambda t: t.detach(), lambda t: t.clone(), lambda t: t.detach().clone()])
def test_what_hooks_give_back_has_the_history_of_what_was_saved(pack):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = (x * x).exp() * x
        z = x.exp()
    assert z.grad_fn._saved_result.grad_fn is z.grad_fn
    first, = torch.autograd.grad(y.sum(), x, create_graph=True)
    plain, = torch.autograd.grad(((x * x).exp() * x).sum(), x, create_graph=True)
    assert torch.equal(first, plain)
    assert torch.equal(*(torch.autograd.grad(g.sum(), x)[0] for g in (first, plain)))
