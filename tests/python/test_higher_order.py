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


# ---- ops made of other ops ----


@pytest.fixture
def testlib():
    """Ops of a program that write into their arguments, and what graphs of them are made of."""
    lib = torch.library.Library("hopslib", "FRAGMENT")

    def define(schema, kernel, fake):
        name = schema.partition("(")[0]
        lib.define(schema)
        lib.impl(name, kernel, "CPU")
        lib.impl(name, fake, "Meta")

    def foo(x, z):
        x.add_(5)
        z.add_(5)
        return x + 0, z + 0, x + z

    def nothing(x, out, k=3, *, s=1.0):
        out.copy_(x * k * s)

    def one(x):
        x.mul_(2)
        return x.sin()

    def optional(x, y, z=None):
        for t in (x, z):
            if t is not None:
                t.add_(y)
        return y * 2

    def several(xs, y):
        for x in xs:
            x.add_(y)

    define("foo(Tensor(a!) x, Tensor(b!) z) -> (Tensor, Tensor, Tensor)", foo, lambda x, z: (x.new_empty(3), x.new_empty(3), x.new_empty(3)))
    define("nothing(Tensor x, Tensor(a!) out, int k=3, *, float s=1.0) -> ()", nothing, lambda x, out, k=3, *, s=1.0: None)
    define("one(Tensor(a!) x) -> Tensor", one, torch.empty_like)
    define("optional(Tensor(a!)? x, Tensor y, Tensor(b!)? z=None) -> Tensor", optional, lambda x, y, z=None: torch.empty_like(y))
    define("several(Tensor(a!)[] xs, Tensor y) -> ()", several, lambda xs, y: None)
    define("handed(Tensor(a!) x) -> Tensor(a!)", lambda x: x.mul_(2), lambda x: x)
    yield torch.ops.hopslib
    lib._destroy()


def same(got, want):
    got, want = torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)
    assert len(got) == len(want) and all(torch.equal(a, b) for a, b in zip(got, want))


def forward_code(f, *args):
    """The graph that ahead-of-time autograd makes, and the values it gives."""
    graphs = []
    compiled = aot_function(f, fw_compiler=lambda g, _: (graphs.append(g), nop(g, _))[1])
    given = compiled(*[a.clone() for a in args])
    return code(graphs[0]), given


def test_auto_functionalized_values(testlib):
    auto = torch._higher_order_ops.auto_functionalize.auto_functionalized
    assert auto is torch.ops.higher_order.auto_functionalized is torch._higher_order_ops.auto_functionalized
    assert str(auto) == auto.__name__ == "auto_functionalized"
    x, y = torch.ones(3), torch.ones(3)
    same(auto(testlib.foo.default, x=x, z=y), (x + 5, x + 5, x + 11, x + 5, x + 5))
    same((x, y), (torch.ones(3), torch.ones(3)))
    assert auto(testlib.nothing.default, x=x, out=y)[0] is None
    same(auto(testlib.nothing.default, x=x, out=y, k=2)[1:], (x * 2,))
    none, written = auto(testlib.several.default, xs=[x, y], y=x)
    assert none is None and isinstance(written, list)
    same(written, [x + 1, x + 1])
    got = auto(testlib.optional.default, x=None, y=x, z=y)
    assert got[1] is None
    same((got[0], got[2]), (x * 2, x + 1))


def test_auto_functionalized_errors(testlib):
    auto, x = torch.ops.higher_order.auto_functionalized, torch.ones(3)
    for op in (testlib.handed.default, testlib.foo, torch.ops.aten.sin.default, torch.ops.aten.sin_.default):
        with pytest.raises(AssertionError, match="Cannot auto-functionalize op"):
            auto(op, x=x)
    with pytest.raises(TypeError, match="takes 2 positional arguments but 4 were given"):
        auto(testlib.foo.default, x, x)
    with pytest.raises(RuntimeError, match="missing value for argument 'z'"):
        auto(testlib.foo.default, x=x)

    def handed(x):
        return testlib.handed(x.clone())

    with pytest.raises(RuntimeError, match="Found a custom .non-ATen. operator whose output has alias annotations: hopslib::handed"):
        make_fx(torch.func.functionalize(handed))(x)

    def overlapping(x):
        y = x.clone()
        testlib.several([y], y)
        testlib.foo(y, y[:])

    with pytest.raises(NotImplementedError, match="hopslib::foo writes two arguments that share memory"):
        make_fx(torch.func.functionalize(overlapping))(x)


def mutate_input(ops, x):
    z = x.cos()
    a, b, c = ops.foo(x, z)
    return a, b, c, z.cos()


def mutate_fresh(ops, x):
    out = torch.empty_like(x)
    ops.nothing(x, out, 4, s=2.0)
    return out + 1


