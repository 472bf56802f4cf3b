"""What all learning rate schedules share.

A schedule changes `group["lr"]` at each step(). Most compute the next rate from the current one, so that several can be
chained; `_get_closed_form_lr` computes it from the epoch alone and serves step(epoch).
"""
import functools
import warnings
import weakref

from .._root import torch
from .optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)


def _copied(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


def _values(optimizer, key):
    return [_copied(group[key]) for group in optimizer.param_groups]


def _set(group, key, value):
    """A rate kept in a tensor stays that tensor."""
    if isinstance(group[key], torch.Tensor):
        group[key].fill_(value.squeeze() if isinstance(value, torch.Tensor) else value)
    else:
        group[key] = value


def _per_group(name, optimizer, given):
    """One value for each group."""
    if not isinstance(given, (list, tuple)):
        return [given] * len(optimizer.param_groups)
    if len(given) != len(optimizer.param_groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(given)} values, param_groups "
            f"has {len(optimizer.param_groups)}."
        )
    return given


def _check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Base class of schedules: get_lr() gives the rates of all groups at `last_epoch`."""

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", _copied(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                        "last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume training from a "
                        "checkpoint but haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 "
                        "for a fresh training run (not recommended)"
                    )
        self.base_lrs = _values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._watch_step()
        self._initial_step()

    def _watch_step(self):
        """Wraps the optimizer's step so that stepping in the wrong order can be noticed."""
        step = self.optimizer.step
        if hasattr(step, "_wrapped_by_lr_sched"):
            return
        owner = weakref.ref(self.optimizer)
        function = step.__func__

        @functools.wraps(function)
        def watched(*args, **kwargs):
            optimizer = owner()
            optimizer._opt_called = True
            return function.__get__(optimizer, type(optimizer))(*args, **kwargs)

        watched._wrapped_by_lr_sched = True
        self.optimizer.step = watched

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self):
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)

    def get_last_lr(self):
        return self._last_lr

    def get_lr(self):
        raise NotImplementedError

    def _warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", stacklevel=3)

    def step(self, epoch=None):
        if self._step_count == 1:
            self._warn_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self._update_lr(epoch)

    def _warn_order(self):
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                "do this will result in PyTorch skipping the first value of the learning rate schedule. See more "
                "details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                stacklevel=3,
            )

    def _update_lr(self, epoch=None):
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = closed() if closed is not None else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values):
            _set(group, "lr", lr)
        self._last_lr = _values(self.optimizer, "lr")

    def _scaled(self, factor):
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self):
        return _values(self.optimizer, "lr")
