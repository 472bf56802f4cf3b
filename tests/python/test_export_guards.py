"""Programs that branch on sizes, exported and called at other sizes: they do what the module does, or refuse, never the wrong branch.

In Python, after save and load, and through libtaper."""
import ctypes
import io
import json
import os
import pathlib
import subprocess

import pytest

import export_programs as sizes
import taper
from taper import nn
from taper._dynamo.exc import UserError
from taper.export import Dim, export, load, save
from taper.utils import _pytree as pytree

ORACLE = os.environ.get("TAPER_ORACLE")
CALLS = [(3, 5), (5, 3), (9, 9), (12, 8), (2, 2), (4, 16), (7, 20), (16, 4), (20, 31), (10, 14), (8, 12), (1, 3), (8, 1), (1, 1), (0, 5)]
SHAPES = {"auto": lambda: {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}, "named": lambda: {"x": {0: Dim("a")}, "y": {0: Dim("b")}}}


# ---- libtaper ----
def _library():
    extension = pathlib.Path(taper._C.__file__).resolve()
    path = next((p / "libtaper.so" for p in (extension.parent, extension.parents[2] / "src") if (p / "libtaper.so").exists()), None)
    if path is None:
        return None
    found = ctypes.CDLL(str(path))
    for name, result in (("tp_error_text", ctypes.c_char_p), ("tp_program_load", ctypes.c_void_p), ("tp_tensor_make", ctypes.c_void_p),
                         ("tp_program_call", ctypes.c_bool), ("tp_tensor_read", ctypes.c_bool), ("tp_tensor_length", ctypes.c_int64),
                         ("tp_program_tensor_outputs", ctypes.c_size_t), ("tp_tensor_type", ctypes.c_char_p)):
        getattr(found, name).restype = result
    return found


LIBRARY = _library()


class InC:
    """A saved program that libtaper runs."""

    def __init__(self, path):
        self.program = ctypes.c_void_p(LIBRARY.tp_program_load(str(path).encode()))
        if not self.program:
            raise RuntimeError(LIBRARY.tp_error_text().decode())

    def __call__(self, *tensors):
        made = []
        for t in tensors:
            shape = (ctypes.c_int64 * t.dim())(*t.shape)
            data = t.contiguous().numpy().tobytes()
            made.append(ctypes.c_void_p(LIBRARY.tp_tensor_make(b"float32", t.dim(), shape, data)))
        count = LIBRARY.tp_program_tensor_outputs(self.program)
        out = (ctypes.c_void_p * count)()
        if not LIBRARY.tp_program_call(self.program, (ctypes.c_void_p * len(made))(*made), ctypes.c_size_t(len(made)), out,
                                       ctypes.c_size_t(count)):
            raise RuntimeError(LIBRARY.tp_error_text().decode())
        return [self._read(ctypes.c_void_p(item)) for item in out]

    @staticmethod
    def _read(item):
        rank = LIBRARY.tp_tensor_rank(item)
        shape = [LIBRARY.tp_tensor_length(item, d) for d in range(rank)]
        dtype = getattr(taper, LIBRARY.tp_tensor_type(item).decode())
        filled = taper.empty(shape, dtype=dtype)
        room = ctypes.create_string_buffer(max(1, filled.nbytes))
        assert LIBRARY.tp_tensor_read(item, room, ctypes.c_size_t(filled.nbytes))
        return taper.frombuffer(bytearray(room.raw[:filled.nbytes]), dtype=dtype).reshape(shape) if filled.numel() else filled


# ---- where sizes come from ----
class Method(nn.Module):
    """A module whose forward is this function."""

    def __init__(self, forward):
        super().__init__()
        type(self).forward = forward


def _module(function):
    return type("Given", (Method,), {})(function)


def _held(program):
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return load(file)


