"""What traced code is called and where it comes from: signatures, names of targets, members of the module, failures."""
import collections
import contextlib
import copy
import enum
import io
import typing
import warnings

import torch
import torch.nn.functional as F
from said import attempt, case, say
from torch import fx, nn
from torch.fx import Graph, GraphModule, Tracer, symbolic_trace
from torch.fx._symbolic_trace import PHWithMeta
from torch.utils import _pytree as pytree

warnings.filterwarnings("ignore", ".*LeafSpec.*")


class Kind(enum.Enum):
    A = 1


@fx.wrap
def whole(*args, **kwargs):
    return args[0]


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 2)
        self.p = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.l(x) + self.p


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.z = nn.ParameterList([nn.Parameter(torch.ones(2))])
        self.s = Inner()
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))

    def forward(self, x):
        return self.seq(self.s(x)) + self.z[0] + self.s.l(x)


def code(function, **how):
    say(symbolic_trace(function, **how).code.strip())


@case
def signatures():
    def f(x: torch.dtype, y: "typing.Dict[str, int]", *args, k: typing.List[int] = [], **kw) -> torch.Tensor:
        return x + args[0]
    code(f)
    say(symbolic_trace(f).graph)
    code(lambda x, k=Kind.A: whole(x, Kind.A, e=Kind.A))
    attempt(symbolic_trace, Inner().forward)


@case
def functions():
    for f in (lambda x: torch.split(x, 1), lambda x: torch.norm(x, 2), lambda x: torch.einsum("ij,jk", [x, x]), lambda x: torch.cdist(x, x),
              lambda x: torch.meshgrid(x, x), lambda x: torch.unique(x), lambda x: torch.stft(x, 4), lambda x: torch.tensordot(x, x),
              lambda x: torch.numel(x), lambda x: torch.is_floating_point(x), lambda x: torch.result_type(x, 1), lambda x: torch.ops.aten.relu(x),
              lambda x: torch.ops.aten.cat([x, x]), lambda x: torch.lu(x)):
        code(f)


@case
def members():
    g = symbolic_trace(Outer())
    say(g)
    say(list(g.state_dict()))
    for node in g.graph.nodes:
        say(node, node.meta.get("nn_module_stack"))
    h = Graph()
    h.call_module("b.c", (1,))
    h.get_attr("a.d")
    attempt(lambda: GraphModule({"b.c": nn.ReLU(), "a.d": torch.ones(2)}, h, "Named"))
    attempt(lambda: copy.copy(GraphModule({"b.c": nn.ReLU(), "a.d": torch.ones(2)}, h, "Named")))


@case
def tracers():
    class Told(Tracer):
        def create_proxy(self, *args, **kwargs):
            say(args, sorted(kwargs))
            return super().create_proxy(*args, **kwargs)
    say(Told().trace(Inner()))

    class Functional(Tracer):
        check_mutable_operations = True
    attempt(Functional().trace, lambda x: torch.relu_(x))
    attempt(Functional().trace, lambda x: F.relu(x))

    class Located(Tracer):
        record_stack_traces = True
    for node in Located().trace(Outer()).nodes:
        say(node, node.op in ("placeholder", "output") or "fx_signature.py" in node.stack_trace)


Point = collections.namedtuple("Point", "x y")


class Two:
    def __init__(self, a, b):
        self.a, self.b = a, b


pytree.register_pytree_node(Two, lambda t: ([t.a, t.b], None), lambda leaves, _: Two(*leaves))


@case
def concrete():
    code(lambda p: p.a + p.b, concrete_args={"p": Two(fx.PH, fx.PH)})

    class Nested(nn.Module):
        def forward(self, x, y, z):
            return x + y[0] + (z or 0)
    code(Nested(), concrete_args={"y": [fx.PH], "z": None})
    say(symbolic_trace(Nested(), concrete_args={"y": [fx.PH], "z": None})(1, [2], None))
    for tree in (Point(fx.PH, fx.PH), [fx.PH, (fx.PH,)], {"a": fx.PH}):
        def add(x):
            return [leaf + 1 for leaf in pytree.tree_leaves(x)]
        value = pytree.tree_map(lambda leaf: 3, tree)
        once = symbolic_trace(add, concrete_args={"x": tree})
        whole = symbolic_trace(once)            # through the generated code, with one proxy for the tree
        say(once(value), whole(value), whole.code)
    graph = Tracer().trace(lambda x: x + 1, concrete_args={"x": PHWithMeta("key")})
    say(graph, [getattr(node, "ph_key", None) for node in graph.nodes])


