"""Modules made faster for inference: batch norms folded into convolutions, dropouts left out, products by one matrix made one."""
import copy
import itertools
import operator
import sys

from ... import _facades, nn
from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..passes.tools_common import legalize_graph

__all__ = ["matches_module_pattern", "replace_node_module", "fuse", "remove_dropout", "extract_subgraph"]


def _parent_name(target):
    """The name of the module that holds it, and its name there."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern, node, modules):
    """Is the node a call of the second module on the result of the first one?"""
    if not node.args:
        return False
    return all(getattr(current, "op", None) == "call_module" and type(modules.get(current.target)) is expected
               for expected, current in zip(pattern, (node.args[0], node)))


def replace_node_module(node, modules, new_module):
    """Puts a module in the place of the one a node calls."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model, inplace=False, no_trace=False):
    """Folds batch norms into the convolutions and linear layers before them, where nobody else reads those."""
    from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
    patterns = [(nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval), (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
                (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval), (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval)]
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    for first, second, join in patterns:
        for node in traced.graph.nodes:
            if not matches_module_pattern((first, second), node, modules) or len(node.args[0].users) > 1:
                continue
            norm = modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, join(modules[node.args[0].target], norm))
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    return GraphModule(traced, traced.graph)


def remove_dropout(model):
    """The model without its dropout modules."""
    class DropoutRemover(Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                if len(args) != 1:
                    raise AssertionError(f"Expected 1 arg for Dropout, got {len(args)}")
                return args[0]
            return super().call_module(target, args, kwargs)
    return DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(orig_module, nodes, inputs, outputs):
    """A module of these nodes that takes `inputs` and gives `outputs`."""
    graph, made = Graph(), {}
    for node in inputs:
        made[node] = graph.placeholder(node.name)
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output([made[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


# ---- Products by one matrix made one product -----------------------------------------------------------------------
def split_result_tensors(result, inputs):
    """The rows of a product of stacked inputs, those of each input for itself."""
    return sys.modules[__name__.partition(".")[0]].split(result, [x.shape[0] for x in inputs])


def may_depend_on(a, b, search_depth=6):
    """Does `a` read `b`, through others or not? True as well when the search was too deep to know."""
    if a == b:
        return True
    if not a.all_input_nodes:
        return False
    return search_depth == 0 or any(may_depend_on(one, b, search_depth - 1) for one in a.all_input_nodes)


def are_nodes_independent(nodes):
    return not any(may_depend_on(a, b) or may_depend_on(b, a) for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod):
    """A module in which independent products with the same right side are one product of the stacked left sides."""
    torch, module = sys.modules[__name__.partition(".")[0]], symbolic_trace(in_mod)
    graph, groups = module.graph, {}
    for node in graph.find_nodes(op="call_function", target=torch.matmul):
        right = node.args[1]
        groups.setdefault(right.target if right.op == "get_attr" else right, []).append(node)
    merged = [(right, products) for right, products in groups.items() if len(products) > 1 and are_nodes_independent(products)]
    for right, products in merged:
        lefts = [node.args[0] for node in products]
        with graph.inserting_before(graph.output_node()):
            right = graph.get_attr(right) if isinstance(right, str) else right
            stacked = graph.call_function(torch.cat, (lefts,))
            product = graph.call_function(torch.matmul, (stacked, right))
            parts = graph.call_function(split_result_tensors, (product, lefts))
            items = [graph.call_function(operator.getitem, (parts, i)) for i in range(len(products))]
        for node, item in zip(products, items):
            node.replace_all_uses_with(item)
            graph.erase_node(node)
    if merged:
        legalize_graph(module)
        module.recompile()
        graph.lint()
    return module


_facades.settle(__name__)
