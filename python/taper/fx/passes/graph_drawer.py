"""Graphs as pictures: the text that Graphviz reads, and SVG drawn here (src/ir/draw.c)."""
import zlib

from ... import _C
from ..node import _get_qualified_name, map_arg
from ..operator_schemas import normalize_function
from .shape_prop import TensorMetadata

__all__ = ["FxGraphDrawer"]

_FILL = {"placeholder": '"AliceBlue"', "call_module": "LemonChiffon1", "get_param": "Yellow2", "get_module": "LightGrey", "output": "PowderBlue",
         "get_attr": "LightGrey"}
_FUNCTIONS = ("CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1", "LavenderBlush1", "LightSkyBlue", "MistyRose1", "MistyRose2",
              "PaleTurquoise2", "PeachPuff1", "Salmon", "Thistle1", "Thistle3", "Wheat1")
_SVG = {"CadetBlue1": "#98f5ff", "DarkOliveGreen1": "#caff70", "DarkSeaGreen1": "#c1ffc1", "Khaki1": "#fff68f", "LavenderBlush1": "#fff0f5",
        "LemonChiffon1": "#fffacd", "MistyRose1": "#ffe4e1", "MistyRose2": "#eed5d2", "PaleTurquoise2": "#aeeeee", "PeachPuff1": "#ffdab9",
        "Thistle1": "#ffe1ff", "Thistle3": "#cdb5cd", "Wheat1": "#ffe7ba", "Yellow2": "#eeee00"}


class _Dot:
    """A drawing: `to_string` gives Graphviz's text, `create_svg` a picture."""

    def __init__(self, name, rows, graph, boxes):
        self._name, self._rows, self._graph, self._boxes = name, rows, graph, boxes

    def to_string(self):
        return f"digraph {_quoted(self._name)} {{\nrankdir=TB;\n" + "".join(f"{row};\n" for row in self._rows) + "}\n"

    __str__ = to_string

    def get_name(self):
        return self._name

    def create_svg(self):
        return _C._fx_draw(self._graph, self._boxes).encode()

    def write_svg(self, path):
        with _C._OutputFile(path) as file:
            file.write(self.create_svg())
        return True

    def write(self, path, format="raw"):
        if format == "svg":
            return self.write_svg(path)
        if format not in ("raw", "dot"):
            self.create_png()
        with _C._OutputFile(path) as file:
            file.write(self.to_string())
        return True

    write_raw = write_dot = write

    def create_png(self, *args, **kwargs):
        raise RuntimeError("FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite Python "
                           "package manager.")

    write_png = create_pdf = write_pdf = create_png


def _quoted(name):
    plain = name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else '"' + name.replace('"', '\\"') + '"'


