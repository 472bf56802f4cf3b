"""Nodes grouped by the call of the program they come from."""
import dataclasses
import typing

__all__ = ["get_source_partitions", "check_subgraphs_connected", "SourcePartition"]


@dataclasses.dataclass
class SourcePartition:
    """The nodes of one call, what they read and what is read of them."""
    nodes: list
    source: typing.Any
    input_nodes: list = dataclasses.field(default_factory=list)
    output_nodes: list = dataclasses.field(default_factory=list)
    params: list = dataclasses.field(default_factory=list)


def get_source_partitions(graph, wanted_sources, filter_fn=None):
    """For each wanted source (a module's type or a function), the partitions that come from it."""
    found = {}
    for node in graph.nodes:
        stack = node.meta.get("source_fn_stack")
        if not stack:
            continue
        name, source = stack[-1]
        if source in wanted_sources:
            found.setdefault(source, {}).setdefault(name, []).append(node)
    made = {source: [_partition(nodes, source) for nodes in by_name.values()] for source, by_name in found.items()}
    if filter_fn is None:
        return made
    kept = {source: [one for one in ones if all(filter_fn(node) for node in one.output_nodes)] for source, ones in made.items()}
    return {source: ones for source, ones in kept.items() if ones}


def _partition(nodes, source):
    inside, read, given, owned = set(nodes), {}, {}, {}
    for node in nodes:
        for arg in node.all_input_nodes:
            if arg not in inside:
                read[arg] = None
        if node.op == "get_attr":
            owned[node] = None
        if any(user not in inside for user in node.users):
            given[node] = None
    return SourcePartition(nodes, source, [n for n in read if n.op != "get_attr"], list(given), list(owned))


def check_subgraphs_connected(subgraph1, subgraph2):
    """Does the second read what the first gives?"""
    return any(node in subgraph1.output_nodes for node in subgraph2.input_nodes)
