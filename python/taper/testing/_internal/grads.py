"""Running two versions of a function and comparing outputs and gradients."""
from .._torch import torch


def leaves(tree):
    return torch.utils._pytree.tree_leaves(tree)


def tensors_that_need_grad(tree):
    return [x for x in leaves(tree) if isinstance(x, torch.Tensor) and x.requires_grad]


def outs_and_grads(fn, graph_inps, inps):
    """fn's outputs, and the gradients that their sums leave in the tensors of `inps`."""
    outs = fn(*graph_inps)
    for out in tensors_that_need_grad(outs):
        out.sum().backward(retain_graph=True)
    tensors = [x for x in leaves(inps) if isinstance(x, torch.Tensor)]
    grads = [x.grad for x in tensors]
    for x in tensors:
        x.grad = None
    return outs, grads


def compare_equal_outs_and_grads(test, m1, m2, inps):
    r1, g1 = outs_and_grads(m1, inps, inps)
    r2, g2 = outs_and_grads(m2, inps, inps)
    test.assertEqual(r1, r2)
    test.assertEqual(g1, g2)