def mutate_view(ops, x):
    y = x.clone()
    return ops.one(y[1:]), y


def mutate_optional(ops, x):
    y, z = x.clone(), x + 1
    return ops.optional(None, x, z), y, z


def mutate_list(ops, x):
    y, z = x.clone(), x + 1
    ops.several([y, z], x)
    return y, z


# What PyTorch 2.13 prints for ahead-of-time autograd with enable_auto_functionalized_v2 off.
MUTATIONS = {
    mutate_input: """\
def forward(self, arg0_1):
cos = torch.ops.aten.cos.default(arg0_1)
auto_functionalized = torch.ops.higher_order.auto_functionalized(torch.ops.hopslib.foo.default, x = arg0_1, z = cos);  arg0_1 = cos = None
getitem = auto_functionalized[0]
getitem_1 = auto_functionalized[1]
getitem_2 = auto_functionalized[2]
getitem_3 = auto_functionalized[3]
getitem_4 = auto_functionalized[4];  auto_functionalized = None
cos_1 = torch.ops.aten.cos.default(getitem_4);  getitem_4 = None
return (getitem_3, getitem, getitem_1, getitem_2, cos_1)""",
    mutate_fresh: """\
def forward(self, arg0_1):
empty_like = torch.ops.aten.empty_like.default(arg0_1, pin_memory = False)
auto_functionalized = torch.ops.higher_order.auto_functionalized(torch.ops.hopslib.nothing.default, x = arg0_1, out = empty_like, k = 4, s = 2.0);  arg0_1 = empty_like = None
getitem_1 = auto_functionalized[1];  auto_functionalized = None
add = torch.ops.aten.add.Tensor(getitem_1, 1);  getitem_1 = None
return (add,)""",
    mutate_view: """\
def forward(self, arg0_1):
clone = torch.ops.aten.clone.default(arg0_1);  arg0_1 = None
slice_1 = torch.ops.aten.slice.Tensor(clone, 0, 1, 9223372036854775807)
auto_functionalized = torch.ops.higher_order.auto_functionalized(torch.ops.hopslib.one.default, x = slice_1);  slice_1 = None
getitem = auto_functionalized[0]
getitem_1 = auto_functionalized[1];  auto_functionalized = None
slice_scatter = torch.ops.aten.slice_scatter.default(clone, getitem_1, 0, 1, 9223372036854775807);  clone = getitem_1 = None
return (getitem, slice_scatter)""",
    mutate_optional: """\
def forward(self, arg0_1):
clone = torch.ops.aten.clone.default(arg0_1)
add = torch.ops.aten.add.Tensor(arg0_1, 1)
auto_functionalized = torch.ops.higher_order.auto_functionalized(torch.ops.hopslib.optional.default, x = None, y = arg0_1, z = add);  arg0_1 = add = None
getitem = auto_functionalized[0]
getitem_2 = auto_functionalized[2];  auto_functionalized = None
return (getitem, clone, getitem_2)""",
    mutate_list: """\
def forward(self, arg0_1):
clone = torch.ops.aten.clone.default(arg0_1)
add = torch.ops.aten.add.Tensor(arg0_1, 1)
auto_functionalized = torch.ops.higher_order.auto_functionalized(torch.ops.hopslib.several.default, xs = [clone, add], y = arg0_1);  clone = add = arg0_1 = None
getitem_1 = auto_functionalized[1];  auto_functionalized = None
getitem_2 = getitem_1[0]
getitem_3 = getitem_1[1];  getitem_1 = None
return (getitem_2, getitem_3)""",
}


@pytest.mark.parametrize("f", MUTATIONS)
def test_auto_functionalized_ahead_of_time(testlib, f):
    x = torch.tensor([1.0, 2.0, 3.0])
    text, given = forward_code(lambda x: f(testlib, x), x)
    assert text == MUTATIONS[f]
    same(given, f(testlib, x.clone()))


@pytest.mark.parametrize("f", MUTATIONS)
@pytest.mark.parametrize("mode", MODES)
def test_auto_functionalized_recorded(testlib, f, mode):
    x = torch.tensor([1.0, 2.0, 3.0])
    g = make_fx(torch.func.functionalize(lambda x: f(testlib, x)), tracing_mode=mode)(x.clone())
    calls = [n for n in g.graph.nodes if n.target is torch.ops.higher_order.auto_functionalized]
    assert len(calls) == 1 and isinstance(calls[0].args[0], torch._ops.OpOverload) and calls[0].kwargs
    ours, theirs = x.clone(), x.clone()
    same((g(ours), ours), (f(testlib, theirs), theirs))
    again = make_fx(g, tracing_mode=mode)(x.clone())
    assert code(again) == code(g).replace("x_1", "arg0_1")
    same(torch.fx.Interpreter(g).run(x.clone()), f(testlib, x.clone()))
    if mode == "real":
        same(copy.deepcopy(g)(x.clone()), f(testlib, x.clone()))
    dead = len(g.graph.nodes)
    g.graph.eliminate_dead_code()
    assert len(g.graph.nodes) <= dead
    g.recompile()
    same(g(x.clone()), f(testlib, x.clone()))


