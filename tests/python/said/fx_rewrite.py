from said import attempt, say

import torch
import torch.fx as fx
from torch.fx.subgraph_rewriter import replace_pattern, replace_pattern_with_filters, Match
import torch.nn as nn
class M(nn.Module):
    def __init__(s):
        super().__init__(); s.lin = nn.Linear(2, 2); s.lin2 = nn.Linear(2, 2); s.w = nn.Parameter(torch.ones(2)); s.relu = nn.ReLU()
    def forward(s, x, y):
        a = torch.add(x, y); b = torch.add(a, y); c = torch.relu(b); d = s.lin(c); e = s.relu(d); f = torch.relu(s.lin2(e)) + 3; return torch.mul(f, s.w) + torch.cat([a, b]), a
def show(gm, r):
    say(gm.code)
    for m in r: say(type(m).__name__, m.anchor, dict(m.nodes_map), getattr(m, "replacements", None))
    gm.graph.lint()
def t(name, pat, rep, root=None, **kw):
    print("--", name)
    try:
        gm = fx.symbolic_trace(root or M()); 
        r = (replace_pattern_with_filters if kw else replace_pattern)(gm, pat, rep, **kw); show(gm, r)
    except BaseException as e: say("  raises", type(e).__name__, e)
t("add", lambda x, y: torch.add(x, y), lambda x, y: torch.sub(x, y))
t("addchain", lambda x, y, z: torch.add(torch.add(x, y), z), lambda x, y, z: torch.sub(x, y))
def f(x):
    a = torch.relu(x); a = torch.relu(a); a = torch.relu(a); a = torch.relu(a); return torch.relu(a)
t("relu pairs", lambda x: torch.relu(torch.relu(x)), lambda x: torch.neg(x), f)
t("relu one", lambda x: torch.relu(x), lambda x: x, f)
t("relu two", lambda x: torch.relu(x), lambda x: torch.relu(torch.relu(x)), f)
t("literal", lambda x: x + 3, lambda x: x - 3)
t("literal4", lambda x: x + 4, lambda x: x - 3)
t("literal ignore", lambda x: x + 4, lambda x: x - 9, ignore_literals=True)
t("placeholder literal", lambda x, y: x + y, lambda x, y: x - y)
t("placeholder literal ignore", lambda x, y: x + y, lambda x, y: x - y, ignore_literals=True)
class P(nn.Module):
    def __init__(s): super().__init__(); s.lin = nn.Linear(2, 2)
    def forward(s, x): return s.lin(x)
class Q(nn.Module):
    def __init__(s): super().__init__(); s.other = nn.Linear(2, 2)
    def forward(s, x): return s.other(x)
class R(nn.Module):
    def __init__(s): super().__init__(); s.relu = nn.ReLU(); s.lin = nn.Linear(2, 2)
    def forward(s, x): return s.lin(s.relu(x))
t("module", P(), Q()); t("module other", Q(), P()); t("module2", lambda x: torch.relu(x), R()); t("mod func", P(), lambda x: torch.neg(x))
class A(nn.Module):
    def __init__(s): super().__init__(); s.w = nn.Parameter(torch.zeros(2))
    def forward(s, x): return torch.mul(x, s.w)
class B(nn.Module):
    def __init__(s): super().__init__(); s.v = nn.Parameter(torch.zeros(2))
    def forward(s, x): return torch.mul(x, s.v)
t("attr", A(), lambda x: torch.neg(x)); t("attr other", B(), lambda x: torch.neg(x)); t("attr new", lambda x: torch.relu(x), B())
t("multi", lambda x, y: (torch.add(x, y), torch.relu(x)), lambda x, y: (torch.sub(x, y), torch.neg(y)))
def g(x):
    a = torch.relu(x); b = torch.neg(a); c = torch.exp(a); return b + c
t("two outputs", lambda x: (torch.neg(torch.relu(x)), torch.exp(torch.relu(x))), lambda x: (x, x), g)
def two(x):
    a = torch.relu(x); return torch.neg(a), torch.exp(a)
