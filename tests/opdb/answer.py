"""Answers with Taper: runs the samples of a folder through the public names and says, a line of JSON each, how each entry fared.

Runs as `python -m taper answer.py FOLDER NAME …`.
"""
import faulthandler
import json
import pathlib
import sys
import warnings

import torch

import common

# Against PyTorch's float32: relative and absolute; the absolute part scales with the largest element, for sums cancel.
TOLERANCE = {torch.float32: 1e-5, torch.complex64: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float64: 1e-10, torch.complex128: 1e-10}

SECONDS_EACH = 180      # an entry that takes longer hangs


def difference(ours, theirs, name, wide=None):
    """What is unlike between two results, or None. `wide`: the result in double precision, where it was asked for."""
    if isinstance(theirs, torch.Tensor):
        if not isinstance(ours, torch.Tensor):
            return f"{type(ours).__name__} instead of a tensor"
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
        return None if name in common.UNSET else unlike(ours.detach(), theirs, name, wide)
    if isinstance(theirs, (list, tuple)):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            return f"{ours if not isinstance(ours, (list, tuple)) else len(ours)} instead of {len(theirs)} results"
        wide = wide if isinstance(wide, (list, tuple)) else [None] * len(theirs)
        return next(filter(None, (difference(a, b, name, w) for a, b, w in zip(ours, theirs, wide))), None)
    if isinstance(theirs, (int, float, complex)) and isinstance(ours, (int, float, complex)):
        return difference(torch.tensor(ours), torch.tensor(theirs), name)
    return None if ours == theirs else f"{ours!r} instead of {theirs!r}"


def unlike(ours, theirs, name, wide):
    if ours.numel() == 0:
        return None
    if name in common.UP_TO_SIGN:
        ours, theirs = ours.abs(), theirs.abs()
    if ours.dtype not in TOLERANCE:
        return None if bool((ours == theirs).all()) else f"{first(ours, theirs, ours != theirs)}"
    same = (ours == theirs) | (torch.isnan(ours) & torch.isnan(theirs))
    size = theirs.abs()
    finite = size[torch.isfinite(size)]
    room = TOLERANCE[ours.dtype] * (size + (float(finite.max()) if finite.numel() else 0.0)) + TOLERANCE[ours.dtype]
    if isinstance(wide, torch.Tensor) and wide.shape == ours.shape:     # no farther from the truth than PyTorch is anywhere
        room = torch.maximum(room.to(torch.float64), (theirs - wide).abs().max())
        theirs = wide
    wrong = ~(same | ((ours - theirs).abs() <= room))
    return f"{first(ours, theirs, wrong)}" if bool(wrong.any()) else None


def first(ours, theirs, wrong):
    at = int(wrong.reshape(-1).to(torch.int64).argmax())
    return f"element {at} is {ours.reshape(-1)[at].item()!r} instead of {theirs.reshape(-1)[at].item()!r}"


def fault(call, sample, answer, wide, name):
    (result, gradients), (wide_result, wide_gradients) = answer, wide or (None, None)
    try:
        got, got_gradients = common.run(torch, call, sample, gradients is not None)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    wrong = difference(got, result, name, wide_result)
    if wrong is None and gradients is not None:
        if got_gradients is None:
            return "no gradient"
        wrong = difference(list(got_gradients), list(gradients), name, wide_gradients)
        wrong = wrong and "gradient: " + wrong
    return wrong


def said(sample):
    text = repr([f"{str(v.dtype)[6:]}{list(v.shape)}" if isinstance(v, torch.Tensor) else v for v in (sample[0], *sample[1])]) + repr(sample[2])
    return text[:160].replace("\n", " ")


def answer(folder, name):
    base, samples = torch.load(folder / f"{name}.samples", weights_only=False)
    way, answers = torch.load(folder / f"{name}.answers", weights_only=False)
    judge = folder / f"{name}.wide"
    wide = torch.load(judge, weights_only=False) if judge.exists() else [None] * len(answers)
    asked = [(s, a, w) for s, a, w in zip(samples, answers, wide) if a is not None]
    call = common.ways(torch, base)[way]
    if call is None:
        return {"asked": len(asked), "passed": 0, "faults": [f"no public name {base}"]}
    faults = [(wrong, said(s)) for s, a, w in asked if (wrong := fault(call, s, a, w, base))]
    return {"asked": len(asked), "passed": len(asked) - len(faults), "faults": [f"{wrong}   in {where}" for wrong, where in faults[:6]]}


def main():
    folder = pathlib.Path(sys.argv[1])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        faulthandler.dump_traceback_later(SECONDS_EACH, exit=True)
        try:
            row = answer(folder, name)
        except Exception as error:
            row = {"asked": 1, "passed": 0, "faults": [f"{type(error).__name__}: {error}"]}
        print(json.dumps({"name": name, **row}), flush=True)


main()
