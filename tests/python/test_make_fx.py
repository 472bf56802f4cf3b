"""make_fx: what graphs look like, that they compute what the function does, and what a failed trace leaves behind."""
import gc
import sys
import textwrap
import weakref

import pytest
import taper
from taper import func
from taper._decomp import core_aten_decompositions, get_decompositions, register_decomposition
from taper.fx.experimental.proxy_tensor import make_fx


def code(gm):
    return textwrap.dedent(gm.code).strip().replace("torch.ops.aten.", "")


def lines(gm):
    """The body without what is dropped after each line."""
    return [line.partition(";")[0].strip() for line in code(gm).splitlines()[1:]]


def test_a_function():
    x, y = taper.randn(3, 4), taper.randn(4)

    def f(x, y):
        return (x + y).relu().sum(1)

    gm = make_fx(f)(x, y)
    assert lines(gm) == ["add = add.Tensor(x_1, y_1)", "relu = relu.default(add)", "sum_1 = sum.dim_IntList(relu, [1])", "return sum_1"]
    assert code(gm).startswith("def forward(self, x_1, y_1):")
    a, b = taper.randn(3, 4), taper.randn(4)
    assert taper.equal(gm(a, b), f(a, b))
    assert type(gm).__name__ == "f"
    node = next(n for n in gm.graph.nodes if n.name == "add")
    assert node.meta["val"].shape == (3, 4) and taper._C._is_fake(node.meta["val"])


@pytest.mark.parametrize("f, want", [
    (lambda x: x.add_(1).mul(2) + x, ["add_ = add_.Tensor(x_1, 1)", "mul = mul.Tensor(add_, 2)", "add = add.Tensor(mul, add_)", "return add"]),
    (lambda x: x.max(1), ["max_1 = max.dim(x_1, 1)", "getitem = max_1[0]", "getitem_1 = max_1[1]", "return (getitem, getitem_1)"]),
    (lambda x: taper.ones(3, 4) + taper.zeros_like(x), [
        "ones = ones.default([3, 4], device = device(type='cpu'), pin_memory = False)", "zeros_like = zeros_like.default(x_1, pin_memory = False)",
        "add = add.Tensor(ones, zeros_like)", "return add"]),
    (lambda x: x.t().contiguous(), ["t = t.default(x_1)", "clone = clone.default(t, memory_format = torch.contiguous_format)", "return clone"]),
    (lambda x: x.contiguous(), ["return x_1"]),
    (lambda x: 1 - x, ["rsub = rsub.Scalar(x_1, 1)", "return rsub"]),
    (lambda x: x + taper.tensor(2.0), ["_tensor_constant0 = self._tensor_constant0", "lift_fresh_copy = lift_fresh_copy.default(_tensor_constant0)",
                                       "add = add.Tensor(x_1, lift_fresh_copy)", "return add"]),
    (lambda x: taper.cat([x, x], 1), ["cat = cat.default([x_1, x_1], 1)", "return cat"]),
    (lambda x: x.to(taper.float64), ["_to_copy = _to_copy.default(x_1, dtype = torch.float64)", "return _to_copy"]),
    (lambda x: x.detach() + 1, ["detach = detach.default(x_1)", "add = add.Tensor(detach, 1)", "return add"]),
])
def test_text(f, want):
    assert lines(make_fx(f)(taper.randn(3, 4))) == want


def test_modules_have_constants():
    linear, x = taper.nn.Linear(4, 2), taper.randn(3, 4)
    gm = make_fx(linear)(x)
    assert lines(gm) == ["_param_constant0 = self._param_constant0", "t = t.default(_param_constant0)", "_param_constant1 = self._param_constant1",
                         "addmm = addmm.default(_param_constant1, arg0_1, t)", "return addmm"]
    assert gm._param_constant0 is linear.weight and taper.equal(gm(x), linear(x))
    assert lines(make_fx(linear, pre_dispatch=True)(x))[-2:] == ["linear = linear.default(arg0_1, _param_constant0, _param_constant1)", "return linear"]


def test_nested_arguments_and_results():
    def f(a, b):
        return {"u": a["k"] + b[0], "v": [b[1]]}

    x, y = taper.randn(2), taper.randn(2)
    gm = make_fx(f)({"k": x}, [y, y * 2])
    out = gm({"k": y}, [x, y])
    assert taper.equal(out["u"], x + y) and out["v"][0] is y
    assert "fx_pytree.tree_flatten_spec([a, b], self._in_spec)" in gm.code


