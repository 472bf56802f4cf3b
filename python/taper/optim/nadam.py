"""NAdam."""
from ..nn._root import torch
from ._elementwise import _LATER, Elementwise, _check_betas, _check_sign, _value
from .optimizer import _check_lr

__all__ = ["NAdam"]


class NAdam(Elementwise):
    """Adam with Nesterov momentum."""

    _kept = ("exp_avg", "exp_avg_sq")
    _first = ("mu_product",)
    _later = {**_LATER, "decoupled_weight_decay": False}

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False, *,
        foreach=None, maximize=False, capturable=False, differentiable=False
    ):
        _check_lr(lr)
        _check_sign(eps=eps)
        _check_betas(betas)
        _check_sign(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        })

    def _begin(self, state, param, group):
        state["step"] = None
        state["mu_product"] = torch.tensor(1.0, dtype=torch.float32)
        super()._begin(state, param, group)

    def _update(self, param, grad, state, group):
        mean, square, product, lr = state["exp_avg"], state["exp_avg_sq"], state["mu_product"], group["lr"]
        (beta1, beta2), decay, step = group["betas"], group["momentum_decay"], _value(state["step"])
        now = beta1 * (1.0 - 0.5 * (0.96 ** (step * decay)))
        soon = beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * decay)))
        product *= now
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = square.div(1 - beta2 ** step).sqrt()
        if group["differentiable"]:
            root = root.add(group["eps"])
            param.addcdiv_(grad * (-lr * (1.0 - now) / (1.0 - product)), root)
            param.addcdiv_(mean * (-lr * soon / (1.0 - product * soon)), root)
        else:
            root.add_(group["eps"])
            param.addcdiv_(grad, root, value=-_value(lr) * (1.0 - now) / (1.0 - product.item()))
            param.addcdiv_(mean, root, value=-_value(lr) * soon / (1.0 - product.item() * soon))
