"""Calls that come to write into their first argument (fx.passes.reinplace)."""
import torch
from said import case, say
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.reinplace import reinplace


def fresh(inputs):
    return [x.clone() for x in inputs]


def written(f, *inputs, functional=False):
    module = make_fx(functionalize(f) if functional else f)(*inputs)
    made = reinplace(module, *inputs)
    say(made.code.strip(), made is module)
    want, got = f(*fresh(inputs)), made(*fresh(inputs))
    want, got = (x if isinstance(x, tuple) else (x,) for x in (want, got))
    say(all(torch.equal(x, y) for x, y in zip(want, got)))


ones = torch.ones


@case
def plain():
    written(lambda x: x.clone().add(1), ones(2))
    written(lambda x: x.add(1), ones(2))
    written(lambda x: x.add(1).mul(2).relu().sin().pow(2), ones(2))
    written(lambda x: x.clone().div(2).clamp(0, 1).masked_fill(x > 0, 1), ones(2))


@case
def views():
    def other_view(x):
        a = x.clone()
        v = a.view(-1)
        a.add(1)
        return v.add(1)

    def unread_view(x):
        a = x.clone()
        a.view(-1)
        return a.add(1).add(1)

    def returned_view(x):
        a = x.clone()
        v = a.view(-1)
        return a.add(1), v

    def transposed(x):
        return x.clone().t().add(1)

    def read_base(x):
        a = x.clone()
        return a.t().add(1) + a

    def expanded(x):
        return ones(1).expand(2, 2).add(1)

    def parts(x):
        a = x.clone()
        b = a.max(0)[0].add(1)
        return b, torch.split(a, 1)[0].add(1)
    for f in (other_view, unread_view, returned_view, transposed, read_base, expanded, parts):
        written(f, ones(2, 2))


@case
def kinds():
    written(lambda x: torch.ge(x.clone() + 1, x), ones(2))
    written(lambda x: x.clone().add(ones(3, 2)), ones(2))
    written(lambda x: (x > 0).clone().add(1), ones(2))
    written(lambda x: torch.where(x > 0, x.clone(), x).neg(), ones(2))


@case
def readers():
    def itself(x):
        a = x.clone()
        return a.add(a)

    def both_returned(x):
        a = x.clone()
        return a, a.add(1)

    def read_again(x):
        a = x.clone()
        b, c = a.add(1), a.mul(2)
        return b + c

    def returned_between(x):
        b = x.clone().add(1)
        return b, b.mul(2)
    for f in (itself, both_returned, read_again, returned_between):
        written(f, ones(2))


@case
def scatters():
    def chained(a):
        b = a.clone().view(-1)
        b.view(-1)[0].view(-1).add_(1)
        return b

    def copied(a):
        b = a.clone()
        d = b[:, 1][1]
        d.copy_(d.add(0.1))
        return b

    def added(a):
        b = a.clone()
        b[:, 1][1].add_(1)
        return b

    def sliced(a):
        b = a.clone()
        b[1:3].mul_(2)
        b.diagonal().zero_()
        return b

    def into_input(a):
        a[1:3].mul_(2)
        return a + 1
    for f in (chained, copied, added, sliced, into_input):
        written(f, torch.arange(16.0).view(4, 4), functional=True)
    written(lambda a, b, c: torch.index_put(a.clone(), [b], c), torch.zeros(4), torch.tensor([1, 2]), ones(2))


def changed(a, row, column):
    a = a.clone()
    b = a[:, 1]
    part = torch.select_scatter(b, b[1].add(1), 0, row)
    return torch.select_scatter(a, part, 1, column)


@case
def by_hand():
    for row, column in ((1, 1), (0, 1), (1, 2)):
        written(lambda a: changed(a, row, column), ones(4, 4))
