"""What update rules that look at one parameter at a time share: checks, state, the loop of a step.

A rule says what it keeps for a parameter (`_begin`) and how one gradient changes it (`_update`); gradients come with the sign
and the weight decay already in them, complex tensors as pairs of real numbers.
"""
from .. import _facades
from .._root import torch
from .optimizer import Optimizer, _check_exclusive, _check_lr, _use_grad_for_differentiable


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


# ---- Adadelta ------------------------------------------------------------------------------------------------------
class Adadelta(Elementwise):
    """Steps in proportion to the running size of earlier steps, divided by that of gradients."""

    _kept = ("square_avg", "acc_delta")

    def __init__(
        self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False, differentiable=False
    ):
        _check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _check_sign(eps=eps, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize, "capturable": capturable,
            "foreach": foreach, "differentiable": differentiable,
        })

    def _update(self, param, grad, state, group):
        square, size, rho, eps = state["square_avg"], state["acc_delta"], group["rho"], group["eps"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        root = square.add(eps).sqrt_()
        delta = size.add(eps).sqrt_()
        if group["differentiable"]:
            delta = delta.clone()
        delta.div_(root).mul_(grad)
        size.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-group["lr"])


# ---- Adagrad -------------------------------------------------------------------------------------------------------
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


# ---- Adamax --------------------------------------------------------------------------------------------------------
class Adamax(Elementwise):
    """Adam with the largest gradient in place of the mean square."""

    _kept = ("exp_avg", "exp_inf")

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False, differentiable=False,
        capturable=False
    ):
        _check_lr(lr)
        _check_sign(eps=eps)
        _check_betas(betas)
        _check_sign(weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })

    def _update(self, param, grad, state, group):
        mean, most, (beta1, beta2) = state["exp_avg"], state["exp_inf"], group["betas"]
        mean.lerp_(grad, 1 - beta1)
        if group["differentiable"]:
            most.copy_(torch.maximum(most.mul(beta2), grad.abs().add(group["eps"])))
        else:
            torch.maximum(most.mul_(beta2), grad.abs().add_(group["eps"]), out=most)
        param.addcdiv_(mean, most, value=-(_value(group["lr"]) / (1 - beta1 ** _value(state["step"]))))


# ---- ASGD ----------------------------------------------------------------------------------------------------------
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


# ---- NAdam ---------------------------------------------------------------------------------------------------------
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


# ---- RAdam ---------------------------------------------------------------------------------------------------------
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


# ---- RMSprop -------------------------------------------------------------------------------------------------------
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


# ---- Rprop ---------------------------------------------------------------------------------------------------------
class Rprop(Elementwise):
    """Steps that grow while the sign of a gradient stays and shrink when it changes; sizes of gradients do not matter."""

    _kept = ("prev",)

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None, maximize=False,
        differentiable=False
    ):
        _check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })

    def _begin(self, state, param, group):
        super()._begin(state, param, group)
        lr = _value(group["lr"])
        state["step_size"] = torch.full_like(param, complex(lr, lr) if param.is_complex() else lr, memory_format=torch.preserve_format)

    def _update(self, param, grad, state, group):
        before, size, (shrink, grow) = state["prev"], state["step_size"], group["etas"]
        sign = grad.mul(before.clone() if group["differentiable"] else before).sign()
        factor = torch.ones_like(sign).masked_fill_(sign > 0, grow).masked_fill_(sign < 0, shrink)
        size.mul_(factor).clamp_(*group["step_sizes"])
        grad = torch.where(sign < 0, torch.zeros_like(grad), grad)      # a changed sign: no step now
        param.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)


# ---- SparseAdam ----------------------------------------------------------------------------------------------------
class SparseAdam(Optimizer):
    """Adam on the rows that have a gradient. Taper has no sparse tensors, so there is no gradient it could take."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        _check_lr(lr)
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure=None):
        loss = self._closed(closure)
        for group in self.param_groups:
            if self._with_grads(group)[0]:
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return loss


_facades.settle(__name__)
