"""Ops that take functions: eager, with gradients, fake, functionalised, recorded, exported, saved and loaded."""
import copy

import pytest

import taper as torch
from taper import nn
from taper._functorch.aot_autograd import aot_function
from taper._higher_order_ops import associative_scan, scan, while_loop
from taper._subclasses.fake_tensor import FakeTensorMode
from taper.functorch.compile import nop
from taper.functorch.experimental import control_flow
from taper.fx.experimental.proxy_tensor import make_fx

MODES = ("real", "fake", "symbolic")


def code(module):
    return "\n".join(line.strip() for line in module.code.strip().splitlines())


def sin_plus(x):
    return x.sin() + 1


def cosine(x):
    return x.cos()


def choose(pred, x):
    return torch.cond(pred, sin_plus, cosine, [x])


# ---- eager ----
@pytest.mark.parametrize("pred", [True, False])
def test_cond_takes_the_branch_that_the_data_says(pred):
    x = torch.randn(3, requires_grad=True)
    wanted = sin_plus(x) if pred else cosine(x)
    for given in (pred, torch.tensor(pred), torch.tensor([float(pred)])):
        y = torch.cond(given, sin_plus, cosine, (x,))
        assert torch.equal(y, wanted)
        assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(wanted.sum(), x, retain_graph=True)[0])


def test_operands_and_results_nest():
    x = torch.ones(2)
    result = torch.cond(torch.tensor(True), lambda d, t: {"a": d["x"] + t[0], "b": [t[0] * 2]}, lambda d, t: {"a": d["x"], "b": [t[0]]},
                        ({"x": x}, (x,)))
    assert torch.equal(result["a"], x + 1) and torch.equal(result["b"][0], x * 2)


def test_map_stacks_and_has_gradients():
    xs, y = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    out = control_flow.map(lambda x, y: (x * y, x.sin()), xs, y)
    assert torch.equal(out[0], xs * y) and torch.equal(out[1], xs.sin())
    got = torch.autograd.grad(out[0].sum(), (xs, y))
    wanted = torch.autograd.grad((xs * y).sum(), (xs, y))
    assert all(torch.allclose(a, b) for a, b in zip(got, wanted))


def test_loops():
    i, x = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(2)))
    assert i.item() == 3 and torch.equal(x, torch.full((2,), 8.0))
    values = torch.arange(6.0).view(2, 3)
    carry, ys = scan(lambda c, x: (c + x, c * 2), torch.zeros(2), values, dim=1, reverse=True)
    assert carry.tolist() == [3.0, 12.0] and ys.tolist() == [[6.0, 4.0, 0.0], [18.0, 10.0, 0.0]]
    assert torch.equal(associative_scan(lambda a, b: a + b, values, dim=1), values.cumsum(1))


def test_without_data_both_branches_run():
    seen = []
    with FakeTensorMode() as mode:
        x, pred = mode.from_tensor(torch.ones(3)), mode.from_tensor(torch.tensor(True))
        y = torch.cond(pred, lambda x: (seen.append(1), x.sin())[1], lambda x: (seen.append(2), x.cos())[1], (x,))
        assert tuple(y.shape) == (3,) and seen == [1, 2]
        assert tuple(control_flow.map(lambda x: x.sum(), mode.from_tensor(torch.ones(5, 3))).shape) == (5,)


