"""Transforms in each other, in graphs, on fake tensors, under autocast, of modules."""
from said import attempt, case, say

import collections
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

warnings.simplefilter("ignore")
x, m = torch.tensor([1.0, 2.0, 3.0]), torch.arange(6.0).reshape(2, 3)


@case
def recorded():
    for mode in ("real", "fake", "symbolic"):
        for f in (vmap(lambda a: a.sin().sum()), grad(lambda a: a.sin().sum()), vmap(lambda a: a.view(-1).repeat(2)), vmap(lambda a: a.repeat(2, 1, 3)),
                  vmap(lambda a: a.new_zeros(a.shape)), vmap(lambda a: a.tile(2))):
            say(make_fx(f, tracing_mode=mode)(m).code)


@case
def fake_tensors():
    def fake(f):
        with FakeTensorMode() as mode:
            return f(mode.from_tensor(m))

    for f in (vmap(torch.sin), grad(lambda a: a.sin().sum()), lambda a: jvp(torch.sin, (a,), (a,)), lambda a: jacrev(torch.sin)(a).shape,
              lambda a: hessian(lambda b: (b ** 3).sum())(a).shape, vmap(grad(lambda a: a.sin().sum()))):
        attempt(fake, f)


@case
def types():
    def lower(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.linear(a, torch.ones(2, 3)).float().sum()

    attempt(grad(lower), m)
    attempt(vmap(lower), m)
    attempt(grad(lambda a: (a.double() ** 2).sum()), x)
    attempt(grad(lambda a: (a.float() ** 2).sum()), x.half())
    attempt(vmap(grad(lambda a: (a ** 2).sum())), m.bfloat16())
    attempt(lambda: vjp(lambda a: a.abs(), torch.tensor([3 + 4j]))[1](torch.ones(1)))
    attempt(jvp, lambda a: a * a, (torch.tensor([1 + 1j]),), (torch.tensor([1j]),))
    attempt(lambda: (vmap(torch.sin)(torch.ones(0, 3)).shape, vmap(lambda a: a.sum())(torch.ones(2, 0)), grad(lambda a: a.sum())(torch.ones(0))))


@case
def nested():
    cube = lambda a: (a ** 3).sum()
    attempt(jacrev(jacfwd(cube)), x)
    attempt(vmap(hessian(cube)), m)
    attempt(grad(lambda a: jvp(torch.sin, (a,), (a,))[1].sum()), x)
    attempt(lambda: jvp(lambda a: jvp(torch.sin, (a,), (torch.ones(3),))[1], (x,), (torch.ones(3),)))
    attempt(lambda: jvp(grad(cube), (x,), (torch.ones(3),)))
    attempt(lambda: vjp(grad(cube), x)[1](torch.ones(3)))
    attempt(lambda: (lambda w: (grad(lambda a: (a * w).sum())(x).sum().backward(), w.grad))(torch.ones(3, requires_grad=True)))
    attempt(vmap(lambda p: p.a * p.b), collections.namedtuple("P", "a b")(m, m))
    attempt(vmap(lambda a: {"x": (a, [a * 2]), "y": a.sum()}, out_dims={"x": (1, [0]), "y": 0}), m)


@case
def modules():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 1))
    each = grad(lambda p, a: functional_call(net, p, (a,)).sum())
    attempt(lambda: {k: v.shape for k, v in vmap(each, (None, 0), randomness="different")(dict(net.named_parameters()), m).items()})
    attempt(lambda: vmap(each, (None, 0))(dict(net.named_parameters()), m))
    attention, layer = nn.MultiheadAttention(4, 2, batch_first=True), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    attempt(lambda: vmap(lambda a: attention(a, a, a)[0])(torch.ones(2, 1, 3, 4)).shape)
    attempt(lambda: vmap(layer)(torch.ones(2, 1, 3, 4)).shape)
    attempt(lambda: vmap(nn.Embedding(5, 2))(torch.tensor([[0, 1], [2, 3]])).shape)
