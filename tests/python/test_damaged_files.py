"""Files that are not what was written: flipped bytes, other versions, records that grow without end. Found, and said of which record."""
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib

import pytest

import taper
from taper import nn
from taper.export import export, load, save

FILES = pathlib.Path(__file__).resolve().parent
ORACLE = os.environ.get("TAPER_ORACLE")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(30, 20)
        self.register_buffer("calls", taper.zeros(3))
        self.offset = taper.arange(20.0)

    def forward(self, x):
        return self.l(x) + self.offset + self.calls.sum()


@pytest.fixture(scope="module")
def program():
    held = io.BytesIO()
    save(export(Model(), (taper.ones(2, 30),)), held)
    return held.getvalue()


def spans(data):
    """Where the data of each record stands."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        for info in z.infolist():
            at = info.header_offset
            begin = at + 30 + int.from_bytes(data[at + 26:at + 28], "little") + int.from_bytes(data[at + 28:at + 30], "little")
            found[info.filename.split("/", 1)[1]] = (begin, begin + info.file_size)
    return found


def flipped(data, at, bit=4):
    changed = bytearray(data)
    changed[at] ^= bit
    return bytes(changed)


def sources(data):
    """The ways into a loader: a file object, and a path, which is mapped."""
    yield io.BytesIO(data)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.pt2"
        path.write_bytes(data)
        yield path


# ---- sums ------------------------------------------------------------------------------------------------------
def test_every_record_of_a_program_is_checked(program):
    """One bit of each record that is read, at its begin, middle and end."""
    read = 0
    for name, (begin, end) in spans(program).items():
        if name in (".data/version", ".data/serialization_id"):
            continue
        for at in {begin, (begin + end) // 2, end - 1}:
            for source in sources(flipped(program, at)):
                with pytest.raises(RuntimeError, match=f"failed reading file .*/{name}: CRC-32 check failed"):
                    load(source)
                read += 1
    assert read > 40


def test_a_wrong_sum_is_found_as_a_wrong_byte_is(program):
    """The bytes are right, what the directory says of them is not; 0 is no way out."""
    with zipfile.ZipFile(io.BytesIO(program)) as z:
        crc = next(i.CRC for i in z.infolist() if i.filename.endswith("weight_0"))
    directory = program.rindex(b"PK\1\2")
    at = next(i for i in range(len(program)) if program[i:i + 4] == b"PK\1\2" and b"weight_0" in program[i:i + 90])
    assert at < directory and program[at + 16:at + 20] == crc.to_bytes(4, "little")
    for wrong in (0, 1, crc ^ 1, 0xffffffff):
        changed = program[:at + 16] + wrong.to_bytes(4, "little") + program[at + 20:]
        for source in sources(changed):
            with pytest.raises(RuntimeError, match="weight_0: CRC-32"):
                load(source)
    load(io.BytesIO(program))


def test_the_old_layout_is_checked_too():
    data = (FILES / "exported" / "mlp_2024.pt2").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        for info in z.infolist():
            if info.filename == "version":
                continue
            begin = info.header_offset + 30 + len(info.filename)
            with pytest.raises(RuntimeError, match=f"{info.filename}: CRC-32"):
                load(io.BytesIO(flipped(data, begin + info.file_size // 2)))
    load(io.BytesIO(data))


def checkpoint():
    held = io.BytesIO()
    taper.save({"a": taper.arange(50.0), "b": [taper.ones(3, dtype=taper.int64)], "big": taper.zeros(300_000)}, held)
    return held.getvalue()


def loud(source, **options):
    """What is loaded, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = taper.load(source, **options)
    return got, [str(w.message) for w in caught]


@pytest.mark.parametrize("options", [{}, {"weights_only": False}, {"map_location": "cpu"}])
def test_a_damaged_checkpoint_warns_of_its_record(options):
    data = checkpoint()
    where = spans(data)
    for name in ("data/0", "data/1", "data/2"):
        begin, end = where[name]
        for at in (begin, end - 1):
            for source in sources(flipped(data, at)):
                got, said = loud(source, **options)
                assert len(said) == 1 and f"/{name} is damaged" in said[0] and "CRC-32" in said[0]
                assert got["b"][0].shape == (3,)
    assert loud(io.BytesIO(data), **options)[1] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="is damaged"):
            taper.load(io.BytesIO(flipped(data, where["data/0"][0])))