@pytest.mark.parametrize("call, kind, text", [
    (lambda x: torch.cond("a", sin_plus, cosine, (x,)), RuntimeError, "Expected pred to be bool or tensor, but got a."),
    (lambda x: torch.cond(torch.tensor([True, False]), sin_plus, cosine, (x,)), RuntimeError,
     "Expected pred to be bool or single-element tensor, but got tensor([ True, False])."),
    (lambda x: torch.cond(torch.tensor(True), 1, cosine, (x,)), RuntimeError, "Expect both branches to be callable."),
    (lambda x: torch.cond(torch.tensor(True), sin_plus, cosine, (3,)), RuntimeError,
     "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but got (3,)."),
    (lambda x: control_flow.map(cosine, 3), RuntimeError, "Mapped xs can only consist of tensors. Got xs [3]."),
    (lambda x: control_flow.map(cosine, torch.ones(0, 3)), RuntimeError, "Leading dimensions of mapped xs cannot be 0."),
    (lambda x: control_flow.map(cosine, (torch.ones(2, 3), torch.ones(3, 3))), RuntimeError,
     "Leading dimensions of mapped xs must be consistent. Got shapes [torch.Size([2, 3]), torch.Size([3, 3])]."),
    (lambda x: while_loop(3, cosine, (x,)), RuntimeError, "Expect cond_fn and body_fn to be callable."),
    (lambda x: scan(3, x, x), RuntimeError, "Combine_fn must be a callable, but got 3"),
    (lambda x: torch.ops.higher_order.cond(True, sin_plus, cosine, ("a",)), AssertionError,
     "('a',) can only be of (<class 'torch.Tensor'>, <class 'int'>, <class 'torch.SymInt'>) but got (<class 'str'>,)"),
    (lambda x: make_fx(lambda p, x: torch.cond(p, lambda x: (x.sin(), x.cos()), lambda x: x.cos(), (x,)))(torch.tensor(True), x), RuntimeError,
     "Expected to return same number of outputs but got:\n  true branch returns 2 item(s)\n  false branch returns 1 item(s)"),
    (lambda x: make_fx(lambda p, x: torch.cond(p, lambda x: x.double(), cosine, (x,)))(torch.tensor(True), x), RuntimeError,
     "When merging two branches' output in torch.cond,  expected same dtype but got torch.float64 and torch.float32."),
    (lambda x: make_fx(torch.func.functionalize(lambda p, x: torch.cond(p, lambda x: x.view(3), cosine, (x,))))(torch.tensor(True), x),
     RuntimeError, "cond_true might be aliasing the input or the output!"),
    (lambda x: make_fx(torch.func.functionalize(lambda p, x: torch.cond(p, cosine, lambda x: x.add_(1).sin(), (x,))))(torch.tensor(True), x),
     RuntimeError, "cond_false might be modifying the input!"),
])
def test_errors(call, kind, text):
    with pytest.raises(kind) as caught:
        call(torch.ones(3))
    assert str(caught.value).replace("taper.", "torch.") == text


def test_an_error_in_a_branch_comes_out_as_it_is():
    def fails(x):
        raise KeyError("mine")

    for traced in (lambda: torch.cond(True, fails, cosine, (torch.ones(3),)),
                   lambda: make_fx(choose)(torch.tensor(True), torch.ones(3)) and
                   make_fx(lambda x: torch.cond(True, fails, cosine, (x,)))(torch.ones(3))):
        with pytest.raises(KeyError, match="mine"):
            traced()
    assert code(make_fx(cosine)(torch.ones(3))).endswith("return cos")      # nothing stays mounted


