"""register_multi_grad_hook: once in each backward, when the last or the first of some gradients is there."""
from said import attempt, case, say

import torch
from torch.autograd.graph import register_multi_grad_hook


@case
def hooks():
    a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
    d = a * b
    handle = register_multi_grad_hook((a, d), lambda grads: say("  all", grads))
    register_multi_grad_hook([a, b], lambda grad: say("  any", grad), mode="any")
    d.sum().backward(retain_graph=True)
    (d * c).sum().backward()
    (b * c).sum().backward()
    handle.remove()
    (a * b).sum().backward()
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    register_multi_grad_hook((x, y), lambda grads: say("  both", len(grads)))
    (y ** 2).sum().backward()
    attempt(register_multi_grad_hook, (torch.ones(1),), print)
    attempt(register_multi_grad_hook, (a,), print, mode="x")
    attempt(torch._C._current_graph_task_id)
