"""Finding a pattern in a graph. The search is C (src/pass/match.c); here is what its users see."""
import dataclasses
import typing

from .... import _C

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
