"""Graphs of programs: tracing, looking at them, changing them, and making programs of them again."""
from . import immutable_collections, traceback
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern
from . import passes  # noqa: E402  after what it derives from

__all__ = [
    "symbolic_trace", "Tracer", "wrap", "Graph", "GraphModule", "Interpreter", "Transformer", "Node", "Proxy",
    "replace_pattern", "has_side_effect", "map_arg", "CodeGen", "PH", "ProxyableClassMeta", "immutable_collections", "traceback", "passes",
]
