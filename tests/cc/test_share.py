"""A seeded share of `make test-cc`, in every run: C that the writer gives, compiled and compared with eager calls."""
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

RUN = pathlib.Path(__file__).parent / "run.py"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_share_of_what_the_writer_accepts_is_what_eager_calls_give():
    run = subprocess.run([sys.executable, "-m", "taper", str(RUN), "--share", "0.03", "--seed", "17", "--programs", "500"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    same = {name: int(count) for name, count in re.findall(r"^([a-z ]+): (\d+) same", run.stdout, re.M)}
    assert same.keys() == {"op table", "writes and aliases", "modules", "random programs", "graphs that write", "exported programs"}, run.stdout
    assert same["op table"] > 400 and same["writes and aliases"] > 5 and same["modules"] > 2 and same["random programs"] > 10, run.stdout