def _nested(self, x, d, *rest, k=None, **more):
    a, b, c, e, h = x.shape[0], d["q"][0].shape[0], rest[0].shape[0], k.shape[0], more["Zed"].shape[0]
    return x.sum() + (1 if a + b < c * 2 else 2) + (10 if e % 3 != h % 3 else 20) + (100 if b > h else 200)


def test_guards_on_nested_inputs():
    def call(a, b, c, e, h):
        ones = taper.ones
        return (ones(a), {"q": [ones(b)]}, ones(c)), {"k": ones(e), "Zed": ones(h)}

    model, auto = _module(_nested), {0: Dim.AUTO}
    program = export(model, *call(4, 5, 6, 7, 3), dynamic_shapes={"x": auto, "d": {"q": [auto]}, "rest": (auto,), "k": auto, "Zed": auto})
    ran = 0
    for module in (program.module(), _held(program).module(), program.run_decompositions().module()):
        for sizes_ in [(4, 5, 6, 7, 3), (4, 9, 6, 7, 3), (4, 5, 6, 6, 3), (4, 2, 6, 7, 3), (3, 5, 9, 5, 4), (2, 4, 8, 4, 3), (5, 5, 5, 5, 5)]:
            args, kwargs = call(*sizes_)
            try:
                got = module(*args, **kwargs)
            except (AssertionError, RuntimeError):
                continue
            assert taper.equal(got, model(*args, **kwargs)), sizes_
            ran += 1
    assert ran >= 9


def test_guards_name_their_input():
    program = export(_module(lambda self, x, pair: x + 1 if x.shape[0] < pair[1].shape[0] else x), (taper.ones(3), (taper.ones(2), taper.ones(5))),
                     dynamic_shapes={"x": {0: Dim.AUTO}, "pair": (None, {0: Dim.AUTO})})
    assert program._guards_code == ["L['x'].size()[0] < L['pair'][1].size()[0]"]
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] < pair_1.size\(\)\[0\]"):
        program.module()(taper.ones(6), (taper.ones(2), taper.ones(5)))


def test_inputs_of_one_name_are_refused():
    model = _module(lambda self, x_0, x: x_0.sum() + x[0].sum() + (1 if x_0.shape[0] < x[0].shape[0] else 2))
    with pytest.raises(NotImplementedError, match="have one name"):
        export(model, (taper.ones(4), [taper.ones(6)]), dynamic_shapes=({0: Dim.AUTO}, [{0: Dim.AUTO}]))


@pytest.mark.parametrize("calls", [[(5, 11, 1), (6, 13, 2), (6, 12, 0)]])
def test_guards_on_derived_sizes(calls):
    n = Dim("n", min=3, max=40)
    both = export(_module(lambda self, x, y: x.sum() + y.sum() + (1 if y.shape[0] % 5 != 1 else 2)), (taper.ones(4), taper.ones(9)),
                  dynamic_shapes=({0: n}, {0: 2 * n + 1}))
    alone = export(_module(lambda self, y: y.sum() + (1 if y.shape[0] != 11 else 2)), (taper.ones(9),), dynamic_shapes=({0: 2 * n + 1},))
    for made in (both, _held(both)):
        assert made.module()(taper.ones(6), taper.ones(13)).item() == 20
        for a, b in ((5, 10), (5, 11), (6, 12)):
            with pytest.raises((AssertionError, RuntimeError)):
                made.module()(taper.ones(a), taper.ones(b))
    for made in (alone, _held(alone)):
        assert made.module()(taper.ones(13)).item() == 14
        for a in (11, 12):
            with pytest.raises((AssertionError, RuntimeError)):
                made.module()(taper.ones(a))


def test_guards_on_strides():
    large = taper.ones(20, 10)
    model = _module(lambda self, x: x.reshape(-1) + (1 if x.stride(0) > 8 else 2))
    program = export(model, (large[:8, :6],), dynamic_shapes=({0: Dim.AUTO},))
    for made in (program, _held(program)):
        assert taper.equal(made.module()(large[:5, :6]), model(large[:5, :6]))
        with pytest.raises(AssertionError, match="stride"):
            made.module()(taper.ones(5, 6))


