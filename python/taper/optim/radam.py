"""RAdam."""
from ._elementwise import _LATER, Elementwise, _check_betas, _check_sign, _value
from .optimizer import _check_lr

__all__ = ["RAdam"]


class RAdam(Elementwise):
    """Adam whose adaptive rate is switched on when its variance is known well enough."""

    _kept = ("exp_avg", "exp_avg_sq")
    _later = {**_LATER, "decoupled_weight_decay": False}

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *, foreach=None,
        maximize=False, capturable=False, differentiable=False
    ):
        _check_lr(lr)
        _check_sign(eps=eps)
        _check_betas(betas)
        _check_sign(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        })

    def _update(self, param, grad, state, group):
        mean, square, (beta1, beta2), step = state["exp_avg"], state["exp_avg_sq"], group["betas"], _value(state["step"])
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction = 1 - beta2 ** step
        update = mean / (1 - beta1 ** step) * group["lr"]
        # How long a plain average would know as much as the running one does: at the end, and now.
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * (beta2 ** step) / correction
        if length > 5.0:
            root = square.sqrt()
            root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
            rectified = ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
            update = update * (correction ** 0.5 / root) * rectified
        param.add_(update, alpha=-1.0)
