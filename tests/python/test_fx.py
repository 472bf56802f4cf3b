"""torch.fx: graphs, their text, tracing, modules made of graphs, and what keeps all that alive."""
import copy
import gc
import math
import operator
import pickle
import typing
import warnings
import weakref

import pytest
import taper as torch
from taper import fx, nn


def code(f, **kwargs):
    return fx.symbolic_trace(f, **kwargs).code


def body(text):
    """The lines between signature and end."""
    return [line.strip() for line in text.strip().split("\n")[1:]]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.register_buffer("shift", torch.ones(4))
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor, y: float = 1.0):
        a = self.layers(x) * self.scale + self.shift
        return torch.relu(a) + y, {"a": a[0:2, ...], "n": None}


BLOCK = '''


def forward(self, x : torch.Tensor, y : float = 1.0):
    layers_0 = getattr(self.layers, "0")(x);  x = None
    layers_1 = getattr(self.layers, "1")(layers_0);  layers_0 = None
    scale = self.scale
    mul = layers_1 * scale;  layers_1 = scale = None
    shift = self.shift
    add = mul + shift;  mul = shift = None
    relu = torch.relu(add)
    add_1 = relu + y;  relu = y = None
    getitem = add[(slice(0, 2, None), Ellipsis)];  add = None
    return (add_1, {'a': getitem, 'n': None})
    '''


# ---- tracing and code ----
def test_module_traced_and_run():
    block = Block()
    traced = fx.symbolic_trace(block)
    assert traced.code == BLOCK
    x = torch.randn(5, 3)
    want, got = block(x, 2.0), traced(x, 2.0)
    assert torch.equal(want[0], got[0]) and torch.equal(want[1]["a"], got[1]["a"]) and got[1]["n"] is None
    assert [name for name, _ in traced.named_parameters()] == ["scale", "layers.0.weight", "layers.0.bias"]
    assert str(traced).startswith("Block(\n  (layers): Module(\n    (0): Linear")
    got[0].sum().backward()
    assert block.scale.grad is not None


def test_operators():
    def f(x, y):
        return (x + 1, 1 - x, x * y, x / y, x // 2, x % y, x ** 2, x @ y, x << 1, x >> 1, x & y, x | y, x ^ y, -x, +x, ~x, x < y, x <= y,
                x > y, x >= y, x == y, x != y, abs(x), x[0], x[0, :], 2 ** x)
    lines = body(code(f))
    for want in ("add = x + 1", "sub = 1 - x", "mul = x * y", "truediv = x / y", "floordiv = x // 2", "mod = x % y", "pow_1 = x ** 2",
                 "matmul = x @ y", "lshift = x << 1", "rshift = x >> 1", "and_ = x & y", "or_ = x | y", "xor = x ^ y", "neg = -x", "pos = +x",
                 "invert = ~x", "lt = x < y", "le = x <= y", "gt = x > y", "ge = x >= y", "eq = x == y", "ne = x != y;  y = None",
                 "abs_1 = _operator_abs(x)", "getitem = x[0]", "getitem_1 = x[(0, slice(None, None, None))]", "pow_2 = 2 ** x;  x = None"):
        assert want in lines, want


def test_calls_and_literals():
    def f(x):
        a = torch.cat([x, x], dim=0).to(torch.float64)
        b = torch.ops.aten.add.Tensor(a, 1, alpha=2.0)
        c = torch.nn.functional.gelu(b)
        d = torch.ops.aten.full.default([2], float("-inf"), dtype=torch.float32, device=torch.device("cpu"))
        return c.sum(dim=1, keepdim=True).T, math.floor(x), x.shape[0], float("nan")
    text = code(f)
    for want in ("cat = torch.cat([x, x], dim = 0)", "to = cat.to(torch.float64);  cat = None",
                 "add_tensor = torch.ops.aten.add.Tensor(to, 1, alpha = 2.0);  to = None",
                 "gelu = torch._C._nn.gelu(add_tensor);  add_tensor = None", "sum_1 = gelu.sum(dim = 1, keepdim = True);  gelu = None",
                 "getattr_2 = sum_1.T;  sum_1 = None", "floor = math_floor(x)", "return (getattr_2, floor, getitem, nan)"):
        assert want in text, want
    assert text.startswith('\ntorch.fx._symbolic_trace.wrap("math_floor")\n\ndef forward')
    assert math.floor(1.5) == 1 and not hasattr(math.floor, "__wrapped__")


