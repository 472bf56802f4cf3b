"""Checkpoints: PyTorch's files load here, ours are PyTorch's to the byte, and broken ones raise.

tests/python/checkpoints has files that PyTorch 2.13 wrote (samples.py is the program). With TAPER_ORACLE, PyTorch reads ours.
"""
import collections
import importlib.util
import io
import json
import os
import pathlib
import pickle
import subprocess
import warnings
import zipfile

import pytest
import taper as torch

RECORDED = pathlib.Path(__file__).parent / "checkpoints"
_spec = importlib.util.spec_from_file_location("checkpoint_samples", RECORDED / "samples.py")
checkpoints = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(checkpoints)
NAMES = sorted(checkpoints.samples(torch))


def saved(o, **options):
    buffer = io.BytesIO()
    torch.save(o, buffer, **options)
    buffer.seek(0)
    return buffer


def edited(change, source=None):
    """A checkpoint with records changed: change(name, bytes) gives the new bytes, or None to drop it."""
    out = io.BytesIO()
    with zipfile.ZipFile(source or saved({"a": torch.ones(2)})) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            data = change(name.split("/", 1)[1], before.read(name))
            if data is not None:
                after.writestr(name, data)
    out.seek(0)
    return out


def with_pickle(data):
    return edited(lambda name, old: data if name == "data.pkl" else old)


@pytest.mark.parametrize("name", NAMES)
def test_files_of_pytorch_load(name):
    want = checkpoints.show(checkpoints.samples(torch)[name])
    for options in ({}, {"weights_only": False}, {"mmap": True}):
        got = torch.load(RECORDED / f"{name}.pt", **options)
        if name == "storage":
            assert [list(s.untyped()) for s in got] == [list(s) for s in checkpoints.samples(torch)[name]]
        else:
            assert checkpoints.show(got) == want


@pytest.mark.parametrize("name", NAMES)
def test_files_are_those_of_pytorch(name, tmp_path):
    torch.save(checkpoints.samples(torch)[name], tmp_path / f"{name}.pt")
    ours, theirs = (tmp_path / f"{name}.pt").read_bytes(), (RECORDED / f"{name}.pt").read_bytes()
    with zipfile.ZipFile(RECORDED / f"{name}.pt") as a, zipfile.ZipFile(tmp_path / f"{name}.pt") as b:
        assert a.namelist() == b.namelist() and b.testzip() is None
        for record in a.namelist()[:-1]:
            assert a.read(record) == b.read(record), record
        end = a.infolist()[-1].header_offset        # of the serialization id, which is a hash of our own
    assert len(ours) == len(theirs) and ours[:end] == theirs[:end]


def test_old_files_load():
    want = checkpoints.show(checkpoints.samples(torch)["views"])
    assert checkpoints.show(torch.load(RECORDED / "old.pt")) == want
    assert checkpoints.show(torch.load(RECORDED / "old.pt", weights_only=False)) == want
    again = saved(checkpoints.samples(torch)["views"], _use_new_zipfile_serialization=False)
    assert checkpoints.show(torch.load(again)) == want
    assert torch.load(RECORDED / "old.pt", map_location="meta")["a"].is_meta


def test_modules():
    model = torch.load(RECORDED / "module.pt", weights_only=False)
    assert type(model) is torch.nn.Sequential and model(torch.ones(2, 1)).shape == (2, 1)
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL torch.nn.modules.container.Sequential was not an allowed global"):
        torch.load(RECORDED / "module.pt")
    with torch.serialization.safe_globals([torch.nn.Sequential, torch.nn.Linear, torch.nn.ReLU]):
        assert type(torch.load(RECORDED / "module.pt")[1]) is torch.nn.ReLU
    again = torch.load(saved(model), weights_only=False)
    assert [p.tolist() for p in again.parameters()] == [p.tolist() for p in model.parameters()]


@pytest.mark.skipif(not os.environ.get("TAPER_ORACLE"), reason="needs PyTorch")
def test_pytorch_reads_ours(tmp_path):
    program = [os.environ["TAPER_ORACLE"], "-W", "ignore", str(RECORDED / "samples.py"), "torch", "--read"]
    for name, o in checkpoints.samples(torch).items():
        torch.save(o, tmp_path / f"{name}.pt")
    torch.save(checkpoints.samples(torch)["views"], tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU()), tmp_path / "module.pt")
    ours, theirs = (json.loads(subprocess.run([*program, str(folder)], text=True, capture_output=True, check=True).stdout)
                    for folder in (tmp_path, RECORDED))
    assert ours == theirs


# ---- options -------------------------------------------------------------------------------------------------

def test_sharing_survives():
    x = torch.zeros(4)
    a, b, c = torch.load(saved([x, x[2:], x]))
    assert a is c and a.untyped_storage() is b.untyped_storage() and b.storage_offset() == 2
    b[0] = 5
    assert a.tolist() == [0, 0, 5, 0]


