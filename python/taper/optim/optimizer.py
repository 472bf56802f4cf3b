"""Optimizer: groups of parameters, state per parameter, and what is common to all update rules."""
import functools
import warnings
from collections import OrderedDict, defaultdict
from copy import deepcopy
from itertools import chain

from .. import _C
from .._root import torch
from ..utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]

_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()


class _RequiredParameter:
    """Stands for a default that every group must give."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _add_hook(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook):
    return _add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    return _add_hook(_global_optimizer_post_hooks, hook)


def _params_doc_type(params):
    return params.type() if isinstance(params, torch.Tensor) else type(params).__name__


def _use_grad_for_differentiable(step):
    """Runs `step` with gradients recorded only if the optimizer is differentiable."""

    @functools.wraps(step)
    def run(self, *args, **kwargs):
        # A context object would cost as much as the update of a bias.
        before = _C.is_grad_enabled()
        _C._set_grad_enabled(self.defaults["differentiable"])
        try:
            return step(self, *args, **kwargs)
        finally:
            _C._set_grad_enabled(before)

    return run


def _check_lr(lr):
    if isinstance(lr, torch.Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def _check_exclusive(fused, foreach, differentiable):
    """These flags choose among ways of computing the same digits; here there is one way, so they are only checked."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


class Optimizer:
    """Base class of optimizers.

    `param_groups` is a list of dictionaries of options with a list under "params"; `state` maps a parameter to its
    dictionary; both may be edited from outside between steps.
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()
        self._optimizer_state_dict_pre_hooks = OrderedDict()
        self._optimizer_state_dict_post_hooks = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks = OrderedDict()
        self._optimizer_load_state_dict_post_hooks = OrderedDict()
        self._patch_step_function()
        if isinstance(params, torch.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + _params_doc_type(params)
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if len(groups) == 0:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        # Warned about once for each optimizer.
        self._warned_capturable_if_run_uncaptured = True

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
                     "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
                     "_optimizer_load_state_dict_post_hooks"):
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # --- step -------------------------------------------------------------------------------------------------------

    @staticmethod
    def profile_hook_step(func):
        """Wraps a class's step so that the hooks run around it."""

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            self = args[0]
            if not (_global_optimizer_pre_hooks or _global_optimizer_post_hooks or self._optimizer_step_pre_hooks
                    or self._optimizer_step_post_hooks):
                return func(*args, **kwargs)
            pre = [*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]
            for hook in pre:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"{func} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
            out = func(*args, **kwargs)
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return out

        wrapper.hooked = True
        return wrapper

    def _patch_step_function(self):
        step = type(self).step
        if not getattr(step, "hooked", None):
            type(self).step = self.profile_hook_step(step)

    def step(self, closure=None):
        raise NotImplementedError

    @staticmethod
    def _closed(closure):
        """The loss, computed again with gradients; None without a closure."""
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()

    @staticmethod
    def _with_grads(group):
        """(parameters that have a gradient, their gradients): the two lists every update rule begins with."""
        return _C._gather_gradients(group["params"])

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            if set_to_none:
                _C._drop_gradients(group["params"])
                continue
            for grad in self._with_grads(group)[1]:
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    def register_step_pre_hook(self, hook):
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        return _add_hook(self._optimizer_step_post_hooks, hook)

    # --- groups -----------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group):
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, torch.Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        else:
            param_group["params"] = list(params)
        self._split_names(param_group)
        for param in param_group["params"]:
            if not isinstance(param, torch.Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is " + torch.typename(param))
            if not self.defaults.get("differentiable", None) and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        params = param_group["params"]
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        known = set(chain.from_iterable(group["params"] for group in self.param_groups))
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _split_names(self, group):
        """[(name, tensor)] becomes two lists; all groups have names or none has."""
        members = group["params"]
        named = [isinstance(member, tuple) for member in members]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are missing")
            group["param_names"] = [name for name, _ in members]
            group["params"] = [param for _, param in members]
        if self.param_groups and ("param_names" in self.param_groups[0]) != ("param_names" in group):
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {'with' if 'param_names' in group else 'without'} names to the optimizer"
            )

    # --- saving -----------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook, prepend=False):
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self):
        """{"state", "param_groups"} with parameters replaced by their numbers in order of groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            (numbers[id(key)] if isinstance(key, torch.Tensor) else key): value for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict):
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(self.param_groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for group, saved in zip(self.param_groups, saved_groups):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        owners = dict(zip(
            chain.from_iterable(saved["params"] for saved in saved_groups),
            chain.from_iterable(group["params"] for group in self.param_groups),
        ))
        options = {number: saved for saved in saved_groups for number in saved["params"]}
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owners:
                state[owners[key]] = _fit(owners[key], value, options[key])
            else:
                state[key] = value
        for group, saved in zip(self.param_groups, saved_groups):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)


def _fit(param, value, group, key=None):
    """Loaded state in the dtype and on the device of its parameter; a step count keeps its dtype."""
    if isinstance(value, torch.Tensor):
        if key == "step":
            if group.get("capturable") or group.get("fused"):
                return value.to(dtype=torch.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {name: _fit(param, part, group, name) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fit(param, part, group) for part in value)
    return value