def test_signatures():
    def f(x: typing.List[int], *args, k=None, **kw) -> torch.Tensor:
        return x, args, kw, k
    assert code(f).strip().startswith("def forward(self, x : typing_List[int], k = None, *args, **kw):\n    _args = args\n    _kw = kw")
    def g(x: typing.Optional[torch.Tensor], y: "list[int]" = 3):
        return x
    assert "x : typing_Union[torch.Tensor,NoneType], y : _list_int_ = 3" in code(g)


class Pair(typing.NamedTuple):
    a: object
    b: object


@fx.wrap
def kept_whole(x):
    return x if x is None else x + 1


def test_wrap_and_namedtuple():
    def f(x):
        return Pair(kept_whole(x), 1)
    traced = fx.symbolic_trace(f)
    assert [n.op for n in traced.graph.nodes] == ["placeholder", "call_function", "call_function", "output"]
    assert traced(torch.zeros(1)) == Pair(torch.ones(1), 1)
    assert kept_whole(None) is None
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fx.wrap("len")


ITERATION = "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop"


@pytest.mark.parametrize("f, error, words", [
    (lambda x: 1 if x else 2, fx.proxy.TraceError, "symbolically traced variables cannot be used as inputs to control flow"),
    (lambda x: [y for y in x], fx.proxy.TraceError, ITERATION),
    (lambda x: 1 in x, fx.proxy.TraceError, ITERATION),
    (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing by default"),
    (lambda x: int(x), TypeError, "not 'Proxy'"),
    (lambda x: {x: 1}, RuntimeError, "Keys for dictionaries used as an argument cannot contain a Node. Got key: x"),
    (lambda x: (x, print), NotImplementedError, "argument of type: <class 'builtin_function_or_method'>"),
])
def test_what_cannot_be_traced(f, error, words):
    with pytest.raises(error) as caught:
        fx.symbolic_trace(f)
    assert words in str(caught.value)


def test_unpacking_a_proxy():
    def f(x):
        a, b = x
        return a + b
    assert body(code(f)) == ["getitem = x[0]", "getitem_1 = x[1];  x = None", "add = getitem + getitem_1;  getitem = getitem_1 = None", "return add"]


def test_concrete_args():
    def f(x, flag, y=None):
        return x + 1 if flag else x - 1
    text = code(f, concrete_args={"flag": True, "y": None})
    assert "eq = flag_1 == True;  flag_1 = None" in text and "add = x + 1" in text
    assert "torch._assert(eq, 'flag has been specialized to have value True but got another value');  eq = _assert = None" in text
    assert "torch.fx._symbolic_trace._assert_is_none(y_1, 'y has been specialized to have value None but got another value')" in text


def test_constants_become_attributes():
    traced = fx.symbolic_trace(lambda x: x + torch.ones(2) * 3)
    assert body(traced.code)[0] == "_tensor_constant0 = self._tensor_constant0"
    assert torch.equal(traced(torch.zeros(2)), torch.full((2,), 3.0))


def test_stack_traces():
    def f(x):
        return torch.relu(x) + 1
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(f)
    traces = [n.stack_trace for n in graph.nodes if n.op == "call_function"]
    assert all(t.startswith('File "') and t.endswith("return torch.relu(x) + 1") and t.count("File") == 1 for t in traces)
    text = fx.GraphModule(tracer.root, graph).print_readable(print_output=False)
    assert text.count("# File: ") == 1 and "in f, code: return torch.relu(x) + 1" in text


def test_nodes_remember_their_modules():
    graph = fx.symbolic_trace(Block()).graph
    stacks = {n.name: list(n.meta.get("nn_module_stack", {}).items()) for n in graph.nodes}
    assert stacks["layers_1"] == [("layers", ("layers", nn.Sequential)), ("layers.1", ("layers.1", nn.ReLU))] and stacks["add"] == []
    traced = fx.GraphModule(Block(), graph)
    for n in graph.nodes:
        n.meta.update(stack_trace="here", other=1)
    made = fx.Transformer(traced).transform()
    metas = {n.name: n.meta for n in made.graph.nodes}
    assert metas["add"] == {"stack_trace": "here"} and sorted(metas["layers_1"]) == ["nn_module_stack", "stack_trace"]
    assert metas["output"] == {"stack_trace": "here", "other": 1} and metas["x"] == {}


# ---- graphs ----
def chain():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.relu, (x,))
    b = g.call_method("neg", (a,))
    g.output((b,))
    return g, x, a, b


