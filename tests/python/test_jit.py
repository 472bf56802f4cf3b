"""torch.jit: what a trace writes down, runs, saves and refuses. Texts are PyTorch's own."""
import copy
import io
import os
import subprocess
import warnings
import zipfile

import pytest
import taper as torch
from taper import nn
from taper.nn import functional as F

jit = torch.jit


def strip(graph):
    """The text of a graph without the places of its lines."""
    return "\n".join(line.partition(" # ")[0] for line in str(graph).rstrip().split("\n"))


def through_file(module):
    buffer = io.BytesIO()
    jit.save(module, buffer)
    buffer.seek(0)
    return jit.load(buffer)


def test_graph_and_code_as_pytorch_prints_them():
    def f(x, y):
        a = x + 1
        return torch.sigmoid(a * y), x[0:1, 1]

    traced = jit.trace(f, (torch.ones(2, 3), torch.ones(2, 3)))
    kind = "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"
    assert strip(traced.graph) == f"""graph(%x : {kind},
      %y : {kind}):
  %2 : Long(requires_grad=0, device=cpu) = prim::Constant[value={{1}}]()
  %3 : int = prim::Constant[value=1]()
  %a : {kind} = aten::add(%x, %2, %3)
  %5 : {kind} = aten::mul(%a, %y)
  %6 : {kind} = aten::sigmoid(%5)
  %7 : int = prim::Constant[value=0]()
  %8 : int = prim::Constant[value=0]()
  %9 : int = prim::Constant[value=1]()
  %10 : int = prim::Constant[value=1]()
  %11 : Float(1, 3, strides=[3, 1], requires_grad=0, device=cpu) = aten::slice(%x, %7, %8, %9, %10)
  %12 : int = prim::Constant[value=1]()
  %13 : int = prim::Constant[value=1]()
  %14 : Float(1, strides=[3], requires_grad=0, device=cpu) = aten::select(%11, %12, %13)
  %15 : ({kind}, Float(1, strides=[3], requires_grad=0, device=cpu)) = prim::TupleConstruct(%6, %14)
  return (%15)"""
    assert traced.code == """def f(x: Tensor,
    y: Tensor) -> Tuple[Tensor, Tensor]:
  a = torch.add(x, CONSTANTS.c0)
  _0 = torch.sigmoid(torch.mul(a, y))
  _1 = torch.select(torch.slice(x, 0, 0, 1), 1, 1)
  return (_0, _1)
"""


def test_lines_say_where_they_come_from():
    traced = jit.trace(lambda x: x.neg(), torch.ones(2))
    node = next(node for node in traced.graph.nodes() if node.kind() == "aten::neg")
    file, line, column = node.sourceRange().rsplit(":", 2)
    assert os.path.basename(file) == "test_jit.py" and int(line) > 0 and column == "0"


def test_constants_are_pooled():
    graph = jit.trace(lambda x: torch.max_pool2d(x, [2, 2], [2, 2]) + 2, torch.ones(1, 1, 4, 4)).graph.copy()
    torch._C._jit_pass_constant_pooling(graph)
    lines = [line.split(" : ", 1)[1].split(" #")[0] for line in str(graph).splitlines() if " = " in line]
    constants = [line for line in lines if "prim::Constant" in line]
    assert lines[:len(constants)] == constants and len(set(constants)) == len(constants)
    for node in graph.nodes():
        if node.kind() == "prim::ListConstruct":
            assert len({value.debugName() for value in node.inputs()}) == 1


def test_sizes_are_values():
    traced = jit.trace(lambda x: (x.view(x.shape[1] * 2, -1), torch.arange(x.size(0)), x.numel()), torch.ones(4, 3))
    x = torch.ones(6, 5)
    viewed, counted, size = traced(x)
    assert viewed.shape == (10, 3) and counted.tolist() == [0, 1, 2, 3, 4, 5] and int(size) == 30


def test_gradients_of_gradients():
    traced = through_file(jit.trace(lambda x, y: (x * y + y).sin(), (torch.ones(2), torch.ones(2))))
    x, y = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
    for function in (traced, lambda a, b: (a * b + b).sin()):
        first = torch.autograd.grad(function(x, y).sum(), (x, y), create_graph=True)
        second = torch.autograd.grad((first[0] * first[1]).sum(), (x, y))
        if function is traced:
            seen = [*first, *second]
    torch.testing.assert_close(seen, [*first, *second])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        return self.layers(x) * self.scale + self.shift


