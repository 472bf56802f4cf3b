"""Groups of nodes made into submodules."""
import operator

from .... import _C
from ...graph import Graph
from ...node import map_arg
from ..tools_common import stable_topological_sort
from .common import lift_subgraph_as_module

__all__ = ["topo_sort", "validate_partition", "fuse_as_graphmodule", "insert_subgm", "erase_nodes", "fuse_by_partitions"]


def topo_sort(nodes):
    """The nodes in the order of their graph, in which each comes after those it reads."""
    return sorted(nodes)


def validate_partition(partition):
    """Could the nodes be one call: does no path leave them and come back?"""
    nodes = list(partition)
    if not nodes:
        return True
    graph, apart = nodes[0].graph, dict.fromkeys(nodes, 0)
    for node in graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output") and node not in apart:
            apart[node] = len(apart) - len(nodes) + 1
    try:
        _C._fx_split(graph, apart)
    except RuntimeError:
        return False
    return True


def fuse_as_graphmodule(gm, nodes, module_name, partition_lookup_table=None, *, always_return_tuple=False):
    """A module of the nodes, what of the graph it reads, and what of it the graph reads."""
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    _, rows = _C._fx_split(gm.graph, dict.fromkeys(nodes, 0))
    _, inputs, outputs = rows[0]
    outputs = [node for node in nodes if node in set(outputs)]
    graph, made = Graph(), {}
    for node in inputs:
        made[node] = graph.placeholder(node.name, type_expr=node.type)
        made[node].meta = node.meta.copy()
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    results = tuple(made[node] for node in outputs)
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    fused, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return fused, tuple(inputs), tuple(outputs)


def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs):
    """Calls the module in place of the nodes it was made of."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    call = gm.graph.call_module(name, args=orig_inputs)
    if len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    call.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
    for i, node in enumerate(orig_outputs):
        item = gm.graph.call_function(operator.getitem, (call, i))
        node.replace_all_uses_with(item, propagate_meta=True)
    return gm


def erase_nodes(gm, nodes):
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """Makes each partition a submodule that is called in its place."""
    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        fused, inputs, outputs = fuse_as_graphmodule(gm, nodes, prefix + str(i), partition, always_return_tuple=always_return_tuple)
        with gm.graph.inserting_before(_place_behind(nodes)):
            insert_subgm(gm, fused, inputs, outputs)
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    gm.recompile()
    return gm


def _place_behind(nodes):
    return max(nodes).next
