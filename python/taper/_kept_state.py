"""A model that is recorded runs on copies of its state: whatever its program does, or wherever it fails, the model is afterwards what it was.

Tensors that are reached from the model are exchanged for copies, which share memory as they do; modules, other objects, functions' closures
and containers keep their identity, and get their old contents back at the end. So parameters, buffers, training flags, caches, counters
and lists are as before, the versions of tensors too (a backward that was pending still runs), and so is the random generator.
"""
import collections
import copy
import enum
import functools
import itertools
import random
import sys
import types

from . import _C

CONTAINERS = (list, dict, set, bytearray, collections.deque)
SIMPLE = (type(None), bool, int, float, complex, str, bytes, type, range, slice, frozenset, enum.Enum, types.ModuleType, types.BuiltinFunctionType)
EXACT = frozenset((*CONTAINERS, collections.OrderedDict, collections.defaultdict))
PLAIN = frozenset(SIMPLE)       # most values of most modules are of these very classes
ITERATORS = tuple(t for t in vars(itertools).values() if isinstance(t, type))
OWN = __name__.partition(".")[0]


def _base(container):
    """The class whose methods store into it without side effects of a subclass."""
    if type(container) in EXACT:
        return type(container)
    kinds = (collections.OrderedDict, collections.defaultdict, *CONTAINERS)
    return next(kind for kind in kinds if isinstance(container, kind))


def _refill_dict(held, saved):
    base = _base(held)
    if len(held) == len(saved) and all(a is b or a == b for a, b in zip(held, saved)):
        for key, value in saved.items():
            if base.__getitem__(held, key) is not value:
                base.__setitem__(held, key, value)
        return
    base.clear(held)
    for key, value in saved.items():
        base.__setitem__(held, key, value)


def _refill(held, saved):
    """The container has its old contents again; nothing is done to one that has them."""
    if type(held) in EXACT and not held and not saved:
        return
    base = _base(held)
    if isinstance(held, dict):
        _refill_dict(held, saved)
    elif isinstance(held, (list, bytearray)):
        if len(held) != len(saved) or any(a is not b for a, b in zip(held, saved)):
            base.__setitem__(held, slice(None), saved)
    elif isinstance(held, set):
        if not (len(held) == len(saved) and saved <= held):
            base.clear(held)
            base.update(held, saved)
    elif len(held) != len(saved) or any(a is not b for a, b in zip(held, saved)):
        base.clear(held)
        base.extend(held, saved)


