"""Hooks, data loading, and modules that are loaded when they are asked for."""
from . import data, hooks


def __getattr__(name):
    import importlib

    try:
        return importlib.import_module("." + name, __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
