"""Functions of special: the ops named special_…, under their short names."""
from . import _C
from ._ops import ops


def __getattr__(name):
    function = getattr(_C._VariableFunctions, "special_" + name, None)
    if function is None and not name.startswith("__") and _C._op_overload_names("aten", "special_" + name):
        function = getattr(ops.aten, "special_" + name)
    if function is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
    globals()[name] = function
    return function
