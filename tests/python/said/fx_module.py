import operator

from said import attempt, case, say

import torch
import torch.fx as fx
import torch.nn as nn, copy, pickle, io, typing, collections, dataclasses, math, enum
class M(nn.Module):
    def __init__(s):
        super().__init__(); s.lin = nn.Linear(2, 2); s.w = nn.Parameter(torch.ones(2)); s.sub = nn.Sequential(nn.ReLU(), nn.Linear(2, 2)); s.register_buffer("b", torch.ones(2)); s.t = torch.ones(2)
    def forward(s, x: torch.Tensor, y: typing.Optional[int] = None) -> torch.Tensor:
        return s.sub(s.lin(x + s.w) * s.b) + s.t
@case
def module():
    m = M(); gm = fx.symbolic_trace(m)
    say(gm.code); say(gm); say(repr(gm)); say(gm.graph); say([n for n, _ in gm.named_parameters()], [n for n, _ in gm.named_buffers()], sorted(gm.state_dict()))
    c = copy.deepcopy(gm); say(c.code == gm.code, c.graph is not gm.graph, c.lin is not gm.lin, type(c).__name__, type(c).__mro__[1].__name__)
    d = copy.copy(gm); say(d.lin is gm.lin, d.graph is gm.graph)
    p = pickle.loads(pickle.dumps(gm)); say(p.code == gm.code, type(p).__name__, sorted(p.state_dict()), torch.equal(p(torch.ones(1, 2)), gm(torch.ones(1, 2))))
    gm.eval(); say(gm.training, gm.lin.training, pickle.loads(pickle.dumps(gm)).training, copy.deepcopy(gm).training)
    gm.meta["k"] = 1; say(copy.deepcopy(gm).meta)
    f = io.BytesIO(); torch.save(gm, f); f.seek(0); q = torch.load(f, weights_only=False); say(q.code == gm.code)
    say(type(gm).__name__, gm._get_name(), gm.__class__.__bases__[0].__name__)
@case
def submodules():
    gm = fx.symbolic_trace(M())
    say(gm.add_submodule("a.b.c", nn.ReLU()), gm.a.b.c, gm.add_submodule("w.q", nn.ReLU()), gm.delete_submodule("a.b.c"), gm.delete_submodule("a.b.c"), gm.delete_submodule("zz"), gm.delete_submodule("w"))
    gm.add_submodule("unused", nn.Linear(1, 1)); gm.delete_all_unused_submodules(); say([n for n, _ in gm.named_modules()])
@case
def construct():
    g = fx.Graph(); x = g.placeholder("x"); g.output(g.call_function(torch.neg, (x,)))
    attempt(fx.GraphModule, 3, g); attempt(fx.GraphModule, {}, g); attempt(lambda: fx.GraphModule(nn.Module(), g).code)
    g2 = fx.Graph(); x = g2.placeholder("x"); g2.output(g2.call_module("lin", (x,))); attempt(fx.GraphModule, {}, g2); attempt(fx.GraphModule, nn.Module(), g2)
    gm = fx.GraphModule(nn.Module(), g, "Name"); say(gm, type(gm).__name__)
    def s(): gm.graph = 3
    attempt(s); gm.graph.nodes.__iter__(); n = list(gm.graph.nodes)[1]; n.target = torch.exp; say(gm.code); r = gm.recompile(); say(gm.code, type(r).__name__)
    attempt(lambda: gm(1, 2, 3)); attempt(lambda: gm())
    class G(fx.GraphModule): pass
    h = G(nn.Module(), fx.Graph()); say(type(h).__name__, isinstance(h, G)); say(fx.Graph().python_code("self").src)
@case
def readable():
    gm = fx.symbolic_trace(M()); gm.print_readable(); t = gm.print_readable(print_output=False); say(t == gm.print_readable(False))
    from torch.fx.passes.shape_prop import ShapeProp
    ShapeProp(gm).propagate(torch.ones(3, 2)); gm.print_readable(include_stride=True, include_device=True)
    from torch.fx.experimental.proxy_tensor import make_fx
    g = make_fx(lambda x: torch.sin(x).sum(0), tracing_mode="fake")(torch.ones(2, 3)); g.print_readable(); g.print_readable(include_stride=True, include_device=True)
    class O(nn.Module):
        def __init__(s): super().__init__(); s.inner = fx.symbolic_trace(lambda x: x + 1)
        def forward(s, x): return s.inner(x)
    class T(fx.Tracer):
        def is_leaf_module(s, m, n): return True
    o = O(); fx.GraphModule(o, T().trace(o)).print_readable()