def names(g):
    return [n.name for n in g.nodes]


def test_listing_and_table():
    g, *_ = chain()
    assert str(g) == """graph():
    %x : [num_users=1] = placeholder[target=x]
    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
    %neg : [num_users=1] = call_method[target=neg](args = (%relu,), kwargs = {})
    return (neg,)"""
    lines = torch._C._fx_table(g).split("\n")
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"] and set(lines[1]) == {"-", " "} and len(lines) == 6


def test_nodes_attributes():
    g = fx.Graph()
    x = g.placeholder("x", type_expr=torch.Tensor, default_value=3)
    n = g.call_function(torch.cat, ([x, (x,)],), {"dim": 0, "d": {"k": x, 1: slice(x, None)}})
    assert (n.op, n.name, n.target, n.type, x.type) == ("call_function", "cat", torch.cat, None, torch.Tensor)
    assert x.args == (3,) and n.args == ([x, (x,)],) and n.kwargs == {"dim": 0, "d": {"k": x, 1: slice(x, None)}}
    assert type(n.args[0]).__name__ == "immutable_list" and type(n.kwargs["d"]).__name__ == "immutable_dict"
    assert n.all_input_nodes == [x] and list(x.users) == [n] and n in x.users and len(x.users) == 1 and repr(x.users) == "{cat: None}"
    assert x.next is n and n.prev is x and n.next is g._root and n.graph is g and repr(n) == "cat" and x < n
    with pytest.raises(TypeError, match="'immutable_list' object does not support mutation"):
        n.args[0].append(1)
    n.args = (x,)
    n.kwargs = {}
    n.target = operator.neg
    assert n.format_node() == "%cat : [num_users=0] = call_function[target=operator.neg](args = (%x,), kwargs = {})"
    n.update_arg(0, 5)
    n.insert_arg(1, x)
    n.update_kwarg("alpha", 2)
    assert n.args == (5, x) and n.kwargs == {"alpha": 2}
    with pytest.raises(AssertionError, match="insert_args index must be between 0 and len"):
        n.insert_arg(7, x)
    n.note = "mine"
    del n
    gc.collect()
    assert list(g.nodes)[1].note == "mine"


def test_names():
    g = fx.Graph()
    wishes = ["x", "x", "x_1", "foo_7", "foo", "foo", "class", "3x y", "abs", "torch", "FooBar"]
    got = [g.create_node("placeholder", "t", name=wish).name for wish in wishes]
    assert got == ["x", "x_1", "x_2", "foo_7", "foo", "foo_8", "class_1", "_3x_y", "abs_1", "torch_1", "FooBar"]
    assert [g.call_function(f).name for f in (nn.Linear, torch.ops.aten.sum.dim_IntList, operator.and_, len)] == [
        "linear", "sum_dim_int_list", "and_", "len_1"]
    assert g.get_attr("Foo.barBaz.0").name == "foo_bar_baz_0"


def test_insertion_points():
    g, x, a, b = chain()
    with g.inserting_after(x):
        for f in (torch.exp, torch.sin):
            g.call_function(f, (x,))
    with g.inserting_before(b):
        g.call_function(torch.cos, (x,))
        with g.inserting_before():
            g.placeholder("p")
            g.placeholder("q")
        g.call_function(torch.tan, (x,))
    g.call_function(torch.floor, (x,))
    assert names(g) == ["q", "p", "x", "sin", "exp", "relu", "cos", "tan", "neg", "output", "floor"]
    b.append(list(g.nodes)[3])
    x.prepend(list(g.nodes)[1])
    assert names(g) == ["q", "p", "x", "exp", "relu", "cos", "tan", "neg", "sin", "output", "floor"]


def test_replacing_and_erasing():
    g, x, a, b = chain()
    with g.inserting_after(a):
        c = g.call_function(torch.exp, (x,))
    assert a.replace_all_uses_with(c) == [b] and b.args == (c,) and not a.users
    assert c.replace_all_uses_with(a, delete_user_cb=lambda user: False) == []
    b.replace_input_with(c, x)
    assert b.args == (x,)
    g.erase_node(c)
    assert g.eliminate_dead_code() and names(g) == ["x", "neg", "output"] and not g.eliminate_dead_code()
    with pytest.warns(UserWarning, match="on an already erased node"):
        g.erase_node(c)


