"""Adadelta."""
from ._elementwise import Elementwise, _check_sign
from .optimizer import _check_lr

__all__ = ["Adadelta"]


class Adadelta(Elementwise):
    """Steps in proportion to the running size of earlier steps, divided by that of gradients."""

    _kept = ("square_avg", "acc_delta")

    def __init__(
        self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False, differentiable=False
    ):
        _check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _check_sign(eps=eps, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "capturable": capturable,
            "foreach": foreach, "differentiable": differentiable,
        })

    def _update(self, param, grad, state, group):
        square, size, rho, eps = state["square_avg"], state["acc_delta"], group["rho"], group["eps"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        root = square.add(eps).sqrt_()
        delta = size.add(eps).sqrt_()
        if group["differentiable"]:
            delta = delta.clone()
        delta.div_(root).mul_(grad)
        size.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-group["lr"])
