"""ONNX export: what onnxruntime computes from the file is what the model computes."""
import io

import pytest

import taper as torch
from taper import nn
from taper.nn import functional as F

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


def check(model, *args, tolerance=1e-5, **kwargs):
    """Exports, has the file checked, runs it, compares every output; gives the program."""
    program = torch.onnx.dynamo_export(model, *args, **kwargs)
    onnx.checker.check_model(program.model_proto, full_check=True)
    got = program(*args, **kwargs)
    with torch.no_grad():
        want = program.adapt_torch_outputs_to_onnx(model(*args, **kwargs))
    assert len(got) == len(want)
    for one, other in zip(got, want):
        torch.testing.assert_close(torch.tensor(one), other, rtol=tolerance, atol=tolerance, equal_nan=True)
    return program


def rand(*size):
    return torch.rand(size) * 0.8 + 0.1


UNARY = [name for name in """abs neg sign sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh
    atanh erf erfc sigmoid relu reciprocal square floor ceil trunc round frac isnan isinf isfinite logical_not signbit""".split()]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    check(getattr(torch, name), rand(3, 4) - (0.5 if name in ("abs", "sign", "floor", "ceil", "relu", "frac", "signbit") else 0))


@pytest.mark.parametrize("name", "gelu silu elu selu celu softplus hardtanh relu6 hardsigmoid hardswish mish leaky_relu logsigmoid tanhshrink".split())
def test_activation(name):
    check(getattr(F, name), torch.randn(3, 5) * 3)


@pytest.mark.parametrize("name", "add sub mul div pow maximum minimum fmax fmin fmod remainder eq ne lt le gt ge hypot logical_and logical_xor".split())
@pytest.mark.parametrize("other", [(3, 4), (4,), ()])
def test_binary(name, other):
    check(getattr(torch, name), rand(3, 4), rand(*other))


@pytest.mark.parametrize("function", [
    lambda x, y: x + y, lambda x, y: x * 2.5 + y, lambda x, y: y - x, lambda x, y: x / y, lambda x, y: x // y, lambda x, y: x % y,
    lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda x, y: x > y, lambda x, y: (x > y) & (y > 2), lambda x, y: (x > 2) + y,
    lambda x, y: torch.add(x, y, alpha=3), lambda x, y: 2 - x, lambda x, y: x ** 2 + y, lambda x, y: torch.clamp(x, 1, 3),
    lambda x, y: torch.where(x > y, x, y), lambda x, y: x.masked_fill(y > 2, 7), lambda x, y: x.float() * 0.5, lambda x, y: x | y,
])
@pytest.mark.parametrize("types", [("int64", "int64"), ("int32", "int64"), ("int64", "float32"), ("float32", "float32"), ("float64", "float32")])
def test_promotion(function, types):
    x, y = (torch.tensor([[1, 2, 3], [4, 5, 6]]) * k for k in (1, 2))
    x, y = x.to(getattr(torch, types[0])), (y - 3).to(getattr(torch, types[1])).abs() + 1
    if not all("int" in t for t in types) and function.__code__.co_code == (lambda x, y: x | y).__code__.co_code:
        pytest.skip("bits of floats")
    check(function, x, y)


@pytest.mark.parametrize("function", [
    lambda x: x.view(6, 4), lambda x: x.reshape(-1), lambda x: x.permute(2, 0, 1), lambda x: x.transpose(-1, 0), lambda x: x[0].t(),
    lambda x: x[1], lambda x: x[:, 1:, ::2], lambda x: x[..., -1], lambda x: x.unsqueeze(1), lambda x: x[:1].squeeze(0), lambda x: x[:1].squeeze(),
    lambda x: x[0:1].expand(5, 3, 4), lambda x: torch.cat([x, x], 1), lambda x: torch.stack([x, x], -1), lambda x: x.split(2, 2),
    lambda x: x.chunk(3, 1), lambda x: x.unbind(1), lambda x: x.flip(0, 2), lambda x: x.repeat(2, 1, 1, 3), lambda x: x.flatten(1),
    lambda x: x.narrow(2, 1, 2), lambda x: x.contiguous(), lambda x: x.clone(), lambda x: x.double(), lambda x: x.long(),
    lambda x: x.tril(), lambda x: x.triu(1), lambda x: x[:, torch.tensor([2, 0])], lambda x: x[torch.tensor([1, 0]), torch.tensor([2, 1])],
    lambda x: x.index_select(1, torch.tensor([1, 1, 0])), lambda x: x.gather(2, torch.zeros(2, 3, 1, dtype=torch.int64)),
    lambda x: x + torch.zeros(3, 1) + torch.arange(4), lambda x: torch.full_like(x, 2) * x, lambda x: x.new_ones(4) + x,
], ids=lambda f: "")
def test_shapes(function):
    check(function, torch.randn(2, 3, 4))


@pytest.mark.parametrize("function", [
    lambda x: x.sum(), lambda x: x.sum(1), lambda x: x.sum((0, 2), keepdim=True), lambda x: x.mean(), lambda x: x.mean(-1), lambda x: x.prod(),
    lambda x: x.prod(1), lambda x: x.amax(1), lambda x: x.amin((0, 1)), lambda x: x.max(), lambda x: x.min(), lambda x: x.max(1), lambda x: x.min(0, True),
    lambda x: x.argmax(), lambda x: x.argmin(1), lambda x: x.var(1), lambda x: x.std(), lambda x: torch.var_mean(x, (0, 1)), lambda x: (x > 0).any(1),
    lambda x: (x > 0).all(), lambda x: x.logsumexp(1), lambda x: x.norm(), lambda x: x.norm(1, 2), lambda x: x.cumsum(1), lambda x: x.softmax(-1),
    lambda x: x.log_softmax(0), lambda x: x.topk(2, 1), lambda x: x.sort(2, descending=True), lambda x: (x > 0).sum(), lambda x: x.nonzero().sum(),
], ids=lambda f: "")
def test_reductions(function):
    check(function, torch.randn(2, 3, 4))


