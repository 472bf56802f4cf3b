"""Muon."""
import math

from .._root import torch
from .optimizer import Optimizer

__all__ = ["Muon"]

# What the rate of a matrix is multiplied by.
_ADJUST = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


def _orthogonal(grad, coefficients, steps, eps):
    """Roughly the nearest orthogonal matrix, by Newton-Schulz iterations in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(grad.shape) != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = grad.bfloat16()
    tall = grad.size(0) > grad.size(1)
    if tall:
        x = x.T
    x = x.div(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(Optimizer):
    """Momentum made orthogonal, for matrices."""

    def __init__(
        self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7,
        ns_steps=5, adjust_lr_fn=None
    ):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not 0.0 <= value:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn is not None and adjust_lr_fn not in _ADJUST:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "ns_coefficients": ns_coefficients,
            "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        })
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}")

    @torch.no_grad()
    def step(self, closure=None):
        loss = self._closed(closure)
        for group in self.param_groups:
            for param, grad in zip(*self._with_grads(group)):
                if grad.is_sparse:
                    raise RuntimeError("Muon does not support sparse gradients")
                state = self.state[param]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(grad, memory_format=torch.preserve_format)
                buffer = state["momentum_buffer"]
                buffer.lerp_(grad, 1 - group["momentum"])
                update = grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
                update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
                param.mul_(1 - group["lr"] * group["weight_decay"])
                param.add_(update, alpha=-group["lr"] * _ADJUST[group["adjust_lr_fn"] or "original"](*param.shape))
        return loss


Muon.__module__ = __name__.rpartition(".")[0]
