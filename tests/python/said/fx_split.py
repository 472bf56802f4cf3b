from said import attempt, say

import torch
import torch.fx as fx
import torch.nn as nn
from torch.fx.passes.split_module import split_module
class M(nn.Module):
    def __init__(s):
        super().__init__(); s.lin = nn.Linear(2, 2); s.w = nn.Parameter(torch.ones(2)); s.sub = nn.Sequential(nn.ReLU(), nn.Linear(2, 2)); s.register_buffer("b", torch.ones(2))
    def forward(s, x, y=None):
        a = torch.add(x, s.w); b = s.lin(a); c = torch.relu(b) + s.b; d = s.sub(c); e = torch.chunk(d, 2); f = e[0] + a; return f, {"k": b + y, "w": s.w}
def t(name, cb, root=None, **kw):
    print("--", name)
    try:
        m = root or M(); gm = fx.symbolic_trace(m)
        if not callable(cb): part = dict(cb); cb2 = lambda n: part[n.name]
        else: cb2 = cb
        out = {}
        r = split_module(gm, m, cb2, out, **kw)
        say(r.code); say(r.graph)
        for n, c in r.named_children(): say(n, type(c).__name__, getattr(c, "code", None)); say(c.graph if hasattr(c, "graph") else "")
        say(out, [k for k, _ in r.named_parameters()], [k for k, _ in r.named_buffers()])
    except BaseException as e: say("  raises", type(e).__name__, e)
def alternate(k):
    state = [0]
    def cb(n):
        state[0] += 1; return (state[0] // 3) % k
    return cb
def seq(k):
    state = [0]
    def cb(n):
        state[0] += 1; return state[0] // k
    return cb
t("seq", seq(4)); t("one", lambda n: 0); t("each", seq(1)); t("names", lambda n: "abc"[min(2, len(n.name) // 3)] if 0 else 7)
t("keep", seq(4), keep_original_order=True); t("keep names", seq(4), keep_original_node_name=True)
def f(x, y):
    a = x + 1; b = y + 2; c = a * b; d = torch.sin(c); e = torch.cos(b); return d, e, c
t("f", {"add": 0, "add_1": 1, "mul": 0, "sin": 2, "cos": 1}, f)
t("f2", {"add": 1, "add_1": 0, "mul": 2, "sin": 1, "cos": 3}, f)
t("f3", {"add": 2, "add_1": 0, "mul": 3, "sin": 4, "cos": 0}, f)
t("cycle", {"add": 0, "add_1": 1, "mul": 1, "sin": 0, "cos": 1}, f)
t("keep f", {"add": 2, "add_1": 0, "mul": 3, "sin": 4, "cos": 0}, f, keep_original_order=True)
t("affix", {"add": 2, "add_1": 0, "mul": 3, "sin": 4, "cos": 0}, f, partition_affix="zz")
t("None", {"add": None, "add_1": 0, "mul": 3, "sin": 4, "cos": 0}, f)
def g(x): return x
t("empty", lambda n: 0, g)
def h2(x):
    a = x.relu_(); return x + a
t("single out", {"relu_": 0, "add": 1}, h2)
t("tuple", {"relu_": 0, "add": 1}, h2, tuple_return=True) 


class Late(torch.nn.Module):
    """Reads a parameter in the middle of a part."""
    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.ones(2))

    def forward(self, x, y):
        a = x + y
        b = torch.sigmoid(a) * self.p
        return b - y, a


for how in ({}, {"keep_original_input_name": False}):
    made = split_module(torch.fx.symbolic_trace(Late()), Late(),
                        lambda n: int(n.name == "sub"), keep_original_order=True, **how)
    say(made.code, [child.code for child in made.children()])