def test_programs_on_fakes_are_asked():
    program = export(_module(lambda self, x: x + 1 if x.shape[0] % 2 == 0 else x), (taper.ones(8),), dynamic_shapes=({0: Dim.AUTO},))
    again = export(program.module(), (taper.ones(6),), dynamic_shapes=({0: Dim.AUTO},))
    assert "(L['x'].size()[0] % 2) == 0" in again._guards_code
    with pytest.raises((UserError, AssertionError, RuntimeError)):
        export(program.module(), (taper.ones(7),), dynamic_shapes=({0: Dim.AUTO},))
    with pytest.raises(UserError, match=r"_n|n = 2\*"):
        export(program.module(), (taper.ones(6),), dynamic_shapes=({0: Dim("n")},))


# ---- files ----
def test_guard_that_cannot_be_read_refuses_the_file():
    program = export(_module(lambda self, x: x + 1 if x.shape[0] % 2 == 0 else x), (taper.ones(8),), dynamic_shapes=({0: Dim.AUTO},))
    program._guards_code = ["__import__('os').getpid() > 0"]
    with pytest.raises(NotImplementedError, match="__import__"):
        _held(program)
    with pytest.raises(NotImplementedError, match="__import__"):
        program.module()


@pytest.mark.skipif(ORACLE is None, reason="TAPER_ORACLE names no Python with PyTorch")
def test_guards_of_files_of_pytorch(tmp_path):
    """PyTorch writes the programs: what it took for granted holds here."""
    texts = [text for text in sizes.NAMES if text not in sizes.FUNCTIONS and not text.startswith("->") and "is_same_size" not in text][::10]
    (tmp_path / "texts.json").write_text(json.dumps([text.replace("taper.", "torch.") for text in texts]))
    subprocess.run([ORACLE, "-c", WRITES, str(tmp_path)], check=True, capture_output=True)
    read = 0
    for i, text in enumerate(texts):
        if not (tmp_path / f"{i}.pt2").exists():
            continue
        model = sizes.model_of(text)
        module = load(tmp_path / f"{i}.pt2").module()
        read += 1
        for call in CALLS:
            if min(call) < 2:               # PyTorch takes sizes for 2 or more without asking
                continue
            want, got = _result(model, _inputs(*call)), _result(module, _inputs(*call))
            assert isinstance(want, Exception) or _alike(got, want), (text, call)
    assert read >= 15


@pytest.mark.skipif(ORACLE is None, reason="TAPER_ORACLE names no Python with PyTorch")
def test_guards_of_files_for_pytorch(tmp_path):
    """PyTorch reads the programs: what we took for granted holds there."""
    rows = []
    for i, name in enumerate(sizes.NAMES[::6]):
        model = sizes.model_of(name)
        try:
            save(export(model, _inputs(8, 12), dynamic_shapes=SHAPES["auto"]()), tmp_path / f"{i}.pt2")
        except Exception:
            continue
        wanted = [_result(model, _inputs(*call)) for call in CALLS]
        rows.append((i, name, [[x.tolist() for x in _inputs(*call)] for call in CALLS],
                     [None if isinstance(want, Exception) else [x.tolist() for x in want if isinstance(x, taper.Tensor)] for want in wanted]))
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    ran = subprocess.run([ORACLE, "-c", READS, str(tmp_path)], check=True, capture_output=True, text=True).stdout.split("\n")
    assert ran[0] == "wrong: []" and int(ran[1]) >= 5 * len(rows), ran


