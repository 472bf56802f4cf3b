"""Stochastic gradient descent, with momentum."""
from .. import _C
from .._root import torch
from .optimizer import Optimizer, _check_exclusive, _check_lr, _use_grad_for_differentiable

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
        foreach=None, differentiable=False, fused=None
    ):
        _check_lr(lr)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
            "fused": fused,
        }
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        _check_exclusive(fused, foreach, differentiable)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("nesterov", False), ("maximize", False), ("foreach", None),
                                  ("differentiable", False), ("fused", False)):
                group.setdefault(name, default)

    @_use_grad_for_differentiable
    def step(self, closure=None):
        loss = self._closed(closure)
        for group in self.param_groups:
            params, grads = self._with_grads(group)
            states = [self.state[param] for param in params] if group["momentum"] != 0 else []
            buffers = [state.get("momentum_buffer") for state in states]
            sgd(
                params, grads, buffers, weight_decay=group["weight_decay"], momentum=group["momentum"],
                lr=group["lr"], dampening=group["dampening"], nesterov=group["nesterov"], maximize=group["maximize"],
                fused=group["fused"]
            )
            for state, buffer in zip(states, buffers):
                state["momentum_buffer"] = buffer
        return loss


def sgd(
    params, d_p_list, momentum_buffer_list, has_sparse_grad=False, foreach=None, fused=None, grad_scale=None,
    found_inf=None, *, weight_decay, momentum, lr, dampening, nesterov, maximize
):
    """Updates `params` in place. Buffers that are None are made at their first use, in the list."""
    if fused and params:
        begins = momentum != 0 and any(buffer is None for buffer in momentum_buffer_list)
        if begins:
            momentum_buffer_list[:] = [torch.empty_like(grad) for grad in d_p_list]
        torch._fused_sgd_(
            params, d_p_list, momentum_buffer_list if momentum != 0 else [], weight_decay=weight_decay, momentum=momentum, lr=lr,
            dampening=dampening, nesterov=nesterov, maximize=maximize, is_first_step=begins, grad_scale=grad_scale, found_inf=found_inf)
        return
    if not maximize and weight_decay == 0 and momentum == 0 and not isinstance(lr, torch.Tensor):
        _C._add_scaled_(params, d_p_list, -lr)
        return
    for i, (param, grad) in enumerate(zip(params, d_p_list)):
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = grad.add(param, alpha=weight_decay)
        if momentum != 0:
            buffer = momentum_buffer_list[i]
            if buffer is None:
                buffer = momentum_buffer_list[i] = grad.detach().clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
            grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
        if isinstance(lr, torch.Tensor):
            # addcmul_ keeps the graph of lr when the step is differentiable; add_ would take its value.
            if lr.requires_grad:
                param.addcmul_(grad, lr, value=-1)
            else:
                param.add_(grad, alpha=-lr.item())
        else:
            param.add_(grad, alpha=-lr)
