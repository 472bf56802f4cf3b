"""FlopCounterMode: counts by module and op, forward and backward."""
from said import attempt, case

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

x = torch.ones(2, 3)


def counted(f, **options):
    mode = FlopCounterMode(display=False, **options)
    with mode:
        f()
    return mode.get_total_flops(), {name: sorted((str(op), n) for op, n in counts.items()) for name, counts in sorted(mode.get_flop_counts().items())}


@case
def products():
    attempt(counted, lambda: x @ torch.ones(3, 4))
    attempt(counted, lambda: torch.addmm(torch.ones(4), x, torch.ones(3, 4)))
    attempt(counted, lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 5)))
    attempt(counted, lambda: torch.baddbmm(torch.ones(2, 3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)))
    attempt(counted, lambda: nn.functional.conv_transpose2d(torch.ones(1, 3, 4, 4), torch.ones(3, 2, 3, 3)))
    attempt(counted, lambda: torch.vmap(torch.mm, (0, None))(torch.ones(5, 2, 3), torch.ones(3, 4)))
    attempt(counted, lambda: torch.func.grad(lambda a: (a @ torch.ones(3, 4)).sum())(x))
    attempt(counted, lambda: torch.sin(x), custom_mapping={torch.ops.aten.sin: lambda *args, out_shape=None, **kwargs: 7})
    attempt(register_flop_formula(torch.ops.aten.mm), lambda: 0)


@case
def modules():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    attempt(counted, lambda: nn.Linear(3, 4)(x))
    attempt(counted, lambda: net(torch.ones(1, 3, 8, 8)))
    attempt(counted, lambda: net(torch.ones(1, 3, 8, 8)).sum().backward())
    attempt(counted, lambda: net(torch.ones(1, 3, 8, 8, requires_grad=True)).sum().backward())
    with torch.no_grad():
        attempt(counted, lambda: (net(torch.ones(1, 3, 8, 8)), net(torch.ones(1, 3, 8, 8))))
