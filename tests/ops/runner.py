"""Runs cases on whichever library is given and writes down what came out, as plain data.

    python runner.py < cases.json > results.json       with PyTorch as the library: what the oracle says
    python runner.py twice < …                          results only, each also in double precision
"""
import json
import sys

PYTHON_NAMES = {"b8": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
                "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}


def build(torch, value, turned=False):
    """An argument; `turned`: complex tensors are conjugates of their memory."""
    if isinstance(value, dict) and "t" in value:
        data = [complex(*x) for x in value["data"]] if value["t"][0] == "c" else value["data"]
        flat = torch.tensor(data, dtype=getattr(torch, PYTHON_NAMES[value["t"]]))
        made = (flat.conj_physical() if turned else flat).as_strided(value["size"], value["stride"], value["offset"])
        return made.conj() if turned else made
    if isinstance(value, dict):
        return getattr(torch, value["dtype"])
    return [build(torch, v, turned) for v in value] if isinstance(value, list) else value


def plain(torch, value):
    """A result as data: tensors by type, sizes, strides and elements."""
    if isinstance(value, torch.Tensor):
        kept = value.detach()
        elements = kept.to(torch.float64) if kept.dtype in (torch.float16, torch.bfloat16, torch.float32) else kept
        numbers = elements.reshape(-1).tolist()
        if kept.dtype.is_complex:
            numbers = [[x.real, x.imag] for x in numbers]
        return {"dtype": str(kept.dtype).split(".")[-1], "size": list(kept.shape), "stride": list(kept.stride()), "data": numbers}
    if isinstance(value, (tuple, list)):
        return [plain(torch, v) for v in value]
    return value


def run(torch, name, overload, arguments, turned=False):
    """What an op gives for one case: {"ok": results} or {"error": [class, first line]}."""
    op = getattr(getattr(torch.ops.aten, name), overload)
    try:
        built = {k: build(torch, v, turned) for k, v in arguments.items()}
        result = op(**built)
        return {"ok": plain(torch, list(result) if isinstance(result, (tuple, list)) else [result])}
    except Exception as error:  # noqa: BLE001  every failure of the op is a result here
        return {"error": [type(error).__name__, str(error).split("\n")[0]]}


def wider(torch, value):
    """The same argument in double precision."""
    to = {torch.float32: torch.float64, torch.complex64: torch.complex128, torch.float16: torch.float64, torch.bfloat16: torch.float64}
    if isinstance(value, torch.Tensor):
        return value.to(to.get(value.dtype, value.dtype))
    if isinstance(value, list):
        return [wider(torch, v) for v in value]
    return to.get(value, value) if isinstance(value, torch.dtype) else value


def run_twice(torch, name, overload, arguments):
    """The results of a case, and those of the same case in double precision; None when it fails."""
    op = getattr(getattr(torch.ops.aten, name), overload)
    try:
        built = {k: build(torch, v) for k, v in arguments.items()}
        made = [op(**built), op(**{k: wider(torch, v) for k, v in built.items()})]
        return [plain(torch, list(r) if isinstance(r, (tuple, list)) else [r]) for r in made]
    except Exception:  # noqa: BLE001
        return None


def inexact(torch, value):
    """The tensors in an argument that could want a gradient."""
    if isinstance(value, torch.Tensor):
        return [value] if value.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128) else []
    return [t for v in value for t in inexact(torch, v)] if isinstance(value, list) else []


def weighed(torch, tensors):
    """One real number that depends on every element: the sum of all with weights -0.75 … 0.75 in turn."""
    total = None
    for t in tensors:
        t = torch.view_as_real(t) if t.dtype.is_complex else t
        weights = ((torch.arange(t.numel(), dtype=t.dtype) % 7 - 3) / 4).reshape(t.shape)
        total = (t * weights).sum() if total is None else total + (t * weights).sum()
    return total


def run_gradients(torch, name, overload, arguments):
    """Which results want a gradient, and the first and second gradients of all inputs: {"wants", "first", "second"}; an error ends it."""
    op = getattr(getattr(torch.ops.aten, name), overload)
    said = {}
    try:
        built = {k: build(torch, v) for k, v in arguments.items()}
        leaves = [t.requires_grad_() for v in built.values() for t in inexact(torch, v)]
        result = op(**built)
        results = [t for t in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(t, torch.Tensor)]
        said["wants"] = [t.requires_grad for t in results]
        outputs = [t for t in results if t.requires_grad]
        if not leaves or not outputs:
            return said
        first = torch.autograd.grad(weighed(torch, outputs), leaves, create_graph=True, allow_unused=True)
        said["first"] = [None if g is None else plain(torch, g) for g in first]
        outputs = [g for g in first if g is not None and g.requires_grad]
        if outputs:
            second = torch.autograd.grad(weighed(torch, outputs), leaves, allow_unused=True)
            said["second"] = [None if g is None else plain(torch, g) for g in second]
    except Exception as error:  # noqa: BLE001
        said["error"] = [type(error).__name__, str(error).split("\n")[0]]
    return said


def main():
    import torch
    torch.manual_seed(0)
    if sys.argv[1:] == ["twice"]:
        answers = [[run_twice(torch, name, overload, case) for case in cases] for name, overload, cases in json.load(sys.stdin)]
    else:
        answers = [[[run(torch, name, overload, case) for case in cases], [run_gradients(torch, name, overload, case) for case in smooth]]
                   for name, overload, cases, smooth in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
