"""op_db: the ops with sample inputs. It is made from the op table's `try` lines."""
from .opinfo.core import DecorateInfo


def __getattr__(name):
    if name == "op_db":
        raise ImportError("op_db is made from the op table, which does not provide it yet")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
