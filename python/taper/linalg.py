"""Functions of linalg: the ops named linalg_…, under their short names."""
from . import _C
from ._ops import ops


def __getattr__(name):
    function = getattr(_C._VariableFunctions, "linalg_" + name, None)
    if function is None and not name.startswith("__") and _C._op_overload_names("aten", "linalg_" + name):
        function = getattr(ops.aten, "linalg_" + name)
    if function is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
    globals()[name] = function
    return function


LinAlgError = _C._LinAlgError
