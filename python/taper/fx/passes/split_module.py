"""Cutting a module into submodules. What goes where is planned in C (src/pass/split.c)."""
import operator

from ... import _C
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
    """Calls each part where its first node stands, attributes where they are read."""
    for node in m.graph.nodes:
        if node.op == "get_attr":
            keep(node)
        elif node in of and of[node] not in called:
            called.add(of[node])
            call(parts[of[node]])
    return called


def split_module_simple(m, node_to_partition, *, partition_affix=None):
    """split_module by a dict, in the order of the graph."""
    return split_module(m, m, node_to_partition.__getitem__, keep_original_order=True, partition_affix=partition_affix, tuple_return=True)