def test_iteration_survives_changes():
    g, x, a, b = chain()
    seen = []
    for n in g.nodes:
        seen.append(n.name)
        if n is a:
            with g.inserting_after(n):
                new = g.call_function(torch.exp, (n,))
            n.replace_all_uses_with(new, lambda user: user is not new)
        elif n.name == "exp":
            n.replace_all_uses_with(a)
            g.erase_node(n)
    assert seen == ["x", "relu", "exp", "neg", "output"] and names(g) == ["x", "relu", "neg", "output"]
    assert [n.name for n in reversed(g.nodes)] == ["output", "neg", "relu", "x"] and len(g.nodes) == 4


@pytest.mark.parametrize("act, error, words", [
    (lambda g, x, a, b: g.erase_node(a), RuntimeError, "Tried to erase Node relu but it still had 1 users in the graph: {neg: None}!"),
    (lambda g, x, a, b: fx.Graph().erase_node(list(g.nodes)[-1]), RuntimeError, "Attempting to remove output from wrong graph!"),
    (lambda g, x, a, b: fx.Graph().call_function(torch.relu, (x,)), RuntimeError, "Argument 'x' does not belong to this Graph"),
    (lambda g, x, a, b: g.create_node("foo", "bar"), AssertionError, "op 'foo' is not in _legal_ops"),
    (lambda g, x, a, b: g.create_node("call_function", "bar"), ValueError, "target bar has type str but a Callable is expected"),
    (lambda g, x, a, b: g.call_function(torch.relu, [x]), AssertionError, "args must be a tuple, got <class 'list'>"),
    (lambda g, x, a, b: x.prepend(fx.Graph().placeholder("y")), AssertionError, "Attempting to move a Node into a different Graph"),
    (lambda g, x, a, b: g.inserting_before(fx.Graph().placeholder("y")), AssertionError, "Node to insert before is not in graph."),
    (lambda g, x, a, b: (b.append(a), g.lint()), RuntimeError, "Argument 'relu' of Node 'neg' was used before it has been defined!"),
    (lambda g, x, a, b: (b.append(a), copy.deepcopy(g)), RuntimeError, "used before it has been defined!"),
    (lambda g, x, a, b: (setattr(b, "name", "relu"), g.lint()), RuntimeError, "Node redefined name relu!"),
    (lambda g, x, a, b: fx.GraphModule(3, g), RuntimeError, "Unsupported type 3 passed for root!"),
    (lambda g, x, a, b: (setattr(a, "op", "get_attr"), g.python_code("self")), ValueError, "its target is not of that kind"),
])
def test_mistakes(act, error, words):
    with pytest.raises(error) as caught:
        act(*chain())
    assert words in str(caught.value)


def test_lint_looks_into_the_module():
    g = fx.Graph()
    n = g.call_module("sub")
    module = nn.Module()
    module.sub = nn.Linear(1, 1)
    fx.GraphModule(module, g)
    g.lint()
    for target, words in (("nope.q", "Node sub target nope.q references nonexistent attribute nope of "),
                          ("sub.weight", "Node sub target sub.weight weight of sub does not reference an nn.Module")):
        n.target = target
        with pytest.raises(RuntimeError) as caught:
            g.lint()
        assert str(caught.value) == words


def test_purity():
    g = fx.Graph()
    x = g.placeholder("x")
    rows = [(torch.ops.aten.add_.Tensor, True), (torch.ops.aten.add.Tensor, False), (torch.ops.aten.rand.default, True),
            (operator.setitem, True), (torch._assert, True), (torch.relu, False), (operator.iadd, False)]
    assert [g.call_function(f, (x,)).is_impure() for f, _ in rows] == [want for _, want in rows]
    mine = lambda x: x
    fx.has_side_effect(mine)
    assert g.call_function(mine, (x,), name="mine").is_impure() and x.is_impure() and not g.get_attr("w").is_impure()


def test_copies():
    g, x, a, b = chain()
    a.meta["k"] = [1]
    again = copy.deepcopy(g)
    assert str(again) == str(g) and again is not g
    twin = list(again.nodes)[1]
    assert twin is not a and twin.meta == {"k": [1]} and twin.meta is not a.meta and twin.graph is again
    back = pickle.loads(pickle.dumps(g))
    assert str(back) == str(g) and list(back.nodes)[1].meta == {"k": [1]}
    into, values = fx.Graph(), {}
    result = into.graph_copy(g, values)
    assert result == (values[b],) and names(into) == ["x", "relu", "neg"]
    assert into.node_copy(a, lambda n: values[n]).name == "relu_1"
    assert copy.deepcopy(a).graph is not g


