"""Functions of linalg: the ops named linalg_…, under their short names."""
from . import _C


def __getattr__(name):
    function = getattr(_C._linalg, "linalg_" + name, None)
    if function is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
    globals()[name] = function
    return function


LinAlgError = _C._LinAlgError
