"""Adam and AdamW."""
from .._root import torch
from .optimizer import Optimizer, _check_exclusive, _use_grad_for_differentiable

__all__ = ["Adam", "AdamW", "adam", "adamw"]


def _number(value):
    return value.item() if isinstance(value, torch.Tensor) else value


class Adam(Optimizer):
    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
        maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False
    ):
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        _check_exclusive(fused, foreach, differentiable)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("amsgrad", False), ("maximize", False), ("foreach", None), ("capturable", False),
                                  ("differentiable", False), ("decoupled_weight_decay", False), ("fused", None)):
                group.setdefault(name, default)
            for param in group["params"]:
                known = self.state.get(param, {})
                # Counts were Python numbers in old files.
                if known and not isinstance(known["step"], torch.Tensor):
                    known["step"] = torch.tensor(float(known["step"]), dtype=torch.float32)

    def _state_of(self, param, group):
        state = self.state[param]
        if not state:
            state["step"] = torch.tensor(0.0, dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(param, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        return state

    @_use_grad_for_differentiable
    def step(self, closure=None):
        loss = self._closed(closure)
        for group in self.param_groups:
            params, grads = self._with_grads(group)
            if any(grad.is_sparse for grad in grads):
                raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
            states = [self._state_of(param, group) for param in params]
            beta1, beta2 = group["betas"]
            adam(
                params, grads, [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else [],
                [state["step"] for state in states], amsgrad=group["amsgrad"], beta1=beta1, beta2=beta2,
                lr=group["lr"], weight_decay=group["weight_decay"], eps=group["eps"], maximize=group["maximize"],
                differentiable=group["differentiable"], fused=group["fused"],
                decoupled_weight_decay=group["decoupled_weight_decay"]
            )
        return loss


class AdamW(Adam):
    """Adam with weight decay applied to the weights instead of the gradients."""

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False,
        foreach=None, capturable=False, differentiable=False, fused=None
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def adam(
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False,
    differentiable=False, fused=None, grad_scale=None, found_inf=None, has_complex=False,
    decoupled_weight_decay=False, *, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize
):
    """Updates everything in place, one parameter after another, or where `fused` each in one pass."""
    if fused and params:
        torch._foreach_add_(state_steps, 1)
        step = torch._fused_adamw_ if decoupled_weight_decay else torch._fused_adam_
        step(
            params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr=lr, beta1=_number(beta1), beta2=_number(beta2),
            weight_decay=weight_decay, eps=eps, amsgrad=amsgrad, maximize=maximize, grad_scale=grad_scale, found_inf=found_inf)
        return
    beta1, beta2 = _number(beta1), _number(beta2)
    for i, param in enumerate(params):
        grad = -grads[i] if maximize else grads[i]
        state_steps[i] += 1
        if weight_decay != 0:
            if decoupled_weight_decay:
                param.mul_(1 - lr * weight_decay)
            else:
                grad = grad.add(param, alpha=weight_decay)
        mean, square, most = exp_avgs[i], exp_avg_sqs[i], (max_exp_avg_sqs[i] if amsgrad else None)
        views = (param, grad, mean, square, most)
        if param.is_complex():
            views = [None if tensor is None else torch.view_as_real(tensor) for tensor in views]
        _update(*views, state_steps[i], beta1, beta2, lr, eps, differentiable)


def _update(param, grad, mean, square, most, step, beta1, beta2, lr, eps, differentiable):
    mean.lerp_(grad, 1 - beta1)
    if differentiable:
        # The graph must not meet its own in-place writes.
        square.mul_(beta2).addcmul_(grad, grad.clone(), value=1 - beta2)
        count = step
    else:
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        count = step.item()
    step_size = lr / (1 - beta1 ** count)
    root = (1 - beta2 ** count) ** 0.5
    if most is not None:
        torch.maximum(most, square, out=most) if not differentiable else most.copy_(torch.maximum(most, square))
        square = most
    if differentiable:
        denominator = (square.sqrt() / (root * -step_size)).add_(eps / -step_size)
        param.addcdiv_(mean, denominator)
    else:
        denominator = (square.sqrt() / root).add_(eps)
        param.addcdiv_(mean, denominator, value=-step_size)


def adamw(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *args, **kwargs):
    adam(
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *args, decoupled_weight_decay=True,
        **kwargs)
