"""Asks PyTorch: for each entry of its op_db, samples, results and gradients, as one file per entry in a folder.

Runs on PyTorch: ask.py FOLDER SHARE PATTERN. NAME.samples holds (public name, samples), NAME.answers the way in which the name takes
them (common.ways) and a (result, gradients) for each. With names behind the pattern: NAME.wide, the answers of double precision.
"""
import os
import pathlib
import re
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

import common


def entries():
    """Entries with float32, by the name PyTorch gives them; those that need another machine are left out."""
    for op in op_db:
        if torch.float32 in op.dtypes and not op.name.startswith("jiterator"):
            yield (op.name + "." + op.variant_test_name if op.variant_test_name else op.name), op


def dense(sample):
    return all(t.layout == torch.strided and not t.is_nested for t in common.tensors(torch, sample))


def samples_of(name, op, share):
    torch.manual_seed(common.SEED)
    made = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
    made = ((s.input, s.args, s.kwargs) for i, s in enumerate(made) if common.chosen(name, i, share))
    return [sample for sample in made if dense(sample)]


def plain(result):
    """Detached, and named tuples as tuples: the other side has types of its own."""
    if isinstance(result, (list, tuple)):
        return [*map(plain, result)] if isinstance(result, list) else tuple(map(plain, result))
    return result.detach() if isinstance(result, torch.Tensor) else result


def keep(path, value):
    """Saved at once: a later call may write to what it is given. False when it cannot be saved (a lambda, say)."""
    try:
        torch.save(value, path)
        return True
    except Exception:
        path.unlink(missing_ok=True)
        return False


def answered(call, sample, gradients):
    result, made = common.run(torch, call, sample, gradients)
    if not dense(result):
        raise ValueError("sparse")
    return plain(result), made and [g if g is None else g.clone() for g in made]      # zeros that are not memory cannot be saved


def first_way(name, samples):
    """The number of the first way in which the name takes a sample, and the answers it gives; None where it takes it not."""
    for number, call in enumerate(common.ways(torch, name)):
        answers = []
        for sample in samples if call else []:
            try:
                answers.append(answered(call, sample, name not in common.UP_TO_SIGN))
            except Exception:
                answers.append(None)
        if any(a is not None for a in answers):
            return number, answers
    return 0, [None] * len(samples)


def ask(folder, name, op, share):
    samples = samples_of(name, op, share) if any(common.ways(torch, op.name)) else []
    samples = [s for s in samples if keep(folder / "scratch", s)]
    if samples:
        keep(folder / f"{name}.samples", (op.name, samples))
        way, answers = first_way(op.name, samples)
        keep(folder / f"{name}.answers", (way, answers))


def wider(value):
    """The same in double precision, asking for the same gradients."""
    if isinstance(value, torch.Tensor):
        to = {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(value.dtype)
        return value.detach().to(to).requires_grad_(value.requires_grad) if to else value
    if isinstance(value, dict):
        return {k: wider(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(wider, value))
    return {torch.float32: torch.float64}.get(value, value) if isinstance(value, torch.dtype) else value


def ask_wide(folder, name):
    """NAME.wide: what double precision says, the judge where results differ."""
    base, samples = torch.load(folder / f"{name}.samples", weights_only=False)
    way, answers = torch.load(folder / f"{name}.answers", weights_only=False)
    call, wide = common.ways(torch, base)[way], []
    for sample, answer in zip(samples, answers):
        try:
            wide.append(answer and answered(call, wider(sample), answer[1] is not None))
        except Exception:
            wide.append(None)
    keep(folder / f"{name}.wide", wide)


def main():
    folder, share, pattern = pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in sys.argv[4:]:
        ask_wide(folder, name)
    for name, op in entries() if not sys.argv[4:] else ():
        if re.search(pattern, name):
            ask(folder, name, op, share)
    print("asked", flush=True)
    os._exit(0)


main()
