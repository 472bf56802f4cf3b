"""RMSprop."""
from ._elementwise import _LATER, Elementwise, _check_sign, _zeros

__all__ = ["RMSprop"]


class RMSprop(Elementwise):
    """Steps divided by the root of a running mean of squared gradients, less the squared mean where `centered`."""

    _kept = ("square_avg",)
    _later = {**_LATER, "momentum": 0, "centered": False}

    def __init__(
        self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False, foreach=None,
        maximize=False, differentiable=False
    ):
        _check_sign(eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay,
            "capturable": capturable, "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
        })

    def _begin(self, state, param, group):
        super()._begin(state, param, group)
        if group["momentum"] > 0:
            state["momentum_buffer"] = _zeros(param)
        if group["centered"]:
            state["grad_avg"] = _zeros(param)

    def _update(self, param, grad, state, group):
        square, alpha = state["square_avg"], group["alpha"]
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = square.sqrt()
        root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            buffer.mul_(group["momentum"]).addcdiv_(grad, root)
            param.add_(buffer, alpha=-group["lr"])
        else:
            param.addcdiv_(grad, root, value=-group["lr"])