t("two outputs shared", two, lambda x: (torch.sin(x), torch.cos(x)), g)
t("two outputs shared one", two, lambda x: torch.sin(x), g)
def three(x):
    a = torch.relu(x); return a, torch.neg(a)
t("inner returned", three, lambda x: (torch.sin(x), torch.cos(x)), g)
t("inner escape", lambda x: torch.neg(torch.relu(x)), lambda x: torch.sin(x), g)
t("same arg", lambda x: torch.add(x, x), lambda x: x * 2, lambda p: torch.add(p, p) + torch.add(p, 1))
t("diff arg", lambda x, y: torch.add(x, y), lambda x, y: x * y, lambda p: torch.add(p, p))
t("kwargs", lambda x: torch.sum(x, dim=1), lambda x: torch.mean(x, 1), lambda p: torch.sum(p, dim=1) + torch.sum(p, 1))
t("method", lambda x: x.relu(), lambda x: x.sigmoid(), lambda p: p.relu().relu())
t("list", lambda x, y: torch.cat([x, y]), lambda x, y: torch.stack([y, x]), lambda p, q: torch.cat([p, q]) + torch.cat((p, q)) + torch.cat([p, q, p]))
t("getitem", lambda x: x[0], lambda x: x[1], lambda p: p[0] + p[1] + p[0][0])
t("slice", lambda x: x[:, 0:2], lambda x: x[1], lambda p: p[:, 0:2] + p[:, 0:3])
t("unused", lambda x, y: torch.relu(x), lambda x, y: torch.neg(x), f)
t("unused rep", lambda x: torch.relu(x), lambda x, y: torch.neg(x), f)
t("identity pattern", lambda x: x, lambda x: torch.neg(x), f)
t("filters", lambda x: torch.relu(x), lambda x: torch.neg(x), f, match_filters=[lambda m, o, p: len(list(m.nodes_map.values())[1].users) and str(list(m.nodes_map.values())[-1]) != "relu_2" and str(list(m.nodes_map.values())[0]) != "relu_1"])
t("callback", lambda x: torch.relu(x), None, f, replacement_callback=lambda m, o, p: fx.symbolic_trace(lambda x: torch.sin(x)).graph)
def cb(m, o, p):
    say("cb", m.anchors, {k: v for k, v in m.nodes_map.items()}, m.placeholder_nodes, m.returning_nodes, m.name_node_map, type(m).__name__, o, p); return fx.symbolic_trace(lambda x: torch.sin(x)).graph
t("callback2", lambda x: torch.relu(x), None, f, replacement_callback=cb)
t("none", lambda x: torch.relu(x), None, f, match_filters=[])
t("graph arg", fx.symbolic_trace(lambda x: torch.relu(x)).graph, fx.symbolic_trace(lambda x: torch.neg(x)).graph, f, match_filters=[])
t("output order", lambda x, y: torch.mul(torch.add(x, y), y), lambda a, b: torch.sub(b, a), lambda p, q: torch.mul(torch.add(p, q), q))
t("keep meta", lambda x: torch.relu(x) , lambda x: torch.relu(x), lambda p: torch.relu(p) + torch.neg(p))
t("default arg", lambda x, y=2: torch.add(x, y), lambda x, y=2: torch.sub(x, y), lambda p: torch.add(p, 2))
t("consumed later", lambda x, y: torch.relu(x) + y, lambda x, y: x - y, lambda p, q: torch.relu(p) + torch.exp(q))
t("op target", lambda x, y: torch.ops.aten.add.Tensor(x, y), lambda x, y: torch.ops.aten.sub.Tensor(x, y), lambda p, q: torch.ops.aten.add.Tensor(p, q))
t("multi anchors comb", lambda x, y: (torch.relu(x), torch.neg(y)), lambda x, y: (torch.sin(x), torch.cos(y)), lambda p, q: torch.relu(p) + torch.neg(q) + torch.relu(q) + torch.neg(p))
