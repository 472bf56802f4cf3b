"""A few of the random programs of `make fuzz-captures`, in every run."""
import pathlib
import subprocess
import sys

WAYS = pathlib.Path(__file__).parent / "grown" / "ways.py"


def test_captures_agree_with_the_program():
    run = subprocess.run([sys.executable, "-m", "taper", str(WAYS), "0", "12"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("12 agreed") >= 9, run.stdout
