"""Cutting a module along tags that its nodes carry (the plan is src/pass/split.c)."""
import dataclasses
import operator
import typing

from ... import _C
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import map_arg

__all__ = ["getattr_recursive", "setattr_recursive", "Component", "split_by_tags"]


def getattr_recursive(obj, name):
    """What a dotted name leads to; None: nothing."""
    for part in name.split("."):
        obj = getattr(obj, part, None)
        if obj is None:
            return None
    return obj


def setattr_recursive(obj, attr, value):
    *path, last = attr.split(".")
    for part in path:
        obj = getattr(obj, part)
    setattr(obj, last, value)


@dataclasses.dataclass
class Component:
    """A submodule in the making."""
    graph: Graph
    order: int
    name: str
    input_placeholders: list = dataclasses.field(default_factory=list)
    orig_inputs: list = dataclasses.field(default_factory=list)
    orig_outputs: list = dataclasses.field(default_factory=list)
    getattr_maps: dict = dataclasses.field(default_factory=dict)
    constructor_args: list = dataclasses.field(default_factory=list)
    gm: typing.Any = None


def _components(gm, tags):
    """The part of each node: its tag's, an attribute's that of its first reader. Parts may read only earlier ones."""
    order, of = {tag: i for i, tag in enumerate(tags)}, {}
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output", "get_attr"):
            of[node] = order[node.tag]
    for node in gm.graph.find_nodes(op="get_attr"):
        reader = next((user for user in node.users if user in of), None)
        if reader is not None:
            of[node] = of[reader]
    for node, own in of.items():
        above = max((of[read] for read in node.all_input_nodes if read in of), default=0)
        if own < above:
            raise AssertionError(f"Component {tags[own]} order must be >= max of its upstream components, order={own} and max={above}")
    return of


def split_by_tags(gm, tags, return_fqn_mapping=False, return_tuple=False, GraphModuleCls=GraphModule):
    """A module that calls one submodule for each tag, in their order; each node has a `tag`."""
    of = _components(gm, tags)
    _, rows = _C._fx_split(gm.graph, of)
    main, environment, attributes, names = Graph(), {}, {}, {}
    for node in gm.graph.find_nodes(op="placeholder"):
        environment[node] = main.placeholder(node.target, node.type, *node.args)
        environment[node].meta = node.meta.copy()
    for i, (nodes, inputs, outputs) in enumerate(rows):
        part = Component(Graph(), i, tags[i], orig_inputs=inputs, orig_outputs=outputs)
        made = {node: part.graph.placeholder(node.name, type_expr=node.type) for node in inputs}
        for node in inputs:
            made[node].meta = node.meta.copy()
        for node in nodes:
            made[node] = part.graph.node_copy(node, made.__getitem__)
            if node.op in ("call_module", "get_attr"):
                names[node.target] = f"{tags[i]}.{node.target}"
        results = tuple(made[node] for node in outputs)
        single = len(results) == 1 and not return_tuple
        part.graph.output(results[0] if single else results)
        attributes[part.name] = part.gm = GraphModuleCls(gm, part.graph)
        called = main.call_module(part.name, tuple(environment[node] for node in inputs))
        for place, node in enumerate(outputs):
            environment[node] = called if single else main.call_function(operator.getitem, (called, place))
            environment[node].meta = node.meta.copy()
    main.output(map_arg(gm.graph.output_node().args[0], environment.__getitem__))
    made = GraphModuleCls(attributes, main)
    return (made, names) if return_fqn_mapping else made
