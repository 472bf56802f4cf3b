"""Matching a pattern that names some of its nodes: it returns (results, {name: node})."""
import copy

from ....utils._pytree import tree_unflatten
from ...graph import _PyTreeCodeGen
from .matcher_utils import SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


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