# ---- recorded ----
CHOOSE = """def forward(self, pred_1, x_1):
true_graph_0 = self.true_graph_0
false_graph_0 = self.false_graph_0
conditional = torch.ops.higher_order.cond(pred_1, true_graph_0, false_graph_0, [x_1]);  pred_1 = true_graph_0 = false_graph_0 = x_1 = None
getitem = conditional[0];  conditional = None
return getitem"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_cond_is_a_node_with_two_graphs(mode, pre_dispatch):
    made = make_fx(choose, tracing_mode=mode, pre_dispatch=pre_dispatch)(torch.tensor(True), torch.randn(3))
    assert code(made) == CHOOSE
    assert code(made.true_graph_0) == ("def forward(self, arg0_1):\nsin = torch.ops.aten.sin.default(arg0_1);  arg0_1 = None\n"
                                       "add = torch.ops.aten.add.Tensor(sin, 1);  sin = None\nreturn (add,)")
    x = torch.randn(3 if mode != "symbolic" else 5)
    for pred in (True, False):
        assert torch.equal(made(torch.tensor(pred), x), choose(pred, x))


def test_what_a_branch_reads_from_outside_becomes_an_operand():
    constant = torch.full((3,), 7.0)

    def f(pred, b, a, x):
        return torch.cond(pred, lambda x: x + a, lambda x: x * b + constant, (x,))

    made = make_fx(f)(torch.tensor(True), *(torch.randn(3) for _ in range(3)))
    assert "higher_order.cond(pred_1, true_graph_0, false_graph_0, [_tensor_constant0, a_1, b_1, x_1])" in made.code
    args = [torch.randn(3) for _ in range(3)]
    for pred in (True, False):
        assert torch.equal(made(torch.tensor(pred), *args), f(pred, *args))


def test_nested_and_twice():
    def f(pred, x):
        y = torch.cond(pred, lambda x: torch.cond(x.sum() > 0, sin_plus, cosine, (x,)), cosine, (x,))
        return torch.cond(pred, cosine, sin_plus, (y,))

    made = make_fx(f)(torch.tensor(True), torch.randn(3))
    assert [name for name, _ in made.named_modules()][1:] == [
        "true_graph_0", "true_graph_0.true_graph_0", "true_graph_0.false_graph_0", "false_graph_0", "true_graph_1", "false_graph_1"]
    for pred in (True, False):
        for x in (torch.ones(3), -torch.ones(3)):
            assert torch.equal(made(torch.tensor(pred), x), f(pred, x))


@pytest.mark.parametrize("mode", MODES)
def test_loops_are_nodes(mode):
    def f(i, x):
        a = control_flow.map(lambda row, x: row * x.sum(), x, x)
        b = while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (i, a))
        return scan(lambda c, row: (c + row, c * row), x[0], b[1])

    made = make_fx(f, tracing_mode=mode)(torch.tensor(0), torch.randn(4, 3))
    assert [n.name for n in made.graph.nodes if "higher_order" in str(getattr(n.target, "namespace", ""))] == ["map_impl", "while_loop", "scan"]
    assert made.body_graph_0.code.strip().endswith("return [mul]")
    assert made.while_loop_cond_graph_0.code.strip().endswith("return lt")
    args = torch.tensor(1), torch.randn(6 if mode == "symbolic" else 4, 3)
    for got, wanted in zip(made(*args), f(*args)):
        assert torch.allclose(got, wanted)


def test_a_plan_runs_them_too():
    made = make_fx(choose)(torch.tensor(True), torch.randn(3))
    plan, x = torch._C._FxPlan(made.graph, made), torch.randn(3)
    assert torch.equal(plan(torch.tensor(False), x), x.cos())


def test_branches_are_functionalised():
    def f(pred, x):
        y = x.clone()
        return torch.cond(pred, lambda x: x.sin().add_(1), lambda x: x.cos()[0:2].mul_(2) + y[0:2], (x[0:2],))

    made = make_fx(torch.func.functionalize(f))(torch.tensor(True), torch.randn(3))
    assert "_(" not in made.true_graph_0.code and "mul.Tensor" in made.false_graph_0.code
    x = torch.randn(3)
    for pred in (True, False):
        assert torch.equal(made(torch.tensor(pred), x), f(pred, x))


# ---- gradients while tracing ----
@pytest.mark.parametrize("mode", ("real", "fake"))
def test_the_gradient_of_a_traced_cond_is_a_cond(mode):
    def f(pred, x, w):
        return torch.autograd.grad(torch.cond(pred, lambda x: x.sin() * w, lambda x: x + 1, (x,)).sum(), (x, w))

    x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    made = make_fx(f, tracing_mode=mode)(torch.tensor(True), x, w)
    assert made.code.count("higher_order.cond") == 2
    for pred in (True, False):
        wanted = (x.cos() * w, x.sin()) if pred else (torch.ones(3), torch.zeros(3))
        assert all(torch.allclose(a, b) for a, b in zip(made(torch.tensor(pred), x, w), wanted))


@pytest.mark.parametrize("pred", [True, False])
def test_aot_autograd(pred):
    def f(pred, x, w):
        y = torch.cond(pred, lambda x: (x * w).add_(1), lambda x: x + 1, (x,))
        return control_flow.map(lambda row, w: row * w, y, w)

    compiled = aot_function(f, nop, nop)
    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    got, wanted = compiled(torch.tensor(pred), x, w), f(pred, x, w)
    assert torch.allclose(got, wanted)
    for a, b in zip(torch.autograd.grad(got.sum(), (x, w)), torch.autograd.grad(wanted.sum(), (x, w))):
        assert torch.allclose(a, b)


# ---- export ----
class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: x * self.weight, lambda x: x + self.shift, (x,))
        return control_flow.map(lambda row, y: row + y, torch.stack([y, y]), y)


def test_export_save_load(tmp_path):
    program = torch.export.export(Choosing(), (torch.ones(3),))
    assert [n.name for n in program.graph_module.true_graph_0.graph.nodes] == ["b_shift", "p_weight", "x", "mul", "output"]
    torch.export.save(program, str(tmp_path / "choosing.pt2"))
    loaded = torch.export.load(str(tmp_path / "choosing.pt2"))
    lowered = program.run_decompositions()
    for x in (torch.randn(3).abs(), -torch.randn(3).abs()):
        wanted = Choosing()(x)
        for made in (program, loaded, lowered):
            assert torch.equal(made.module()(x), wanted)


def test_saved_graphs_are_those_of_the_module(tmp_path):
    program = torch.export.export(Choosing(), (torch.ones(3),))
    branch = program.graph_module.true_graph_0
    for node in branch.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor):
        node.target = torch.ops.aten.sub.Tensor
    branch.recompile()
    program.graph_module.true_graph_0 = copy.deepcopy(branch)
    torch.export.save(program, str(tmp_path / "edited.pt2"))
    assert torch.equal(torch.export.load(str(tmp_path / "edited.pt2")).module()(torch.ones(3)), torch.full((2, 3), -2.0))
