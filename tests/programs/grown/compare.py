"""Runs grown programs on Taper and compares every value with PyTorch's: `python -m taper compare.py FILE`."""
import sys
import warnings

import torch

ROOM = 2e-4


def unlike(ours, theirs):
    if ours is None or theirs is None:
        return None if ours is theirs else "one has no gradient"
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    far = (ours - theirs).abs() > ROOM * (1 + theirs.abs().max())
    return f"differs by {float((ours - theirs).abs().max())}" if bool(far.any()) else None


def fault(text, wanted):
    """What is wrong, and the name of the value it was seen at."""
    space = {"torch": torch, "F": torch.nn.functional, "D": torch.float32, "NUDGE": 0.0}
    try:
        exec(text, space)
    except Exception as error:
        same = isinstance(wanted, str) and isinstance(error, RuntimeError) and str(error).splitlines()[0] == wanted.splitlines()[0]
        return None if same else (f"{type(error).__name__}: {error}", where(error))
    if isinstance(wanted, str):
        return f"does not raise {wanted}", ""
    for name, theirs in wanted.items():
        if wrong := unlike(space["values"][name], theirs):
            return wrong, name
    return None


def where(error):
    """The number of the program's line that raised."""
    at = error.__traceback__
    while at.tb_next and at.tb_next.tb_frame.f_code.co_filename == "<string>":
        at = at.tb_next
    return at.tb_lineno if at.tb_frame.f_code.co_filename == "<string>" else at.tb_next.tb_lineno


def said(text, at):
    lines = text.splitlines()
    return lines[at - 1] if isinstance(at, int) else next((line for line in lines if line.startswith(f"{at} =")), at)


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