def test_pickles_are_checked():
    data = checkpoint()
    begin, _ = spans(data)["data.pkl"]
    at = data.index(b"big", begin)
    got, said = loud(io.BytesIO(flipped(data, at, 1)))
    assert "cig" in got and "data.pkl is damaged" in said[0]


def test_mapped_storages_are_not_read_and_not_checked(tmp_path):
    data = checkpoint()
    path = tmp_path / "c.pt"
    path.write_bytes(flipped(data, spans(data)["data/0"][0]))
    got, said = loud(path, mmap=True)
    assert said == [] and got["a"].shape == (50,)


def without_sums(data):
    """As PyTorch writes after set_crc32_options(False): 0 for every sum, in descriptors and in the directory."""
    changed = bytearray(data)
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        for info in z.infolist():
            for at in range(len(data) - 4):
                if data[at:at + 4] == info.CRC.to_bytes(4, "little"):
                    changed[at:at + 4] = b"\0\0\0\0"
    return bytes(changed)


def test_files_without_sums_are_quiet(tmp_path):
    held = io.BytesIO()
    taper.save({"a": taper.arange(50.0)}, held)
    data = without_sums(held.getvalue())
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        assert {i.CRC for i in z.infolist()} == {0}
    got, said = loud(io.BytesIO(data))
    assert said == [] and got["a"].tolist() == list(range(50))
    got, said = loud(io.BytesIO(flipped(data, spans(data)["data/0"][0])))
    assert said == []


@pytest.mark.skipif(not ORACLE, reason="TAPER_ORACLE names no Python with PyTorch")
def test_what_pytorch_writes_is_quiet(tmp_path):
    script = ("import sys, torch\nx = {'a': torch.arange(5000.), 'b': torch.ones(3)}\n"
              "torch.save(x, sys.argv[1] + '/sums.pt')\ntorch.serialization.set_crc32_options(False)\ntorch.save(x, sys.argv[1] + '/none.pt')\n"
              "p = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))\ntorch.export.save(p, sys.argv[1] + '/none.pt2')\n"
              "torch.serialization.set_crc32_options(True)\ntorch.export.save(p, sys.argv[1] + '/sums.pt2')\n"
              "torch.jit.save(torch.jit.trace(torch.nn.Linear(3, 2), torch.ones(1, 3)), sys.argv[1] + '/m.jit')\n")
    subprocess.run([ORACLE, "-W", "ignore", "-c", script, str(tmp_path)], check=True)
    for name in ("sums.pt", "none.pt"):
        got, said = loud(tmp_path / name)
        assert said == [] and got["a"].sum().item() == sum(range(5000))
    for name in ("sums.pt2", "none.pt2"):
        assert load(tmp_path / name).module()(taper.ones(1, 3)).shape == (1, 2)
    assert taper.jit.load(tmp_path / "m.jit")(taper.ones(1, 3)).shape == (1, 2)


def test_a_damaged_torchscript_archive_is_refused():
    held = io.BytesIO()
    taper.jit.save(taper.jit.trace(nn.Linear(30, 20), taper.ones(1, 30)), held)
    data = held.getvalue()
    for name, (begin, end) in spans(data).items():
        if name.startswith(("data", "code")) and end > begin:
            with pytest.raises(RuntimeError, match=f"{name}: CRC-32"):
                taper.jit.load(io.BytesIO(flipped(data, end - 1)))


def test_a_program_does_not_write_to_its_file(tmp_path):
    """Neither to the bytes it was read from, which were the program's own weights, nor to the file that it maps."""
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", taper.zeros(16))

        def forward(self, x):
            self.calls.add_(1)
            return x + self.calls.sum()

    held = io.BytesIO()
    save(export(Counts(), (taper.ones(2),)), held)
    data = held.getvalue()
    before, path = bytes(bytearray(data)), tmp_path / "m.pt2"
    path.write_bytes(data)
    for source in (io.BytesIO(data), path):
        module = load(source).module()
        for _ in range(3):
            module(taper.ones(2))
        assert module.calls[0].item() == 3
    assert data == before and path.read_bytes() == before


