"""Passes over graphs: classes to subclass, and faces of what src/pass does."""
import importlib

_MODULES = ("annotate_getitem_nodes", "dialect", "fake_tensor_prop", "graph_drawer", "graph_manipulation", "infra", "operator_support", "param_fetch", "pass_manager", "reinplace", "shape_prop",
            "split_module", "split_utils", "tools_common", "utils")


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__():
    return sorted({*globals(), *_MODULES})
