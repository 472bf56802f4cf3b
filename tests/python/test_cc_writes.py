"""taper.cc of programs that write: into views, into inputs, into memory that a factory made; what it refuses, and from a saved file."""
import ctypes
import pathlib
import re
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


def loaded(text, folder):
    (folder / "model.c").write_text(text)
    subprocess.run([COMPILER, *STRICT, "-shared", "-fPIC", str(folder / "model.c"), "-o", str(folder / "model.so"), "-lm"], check=True)
    return ctypes.CDLL(str(folder / "model.so")).model


def check(folder, program, *args, text=None):
    """The compiled program, called twice, gives what eager calls give and leaves its arguments as they do."""
    text = text or torch.cc(program, args=tuple(x.clone() for x in args))
    after = [x.clone() for x in args]
    with torch.no_grad():
        want = [x.detach() for x in torch.utils._pytree.tree_leaves(program(*after))]
    function = loaded(text, folder)
    for _ in range(2):
        given = [x.clone() for x in args]
        made = [torch.full_like(x.contiguous(), 77) for x in want]
        function(*[ctypes.c_void_p(x.data_ptr()) for x in (*given, *made)])
        for got, wanted in zip((*given, *made), (*after, *want)):
            torch.testing.assert_close(got, wanted.contiguous(), rtol=1e-6, atol=1e-6, equal_nan=True)


def assigned(x):
    y = torch.zeros(2, 3)
    y[0] = x
    return y


def column(x):
    y = torch.empty(3, 2)
    y[:, 1] = x
    y[:, 0] = 2
    return y


def in_place(x):
    y = torch.stack([x, -x])
    y[1].relu_()
    y[0, 1:].mul_(3)
    return y


def diagonal(x):
    y = x.expand(3, 3).clone()
    y.diagonal().zero_()
    y.fill_diagonal_(5)
    y.t()[0, 1:] = 4
    return y, y.t()


def steps(x):
    y = x.new_zeros(4, 3)
    for i in range(4):
        y[i] = x * i + (y[i - 1] if i else 0)
    return y, y[1:3].sum(0)


def two_memories(x):
    a, b = torch.zeros(3), torch.zeros(3)
    a.add_(x)
    return a, b, torch.zeros(3)


def shifted(x):
    y = x.clone()
    y[1:] = y[:-1].clone()
    y.copy_(y.flip(0))
    return y


def own_argument(x):
    x.add_(1)
    x[0] = 9
    return x * 2, x


def overlapping(x):
    y = torch.arange(9.0).view(3, 3)
    y.add_(y.t().clone())
    y[0] = y[:, 1]
    return y


PROGRAMS = [assigned, column, in_place, diagonal, steps, two_memories, shifted, own_argument, overlapping]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_writes(tmp_path, program):
    check(tmp_path, program, torch.tensor([1.5, -2.0, 3.0]))


class Whole(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not own_argument], ids=lambda f: f.__name__)
def test_writes_of_a_saved_program(tmp_path, program):
    """From the file, by the command."""
    from taper._cc import command

    x = torch.tensor([1.5, -2.0, 3.0])
    torch.export.save(torch.export.export(Whole(program), (x,)), str(tmp_path / "p.pt2"))
    assert command([str(tmp_path / "p.pt2"), "-o", str(tmp_path / "p.c")]) == 0
    check(tmp_path, program, x, text=(tmp_path / "p.c").read_text())


@pytest.mark.parametrize("scatter", [
    lambda x: torch.select_scatter(x, x[0] * 2, 0, 1), lambda x: torch.slice_scatter(x, x[:, ::2] + 1, 1, 0, None, 2), lambda x: torch.diagonal_scatter(x, x[0, :2], 1),
    lambda x: torch.as_strided_scatter(x, x[0, :2] * 5, (2,), (3,), 1), lambda x: F.pad(x[None], (1, 2), mode="circular"), lambda x: torch.diag_embed(x), lambda x: torch.block_diag(x, x),
    lambda x: torch.diagflat(x)], ids=["select", "slice", "diagonal", "as_strided", "circular", "diag_embed", "block_diag", "diagflat"])
def test_what_is_made_by_writing(tmp_path, scatter):
    check(tmp_path, scatter, torch.randn(2, 3))


@pytest.mark.parametrize("module, size", [
    (nn.Conv1d(2, 3, 3, padding=2, padding_mode="circular"), (2, 2, 5)), (nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), (1, 1, 4, 4)),
    (nn.CircularPad2d((1, 0, 2, 1)), (1, 2, 3, 4)), (nn.ReLU(inplace=True), (2, 3)), (nn.Sequential(nn.Linear(3, 3), nn.Hardtanh(inplace=True)), (2, 3))], ids=str)
def test_modules_that_write(tmp_path, module, size):
    check(tmp_path, module, torch.randn(*size))


