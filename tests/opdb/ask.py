"""Asks PyTorch: for each entry of its op_db, samples, results and gradients, as one file per entry in a folder.

Runs on PyTorch: ask.py FOLDER SHARE PATTERN. NAME.samples holds (public name, samples),
NAME.answers a (result, gradients) for each.
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


def ask(folder, name, op, share):
    call = common.public(torch, op.name)
    samples = samples_of(name, op, share) if call else []
    scratch = folder / "scratch"
    samples = [s for s in samples if keep(scratch, s)]
    if not samples:
        return
    keep(folder / f"{name}.samples", (op.name, samples))
    answers = []
    for sample in samples:
        try:
            result, gradients = common.run(torch, call, sample, op.name not in common.UP_TO_SIGN)
            answer = (plain(result), gradients)
            answers.append(answer if dense(result) and keep(scratch, answer) else None)
        except Exception:       # a sample that its public name does not take
            answers.append(None)
    keep(folder / f"{name}.answers", answers)


def main():
    folder, share, pattern = pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name, op in entries():
        if re.search(pattern, name):
            ask(folder, name, op, share)
    print("asked", flush=True)
    os._exit(0)


main()
