from said import say

import torch
import torch.fx as fx
import torch.nn as nn
from torch.fx.passes.split_utils import split_by_tags, getattr_recursive, setattr_recursive, Component
class M(nn.Module):
    def __init__(s): super().__init__(); s.l1 = nn.Linear(2, 2); s.l2 = nn.Linear(2, 2); s.w = nn.Parameter(torch.ones(2)); s.sub = nn.Sequential(nn.ReLU())
    def forward(s, x, y):
        a = s.l1(x); b = a + s.w; c = s.sub(b); d = s.l2(y); e = torch.relu(d); return c + e, a
def t(tags, order, **k):
    gm = fx.symbolic_trace(M())
    for n in gm.graph.nodes:
        if n.op not in ("placeholder", "output", "get_attr"): n.tag = tags[n.name]
    try:
        r = split_by_tags(gm, order, **k); m = None
        if isinstance(r, tuple): r, m = r
        say(r.code, m, type(r).__name__)
        for n, c in r.named_children(): say(n, c.code, type(c).__name__)
        say([n for n, _ in r.named_parameters()])
    except BaseException as e: say("  raised", type(e).__name__, e)
T = {"l1": "a", "add": "a", "sub_0": "b", "l2": "c", "relu": "c", "add_1": "d"}
t(T, ["a", "b", "c", "d"]); t(T, ["a", "b", "c", "d"], return_fqn_mapping=True, return_tuple=True); t(T, ["c", "a", "b", "d"]); t(T, ["b", "a", "c", "d"]); t(T, ["a", "b"])
m = M(); say(getattr_recursive(m, "sub.0")); setattr_recursive(m, "sub.0", nn.Tanh()); say(m.sub); say(getattr_recursive(m, "zz.q")) 