def test_numbers_are_baked_in():
    gm = make_fx(lambda x, n: x * n)(taper.ones(2), 3)
    assert lines(gm) == ["mul = mul.Tensor(x_1, 3)", "return mul"] and gm(taper.ones(2), 5).tolist() == [3, 3]


def test_gradients_inside():
    x = taper.randn(3, 4).requires_grad_()
    gm = make_fx(lambda x: taper.autograd.grad(x.sigmoid().sum(), x))(x)
    assert lines(gm) == ["sigmoid = sigmoid.default(x_1)", "detach = detach.default(sigmoid)", "sum_1 = sum.default(sigmoid)",
                         "ones_like = ones_like.default(sum_1, pin_memory = False, memory_format = torch.preserve_format)",
                         "expand = expand.default(ones_like, [3, 4])", "detach_1 = detach.default(detach)",
                         "sigmoid_backward = sigmoid_backward.default(expand, detach_1)", "return (sigmoid_backward,)"]
    s = x.detach().sigmoid()
    assert taper.allclose(gm(x)[0], s * (1 - s))


def test_transforms_inside():
    x = taper.tensor(0.7)
    gm = make_fx(func.grad(func.grad(lambda x: x.sin())))(x)
    assert [n.target.__name__ for n in gm.graph.nodes if n.op == "call_function"] == [
        "sin.default", "ones_like.default", "cos.default", "mul.Tensor", "ones_like.default", "mul.Tensor", "sin.default", "neg.default", "mul.Tensor"]
    assert taper.allclose(gm(x), -x.sin())
    gm = make_fx(lambda x: func.vjp(taper.tanh, x)[1](x))(x)
    assert lines(gm) == ["tanh = tanh.default(x_1)", "tanh_backward = tanh_backward.default(x_1, tanh)", "return (tanh_backward,)"]


def test_fake_and_symbolic_inputs():
    x = taper.randn(3, 4)
    assert lines(make_fx(lambda x: x.mm(x.t()), tracing_mode="fake")(x)) == ["t = t.default(x_1)", "mm = mm.default(x_1, t)", "return mm"]
    gm = make_fx(lambda x: x.view(x.shape[0] * 2, -1).sum(), tracing_mode="symbolic")(x)
    assert lines(gm) == ["sym_size_int = sym_size.int(x_1, 0)", "mul = sym_size_int * 2", "view = view.default(x_1, [mul, -1])",
                         "sum_1 = sum.default(view)", "return sum_1"]
    y = taper.randn(5, 4)
    assert taper.allclose(gm(y), y.sum())
    c = taper.ones(4)
    with pytest.raises(Exception, match="Please convert all Tensors to FakeTensors"):
        make_fx(lambda x: x + c, tracing_mode="fake")(x)
    gm = make_fx(lambda x: x + c, tracing_mode="symbolic", _allow_non_fake_inputs=True)(x)
    assert gm._tensor_constant0 is c


def test_symbolic_gradients_keep_symbols():
    x = taper.randn(3, 4).requires_grad_()
    gm = make_fx(lambda x: taper.autograd.grad(x.sin().sum(), x)[0], tracing_mode="symbolic")(x)
    y = taper.randn(7, 2).requires_grad_()
    assert taper.allclose(gm(y), y.cos())


def test_values_may_not_be_read():
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(lambda x: x if x.sum() > 0 else -x)(taper.ones(2))


def test_a_failure_leaves_nothing_behind():
    x = taper.ones(2, requires_grad=True)

    def bad(x):
        y = func.grad(lambda z: func.functionalize(lambda w: w.mul_(2).sum())(z.clone()))(x)
        make_fx(lambda z: z + 1)(y)
        raise KeyError("here")

    for mode in ("real", "fake", "symbolic"):
        for pre in (False, True):
            with pytest.raises(KeyError):
                make_fx(bad, tracing_mode=mode, pre_dispatch=pre)(x)
            assert taper.is_grad_enabled() and (x * 2).sum().item() == 4
            (x * 2).sum().backward()
            assert x.grad.tolist() == [2, 2]
            x.grad = None


