"""Adafactor."""
from .._root import torch
from .optimizer import Optimizer
from ._elementwise import _value

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adam's second moment as the product of a row and a column, steps clipped and in proportion to the parameter."""

    def __init__(
        self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None, maximize=False
    ):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for fine, words, value in (
            (0.0 <= lr, "Learning rate should be >= 0", lr), (0.0 >= beta2_decay, "beta2_decay should be <= 0", beta2_decay),
            (eps[0] is None or 0.0 <= eps[0], "epsilon1 should be >= 0", eps[0]), (0.0 <= eps[1], "epsilon2 should be >= 0", eps[1]),
            (1.0 <= d, "Clipping threshold d should be >= 1", d), (0.0 <= weight_decay, "weight_decay should be >= 0", weight_decay),
        ):
            if not fine:
                raise ValueError(f"{words} but is: {value}")
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        })

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)

    @torch.no_grad()
    def step(self, closure=None):
        loss = self._closed(closure)
        for group in self.param_groups:
            for param, grad in zip(*self._with_grads(group)):
                if grad.is_complex():
                    raise RuntimeError("Adafactor does not support complex parameters")
                if grad.is_sparse:
                    raise RuntimeError("Adafactor does not support sparse gradients")
                state = self.state[param]
                if not state:
                    state["step"] = torch.tensor(0.0, dtype=torch.float32)
                    if grad.dim() > 1:
                        state["row_var"] = grad.new_zeros([*grad.shape[:-1], 1])
                        state["col_var"] = grad.new_zeros([*grad.shape[:-2], 1, grad.size(-1)])
                    else:
                        state["variance"] = torch.zeros_like(grad, memory_format=torch.preserve_format)
                self._update(param, -grad if group["maximize"] else grad, state, group)
        return loss

    @staticmethod
    def _update(param, grad, state, group):
        small, least = group["eps"]
        small = torch.finfo(param.dtype).eps if small is None else small
        lr = _value(group["lr"])
        state["step"] += 1
        step = state["step"].item()
        part = step ** group["beta2_decay"]
        alpha = max(least, param.norm(2).item() / (param.numel() ** 0.5)) * min(lr, 1 / step ** 0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(torch.norm(grad, dim=-1, keepdim=True).square_().div_(grad.size(-1)), part)
            column.lerp_(torch.norm(grad, dim=-2, keepdim=True).square_().div_(grad.size(-2)), part)
            variance = (row @ column).div_(row.mean(dim=-2, keepdim=True).clamp_(min=small))
        else:
            variance = state["variance"].lerp_(grad.square(), part).clone()
        update = variance.clamp_(min=small * small).rsqrt_().mul_(grad)
        clip = max(1.0, update.norm(2).item() / ((update.numel() ** 0.5) * group["d"]))
        param.add_(update, alpha=-alpha / clip)


Adafactor.__module__ = __name__.rpartition(".")[0]
