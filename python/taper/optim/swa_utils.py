"""Averages of weights: a model that follows another, and the learning rate that goes with it."""
import itertools
import math
from copy import deepcopy

from ..nn import Module
from .._root import torch
from ._schedule import LRScheduler, _per_group

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn", "get_swa_avg_fn"]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay=0.999):
    """An exponential average, over lists."""
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for average, current in zip(ema_param_list, current_param_list):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn():
    """The plain average, over lists."""

    @torch.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for average, current in zip(averaged_param_list, current_param_list):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 / (num_averaged.item() + 1 if isinstance(num_averaged, torch.Tensor) else num_averaged + 1))
            else:
                average.add_((current - average) / (num_averaged + 1))

    return swa_update


def get_ema_avg_fn(decay=0.999):
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    @torch.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are an average of that model's, plain unless a function says otherwise."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        """One more point of the average."""

        def members(of):
            return itertools.chain(of.parameters(), of.buffers() if self.use_buffers else [])

        own = [member.detach() for member in members(self.module)]
        given = [member.detach().to(mine.device) for member, mine in zip(members(model), own)]
        if self.n_averaged == 0:
            for mine, new in zip(own, given):
                mine.copy_(new)
        elif self.multi_avg_fn is not None or self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(own, given, self.n_averaged)
        else:
            for mine, new in zip(own, given):
                mine.copy_(self.avg_fn(mine, new, self.n_averaged))
        if not self.use_buffers:
            for mine, new in zip(self.module.buffers(), model.buffers()):
                mine.detach().copy_(new.detach())
        self.n_averaged += 1


@torch.no_grad()
def update_bn(loader, model, device=None):
    """The running statistics of batch normalisation over the data of `loader`."""
    from ..nn.modules.batchnorm import _BatchNorm

    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Anneals the rate to a constant within `anneal_epochs`."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        for group, lr in zip(optimizer.param_groups, _per_group("swa_lr", optimizer, swa_lr)):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _alpha(self, epoch):
        """How far the annealing is, from 0 to 1."""
        part = max(0, min(1, epoch / max(1, self.anneal_epochs)))
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self):
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._alpha(step - 1), self._alpha(step)
        rates = []
        for group in self.optimizer.param_groups:
            # The rate is a mixture that earlier steps have made; where it began follows from it.
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
