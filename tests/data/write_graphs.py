"""Writes the pickled graphs beside it. Later builds must load and run them: write a new one only under a new name.

    python tests/data/write_graphs.py
"""
import math
import operator
import pathlib
import pickle

import taper as torch
from taper import fx, nn
from taper.fx.experimental.proxy_tensor import make_fx

HERE = pathlib.Path(__file__).resolve().parent


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(torch.tensor([2.0, -1.0]))
        self.register_buffer("shift", torch.tensor([0.5, 0.25]))

    def forward(self, x):
        return self.layers(x) * self.scale + self.shift


class Parts(nn.Module):
    """Modules inside modules, one of them a GraphModule, and control that tracing decided."""

    def __init__(self):
        super().__init__()
        self.inner = fx.symbolic_trace(Mlp())
        self.names = nn.ModuleDict({"left": nn.Tanh(), "right": nn.Sigmoid()})

    def forward(self, x, flag):
        y = self.inner(x)
        for name in ("left", "right") if flag else ("right",):
            y = self.names[name](y)
        return y


def mlp():
    torch.manual_seed(1)
    return fx.symbolic_trace(Mlp()), (torch.ones(2, 3),)


def symbolic():
    def f(x, y):
        return torch.cat([x, y]).view(x.shape[0] + y.shape[0], -1).sum(1) * x.shape[1]
    return make_fx(f, tracing_mode="symbolic")(torch.ones(2, 3), torch.ones(4, 3)), (torch.ones(5, 2), torch.ones(3, 2))


def parts():
    torch.manual_seed(2)
    return fx.symbolic_trace(Parts(), concrete_args={"flag": True}), (torch.ones(2, 3), True)


def arguments():
    """Every kind of argument, target and annotation."""
    g = fx.Graph()
    x = g.placeholder("x", type_expr=torch.Tensor)
    n = g.placeholder("n", type_expr=int, default_value=2)
    rest = g.placeholder("*rest")
    a = g.call_function(operator.getitem, (x, (slice(None, n, None), ..., None)))
    b = g.call_function(torch.full, ([n, 2], float("inf")), {"dtype": torch.float64, "device": torch.device("cpu")})
    c = g.call_method("clamp", (b, -math.inf, 3.5))
    d = g.call_function(torch.ops.aten.add.Tensor, (c, 1), {"alpha": 2})
    e = g.call_function(torch.nn.functional.pad, (d, (0, 1)), {"mode": "constant", "value": True})
    f = g.call_function(dict, (), {"k": n})
    h = g.call_function(math.sqrt, (n,))
    w = g.get_attr("box.weight")
    m = g.call_module("box", (w,))
    z = g.call_function(complex, (1, 2))
    g.output({"a": a, "e": [e, (h, f)], "rest": rest, "m": m, "z": z, "literals": [None, True, -1, 2.5, 1 + 2j, "text", float("nan")]})
    root = nn.Module()
    root.box = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        root.box.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    return fx.GraphModule(root, g), (torch.ones(3, 2), 2, "more")


def described():
    """A Graph, which keeps its nodes' meta; a GraphModule keeps its code."""
    graph = fx.Tracer().trace(lambda x: torch.relu(x) * 2)
    for i, node in enumerate(graph.nodes):
        node.stack_trace = f'File "model.py", line {i}, in forward\n    return torch.relu(x) * 2'
        node.meta["note"] = {"who": [node.name]}
    return graph, (torch.tensor([-1.0, 2.0]),)


def exported():
    torch.manual_seed(3)
    program = torch.export.export(Mlp(), (torch.ones(2, 3),))
    signature = program.graph_signature
    held = [program.state_dict[name] for name in (*signature.parameters, *signature.buffers)]
    return program.graph_module, (*(value.detach() for value in held), torch.ones(2, 3))


def main():
    for make in (mlp, symbolic, parts, arguments, described, exported):
        graph, inputs = make()
        run = fx.GraphModule({}, graph) if isinstance(graph, fx.Graph) else graph
        with torch.no_grad():
            result = run(*inputs)
        made = {"graph": graph, "inputs": inputs, "result": result}
        (HERE / f"graph_{make.__name__}.pkl").write_bytes(pickle.dumps(made, protocol=4))


if __name__ == "__main__":
    main()