# ---- versions --------------------------------------------------------------------------------------------------
def rewritten(data, change, method=zipfile.ZIP_STORED):
    """Every record through `change(name, bytes)`; None drops it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            new = change(name.split("/", 1)[1], before.read(name))
            if new is not None:
                after.writestr(name, new, method)
    return out.getvalue()


def with_schema(data, version, record="models/model.json"):
    def change(name, old):
        if name != record:
            return old
        model = json.loads(old)
        model["schema_version"] = version
        return json.dumps(model).encode()
    return rewritten(data, change)


@pytest.mark.parametrize("major, minor", [(9, 0), (7, 1), (5, 1), (0, 0), (-8, 0), (80, 20), (2**31, 0), (2**62, 1)])
def test_other_schemas_are_refused(program, major, minor):
    with pytest.raises(RuntimeError, match=rf"Serialized schema version SchemaVersion\(major={major}, minor={minor}\) does not match our current schema "
                                           r"version \(8, 20\)"):
        load(io.BytesIO(with_schema(program, {"major": major, "minor": minor})))


@pytest.mark.parametrize("version", [None, {}, [], "8.20", {"major": "8", "minor": "20"}, {"major": 8}, {"major": 8.0, "minor": 20}, {"major": True, "minor": 1}])
def test_a_schema_must_be_said(program, version):
    with pytest.raises(RuntimeError, match="which schema"):
        load(io.BytesIO(with_schema(program, version)))


@pytest.mark.parametrize("minor", [0, 20, 21, 99])
def test_minor_versions_load(program, minor):
    assert load(io.BytesIO(with_schema(program, {"major": 8, "minor": minor}))).module()(taper.ones(2, 30)).shape == (2, 20)


def test_the_layout_of_2024_has_older_schemas():
    data = (FILES / "exported" / "mlp_2024.pt2").read_bytes()

    def with_major(major):
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(out, "w") as after:
            for name in before.namelist():
                record = before.read(name)
                if name == "serialized_exported_program.json":
                    model = json.loads(record)
                    model["schema_version"] = {"major": major, "minor": 1}
                    record = json.dumps(model).encode()
                after.writestr(name, record)
        return out.getvalue()

    for major in (5, 6, 7, 8):
        load(io.BytesIO(with_major(major)))
    for major in (4, 9, 0, -1):
        with pytest.raises(RuntimeError, match="does not match our current schema"):
            load(io.BytesIO(with_major(major)))


@pytest.mark.parametrize("record, content, error, words", [
    ("archive_version", b"1", ValueError, "Saved archive version 1 does not match our current archive version 0"),
    ("archive_version", b"99", ValueError, "Saved archive version 99"), ("archive_version", b"", ValueError, "Saved archive version"),
    ("archive_version", None, RuntimeError, "locating file archive_version"), ("archive_format", b"pt3", AssertionError, "Invalid archive format"),
    ("archive_format", None, RuntimeError, "locating file archive_format"), ("byteorder", b"big", NotImplementedError, "byte order big"),
    ("models/model.json", None, RuntimeError, "locating file models/model.json"), ("data/weights/weight_0", None, RuntimeError, "weight_0")])
def test_what_an_archive_says_of_itself(program, record, content, error, words):
    """The first four as PyTorch has them."""
    with pytest.raises(error, match=words):
        load(io.BytesIO(rewritten(program, lambda name, old: content if name == record else old)))


# ---- growth ----------------------------------------------------------------------------------------------------
BOMB = 1 << 27


@pytest.fixture(scope="module")
def bomb():
    """A stream of 128 KB that is 128 MB of zeros."""
    maker = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(maker.compress(bytes(1 << 20)) for _ in range(BOMB >> 20)) + maker.flush()


def deflated(files, sizes=None):
    """An archive whose records named in `sizes` are streams that stand for so many zeros."""
    held, sizes = io.BytesIO(), sizes or {}
    with zipfile.ZipFile(held, "w") as z:
        for name, data in files.items():
            z.writestr("m/" + name, data)
    data = bytearray(held.getvalue())
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as z:
        infos = z.infolist()
        directory = z.start_dir
    for info in infos:
        short = info.filename[2:]
        entry, directory = directory, directory + 46 + len(info.filename)
        if short in sizes:
            size, crc = sizes[short]
            for at, method, sums in ((info.header_offset, 8, 14), (entry, 10, 16)):
                data[at + method:at + method + 2] = (8).to_bytes(2, "little")
                data[at + sums:at + sums + 4] = crc.to_bytes(4, "little")
                data[at + sums + 8:at + sums + 12] = size.to_bytes(4, "little")
    return bytes(data)


def zeros_crc(count):
    crc = 0
    for _ in range(count >> 20):
        crc = zlib.crc32(bytes(1 << 20), crc)
    return crc


PEAK = """
import io, resource, sys, taper
data = open(sys.argv[1], "rb").read()
taper.ones(3).sum()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    (taper.export.load if sys.argv[2] == "pt2" else taper.jit.load if sys.argv[2] == "jit" else taper.load)(io.BytesIO(data))
    print("loaded")