READS = """
import json, sys, torch
wrong, ran = [], 0
for i, name, inputs, wanted in json.load(open(sys.argv[1] + "/rows.json")):
    module = torch.export.load(f"{sys.argv[1]}/{i}.pt2").module()
    for (x, y), want in zip(inputs, wanted):
        try:
            got = [leaf for leaf in torch.utils._pytree.tree_leaves(module(torch.tensor(x).reshape(-1, 6), torch.tensor(y).reshape(-1, 6)))
                   if isinstance(leaf, torch.Tensor)]
        except Exception:
            continue
        if want is None:
            continue
        ran += 1
        pairs = list(zip(got, map(torch.tensor, want)))
        if len(got) != len(want) or not all(g.numel() == w.numel() and torch.allclose(g.double().flatten(), w.double().flatten(), atol=1e-4,
                                                                                     equal_nan=True) for g, w in pairs):
            wrong.append((name, len(x), len(y)))
print(f"wrong: {wrong}", ran, sep="\\n")
"""

WRITES = """
import json, math, operator, sys, torch
from torch.nn import functional as F
class Model(torch.nn.Module):
    def __init__(self, text):
        super().__init__()
        self.text = text
    def forward(self, x, y):
        return x + 1 if eval(self.text, globals(), {"x": x, "y": y, "a": x.shape[0], "b": y.shape[0]}) else x * 2 - 1
auto = {0: torch.export.Dim.AUTO}
for i, text in enumerate(json.load(open(sys.argv[1] + "/texts.json"))):
    try:
        program = torch.export.export(Model(text), (torch.ones(8, 6), torch.ones(12, 6)), dynamic_shapes={"x": auto, "y": auto})
    except Exception:
        continue
    torch.export.save(program, f"{sys.argv[1]}/{i}.pt2")
"""


# ---- comparing ----
def _inputs(a, b):
    taper.manual_seed(a * 100 + b)
    return taper.randn(a, 6), taper.randn(b, 6)


def _result(function, inputs):
    """The leaves, or the exception."""
    try:
        return pytree.tree_leaves(function(*inputs))
    except Exception as error:
        return error


def _alike(got, want):
    if isinstance(got, Exception) or isinstance(want, Exception):
        return isinstance(got, Exception)
    want = [leaf for leaf in want if isinstance(leaf, taper.Tensor)]
    got = [leaf for leaf in got if isinstance(leaf, taper.Tensor)]
    return len(got) == len(want) and all(g.shape == w.shape and taper.allclose(g.to(w.dtype), w, rtol=1e-5, atol=1e-5, equal_nan=True)
                                         for g, w in zip(got, want))


def _runners(program, path):
    yield "python", program.module()
    save(program, path)
    yield "loaded", load(path).module()
    if LIBRARY is not None:
        yield "libtaper", InC(path)


def _run(name, how, path):
    """(exported, calls that ran, [what is wrong])"""
    model, wrong, ran = sizes.model_of(name), [], 0
    try:
        program = export(model, _inputs(8, 12), dynamic_shapes=SHAPES[how]())
    except Exception as error:
        return False, 0, []
    for where, function in _runners(program, path):
        for call in CALLS:
            inputs = _inputs(*call)
            want, got = _result(model, inputs), _result(function, inputs)
            ran += not isinstance(got, Exception)
            if not _alike(got, want) and not (name in sizes.UNREAD and isinstance(want, Exception)):
                wrong.append(f"{name} ({how}, {where}) at {call}: {got} instead of {want}"[:400])
    return True, ran, wrong


@pytest.mark.parametrize("how", SHAPES)
def test_no_wrong_branch(how, tmp_path):
    assert len(sizes.NAMES) >= 120
    exported, ran, wrong = 0, 0, []
    for i, name in enumerate(sizes.NAMES):
        done, calls, found = _run(name, how, tmp_path / f"{i}.pt2")
        exported, ran, wrong = exported + done, ran + calls, wrong + found
    assert not wrong, f"{len(wrong)} of {ran} calls:\n" + "\n".join(wrong[:20])
    least = {"auto": (0.9, 0.4), "named": (0.25, 0.18)}[how]
    places = 3 if LIBRARY is not None else 2
    assert exported >= least[0] * len(sizes.NAMES) and ran >= least[1] * places * len(CALLS) * len(sizes.NAMES), (exported, ran)
