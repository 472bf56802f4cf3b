"""Functions of fft: the ops named fft_…, under their short names."""
from . import _C


def __getattr__(name):
    function = getattr(_C._fft, "fft_" + name, None)
    if function is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': Taper does not have it yet")
    globals()[name] = function
    return function