def test_mmap(tmp_path):
    torch.save({"a": torch.ones(1000)}, tmp_path / "m.pt")
    x = torch.load(tmp_path / "m.pt", mmap=True)["a"]
    x.add_(1)
    assert x[0].item() == 2 and torch.load(tmp_path / "m.pt")["a"][0].item() == 1
    (tmp_path / "m.pt").unlink()
    assert x.sum().item() == 2000
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        torch.load(saved(1), mmap=True)


def test_map_location():
    file = saved(torch.ones(2))

    def load(where):
        file.seek(0)
        return torch.load(file, map_location=where)

    seen = []
    for where in ("cpu", torch.device("cpu"), {"cpu": "cpu"}, lambda storage, location: None,
                  lambda storage, location: (seen.append((type(storage), location, len(storage))), storage)[1]):
        assert load(where).tolist() == [1, 1]
    assert seen == [(torch.UntypedStorage, "cpu", 8)]
    assert load("meta").is_meta and load({"cpu": "meta"}).is_meta and load("meta").shape == (2,)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device but torch.cuda.is_available"):
        load("cuda")
    with pytest.raises(RuntimeError, match=r"don't know how to restore data location of taper.storage.UntypedStorage \(tagged with foo\)"):
        load("foo")


def test_files_and_positions(tmp_path):
    with open(tmp_path / "f.bin", "wb") as f:
        f.write(b"x" * 64)
        torch.save(torch.ones(1), f)
    with open(tmp_path / "f.bin", "rb") as f:
        f.seek(64)
        assert torch.load(f).item() == 1
    for name, root in (("a.b.pt", "a.b"), ("noext", "noext"), ("\u00e9.pt", "archive")):
        torch.save(1, str(tmp_path / name))
        assert zipfile.ZipFile(tmp_path / name).namelist()[0] == root + "/data.pkl" and torch.load(tmp_path / name) == 1


def test_bytes_turned_round():
    def turn(name, data):
        if name == "byteorder":
            return b"big"
        return {"data/0": data[::-1], "data/1": data[3::-1] + data[:3:-1]}.get(name, data)

    values = [torch.tensor(2.5, dtype=torch.float64), torch.tensor(1 + 2j, dtype=torch.complex64)]
    assert [x.item() for x in torch.load(edited(turn, saved(values)))] == [2.5, 1 + 2j]


def test_what_is_trusted():
    counted = collections.Counter("aab")
    assert torch.load(saved([counted, {1}, collections.OrderedDict(a=1)])) == [counted, {1}, collections.OrderedDict(a=1)]
    thing = Thing()
    thing.x = torch.ones(1)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(saved(thing))
    torch.serialization.add_safe_globals([Thing])
    try:
        assert torch.serialization.get_safe_globals() == [Thing] and torch.load(saved(thing)).x.item() == 1
    finally:
        torch.serialization.clear_safe_globals()
    assert torch.load(saved(thing), weights_only=False).x.item() == 1
    assert torch.serialization.get_unsafe_globals_in_checkpoint(saved([thing, os.system])) == ["posix.system", f"{__name__}.Thing"]


class Thing:
    pass


def test_hooks_are_not_saved():
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.load(saved(x)).requires_grad


def test_skipped_data():
    with torch.serialization.skip_data():
        file = saved(torch.ones(3))
    assert torch.load(file).tolist() == [0, 0, 0]


# ---- errors --------------------------------------------------------------------------------------------------

ADVICE = "https://pytorch.org/docs/stable/generated/torch.load.html."
CORRUPT = "there is a high likelihood that your checkpoint file is corrupted"