def test_traces_inside_traces():
    x = taper.randn(3)
    gm = make_fx(lambda x: make_fx(lambda y: y.sin())(x)(x) + 1)(x)
    assert lines(gm) == ["sin = sin.default(x_1)", "add = add.Tensor(sin, 1)", "return add"]


def test_tables():
    calls = []

    def relu(x):
        calls.append(1)
        return taper.where(x > 0, x, 0.0)

    x = taper.randn(4)
    gm = make_fx(lambda x: x.relu().neg(), {taper.ops.aten.relu.default: relu})(x)
    assert calls == [1] and lines(gm)[0] == "gt = gt.Scalar(x_1, 0)" and "relu" not in gm.code
    assert taper.equal(gm(x), -x.relu())
    gm = make_fx(lambda x: x.relu(), {taper.ops.aten.relu.default: lambda x: NotImplemented})(x)
    assert lines(gm)[0] == "relu = relu.default(x_1)"
    with pytest.raises(ZeroDivisionError):
        make_fx(lambda x: x.relu(), {taper.ops.aten.relu.default: lambda x: 1 / 0})(x)
    assert core_aten_decompositions() and taper.ops.aten.add.Tensor not in core_aten_decompositions()
    mine = {}
    register_decomposition([taper.ops.aten.silu], registry=mine)(lambda x: x * x.sigmoid())
    assert taper.ops.aten.silu.default in mine
    with pytest.raises(RuntimeError, match="multiple registrations"):
        register_decomposition(taper.ops.aten.silu.default, registry=mine)(lambda x: x)
    assert set(get_decompositions([taper.ops.aten.add])) <= {getattr(taper.ops.aten.add, n) for n in taper.ops.aten.add.overloads()}


def test_wrong_counts():
    with pytest.raises(RuntimeError, match="Tracing expected 2 arguments but got 1 concrete arguments"):
        make_fx(lambda a, b: a)(taper.ones(1))
    with pytest.raises(AssertionError):
        make_fx(lambda a: a, tracing_mode="dream")(taper.ones(1))


def test_nothing_is_kept_alive():
    x = taper.randn(3, requires_grad=True)
    kept = []

    def f(x):
        y = x.sin()
        kept.append(weakref.ref(y))
        return taper.autograd.grad(y.sum(), x)[0]

    gm = make_fx(f)(x)
    gc.collect()
    assert kept[0]() is None
    graph = weakref.ref(gm)
    del gm
    gc.collect()
    assert graph() is None


def test_a_write_through_expand_reaches_its_base():
    def f(x):
        y = x.clone()
        y.expand(1, 3).mul_(0.5)
        return y

    x = taper.rand(3)
    assert taper.equal(make_fx(taper.func.functionalize(f))(x)(x), x * 0.5)


def test_a_mask_of_one_element_is_an_index_in_a_trace():
    for on in (True, False):
        x, m = taper.rand(()), taper.tensor(on)
        assert taper.equal(make_fx(lambda x, m: x[m])(x, m)(x, m), x[m])
    with pytest.raises(IndexError, match="a mask without dims"):
        taper.ops.aten.index.Tensor(taper.rand(3), [taper.tensor(False)])


def test_slices_of_symbolic_dims_are_cut_at_other_sizes():
    def f(x):
        return x[:3], x[-2:], x[:]

    graph = make_fx(f, tracing_mode="symbolic")(taper.rand(3))
    x = taper.rand(7)
    assert all(taper.equal(a, b) for a, b in zip(graph(x), f(x)))


def test_the_width_behind_attention_s_scale_is_guarded_on():
    graph = make_fx(taper.nn.functional.scaled_dot_product_attention, tracing_mode="symbolic")(*[taper.rand(3, 4)] * 3)
    assert any("4" in str(guard[0]) for guard in graph.shape_env.guards)


def test_ops_that_write_in_training_only_are_functional_otherwise():
    x = taper.randn(5)
    graph = make_fx(taper.func.functionalize(lambda x: taper.nn.functional.rrelu(x, 0.2, 0.2)))(x)
    assert taper.equal(graph(x), taper.nn.functional.leaky_relu(x, 0.2))


