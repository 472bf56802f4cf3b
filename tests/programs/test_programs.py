"""Programs that import torch, run as they are by `python -m taper`: they must print what PyTorch prints.

The texts beside them were recorded from PyTorch; with TAPER_ORACLE it runs now."""
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
PROGRAMS = sorted(p for p in HERE.glob("*.py") if not p.name.startswith("test_"))


def output(*command):
    done = subprocess.run([*command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program(program):
    oracle = os.environ.get("TAPER_ORACLE")
    recorded = program.with_suffix(".txt")
    if oracle and os.environ.get("TAPER_RECORD"):
        recorded.write_text(output(oracle, str(program)))
    wanted = output(oracle, str(program)) if oracle else recorded.read_text()
    assert output(sys.executable, "-m", "taper", str(program)) == wanted