def test_find_nodes():
    g, x, a, b = chain()
    assert g.find_nodes(op="call_function", target=torch.relu) == [a] and g.find_nodes(op="call_method", target="neg") == [b]
    assert g.find_nodes(op="call_function", target=torch.exp) == [] and g.output_node().op == "output"
    with pytest.raises(StopIteration):
        fx.Graph().output_node()
    g.erase_node(g.output_node())
    with pytest.raises(AssertionError, match="Expected output node, got op=call_method"):
        g.output_node()
    with pytest.raises(TypeError, match=r"Graph.find_nodes\(\) missing 1 required keyword-only argument: 'op'"):
        g.find_nodes()
    with pytest.raises(AssertionError, match="target must not be None for call_function op"):
        g.find_nodes(op="call_function")
    assert g.find_nodes(op="nothing") == []


def test_order_is_one_comparison():
    g, first = fx.Graph(), None
    first = last = g.placeholder("x")
    nodes = [first]
    for _ in range(80):                     # always between the same two: places run out and are given anew
        with g.inserting_after(first):
            nodes.insert(1, g.call_function(torch.neg, (first,)))
    assert list(g.nodes) == nodes == sorted(reversed(nodes)) and nodes[1] < nodes[2] and not nodes[2] < nodes[1] and last <= last


def test_uses_replaced_by_a_constant():
    g, x, a, b = chain()
    assert a.replace_all_uses_with(3) == [b] and b.args == (3,) and not a.users
    with pytest.raises(TypeError, match=r"Node.replace_all_uses_with\(\) missing 1 required positional argument: 'replace_with'"):
        a.replace_all_uses_with()


# ---- what lives how long ----
def test_nodes_outlive_the_variable_of_their_graph():
    g, x, a, b = chain()
    del g, x, b
    gc.collect()
    assert a.next.name == "neg" and str(a.graph).startswith("graph():") and a.graph.nodes is not None
    assert a is list(a.graph.nodes)[1]


def test_cycles_are_collected():
    class Mark:
        pass
    marks = []
    for close in ("meta", "callable", "attribute", "module"):
        g, x, a, b = chain()
        mark = Mark()
        marks.append(weakref.ref(mark))
        mark.node = a
        if close == "meta":
            a.meta["mark"] = mark
        elif close == "callable":
            mark.__name__, mark.__class__ = "mark", type("Callable", (Mark,), {"__call__": lambda self: None})
            a.target = mark
        elif close == "attribute":
            a.mark = mark
        else:
            fx.GraphModule({}, g).mark = mark
        del g, x, a, b, mark
    gc.collect()
    assert [m() for m in marks] == [None] * 4


def test_meta_is_one_dict():
    g, x, a, b = chain()
    a.meta["val"] = 1
    assert a.meta == {"val": 1} and a.meta is a.meta
    a.stack_trace = "here"
    assert a.meta["stack_trace"] == "here" == a.stack_trace
    with pytest.raises(TypeError):
        a.meta = 3


# ---- modules of graphs ----
def test_graph_module_copies_and_pickles():
    block = Block()
    traced = fx.symbolic_trace(block)
    x = torch.randn(2, 3)
    for again in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert again.code == traced.code and torch.equal(again(x)[0], traced(x)[0]) and again.graph is not traced.graph
        assert again.graph.owning_module is again and type(again).__name__ == "GraphModule"
        assert [n for n, _ in again.named_buffers()] == ["shift"] and again.scale is not traced.scale


def test_recompile_and_submodules():
    traced = fx.symbolic_trace(lambda x: torch.relu(x))
    next(n for n in traced.graph.nodes if n.op == "call_function").target = torch.neg
    assert torch.equal(traced(torch.ones(1)), torch.ones(1))
    traced.recompile()
    assert torch.equal(traced(torch.ones(1)), -torch.ones(1)) and "torch.neg(x)" in traced.code
    assert traced.add_submodule("a.b", nn.Linear(1, 1)) and isinstance(traced.a.b, nn.Linear)
    traced.delete_all_unused_submodules()
    assert not hasattr(traced, "a") and not traced.delete_submodule("a.b")
    with pytest.raises(AssertionError, match="Expected a Graph instance"):
        traced.graph = 3


