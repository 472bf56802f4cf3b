"""python -m taper: the package under the name of torch."""
import subprocess
import sys

PROGRAM = """
import sys, pickle, importlib.metadata
import torch, taper
import torch.nn as nn, taper.nn as other
assert taper is torch and other is nn and torch.nn.Linear is taper.nn.Linear
assert torch.__name__ == 'torch' and torch.Tensor.__module__ == 'torch' and repr(torch.float32) == 'torch.float32'
assert repr(torch.Size([1])) == 'torch.Size([1])' and torch.ones(1).type() == 'torch.FloatTensor'
assert importlib.metadata.version('torch') == torch.__version__ == '2.13.0+cpu'
assert b'torch._utils' in pickle.dumps(torch.ones(1), 0)
assert __name__ == '__main__' and sys.modules['__main__'].torch is torch
print(sys.argv[1:])
"""


def run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)


def test_script(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = run("-m", "taper", str(script), "a", "-b")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['a', '-b']"


def test_command_and_module(tmp_path):
    done = run("-m", "taper", "-c", PROGRAM, "x")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['x']"
    done = run("-m", "taper", "-", "z", input=PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['z']"
    (tmp_path / "some_module.py").write_text(PROGRAM)
    done = run("-m", "taper", "-m", "some_module", "y", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['y']"


def test_errors_and_exit_codes(tmp_path):
    script = tmp_path / "failing.py"
    script.write_text("import sys\nsys.exit(3)")
    assert run("-m", "taper", str(script)).returncode == 3
    script.write_text("raise ValueError('here')")
    done = run("-m", "taper", str(script))
    assert done.returncode == 1 and "ValueError: here" in done.stderr


def test_own_name_stays():
    done = run("-c", "import taper, sys; assert 'torch' not in sys.modules; print(taper.float32)")
    assert done.stdout.strip() == "taper.float32", done.stderr
