"""Saving over a good file: whatever happens, the path holds the old file or the new one, whole, and nothing else is left beside it."""
import io
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import taper
from taper import nn

COMMON = """
import io, os, resource, signal, sys, time
import taper
from taper import nn
path = sys.argv[1]
model = nn.Sequential(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 3))
x = taper.ones(2, 200)
"""
# How each writer is called, and how its file is seen to be whole.
WRITERS = {
    "save": ("made = {'w': taper.full((100_000,), 1.0)}", "taper.save(made, path)",
             lambda p: taper.load(p)["w"].sum().item() == 100_000),
    "save-legacy": ("made = {'w': taper.full((100_000,), 1.0)}", "taper.save(made, path, _use_new_zipfile_serialization=False)",
                    lambda p: taper.load(p)["w"].sum().item() == 100_000),
    "save-unicode": ("made = {'w': taper.full((100_000,), 1.0)}; path += '\\u00fc'", "taper.save(made, path)",
                     lambda p: taper.load(p + "\u00fc")["w"].sum().item() == 100_000),
    "export": ("made = taper.export.export(model, (x,))", "taper.export.save(made, path)",
               lambda p: taper.export.load(p).module()(taper.ones(2, 200)).shape == (2, 3)),
    "jit": ("made = taper.jit.trace(model, x)", "taper.jit.save(made, path)",
            lambda p: taper.jit.load(p)(taper.ones(2, 200)).shape == (2, 3)),
    "onnx": ("", "taper.onnx.export(model, (x,), path)", lambda p: pathlib.Path(p).stat().st_size > 100_000),
    "onnx-save": ("made = taper.onnx.export(model, (x,))", "made.save(path)", lambda p: pathlib.Path(p).stat().st_size > 100_000),
    "cc": ("", "taper.cc(model, path, (x,))", lambda p: pathlib.Path(p).read_text().rstrip().endswith("}")),
}
each_writer = pytest.mark.parametrize("writer", WRITERS)


def run(code, *arguments, **options):
    return subprocess.run([sys.executable, "-W", "ignore", "-c", COMMON + code, *map(str, arguments)], capture_output=True, text=True, **options)


def target_of(tmp_path, writer):
    return tmp_path / "out.bin", (tmp_path / "out.bin\u00fc" if writer == "save-unicode" else tmp_path / "out.bin")


