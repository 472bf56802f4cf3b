"""Replacing patterns in graphs."""
import copy
import dataclasses
import typing

from .._tensor import Tensor
from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr
from .node import Node, map_arg
from .passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters", "ReplacedPatterns"]


class Match(typing.NamedTuple):
    """Where a pattern was: the node it was found from, and what stood for each of its nodes."""
    anchor: Node
    nodes_map: dict


@dataclasses.dataclass
class ReplacedPatterns:
    """A Match, and the nodes that stand there now."""
    anchor: Node
    nodes_map: dict
    replacements: list


def replace_pattern(gm, pattern, replacement):
    """Replaces every place of `gm` where `pattern` stands, those that overlap the ones before left out."""
    return [Match(m.anchor, m.nodes_map) for m in _replace_pattern(gm, pattern, replacement)]


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None, ignore_literals=False, replacement_callback=None,
                                 node_name_match=""):
    """As replace_pattern, where all filters agree; a callback may make the replacement for each match."""
    return _replace_pattern(gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match)


def _graph_of(given):
    if isinstance(given, GraphModule):
        return given.graph
    return given if isinstance(given, Graph) else symbolic_trace(given).graph


def _leaves(result):
    """The values a replacement returns, as one list."""
    found = []
    if isinstance(result, dict):
        map_arg(result, found.append)
        return found
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _replace_pattern(gm, pattern, replacement=None, match_filters=None, ignore_literals=False, replacement_callback=None,
                     node_name_match=""):
    graph, wanted = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(wanted, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
                              ignore_literals=ignore_literals)
    matches = [m for m in matcher.match(graph, node_name_match=node_name_match)
               if all(agrees(m, graph, wanted) for agrees in match_filters or ())]
    if replacement is not None:
        fixed = _graph_of(replacement)
    elif replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    changed, replaced = {}, []
    for match in matches:
        made = fixed if replacement is not None else replacement_callback(match, graph, wanted)
        replaced.append(_replace_one(graph, wanted, match, made, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _replace_attributes(gm, replacement)
    return replaced


def _replace_one(graph, pattern, match, replacement, changed):
    inputs = replacement.find_nodes(op="placeholder")
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}")
    renewed = lambda value: changed.get(value, value) if isinstance(value, Node) else value
    for node in pattern.find_nodes(op="placeholder"):
        match.nodes_map[node] = renewed(match.nodes_map[node])
    copies = {node: renewed(value) for node, value in zip(inputs, match.placeholder_nodes)}
    readers = [user for node in match.returning_nodes for user in node.users]
    if not readers:
        raise AssertionError("The insert point can't be None")
    known = set(copies)
    with graph.inserting_before(min(readers)):
        results = _leaves(graph.graph_copy(replacement, copies))
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
    for old, new in zip(match.returning_nodes, results):
        old.replace_all_uses_with(new)
        changed[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, [new for old, new in copies.items() if old not in known])


def _replace_attributes(gm, replacement):
    """What the new nodes name comes from the replacement where `gm` has nothing of that name."""
    gm.delete_all_unused_submodules()
    for op in ("call_module", "get_attr"):
        for node in gm.graph.find_nodes(op=op):
            if _named(gm, node.target) is not None:
                continue
            value = _named(replacement, node.target)
            if not isinstance(value, (Module, Tensor)):
                raise RuntimeError(f"Attempted to create a \"{op}\" node during subgraph rewriting with target {node.target}, but "
                                   "the referenced attribute does not exist in the replacement GraphModule")
            _assign_attr(copy.deepcopy(value), gm, node.target)


def _named(module, path):
    for part in path.split("."):
        module = getattr(module, part, None)
    return module
