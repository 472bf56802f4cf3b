"""Adagrad."""
from ..nn._root import torch
from ._elementwise import Elementwise, _check_sign, _value
from .optimizer import _check_exclusive, _check_lr

__all__ = ["Adagrad"]


class Adagrad(Elementwise):
    """Steps divided by the root of the sum of all squared gradients."""

    _later = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *, maximize=False,
        differentiable=False, fused=None
    ):
        _check_lr(lr)
        _check_sign(lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })
        _check_exclusive(fused, foreach, differentiable)
        for group in self.param_groups:
            for param in group["params"]:
                self._begin(self.state[param], param, group)

    def _begin(self, state, param, group):
        super()._begin(state, param, group)
        start = group["initial_accumulator_value"]
        state["sum"] = torch.full_like(param, complex(start, start) if param.is_complex() else start, memory_format=torch.preserve_format)

    def share_memory(self):
        for state in self.state.values():
            state["step"].share_memory_()
            state["sum"].share_memory_()

    def _step_group(self, group):
        if not group["fused"]:
            super()._step_group(group)
            return
        params, grads = self._with_grads(group)
        states = [self.state[param] for param in params]
        for state in states:
            state["step"] += 1
        torch._fused_adagrad_(
            params, grads, [state["sum"] for state in states], [state["step"] for state in states], lr=group["lr"],
            lr_decay=group["lr_decay"], weight_decay=group["weight_decay"], eps=group["eps"], maximize=group["maximize"])

    def _update(self, param, grad, state, group):
        lr = group["lr"] / (1 + (_value(state["step"]) - 1) * group["lr_decay"])
        total = state["sum"]
        total.addcmul_(grad, grad, value=1)
        root = total.sqrt() + group["eps"] if group["differentiable"] else total.sqrt().add_(group["eps"])
        param.addcdiv_(grad, root, value=-lr)