@pytest.mark.parametrize("f", MUTATIONS)
def test_auto_functionalized_exported(testlib, f):
    class Module(nn.Module):
        def forward(self, x):
            return f(testlib, x)

    x = torch.tensor([1.0, 2.0, 3.0])
    program = torch.export.export(Module(), (x.clone(),))
    for p in (program, program.run_decompositions(), program.run_decompositions().run_decompositions()):
        assert "torch.ops.higher_order.auto_functionalized(torch.ops.hopslib" in p.graph_module.code
        ours, theirs = x.clone(), x.clone()
        same((p.module()(ours), ours), (f(testlib, theirs), theirs))


def test_auto_functionalized_custom_op():
    @torch.library.custom_op("hopslib::grow", mutates_args={"x"})
    def grow(x: torch.Tensor, by: float) -> None:
        x.add_(by)

    def f(x):
        y = x * 2
        grow(y, 3.0)
        return y

    text, given = forward_code(f, torch.ones(2))
    assert "torch.ops.higher_order.auto_functionalized(torch.ops.hopslib.grow.default, x = mul, by = 3.0)" in text
    same(given, torch.full((2,), 5.0))
    x = torch.ones(2, requires_grad=True)
    compiled = aot_function(f, fw_compiler=nop)
    same(compiled(x).detach(), torch.full((2,), 5.0))


def test_a_derived_op_dies_with_its_op():
    lib = torch.library.Library("hopsgone", "FRAGMENT")
    lib.define("f(Tensor(a!) x) -> ()")
    lib.impl("f", lambda x: (x.add_(1), None)[1], "CPU")
    same(torch.ops.higher_order.auto_functionalized(torch.ops.hopsgone.f.default, x=torch.ones(2))[1], torch.full((2,), 2.0))
    assert not [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("higher_order::auto")]
    lib._destroy()
    lib = torch.library.Library("hopsgone", "FRAGMENT")
    lib.define("f(Tensor(a!) x, int k) -> ()")
    lib.impl("f", lambda x, k: (x.add_(k), None)[1], "CPU")
    same(torch.ops.higher_order.auto_functionalized(torch._C._op_overload("hopsgone", "f", ""), x=torch.ones(2), k=4)[1], torch.full((2,), 5.0))
    lib._destroy()


def test_getitem_nodes_of_all_results():
    g = make_fx(lambda g, x, w: torch.ops.aten.convolution_backward(g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False])[0])(
        torch.ones(1, 1, 2, 2), torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3))
    assert [n.name for n in g.graph.nodes if n.name.startswith("getitem")] == ["getitem", "getitem_1", "getitem_2"]


# ---- out_dtype ----

out_dtype, aten = torch.ops.higher_order.out_dtype, torch.ops.aten


def test_out_dtype_values():
    from taper._higher_order_ops.out_dtype import out_dtype as named

    assert named is out_dtype is torch._higher_order_ops.out_dtype
    i8 = torch.tensor([100, -100, 27], dtype=torch.int8)
    half = torch.tensor([300.0, 10.0], dtype=torch.float16)
    rows = [        # as PyTorch 2.13 gives them
        (out_dtype(aten.mul.Tensor, torch.int32, i8, i8), [10000, 10000, 729], torch.int32),
        (out_dtype(aten.mul.Tensor, torch.int32, i8, torch.tensor(2.5)), [250, -250, 67], torch.int32),
        (out_dtype(aten.mul.Tensor, torch.int32, i8, 2.5), [250, -250, 67], torch.int32),
        (out_dtype(aten.mul.Scalar, torch.int16, i8, True), [100, -100, 27], torch.int16),
        (out_dtype(aten.mul.Scalar, torch.float64, i8, 3), [300.0, -300.0, 81.0], torch.float64),
        (out_dtype(aten.mul.Tensor, torch.float32, half, half), [90000.0, 100.0], torch.float32),
        (out_dtype(aten.mul.Tensor, torch.bool, i8, i8), [True, True, True], torch.bool),
        (out_dtype(aten.linear.default, torch.int32, i8[None], torch.ones(2, 3, dtype=torch.int8)), [[27, 27]], torch.int32),
        (out_dtype(aten.mm.default, torch.int32, i8[:, None], i8[None]), [[10000, -10000, 2700], [-10000, 10000, -2700], [2700, -2700, 729]], torch.int32),
    ]
    for got, want, dtype in rows:
        assert got.dtype == dtype and got.tolist() == want


