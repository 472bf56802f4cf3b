"""Grows random programs on PyTorch: write.py FIRST COUNT FILE. Saves [(seed, text, answer)] of the programs kept.

A program is kept when PyTorch's own float32 and float64 runs agree, and its floats do not change when the inputs move by 1e-6 of
themselves: then another implementation has to agree too. Integers and masks have to agree where they do not change when every
value that the program makes is moved by 1e-4.
"""
import sys
import warnings

import torch
from grow import far, grow, run

ROOM, MARGIN = 1e-4, 1e-4


def sure_of(ours, others):
    """The elements of integers or a mask that others have too."""
    sure = torch.ones(ours.shape, dtype=torch.bool)
    for other in others:
        sure &= ours == other if ours.shape == other.shape else False
    return sure


def steady(name, values, exact, moved, jittered):
    """The elements of a value that another implementation has to give: a mask, or None when all of them are, or False when the program
    shows that it is no program to compare."""
    ours, theirs = values[name], exact[name]
    if name == "error" or ours is None or theirs is None:
        return None if name == "error" or ours is theirs else False
    if not ours.is_floating_point() and not ours.is_complex():
        return sure_of(ours, [theirs, moved[name]] + [run[name] for run in jittered])
    if not ours.shape == theirs.shape == moved[name].shape:
        return False
    return None if not bool(far(ours, theirs, ROOM).any()) and not bool(far(moved[name], theirs, ROOM).any()) else False


def kept(text):
    """What a program has to give: its float32 values with their sure elements. None when it need not agree."""
    values = run(text, torch.float32)
    try:
        exact, moved = run(text, torch.float64), run(text, torch.float64, 1e-6)
        jittered = [run(text, torch.float64, jitter=MARGIN, seed=seed) for seed in (1, 2)]
    except (RuntimeError, IndexError):          # where all floats have one type, or sizes depend on them, not all lines are right
        return None
    if exact.keys() != values.keys() or moved.keys() != values.keys():
        return None
    answer = {name: (values[name], steady(name, values, exact, moved, jittered)) for name in values}
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
