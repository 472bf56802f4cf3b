from .common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "lift_subgraph_as_module", "compare_graphs"]
