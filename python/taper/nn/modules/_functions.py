"""The identity whose autograd node carries module hooks."""
from ..._root import torch

__all__ = ["BackwardHookFunction", "pass_through"]


class BackwardHookFunction(torch.autograd.Function):
    """Returns its tensors; those that need no gradient stay so."""

    @staticmethod
    def forward(ctx, *tensors):
        ctx.mark_non_differentiable(*[tensor for tensor in tensors if not tensor.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return grads


def pass_through(module, values):
    """(values with tensors sent through the identity, its node, positions of the tensors); node None if no gradient."""
    where = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
    if not (torch.is_grad_enabled() and any(values[i].requires_grad for i in where)):
        return values, None, where
    outputs = BackwardHookFunction.apply(*(values[i] for i in where))
    node = next((out.grad_fn for out in outputs if out.requires_grad and out.grad_fn is not None), None)
    if node is None or type(node).__name__ != "BackwardHookFunctionBackward":
        raise RuntimeError(
            "Error while setting up backward hooks. Please open an issue with a code sample to reproduce.")
    sent = list(values)
    for i, out in zip(where, outputs):
        sent[i] = out
    kind = type(values)
    return (kind(*sent) if hasattr(values, "_fields") else tuple(sent)), node, where
