"""Named tuples that ops with several results give."""
from . import _C


def __getattr__(name):
    try:
        return _C._return_types[name]
    except KeyError:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None
