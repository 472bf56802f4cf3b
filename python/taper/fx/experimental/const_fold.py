"""Modules whose constant part is computed once, when they are first called."""
import copy
import operator
import re

from ..._tensor import Tensor
from ...nn import Module, Parameter, ParameterList
from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A GraphModule that runs `const_subgraph` before its first call and keeps what it gives as parameters."""

    def __init__(self, root, graph, const_subgraph=None, fx_const_folded_attrs_name=None, device_for_folded_attrs="cuda"):
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self):
        """Computes the constants."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        made = self.const_subgraph_module()
        keep = lambda value: Parameter(value.detach().clone() if not isinstance(value, int) else Tensor([value]),
                                       requires_grad=value.requires_grad if isinstance(value, Tensor) else False)
        setattr(self, self.fx_const_folded_attrs_name, ParameterList([keep(value) for value in made]) if isinstance(made, tuple) else keep(made))


def get_unique_attr_name_in_module(mod_traced, name):
    """The name, or the first of name_1, name_2 … that the module does not have."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        stem, _, number = name.rpartition("_")
        name = f"{stem}_{int(number) + 1}" if stem and number.isdigit() else f"{name}_1"
    return name


def _constant_nodes(module, skip):
    """Attributes and what is computed of them alone; nothing is when no call is."""
    constant, calls = {}, False
    for node in module.graph.nodes:
        if node.op == "get_attr" and not isinstance(_named(module, node.target), Module):
            constant[node] = None
        elif node.op in ("placeholder", "output", "get_attr") or node.is_impure() or (skip is not None and skip(node)):
            continue
        elif node.all_input_nodes and all(read in constant for read in node.all_input_nodes):
            constant[node] = None
            calls = True
    return constant if calls else {}


def _named(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


def split_const_subgraphs(module, skip_folding_node_fn=None, device_for_folded_attrs="cpu"):
    """A module without the part that needs no input: that is a graph of its own, run before the first call."""
    traced = GraphModule(module, copy.deepcopy(module.graph)) if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_nodes(traced, skip_folding_node_fn)
    if not constant:
        return FoldedGraphModule(traced, traced.graph)
    edge = [node for node in constant if node.op != "get_attr" and any(user not in constant for user in node.users)]
    inner, made = Graph(), {}
    for node in constant:
        made[node] = inner.node_copy(node, made.__getitem__)
    inner.output(tuple(made[node] for node in edge) if len(edge) > 1 else made[edge[0]])
    inner.eliminate_dead_code()
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    setattr(traced, name, ParameterList([Parameter(Tensor(0)) for _ in edge]) if len(edge) > 1 else Parameter(Tensor(0)))
    graph = traced.graph
    with graph.inserting_before(min(node for node in graph.nodes if node.op != "placeholder")):
        held = graph.get_attr(name)
    for i, node in enumerate(edge):
        if len(edge) == 1:
            node.replace_all_uses_with(held, lambda user: user not in constant)
            break
        with graph.inserting_before(edge[0]):
            node.replace_all_uses_with(graph.call_function(operator.getitem, (held, i)), lambda user: user not in constant)
    for node in reversed(list(constant)):
        if not node.users:
            graph.erase_node(node)
    traced.recompile()
    return FoldedGraphModule(traced, graph, inner, name, device_for_folded_attrs)
