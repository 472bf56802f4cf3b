"""Graphs that compute sizes: every kind of arithmetic, and slices from the end."""
import math

import torch
from said import case, say
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx


def lines(module):
    return "\n".join(line.split(";  ")[0] for line in module.code.strip().split("\n"))


@case
def sizes():
    x = torch.ones(8, 5)
    for f in (lambda x: torch.zeros(math.floor(x.shape[0] / 2)), lambda x: torch.zeros(math.ceil(x.shape[0] / 3)),
              lambda x: torch.zeros(round(x.shape[0] / 3)), lambda x: torch.zeros(torch.sym_int(x.shape[0] * 1.5)),
              lambda x: torch.zeros(x.shape[0] & 6), lambda x: torch.zeros(x.shape[0] | 1), lambda x: torch.zeros(x.shape[0] ^ 3),
              lambda x: x * (x.shape[0] / 2)):
        module = make_fx(f, tracing_mode="symbolic")(x)
        say(lines(module))
        say(torch.equal(module(x), f(x)), torch.equal(module(torch.ones(10, 5)), f(torch.ones(10, 5))))


@case
def numbers_of_the_example():
    for f in (lambda x: torch.tensor(x.shape[0]) + 1, lambda x: torch.tensor([x.shape[0], 2])):
        say(lines(make_fx(f, tracing_mode="symbolic")(torch.ones(8))))
    say(lines(make_fx(lambda x, n: x + n, tracing_mode="symbolic")(torch.ones(8), -3)))


@case
def from_the_end():
    for mode in ("real", "fake"):
        say(lines(make_fx(lambda x: (x[-2:], x[:-1], x[-3:-1, ::2]), tracing_mode=mode)(torch.ones(4, 5))))


@case
def resized():
    def smaller(x):
        y = x.clone()
        y.resize_(2, 3)
        y.add_(1)
        return y

    def larger(x):
        y = x.clone()
        y.resize_(5, 6)
        y.fill_(1)
        return y

    for f in (smaller, larger):
        for remove in ("mutations", "mutations_and_views"):
            module = make_fx(functionalize(f, remove=remove))(torch.ones(3, 4))
            say(lines(module))
            say(torch.equal(module(torch.ones(3, 4)), f(torch.ones(3, 4))))
