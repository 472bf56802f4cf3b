"""What update rules that look at one parameter at a time share: checks, state, the loop of a step.

A rule says what it keeps for a parameter (`_begin`) and how one gradient changes it (`_update`); gradients come with the sign
and the weight decay already in them, complex tensors as pairs of real numbers.
"""
from ..nn._root import torch
from .optimizer import Optimizer, _check_lr, _use_grad_for_differentiable

# Options that came later than the files that may be loaded.
_LATER = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}


def _check_sign(**options):
    """None of these may be negative."""
    for name, value in options.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {'epsilon' if name == 'eps' else name} value: {value}")


def _check_betas(betas):
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def _zeros(param):
    return torch.zeros_like(param, memory_format=torch.preserve_format)


def _value(x):
    return x.item() if isinstance(x, torch.Tensor) else x


class Elementwise(Optimizer):
    _later = _LATER                 # further defaults of groups that were saved before an option came
    _kept = ()                      # names of state with the parameter's shape
    _first = ()                     # and of state that is a number for the parameter

    def __init__(self, params, defaults):
        _check_lr(defaults["lr"])
        super().__init__(params, defaults)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self._later.items():
                group.setdefault(name, default)
            for param in group["params"]:
                kept = self.state.get(param, {})
                for name in ("step", *self._first):
                    # Counts were Python numbers in old files.
                    if name in kept and not isinstance(kept[name], torch.Tensor):
                        kept[name] = torch.tensor(float(kept[name]), dtype=torch.float32)

    def _begin(self, state, param, group):
        state["step"] = torch.tensor(0.0, dtype=torch.float32)
        for name in self._kept:
            state[name] = _zeros(param)

    def _update(self, param, grad, state, group):
        raise NotImplementedError

    def _decay(self, param, grad, group):
        """The gradient with weight decay, or the weights decayed."""
        if group.get("weight_decay", 0) == 0:
            return grad
        if group.get("decoupled_weight_decay"):
            param.mul_(1 - group["lr"] * group["weight_decay"])
            return grad
        return grad.add(param, alpha=group["weight_decay"])

    @_use_grad_for_differentiable
    def step(self, closure=None):
        loss = self._closed(closure)
        for group in self.param_groups:
            if group.get("capturable"):
                raise AssertionError(
                    "If capturable=True, params and state_steps must be on supported devices: cuda, xpu, hpu, privateuseone, xla.")
            self._step_group(group)
        return loss

    def _step_group(self, group):
        for param, grad in zip(*self._with_grads(group)):
            if grad.is_sparse:
                raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
            state = self.state[param]
            if not state:
                self._begin(state, param, group)
            state["step"] += 1
            grad = self._decay(param, -grad if group["maximize"] else grad, group)
            if param.is_complex():
                real = {name: torch.view_as_real(x) if isinstance(x, torch.Tensor) and x.is_complex() else x
                        for name, x in state.items()}
                self._update(torch.view_as_real(param), torch.view_as_real(grad), real, group)
            else:
                self._update(param, grad, state, group)
