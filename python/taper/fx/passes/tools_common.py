"""What tools ask of nodes, and graphs put in order (src/pass/order.c)."""
import builtins

from ... import _C
from ..._tensor import Tensor
from ..node import _get_qualified_name

__all__ = ["get_acc_ops_name", "get_node_target", "is_node_output_tensor", "legalize_graph", "stable_topological_sort"]


def get_acc_ops_name(k):
    """The name of an op, without the path of the module that defines it."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return f"{k.__module__.replace('torch._ops', 'torch.ops')}.{k.__name__}"


def get_node_target(submodules, node):
    """What a call calls: the type of a module, the name of a function or method."""
    if node.op not in ("call_module", "call_method", "call_function"):
        raise AssertionError(f"Expect op types of call_module, call_method, call_function, but found {node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        inner = getattr(module, "_base_class_origin", type(module))
        return get_acc_ops_name(inner).replace(__name__.partition(".")[0] + ".", "torch.", 1)
    if node.op == "call_method":
        return node.target
    if getattr(node.target, "__module__", None) == builtins.__name__:
        return node.target.__name__
    return _get_qualified_name(node.target)


def is_node_output_tensor(node):
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


def _in_order(gm, stable, error):
    stuck = _C._fx_order(gm.graph, stable)
    if stuck:
        raise error(f"Input graph has cycles, unable to add {stuck}")
    return gm


def legalize_graph(gm):
    """Puts the nodes in an order in which each stands behind what it reads, those first that are ready first."""
    return _in_order(gm, False, RuntimeError)


def stable_topological_sort(gm):
    """The same, moving only what stands too early."""
    return _in_order(gm, True, AssertionError)