@each_writer
def test_a_kill_while_saving_loses_nothing(tmp_path, writer):
    """A child saves over and over; it is killed at any moment, twenty times."""
    before, act, whole = WRITERS[writer]
    path, real = target_of(tmp_path, writer)
    code = f"{before}\n{act}\nprint('saved', flush=True)\nwhile True:\n    {act}\n"
    rounds = 20 if writer == "save" else 3
    for turn in range(rounds):
        child = subprocess.Popen([sys.executable, "-W", "ignore", "-c", COMMON + code, str(path)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"saved\n"
        time.sleep(0.003 * (turn % 7))
        child.kill()
        child.wait()
        assert whole(str(path)), turn
    left = [p.name for p in tmp_path.iterdir() if p != real]
    assert len(left) <= 1, left           # a kill may fall between the file's getting a name and its taking the place


@each_writer
def test_a_full_disk_loses_nothing(tmp_path, writer):
    """No file may grow beyond 32 KB: the save fails, says which file, and the old one is there."""
    before, act, whole = WRITERS[writer]
    path, real = target_of(tmp_path, writer)
    code = f"""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
{before}
{act}
resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))
try:
    {act}
except (OSError, RuntimeError) as error:
    print(error)
else:
    raise SystemExit('it was saved')
"""
    done = run(code, path)
    assert done.returncode == 0, done.stderr[-800:]
    assert os.fsdecode(real) in done.stdout and "File too large" in done.stdout
    assert whole(str(path)) and [p.name for p in tmp_path.iterdir()] == [real.name]


def test_the_first_save_on_a_full_disk_leaves_nothing(tmp_path):
    for writer, (before, act, _) in WRITERS.items():
        code = f"""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
{before}
resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))
try:
    {act}
except (OSError, RuntimeError):
    print('refused')
"""
        assert run(code, tmp_path / "new").stdout == "refused\n", writer
        assert list(tmp_path.iterdir()) == [], writer


def test_the_command_replaces_whole(tmp_path):
    program, made = tmp_path / "m.pt2", tmp_path / "m.c"
    taper.export.save(taper.export.export(nn.Linear(100, 100), (taper.ones(1, 100),)), program)
    binary = pathlib.Path(taper._C.__file__).resolve().parents[2] / "src" / "cli" / "taper"
    commands = [[sys.executable, "-m", "taper"]] + ([[str(binary)]] if binary.exists() else [])
    for command in commands:
        for ending, what in ((".c", "cc"), (".onnx", "onnx")):
            if what == "onnx" and command[0] == sys.executable:
                continue
            made = tmp_path / ("m" + ending)
            made.write_text("old")
            limit = "ulimit -f 2; trap '' XFSZ; exec \"$@\""
            done = subprocess.run(["bash", "-c", limit, "-", *command, what, str(program), "-o", str(made)], capture_output=True, text=True)
            assert done.returncode and made.read_text() == "old" and len(list(tmp_path.iterdir())) <= 3, (what, done)
            done = subprocess.run([*command, what, str(program), "-o", str(made)], capture_output=True, text=True)
            assert done.returncode == 0 and made.stat().st_size > 10_000
    assert sorted(p.name for p in tmp_path.iterdir()) in (["m.c", "m.pt2"], ["m.c", "m.onnx", "m.pt2"])


def test_a_reader_sees_the_old_or_the_new(tmp_path):
    """A writer goes back and forth between two states while others read."""
    path, seen, stop = tmp_path / "c.pt", set(), threading.Event()
    states = [{"a": taper.full((50_000,), float(i)), "b": taper.full((50_000,), float(i))} for i in (1, 2)]
    taper.save(states[0], path)

    def write():
        for turn in range(60):
            taper.save(states[turn % 2], path)
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        got = taper.load(path)
        values = {got[k][i].item() for k in "ab" for i in (0, 25_000, 49_999)}
        assert len(values) == 1
        seen |= values
    writer.join()
    assert seen <= {1.0, 2.0}


def test_a_mapped_checkpoint_may_be_saved_over(tmp_path):
    """The mapping is of the old file, which lives as long as it is needed."""
    path = tmp_path / "c.pt"
    taper.save({"a": taper.arange(100_000.0)}, path)
    mapped = taper.load(path, mmap=True)
    taper.save({"a": mapped["a"] + 1}, path)
    assert mapped["a"].sum().item() == taper.arange(100_000.0).sum().item()
    taper.save(mapped, path)
    assert taper.load(path)["a"][-1].item() == 99_999


def test_permissions_and_links_stay(tmp_path):
    path, link, dangling, far = tmp_path / "c.pt", tmp_path / "link", tmp_path / "dangling", tmp_path / "folder"
    far.mkdir()
    old = os.umask(0o027)
    try:
        taper.save(taper.ones(1), path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for mode in (0o600, 0o664, 0o755):
        path.chmod(mode)
        taper.save(taper.ones(2), path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    link.symlink_to("c.pt")
    (far / "again").symlink_to("../link")
    taper.save(taper.ones(3), far / "again")
    assert link.is_symlink() and (far / "again").is_symlink() and taper.load(path).shape == (3,) and stat.S_IMODE(path.stat().st_mode) == 0o755
    dangling.symlink_to(far / "made.pt")
    taper.save(taper.ones(4), dangling)
    assert dangling.is_symlink() and taper.load(far / "made.pt").shape == (4,)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(RuntimeError, match="loop"):
        taper.save(taper.ones(1), loop)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.pt", "dangling", "folder", "link", "loop"]


def test_what_is_no_file_is_written_directly(tmp_path):
    fifo, got = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    taper.save(taper.ones(3), fifo)
    reader.join()
    assert taper.load(io.BytesIO(got[0])).tolist() == [1, 1, 1] and stat.S_ISFIFO(fifo.stat().st_mode)
    done = subprocess.run([sys.executable, "-c", "import taper; taper.save(taper.ones(3), '/dev/stdout')"], capture_output=True)
    assert taper.load(io.BytesIO(done.stdout)).tolist() == [1, 1, 1]
    with open(tmp_path / "redirected", "wb") as out:
        subprocess.run([sys.executable, "-c", "import taper; taper.save(taper.ones(3), '/dev/stdout')"], stdout=out, check=True)
        assert os.fstat(out.fileno()).st_ino == (tmp_path / "redirected").stat().st_ino
    assert taper.load(tmp_path / "redirected").tolist() == [1, 1, 1]
    taper.save(taper.ones(3), "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_where_nothing_can_be_written(tmp_path):
    """PyTorch's classes: RuntimeError for archives, OSError for what Python writes."""
    with pytest.raises(RuntimeError, match="Parent directory .*/nowhere does not exist"):
        taper.save(taper.ones(1), tmp_path / "nowhere" / "c.pt")
    with pytest.raises(FileNotFoundError, match="nowhere/c.pt"):
        taper.save(taper.ones(1), tmp_path / "nowhere" / "c.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(IsADirectoryError):
        taper.save(taper.ones(1), tmp_path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="/dev/full: cannot be written: No space left on device"):
        taper.save(taper.ones(1), "/dev/full")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        taper.save(taper.ones(1), "/dev/full", _use_new_zipfile_serialization=False)
    with pytest.raises(FileNotFoundError):
        taper.cc(lambda x: x + 1, tmp_path / "nowhere" / "m.c", (taper.ones(1),))


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can be had by root alone")
def test_another_user_meets_permissions():
    """Where no file can be made beside it, a file that may be written is written in place, as it was before."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:          # pytest's own folders are closed to others
        check_permissions(pathlib.Path(place))


def check_permissions(tmp_path):
    folder, closed = tmp_path / "folder", tmp_path / "closed"
    tmp_path.chmod(0o755)
    folder.mkdir()
    closed.mkdir()
    (folder / "c.pt").write_bytes(b"old")
    (folder / "mine.pt").write_bytes(b"old")
    (closed / "c.pt").write_bytes(b"old")
    (folder / "c.pt").chmod(0o444)
    (folder / "mine.pt").chmod(0o666)
    folder.chmod(0o777)
    (closed / "c.pt").chmod(0o666)
    closed.chmod(0o755)
    code = """
taper.save(x, io.BytesIO())     # what is imported later, that user may not read
def user(act):
    pid = os.fork()
    if not pid:
        os.setgid(65534); os.setuid(65534)
        try:
            act(); os._exit(0)
        except (RuntimeError, OSError) as error:
            print(error, flush=True); os._exit(1)
    return os.waitpid(pid, 0)[1]
assert user(lambda: taper.save(taper.ones(3), path + '/folder/new.pt')) == 0
assert user(lambda: taper.save(taper.ones(3), path + '/folder/mine.pt')) == 0       # root's: its owner stays
assert user(lambda: taper.save(taper.ones(3), path + '/closed/c.pt')) == 0
assert user(lambda: taper.save(taper.ones(3), path + '/folder/c.pt')) != 0
assert user(lambda: taper.save(taper.ones(3), path + '/closed/new.pt')) != 0
"""
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr[-800:]
    assert done.stdout.count("Permission denied") == 2 and (folder / "c.pt").read_bytes() == b"old"
    for path, owner in ((folder / "new.pt", 65534), (folder / "mine.pt", 0), (closed / "c.pt", 0)):
        assert taper.load(path).tolist() == [1, 1, 1] and path.stat().st_uid == owner
    assert sorted(p.name for p in closed.iterdir()) == ["c.pt"] and len(list(folder.iterdir())) == 3


def test_what_fails_inside_leaves_the_old_file(tmp_path):
    class Bad:
        def __reduce__(self):
            raise ValueError("not to be pickled")

    path = tmp_path / "c.pt"
    taper.save(taper.ones(1), path)
    for legacy in (True, False):
        with pytest.raises(ValueError):
            taper.save([taper.ones(2), Bad()], path, _use_new_zipfile_serialization=legacy)
    writer = taper._C.PyTorchFileWriter(str(path))
    writer.write_record("data.pkl", b"x" * 100, 100)
    del writer
    with pytest.raises(KeyError), taper._C._OutputFile(path) as file:
        file.write(b"half")
        raise KeyError
    assert taper.load(path).shape == (1,) and [p.name for p in tmp_path.iterdir()] == ["c.pt"]
    with taper._C._OutputFile(path) as file:
        assert file.write(b"ab") == 2 and file.write("ü") == 2 and file.write(memoryview(b"c")) == 1
    assert path.read_bytes() == "abüc".encode()
    with pytest.raises(ValueError, match="closed file"):
        file.write(b"more")


def test_other_writers_replace_whole(tmp_path):
    for act in ("taper.fx.symbolic_trace(model).to_folder(path)",
                "p = taper.profiler.profile(); p.__enter__(); model(x); p.__exit__(None, None, None); p.export_chrome_trace(path + '/t.json')"):
        code = f"""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
os.makedirs(path, exist_ok=True)
{act}
before = {{p: os.stat(os.path.join(path, p)).st_size for p in os.listdir(path)}}
resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
try:
    {act}
    print('saved')
except (OSError, RuntimeError) as error:
    pass
assert before == {{p: os.stat(os.path.join(path, p)).st_size for p in os.listdir(path)}}
"""
        done = run(code, tmp_path / "folder")
        assert (done.returncode, done.stdout) == (0, ""), (act, done.stdout, done.stderr[-500:])


def test_a_signal_is_no_error(tmp_path):
    """Timers that interrupt system calls do not spoil what is written."""
    ticks = []
    before = signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for _ in range(10):
            taper.save({"w": taper.ones(300_000)}, tmp_path / "c.pt")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ticks and taper.load(tmp_path / "c.pt")["w"].sum().item() == 300_000