@case
def codegen():
    NT = collections.namedtuple("NT", "a b")
    g = fx.Graph(); x = g.placeholder("x", type_expr=typing.List[torch.Tensor]); y = g.placeholder("y", int, 3)
    for a in ((x, float("inf")), (x, float("nan")), (x, -float("inf")), (x, torch.float32), (x, torch.device("cpu")), (x, torch.device("cuda", 1)), (x, torch.contiguous_format), (x, torch.strided), (x, slice(1, y, None)), (x, [y, (1, {"a": x})]), (x, "str'q"), (x, 1 + 2j), (x, True), (x, None), (x, ...), (x, range(3)), (x, b"q"), (x, torch.Size([1, 2])), (x, ()), (x, (1,)), (x, []), (x, {}), (x, {"a": 1}), (x, torch.ops.aten.add.Tensor), (x, math.pi)):
        try: g.call_function(torch.add, a)
        except Exception as e: say(type(e), e)
    for f in (operator.add, operator.iadd, operator.getitem, operator.neg, operator.not_, operator.matmul, operator.pow, operator.truediv, operator.floordiv, operator.eq, operator.lt, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.mod, operator.imul, operator.isub, operator.contains, operator.index, operator.setitem, operator.pos, operator.invert, operator.abs, operator.itruediv, operator.ipow, operator.iand, operator.concat, operator.truth, operator.is_, operator.is_not):
        g.call_function(f, (x, y, 1) if f is operator.setitem else (x, y) if f not in (operator.neg, operator.not_, operator.pos, operator.invert, operator.abs, operator.index, operator.truth) else (x,))
    g.call_function(math.sqrt, (y,)); g.call_function(len, (x,)); g.call_function(getattr, (x, "shape")); g.call_function(getattr, (x, "a b")); g.call_method("view", (x, 1, 2), {"k": y}); g.call_module("a.0.b", (x,)); g.get_attr("a.0.b"); g.get_attr("w"); g.call_function(torch.nn.functional.relu, (x,)); g.call_function(torch.Tensor.add, (x, y)); g.call_function(torch.ops.aten.add, (x, y)); g.call_function(torch._C._nn.gelu, (x,)); g.call_function(collections.OrderedDict, ()); g.call_function(sorted, (x,), {"reverse": True}); g.call_function(torch.special.expit, (x,)); g.call_function(torch.linalg.norm, (x,)); g.call_function(torch.cat, ([x, x],), {"dim": 1}); g.call_function(torch.Size, ([1],)); g.call_function(print, (x,)); g.call_function(lambda x: x, (x,)) if 0 else None
    g.output({"a": [x, y]}, type_expr=typing.Dict[str, typing.List[int]])
    c = g.python_code("self"); say(c.src); say(sorted(k for k in c.globals))
@case
def tocode():
    g = fx.Graph(); x = g.placeholder("x"); a = g.call_function(torch.neg, (x,)); g.output(a)
    def tr(body): return ["# first\n", *body]
    gm = fx.GraphModule(nn.Module(), g); gm.graph.on_generate_code(lambda cur: tr); gm.recompile(); say(gm.code)
    with gm.graph.on_generate_code(lambda cur: (lambda body: [*(cur(body) if cur else body), "# last\n"])): gm.recompile(); say(gm.code)
    gm.recompile(); say(gm.code)
    class CG(fx.CodeGen):
        def gen_fn_def(s, fv, ra, **k): return f"def forward(self, *args, **kwargs){ra}:\n    {', '.join(fv)}, = args"
        def generate_output(s, out, **k): return f"return [{out}]"
        def process_inputs(s, *a): return a
    gm.graph.set_codegen(CG()); gm.recompile(); say(gm.code)
@case
def folder():
    import tempfile, os
    gm = fx.symbolic_trace(M())
    with tempfile.TemporaryDirectory() as d:
        gm.to_folder(d, "Foo"); say(sorted(os.listdir(d)))
        for n in ("module.py", "__init__.py"):
            with open(d + "/" + n) as f: say(f.read().replace(d, "DIR").partition("class Foo")[2])
@case
def hooks():
    gm = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    gm._register_replace_node_hook(lambda old, new, user: say("replace", old, new, user)); gm._register_create_node_hook(lambda n: say("create", n)); gm._register_erase_node_hook(lambda n: say("erase", n))
    r = list(gm.graph.nodes)[1]
    with gm.graph.inserting_after(r): n = gm.graph.call_function(torch.neg, (r,))
    r.replace_all_uses_with(n, lambda u: u is not n); gm.graph.erase_node(list(gm.graph.nodes)[-1])
    with gm._set_replace_hook(lambda old, new, user: say("hook", old, new, user)): n.replace_all_uses_with(r)
