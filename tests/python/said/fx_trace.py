import operator

from said import attempt, case, say

import torch
import torch.fx as fx
import torch.nn as nn, math, typing, collections, dataclasses, inspect, functools
from torch.fx import Tracer, Proxy, symbolic_trace, wrap, PH, Interpreter, Transformer, GraphModule, ProxyableClassMeta
def tr(f, **k):
    try: say(symbolic_trace(f, **k).code)
    except BaseException as e: say("  raised", type(e).__name__, e)
@case
def errors():
    tr(lambda x: 1 if x else 2); tr(lambda x: len(x)); tr(lambda x: [y for y in x]); tr(lambda x: torch.add(*x)); tr(lambda x: torch.add(**x)); tr(lambda x: int(x)); tr(lambda x: float(x)); tr(lambda x: range(x)); tr(lambda x: x.keys()); tr(lambda x: 3 in x); tr(lambda x: x in [1]); tr(lambda x: {x: 1}); tr(lambda x: torch.add(x, {x: 1})); tr(lambda x: object()); tr(lambda x: torch.add(x, object())); tr(lambda x: math.sqrt(x)); tr(lambda x: str(x)); tr(lambda x: f"{x}"); tr(lambda x: not x); tr(lambda x: x and 1); tr(lambda x: x > 1 > 2); tr(lambda x: max(x, 1)); tr(lambda x: sum([x, x])); tr(lambda x: abs(x)); tr(lambda x: round(x)); tr(lambda x: x.__len__()); tr(lambda x: next(iter(x))); tr(lambda x: bool(x)); tr(lambda x: isinstance(x, torch.Tensor)); tr(lambda x: type(x).__name__); tr(lambda x: [*x]); tr(lambda x: (lambda a, b: a)(*x)); tr(lambda x: x[0:2:x]); tr(lambda x: complex(x)); tr(lambda x: x.__index__() if 0 else [1,2][x]); tr(lambda x: hash(x) and 1); tr(3); tr("q"); tr(lambda x: divmod(x, 2)); tr(lambda x: x.shape[0]); tr(lambda x: x.size(0) + 1); tr(lambda x: -x.dim()); tr(lambda x: x @ x.T); tr(lambda x: x(1, k=2)); tr(lambda x: x.a.b.c(1)); tr(lambda x: reversed(x)); tr(lambda x: x is None); tr(lambda x: x == None); tr(lambda: torch.ones(2)); tr(lambda *a: a[0]); tr(lambda **k: k["a"]); tr(lambda x, /, y, *, z=3: x + y + z)
    def assign(x): x[0] = 1; return x
    tr(assign)
    def aug(x): x += 1; return x
    tr(aug)
    def delit(x): del x[0]; return x
    tr(delit)
    def setat(x): x.foo = 1; return x
    tr(setat)
    def unpack(x): a, b = x; return a + b
    tr(unpack)
    def unpack2(x): a, (b, c) = x; return a + b + c
    tr(unpack2)
    def star(x): a, *b = x; return a
    tr(star)
    def asrt(x):
        assert x.shape[0] == 2, "m"
        return x
    tr(asrt)
    def whil(x):
        while x: pass
    tr(whil)
@case
def concrete():
    def f(x, flag, y=None, *a): return x + 1 if flag else x - 1
    tr(f, concrete_args={"flag": True}); tr(f, concrete_args={"flag": False, "y": 3}); tr(f, concrete_args={"flag": None}); tr(f, concrete_args={"zz": 1}); tr(f, concrete_args={"flag": 1.5, "y": "s"}); tr(f, concrete_args={"flag": torch.ones(1)})
    def g(x): return x["a"] + x["b"][0]
    tr(g, concrete_args={"x": {"a": PH, "b": [PH, PH]}}); tr(g, concrete_args={"x": {"a": PH, "b": [1, PH]}}); tr(g, concrete_args={"x": PH})
    gm = symbolic_trace(g, concrete_args={"x": {"a": PH, "b": [PH, 5]}}); say(gm.graph); attempt(gm, {"a": torch.ones(1), "b": [torch.ones(1), 5]}); attempt(gm, {"a": torch.ones(1), "b": [torch.ones(1), 6]})
    def h(x, y): return {"k": (x[0], y), "l": [x[1]]}
    tr(h, concrete_args={"x": (PH, PH)}); gm = symbolic_trace(h, concrete_args={"x": (PH, PH)}); attempt(gm, (1, 2), 3)
    gm = symbolic_trace(f, concrete_args={"flag": True}); attempt(gm, torch.ones(1), True); attempt(gm, torch.ones(1), False); say(repr(PH))
