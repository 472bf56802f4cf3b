"""Operators that take functions: control flow, loops, calls of other operators. What they do is C (src/ops/higher.op)."""
from .associative_scan import associative_scan
from .auto_functionalize import auto_functionalized, auto_functionalized_v2
from .cond import cond
from .map import map
from .out_dtype import out_dtype
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "auto_functionalized", "auto_functionalized_v2", "cond", "map", "out_dtype", "scan", "while_loop"]
