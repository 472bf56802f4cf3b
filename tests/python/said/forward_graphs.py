"""Graphs of forward mode. PyTorch's hold, beside the calls, views and checks that its dual tensors are made of: they are left out."""
from said import case, say

import warnings

import torch
from torch.func import grad, jvp
from torch.fx.experimental.proxy_tensor import make_fx

warnings.simplefilter("ignore")        # of PyTorch about itself
F64 = torch.float64
x, t, m = torch.tensor([0.5, 1.25, -1.5], dtype=F64), torch.tensor([-2.5, 0.75, -0.125], dtype=F64), torch.eye(3, dtype=F64)
BOOKKEEPING = ("aten.alias.default", "aten.is_same_size.default", "aten._has_same_storage_numel.default")


def show(f, *args):
    """The calls of a graph, numbered."""
    graph, names, lines = make_fx(f)(*args).graph, {}, []
    for n in graph.nodes:
        if n.op == "call_function" and str(n.target) in BOOKKEEPING:
            names[n] = names.get(n.args[0])
            continue
        if n.op == "output":
            lines.append(f"return {torch.fx.node.map_arg(n.args[0], lambda a: names[a])}")
            continue
        names[n] = f"%{len(lines)}"
        lines.append(f"{n.target} {torch.fx.node.map_arg(n.args, lambda a: names[a])}")
    for line in lines:
        say("   ", line)


def pushed(f, *primals):
    say("--")
    show(lambda *a: jvp(f, a[:len(primals)], a[len(primals):]), *primals, *(torch.ones_like(p) for p in primals))


@case
def one_level():
    for f in (torch.sin, torch.exp, torch.sum, lambda x: x * x, lambda x: x.view(3, 1).t(), lambda x: x.max(0)[0], lambda x: x.relu(), torch.tanh, torch.sigmoid,
              lambda x: x.unsqueeze(0).expand(2, 3), lambda x: x[1:].clone(), lambda x: x.cumsum(0), torch.neg, torch.log, lambda x: x.sort()[0], lambda x: torch.ones(3)):
        pushed(f, x)
    pushed(torch.mul, x, x)
    pushed(torch.add, x, x)
    pushed(torch.sub, x, x)
    pushed(lambda a, b: torch.cat([a, b]), x, x)


@case
def nested():
    show(lambda x, t: grad(lambda x: jvp(torch.sin, (x,), (t,))[1].sum())(x), x, t)
    show(lambda x, t: grad(lambda x: jvp(torch.exp, (x,), (t,))[1].sum())(x), x, t)
