"""Containers: lists and dictionaries of modules and of parameters."""
import collections.abc
import operator
import warnings
from collections import OrderedDict
from itertools import chain, islice

from ..._root import torch
from ..parameter import Parameter
from .module import Module, _addindent

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class Container(Module):
    """Deprecated: Module does all of it."""

    def __init__(self, **kwargs):
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in nn.Module. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """Modules under the names "0", "1", … in order."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def _renumber(self, modules):
        self._modules.clear()
        for i, module in enumerate(modules):
            self._modules[str(i)] = module


class Sequential(_Numbered):
    """Calls its modules one after another."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _name_at(self, i):
        i = operator.index(i)
        if not -len(self) <= i < len(self):
            raise IndexError(f"index {i} is out of range")
        return next(islice(self._modules, i % len(self), None))

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)(OrderedDict(list(self._modules.items())[i]))
        return self._modules[self._name_at(i)]

    def __setitem__(self, i, module):
        setattr(self, self._name_at(i), module)

    def __delitem__(self, i):
        if isinstance(i, slice):
            for name in list(self._modules)[i]:
                delattr(self, name)
        else:
            delattr(self, self._name_at(i))
        self._renumber(list(self._modules.values()))

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return self.extend(other)

    def __mul__(self, other):
        return Sequential(*chain.from_iterable([list(self)] * self._check_count(other)))

    def __rmul__(self, other):
        return self.__mul__(other)

    def __imul__(self, other):
        start = list(self)
        for _ in range(self._check_count(other) - 1):
            self.extend(start)
        return self

    @staticmethod
    def _check_count(other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {Sequential}")
        return other

    def pop(self, key):
        module = self[key]
        del self[key]
        return module

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        count = len(self)
        if not -count <= index <= count:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential):
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_Numbered):
    """A list of modules that are members of this one."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def _name_at(self, i):
        i = operator.index(i)
        if not -len(self) <= i < len(self):
            raise IndexError(f"index {i} is out of range")
        return str(i % len(self))

    def __getitem__(self, i):
        if isinstance(i, slice):
            return type(self)(list(self._modules.values())[i])
        return self._modules[self._name_at(i)]

    def __setitem__(self, i, module):
        return setattr(self, self._name_at(i), module)

    def __delitem__(self, i):
        names = list(self._modules)[i] if isinstance(i, slice) else [self._name_at(i)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        result = ModuleList()
        for i, module in enumerate(chain(self, other)):
            result.add_module(str(i), module)
        return result

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def __repr__(self):
        """Runs of modules that print alike are printed once, with their numbers and their count."""
        texts = [repr(module) for module in self]
        if not texts:
            return self._get_name() + "()"
        runs = []
        for i, text in enumerate(texts):
            if runs and runs[-1][1] == text:
                runs[-1][2] += 1
            else:
                runs.append([i, text, 1])
        lines = []
        for first, text, count in runs:
            where = f"({first})" if count == 1 else f"({first}-{first + count - 1})"
            lines.append(f"{where}: {_addindent(text if count == 1 else f'{count} x {text}', 2)}")
        body = "\n  ".join(lines)
        return f"{self._get_name()}(\n  {body}\n)"

    def insert(self, index, module):
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        module = self[key]
        del self[key]
        return module

    def extend(self, modules):
        if not isinstance(modules, collections.abc.Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got " + type(modules).__name__
            )
        start = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(start + i), module)
        return self


class ModuleDict(Module):
    """A dictionary of modules that are members of this one, in order of insertion."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        module = self[key]
        del self[key]
        return module

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        if not isinstance(modules, collections.abc.Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        if isinstance(modules, (OrderedDict, ModuleDict, collections.abc.Mapping)):
            for key, module in modules.items():
                self[key] = module
            return
        for i, pair in enumerate(modules):
            if not isinstance(pair, collections.abc.Iterable):
                raise TypeError(
                    f"ModuleDict update sequence element #{i} should be Iterable; is{type(pair).__name__}")
            if not len(pair) == 2:
                raise ValueError(
                    f"ModuleDict update sequence element #{i} has length {len(pair)}; 2 is required")
            self[pair[0]] = pair[1]


def _value_text(value, type_text):
    """How ParameterList and ParameterDict print a member; they differ in how they name a tensor's type."""
    if not isinstance(value, torch.Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.size())
    where = "" if not value.is_cuda else f" (GPU {value.get_device()})"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{type_text(value)} of size {size}{where}]"


def _as_member(value):
    """Plain tensors become parameters, everything else is kept as it is."""
    if isinstance(value, torch.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class ParameterList(Module):
    """A list of parameters (or of anything) that are members of this module."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _name_at(self, i):
        i = operator.index(i)
        if not -len(self) <= i < len(self):
            raise IndexError(f"index {i} is out of range")
        return str(i % len(self))

    def __getitem__(self, i):
        if isinstance(i, slice):
            start, stop, step = i.indices(len(self))
            result = type(self)()
            for k in range(start, stop, step):
                result.append(self[k])
            return result
        return getattr(self, self._name_at(i))

    def __setitem__(self, i, param):
        # The name decides, not the place: "0", "1", … exist from 0 to _size.
        return setattr(self, self._name_at(i), _as_member(param))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value):
        place = len(self)
        self._size += 1
        self[place] = value
        return self

    def extend(self, values):
        # A tensor is iterable too, over its rows: nobody means that.
        if not isinstance(values, collections.abc.Iterable) or isinstance(values, torch.Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got " + type(values).__name__
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(f"  ({i}): {_value_text(value, lambda t: t.dtype)}" for i, value in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters (or of anything) that are members of this module."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _key_to_attr(key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        setattr(self, self._key_to_attr(key), _as_member(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def copy(self):
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        key, _ = self._keys.popitem()
        # The key must be there for `del`.
        self._keys[key] = None
        value = self[key]
        del self[key]
        return key, value

    def get(self, key, default=None):
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        return self._keys.keys()

    def items(self):
        return ((key, self[key]) for key in self._keys)

    def values(self):
        return (self[key] for key in self._keys)

    def update(self, parameters):
        if not isinstance(parameters, collections.abc.Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but got "
                + type(parameters).__name__
            )
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs = parameters.items()
        elif isinstance(parameters, collections.abc.Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = self._pairs(parameters)
        for key, value in pairs:
            self[key] = value

    @staticmethod
    def _pairs(parameters):
        for i, pair in enumerate(parameters):
            if not isinstance(pair, collections.abc.Iterable):
                raise TypeError(
                    f"ParameterDict update sequence element #{i} should be Iterable; is{type(pair).__name__}")
            if not len(pair) == 2:
                raise ValueError(
                    f"ParameterDict update sequence element #{i} has length {len(pair)}; 2 is required")
            yield pair

    def extra_repr(self):
        return "\n".join(f"  ({key}): {_value_text(value, torch.typename)}" for key, value in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other):
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other):
        self.update(other)
        return self