def rows():
    """What is done, the exception's class, a part of its text: as PyTorch has them."""
    def keep(name, data):
        return data

    yield lambda: torch.load(saved(Thing())), pickle.UnpicklingError, f"add_safe_globals([{__name__}.Thing])` or the"
    yield lambda: torch.load(saved(frozenset([1]))), pickle.UnpicklingError, "Unsupported global: GLOBAL frozenset was not an allowed global by default."
    yield lambda: torch.load(saved(os.system)), pickle.UnpicklingError, "\n\n\nTrying to load unsupported GLOBAL posix.system whose module posix is blocked.\n\nCheck"
    yield lambda: torch.load(with_pickle(b"\x80\x02K\x01K\x02R.")), pickle.UnpicklingError, ADVICE
    yield lambda: torch.load(with_pickle(b"\x80\x02]]\x85R.")), pickle.UnpicklingError, "Trying to call reduce for unrecognized function []"
    yield lambda: torch.load(with_pickle(b"\x80\x02(X\x03\x00\x00\x00abcK\x01tQ.")), pickle.UnpicklingError, "Only persistent_load of storage is allowed, but got <class 'str'>"
    yield lambda: torch.load(with_pickle(b"\x80\x02]}b.")), pickle.UnpicklingError, "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got <class 'list'>"
    yield lambda: torch.load(with_pickle(b"\x80\x02c__builtin__\nset\n)R}b.")), pickle.UnpicklingError, "Can only build Tensor, Parameter"
    yield lambda: torch.load(with_pickle(b"\x80\x02\x82\x01.")), pickle.UnpicklingError, "WeightsUnpickler error: \n\nUnsupported operand 130\n\nCheck"
    yield lambda: torch.load(with_pickle(b"")), pickle.UnpicklingError, "truncated"
    yield lambda: torch.load(with_pickle(b"\x80\x02c__builtin__\ncomplex\nX\x01\x00\x00\x00a\x85R.")), ValueError, "complex() arg is a malformed string"
    yield lambda: torch.load(with_pickle(b"\x80\x02ctorch\nFloatStorage\n)R.")), TypeError, "'StorageType' object is not callable"
    yield lambda: torch.load(with_pickle(b"\x80\x02" + b"]" * 100000 + b"a" * 99999 + b".")), RecursionError, "recursion"
    yield lambda: torch.load(with_pickle(b"\x80\x02}q\x00c__builtin__\nset\nh\x00\x85Rh\x00ss.")), pickle.UnpicklingError, ""
    yield lambda: torch.load(io.BytesIO(b"")), EOFError, ""
    yield lambda: torch.load(io.BytesIO(b"hello world")), pickle.UnpicklingError, ""
    yield lambda: torch.load(io.BytesIO(pickle.dumps(5, 2) * 4)), RuntimeError, "Invalid magic number; corrupt file?"
    yield lambda: torch.load("/nowhere/x.pt"), FileNotFoundError, "No such file or directory: '/nowhere/x.pt'"
    yield lambda: torch.load(3), AttributeError, "'int' object has no attribute 'seek'. You can only torch.load from a file that is seekable."
    yield lambda: torch.save(1, 3), AttributeError, "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
    yield lambda: torch.save(1, "/nowhere/x.pt"), RuntimeError, "Parent directory /nowhere does not exist."
    yield lambda: torch.load(io.BytesIO(saved(1).getvalue()[:-10])), RuntimeError, "PytorchStreamReader failed reading zip archive: failed finding central directory."
    yield lambda: torch.load(edited(lambda n, d: None if n == "data.pkl" else d)), RuntimeError, "PytorchStreamReader failed locating file data.pkl: file not found."
    yield lambda: torch.load(edited(lambda n, d: None if n == "data/0" else d)), RuntimeError, CORRUPT
    yield lambda: torch.load(edited(lambda n, d: None if n == "version" else d)), RuntimeError, 'Expected hasRecord("version") to be true, but got false.'
    yield lambda: torch.load(edited(lambda n, d: b"99" if n == "version" else d)), RuntimeError, "with version 99, but the maximum supported version for reading is 10."
    yield lambda: torch.load(edited(lambda n, d: d[:4] if n == "data/0" else d)), RuntimeError, "record size (4 bytes) does not match expected size (8 bytes"
    yield lambda: torch.load(edited(lambda n, d: d.replace(b"K\x02\x85", b"K\x7f\x85") if n == "data.pkl" else d)), RuntimeError, ""
    yield lambda: torch.load(edited(lambda n, d: b"middle" if n == "byteorder" else d)), ValueError, "Unknown endianness type: middle"
    yield lambda: torch.load(saved(1), pickle_module=pickle, weights_only=True), RuntimeError, "Can not safely load weights when explicit pickle_module is specified"
    yield lambda: torch.save([(x := torch.zeros(4)), torch._C._tensor_of_storage(x.untyped_storage(), torch.int32)], io.BytesIO()), RuntimeError, "Cannot save multiple tensors or storages that view the same data as different types"
    yield lambda: torch.load(RECORDED / "old.pt", mmap=True), RuntimeError, "mmap can only be used with files saved with `torch.save("
    yield lambda: torch.save({"a": lambda: 1}, io.BytesIO()), AttributeError, "Can't pickle local object"


@pytest.mark.parametrize("row", range(len(list(rows()))))
def test_errors(row):
    action, kind, text = list(rows())[row]
    with pytest.raises(kind) as caught:
        action()
    assert text in str(caught.value)


def test_a_file_that_fails():
    class Full:
        def write(self, data):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        torch.save(torch.ones(3), Full())

    class Short(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data)[:7])

    slow = Short()
    torch.save(torch.ones(3), slow)
    assert torch.load(io.BytesIO(slow.getvalue())).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["leaves", "loop", "old"])
def test_no_broken_byte_does_harm(name):
    """Bytes changed in turn: a load gives something, or an exception of Python."""
    data = bytearray((RECORDED / f"{name}.pt").read_bytes())
    failures = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(len(data)):
            if data[i:i + 2] == b"ZZ" and data[i - 1:i] == b"Z":
                continue                # padding
            before = data[i]
            for value in (255, before ^ 1):
                data[i] = value
                try:
                    torch.load(io.BytesIO(bytes(data)))
                except Exception:
                    failures += 1
            data[i] = before
    assert failures > len(data) // 8


def test_names_under_torch():
    """Saved under either name, a file is the same."""
    program = "import torch, sys; torch.save({'w': torch.nn.Parameter(torch.ones(2))}, sys.argv[1])"
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "archive.pt"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        subprocess.run([sys.executable, "-m", "taper", "-c", program, str(path)], check=True, env=environment)
        assert path.read_bytes() == saved({"w": torch.nn.Parameter(torch.ones(2))}).getvalue()
