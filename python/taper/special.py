"""Functions of special: the ops named special_…, under their short names."""
from . import _C


def __getattr__(name):
    function = getattr(_C._special, "special_" + name, None)
    if function is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
    globals()[name] = function
    return function
