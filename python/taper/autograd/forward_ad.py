"""Dual tensors: forward mode on plain tensors, inside a level. The work is in the extension."""
from typing import NamedTuple, Optional

from .. import _C
from .._C import Tensor, _VariableFunctions as _functions
from .grad_mode import _Mode

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

_current_level = -1     # of this package; at most 0


def enter_dual_level():
    """Opens a level in which tensors may have tangents; gives its number."""
    global _current_level
    _current_level = _C._enter_dual_level()
    return _current_level


def exit_dual_level(*, level=None):
    """Closes the level: tangents made in it are gone."""
    global _current_level
    _C._exit_dual_level(_current_level if level is None else level)
    _current_level = -1


def make_dual(tensor, tangent, *, level=None):
    """A view of `tensor` that has this tangent."""
    level = _current_level if level is None else level
    if level < 0:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {t.dtype}")
    return _functions._make_dual(tensor, tangent, level)


class UnpackedDualTensor(NamedTuple):
    """A primal and its tangent, None where there is none."""
    primal: Tensor
    tangent: Optional[Tensor]


def unpack_dual(tensor, *, level=None):
    """The primal and the tangent of a dual tensor."""
    level = _current_level if level is None else level
    return UnpackedDualTensor(tensor, None) if level < 0 else UnpackedDualTensor(*_functions._unpack_dual(tensor, level))


class dual_level(_Mode):
    """A level for the length of a with statement."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *error):
        exit_dual_level()


class _set_fwd_grad_enabled(_Mode):
    """Tangents flow, or do not, inside."""

    def __init__(self, mode):
        self.mode = mode
        self.before = _C._is_fwd_grad_enabled()
        _C._set_fwd_grad_enabled(mode)

    def __enter__(self):
        pass

    def __exit__(self, *error):
        _C._set_fwd_grad_enabled(self.before)

    def clone(self):
        return type(self)(self.mode)
