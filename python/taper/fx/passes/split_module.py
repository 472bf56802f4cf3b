"""Cutting a module into submodules. What goes where is planned in C (src/pass/split.c)."""
import dataclasses
import operator
import typing

from ... import _C, _facades
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import map_arg

__all__ = ["split_module", "split_module_simple"]

_OUTSIDE = ("placeholder", "get_attr", "output")


def _attribute(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


class _Part:
    """A submodule in the making."""

    def __init__(self, name, nodes, inputs, outputs):
        self.name, self.nodes, self.inputs, self.outputs = name, nodes, inputs, outputs
        self.graph, self.targets, self.environment = Graph(), {}, {}

    def fill(self, root, names, keep_names, keep_input_names):
        """Copies its nodes; `names` learns where modules and attributes of the root went."""
        for i, node in enumerate(self.inputs):
            made = self.graph.placeholder(node.name if keep_input_names else f"arg_{i}", type_expr=node.type)
            made.meta = node.meta.copy()
            self.environment[node] = made
        for node in self.nodes:
            target = node.target
            if node.op == "call_module":
                target = target.replace(".", "_")
                self.targets[target] = _attribute(root, node.target)
                if names is not None:
                    names[f"{self.name}.{target}"] = node.target
            look = self.environment.__getitem__
            made = self.graph.create_node(node.op, target, map_arg(node.args, look), map_arg(node.kwargs, look),
                                          node.name if keep_names else None, node.type)
            made.meta = node.meta.copy()
            self.environment[node] = made

    def finish(self, as_tuple):
        results = tuple(self.environment[node] for node in self.outputs)
        if results or as_tuple:
            self.graph.output(results[0] if len(results) == 1 and not as_tuple else results)
        else:
            self.graph.output(())
        return GraphModule(self.targets, self.graph)


def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False, keep_original_node_name=False,
                 keep_original_input_name=True, *, partition_affix=None, tuple_return=False):
    """A module of submodules, one for each answer of `split_callback`, that computes what `m` does."""
    numbers, of = {}, {}
    for node in m.graph.nodes:
        if node.op not in _OUTSIDE:
            of[node] = numbers.setdefault(str(split_callback(node)), len(numbers))
    order, rows = _C._fx_split(m.graph, of)
    stem = "submod" if partition_affix is None else f"submod_{partition_affix}"
    parts = [_Part(f"{stem}_{name}", *row) for name, row in zip(numbers, rows)]
    for part in parts:
        part.fill(root_m, qualname_map, keep_original_node_name, keep_original_input_name)
    return _stitched(m, root_m, parts, list(range(len(parts))) if keep_original_order else order, of, keep_original_order, tuple_return)


def _stitched(m, root, parts, order, of, in_place, as_tuple):
    """The graph that calls the parts."""
    graph, environment, attributes = Graph(), {}, {}

    def keep(node):
        made = graph.placeholder(node.target, node.type, *node.args) if node.op == "placeholder" else graph.get_attr(node.target)
        made.meta = node.meta.copy()
        environment[node] = made
        if node.op == "get_attr":
            attributes[node.target] = _attribute(root, node.target)

    def call(part):
        attributes[part.name] = part.finish(as_tuple)
        made = graph.call_module(part.name, tuple(environment[node] for node in part.inputs))
        if len(part.outputs) == 1 and not as_tuple:
            made.meta = part.outputs[0].meta.copy()
            environment[part.outputs[0]] = made
            return
        for i, node in enumerate(part.outputs):
            environment[node] = graph.call_function(operator.getitem, (made, i))
            environment[node].meta = node.meta.copy()
    called, left = set(), list(order)
    for node in m.graph.nodes:
        if node.op == "placeholder" or (node.op == "get_attr" and not in_place):
            keep(node)
    if in_place:
        ready = _in_place(m, parts, of, called, keep, call)
        left = [i for i in order if i not in ready]
    for i in left:
        call(parts[i])
    output = m.graph.output_node()
    graph.output(map_arg(output.args[0], environment.__getitem__))
    graph.output_node().meta = output.meta.copy()
    return GraphModule(attributes, graph)


def _in_place(m, parts, of, called, keep, call):
    """Calls each part where its first node stands; attributes, and parts whose results it reads, stand before it at the latest."""
    kept = set()

    def reach(node):
        if node.op == "get_attr" and node not in kept:
            kept.add(node)
            keep(node)
        elif node in of and of[node] not in called:
            called.add(of[node])
            for read in parts[of[node]].inputs:
                reach(read)
            call(parts[of[node]])
    for node in m.graph.nodes:
        reach(node)
    return called


def split_module_simple(m, node_to_partition, *, partition_affix=None):
    """split_module by a dict, in the order of the graph."""
    return split_module(m, m, node_to_partition.__getitem__, keep_original_order=True, partition_affix=partition_affix, tuple_return=True)


# ---- Cutting a module along tags that its nodes carry (the plan is src/pass/split.c) -------------------------------
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


_facades.settle(__name__)
