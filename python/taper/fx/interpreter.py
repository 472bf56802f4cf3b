"""Running a graph node by node, in Python: what subclasses override."""
from . import traceback as fx_traceback
from .graph import Graph
from .graph_module import GraphModule
from .node import map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Executes the nodes of a module's graph in order; each kind of node is a method."""

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses = _last_uses(self.graph) if garbage_collect_values else {}

    def run(self, *args, initial_env=None, enable_io_processing=True):
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _say_where(error, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list):
        """As run; takes the list's items out of it, so that they can be let go."""
        wanted = len(self.graph.find_nodes(op="placeholder"))
        if len(args_list) != wanted:
            what = "missing arguments" if len(args_list) < wanted else "extra arguments"
            raise RuntimeError(f"{self.name}.boxed_run expected {wanted} arguments for placeholders but received {len(args_list)} ({what})")
        args = list(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def _set_current_node(self, node):
        return fx_traceback.set_current_meta(node)

    def run_node(self, n):
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # ---- kinds of nodes ----
    def placeholder(self, target, args, kwargs):
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!"
                               ) from None

    def get_attr(self, target, args, kwargs):
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        self_, *rest = args
        return getattr(self_, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        return args[0]

    # ---- helpers ----
    def fetch_attr(self, target):
        at, parts = self.module, target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[:i + 1])}")
            at = getattr(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n):
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        def load(arg):
            if arg not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {arg}! Run Graph.lint() to diagnose such "
                                   "issues")
            return self.env[arg]
        return map_arg(args, load)


def _last_uses(graph):
    """For each node, the nodes whose values nobody needs after it."""
    last, done = {}, set()
    for node in reversed(graph.nodes):
        for used in node.all_input_nodes:
            if used not in done:
                done.add(used)
                last.setdefault(node, []).append(used)
    return last


def _say_where(error, node):
    words = (f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}\nUse tlparse to see full graph. "
             "(https://github.com/pytorch/tlparse?tab=readme-ov-file#tlparse-parse-structured-pt2-logs)")
    words = f"{error.args[0]}\n\n{words}" if error.args else words
    error.args = (words,) + error.args[1:]
    if isinstance(error, KeyError):
        raise RuntimeError(*error.args) from error


class Transformer(Interpreter):
    """An interpreter whose results are nodes of a new graph."""

    def __init__(self, module):
        from ._symbolic_trace import Tracer
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph):
                super().__init__()
                self.graph = graph
                self.tensor_attrs = {}

            def is_leaf_module(self, module, path):
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target, args, kwargs):
        made = self.new_graph.placeholder(target, default_value=args[0]) if args else self.new_graph.placeholder(target)
        return Proxy(made, self.tracer)

    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            strip = lambda leaf: leaf.node if isinstance(leaf, Proxy) else leaf
            made = self.new_graph.output(map_aggregate(result, strip))
            for old in self.graph.find_nodes(op="output"):
                made.meta.update(old.meta)
        return GraphModule(self.module, self.new_graph)