def test_products_of_one_matrix(tmp_path):
    check(tmp_path, lambda x, y: [torch.bmm(x, y), torch.baddbmm(x[:, :, :1], x, y, beta=0.5), x[:, :1] @ y[..., :1], F.bilinear(x[0, :, :2], x[0, :, 1:], torch.ones(1, 2, 2))],
          torch.randn(1, 2, 3), torch.randn(1, 3, 4))


def test_edges(tmp_path):
    """Nothing, one element, numbers among integers, divisions as Python's, shifts by too much."""
    n = torch.tensor([[-7, 3, 100], [0, 2**40, -1]])
    check(tmp_path, lambda x, n: [
        x[:0].mean(), x[:, :0].sum(1), x[:0].repeat(1, 2), x // 0.1, torch.remainder(x, -0.3), n // 3, n % -4, n << 62, n >> 70, n * n * n, -n, n.abs().to(torch.uint8).clamp_min(-1),
        n.to(torch.int8).to(torch.int32) << 33, torch.fmax(x * 0, -x * 0), torch.zeros(3, dtype=torch.bool).copy_(x[0] * 0.1), torch.native_layer_norm(x, (3,), None, None, 1e-5)],
        torch.tensor([[1.0, -0.5, 0.3], [2.5, -0.1, 0.7]]), n)


def test_what_nobody_wrote_is_the_same_text_each_time():
    texts = {torch.cc(lambda x: torch.empty(40) + x, args=(torch.ones(40),)) for _ in range(3)}
    torch.randn(40)
    assert texts == {torch.cc(lambda x: torch.empty(40) + x, args=(torch.ones(40),))}


@pytest.mark.parametrize("program, words", [
    (lambda x: torch.linspace(x[0], x[1], 5), "linspace"), (lambda x: x.index_put((torch.tensor([0]),), x[:1]), "index_put"), (lambda x: torch.special.entr(x.half()), "float16")])
def test_what_is_refused(program, words):
    with pytest.raises(NotImplementedError, match=words):
        torch.cc(program, args=(torch.ones(3),))


def test_a_file_is_not_read_when_c_is_written(tmp_path):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"\x00\x00\x80?" * 4)
    with pytest.raises(NotImplementedError, match="from_file"):
        torch.cc(lambda x: x + torch.from_file(str(secret), size=4), args=(torch.ones(4),))


def test_weights_may_not_be_written():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(2, 2))

        def forward(self, x):
            self.n[0] = x
            return x + self.n

    with pytest.raises(NotImplementedError, match="writes to"):
        torch.cc(Counts(), args=(torch.ones(2),))


def test_the_c_example_prints_every_type(tmp_path):
    root, extension = pathlib.Path(__file__).resolve().parents[2], pathlib.Path(torch._C.__file__).resolve()
    library = next((p for p in (extension.parent, extension.parents[2] / "src") if (p / "libtaper.so").exists()), None)
    if library is None:
        pytest.skip("libtaper.so is not where the extension's build puts it")
    subprocess.run([COMPILER, "-std=c17", "-Wall", "-Wextra", "-Werror", str(root / "examples" / "run_program.c"), f"-I{root / 'include'}", f"-L{library}", "-ltaper",
                    f"-Wl,-rpath,{library}", "-o", str(tmp_path / "run")], check=True)
    kinds = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool")
    program = torch.export.export(Whole(lambda x: tuple(x.to(getattr(torch, kind)) for kind in kinds)), (torch.ones(3),))
    torch.export.save(program, str(tmp_path / "p.pt2"))
    lines = subprocess.run([str(tmp_path / "run"), str(tmp_path / "p.pt2"), "3", "1", "0", "42"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines == [f"{kind}[3] 1 0 {1 if kind == 'bool' else 42}" for kind in kinds]
    wide = torch.export.export(Whole(lambda x: x.double().expand(40, 1).contiguous()), (torch.ones(1),))
    torch.export.save(wide, str(tmp_path / "w.pt2"))
    line = subprocess.run([str(tmp_path / "run"), str(tmp_path / "w.pt2"), "1", "2.5"], check=True, capture_output=True, text=True).stdout
    assert re.sub(r"\s+", " ", line).strip() == "float64[40, 1] " + " ".join(["2.5"] * 40)


def test_floats_become_integers_by_their_low_bits(tmp_path):
    x = torch.tensor([float("nan"), 3e9, -3e9, float("inf"), 2.9, -2.9, 300.0])
    check(tmp_path, lambda x: [x.int(), x.to(torch.uint8), x.double().int(), x.sum(dtype=torch.int32), x[4:].to(torch.int64)], x)


def test_sums_and_products_in_another_type(tmp_path):
    n = torch.tensor([2**40, -(2**40), 2**30, 3])
    check(tmp_path, lambda x, n: [x.sum(dtype=torch.int64), x.prod(dtype=torch.int32), n.prod(dtype=torch.float64), n.sum(dtype=torch.float32), n.prod()],
          torch.tensor([2.9, -3.9, 1e9]), n)