class FxGraphDrawer:
    """Draws a graph module, and its submodules that are graph modules too."""

    def __init__(self, graph_module, name, ignore_getattr=False, ignore_parameters_and_buffers=False, skip_node_names_in_args=True,
                 parse_stack_trace=False, dot_graph_shape=None, normalize_args=False):
        self._name = name
        self.dot_graph_shape = dot_graph_shape if dot_graph_shape is not None else "record"
        self.normalize_args = normalize_args
        self._options = ignore_getattr, ignore_parameters_and_buffers, skip_node_names_in_args, parse_stack_trace
        self._dot_graphs = {name: self._to_dot(graph_module, name)}
        for child, module in graph_module.named_children():
            if hasattr(module, "graph") and hasattr(module, "_code"):
                self._dot_graphs[f"{name}_{child}"] = self._to_dot(module, f"{name}_{child}")

    def get_dot_graph(self, submod_name=None):
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self):
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name):
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self):
        return self._dot_graphs

    def _to_dot(self, module, name):
        ignore_getattr, ignore_owned, _, _ = self._options
        rows, boxes = [], {}
        for node in module.graph.nodes:
            if ignore_getattr and node.op == "get_attr":
                continue
            style, label = self._get_node_style(node), self._get_node_label(module, node)
            rows.append(f"{_quoted(node.name)} [label=\"{label}\", {', '.join(f'{key}={value}' for key, value in style.items())}]")
            colour = style["fillcolor"].strip('"')
            boxes[node] = (self._plain(label), _SVG.get(colour, colour))
            if node.op == "call_module" and not ignore_owned and not hasattr(_named(module, node.target), "_code"):
                rows += self._owned(node, _named(module, node.target))
        edges = [f"{_quoted(node.name)} -> {_quoted(user.name)}" for node in module.graph.nodes if node in boxes for user in node.users]
        return _Dot(name, rows + edges, module.graph, boxes)

    @staticmethod
    def _plain(label):
        """The label as lines, without the marks of a record."""
        lines = label[1:-1].replace("\\n", "\n").replace("|", "\n").replace("\\{", "{").replace("\\}", "}").split("\n")
        return "\n".join(line for line in lines if line)

    def _owned(self, node, module):
        """Parameters and buffers of a module, as boxes that lead to its call."""
        rows = []
        for kind, listing in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
            for name, value in listing:
                path = f"{node.target}.{name}"
                head = f"{path}|op_code=get_parameter" if kind == "parameter" else "buffer\\l"
                rows.append(f"{_quoted(path)} [label=\"{{{head}{value.dtype}{list(value.shape)}\\n}}\", fillcolor=Salmon, style=\"filled,rounded\", "
                            f"fontcolor=\"#000000\", shape={self.dot_graph_shape}]")
                rows.append(f"{_quoted(path)} -> {_quoted(node.name)}")
        return rows

    def _get_node_style(self, node):
        fill = _FILL.get(node.op)
        if fill is None:
            target = node.target if isinstance(node.target, str) else _get_qualified_name(node.target)
            fill = _FUNCTIONS[zlib.crc32(target.encode()) % len(_FUNCTIONS)]
        return {"shape": self.dot_graph_shape, "fillcolor": fill, "style": '"filled,rounded"', "fontcolor": '"#000000"'}

    def _get_node_label(self, module, node):
        parts = [f"name=%{node.name}|op_code={node.op}\\n"]
        if node.op == "call_module":
            leaf = _named(module, node.target)
            kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}".replace(__name__.partition(".")[0] + ".", "torch.", 1)
            told = "".join(f"{name}: {getattr(leaf, name)}\\n" for name in getattr(leaf, "__constants__", ()) if hasattr(leaf, name))
            parts = [parts[0] + f"\\n{kind}\\n", told]
        else:
            parts.append(f"target={node.target if isinstance(node.target, str) else _get_qualified_name(node.target)}\\n")
            parts += self._arguments(node)
            parts.append(f"num_users={len(node.users)}\\n")
        meta = self._tensor_meta(node.meta.get("tensor_meta"))
        return "{" + "|".join(parts) + meta + "}"

    def _arguments(self, node):
        """What a call is given besides nodes."""
        _, _, skip_nodes, _ = self._options
        if node.op in ("placeholder", "get_attr"):
            return []
        plain = lambda value: not (skip_nodes and _has_node(value))
        args, kwargs = node.args, node.kwargs
        if self.normalize_args and node.op == "call_function":
            try:
                args, kwargs = normalize_function(node.target, args, kwargs, normalize_to_only_use_kwargs=True) or (args, kwargs)
            except RuntimeError:            # several overloads fit
                pass
        by_place = [_told(arg) for arg in args if plain(arg)]
        by_name = [f"{name}: {_told(value)}" for name, value in kwargs.items() if plain(value)]
        return [text for text in (_list("args=", by_place, "(", ")"), _list("kwargs=", by_name, "\\{", "\\}")) if text]

    def _tensor_meta(self, meta):
        if isinstance(meta, TensorMetadata):
            told = f"|dtype={meta.dtype}\\n|shape={tuple(meta.shape)}\\n|requires_grad={meta.requires_grad}\\n|stride={meta.stride}\\n"
            return told
        return "".join(map(self._tensor_meta, meta)) if isinstance(meta, (tuple, list)) else ""


def _told(value):
    """An argument, nodes with a percent sign, as a record may hold it."""
    return _escaped(str(map_arg(value, lambda node: _Name(f"%{node.name}"))))


class _Name(str):
    __repr__ = str.__str__


def _list(head, items, opens, closes):
    if len(items) < 2:
        return f"{head}{opens}{items[0]},{closes}" if items else ""
    return f"{head}{opens}\\l" + "".join(f"{item},\\n" for item in items) + f"{closes}\\l"


def _has_node(value):
    return hasattr(value, "op") or (isinstance(value, (tuple, list)) and any(map(_has_node, value)))


def _escaped(text):
    return text.replace("{", "\\{").replace("}", "\\}").replace('"', '\\"').replace("<", "\\<").replace(">", "\\>")


def _named(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module