def test_out_dtype_errors():
    x = torch.ones(2)
    for op, args, text in [
        (aten.add.Tensor, (x, x), "out_dtype only allows the following operators: .<OpOverload.op='aten.linear', overload='default'.>, "),
        (aten.add_.Tensor, (x, x), "out_dtype's first argument needs to be a functional operator"),
        (aten.max.dim, (x, 0), "out_dtype's can only apply to ops that return a single tensorInstead got .Tensor, Tensor."),
        (aten.mul, (x, x), "out_dtype's first argument must be an OpOverload"),
    ]:
        with pytest.raises(ValueError, match=text):
            out_dtype(op, torch.int32, *args)


@pytest.mark.parametrize("mode", MODES)
def test_out_dtype_recorded(mode):
    def f(x, y):
        return out_dtype(aten.mm.default, torch.int32, x, y) + 1

    x, y = torch.ones(2, 3, dtype=torch.int8), torch.full((3, 4), 100, dtype=torch.int8)
    want = """\
def forward(self, x_1, y_1):
out_dtype = torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x_1, y_1);  x_1 = y_1 = None
add = torch.ops.aten.add.Tensor(out_dtype, 1);  out_dtype = None
return add"""
    retraced = want.replace("x_1", "arg0_1").replace("y_1", "arg1_1")
    for made in (make_fx(f, tracing_mode=mode)(x, y), make_fx(torch.func.functionalize(f), tracing_mode=mode)(x, y),
                 make_fx(f, tracing_mode=mode, pre_dispatch=True)(x, y)):
        assert code(made) == want
        same(made(x, y), torch.full((2, 4), 301, dtype=torch.int32))
        node = next(n for n in made.graph.nodes if n.name == "out_dtype")
        assert node.meta["val"].dtype == torch.int32 and node.meta["val"].dim() == 2
        assert code(make_fx(made, tracing_mode=mode)(x, y)) == retraced
    text, given = forward_code(f, x, y)
    assert text == retraced.replace("return add", "return (add,)")
    same(given, f(x, y))


def test_out_dtype_exported():
    class Module(nn.Module):
        def forward(self, x):
            return out_dtype(aten.mul.Tensor, torch.int32, x, 3)

    x = torch.tensor([100, 2], dtype=torch.int8)
    program = torch.export.export(Module(), (x,))
    for p in (program, program.run_decompositions()):
        assert "out_dtype = torch.ops.higher_order.out_dtype(torch.ops.aten.mul.Tensor, torch.int32, x, 3)" in p.graph_module.code
        same(p.module()(x), torch.tensor([300, 6], dtype=torch.int32))


# ---- effects ----


def test_effects_stay_and_keep_their_order(capfd):
    def f(x):
        aten._print("first")
        y = x + 1
        aten._print("second")
        torch.sin(x)
        aten._assert_async.msg(y.sum() > 0, "not positive")
        return y

    x = torch.ones(2)
    wanted = ["first", "second"]

    class Module(nn.Module):
        def forward(self, x):
            return f(x)

    traced = make_fx(f)(x)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    graphs = [traced]
    compiled = aot_function(f, fw_compiler=lambda g, _: (graphs.append(g), nop(g, _))[1])
    same(compiled(x), x + 1)
    program = torch.export.export(Module(), (x,)).run_decompositions()
    graphs.append(program.graph_module)
    for g in graphs:
        names = [n.target._name_only for n in g.graph.nodes if n.op == "call_function"]
        assert names == ["_print", "add", "_print", "sum", "gt", "_assert_async"]
    for run in (traced, compiled, program.module()):
        capfd.readouterr()
        same(run(x), x + 1)
        assert capfd.readouterr().out.split() == wanted
        with pytest.raises(RuntimeError, match="not positive"):
            run(-2 * x)


@pytest.mark.parametrize("grow", [lambda x: torch.cat([x, x]), lambda x: x.double()])
def test_what_loops_carry_keeps_its_form(grow):
    with pytest.raises(RuntimeError, match=r"Expected body_fn_output and carried_inputs to have same metadata but found:\npair\[1\]"):
        torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, grow(x)), (torch.tensor(0), torch.ones(2)))
    with pytest.raises(RuntimeError, match=r"Expected init and carry to have same metadata but found:\npair\[0\]"):
        torch._higher_order_ops.scan(lambda carry, x: (grow(carry), x), torch.ones(2), torch.ones(3, 2))


def test_cond_of_a_batch_of_predicates():
    def either(p, x):
        return torch.cond(p, lambda x: x + 1, lambda x: x - 1, (x,))
    out = torch.func.vmap(either)(torch.tensor([True, False]), torch.zeros(2, 3))
    assert out.tolist() == [[1.0] * 3, [-1.0] * 3]
