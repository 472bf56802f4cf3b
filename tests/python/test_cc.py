"""taper.cc: the C that a program becomes compiles without a warning, and computes what the program computes."""
import shutil
import subprocess

import pytest

import taper as torch
from taper import nn
from taper.nn import functional as F

COMPILER = shutil.which("cc")
STRICT = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
TYPES = {"float": torch.float32, "double": torch.float64, "int64_t": torch.int64, "int32_t": torch.int32, "uint8_t": torch.uint8}


def run(folder, model, *args):
    """What the compiled program prints for these arguments, as tensors."""
    folder.mkdir(exist_ok=True)
    source, program = folder / "model.c", folder / "model"
    torch.cc(model, str(source), args, main=True)
    subprocess.run([COMPILER, *STRICT, str(source), "-o", str(program), "-lm"], check=True)
    paths = []
    for i, x in enumerate(args):
        paths.append(folder / f"{i}.bin")
        paths[-1].write_bytes(x.contiguous().numpy().tobytes())
    lines = subprocess.run([str(program), *map(str, paths)], check=True, capture_output=True, text=True).stdout.splitlines()
    results = []
    for line in lines:
        if line.startswith("out_"):
            _, dtype, sizes = line.split()
            results.append((TYPES[dtype], [int(n) for n in sizes.split("x")] if sizes != "scalar" else [], []))
        else:
            results[-1][2].append((float if results[-1][0].is_floating_point else int)(line))
    return [torch.tensor(values, dtype=dtype).reshape(sizes) for dtype, sizes, values in results]


def check(folder, model, *args, tolerance=1e-6):
    got = run(folder, model, *args)
    with torch.no_grad():
        want = [x for x in torch.utils._pytree.tree_leaves(model(*args))]
    assert len(got) == len(want)
    for k, (one, other) in enumerate(zip(got, want)):
        other = other.to(torch.uint8) if other.dtype is torch.bool else other
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda text: f"output {k}: {text}")
    return got


def all_of(*functions):
    return lambda *args: [function(*args) for function in functions]


def test_unary(tmp_path):
    names = """abs neg sign sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh atanh erf
        erfc sigmoid relu reciprocal square floor ceil trunc round frac isnan isinf isfinite logical_not signbit""".split()
    check(tmp_path, all_of(*(getattr(torch, name) for name in names)), torch.rand(3, 5) * 0.8 + 0.1, tolerance=2e-6)


def test_activations(tmp_path):
    names = "gelu silu elu selu celu softplus hardtanh relu6 hardsigmoid hardswish mish leaky_relu logsigmoid tanhshrink".split()
    check(tmp_path, all_of(*(getattr(F, name) for name in names), lambda x: F.gelu(x, approximate="tanh")), torch.randn(4, 5) * 3, tolerance=2e-6)


@pytest.mark.parametrize("types", [("float32", "float32"), ("int64", "int64"), ("int32", "float32"), ("float64", "float32")])
def test_binary(tmp_path, types):
    x = (torch.arange(6).reshape(2, 3) - 2).to(getattr(torch, types[0]))
    y = torch.tensor([3, -2, 5]).to(getattr(torch, types[1]))
    check(tmp_path, all_of(
        torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum, torch.remainder, torch.fmod, torch.eq, torch.lt, torch.ge,
        lambda x, y: x // y, lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda x, y: torch.add(x, y, alpha=3), lambda x, y: 2 - x,
        lambda x, y: x ** 2, lambda x, y: x.clamp(-1, 2), lambda x, y: torch.where(x > y, x, y), lambda x, y: x.masked_fill(y > 2, 7),
        lambda x, y: (x > 0) & (y > 0), lambda x, y: x.float() * 0.1, lambda x, y: x.t() * 2), x, y)