class Leaf(nn.Module):
    def forward(s, x): return x * 2
class Net(nn.Module):
    def __init__(s): super().__init__(); s.leaf = Leaf(); s.lin = nn.Linear(2, 2); s.seq = nn.Sequential(nn.ReLU(), Leaf()); s.w = nn.Parameter(torch.ones(3, 4)); s.register_buffer("b", torch.ones(2)); s.k = 3
    def forward(s, x): return s.seq(s.leaf(s.lin(x))) + s.w.shape[0] + s.b + s.k
@case
def tracers():
    class A(Tracer):
        def is_leaf_module(s, m, n): say("leaf?", type(m).__name__, n); return isinstance(m, Leaf) or super().is_leaf_module(m, n)
    say(GraphModule(Net(), A().trace(Net())).code)
    class B(Tracer):
        def call_module(s, m, fwd, a, k): say("call", type(m).__name__, s.path_of_module(m)); return super().call_module(m, fwd, a, k)
        def create_proxy(s, kind, target, args, kwargs, *r, **k): say("proxy", kind, target); return super().create_proxy(kind, target, args, kwargs, *r, **k)
        def create_node(s, kind, target, args, kwargs, *r, **k): say("node", kind, target); return super().create_node(kind, target, args, kwargs, *r, **k)
        def getattr(s, attr, val, cache): say("getattr", attr, type(val).__name__); return super().getattr(attr, val, cache)
        def create_arg(s, a): return super().create_arg(a)
    B().trace(Net())
    class C(Tracer):
        def to_bool(s, o): return True
        def iter(s, o): return iter([o[0], o[1]])
        def keys(s, o): return ["p", "q"]
    say(GraphModule(nn.Module(), C().trace(lambda x: (1 if x else 2, [y for y in x], x.keys()))).code)
    say(GraphModule(Net(), Tracer(param_shapes_constant=True).trace(Net())).code)
    class D(Tracer): proxy_buffer_attributes = True
    say(GraphModule(Net(), D().trace(Net())).code)
    t = Tracer(); attempt(t.path_of_module, Leaf()) if 0 else None
    t.trace(Net()); attempt(t.path_of_module, Leaf()); say(t.get_fresh_qualname("w"), t.root_module_name)
    t = Tracer(autowrap_functions=(helper,)); say(GraphModule(nn.Module(), t.trace(lambda x: helper(x) + helper2(x))).code)
    class E(Tracer): traced_func_name = "other"
    class F(nn.Module):
        def forward(s, x): return x
        def other(s, x): return x + 1
    say(GraphModule(F(), E().trace(F())).code)
    class S(Tracer): record_stack_traces = True
    g = S().trace(lambda x: torch.relu(x)); say([bool(n.stack_trace) for n in g.nodes])
    for n in Tracer().trace(Net()).nodes: say(n, n.meta.get("nn_module_stack"))
def helper(x): return x + 5
def helper2(x): return x + 6
@wrap
def wrapped(x, y=1): return x * y
wrap("len"); wrap("later")
def later(x): return x + 7
@case
def wraps():
    tr(lambda x: wrapped(x, y=2) + len(x) + later(x)); say(wrapped(3, 4), len([1, 2]))
    attempt(wrap, 3); attempt(lambda: wrap("q"))
    say([n.meta for n in symbolic_trace(lambda x: wrapped(x)).graph.nodes])
