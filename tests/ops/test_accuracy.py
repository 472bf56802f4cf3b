"""How far float32 is from the truth, which is PyTorch in double precision on the same inputs (ORACLE=1).

An element may be off by 2 units in the last place, or by one more than PyTorch is. Where terms of a sum cancel, in element-wise
formulas named below and in all that sums over elements, 1e-7 of the largest number at hand is granted besides."""
import json
import math
import os
import subprocess

import pytest
import taper as torch

from . import cases, runner

# Element-wise formulas that cancel: 1 + erf, 1 - tanh^2 and the like beside a term of the other sign; a maximum and a logarithm;
# the sine of a product with pi that was rounded.
CANCELS = {"gelu", "gelu_backward", "silu_backward", "mish_backward", "logaddexp2", "sinc"}
OTHER_TYPES = ("f16", "bf16", "f64", "c128")


def flat(data):
    """Numbers of a result, complex ones as such."""
    return [complex(*x) if isinstance(x, list) else x for x in data]


def numbers(case):
    for value in case.values():
        for tensor in value if isinstance(value, list) else [value]:
            if cases.is_tensor(tensor):
                yield from (abs(x) for x in flat(tensor["data"]))


def single(op):
    """The cases in which float32 or complex64 is the only inexact type."""
    for case in cases.cases_of(op):
        types = {t["t"] for v in case.values() for t in (v if isinstance(v, list) else [v]) if cases.is_tensor(t)}
        if types & {"f32", "c64"} and not types & set(OTHER_TYPES):
            yield case


def unit(x):
    """A unit in the last place of float32 at x; of a complex number, at its absolute value."""
    return 2.0 ** (max(math.frexp(abs(x))[1], -125) - 24)


def worst(op, case, theirs, truth):
    """(ours, theirs, truth) where we are farthest beyond the bound, or None."""
    got = runner.run(torch, op["name"], op["overload"], case).get("ok", [])
    largest = max([1.0, *filter(math.isfinite, numbers(case))])
    found = []
    for a, b, t in zip(got, theirs, truth):
        if not isinstance(b, dict) or b["dtype"] not in ("float32", "complex64") or t["dtype"] not in ("float64", "complex128"):
            continue
        right = flat(t["data"])
        room = 1e-7 * max([largest, *(abs(x) for x in right if math.isfinite(abs(x)))]) if op["kind"] != "pointwise" or op["name"] in CANCELS else 0
        for x, y, z in zip(flat(a["data"]), flat(b["data"]), right):
            if all(map(math.isfinite, (abs(x), abs(y), abs(z)))) and abs(z) < 2.0 ** 127:
                over = abs(x - z) - max(2 * unit(z), abs(y - z) + unit(z)) - room
                found.append((over / unit(z), x, y, z))
    return max(found, key=lambda row: row[0], default=None)


@pytest.mark.skipif(not os.environ.get("TAPER_ORACLE"), reason="needs PyTorch: ORACLE=1")
def test_accuracy():
    asked = [(op, list(single(op))) for op in torch._C._op_table()
             if op["variant"] == "functional" and op["tries"] and not op["random"]]
    request = json.dumps([[op["name"], op["overload"], chosen] for op, chosen in asked])
    done = subprocess.run([os.environ["TAPER_ORACLE"], runner.__file__, "twice"], input=request, text=True, capture_output=True, check=True)
    table, compared = [], 0
    for (op, chosen), answers in zip(asked, json.loads(done.stdout)):
        rows = [worst(op, case, *answer) for case, answer in zip(chosen, answers) if answer]
        compared += sum(row is not None for row in rows)
        row = max(filter(None, rows), key=lambda row: row[0], default=None)
        if row and row[0] > 0:
            ours, theirs = (abs(x - row[3]) / unit(row[3]) for x in row[1:3])
            table.append(f"{op['name']}.{op['overload']}: {ours:.1f} units off where PyTorch is {theirs:.1f}, at {row[3]!r}")
    assert compared > 2500
    assert not table, "\n".join([*table, f"{len(table)} of {len(asked)} ops"])
