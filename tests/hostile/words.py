"""The names that the text of a call may use."""
import taper as torch
from arguments import row_major

PYTHON_NAMES = {"b8": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
                "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}
HUGE = {"u8": 255, "i8": 127, "i16": 2**15 - 1, "i32": 2**31 - 1, "i64": 2**63 - 1, "f16": 65504.0, "bf16": 1e38, "f32": 1e38, "f64": 1e308, "b8": True}
LOW = {"u8": 0, "i8": -128, "i16": -2**15, "i32": -2**31, "i64": -2**63, "f16": -65504.0, "bf16": -1e38, "f32": 1e-45, "f64": 5e-324, "b8": False}
nan, inf = float("nan"), float("inf")
made = []                                           # the tensors of this call, for whoever looks at them afterwards


def elements(dtype, count, fill):
    if isinstance(fill, list):
        return (fill + [0] * count)[:count]
    if fill == "nan":
        return [nan] * count if dtype[0] in "fc" or dtype == "bf16" else [-1 if dtype[0] == "i" else 1] * count
    if fill == "inf":
        return [inf if k % 2 else -inf for k in range(count)] if dtype[0] in "fc" or dtype == "bf16" else [7 - k % 3 for k in range(count)]
    if fill == "zero":
        return [0] * count
    if fill in ("huge", "low"):
        return [(HUGE if fill == "huge" else LOW).get(dtype, 1e38)] * count
    if dtype == "b8":
        return [k % 3 == 0 for k in range(count)]
    if fill == "odd":
        return [(-1) ** k * k * 1000 for k in range(count)] if dtype not in ("u8", "i8") else [k % 100 for k in range(count)]
    if dtype[0] in "iu":
        return [k % 3 for k in range(count)]
    return [(k * 7 % 11 - 5) / 4 for k in range(count)]


def extent(size, stride, offset):
    return 0 if 0 in size else 1 + offset + sum((n - 1) * s for n, s in zip(size, stride))


def T(dtype, size, stride=None, offset=0, fill=None, device=None, grad=False, sign=None):
    """A tensor as the text of a call describes it."""
    steps = stride or row_major(size)
    count = extent(size, steps, offset)
    if count <= 20000:
        t = torch.tensor(elements(dtype, count, fill), dtype=getattr(torch, PYTHON_NAMES[dtype]))
    else:
        t = torch.zeros(count, dtype=getattr(torch, PYTHON_NAMES[dtype]))
    t = t.as_strided(size, steps, offset if count else 0)
    if device:
        t = t.to(device)
    if sign == "conj":
        t = t.conj()
    if sign == "neg":
        t = torch._neg_view(t)
    if grad:
        t.requires_grad_()
    made.append(t)
    return t


def op(name):
    space, rest = name.split("::")
    name, overload = rest.split(".", 1)
    return getattr(getattr(getattr(torch.ops, space), name), overload)
