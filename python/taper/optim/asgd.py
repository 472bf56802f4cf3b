"""ASGD."""
from ..nn._root import torch
from ._elementwise import Elementwise, _check_sign, _value
from .optimizer import _check_lr

__all__ = ["ASGD"]


class ASGD(Elementwise):
    """Gradient descent with a falling rate; `ax` of the state is the average of the parameter since step t0."""

    _first = ("eta", "mu")

    def __init__(
        self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False, differentiable=False,
        capturable=False
    ):
        _check_lr(lr)
        _check_sign(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })

    def _begin(self, state, param, group):
        super()._begin(state, param, group)
        state["eta"] = torch.tensor(float(_value(group["lr"])), dtype=torch.float32)
        state["mu"] = torch.tensor(1.0, dtype=torch.float32)
        state["ax"] = torch.zeros_like(param, memory_format=torch.preserve_format)

    def _update(self, param, grad, state, group):
        eta, mu, average, lr = state["eta"].item(), state["mu"].item(), state["ax"], _value(group["lr"])
        param.mul_(1 - group["lambd"] * eta)
        param.add_(grad, alpha=-eta)
        if mu == 1:
            average.copy_(param)
        else:
            average.add_(param.sub(average).mul_(mu))
        step = state["step"].item()
        state["eta"].fill_(lr / ((1 + group["lambd"] * lr * step) ** group["alpha"]))
        state["mu"].fill_(1 / max(1, step - group["t0"]))
