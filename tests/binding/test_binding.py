"""A seeded share of the binding sweep: no call of the extension ends the process, breaks a rule of CPython's, or takes more than 5 s."""
import os
import pathlib
import subprocess
import sys

SWEEP = pathlib.Path(__file__).parent / "sweep.py"


def test_share():
    done = subprocess.run((sys.executable, SWEEP, "--share", "0.03", "--budget", "100"), capture_output=True, text=True, timeout=600, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_crash_is_found():
    """The sweep itself: a call that kills its process, one that never ends and one that breaks the calling convention are told."""
    done = subprocess.run((sys.executable, SWEEP, "--canary", "--budget", "12"), capture_output=True, text=True, timeout=600, env=os.environ)
    assert done.returncode == 1, done.stdout + done.stderr
    told = {line.split(" | ")[0] for line in done.stdout.splitlines() if " | " in line}
    assert told == {"SIGSEGV", "over 5 s", "SystemError"}, done.stdout + done.stderr
