"""Grows random programs on PyTorch: write.py FIRST COUNT FILE. Saves [(seed, text, answer)] of the programs kept.

A program is kept when PyTorch's own float32 and float64 runs agree, and its floats do not change when the inputs move by 1e-6 of
themselves: then another implementation has to agree too. Integers and masks have to agree where they do not change when the inputs
move by 1e-4.
"""
import re
import sys
import warnings

import torch
from grow import far, grow, run

ROOM, MARGIN = 1e-4, 1e-4
# Ops that choose among equal elements as they like.
CHOOSING = re.compile(r"sort|topk|median|kthvalue|mode|combinations|quantile")


def steady(name, values, exact, moved):
    """The elements of a value that another implementation has to give: a mask, or None when all of them are, or False when the program
    shows that it is no program to compare."""
    ours, theirs = values[name], exact[name]
    runs = [run[name] for run in moved]
    if ours is None or theirs is None:
        return None if ours is theirs else False
    if any(ours.shape != r.shape for r in [theirs, *runs]):
        return False
    if not ours.is_floating_point() and not ours.is_complex():
        sure = ~torch.zeros(ours.shape, dtype=torch.bool)
        for other in [theirs, *runs]:
            sure &= ours == other
        return sure
    return not (bool(far(ours, theirs, ROOM).any()) or bool(far(runs[0], theirs, ROOM).any())) and None


def kept(text):
    """What a program has to give: its float32 values with their sure elements. None when it need not agree."""
    values = run(text, torch.float32)
    try:
        exact, *moved = [run(text, torch.float64, nudge) for nudge in (0, 1e-6, MARGIN, -MARGIN)]
    except RuntimeError:                # where all floats have one type, not all lines are right
        return None
    if CHOOSING.search(text):           # equal elements are none any more when every value made is moved by itself
        moved = [run(text, torch.float64, nudge, jitter) for nudge, jitter in ((0, 1e-7), (MARGIN, 1e-7), (-MARGIN, 1e-7))]
    if any(run.keys() != values.keys() for run in [exact, *moved]):
        return None
    answer = {name: (values[name], None if name == "error" else steady(name, values, exact, moved)) for name in values}
    return None if any(sure is False for _, sure in answer.values()) else answer


def main():
    first, count, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    programs = []
    for seed in range(first, first + count):
        text = grow(seed)
        if answer := kept(text):
            programs.append((seed, text, answer))
    torch.save(programs, file)
    print(f"{len(programs)} of {count} programs kept")


main()
