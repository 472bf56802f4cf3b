"""Scripts of tests/python/said say here, word for word, what they said under PyTorch.

NAME.txt is what PyTorch 2.13 said: `python -m pytest tests/python/test_said.py` with TAPER_ORACLE set to its interpreter compares it
again, and TAPER_RECORD=1 writes it."""
import os
import pathlib
import subprocess
import sys

import pytest

SAID = pathlib.Path(__file__).parent / "said"
SCRIPTS = sorted(path.stem for path in SAID.glob("*.py") if path.stem != "said")
ORACLE = os.environ.get("TAPER_ORACLE")


HERE = os.pathsep.join(str(pathlib.Path(path).resolve()) for path in sys.path if path)


def run(interpreter, *command, **environment):
    done = subprocess.run((interpreter, *command), capture_output=True, text=True, cwd=SAID, timeout=300, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_says_what_pytorch_says(name):
    kept = SAID / f"{name}.txt"
    if ORACLE and os.environ.get("TAPER_RECORD"):
        kept.write_text(run(ORACLE, f"{name}.py"))
    want = kept.read_text()
    if ORACLE:
        assert run(ORACLE, f"{name}.py") == want
    assert run(sys.executable, "-m", "taper", f"{name}.py", PYTHONPATH=HERE).split("\n") == want.split("\n")