@case
def values():
    NT = collections.namedtuple("NT", "a b")
    @dataclasses.dataclass
    class DC: a: int; b: object
    global NT2, DC2
    NT2, DC2 = NT, DC
    tr(lambda x: NT2(x, 1)); tr(lambda x: DC2(1, x)); tr(lambda x: {"a": [x, (x, 2)], 3: None}); tr(lambda x: slice(x, 2)); tr(lambda x: torch.Size([1, 2])); tr(lambda x: (x, torch.float32, torch.device("cpu"), 1j, ...)); tr(lambda x: x + torch.ones(2)); tr(lambda x: (x + T, x - T)); tr(lambda x: range(3)); tr(lambda x: torch.nn.Parameter(torch.ones(1)) + x)
    class P(metaclass=ProxyableClassMeta):
        def __init__(s, a, b): s.a, s.b = a, b
        def add(s): return s.a + s.b
    global P2
    P2 = P
    tr(lambda x: P2(x, 1).add()); say(type(P2(1, 2)).__name__)
    x = Proxy(fx.Graph().placeholder("x")); say(x, repr(x), repr(x.foo), x.node, type(x.tracer).__name__, repr(x + 1), (x + 1).node.args); 
    say(hash(x) == hash(x), (x == x).node)
T = torch.ones(2)
@case
def interp():
    gm = symbolic_trace(Net()); x = torch.ones(1, 2)
    class I(Interpreter):
        def run_node(s, n): r = super().run_node(n); say("ran", n, sorted(map(str, s.env))); return r
    I(gm).run(x); I(gm, garbage_collect_values=False).run(x)
    class J(Interpreter):
        def call_function(s, t, a, k): return super().call_function(torch.mul if t is operator.add else t, a, k)
    gm2 = symbolic_trace(lambda x, y=2, *a: torch.add(x, y) + a[0]); attempt(Interpreter(gm2).run, torch.ones(1), 2, 3, 4); attempt(Interpreter(gm2).run); attempt(Interpreter(gm2).run, torch.ones(1)); attempt(J(symbolic_trace(lambda x, y: x + y)).run, torch.ones(1), 4)
    attempt(Interpreter(symbolic_trace(lambda x: torch.reshape(x, (7,)))).run, torch.ones(3))
    attempt(Interpreter(symbolic_trace(lambda x: x.nothing())).run, torch.ones(3)); attempt(Interpreter(symbolic_trace(lambda x: x["k"])).run, {}); 
    i = Interpreter(symbolic_trace(lambda x, y: x + y)); i.extra_traceback = False; attempt(i.run, 1, "q"); l = [1, 2]; attempt(i.boxed_run, l); say(l)
    n = list(i.module.graph.nodes); say(i.run(1, 2, initial_env={n[0]: 5, n[1]: 6})); attempt(Interpreter(gm).fetch_attr, "a.b"); attempt(Interpreter(gm).fetch_attr, "lin.weight.q"); say(type(Interpreter(gm).submodules).__name__, Interpreter(gm).name, Interpreter(gm).user_to_last_uses if 0 else "")
    class Tf(Transformer):
        def call_function(s, t, a, k): return super().call_function(torch.sub if t is operator.add else t, a, k)
        def call_module(s, t, a, k): return s.tracer.create_proxy("call_module", t, a, k).neg() if t == "lin" else super().call_module(t, a, k)
    say(Tf(gm).transform().code); say(Transformer(gm2).transform().code)
    g = fx.Graph(); x = g.placeholder("x"); a = g.call_function(torch.neg, (x,)); g.output(a); x.prepend(a); m = GraphModule(nn.Module(), g); attempt(Interpreter(m).run, 1)
    gm3 = symbolic_trace(lambda x: x + 1)
    for n in gm3.graph.nodes: n.meta["stack_trace"] = "File here"
    attempt(Interpreter(gm3).run, "q")