def test_modules_keep_their_tree_and_share_their_parameters():
    net = Net()
    traced = jit.trace(net, torch.rand(2, 3))
    x = torch.rand(5, 3)
    torch.testing.assert_close(traced(x), net(x))
    assert list(traced.state_dict()) == list(net.state_dict())
    assert "prim::CallMethod" in str(traced.graph) and "prim::CallMethod" not in str(traced.inlined_graph)
    with torch.no_grad():
        net.scale.zero_()
    torch.testing.assert_close(traced(x), torch.ones(5, 2))
    assert type(traced).__name__ == "TopLevelTracedModule" and type(traced.layers).__name__ == "TracedModule"
    with pytest.raises(AttributeError):
        traced.in_features
    traced.load_state_dict({name: torch.ones_like(value) for name, value in net.state_dict().items()})
    torch.testing.assert_close(net.scale.detach(), torch.ones(2))


def test_a_value_crosses_frames_once():
    class Inner(nn.Module):
        def forward(self, x):
            self.kept = x * 2
            return x + 1

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            y = self.inner(x)
            return y + self.inner.kept + self.inner.kept

    traced = jit.trace(Outer(), torch.ones(2))
    x = torch.rand(3)
    torch.testing.assert_close(traced(x), x + 1 + 4 * x)
    torch.testing.assert_close(through_file(traced)(x), x + 1 + 4 * x)
    assert str(traced.graph).count("prim::TupleUnpack") == 1


def test_a_module_called_twice_has_two_methods():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(self.fc(x))

    module = Twice()
    traced = jit.trace(module, torch.ones(1, 2))
    assert traced.fc._c._method_names() == ["forward", "forward1"]
    x = torch.rand(3, 2)
    torch.testing.assert_close(traced(x), module(x))


def test_containers_go_in_and_out():
    def f(pair, named):
        (a, b), c = pair, named["c"]
        return {"sum": a + b, "c": c}

    x = torch.rand(2)
    traced = through_file(jit.trace(f, ((x, x + 1), {"c": x, "unused": x}), strict=False))
    out = traced((x, x), {"extra": x, "c": x * 3, "unused": x})
    torch.testing.assert_close(out, {"sum": x + x, "c": x * 3})
    with pytest.raises(RuntimeError, match="KeyError: .*c"):
        traced((x, x), {"unused": x})


def test_an_input_that_is_returned_is_the_same_object():
    x = torch.rand(2)
    assert jit.trace(lambda x: x, x)(x) is x


@pytest.mark.parametrize("function, inputs, message", [
    (lambda x: x, (1,), r"Type 'Tuple\[int\]' cannot be traced"),
    (lambda x: x, ({},), "Dictionary inputs must have entries"),
    (lambda x: x, ([],), "List trace inputs must have elements"),
    (lambda x: x, ([torch.ones(1), (torch.ones(1),)],), r"consistent element type. Found Tensor and Tuple\[Tensor\]"),
    (lambda x: {"a": x}, (torch.ones(1),), "Encountering a dict at the output"),
    (lambda x: [1], (torch.ones(1),), "Only tensors, lists, tuples of tensors"),
    (lambda x: None, (torch.ones(1),), "didn't return any values"),
    (lambda x: jit.trace(lambda y: y, x)(x), (torch.ones(1),), "Tracing can't be nested"),
])
def test_what_cannot_be_traced(function, inputs, message):
    with pytest.raises(RuntimeError, match=message):
        jit.trace(function, inputs)
    assert not jit.is_tracing()             # a trace that fails leaves nothing behind
    jit.trace(lambda x: x + 1, torch.ones(1))


def test_calls_are_checked():
    traced = jit.trace(lambda x, y: x + y, (torch.ones(1), torch.ones(1)))
    with pytest.raises(RuntimeError, match=r"_lambda\(\) is missing value for argument 'y'. Declaration: _lambda\(Tensor x, Tensor y\) -> Tensor"):
        traced(torch.ones(1))
    with pytest.raises(RuntimeError, match="expected at most 2 argument"):
        traced(*[torch.ones(1)] * 3)
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'"):
        traced(1, 2)
    assert traced(y=torch.ones(1), x=torch.ones(1)).item() == 2


