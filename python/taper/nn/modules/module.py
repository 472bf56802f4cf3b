"""Module: a tree of parameters, buffers and submodules around a forward function.

Always true: a name is in at most one of `_parameters`, `_buffers`, `_modules` and `__dict__`; insertion order is the
order of everything listed or saved. The hook dictionaries may be edited from outside, so a call looks at them each
time. `__getattr__`, and what stands before `__setattr__` and `add_module`, is C (src/python/module_members.c).
"""
import warnings
from collections import OrderedDict
from typing import TypeVar

from ... import _C
from ..._root import NAME, torch
from ..parameter import Buffer, Parameter
from ._hooks import (
    ModuleCalls, _global_buffer_registration_hooks, _global_module_registration_hooks,
    _global_parameter_registration_hooks, _has_any_global_hook, _registered, register_module_backward_hook,
    register_module_buffer_registration_hook, register_module_forward_hook, register_module_forward_pre_hook,
    register_module_full_backward_hook, register_module_full_backward_pre_hook,
    register_module_module_registration_hook, register_module_parameter_registration_hook,
)
from ._state import _EXTRA_STATE_KEY_SUFFIX, ModuleState, _IncompatibleKeys, _WrappedHook

__all__ = [
    "register_module_forward_pre_hook", "register_module_forward_hook", "register_module_full_backward_pre_hook",
    "register_module_backward_hook", "register_module_full_backward_hook", "register_module_buffer_registration_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook", "Module",
]

Tensor = torch.Tensor
_FIRST = {              # what a new module holds: these values, or an instance of these classes
    "training": True, "_parameters": dict, "_buffers": dict, "_non_persistent_buffers_set": set,
    "_backward_pre_hooks": OrderedDict, "_backward_hooks": OrderedDict, "_is_full_backward_hook": None,
    "_forward_hooks": OrderedDict, "_forward_hooks_with_kwargs": OrderedDict, "_forward_hooks_always_called": OrderedDict,
    "_forward_pre_hooks": OrderedDict, "_forward_pre_hooks_with_kwargs": OrderedDict, "_state_dict_hooks": OrderedDict,
    "_state_dict_pre_hooks": OrderedDict, "_load_state_dict_pre_hooks": OrderedDict,
    "_load_state_dict_post_hooks": OrderedDict, "_modules": dict,
}
T_destination = TypeVar("T_destination", bound=dict)


# --- what the class leans on ------------------------------------------------------------------------------------------


def _type_text(value):
    """How messages name a value's type; `torch.typename` before it can be relied on."""
    return value.type() if isinstance(value, Tensor) else _class_text(type(value))


def _class_text(cls):
    module = cls.__module__ or ""
    return cls.__name__ if module in ("builtins", "") else f"{module}.{cls.__name__}"


