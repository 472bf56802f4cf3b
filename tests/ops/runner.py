"""Runs cases on whichever library is given and writes down what came out, as plain data.

    python runner.py < cases.json > results.json       with PyTorch as the library: what the oracle says
"""
import json
import sys

PYTHON_NAMES = {"b8": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
                "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}


def build(torch, value):
    if isinstance(value, dict) and "t" in value:
        data = [complex(*x) for x in value["data"]] if value["t"][0] == "c" else value["data"]
        flat = torch.tensor(data, dtype=getattr(torch, PYTHON_NAMES[value["t"]]))
        return flat.as_strided(value["size"], value["stride"], value["offset"])
    if isinstance(value, dict):
        return getattr(torch, value["dtype"])
    return [build(torch, v) for v in value] if isinstance(value, list) else value


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


def run(torch, name, overload, arguments):
    """What an op gives for one case: {"ok": results} or {"error": [class, first line]}."""
    op = getattr(getattr(torch.ops.aten, name), overload)
    try:
        built = {k: build(torch, v) for k, v in arguments.items()}
        result = op(**built)
        return {"ok": plain(torch, list(result) if isinstance(result, (tuple, list)) else [result])}
    except Exception as error:  # noqa: BLE001  every failure of the op is a result here
        return {"error": [type(error).__name__, str(error).split("\n")[0]]}


def main():
    import torch
    torch.manual_seed(0)
    cases = json.load(sys.stdin)
    json.dump([[run(torch, name, overload, arguments) for arguments in all_arguments] for name, overload, all_arguments in cases], sys.stdout)


if __name__ == "__main__":
    main()