def test_hooks_hear_of_changes():
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    heard = []
    traced._register_create_node_hook(lambda node: heard.append(("new", node.name)))
    traced._register_erase_node_hook(lambda node: heard.append(("gone", node.name)))
    relu = traced.graph.find_nodes(op="call_function", target=torch.relu)[0]
    with traced._set_replace_hook(lambda old, new, user: heard.append((old.name, new, user.name))), traced.graph.inserting_after(relu):
        neg = traced.graph.call_function(torch.neg, relu.args)
        relu.replace_all_uses_with(neg)
    traced.graph.erase_node(relu)
    assert heard == [("new", "neg"), ("relu", "neg", "add"), ("gone", "relu")]


READABLE = '''class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[2, 3]"):
        # No stacktrace found for following nodes
        t: "f32[3, 2]" = x.t();  x = None

        # File: model.py:16 in forward, code: return t + 1
        add: "f32[3, 2]" = t + 1;  t = None
        return (add,)
'''


def test_print_readable():
    g = fx.Graph()
    x = g.placeholder("x")
    t = g.call_method("t", (x,))
    a = g.call_function(operator.add, (t, 1))
    g.output((a,))
    x.meta["val"], t.meta["tensor_meta"], a.meta["val"] = torch.ones(2, 3), fx.passes.shape_prop._extract_tensor_metadata(torch.ones(3, 2)), torch.ones(2, 3).t()
    a.stack_trace = 'File "main.py", line 3, in run\n    model(x)\n  File "model.py", line 16, in forward\n    return t + 1'
    module = fx.GraphModule({}, g)
    assert module.print_readable(print_output=False) == READABLE
    assert 'add: "f32[3, 2][1, 3]cpu" = t + 1' in module.print_readable(print_output=False, include_stride=True, include_device=True)


def test_code_generators():
    class Shouting(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation, **kwargs):
            return super().gen_fn_def(free_vars, maybe_return_annotation) + "\n    # heard"

        def generate_output(self, output_args, **kwargs):
            return f"return [{output_args!r}]"
    g, *_ = chain()
    g.set_codegen(Shouting())
    text = g.python_code("self").src
    assert text.startswith("\n\n\ndef forward(self, x):\n    # heard\n    relu = ") and text.endswith("return [(neg,)]\n    ")
    assert fx.GraphModule({}, g)(torch.ones(1))[0][0] == -1


