"""Adamax."""
from ..nn._root import torch
from ._elementwise import Elementwise, _check_betas, _check_sign, _value
from .optimizer import _check_lr

__all__ = ["Adamax"]


class Adamax(Elementwise):
    """Adam with the largest gradient in place of the mean square."""

    _kept = ("exp_avg", "exp_inf")

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False, differentiable=False,
        capturable=False
    ):
        _check_lr(lr)
        _check_sign(eps=eps)
        _check_betas(betas)
        _check_sign(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })

    def _update(self, param, grad, state, group):
        mean, most, (beta1, beta2) = state["exp_avg"], state["exp_inf"], group["betas"]
        mean.lerp_(grad, 1 - beta1)
        if group["differentiable"]:
            most.copy_(torch.maximum(most.mul(beta2), grad.abs().add(group["eps"])))
        else:
            torch.maximum(most.mul_(beta2), grad.abs().add_(group["eps"]), out=most)
        param.addcdiv_(mean, most, value=-(_value(group["lr"]) / (1 - beta1 ** _value(state["step"]))))
