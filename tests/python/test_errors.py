"""Users' mistakes: the exception class and the text, as PyTorch 2.13 gives them.

errors.tsv has one mistake a line: number, code, class, message. In its cells `\\n`, `\\t`, `\\x1b` and `\\\\` stand for these characters,
`0x…` for an address, `<site>` for the folder the package lies in. The code runs in a fresh namespace with torch, nn and F, in a
process that knows the package as torch, for some texts carry its name. A row is skipped only when it needs a name that is not
there yet; what is there and errs differently is in KNOWN, with the reason.
"""
import json
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ESCAPES = {"\\n": "\n", "\\t": "\t", "\\x1b": "\x1b", "\\\\": "\\"}
MISSING = re.compile(r"(module 'torch[\w.]*'|'Tensor' object|type object 'Tensor') has no attribute '\w+'|No module named 'torch\.|"
                     r"(is not implemented in Taper yet|Taper does not have it yet)$")

KNOWN = {
    454: "PyTorch goes on with the overloads of its scripts, add.t, add.str and so on, which are no ops",
    **dict.fromkeys(range(462, 466), "recorded where a lambda had no module; here it has one, and the next error is seen"),
    468: "export does not follow the values of traced tensors yet; the text names a file of PyTorch",
    469: "calls of exported programs err in the words of the seeds: RuntimeError, Expected input at ... to be equal to",
    471: "the text ends with a hint at draft_export, which is not there",
    472: "the words of the seeds: was inferred to be a constant",
    473: "the text ends with a hint at draft_export, which is not there",
    484: "PyTorch compiles what it runs here: a branch may give back its operand",
    477: "PyTorch's text speaks of its own classes and pages; ours says what was met and where",
    478: "the same",
    487: "a function can be exported here",
    483: "the text names a file that PyTorch was built from",
}


def read_rows():
    """[(number, code, class, message)]"""
    with open(os.path.join(HERE, "errors.tsv"), encoding="utf-8") as f:
        lines = f.read().split("\n")[1:-1]
    rows = []
    for line in lines:
        number, *cells = line.split("\t")
        rows.append((int(number), *(re.sub(r"\\(n|t|x1b|\\)", lambda m: ESCAPES[m.group()], cell) for cell in cells)))
    return rows


# ---- in the process that knows the package as torch ----------------------------------------------------------
def class_name(error):
    """A builtin by its bare name, others with the module."""
    cls = type(error)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def names_what_is_missing(error):
    """What the exception says if it says that the package has not got a name, else None."""
    missing = isinstance(error, (AttributeError, NotImplementedError, ImportError)) and MISSING.search(str(error))
    return str(error) if missing else None


def sorted_braces(text):
    """Sets print in hash order, which differs from run to run."""
    return re.sub(r"\{('\w+'(?:, '\w+')*)\}", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", text)


def run(code):
    """[class, text, the missing name or None]; class is None if nothing was raised."""
    import warnings

    import torch

    warnings.simplefilter("ignore")
    space = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "__name__": "__main__"}
    try:
        exec(code, space)
    except BaseException as error:
        text = re.sub(r"0x[0-9a-f]{6,}", "0x…", str(error))
        text = text.replace(os.path.dirname(os.path.dirname(torch.__file__)), "<site>")
        return [class_name(error), text, names_what_is_missing(error)]
    return [None, "", None]


def main(first):
    for number, code, *_ in read_rows():
        if number >= first:
            print("start", json.dumps(number), flush=True)
            answer = run(code)
            print("\nend", json.dumps([number, *answer]), flush=True)


# ---- in the process of the tests -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def answers():
    """{number: [class, text, missing]}; a row that ends the process is `crashed`, and the next process goes on after it."""
    found, first, last = {}, 1, read_rows()[-1][0]
    while first <= last:
        done = subprocess.run([sys.executable, "-m", "taper", os.path.abspath(__file__), str(first)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", timeout=300)
        started = [int(line[6:]) for line in done.stdout.split("\n") if line.startswith("start ")]
        for line in done.stdout.split("\n"):
            if line.startswith("end "):
                number, *answer = json.loads(line[4:])
                found[number] = answer
        if done.returncode == 0:
            break
        assert started, "the process of the rows does not start"
        if started[-1] not in found:
            found[started[-1]] = ["crashed", f"exit status {done.returncode}", None]
        first = started[-1] + 1
    return found


@pytest.mark.parametrize("number, code, cls, message", read_rows(), ids=lambda v: str(v) if isinstance(v, int) else "")
def test_error(answers, number, code, cls, message):
    got_class, got, missing = answers[number]
    got, message = sorted_braces(got), sorted_braces(message)
    same = (got_class, got) == (cls, message)
    if number in KNOWN:
        assert not same, f"row {number} passes: take it out of KNOWN"
        pytest.skip(KNOWN[number])
    if not same and missing:
        pytest.skip(missing)
    assert (got_class, got) == (cls, message), code


if __name__ == "__main__":
    main(int(sys.argv[1]))
