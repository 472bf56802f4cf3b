"""Functions of fft: the ops named fft_…, under their short names."""
from . import _C
from ._ops import ops


def __getattr__(name):
    function = getattr(_C._VariableFunctions, "fft_" + name, None)
    if function is None and not name.startswith("__") and _C._op_overload_names("aten", "fft_" + name):
        function = getattr(ops.aten, "fft_" + name)
    if function is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
    globals()[name] = function
    return function
