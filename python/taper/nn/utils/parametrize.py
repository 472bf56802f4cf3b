"""Parameters computed from others.

    register_parametrization(linear, "weight", Symmetric())

    linear.weight                               a property: Symmetric()(original)
    linear.parametrizations.weight.original     the parameter that learns
    linear.parametrizations.weight[0]           the module that computes

The module's class becomes a subclass of its own that has the property.
"""
import collections
import contextlib
import copy

from ..._root import torch
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations",
    "type_before_parametrizations", "transfer_parametrizations_and_params",
]

_depth = 0
_values = {}


@contextlib.contextmanager
def cached():
    """Inside, each parametrized tensor is computed once."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _values.clear()


def _keep(module, name, tensor):
    """A tensor under a name of the module, as parameter or buffer."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set_same(old, new, name):
    """Gives an existing parameter a new value."""
    with torch.no_grad():
        if not isinstance(new, torch.Tensor):
            raise ValueError(f"`right_inverse` must return tensors. Got {type(new).__name__} for {name}")
        old.set_(new)


class ParametrizationList(ModuleList):
    """The modules that compute a tensor one after the other, and `original` (or original0, original1, …), what they start from."""

    def __init__(self, modules, original, unsafe=False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with torch.no_grad():
            start = self._inverse(original)
        self.is_tensor = isinstance(start, torch.Tensor)
        if not self.is_tensor and not isinstance(start, collections.abc.Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(start).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            if original.dtype != start.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {start.dtype}"
                )
            if original is not start:
                _set_same(original, start, "original")
            _keep(self, "original", original)
        else:
            for i, part in enumerate(start):
                if not isinstance(part, torch.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _keep(self, f"original{i}", part)
        if not unsafe:
            self._check(shape, dtype)

    def _check(self, shape, dtype):
        made = self()
        if not isinstance(made, torch.Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
        for what, before, after in (("dtype", dtype, made.dtype), ("shape", shape, made.shape)):
            if before != after:
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized {what}: {before}\nparametrized {what}: {after}"
                )

    def _inverse(self, value):
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    pass
        return value

    def _originals(self):
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value):
        """Makes the computed tensor `value`, as far as the modules can."""
        with torch.no_grad():
            value = self._inverse(value)
            values = [value] if self.is_tensor else value
            if not self.is_tensor and (not isinstance(value, collections.abc.Sequence) or len(value) != self.ntensors):
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got {value}.")
            for i, (old, new) in enumerate(zip(self._originals(), values)):
                if not isinstance(new, torch.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
                if old.dtype != new.dtype:
                    raise ValueError(
                        f"The tensor `parametrization.original{'' if self.is_tensor else i}` returned by `right_inverse` "
                        f"has dtype {new.dtype} while the original has dtype {old.dtype}"
                    )
                _set_same(old, new, "original")

    def forward(self):
        if torch.jit.is_scripting():
            raise RuntimeError("Parametrization is not working with scripting.")
        value = self[0](*self._originals())
        for module in list(self)[1:]:
            value = module(value)
        return value


def _add_class(module):
    """Gives the module a class of its own, a subclass of what it was."""
    base = module.__class__

    def getstate(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    def deep(self, memo):
        twin = memo.get(id(self))
        if twin is None:
            twin = self.__new__(self.__class__)
            memo[id(self)] = twin
            twin.__dict__ = copy.deepcopy(self.__dict__, memo)
        return twin

    body = {"__getstate__": getstate}
    if not hasattr(base, "__deepcopy__"):
        body["__deepcopy__"] = deep
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), body)


def _add_property(module, name):
    def get(self):
        if not _depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _values:
            _values[key] = self.parametrizations[name]()
        return _values[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(module.__class__, name, property(get, put))


def is_parametrized(module, tensor_name=None):
    parametrizations = getattr(module, "parametrizations", None)
    if parametrizations is None or not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def type_before_parametrizations(module):
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain = module.parametrizations[tensor_name]
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        chain.append(parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _add_class(module)
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    return module


def _check_another(module, tensor_name, parametrization):
    """One more step may not change what the tensor looks like, nor may its inverse."""
    now = getattr(module, tensor_name)
    made = parametrization(now)
    for what in ("dtype", "shape"):
        before, after = getattr(now, what), getattr(made, what, None)
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{tensor_name}.{what}: {before}\nparametrization(module.{tensor_name}).{what}: {after}"
            )
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(made)
        except NotImplementedError:
            return
        if not isinstance(back, torch.Tensor):
            raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
        module.parametrizations[tensor_name].right_inverse(back) if back is not made else None


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            with torch.no_grad():
                value = getattr(module, tensor_name)
            _set_same(original, value, tensor_name)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor parametrized by many.")
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _keep(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = module.__class__.__bases__[0]
    return module


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Registers on one module what is registered on another, with copies of its tensors."""
    if not is_parametrized(from_module):
        return to_module
    if not isinstance(from_module.parametrizations, ModuleDict):
        raise AssertionError("from_module.parametrizations is expected to be a ModuleDict")
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        chain = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(chain.original if chain.is_tensor else chain.original0))
        for step in chain:
            register_parametrization(to_module, name, step)
        for ours, theirs in zip(to_module.parametrizations[name]._originals(), chain._originals()):
            with torch.no_grad():
                ours.copy_(theirs)
    return to_module