def failing(x):
    y = x + 1
    return y * 2


@case
def failures():
    g = symbolic_trace(failing)
    say(g.forward.__code__.co_filename, symbolic_trace(Inner()).forward.__code__.co_filename)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        attempt(g, "s")
        attempt(g)
    say(said.getvalue()[said.getvalue().index("Call using"):])

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.g = g

        def forward(self, x):
            return self.g(x)

    class Leaf(Tracer):
        def is_leaf_module(self, module, path):
            return True
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        attempt(GraphModule(Around(), Leaf().trace(Around())), "s")
    say(said.getvalue().count("Call using"))
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        attempt(symbolic_trace(Inner()), torch.ones(3))
    say(said.getvalue().count("Call using"))


@case
def runs():
    g = symbolic_trace(lambda x, y=2: x + y)
    say(fx.Interpreter(g).boxed_run([1, 2]))
    attempt(fx.Interpreter(g).boxed_run, [1])
    attempt(fx.Interpreter(g).boxed_run, [1, 2, 3])
    from torch.fx.passes.shape_prop import ShapeProp
    with contextlib.redirect_stderr(io.StringIO()):
        attempt(ShapeProp(symbolic_trace(Inner())).propagate, torch.ones(3))


@case
def targets():
    node = Graph().placeholder("x")
    for target in ("a.b", torch.relu, F.relu, len, torch.add, torch.ops.aten.add.Tensor):
        say(node._pretty_print_target(target))


@case
def annotations():
    class Local:
        pass
    for kind in (typing.Tuple, typing.List, typing.Callable, typing.Tuple[()], tuple[()], typing.List[typing.Tuple[()]], typing.Type[int],
                 typing.Iterable[int], typing.Mapping[str, int], tuple[int, ...], typing.Tuple[int, ...], typing.DefaultDict[str, int],
                 typing.Optional[torch.Tensor], typing.Literal[1], int | str, torch.device, torch.dtype, torch.layout, Local, 3, "a b"):
        graph = Graph()
        x = graph.placeholder("x", kind)
        graph.output(graph.call_function(kind, (x,)) if isinstance(kind, type) else x)
        say(graph.python_code("self").src.strip(), x.format_node())


@case
def scopes():
    tracer = Tracer()
    tracer.trace(Outer())
    say(tracer.node_name_to_scope, tracer.scope.module_path, tracer.scope.module_type)
    say(type(copy.deepcopy(tracer)).__name__)
    tracer.traced_func_name = "absent"
    attempt(tracer.trace, Outer())
    say(torch.dtype.__module__, torch.layout.__module__, torch.memory_format.__qualname__)


@case
def replicas():
    g = symbolic_trace(Outer())
    replica = g._replicate_for_data_parallel()
    say(torch.equal(replica(torch.ones(2)), g(torch.ones(2))), type(replica).__name__)


@case
def layers():
    """Layers traced as roots have the types of their forward."""
    for layer in (nn.Linear(2, 2), nn.ReLU(), nn.MaxPool2d(2), nn.MSELoss(), nn.LayerNorm(2), nn.Bilinear(2, 2, 2), nn.Sequential(nn.ReLU())):
        say(Tracer().trace(layer))


@case
def numbers():
    graph = Graph()
    for name in ("_0", "_0", "_1", "_1", "__2", "__2", "a_0", "a_0", "a", "a_01", "a_1", "_", "_", "0", "0_1", "_0_1", "y_10", "y", "y_10", "y"):
        say(name, graph.create_node("call_module", name, (), {}).name, graph.placeholder(name).name)
    twice = nn.ReLU()
    say(Tracer().trace(nn.Sequential(twice, nn.ReLU(), twice)))
