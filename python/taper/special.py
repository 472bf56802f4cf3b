"""Functions of special: the ops named special_…, under their short names."""
from . import _C

__all__ = [name.removeprefix("special_") for name in vars(_C._special) if name.startswith("special_")]
globals().update((name, getattr(_C._special, "special_" + name)) for name in __all__)


def __getattr__(name):
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
