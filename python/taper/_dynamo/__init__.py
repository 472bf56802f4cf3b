"""torch._dynamo: capture of Python functions from their bytecode. The capture itself is in C (src/python/capture)."""
from . import config, exc
from ._words import tell as _tell
from .backends.registry import list_backends, lookup_backend, register_backend
from .eval_frame import (OptimizedModule, allow_in_graph, disable, disallow_in_graph, forbid_in_graph, graph_break, is_compiling,
                         is_dynamo_supported, mark_dynamic, mark_static, maybe_mark_dynamic, optimize, optimize_assert, reset, run)

_tell()

__all__ = ["OptimizedModule", "allow_in_graph", "config", "disable", "disallow_in_graph", "exc", "forbid_in_graph", "graph_break",
           "is_compiling", "is_dynamo_supported", "list_backends", "lookup_backend", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "optimize", "optimize_assert", "register_backend", "reset", "run"]
