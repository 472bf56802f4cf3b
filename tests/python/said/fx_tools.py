"""Smaller tools around graphs: rewriting asserts, types of items, what lowerings read, merged products, trees of immutable containers."""
import operator
import typing

import torch
from said import attempt, case, say
from torch import nn
from torch.fx import Graph, GraphModule, Interpreter, symbolic_trace
from torch.fx import traceback as tb
from torch.fx.experimental.merge_matmul import are_nodes_independent, may_depend_on, merge_matmul
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.rewriter import RewritingTracer
from torch.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.node import _format_arg
from torch.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from torch.fx.passes.param_fetch import extract_attrs_for_lowering, lift_lowering_attrs_to_nodes
from torch.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise
from torch.utils import _pytree as pytree


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.s = Twice()
        self.l = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, y: int = 3) -> torch.Tensor:
        assert x.size(0) == 2
        assert x.sum() > 0, "not positive"
        return self.l(self.s(x + y))


@case
def rewriting():
    tracer = RewritingTracer()
    graph = tracer.trace(Checked())
    say(graph)
    module = GraphModule(tracer.root, graph, "gm")
    say(module.code)
    attempt(lambda: module(torch.ones(2)).shape)
    attempt(module, torch.ones(3))
    attempt(module, -4 * torch.ones(2))


@case
def items():
    class Pair(typing.NamedTuple):
        a: torch.Tensor
        b: int
    for kind in (typing.Tuple[int, str], typing.List[typing.Dict[str, int]], Pair, int, None, typing.Dict[str, int], typing.Tuple[int, ...]):
        graph = Graph()
        x = graph.placeholder("x", kind)
        made = [graph.call_function(operator.getitem, (x, i)) for i in range(2)]
        graph.output(made)
        annotate_getitem_nodes(graph)
        say([node.type for node in made])


@case
def lowering():
    for module in (nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Tanh()):
        attempt(lambda module=module: {name: getattr(value, "shape", value) for name, value in extract_attrs_for_lowering(module).items()})
    traced = symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    lift_lowering_attrs_to_nodes(traced)
    say([sorted(getattr(node, "attrs_for_lowering", ())) for node in traced.graph.nodes])


@case
def products():
    class Apart(nn.Module):
        def forward(self, x, y, r):
            return torch.matmul(x, r).relu() + 1, torch.matmul(y, r), torch.mm(x, r), x @ r

    class Chained(nn.Module):
        def forward(self, x, r):
            return torch.matmul(torch.matmul(x, r), r) + torch.matmul(x, r)
    merged = merge_matmul(Apart())
    say(merged.code)
    say(merged(torch.ones(1, 2), torch.ones(2, 2), torch.arange(4.0).view(2, 2)))
    say(merge_matmul(Chained()).code)
    graph = Graph()
    a = graph.placeholder("a")
    b = graph.call_function(torch.neg, (a,))
    c, d = graph.call_function(torch.neg, (b,)), graph.call_function(torch.neg, (a,))
    say(may_depend_on(c, a), may_depend_on(a, c), may_depend_on(c, d), are_nodes_independent([b, d]), are_nodes_independent([b, c]))


@case
def trees():
    tree = immutable_list([1, [2], {"a": 1}]), immutable_dict({"a": 1, "b": [1]})
    leaves, spec = pytree.tree_flatten(tree)
    say(leaves, spec, [type(one) for one in pytree.tree_unflatten(leaves, spec)])
    say(pytree.tree_flatten_with_path(tree)[0])
    say(pytree.treespec_dumps(spec), pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec)


@case
def formats():
    node = Graph().placeholder("a")
    for value in (1, "a", None, [1, 2, 3], (1,), {"a": 1}, node, [node, {"k": node}], slice(node, 1), torch.float32):
        say(_format_arg(value))
    say(_format_arg([1, 2, 3, 4], max_list_len=2))


@case
def types():
    some = TensorType((1, 2, Dyn))
    say(some, some == TensorType((1, 2, Dyn)), Dyn, TensorType[1, 2])
    say(is_consistent(some, TensorType((1, Dyn, 3))), is_consistent(some, TensorType((1, 2))), is_consistent(1, Dyn), is_consistent(1, 2))
    say(is_more_precise(TensorType((1, 2)), TensorType((1, Dyn))), is_more_precise(TensorType((1, Dyn)), TensorType((1, 2))), is_more_precise(1, Dyn))

    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x + self.p
    for annotate in (True, False):
        typed = AnnotateTypesWithSchema(symbolic_trace(Reading()), annotate_get_attrs=annotate).transform()
        say([(node, node.type) for node in typed.graph.nodes])


@case
def kept():
    traced = symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    for node in traced.graph.nodes:
        node.meta.update(stack_trace=f"at {node}", custom={"k": node.name}, other=3)
    with tb.preserve_node_meta():
        made = make_fx(Interpreter(traced).run)(torch.ones(2, 2))
    for node in made.graph.nodes:
        say(node, {name: node.meta.get(name) for name in ("stack_trace", "nn_module_stack", "custom", "other")})

    def annotated(x):
        with tb.annotate({"a": 1}):
            y = x + 1
            with tb.annotate({"a": 2, "b": 3}):
                y = y * 2
            y = y - 1
        return y / 2
    say([node.meta.get("custom") for node in make_fx(annotated)(torch.ones(2)).graph.nodes])
    with tb.preserve_node_meta():
        say([node.meta.get("custom") for node in make_fx(annotated)(torch.ones(2)).graph.nodes])


class Shaped(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(42, 16)
        self.layernorm = nn.LayerNorm(16)

    def forward(self, x):
        emb = self.emb(x)
        emb = emb + torch.arange(emb.shape[-1], dtype=torch.float, device=emb.device)
        normed = self.layernorm(emb)
        return torch.relu(normed) if normed.shape[0] < 30 else torch.sigmoid(normed)


@case
def shaped():
    from torch.fx.experimental.meta_tracer import symbolic_trace
    module = Shaped()
    for rows in (15, 35):
        x = torch.zeros(rows, dtype=torch.long)
        traced = symbolic_trace(module, meta_args={"x": x.to("meta")})
        say(traced.code, torch.equal(traced(x), module(x)))

    def asking(x, y):
        if x.dim() == 2 and x.dtype == torch.float32 and x.size()[1] == 4:
            return torch.zeros(x.shape[0], 4, device=x.device) + x
        return y
    x = torch.empty(2, 4, device="meta")
    say(symbolic_trace(asking, meta_args={"x": x}).code)
    attempt(symbolic_trace, asking, meta_args={"y": x})
