"""Cases from the op table: every sample of every op, called as it is, in place, and in place through a view."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from ops import cases as samples        # noqa: E402
from ops import runner                  # noqa: E402

from batch import Case                  # noqa: E402

# Ops whose programs are no function of their tensors: they read files, or their results are memory nobody wrote.
# Eager calls lose the sign of -0.0 here, as PyTorch and the functions of libm do not.
SIGN_LOST = {"expm1", "elu", "celu", "gelu", "sin"}
SKIPPED = {"from_file", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


def ops_of_interest():
    return [op for op in torch._C._op_table() if op["variant"] == "functional" and op["tries"] and not op["random"] and op["name"] not in SKIPPED]


def is_row_major(value):
    return value["stride"] == samples.row_major(value["size"]) and not value["offset"]


def given(arguments):
    """(tensors, rebuild): the tensors that a program takes, and what makes the op's arguments of them. What is laid out otherwise
    than row by row is a view of the flat tensor that the program takes."""
    tensors, makers = [], {}

    def maker(value):
        if isinstance(value, dict) and "t" in value:
            place = len(tensors)
            built = runner.build(torch, value)
            if is_row_major(value):
                tensors.append(built)
                return lambda given: given[place]
            tensors.append(runner.build(torch, value | {"size": [len(value["data"])], "stride": [1], "offset": 0}))
            return lambda given: given[place].as_strided(value["size"], value["stride"], value["offset"])
        if isinstance(value, list):
            items = [maker(v) for v in value]
            return lambda given: [item(given) for item in items]
        built = runner.build(torch, value)
        return lambda given: built

    makers = {name: maker(value) for name, value in arguments.items()}
    return tensors, lambda given: {name: make(given) for name, make in makers.items()}


def called(op, rebuild):
    return lambda *given: op(**rebuild(given))


def in_place(op, first, rebuild, through_view):
    """The first argument copied, alone or into the middle of something larger, and written there."""
    def program(*given):
        arguments = rebuild(given)
        x = arguments[first]
        if through_view:
            whole = torch.full((3, *x.shape), 7, dtype=x.dtype)
            target = whole[1]
            target.copy_(x)
        else:
            whole = target = x.clone()
        result = op(**(arguments | {first: target}))
        return whole, result, whole + whole

    return program


def written(op):
    """The in-place form of an op, and the name of the argument it writes; None when there is none."""
    found = getattr(getattr(torch.ops.aten, op["name"] + "_", None), op["inplace"], None) if op["inplace"] else None
    return found and (found, op["args"][0])


def into_a_row(overload, rebuild):
    """The result written by `out=` to a row of something larger."""
    def program(*given):
        arguments = rebuild(given)
        whole = torch.full((2, *program.shape), 7, dtype=program.dtype)
        overload(**arguments, out=whole[0])
        return whole, whole[0]

    return program


# ---- elements at which formulas differ ----
HOSTILE = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 0.1, -0.1, 3.0, 7.0, -20.25, 1e-8, -1e-8, 1e-30, 1e5, -1e5, 3e9, float("nan"), float("inf"), float("-inf")],
    "i": [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 63, 64, 100, 127, -128],
    "u": [0, 1, 2, 3, 7, 8, 31, 32, 100, 127, 128, 255],
    "b": [False, True],
}
EXTREMES = {"i8": [-128], "i16": [-2**15, 2**15 - 1], "i32": [-2**31, 2**31 - 1], "i64": [-2**63, 2**63 - 1]}


def hostile_tensor(dtype, at):
    """Along dim `at` of as many dims as there are operands: every element meets every other."""
    elements = HOSTILE[dtype[0]] + EXTREMES.get(dtype, [])
    size = [1, 1, 1]
    size[at] = len(elements)
    return {"t": dtype, "data": elements, "size": size, "stride": samples.row_major(size), "offset": 0}


def hostile(op):
    """Arguments for an element-wise op, its tensors of these elements in each type; integers are no divisors that are zero."""
    rows = list(samples.itertools.islice(samples.sampled(op), samples.MOST_CASES))
    for sample in samples.choices(rows):
        names = [name for name, value in sample.items() if samples.is_tensor(value)]
        if not 1 <= len(names) <= 3:
            continue
        for dtype in ("f32", "f64", "i64", "i32", "i8", "u8", "b8"):
            yield sample | {name: hostile_tensor(dtype, at) for at, name in enumerate(names)}
            if len(names) == 2:
                safe = hostile_tensor(dtype, 1)
                kept = [e for e in safe["data"] if e]
                yield sample | {names[0]: hostile_tensor(dtype, 0), names[1]: safe | {"data": kept, "size": [1, len(kept), 1]}}
                yield sample | {names[0]: hostile_tensor(dtype, 0), names[1]: {"t": "i64" if dtype[0] in "iub" else "f64", "data": [3], "size": [], "stride": [], "offset": 0}}


def forms(op, name, arguments, overload, into):
    """The cases of one call: as it is, in place, in place through a view."""
    try:
        tensors, rebuild = given(arguments)
    except Exception:                       # a sample that is refused when it is built
        return
    deep = op["name"] in SIGN_LOST
    yield Case(name, called(overload, rebuild), tensors, deep)
    if into and samples.is_tensor(arguments.get(into[1])):
        yield Case(f"{name} in place", in_place(into[0], into[1], rebuild, False), tensors, deep)
        yield Case(f"{name} in place through a view", in_place(into[0], into[1], rebuild, True), tensors, deep)
    if op["out"] == "out" or (op["out"] or "").endswith("_out"):
        try:
            result, given_out = overload(**rebuild(tensors)), getattr(getattr(torch.ops.aten, op["name"]), op["out"])
        except Exception:                   # no result: the first case tells
            return
        if isinstance(result, torch.Tensor):
            program = into_a_row(given_out, rebuild)
            program.shape, program.dtype = result.shape, result.dtype
            yield Case(f"{name} out", program, tensors, deep)


def rows():
    for op in ops_of_interest():
        name = f"{op['name']}.{op['overload']}"
        overload, into = getattr(getattr(torch.ops.aten, op["name"]), op["overload"]), written(op)
        for number, arguments in enumerate(samples.cases_of(op)):
            yield from forms(op, f"{name} #{number}", arguments, overload, into)
        for number, arguments in enumerate(hostile(op) if op["kind"] == "pointwise" else ()):
            yield from forms(op, f"{name} hostile #{number}", arguments, overload, into)
