"""Programs that branch on sizes, exported and called at other sizes: they do what the module does, or refuse, never the wrong branch.

In Python, after save and load, and through libtaper."""
import ctypes
import pathlib

import pytest

import export_programs as sizes
import taper
from taper import nn
from taper.export import Dim, export, load, save
from taper.utils import _pytree as pytree

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