@pytest.mark.parametrize("sizes", [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2))])
def test_matmul(sizes):
    check(torch.matmul, *(torch.randn(*s) for s in sizes))


def test_products_with_sums():
    check(lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), torch.randn(5), torch.randn(3, 4), torch.randn(4, 5))
    check(lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5), torch.randn(5), torch.randn(2, 3, 4), torch.randn(2, 4, 5))


@pytest.mark.parametrize("module, size", [
    (nn.Linear(4, 3), (2, 4)), (nn.Linear(4, 3, bias=False), (2, 5, 4)), (nn.Conv1d(2, 4, 3, padding=1), (1, 2, 8)),
    (nn.Conv2d(4, 6, 3, stride=2, padding=(1, 0), dilation=(1, 2), groups=2), (2, 4, 9, 8)), (nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1), (1, 3, 5, 5)),
    (nn.MaxPool2d(3, 2, 1, ceil_mode=True), (1, 2, 8, 7)), (nn.AvgPool2d(2, padding=1), (1, 2, 6, 6)), (nn.AdaptiveAvgPool2d((1, 2)), (1, 2, 6, 6)),
    (nn.BatchNorm2d(3).eval(), (2, 3, 4, 4)), (nn.BatchNorm2d(3, affine=False).eval(), (2, 3, 4, 4)), (nn.LayerNorm(6), (2, 4, 6)),
    (nn.LayerNorm((4, 6), elementwise_affine=False), (2, 4, 6)), (nn.GroupNorm(2, 4), (2, 4, 5)), (nn.Dropout(0.5).eval(), (3, 3)), (nn.Flatten(), (2, 3, 4)),
], ids=str)
def test_modules(module, size):
    check(module, torch.randn(*size))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc3(torch.relu(self.fc2(x))), 1)


def test_lenet():
    program = check(LeNet(), torch.randn(2, 1, 28, 28))
    names = {x.name for x in program.model_proto.graph.initializer}
    assert {"conv1.weight", "fc3.bias"} <= names and [x.name for x in program.model_proto.graph.input] == ["x"]


def test_a_multilayer_perceptron_written_to_a_file(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, path, buffer = torch.randn(5, 4), str(tmp_path / "mlp.onnx"), io.BytesIO()
    torch.onnx.export(model, (x,), path, input_names=["in"], output_names=["out"], dynamo=True)
    torch.onnx.export(model, x, buffer)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (got,) = session.run(["out"], {"in": x.numpy()})
    torch.testing.assert_close(torch.tensor(got), model(x).detach())
    assert len(buffer.getvalue()) > 300


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.norm = nn.Embedding(11, 8), nn.Linear(8, 24), nn.LayerNorm(8)

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = (y.view(*y.shape[:2], 2, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / 2
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        return x + (scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(2)


def test_attention():
    check(Attention(), torch.randint(0, 11, (2, 5)))


class Nested(nn.Module):
    def forward(self, x, pair, *, scale=1.0, named=None):
        y, (z, count) = pair
        return {"sum": x + y * scale, "list": [z, z, x]}, (named["a"] * count, None)


def test_nested_arguments_and_results():
    a = [torch.randn(3) for _ in range(4)]
    program = check(Nested(), a[0], (a[1], (a[2], 3)), scale=2.0, named={"a": a[3], "unread": torch.randn(2)})
    assert [x.name for x in program.model_proto.graph.input] == ["x", "pair_0", "pair_1_0", "named_a", "named_unread"]
    outputs = [x.name for x in program.model_proto.graph.output]
    assert len(outputs) == len(set(outputs)) == 5
    with pytest.raises(RuntimeError, match="Model inputs incompatible with the format that was exported"):
        program.adapt_torch_inputs_to_onnx(a[0])


def test_writes_are_taken_out():
    def function(x):
        y = x * 2
        y[0].add_(1)
        y.relu_()
        return y

    def on_input(x):
        x[:, 1:] = 0
        x[:, ::2].mul_(3)
        return x + 1

    check(function, torch.randn(3, 2))
    x = torch.randn(3, 4)
    program = torch.onnx.dynamo_export(on_input, x)
    (got,) = program(x)
    torch.testing.assert_close(torch.tensor(got), on_input(x))


def test_what_has_no_form_is_named():
    with pytest.raises(torch.onnx.OnnxExporterError) as caught:
        torch.onnx.dynamo_export(lambda x: torch.atan2(x, x) + torch.bernoulli(x), torch.rand(3))
    assert isinstance(caught.value.__cause__, NotImplementedError)
    assert "Unsupported FX nodes: {'call_function': ['aten.atan2.default', 'aten.bernoulli.default']}" in str(caught.value)
    with pytest.raises(NotImplementedError):
        caught.value.onnx_program.model_proto


def test_a_tensor_as_default_is_refused():
    def function(x, b=torch.tensor(1.0)):
        return x + b

    with pytest.raises(torch.onnx.OnnxExporterError, match="Unexpectedly found a <class 'taper.Tensor'> in the inputs."):
        torch.onnx.dynamo_export(function, torch.randn(2))
