"""Groups of nodes that a back end takes whole. Which nodes may be together is decided in C (src/pass/partition.c)."""
import operator

from .... import _C
from ...node import _get_qualified_name
from ..utils.fuser_utils import fuse_by_partitions

__all__ = ["Partition", "CapabilityBasedPartitioner"]


class Partition:
    """Nodes that may be one call, each with its place from the end of the graph where that is known."""

    def __init__(self, id=None, nodes=None, node_orders=None):
        self.id = id
        nodes = list(nodes or ())
        self.nodes = dict(zip(nodes, node_orders if node_orders is not None else [None] * len(nodes)))

    def __repr__(self):
        return str(self.nodes)

    def add_node(self, node, node_order=None):
        self.nodes[node] = node_order

    def remove_node(self, node):
        del self.nodes[node]

    def size(self):
        return len(self.nodes)


def _called(node):
    return _get_qualified_name(node.target) if node.op == "call_function" and callable(node.target) else ""


class CapabilityBasedPartitioner:
    """Proposes the largest partitions of nodes that `operator_support` supports, and fuses them."""

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False, non_compute_ops=None,
                 allowed_single_node_partition_ops=None, skip_horizontal_fusion=False):
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition, self.skip_horizontal_fusion = allows_single_node_partition, skip_horizontal_fusion
        self.non_compute_ops = non_compute_ops if non_compute_ops is not None else []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops if allowed_single_node_partition_ops is not None else []

    def _is_node_supported(self, node):
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self):
        graph, modules = self.graph_module.graph, dict(self.graph_module.named_modules())
        supported = [node for node in graph.nodes if self.operator_support.is_node_supported(modules, node)]
        number = _C._fx_partition(graph, supported, self.skip_horizontal_fusion)
        for node in supported:                  # an item stays with what it is an item of
            if node.target is operator.getitem and node.op == "call_function":
                source = number.get(node.args[0])
                number.pop(node)
                if source is not None:
                    number[node] = source
        place = {node: i for i, node in enumerate(reversed(graph.nodes))}
        made = {}
        for node in graph.nodes:
            if node in number:
                made.setdefault(number[node], Partition(number[node])).add_node(node, place[node])
        made = [made[number] for number in sorted(made)]
        return made if self.allows_single_node_partition else [one for one in made if self._worthwhile(one)]

    def _worthwhile(self, partition):
        """More than one call that computes, or one of the ops that are worth it alone."""
        passing = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        names = [_called(node) for node in partition.nodes if node.op == "call_function"]
        return (any(name in self.allowed_single_node_partition_ops for name in names)
                or sum(name not in passing for name in names) > 1)

    def fuse_partitions(self, partitions, prefix="fused_"):
        return fuse_by_partitions(self.graph_module, [partition.nodes for partition in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions):
        """Takes calls that compute nothing out of partitions where only such calls are between them and the outside."""
        passing = set(self.non_compute_ops)
        for partition in partitions:
            for around in (lambda node: node.all_input_nodes, lambda node: node.users):
                while True:
                    outer = [node for node in partition.nodes if _called(node) in passing
                             and not any(other in partition.nodes for other in around(node))]
                    if not outer:
                        break
                    for node in outer:
                        partition.remove_node(node)

    def partition_and_fuse(self, prefix="fused_"):
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)