def _globals_of(code):
    """The names of globals that a function's code, or code inside it, may mention."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_of(constant)
    return names


class KeptState:
    """`with KeptState(model): …` runs the model on copies of its state."""

    def __init__(self, root):
        self.root, self.undo, self.waiting, self.memo, self.copies, self.installed = root, [], [], {}, {}, []

    def __enter__(self):
        from .random import get_rng_state, set_rng_state

        state = get_rng_state()
        self.undo.append(lambda: set_rng_state(state))
        try:
            self.copy_of(self.root)
            self.copy_globals(self.root)
            while self.waiting:
                self.waiting.pop()()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        while self.undo:
            self.undo.pop()()

    def replaced(self):
        """The names of parameters and buffers that are other tensors by now."""
        return [name for name, held, copy in self.installed if held.get(name) is not copy]

    def copy_of(self, value):
        """What stands for a value meanwhile: a copy of a tensor, a tuple or an iterator; anything else stands for itself, its contents wait."""
        if type(value) in PLAIN or isinstance(value, SIMPLE):
            return value
        known = self.copies.get(id(value))
        if known is None:
            known = self.copies[id(value)] = (value, self.begin(value))      # the value is held: its address means it alone
        return known[1]

    def begin(self, value):
        kind = type(value)
        if isinstance(value, _C.Tensor):
            return self.tensor(value)
        if isinstance(value, tuple):
            items = [self.copy_of(item) for item in value]
            if all(a is b for a, b in zip(items, value)):
                return value
            return kind(*items) if hasattr(kind, "_fields") else kind(items)
        if isinstance(value, ITERATORS):
            return copy.copy(value)
        if isinstance(value, CONTAINERS):
            self.waiting.append(lambda: self.contents(value))
        elif isinstance(value, types.FunctionType):
            self.waiting.append(lambda: self.function(value))
        elif isinstance(value, types.MethodType):
            self.copy_of(value.__self__), self.copy_of(value.__func__)
        elif isinstance(value, functools.partial):
            self.waiting.append(lambda: self.partial(value))
        elif isinstance(value, random.Random):
            state = value.getstate()
            self.undo.append(lambda: value.setstate(state))
        elif isinstance(value, _C.Generator):
            kept = value.get_state()
            self.undo.append(lambda: value.set_state(kept))
        elif type(value).__module__ == "numpy" and hasattr(value, "__array_interface__"):
            return value.copy()
        elif self.is_state(value):
            self.waiting.append(lambda: self.instance(value))
        return value

    @staticmethod
    def is_state(value):
        """Objects of the program's classes, and modules of ours; other objects of this package and of Python's library stay as they are."""
        from .nn import Module

        home = str(type(value).__module__).partition(".")[0]
        return isinstance(value, (Module, types.SimpleNamespace)) or (home != OWN and home not in (sys.stdlib_module_names - {"__main__"}))

    def tensor(self, x):
        try:
            made = copy.deepcopy(x if x.is_leaf else x.detach(), self.memo)
            for name, value in (getattr(x, "__dict__", None) or {}).items():
                made.__dict__.setdefault(name, value)
        except (RuntimeError, NotImplementedError, TypeError, AttributeError):     # fakes, sparse tensors, classes that refuse: as they are
            return x
        return made

    # ---- what keeps its identity ----
    def contents(self, held):
        if type(held) in EXACT and not held and not getattr(held, "__dict__", None):
            self.undo.append(functools.partial(_refill, held, {} if isinstance(held, dict) else ()))
            return
        saved = bytes(held) if isinstance(held, bytearray) else set(held) if isinstance(held, set) else \
            dict(dict.items(held)) if isinstance(held, dict) else list(held)
        self.undo.append(lambda: _refill(held, saved))
        if isinstance(held, dict):
            for key, value in saved.items():
                made = value if type(value) in PLAIN else self.copy_of(value)
                if made is not value:
                    _base(held).__setitem__(held, key, made)
        elif isinstance(held, (list, collections.deque)):
            for i, value in enumerate(saved):
                made = self.copy_of(value)
                if made is not value:
                    _base(held).__setitem__(held, i, made)
        if hasattr(held, "__dict__"):
            self.contents(vars(held))

    def instance(self, held):
        kind = type(held)
        self.undo.append(lambda: type(held) is kind or object.__setattr__(held, "__class__", kind))     # lazy modules become others
        if isinstance(getattr(held, "__dict__", None), dict):
            self.contents(vars(held))
            for tensors in (vars(held).get(kind) for kind in ("_parameters", "_buffers")):
                if isinstance(tensors, dict):
                    self.installed += [(name, tensors, self.copy_of(x)) for name, x in tensors.items() if isinstance(x, _C.Tensor)]
        for name in {name for base in kind.__mro__ for name in self.slots_of(base)}:
            if hasattr(held, name):
                self.attribute(held, name)

    @staticmethod
    def slots_of(kind):
        slots = vars(kind).get("__slots__", ())
        names = [slots] if isinstance(slots, str) else list(slots)
        return [name for name in names if isinstance(vars(kind).get(name), types.MemberDescriptorType)]

    def attribute(self, held, name):
        saved = getattr(held, name)
        self.undo.append(lambda: getattr(held, name, None) is saved or object.__setattr__(held, name, saved))
        made = self.copy_of(saved)
        if made is not saved:
            object.__setattr__(held, name, made)

    def function(self, held):
        self.contents(vars(held))
        for cell in held.__closure__ or ():
            try:
                saved = cell.cell_contents
            except ValueError:              # not assigned yet
                continue
            self.undo.append(functools.partial(setattr, cell, "cell_contents", saved))
            cell.cell_contents = self.copy_of(saved)
        for value in (*(held.__defaults__ or ()), *(held.__kwdefaults__ or {}).values()):
            if not isinstance(value, _C.Tensor):
                self.copy_of(value)

    def partial(self, held):
        self.copy_of(held.func), self.copy_of(held.args)
        self.contents(held.keywords)

    def copy_globals(self, root):
        """Of a program that is a plain function: the globals it mentions."""
        while isinstance(root, (functools.partial, types.MethodType)):
            root = root.func if isinstance(root, functools.partial) else root.__func__
        if not isinstance(root, types.FunctionType):
            return
        space = root.__globals__
        for name in _globals_of(root.__code__) & space.keys():
            saved = space[name]
            self.undo.append(functools.partial(space.__setitem__, name, saved))
            made = self.copy_of(saved)
            if made is not saved:
                space[name] = made

