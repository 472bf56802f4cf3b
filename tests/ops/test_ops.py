"""Every op against PyTorch: values, type, sizes and strides of each case, or class and first line of the error; first and
second gradients of its own samples.

With TAPER_ORACLE (make test ORACLE=1) PyTorch runs the cases now; without it the vectors recorded from it serve.
Record them anew with TAPER_RECORD=1 (needs the oracle)."""
import gzip
import hashlib
import json
import math
import os
import pathlib
import subprocess

import pytest
import taper as torch

from . import cases, runner

VECTORS = pathlib.Path(__file__).parent / "vectors.json.gz"
# Relative and absolute tolerance by type of the result: a few units in the last place.
TOLERANCE = {"float32": (3e-6, 3e-6), "float64": (1e-12, 1e-12), "complex64": (3e-6, 3e-6), "complex128": (1e-12, 1e-12),
             "float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 1e-2)}


# What PyTorch has and Taper has not yet, by op and type of an argument: it must raise NotImplementedError.
LACKING = {
    ("logsumexp.default", "c64"), ("logsumexp.default", "c128"), ("view_as_complex.default", "f16"),
    *(("affine_grid_generator.default", dtype) for dtype in ("u8", "i8", "i16", "i32", "i64", "c64", "c128")),
    ("view_as_complex_copy.default", "f16"), ("complex.default", "f16"),
    *((f"{loss}_backward.default", dtype) for loss in ("mse_loss", "smooth_l1_loss") for dtype in ("u8", "i8", "i16", "i32", "i64")),
}


def functional_ops():
    return [op for op in torch._C._op_table() if op["variant"] == "functional" and op["tries"] and not op["random"]]


OPS = {f"{op['name']}.{op['overload']}": op for op in functional_ops()}
CASES = {key: cases.cases_of(op) for key, op in OPS.items()}
SMOOTH = {key: cases.smooth_cases(op) for key, op in OPS.items()}


def digest(key):
    """Tells whether recorded answers are those of the present cases."""
    return hashlib.sha256(json.dumps([CASES[key], SMOOTH[key]]).encode()).hexdigest()[:16]


def ask_oracle():
    asked = [[op["name"], op["overload"], CASES[key], SMOOTH[key]] for key, op in OPS.items()]
    done = subprocess.run([os.environ["TAPER_ORACLE"], runner.__file__], input=json.dumps(asked), text=True, capture_output=True, check=True)
    return dict(zip(OPS, json.loads(done.stdout)))


@pytest.fixture(scope="session")
def expected():
    if os.environ.get("TAPER_ORACLE"):
        answers = ask_oracle()
        if os.environ.get("TAPER_RECORD"):
            with gzip.GzipFile(VECTORS, "wb", mtime=0) as file:
                file.write(json.dumps({key: [digest(key), answers[key]] for key in sorted(OPS)}).encode())
        return answers
    with gzip.open(VECTORS) as file:
        recorded = json.load(file)
    return {key: answers for key, (known, answers) in recorded.items() if key in OPS and known == digest(key)}


def close(ours, theirs, rtol, atol):
    if isinstance(ours, list):
        return close(ours[0], theirs[0], rtol, atol) and close(ours[1], theirs[1], rtol, atol)
    if math.isnan(theirs) or math.isinf(theirs):
        return ours == theirs or (math.isnan(ours) and math.isnan(theirs))
    return abs(ours - theirs) <= atol + rtol * abs(theirs)


def difference(ours, theirs):
    """What is unlike between two results, or None."""
    if isinstance(theirs, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return f"{len(theirs)} results expected"
        return next(filter(None, (difference(a, b) for a, b in zip(ours, theirs))), None)
    if not isinstance(theirs, dict):
        return None if ours == theirs or (ours != ours and theirs != theirs) else f"{ours!r} instead of {theirs!r}"
    for what in ("dtype", "size", "stride"):
        if ours[what] != theirs[what] and not (what == "stride" and 0 in theirs["size"]):
            return f"{what} {ours[what]} instead of {theirs[what]}"
    rtol, atol = TOLERANCE.get(theirs["dtype"], (0, 0))
    for i, (a, b) in enumerate(zip(ours["data"], theirs["data"])):
        if not close(a, b, rtol, atol):
            return f"element {i} is {a!r} instead of {b!r}"
    return None


def nearer(key, arguments, ours, theirs):
    """Are these results of a half type nearer to the truth than PyTorch's? Without AVX-512 it rounds every partial sum of a
    convolution; the truth is the same call in double precision, which the cases in float64 hold to PyTorch."""
    answer = runner.run_twice(torch, OPS[key]["name"], OPS[key]["overload"], arguments)
    if not answer or any(a["dtype"] not in ("float16", "bfloat16") or a["size"] != b["size"] for a, b in zip(ours, theirs)):
        return False
    return all(abs(x - z) <= max(abs(y - z), 2.0 ** -8 * abs(z)) for a, b, t in zip(ours, theirs, answer[1])
               for x, y, z in zip(a["data"], b["data"], t["data"]))


def fault(key, arguments, wanted):
    """What is wrong with an op's answer to one case, or None."""
    got = runner.run(torch, OPS[key]["name"], OPS[key]["overload"], arguments)
    lacking = [v["t"] for v in arguments.values() if cases.is_tensor(v) and (key, v["t"]) in LACKING]
    if lacking and "ok" in wanted:
        refused = got.get("error", [None])[0] == "NotImplementedError"
        return None if refused else f"{lacking[0]} stands in LACKING, but the op has it"
    if "error" in wanted:
        return None if got.get("error") == wanted["error"] else f"{got.get('error', 'no error')}, expected {wanted['error']}"
    if "error" in got:
        return got["error"]
    unlike = difference(json.loads(json.dumps(got["ok"])), wanted["ok"])
    return unlike if unlike and not (unlike.startswith("element") and nearer(key, arguments, got["ok"], wanted["ok"])) else None


def answers(expected, key, part, asked):
    if key not in expected:
        pytest.fail(f"{key} has no recorded vectors for its present samples: record them with the oracle")
    assert len(expected[key][part]) == len(asked)
    return zip(asked, expected[key][part])


def report(faults, count):
    assert not faults, "\n".join(text if len(text) < 600 else text[:200] + " … " + text[-300:] for text in faults[:8]) + f"\n{len(faults)} of {count} cases"


@pytest.mark.parametrize("key", sorted(OPS))
def test_op(key, expected):
    found = [(arguments, fault(key, arguments, wanted)) for arguments, wanted in answers(expected, key, 0, CASES[key])]
    report([f"{arguments}: {unlike}" for arguments, unlike in found if unlike], len(found))


def has_complex(value):
    return any(map(has_complex, value)) if isinstance(value, list) else isinstance(value, dict) and value.get("t", "")[:1] == "c"


TURNED = {key: [case for case in cases if any(map(has_complex, case.values()))] for key, cases in CASES.items()}
TELLING = {"view_as_real.default", "view_as_real_copy.default", "view.dtype", "view_copy.dtype"}     # these refuse conjugates


@pytest.mark.parametrize("key", sorted(key for key, cases in TURNED.items() if cases and key not in TELLING))
def test_conjugates(key):
    """An op gives of conjugates that nobody computed what it gives of the same numbers in memory."""
    found = []
    for arguments in TURNED[key]:
        ours, wanted = (runner.run(torch, OPS[key]["name"], OPS[key]["overload"], arguments, turned) for turned in (True, False))
        unlike = difference(ours["ok"], wanted["ok"]) if "ok" in ours and "ok" in wanted else None if ours == wanted else f"{ours} instead of {wanted}"
        found.append((arguments, unlike))
    report([f"{arguments}: {unlike}" for arguments, unlike in found if unlike], len(found))


def gradient_fault(key, arguments, wanted):
    """What is unlike about an op's gradients for one case, or None. Where PyTorch fails, we may do better."""
    got = runner.run_gradients(torch, OPS[key]["name"], OPS[key]["overload"], arguments)
    if got.get("wants") != wanted.get("wants") and "wants" in wanted:
        return f"gradients wanted by {got.get('wants', got)} instead of {wanted['wants']}"
    for order in ("first", "second"):
        if order in wanted:
            if order not in got and any(map(zeros_or_none, wanted[order])):
                return f"no {order} gradient: {got.get('error', '')}"
            for i, (ours, theirs) in enumerate(zip(got.get(order, []), wanted[order])):
                unlike = difference(ours, theirs) if ours and theirs else zeros_or_none(ours or theirs)
                if unlike and not unlike.startswith("stride"):
                    return f"{order} gradient of {i}: {unlike}"
    return None


def zeros_or_none(gradient):
    """A gradient that only one side has says the same when it is zero."""
    return None if gradient is None or not any(map(abs, map(complex_of, gradient["data"]))) else "only one side has it"


def complex_of(number):
    return complex(*number) if isinstance(number, list) else number


@pytest.mark.parametrize("key", sorted(key for key in OPS if SMOOTH[key]))
def test_gradients(key, expected):
    found = [(arguments, gradient_fault(key, arguments, wanted)) for arguments, wanted in answers(expected, key, 1, SMOOTH[key])]
    report([f"{arguments}: {unlike}" for arguments, unlike in found if unlike], len(found))


def test_lacking_names_tested_cases():
    for key, dtype in LACKING:
        assert any(cases.is_tensor(v) and v["t"] == dtype for arguments in CASES[key] for v in arguments.values()), (key, dtype)
