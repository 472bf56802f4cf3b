"""What a trace may not leave behind: the model, the classes and globals its forward writes to, and settings of the process, as they were.

Tensors keep their identity, for the trace has stand-ins for those it knows (_trace._Swapped), and constants are the model's own."""
import contextlib
import random
import types

from .. import _C
from .._kept_state import KeptState, _globals_of


_ABSENT = object()


class _Kept(KeptState):
    """Undoes what is done to modules, objects, containers and globals that are reached from the model; its tensors stand for themselves."""

    def __init__(self, root, functions):
        super().__init__(root)
        self.functions = functions

    def copy_globals(self, root):
        for function in self.functions:
            self.copy_of(function)

    def tensor(self, x):
        return x

    def function(self, held):
        super().function(held)
        space = held.__globals__
        for name in _globals_of(held.__code__):
            saved = space.get(name, _ABSENT)
            self.undo.append(lambda name=name, saved=saved: space.pop(name, None) if saved is _ABSENT else space.__setitem__(name, saved))
            if saved is not _ABSENT:
                self.copy_of(saved)


def _classes_of(mod):
    """Classes of the program among those of the modules."""
    found = {base for m in mod.modules() for base in type(m).__mro__}
    return [base for base in found if base is not object and base.__module__.partition(".")[0] != __name__.partition(".")[0]]


def _put_back(held, saved, put, drop):
    for name in list(held):
        if name not in saved:
            drop(name)
    for name, value in saved.items():
        if name not in held or held[name] is not value:
            put(name, value)


@contextlib.contextmanager
def _classes_kept(classes):
    saved = [(base, dict(vars(base))) for base in classes]
    try:
        yield
    finally:
        for base, then in saved:
            _put_back(dict(vars(base)), then, lambda name, value, base=base: setattr(base, name, value), lambda name, base=base: delattr(base, name))


@contextlib.contextmanager
def _process_kept():
    grad, dtype, state = _C.is_grad_enabled(), _C.get_default_dtype(), random.getstate()
    try:
        yield
    finally:
        _C._set_grad_enabled(grad)
        _C._set_default_dtype(dtype)
        random.setstate(state)


@contextlib.contextmanager
def everything_kept(mod):
    """After the block, however it ends, the model and the process are what they were."""
    classes = _classes_of(mod)
    functions = [value for base in classes for value in vars(base).values() if isinstance(value, types.FunctionType)]
    with _process_kept(), _classes_kept(classes), _Kept(mod, functions):
        yield
