"""The package itself under the name PyTorch's users know, whether it was imported as `taper` or as `torch`."""
import sys

torch = sys.modules[__name__.partition(".")[0]]
