"""Which PyTorch this package answers for, and what it was built with."""
from .torch_version import __version__  # noqa: F401

cuda = None
hip = None
xpu = None
debug = False
git_version = "taper"