# ---- interpreters ----
def test_interpreter_and_transformer():
    block = Block()
    traced = fx.symbolic_trace(block)
    x = torch.randn(2, 3)

    class Counting(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            self.count = getattr(self, "count", 0) + 1
            return super().call_function(target, args, kwargs)
    run = Counting(traced)
    assert torch.equal(run.run(x, 2.0)[0], traced(x, 2.0)[0]) and run.count == 5
    assert torch.equal(fx.Interpreter(traced).run(x)[0], traced(x)[0])

    class Sigmoid(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.sigmoid if target is torch.relu else target, args, kwargs)
    text = Sigmoid(traced).transform().code
    assert text == BLOCK.replace("torch.relu(", "torch.sigmoid(").replace("relu", "sigmoid").replace("x : torch.Tensor, y : float", "x, y")


def test_interpreter_says_where():
    traced = fx.symbolic_trace(lambda x: torch.relu(x).nope())
    with pytest.raises(AttributeError) as caught:
        fx.Interpreter(traced).run(torch.ones(1))
    assert "While executing %nope : [num_users=1] = call_method[target=nope](args = (%relu,), kwargs = {})" in str(caught.value)
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x, but one was not passed in!"):
        fx.Interpreter(traced).run()


def test_shape_prop():
    traced = fx.symbolic_trace(lambda x: torch.relu(x).sum())
    fx.passes.shape_prop.ShapeProp(traced).propagate(torch.ones(2, 3))
    shapes = [n.meta["tensor_meta"].shape for n in traced.graph.nodes]
    assert shapes == [(2, 3), (2, 3), (), ()] and list(traced.graph.nodes)[0].meta["tensor_meta"].stride == (3, 1)


def test_plan_runs_in_c():
    block = Block()
    traced = fx.symbolic_trace(block)
    plan = torch._C._FxPlan(traced.graph, traced)
    x = torch.randn(2, 3)
    want, got = traced(x, 2.0), plan(x, 2.0)
    assert torch.equal(want[0], got[0]) and torch.equal(want[1]["a"], got[1]["a"])
    g = fx.Graph()
    a = g.placeholder("a")
    g.output([g.call_function(torch.ops.aten.mul.Tensor, (g.call_function(torch.ops.aten.add.Tensor, (a, a), {"alpha": 2}), a))])
    assert torch.equal(torch._C._FxPlan(g)(torch.full((2,), 2.0))[0], torch.full((2,), 12.0))
    with pytest.raises(TypeError):
        torch._C._FxPlan(g)()
    with pytest.raises(RuntimeError, match="must match"):
        torch._C._FxPlan(traced.graph, traced)(torch.ones(2, 3), torch.ones(7))
    g = fx.Graph()
    g.output(g.call_function(lambda: 1 / 0, (), name="bad"))
    with pytest.raises(ZeroDivisionError):
        torch._C._FxPlan(g)()


def test_map_arg():
    g, x, a, b = chain()
    assert fx.node.map_arg([x, (1, a), {"k": x}, slice(x, 1)], lambda n: n.name) == ["x", (1, "relu"), {"k": "x"}, slice("x", 1, None)]
    assert fx.node.map_aggregate((1, Pair(2, [3])), lambda v: v + 1) == (2, Pair(3, [4]))
    with pytest.raises(AssertionError, match=r"torch.fx.map_arg\(a, fn\): fn must be a callable"):
        fx.node.map_arg(x, 3)


def test_a_hundred_thousand_nodes():
    import time
    g = fx.Graph()
    x = y = g.placeholder("x")
    for _ in range(100000):
        y = g.call_function(torch.add, (y, x))
    g.output(y)
    start = time.process_time()
    text = g.python_code("self").src
    g.lint()
    g.eliminate_dead_code()
    assert time.process_time() - start < 3        # 0.2 on an idle machine; quadratic work would take minutes
    assert text.count("\n") == 100005 and "add_99999 = torch.add(add_99998, x);  add_99998 = x = None" in text


def test_get_attr_warns():
    g = fx.Graph(owning_module=nn.Module())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        g.get_attr("nope")
    assert "Attempted to insert a get_attr Node with no underlying reference" in str(heard[0].message)


# ---- trees of inputs and results ----
TREES = '''class GraphModule(torch.nn.Module):
    def forward(self, x, y):
        x_k: "f32[2, 3]"; y_0: "f32[2]"; 

        x_k, y_0, = fx_pytree.tree_flatten_spec(([x], {'y':y}), self._in_spec)
        # No stacktrace found for following nodes
        add = torch.add(x_k, 1);  x_k = None
        return pytree.tree_unflatten((add, y_0), self._out_spec)
'''


def test_trees_of_inputs():
    from taper.fx.graph import _PyTreeCodeGen, _PyTreeInfo
    from taper.utils import _pytree as pytree
    g = fx.Graph()
    x, y = g.placeholder("x_k"), g.placeholder("y_0")
    x.meta["val"], y.meta["val"] = torch.ones(2, 3), torch.ones(2)
    g.output((g.call_function(torch.add, (x, 1)), y))
    spec = lambda tree: pytree.tree_flatten(tree)[1]
    g.set_codegen(_PyTreeCodeGen(_PyTreeInfo(["x", "y"], spec((({"k": 1},), {"y": [2]})), spec((1, [2])))))
    module = fx.GraphModule({}, g)
    assert module.print_readable(print_output=False) == TREES
    one, two = torch.ones(1), torch.zeros(2)
    for again in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        got = again({"k": one}, y=[two])
        assert torch.equal(got[0], one + 1) and type(got[1]) is list and torch.equal(got[1][0], two)


def test_concrete_trees():
    def f(d):
        return {"sum": d["a"] + d["b"][0]}
    traced = fx.symbolic_trace(f, concrete_args={"d": {"a": fx.PH, "b": [fx.PH]}})
    assert body(traced.code) == ["d_1, d_2, = fx_pytree.tree_flatten_spec([d], self._in_spec)", "add = d_1 + d_2;  d_1 = d_2 = None",
                                 "return pytree.tree_unflatten([add], self._out_spec)"]
    one = torch.ones(1)
    assert torch.equal(traced({"a": one, "b": [one]})["sum"], one + 1)
    assert torch.equal(fx.Interpreter(traced).run({"a": one, "b": [one]})["sum"], one + 1)


def test_members_of_the_root_are_listed_once():
    listed = []

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            for i in range(20):
                setattr(self, f"p{i}", nn.Parameter(torch.zeros(2)))
                self.register_buffer(f"b{i}", torch.zeros(2))

        def named_parameters(self, *args, **kwargs):
            listed.append("parameters")
            return super().named_parameters(*args, **kwargs)

        def named_buffers(self, *args, **kwargs):
            listed.append("buffers")
            return super().named_buffers(*args, **kwargs)

        def forward(self, x):
            for i in range(20):
                x = x * getattr(self, f"p{i}") + getattr(self, f"b{i}")
            self.late = nn.Parameter(torch.ones(2))
            return x - self.late

    traced = fx.symbolic_trace(Root())
    assert listed == ["parameters", "buffers", "parameters"]        # once more for the parameter that came later
    assert [n.target for n in traced.graph.nodes if n.op == "get_attr"][-3:] == ["p19", "b19", "late"]


def test_numbers_of_names_follow_the_last_one():
    graph = fx.Graph()
    wishes = "y_1 y_1 y_7 y_1 y y_4 y_1 y_2 y y_0 y_0"
    assert " ".join(graph.placeholder(w).name for w in wishes.split()) == "y_1 y_2 y_7 y_8 y y_4 y_5 y_6 y_9 y_0 y_3"


def test_names_of_the_package_are_there_when_asked_for():
    for name in fx.__all__:
        assert getattr(fx, name) is not None and name in dir(fx)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        fx.nothing


def test_constants_go_where_assigning_would_put_them():
    graph = fx.Graph()
    names = ["w", "b", "sub", "a.c", "plain"]
    graph.output(tuple(graph.get_attr(name) if name != "sub" else graph.call_module(name, (1,)) for name in names))
    values = {"w": nn.Parameter(torch.ones(1)), "b": torch.ones(2), "sub": nn.Identity(), "a.c": torch.ones(3), "plain": 5}
    module = fx.GraphModule(values, graph)
    assert list(module._parameters) == ["w"] and list(module._buffers) == ["b"] and list(module._modules) == ["sub", "a"]
    assert module.a.c is values["a.c"] and module.__dict__["plain"] == 5
    graph = fx.Graph()
    graph.output(graph.get_attr("training"))
    with pytest.raises(KeyError, match="attribute 'training' already exists"):
        fx.GraphModule({"training": torch.ones(1)}, graph)


def test_a_module_may_wrap_its_call():
    class Wrapped(nn.Module):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs) + 1

        def forward(self, *args, k=0):
            return sum(args) + k
    module = Wrapped()
    assert module() == 1 and module(1, 2) == 4 and module(*range(20), k=5) == sum(range(20)) + 6


