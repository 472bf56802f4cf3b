"""Runs grown programs on Taper and compares every value with PyTorch's: `python -m taper compare.py FILE`."""
import sys
import warnings

import torch
from grow import far, run

ROOM = 2e-4


def unlike(ours, theirs, sure):
    if ours is None or theirs is None:
        return None if ours is theirs else "one has no gradient"
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    differs = far(ours, theirs, ROOM) if sure is None else (ours != theirs) & sure
    return f"differs at {int(differs.sum())} places: {ours[differs][0]} for {theirs[differs][0]}" if bool(differs.any()) else None


def fault(text, wanted):
    """What is wrong, and the name of the value or the number of the line it was seen at."""
    try:
        values = run(text, torch.float32)
    except Exception as error:
        return f"{type(error).__name__}: {error}", where(error)
    for name, (theirs, sure) in wanted.items():
        if name in values and name != "error" and (wrong := unlike(values[name], theirs, sure)):
            return wrong, name
    ours, theirs = values.get("error"), wanted.get("error", (None,))[0]
    return None if ours == theirs else (f"{ours}\n    instead of {theirs}", "")


def where(error):
    """The number of the program's line that raised."""
    at, line = error.__traceback__, ""
    while at:
        line = at.tb_lineno if at.tb_frame.f_code.co_filename == "<string>" else line
        at = at.tb_next
    return line


def said(text, at):
    lines = text.splitlines()
    return lines[at - 1].strip() if isinstance(at, int) else next((line.strip() for line in lines if line.strip().startswith(f"{at} =")), at)


def main():
    warnings.simplefilter("ignore")
    failed = 0
    programs = torch.load(sys.argv[1], weights_only=False)
    for seed, text, wanted in programs:
        if wrong := fault(text, wanted):
            failed += 1
            print(f"program {seed}: {wrong[0]}\n    {said(text, wrong[1])[:200]}")
    print(f"{len(programs) - failed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