def _check_name(module, kind, name, owner, dotted=""):
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {_class_text(type(name))}")
    # hasattr says no by raising an error and clearing it: for each member of each module.
    if name not in owner and not _C._module_lacks(module, name) and hasattr(module, name):
        raise KeyError(f"attribute '{name}' already exists")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."{dotted}')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _forward_unimplemented(self, *input):
    """Defines the computation performed at every call; every subclass has its own."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


def _read_to_arguments(device=None, dtype=None, non_blocking=False, copy=False, *, tensor=None, other=None,
                       memory_format=None):
    return device, dtype, non_blocking, memory_format


def _parse_to(args, kwargs):
    """(device, dtype, non_blocking, memory_format) of Module.to: device first, dtype first, or a tensor."""
    like = args[0] if args else kwargs.get("tensor", kwargs.get("other"))
    if isinstance(like, Tensor):
        return _read_to_arguments(like.device, like.dtype, *args[1:2], **kwargs)
    if isinstance(like, torch.dtype):
        return _read_to_arguments(None, like, *args[1:], **kwargs)
    device, dtype, non_blocking, memory_format = _read_to_arguments(*args, **kwargs)
    return (None if device is None else torch.device(device)), dtype, non_blocking, memory_format


class Module(ModuleCalls, ModuleState):
    """Base class of all neural network modules."""

    T_destination = T_destination
    dump_patches = False
    _version = 1
    call_super_init = False
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        _C._module_begin(self.__dict__, _FIRST)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # --- members ----------------------------------------------------------------------------------------------------

    def register_buffer(self, name, tensor, persistent=True):
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        _check_name(self, "buffer", name, self._buffers)
        if not isinstance(tensor, Tensor) and tensor is not None:
            raise TypeError(
                f"cannot assign '{_type_text(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _registered(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        parameters = self.__dict__.get("_parameters")
        if parameters is None:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        _check_name(self, "parameter", name, parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_type_text(param)}' object to parameter '{name}' "
                    f"({NAME}.nn.Parameter or None required)"
                )
            if param.grad_fn:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly."
                    f" To express '{name}' as a function of another Tensor, compute the value in the forward() method."
                )
            param = _registered(_global_parameter_registration_hooks, self, name, param)
        parameters[name] = param

    def add_module(self, name, module):
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_class_text(type(module))} is not a Module subclass")
        _check_name(self, "module", name, self._modules, f", got: {name}")
        self._modules[name] = _registered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name, module):
        self.add_module(name, module)

    def __setattr__(self, name, value):
        own = self.__dict__
        parameters = own.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, own, own["_buffers"], own["_modules"])
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_text(value)}' as parameter '{name}' ({NAME}.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        else:
            self._set_other(own, name, value)

    def _set_other(self, own, name, value):
        modules, buffers = own.get("_modules"), own.get("_buffers")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, own, own["_parameters"], buffers)
            modules[name] = _registered(_global_module_registration_hooks, self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_text(value)}' as child module '{name}' ({NAME}.nn.Module or None expected)"
                )
            modules[name] = _registered(_global_module_registration_hooks, self, name, value)
        elif isinstance(value, Buffer) or (buffers is not None and name in buffers):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_text(value)}' as buffer '{name}' "
                    f"({NAME}.nn.Buffer, {NAME}.Tensor or None expected)"
                )
            if isinstance(value, Buffer):
                self.register_buffer(name, value, value.persistent)
            else:
                buffers[name] = _registered(_global_buffer_registration_hooks, self, name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name, first, second, third):
        if name in first or name in second or name in third:
            for owner in (first, second, third):
                owner.pop(name, None)
        self.__dict__["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name):
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())

    def get_submodule(self, target):
        found = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(f"{found._get_name()} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target, module, strict=False):
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        if hasattr(owner, name) and not isinstance(getattr(owner, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(owner, name, module)

    def _get_member(self, target):
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        return owner, name, getattr(owner, name)

    def get_parameter(self, target):
        _, name, param = self._get_member(target)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target):
        owner, name, buffer = self._get_member(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    # --- listing ----------------------------------------------------------------------------------------------------

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, owner in owners:
            for name, value in get_members_fn(owner):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def parameters(self, recurse=True):
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda owner: owner._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda owner: owner._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self):
        for _, child in self.named_children():
            yield child

    def named_children(self):
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def modules(self, remove_duplicate=True):
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is None:
                continue
            path = f"{prefix}.{name}" if prefix else name
            if child._modules or type(child).named_modules is not Module.named_modules:
                yield from child.named_modules(memo, path, remove_duplicate)
            elif child not in memo:         # a leaf: no generator of its own
                if remove_duplicate:
                    memo.add(child)
                yield path, child

    # --- whole-tree changes -----------------------------------------------------------------------------------------

    def _apply(self, fn, recurse=True):
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                self._apply_parameter(fn, name, param)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _apply_parameter(self, fn, name, param):
        """Changes `param` in place if the result lives on the same kind of device, else puts a new one in its stead."""
        with torch.no_grad():
            changed = fn(param)
            grad = None if param.grad is None else fn(param.grad)
        if changed.device.type == param.device.type:
            # A gradient of the old dtype must not meet data of the new one.
            wanted = None if grad is None else param.grad.requires_grad
            param.grad = None
            param.data = changed
        else:
            wanted = None if grad is None else param.grad.requires_grad
            param = Parameter(changed, param.requires_grad)
            self._parameters[name] = param
        if grad is not None:
            param.grad = grad.requires_grad_(wanted)

    def apply(self, fn):
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def cuda(self, device=None):
        return self._apply(lambda tensor: tensor.cuda(device))

    def ipu(self, device=None):
        return self._apply(lambda tensor: tensor.ipu(device))

    def xpu(self, device=None):
        return self._apply(lambda tensor: tensor.xpu(device))

    def mtia(self, device=None):
        return self._apply(lambda tensor: tensor.mtia(device))

    def cpu(self):
        return self._apply(lambda tensor: tensor.cpu())

    def type(self, dst_type):
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self):
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self):
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self):
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self):
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)

    def to_empty(self, *, device, recurse=True):
        return self._apply(lambda tensor: torch.empty_like(tensor, device=device), recurse=recurse)

    def to(self, *args, **kwargs):
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, and some "
                    "modules might not work as expected when using complex tensors as parameters or buffers. Please "
                    "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a "
                    "complex module does not work as expected.",
                    stacklevel=2,
                )

        def convert(tensor):
            wanted = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            layout = {}
            if memory_format is not None and tensor.dim() in (4, 5):
                layout["memory_format"] = memory_format
            try:
                return tensor.to(device, wanted, non_blocking, **layout)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device."
                ) from None

        return self._apply(convert)

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        _C._module_train_children(self, mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The parameters are "
                "copied (in a differentiable manner) from the original module. This means they are not leaf nodes in "
                "autograd and so don't accumulate gradients. If you need gradients in your forward method, consider "
                "using autograd.grad instead.",
                stacklevel=2,
            )
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if param.grad.grad_fn is not None:
                param.grad.detach_()
            else:
                param.grad.requires_grad_(False)
            param.grad.zero_()

    def share_memory(self):
        return self._apply(lambda tensor: tensor.share_memory_())

    def compile(self, *args, **kwargs):
        self._compiled_call_impl = torch.compile(self._call_impl, *args, **kwargs)

    # --- text -------------------------------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _addindent(repr(child), 2) for name, child in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        body = "".join(f"\n  {line}" for line in lines + children)
        return f"{self._get_name()}({body}" + ("\n)" if body else ")")

    # --- pickling ---------------------------------------------------------------------------------------------------

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Files written before these existed have none of them.
        own = self.__dict__
        for name in ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs",
                     "_forward_hooks_always_called", "_state_dict_hooks", "_state_dict_pre_hooks",
                     "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_backward_pre_hooks"):
            own.setdefault(name, OrderedDict())
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_is_full_backward_hook", None)

    def _replicate_for_data_parallel(self):
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica


_C._module_doors(
    Module, _global_parameter_registration_hooks, _global_buffer_registration_hooks, _global_module_registration_hooks
)
