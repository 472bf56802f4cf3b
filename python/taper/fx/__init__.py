"""Graphs of programs: tracing, looking at them, changing them, and making programs of them again.

A compiled function needs graphs and their modules only; what traces and rewrites (and with it `inspect`) is imported when it is
first asked for."""
import importlib

from . import immutable_collections
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .node import Node, has_side_effect, map_arg

__all__ = [
    "symbolic_trace", "Tracer", "wrap", "Graph", "GraphModule", "Interpreter", "Transformer", "Node", "Proxy",
    "replace_pattern", "has_side_effect", "map_arg", "CodeGen", "PH", "ProxyableClassMeta", "immutable_collections", "traceback", "passes",
]

_LATER = {
    "PH": "_symbolic_trace", "ProxyableClassMeta": "_symbolic_trace", "Tracer": "_symbolic_trace", "symbolic_trace": "_symbolic_trace",
    "wrap": "_symbolic_trace", "Interpreter": "interpreter", "Transformer": "interpreter", "Proxy": "proxy",
    "replace_pattern": "subgraph_rewriter",
}
_MODULES = ("_symbolic_trace", "annotate", "config", "experimental", "interpreter", "operator_schemas", "passes", "proxy", "subgraph_rewriter", "traceback")


def __getattr__(name):
    if name not in _LATER and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = importlib.import_module(f"{__name__}.{_LATER.get(name, name)}")
    if name in _LATER:
        found = globals()[name] = getattr(found, name)
    return found


def __dir__():
    return sorted({*globals(), *_LATER, *_MODULES})
