"""Calls of the extension that ended the process, each in a process of its own: they raise, and nothing else."""
import subprocess
import sys

import pytest

HEADER = """
import taper as torch
from taper import _C


class Emptying:
    def __init__(self, held):
        self.held = held

    def __index__(self):
        self.held.clear()
        return 1


def emptying():
    held = []
    held.extend([Emptying(held), *[object() for _ in range(7)]])
    return held


class Dispatching(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


cyclic = [1]
cyclic.append(cyclic)
deep = {}
deep["x"] = deep
traced = torch.jit.trace(lambda x: x * 2, torch.ones(2))
"""
CASES = {
    "_C._jit_forward()": "TypeError",
    "_C._disabled_torch_function_impl(int, 1, 2)": "TypeError",
    "_C._disabled_torch_dispatch_impl(int, 1, ())": "returned",
    "_C._disabled_torch_dispatch_impl(int, 1, [])": "TypeError",
    "_C._disabled_torch_function_impl(int, 1, (), 5)": "TypeError",
    "torch.Tensor.__torch_function__(int, (), 5)": "TypeError",
    "repr(_C._NodeBase())": "TypeError",
    "type((torch.ones(1, requires_grad=True) * 2).grad_fn)()": "TypeError",
    "type('D', (_C._NodeBase,), {})().name()": "TypeError",
    "_C._OpOverloadBase()": "TypeError",
    "type(torch.ops.aten.add.Tensor).__new__(type(torch.ops.aten.add.Tensor))": "TypeError",
    "_C._broadcast_shapes(emptying())": "TypeError",
    "torch.UntypedStorage(emptying())": "TypeError",
    "torch.UntypedStorage([1, 2], device='meta')": "returned",
    "torch.tensor(cyclic)": "RecursionError",
    "torch.ones(2)[cyclic]": "RecursionError|IndexError",
    "traced(cyclic)": "RecursionError",
    "traced(deep)": "RecursionError",
    "traced(**{'\\ud800': 1})": "RuntimeError|UnicodeEncodeError",
    "_C.ScriptModule()": "TypeError",
    "_C.ScriptModule('x', y=1)": "TypeError",
    "next(iter(traced.graph.nodes())).i(5)": "TypeError",
    "next(iter(traced.graph.nodes())).kindOf([1])": "TypeError",
    "next(iter(traced.graph.nodes())).hasAttribute(None)": "TypeError",
    "next(iter(traced.graph.nodes())).hasAttribute('\\ud800')": "UnicodeEncodeError",
    "_C._register_tensor_hook(5, print)": "TypeError",
    "_C._register_accumulate_hook(5, print)": "TypeError",
    "_C._remove_tensor_hook(5, 1)": "TypeError",
    "_C._copy_with_storage(5, {})": "TypeError",
    "torch.ones(2).as_subclass(Dispatching).bool(slice(3))": "TypeError",
    "torch.ones(2).bool(memory_format=slice(3))": "TypeError",
    "torch.device('\\ud800', 1)": "UnicodeEncodeError|RuntimeError",
    "_C._FunctionBase().set_materialize_grads(torch.ones(2))": "RuntimeError",
    "_C.tensor(1.0, requires_grad=torch.ones(2))": "RuntimeError",
    "_C._jit_load('\\ud800')": "UnicodeEncodeError",
}


@pytest.mark.parametrize("call", CASES)
def test_raises(call):
    script = f"""{HEADER}
try:
    {call}
    print("returned")
except BaseException as error:
    print(type(error).__name__)
"""
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.split()[-1] in CASES[call].split("|")


def test_an_op_outlives_its_library():
    script = """
import gc
import taper as torch
library = torch.library.Library("gone", "DEF")
library.define("op(Tensor x) -> Tensor")
library.impl("op", lambda x: x + 1, "CPU")
overload, packet = torch.ops.gone.op.default, torch.ops.gone.op
graph = torch.fx.Graph()
graph.output(graph.call_function(overload, (graph.placeholder("x"),)))
del library
gc.collect()
again = [torch.library.Library(f"gone{i}", "FRAGMENT") for i in range(50)]
for i, one in enumerate(again):
    one.define("op(Tensor x) -> Tensor")
print(overload, overload._schema, graph)
try:
    overload(torch.ones(1))
except NotImplementedError as error:
    print("no kernel")
"""
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("gone.op.default gone::op(Tensor x) -> Tensor"), done.stderr[-500:]
    assert done.stdout.endswith("no kernel\n")
