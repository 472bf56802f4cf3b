"""Finding a pattern in a graph. The search is C (src/pass/match.c); here is what its users see."""
import copy
import dataclasses
import typing

from .... import _C, _facades
from ....utils._pytree import tree_unflatten
from ...graph import _PyTreeCodeGen

__all__ = ["SubgraphMatcher", "InternalMatch"]


@dataclasses.dataclass
class InternalMatch:
    """One place where a pattern was found."""
    anchors: list
    nodes_map: dict = dataclasses.field(default_factory=dict)
    placeholder_nodes: list = dataclasses.field(default_factory=list)
    returning_nodes: list = dataclasses.field(default_factory=list)
    name_node_map: dict = dataclasses.field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(self.anchors, dict(self.nodes_map), list(self.placeholder_nodes), list(self.returning_nodes),
                             dict(self.name_node_map))


def _attribute_kinds(graph):
    """The type of what each get_attr node names."""
    kinds = {}
    for node in graph.find_nodes(op="get_attr"):
        at: typing.Any = graph.owning_module
        for part in node.target.split("."):
            at = getattr(at, part, None)
        if at is not None:
            kinds[node] = type(at)
    return kinds


class SubgraphMatcher:
    """Finds `pattern` in graphs; its placeholders stand for any value."""

    def __init__(self, pattern, match_output=False, match_placeholder=False, remove_overlapping_matches=True, ignore_literals=False):
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        for node in pattern.nodes:
            if node.op != "output" and node.is_impure() is False and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        output = pattern.output_node()
        self.pattern_placeholder_nodes = pattern.find_nodes(op="placeholder")
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else [n for n in self.pattern_returning_nodes if len(n.users) == 1]

    def match(self, graph, node_name_match=""):
        found = _C._fx_match(self.pattern, graph, {**_attribute_kinds(self.pattern), **_attribute_kinds(graph)}, self.match_output,
                             self.match_placeholder, self.ignore_literals, not self.remove_overlapping_matches)
        made = [InternalMatch(self.pattern_anchors, nodes, [nodes[n] for n in self.pattern_placeholder_nodes],
                              [nodes[n] for n in self.pattern_returning_nodes]) for nodes in found]
        if node_name_match:
            made = [m for m in made if any(node_name_match in getattr(n, "name", "") for n in m.nodes_map.values())]
        return made


# ---- Matching a pattern that names some of its nodes: it returns (results, {name: node}) ---------------------------
def _named_apart(graph):
    """A copy of the graph that returns its results alone, and the nodes it named."""
    made = copy.deepcopy(graph)
    output = made.output_node()
    given = output.args[0]
    if isinstance(made._codegen, _PyTreeCodeGen):       # the leaves of what it returns
        given = tree_unflatten(list(given), made._codegen.pytree_info.out_spec)
    *results, names = given
    if not isinstance(names, dict):
        raise AssertionError(f"Expecting the input graph to have a dict output as the last element, but got: {type(names)}")
    output.args = (results[0] if len(results) == 1 else tuple(results),)
    return made, dict(names)


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A SubgraphMatcher whose matches say what stands for the named nodes."""

    def __init__(self, pattern_gm, match_output=False, match_placeholder=False, remove_overlapping_matches=True, ignore_literals=False):
        graph, self.name_node_map = _named_apart(pattern_gm.graph)
        graph.owning_module = pattern_gm
        super().__init__(graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph, node_name_match=""):
        found = super().match(graph, node_name_match)
        for one in found:
            one.name_node_map = {name: one.nodes_map[node] for name, node in self.name_node_map.items()}
        return found


# ---- Nodes grouped by the call of the program they come from -------------------------------------------------------
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


_facades.settle(__name__)
