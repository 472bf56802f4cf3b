"""Plausible calls: the `try` rows of the op table, and every op that is called below them, gradients included."""
import itertools
import pathlib
import sys

import taper as torch
from arguments import Tensor

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from tests.ops import cases, runner  # noqa: E402

SHORT = {getattr(torch, long): short for short, long in runner.PYTHON_NAMES.items()}
MOST_SAMPLES = 8
MOST_SEEDS = 12
DATA = 64                                           # integers of tensors up to here are kept


def described(value):
    """A value of a call as `arguments` has it; None where it is no plain value."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in SHORT:
            return None
        whole = not (value.dtype.is_floating_point or value.dtype.is_complex)
        fill = str(value.reshape(-1).tolist()) if whole and 0 < value.numel() <= DATA and value.is_contiguous() else None
        stride = None if value.is_contiguous() else tuple(value.stride())
        return Tensor(SHORT[value.dtype], tuple(value.shape), stride=stride, fill=fill)
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    if isinstance(value, (bool, str)) or value is None:
        return repr(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return value
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return f"torch.{str(value).rsplit('.', 1)[-1]}"
    if isinstance(value, torch.device):
        return repr(str(value))
    return repr(value) if isinstance(value, complex) else "None"


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self, found):
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        note(self.found, str(func), args, kwargs or {})
        return func(*args, **(kwargs or {}))


def note(found, key, args, kwargs):
    key = key.removeprefix("aten.")
    kept = found.setdefault(key, [])
    if len(kept) < MOST_SEEDS:
        call = ([described(a) for a in args], {name: described(a) for name, a in kwargs.items()})
        if repr(call) not in (repr(k) for k in kept):
            kept.append(call)


def run_sample(found, entry, sample):
    function = getattr(getattr(torch.ops.aten, entry["name"]), entry["overload"])
    built = {name: runner.build(torch, value) for name, value in sample.items()}
    positional = [built.pop(name) for name in entry["args"][:entry["positional"]] if name in built and list(built)[0] == name]
    note(found, f"{entry['name']}.{entry['overload']}", positional, built)
    leaves = [t.requires_grad_() for v in (*positional, *built.values()) for t in runner.inexact(torch, v)]
    with Recorder(found):
        result = function(*positional, **built)
        outputs = [t for t in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(t, torch.Tensor) and t.requires_grad]
        if leaves and outputs:
            torch.autograd.grad(runner.weighed(torch, outputs), leaves, allow_unused=True)


def all_seeds(table):
    """{"mm.default": [(positional, keywords), …]}; of variants, those of the op they are made of."""
    found = {}
    for entry in table:
        for sample in itertools.islice(cases.sampled(entry), MOST_SAMPLES) if entry["tries"] else ():
            try:
                run_sample(found, entry, sample)
            except Exception:  # noqa: BLE001  samples of errors are seeds too
                pass
    for entry in table:
        for variant in (entry["inplace"], entry["out"]):
            key, base = f"{entry['name']}{'_' if variant == entry['inplace'] else ''}.{variant}", f"{entry['name']}.{entry['overload']}"
            if variant and base in found:
                found.setdefault(key, found[base])
    return found