def test_shapes(tmp_path):
    check(tmp_path, all_of(
        lambda x: x.view(6, 4) + 1, lambda x: x.reshape(-1), lambda x: x.permute(2, 0, 1) * 2, lambda x: x.transpose(0, 2).reshape(4, 6), lambda x: x[1],
        lambda x: x[:, 1:, ::2] + x[:, :2, 1::2], lambda x: x[..., -1], lambda x: x.unsqueeze(1), lambda x: x[:1].squeeze(0), lambda x: x[0:1].expand(5, 3, 4),
        lambda x: torch.cat([x, x * 2, x[:, :1]], 1), lambda x: torch.stack([x, x + 1], -1), lambda x: [p + 1 for p in x.split(3, 2)], lambda x: x.unbind(1),
        lambda x: x.contiguous(), lambda x: x.clone(), lambda x: x.double(), lambda x: (x * 10).long(), lambda x: x.index_select(1, torch.tensor([1, 1, 0])),
        lambda x: x + torch.zeros(3, 1) + torch.arange(4), lambda x: torch.full_like(x, 2) * x, lambda x: x.diagonal(0, 0, 1), lambda x: x), torch.randn(2, 3, 4))


def test_choosing(tmp_path):
    check(tmp_path, lambda x, at: [
        x[:, at], x[at, :, 1], x[at, at], x[at.view(2, 1), at], x.gather(2, torch.zeros(3, 3, 2, dtype=torch.int64) + at), x.flip(0, -1), x.repeat(2, 1, 1, 3),
        x.tril(), x.triu(-1), x.index_select(0, at), x[torch.tensor([-1, -2])]], torch.randn(3, 3, 4), torch.tensor([2, 0]))


def test_reductions(tmp_path):
    check(tmp_path, all_of(
        lambda x: x.sum(), lambda x: x.sum(1), lambda x: x.sum((0, 2), keepdim=True), lambda x: x.mean(), lambda x: x.mean(-1), lambda x: x.prod(1), lambda x: x.amax(1),
        lambda x: x.amin((0, 1)), lambda x: x.max(), lambda x: x.max(1), lambda x: x.min(0, True), lambda x: x.argmax(), lambda x: x.argmin(1), lambda x: x.var(1),
        lambda x: x.std(), lambda x: torch.var_mean(x, (0, 1)), lambda x: (x > 0).any(1), lambda x: (x > 0).all(), lambda x: x.logsumexp(1), lambda x: x.norm(),
        lambda x: x.norm(1, 2), lambda x: x.softmax(-1), lambda x: x.log_softmax(0), lambda x: (x > 0).sum(), lambda x: x.max(2).indices), torch.randn(2, 3, 4))


def test_products(tmp_path):
    sizes = [(3, 4), (4, 5), (2, 3, 4), (2, 4, 5), (4,), (5,)]
    a = [torch.randn(*s) for s in sizes]
    check(tmp_path, lambda m, n, bm, bn, v, b: [
        m @ n, bm @ bn, bm @ n, m @ v, v @ v, torch.addmm(b, m, n, beta=0.5, alpha=2), torch.baddbmm(b, bm, bn), n.t() @ m.t(), (m.long() @ n.long())], *a)


@pytest.mark.parametrize("module, size", [
    (nn.Conv1d(2, 4, 3, padding=1), (1, 2, 8)), (nn.Conv2d(4, 6, 3, stride=2, padding=(1, 0), dilation=(1, 2), groups=2), (2, 4, 9, 8)),
    (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)), (nn.MaxPool2d(3, 2, 1, ceil_mode=True, return_indices=True), (1, 2, 8, 7)),
    (nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), (1, 2, 6, 6)), (nn.AvgPool2d(2, padding=1, count_include_pad=False), (1, 2, 6, 6)),
    (nn.AdaptiveAvgPool2d((3, 2)), (1, 2, 7, 5)), (nn.BatchNorm2d(3).eval(), (2, 3, 4, 4)), (nn.LayerNorm((4, 6)), (2, 4, 6)), (nn.GroupNorm(2, 4), (2, 4, 5)),
    (nn.Linear(4, 3), (2, 5, 4)), (nn.Sequential(nn.Dropout(0.5), nn.Flatten(), nn.Linear(12, 2)).eval(), (2, 3, 4)),
], ids=str)
def test_modules(tmp_path, module, size):
    check(tmp_path, module, torch.randn(*size))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, image):
        x = F.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc3(torch.relu(self.fc2(x))), 1)


