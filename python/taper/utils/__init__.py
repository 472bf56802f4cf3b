"""Hooks, data loading, and modules that are loaded when they are asked for."""
from . import data, hooks


def __getattr__(name):
    if name != "checkpoint":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module("." + name, __name__)