except (RuntimeError, ValueError) as error:
    print(str(error)[:300])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def read_in_child(tmp_path, data, kind):
    """What a loader says, and how many KB it took."""
    (tmp_path / "bomb").write_bytes(data)
    done = subprocess.run([sys.executable, "-c", PEAK, str(tmp_path / "bomb"), kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    *said, peak = done.stdout.strip().split("\n")
    return "\n".join(said), int(peak)


@pytest.mark.parametrize("record", ["data/weights/weight_0", "models/model.json", "data/weights/model_weights_config.json", "data/sample_inputs/model.pt",
                                    "unused", "archive_format"])
def test_programs_do_not_inflate_without_end(program, bomb, tmp_path, record):
    files = {}
    with zipfile.ZipFile(io.BytesIO(program)) as z:
        for name in z.namelist():
            files[name.split("/", 1)[1]] = z.read(name)
    files[record] = bomb
    said, peak = read_in_child(tmp_path, deflated(files, {record: (BOMB, zeros_crc(BOMB))}), "pt2")
    assert "unpack to" in said and peak < 60_000, (said, peak)


@pytest.mark.parametrize("kind, record", [("pt", "data.pkl"), ("pt", "data/0"), ("jit", "data.pkl"), ("jit", "code/__torch__.py")])
def test_other_archives_do_not_inflate_without_end(bomb, tmp_path, kind, record):
    files = {"data.pkl": b"\x80\x02N.", "byteorder": b"little", "data/0": b"", "version": b"3\n", "code/__torch__.py": b"", record: bomb}
    said, peak = read_in_child(tmp_path, deflated(files, {record: (BOMB, zeros_crc(BOMB))}), kind)
    assert "unpack to" in said and peak < 60_000, (said, peak)


def test_many_small_ones_are_as_large(tmp_path):
    maker = zlib.compressobj(9, zlib.DEFLATED, -15)
    one, size = maker.compress(bytes(8 << 20)) + maker.flush(), 8 << 20
    files = {"data.pkl": b"\x80\x02N.", "version": b"3\n", **{f"data/{i}": one for i in range(40)}}
    said, peak = read_in_child(tmp_path, deflated(files, {f"data/{i}": (size, zeros_crc(size)) for i in range(40)}), "pt")
    assert "unpack to" in said and peak < 60_000


def test_a_stream_gives_what_its_entry_says(program, bomb, tmp_path):
    """The directory says less than the stream holds, or more: neither is believed beyond what it says."""
    for size in (1000, 4 * 600, 10 << 20):
        files = {"data.pkl": b"\x80\x02N.", "version": bomb}
        said, peak = read_in_child(tmp_path, deflated(files, {"version": (size, 0)}), "pt")
        assert "decompression failed" in said and peak < 60_000


def test_archives_that_were_packed_again_load(program, tmp_path):
    """Deflated as a user's tools do: texts shrink, weights hardly."""
    packed = rewritten(program, lambda name, old: old, zipfile.ZIP_DEFLATED)
    assert len(packed) < len(program)
    assert load(io.BytesIO(packed)).module()(taper.ones(2, 30)).shape == (2, 20)
    held = io.BytesIO()
    taper.save({"a": taper.zeros(3_000_000), "b": taper.rand(1000)}, held)
    packed = rewritten(held.getvalue(), lambda name, old: old, zipfile.ZIP_DEFLATED)
    assert len(packed) < 30_000
    assert taper.load(io.BytesIO(packed))["a"].shape == (3_000_000,)