def test_the_gradient_of_masked_scatter_has_a_size():
    def f(x, m, s):
        return taper.autograd.grad(x.masked_scatter(m, s).sum(), (x, s))

    args = taper.rand(2, 3, requires_grad=True), taper.rand(2, 3) > 0.5, taper.rand(7, requires_grad=True)
    graph = make_fx(f, tracing_mode="fake")(*args)
    assert all(taper.equal(a, b) for a, b in zip(graph(*args), f(*args)))


def lines_of(graph):
    return {node.name: [line.strip() for line in (node.stack_trace or "").splitlines()[1::2]] for node in graph.graph.nodes}


def test_nodes_remember_the_lines_of_forward():
    class Net(taper.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = taper.nn.Tanh()

        def shifted(self, x):
            return x + 1

        def forward(self, x):
            y = self.act(x) * 2
            y = self.shifted(y)
            return [v / 2 for v in (y, y)][0]

    net = Net()
    lines = lines_of(make_fx(lambda x: net(x).sum(), record_stack_traces=True)(taper.rand(3)))
    assert [line for line in lines["tanh"] if "self.act" in line] == ["y = self.act(x) * 2"] and len(lines["tanh"]) == 2
    assert lines["mul"] == ["y = self.act(x) * 2"]
    assert lines["add"] == ["y = self.shifted(y)"]
    assert lines["div"] == lines["div_1"] == ["return [v / 2 for v in (y, y)][0]"]
    assert lines["sum_1"] == lines["x_1"] == []
    assert not any(lines_of(make_fx(net)(taper.rand(3))).values())


def test_functions_made_while_tracing_have_lines_of_their_own():
    def made(text):
        space = {}
        exec(compile(f"def forward(x):\n    return x {text}", f"<{text}>", "exec"), space)
        return space["forward"]

    graph = make_fx(lambda x: [made(f"+ {i}")(x) for i in range(50)], record_stack_traces=True)(taper.rand(3))
    traces = [node.stack_trace for node in graph.graph.nodes if node.op == "call_function"]
    assert traces == [f'File "<+ {i}>", line 2, in forward\n    ' for i in range(50)]


def test_long_lists_of_a_decomposition_keep_their_members():
    def f(x):
        members = x.unbind(0)
        assert len({sys.getrefcount(member) for member in members}) == 1
        counts.append(sys.getrefcount(members[0]))
        return members[-1] * 2

    counts = []
    for length in (10, 300):
        x = taper.rand(length)
        graph = make_fx(f, decomposition_table=core_aten_decompositions())(x)
        assert taper.equal(graph(x), x[-1] * 2)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_a_tensor_without_dims_selects(mode):
    """The result is a view: what is written to its base later shows in it."""
    def f(x, n):
        base = x.clone()
        chosen = base[..., n]
        base.mul_(2)
        return chosen

    x = taper.arange(6.0).reshape(2, 3)
    traced = make_fx(f, tracing_mode=mode)(x, taper.tensor(1))
    for n in (0, 2, -1):
        assert traced(x, taper.tensor(n)).tolist() == f(x, taper.tensor(n)).tolist()
    with pytest.raises(IndexError, match="index 3 out of range"):
        traced(x, taper.tensor(3))
    with pytest.raises(RuntimeError, match="get value out of a tracing tensor"):
        make_fx(f)(x, taper.tensor(1))
    assert all(taper.compile(f, backend=name)(x, taper.tensor(1)).tolist() == [2, 8] for name in ("eager", "aot_eager", "inductor"))


def test_sizes_are_read_before_they_change():
    def f(x):
        y = taper.nn.functional.pad(x, (-1, 0))
        y.t_()
        return y.sum() / y.size(0)

    x = taper.arange(15.0).reshape(3, 5)
    assert make_fx(f, tracing_mode="symbolic")(x)(x).item() == f(x).item() == 22.5


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("index", [[1, 0], [True, False], [], [[0, 1], [1, 1]]])
def test_lists_that_index_are_literals(mode, index):
    x = taper.arange(6.0).reshape(3, 2)
    graph = make_fx(lambda x: x[..., index], tracing_mode=mode)(x)
    assert [n.name for n in graph.graph.nodes if n.op != "output"] == ["x_1", "_tensor_constant0", "lift_fresh_copy", "index"]
    assert graph(x).equal(x[..., index])