def test_lenet(tmp_path):
    model, x = LeNet(), torch.randn(2, 1, 28, 28)
    check(tmp_path, model, x)
    text = torch.cc(model, args=(x,), function="lenet")
    assert "void lenet(const float *in_image, float *out_0);" in text and "w_conv1_weight[150]" in text
    assert "malloc" not in text and "main" not in text
    assert text == torch.cc(model, args=(x,), function="lenet")


def test_memory_is_shared():
    """Twenty values of 100 elements in a row need the room of two."""
    def long(x):
        for _ in range(20):
            x = (x + 1).sigmoid()
        return x

    text = torch.cc(long, args=(torch.randn(10, 10),))
    assert "static float memory_f32[212];" in text


def test_attention(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.qkv, self.norm = nn.Embedding(11, 8), nn.Linear(8, 24), nn.LayerNorm(8)

        def forward(self, ids):
            x = self.embed(ids)
            q, k, v = (y.view(*y.shape[:2], 2, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
            return x + ((q @ k.transpose(-1, -2) / 2).softmax(-1) @ v).transpose(1, 2).flatten(2)

    check(tmp_path, Model(), torch.randint(0, 11, (2, 5)))


def test_what_has_no_words_is_named():
    for function, words in ((lambda x: x.sort(), "aten::sort"), (lambda x: x.half() + 1, "float16"), (torch.bernoulli, "aten::bernoulli")):
        with pytest.raises(NotImplementedError, match=words):
            torch.cc(function, args=(torch.rand(3),))


def test_inputs_are_checked(tmp_path):
    run(tmp_path, torch.relu, torch.randn(3))
    (tmp_path / "short.bin").write_bytes(b"1234")
    done = subprocess.run([str(tmp_path / "model"), str(tmp_path / "short.bin")], capture_output=True, text=True)
    assert done.returncode == 1 and "not a file of 12 bytes" in done.stderr
    assert subprocess.run([str(tmp_path / "model")], capture_output=True).returncode == 2


def test_weights_that_are_views(tmp_path):
    """Of other storages, transposed, with gaps, unread; and outputs that are inputs or weights themselves."""
    flat = torch.randn(40)
    w, gaps, turned, unread = flat[10:16].view(2, 3), flat[::3][:6].view(2, 3), torch.randn(3, 2).t(), torch.randn(4)

    def function(x, y):
        dead = (unread * 2).sum()
        del dead
        return x @ w.t(), x * gaps[1:], turned[:, 1:] + x[:, :2], w, y

    check(tmp_path, function, torch.randn(2, 3), torch.randn(2))


def test_a_saved_program(tmp_path, capsys):
    """From a .pt2 file by the command, and from the program itself: the same text."""
    from taper._cc import command

    model, x = LeNet(), torch.randn(1, 1, 28, 28)
    exported, path = torch.export.export(model, (x,)), str(tmp_path / "lenet.pt2")
    torch.export.save(exported, path)
    assert command([path, "-o", str(tmp_path / "lenet.c"), "--main"]) == 0
    text = (tmp_path / "lenet.c").read_text()
    assert text == torch.cc(exported, main=True) and "int main(" in text
    assert command([path, "--name", "net"]) == 0 and "void net(" in capsys.readouterr().out
    assert command([]) == command([path, "--wrong"]) == 2


def test_a_program_that_writes_is_refused():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x):
            self.n.add_(1)
            return x + self.n

    with pytest.raises(NotImplementedError, match="write"):
        torch.cc(torch.export.export(Counts(), (torch.randn(2),)))
