import operator
import warnings

from said import attempt, case, say

import torch
import torch.fx as fx

warnings.simplefilter("ignore")
import torch.nn as nn
from torch.fx.experimental.optimization import fuse, remove_dropout, matches_module_pattern, replace_node_module, extract_subgraph
from torch.fx.experimental.const_fold import split_const_subgraphs, FoldedGraphModule
from torch.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from torch.fx.annotate import annotate
class Cnn(nn.Module):
    def __init__(s): super().__init__(); s.c = nn.Conv2d(3, 4, 3); s.b = nn.BatchNorm2d(4); s.d = nn.Dropout(); s.l = nn.Linear(4, 2); s.c2 = nn.Conv2d(4, 4, 1); s.b2 = nn.BatchNorm2d(4)
    def forward(s, x):
        y = s.d(s.b(s.c(x))); z = s.c2(y); return s.b2(z) + z
@case
def fusing():
    torch.manual_seed(0); m = Cnn().eval(); m.b.running_mean.fill_(0.5); m.b.running_var.fill_(2.0); x = torch.randn(1, 3, 5, 5)
    f = fuse(m); say(f.code); say(torch.allclose(f(x), m(x), atol=1e-5)); say([n for n, _ in f.named_modules()])
    r = remove_dropout(m); say(r.code); 
    attempt(fuse, Cnn().train())
@case
def folding():
    class C(nn.Module):
        def __init__(s): super().__init__(); s.w = nn.Parameter(torch.ones(2)); s.v = nn.Parameter(torch.full((2,), 3.0))
        def forward(s, x): a = s.w + s.v; b = a * 2; return x + b, b.neg()
    m = split_const_subgraphs(C()); say(len(m.graph.nodes), type(m).__mro__[1].__name__, len(m.const_subgraph_module.graph.nodes)); say(m(torch.ones(2))); say([n for n, _ in m.named_parameters()], [n for n, _ in m.named_buffers()], m.fx_const_folded_attrs_name, m.has_folding_been_run)
    class D(nn.Module):
        def forward(s, x): return x + 1
    m = split_const_subgraphs(D()); say(m.code, m.const_subgraph_module)
    m = split_const_subgraphs(C(), skip_folding_node_fn=lambda n: n.target is operator.mul); say(m.code); say(m(torch.ones(2)))
    class E(nn.Module):
        def __init__(s): super().__init__(); s.w = nn.Parameter(torch.ones(2))
        def forward(s, x): return x + s.w.sin()
    m = split_const_subgraphs(E()); say(m.code); say(m(torch.ones(2)))
@case
def normal():
    gm = fx.symbolic_trace(lambda x, y: torch.nn.functional.relu(torch.matmul(x, y)))
    say(NormalizeArgs(gm).transform().code); say(NormalizeOperators(fx.symbolic_trace(lambda x, y: torch.add(x, y) * torch.neg(x))).transform().code)
