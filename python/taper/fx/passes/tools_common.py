"""What tools ask of nodes, and graphs put in order (src/pass/order.c)."""
import builtins
import operator
import typing

from ... import _C, _facades
from ..._tensor import Tensor
from ..node import _get_qualified_name
from .shape_prop import ShapeProp, TensorMetadata

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


# ---- Targets replaced, and the bytes of nodes ----------------------------------------------------------------------
def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Makes every call of one thing a call of another."""
    graph = fx_module.graph
    for node in graph.nodes:
        if node.op == old_op and node.target == old_target:
            with graph.inserting_before(node):
                made = graph.create_node(new_op, new_target, node.args, node.kwargs, None, node.type)
            made.meta = node.meta.copy()
            node.replace_all_uses_with(made)
            name = node.name
            graph.erase_node(node)
            made.name = name
    graph.lint()


class size_bytes(typing.NamedTuple):
    """Bytes of what a node gives, and of that and what it owns."""
    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module, args=None):
    """Sets size_bytes of every node but the output; runs the module on `args` for their shapes."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node):
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run.")
    return meta


def _bytes_of(meta):
    count = 1
    for size in meta.shape:
        count *= size
    return count * meta.dtype.itemsize


def get_size_of_node(fx_module, node):
    owned = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        owned = sum(p.numel() * p.dtype.itemsize for p in (*module.parameters(), *module.buffers()))
    meta = get_tensor_meta(node)
    size = _bytes_of(meta) if isinstance(meta, TensorMetadata) else sum(map(_bytes_of, meta))
    return size_bytes(size, owned + size)


# ---- Types of what is taken out of containers, and what lowerings read from modules --------------------------------
def annotate_getitem_nodes(graph):
    """Gives items of lists, tuples and named tuples whose type is known the type of the item."""
    for node in graph.find_nodes(op="call_function", target=operator.getitem):
        of, index = node.args[0].type, node.args[1]
        if of is None or node.type is not None:
            continue
        if getattr(of, "_fields", None) and hasattr(of, "__annotations__"):
            node.type = of.__annotations__[of._fields[index]]
            continue
        origin, inner = typing.get_origin(of), typing.get_args(of)
        if origin is tuple and len(inner) == 2 and inner[1] is ...:
            inner, index = inner[:1], 0
        if origin is list and len(inner) == 1:
            node.type = inner[0]
        elif origin is tuple:
            if index >= len(inner):
                raise AssertionError(f"Index {index} out of range for parameterized_types (len={len(inner)})")
            node.type = inner[index]


def default_matching(name, target_version):
    """The name of an attribute in every version."""
    return name


_CONVOLUTION = ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
_POOLING = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
_READ_BY_LOWERINGS = {
    "linear.Linear": ["weight", "bias"], "conv.Conv2d": _CONVOLUTION, "pooling.MaxPool2d": _POOLING, "activation.ReLU": ["inplace"],
    "batchnorm.BatchNorm2d": ["weight", "bias", "running_mean", "running_var", "eps"], "pooling.AdaptiveAvgPool2d": [],
}


def extract_attrs_for_lowering(mod):
    """The attributes of a layer that a lowering reads, and its name."""
    name = f"{type(mod).__module__}.{type(mod).__name__}".replace(__name__.partition(".")[0] + ".", "torch.", 1)
    where, _, short = name.partition("torch.nn.modules.")
    if where or short not in _READ_BY_LOWERINGS:
        raise RuntimeError(f"{name} is not in the module_fetch_book yet, please add it to the module_fetch_book, open an issue and @842974287 or "
                           "report a bug to AIACC team directly.")
    return {"name": name, **{attr: getattr(mod, attr) for attr in _READ_BY_LOWERINGS[short]}}


def lift_lowering_attrs_to_nodes(fx_module):
    """Sets attrs_for_lowering of every node that calls a layer."""
    modules = dict(fx_module.named_modules())
    for node in fx_module.graph.find_nodes(op="call_module"):
        if type(modules[node.target]).__name__ == "GraphModule" or hasattr(modules[node.target], "graph"):
            lift_lowering_attrs_to_nodes(modules[node.target])
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(modules[node.target])


_facades.settle(__name__)