def test_drawings():
    import xml.dom.minidom
    from taper.fx.passes.graph_drawer import FxGraphDrawer
    module = fx.symbolic_trace(Block())
    dot = FxGraphDrawer(module, "block").get_dot_graph()
    text = dot.to_string()
    assert text.startswith("digraph block {\nrankdir=TB;\n") and text.endswith("}\n") and "layers_0 -> layers_1;" in text
    assert 'x [label="{name=%x|op_code=placeholder\\n|target=x\\n|num_users=1\\n}", shape=record, fillcolor="AliceBlue"' in text
    assert '"layers.0.weight" -> layers_0;' in text
    picture = xml.dom.minidom.parseString(dot.create_svg())
    assert len(picture.getElementsByTagName("rect")) == len(module.graph.nodes)
    assert len(picture.getElementsByTagName("line")) == sum(len(node.all_input_nodes) for node in module.graph.nodes)
    with pytest.raises(RuntimeError, match="requires the pydot package"):
        dot.write_png("block.png")


def test_asserts_of_submodules_and_closures_are_rewritten():
    from taper.fx.experimental.rewriter import RewritingTracer
    least = 3

    class Inner(nn.Module):
        def forward(self, x):
            assert x.size(0) > least, "short"
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            y: int = self.inner(x)
            return y
    tracer = RewritingTracer()
    graph = tracer.trace(Outer())
    module = fx.GraphModule(tracer.root, graph)
    assert [node.args[1] for node in graph.find_nodes(op="call_function", target=torch._assert)] == ["short"]
    assert module(torch.ones(4)).shape == (4,)
    with pytest.raises(AssertionError, match="short"):
        module(torch.ones(3))
    assert type(Outer().inner) is Inner
