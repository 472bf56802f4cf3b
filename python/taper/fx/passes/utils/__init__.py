"""Graphs as modules that hold what they name, and graphs compared."""
from .... import _facades
from ....nn import Module
from ...graph_module import GraphModule

__all__ = ["HolderModule", "lift_subgraph_as_module", "compare_graphs"]


class HolderModule(Module):
    """A module of given members."""

    def __init__(self, d):
        super().__init__()
        for name, member in d.items():
            self.add_module(name, member)


def lift_subgraph_as_module(gm, subgraph, comp_name="", class_name="GraphModule"):
    """A GraphModule of `subgraph` with what it names in `gm`, and where that is once it is the submodule `comp_name`."""
    names = {node.target: f"{comp_name}.{node.target}" if comp_name else node.target
             for node in subgraph.nodes if node.op in ("call_module", "get_attr")}
    return GraphModule(gm, subgraph, class_name=class_name), names


def compare_graphs(left, right):
    """Do they compute the same, node by node?"""
    from .matcher_utils import SubgraphMatcher
    found = SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)
    return len(found) > 0


_facades.settle(__name__)
