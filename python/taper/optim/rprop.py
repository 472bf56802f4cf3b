"""Rprop."""
from ..nn._root import torch
from ._elementwise import Elementwise, _value
from .optimizer import _check_lr

__all__ = ["Rprop"]


class Rprop(Elementwise):
    """Steps that grow while the sign of a gradient stays and shrink when it changes; sizes of gradients do not matter."""

    _kept = ("prev",)

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None, maximize=False,
        differentiable=False
    ):
        _check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })

    def _begin(self, state, param, group):
        super()._begin(state, param, group)
        lr = _value(group["lr"])
        state["step_size"] = torch.full_like(param, complex(lr, lr) if param.is_complex() else lr, memory_format=torch.preserve_format)

    def _update(self, param, grad, state, group):
        before, size, (shrink, grow) = state["prev"], state["step_size"], group["etas"]
        sign = grad.mul(before.clone() if group["differentiable"] else before).sign()
        factor = torch.ones_like(sign).masked_fill_(sign > 0, grow).masked_fill_(sign < 0, shrink)
        size.mul_(factor).clamp_(*group["step_sizes"])
        grad = torch.where(sign < 0, torch.zeros_like(grad), grad)      # a changed sign: no step now
        param.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)