def test_the_checker_warns_and_raises():
    with pytest.warns(jit.TracerWarning, match="nondeterministic nodes"):
        jit.trace(lambda x: F.dropout(x, 0.5), torch.ones(50))
    with pytest.raises(jit.TracingCheckError, match="Graphs differed across invocations!"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jit.trace(lambda x: sum([x] * x.size(0)), torch.ones(2), check_inputs=[torch.ones(3)])


def test_functions_of_autograd_are_one_node():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None

    traced = jit.trace(lambda x: Double.apply(x, 2) + 1, torch.ones(2))
    assert "= ^Double[" in str(traced.graph) and "aten::mul" not in str(traced.graph)
    x = torch.ones(3, requires_grad=True)
    out = traced(x)
    out.sum().backward()
    assert out.tolist() == [3, 3, 3] and x.grad.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="Could not export Python function"):
        jit.save(traced, io.BytesIO())


def test_traced_functions_call_one_another():
    inner = jit.trace(lambda x: x.neg(), torch.ones(2))
    outer = jit.trace(lambda x: inner(x) * 2, torch.ones(2))
    assert "prim::CallFunction" in str(outer.graph)
    assert through_file(outer)(torch.ones(3)).tolist() == [-2, -2, -2]


def test_a_traced_module_inside_a_traced_module():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = jit.trace(Net(), torch.rand(2, 3))

        def forward(self, x):
            return self.inner(x) + 1

    outer = Outer()
    traced = jit.trace(outer, torch.rand(2, 3))
    assert traced.inner._c._method_names() == ["forward"]
    x = torch.rand(4, 3)
    torch.testing.assert_close(through_file(traced)(x), outer(x))


def test_copies_are_independent():
    loaded = through_file(jit.trace(Net(), torch.rand(2, 3)))
    twin = copy.deepcopy(loaded)
    with torch.no_grad():
        loaded.scale.zero_()
    assert twin.scale.tolist() == [2, 3] and twin(torch.rand(1, 3)).shape == (1, 2)


@pytest.mark.parametrize("damage", ["/data.pkl", "/code/", "/constants.pkl", "/data/0"])
def test_broken_archives_are_errors(damage):
    buffer = io.BytesIO()
    jit.save(jit.trace(Net(), torch.rand(2, 3)), buffer)
    source, out = zipfile.ZipFile(buffer), io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if damage in name:
                data = data[:len(data) // 2]
            target.writestr(name, data)
    out.seek(0)
    with pytest.raises(Exception) as caught:
        jit.load(out)(torch.rand(2, 3))
    assert not isinstance(caught.value, SystemError)


def test_what_is_missing_says_so():
    for name in ("script", "freeze", "interface"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(jit, name)(Net())


@pytest.mark.skipif(not os.environ.get("TAPER_ORACLE"), reason="needs PyTorch")
def test_archives_travel(tmp_path):
    net = Net()
    here, there = str(tmp_path / "here.pt"), str(tmp_path / "there.pt")
    jit.trace(net, torch.rand(2, 3)).save(here)
    program = (
        "import sys, torch\n"
        "m = torch.jit.load(sys.argv[1]); x = torch.arange(6.).view(2, 3); print(m(x).tolist())\n"
        "torch.jit.trace(lambda x: torch.topk(x * 2 + torch.tensor([1., 2., 3.]), 2), x).save(sys.argv[2])\n")
    run = subprocess.run([os.environ["TAPER_ORACLE"], "-c", program, here, there], capture_output=True, text=True, check=True)
    x = torch.arange(6.0).view(2, 3)
    torch.testing.assert_close(torch.tensor(eval(run.stdout)), net(x).detach())
    values, _ = jit.load(there)(x)
    torch.testing.assert_close(values, torch.topk(x * 2 + torch.tensor([1.0, 2.0, 3.0]), 2)[0])


def test_loaded_and_traced_modules_change_their_mode():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.drop = torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Dropout())

        def forward(self, x):
            return self.drop(self.first(x))

    traced, file = torch.jit.trace(Net().eval(), torch.ones(3, 2)), io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    for module in (traced, torch.jit.load(file)):
        for change, mode in ((module.train, True), (module.eval, False), (lambda: module.train(True), True), (lambda: module.train(False), False)):
            assert change() is module
            assert [m.training for m in module.modules()] == [mode] * 4
            file = io.BytesIO()
            torch.jit.save(module, file)
            file.seek(0)
            assert [m.training for m in torch.jit.load(file).modules()] == [mode] * 4
        with pytest.raises(ValueError, match="training mode is expected to be boolean"):
            module.train(1)
