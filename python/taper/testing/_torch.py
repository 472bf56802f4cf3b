"""The package itself under the name PyTorch's users know, whether it was imported as `taper` or as `torch`."""
import sys

torch = sys.modules[__name__.partition(".")[0]]


def dtypes(*names):
    """Those of the named dtypes that the package has."""
    return tuple(getattr(torch, name) for name in names if hasattr(torch, name))
