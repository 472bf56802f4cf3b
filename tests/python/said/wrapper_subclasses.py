"""Tensors of Python classes: how they are made, what their classes answer, what handlers may return."""
from said import attempt, case, say

import copy
import pickle

import torch
from torch.testing._internal.logging_tensor import LoggingTensor, capture_logs, capture_logs_with_logging_tensor_mode, log_input
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type, return_and_correct_aliasing
from torch.utils._pytree import tree_map

make = torch.Tensor._make_wrapper_subclass
x = torch.tensor([1.0, 2.0, 3.0])


class Refuses(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        say("  asked", func, args[1:], kwargs)
        return NotImplemented


class Plain(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, elem):
        r = make(cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype, device=elem.device)
        r.elem = elem
        return r

    def __repr__(self):
        return f"Wrapper({self.elem})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        say("  op", func)
        unwrap = lambda e: e.elem if isinstance(e, cls) else e
        return tree_map(lambda e: cls(e) if isinstance(e, torch.Tensor) else e, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))


@case
def made():
    attempt(lambda: make(Plain, (2, 3)))
    attempt(lambda: make(Refuses, (2, 3), strides=(1,)))
    attempt(lambda: make(3, (2, 3)))
    attempt(lambda: make(int, (2, 3)))
    attempt(lambda: make(Refuses, 3))
    attempt(lambda: make(Refuses))
    attempt(lambda: make(Refuses, (2, 3), foo=1))
    attempt(lambda: make(Refuses, (2, 3), storage_offset=5))
    attempt(lambda: make(Refuses, (2, 3), strides=(3, 1), storage_offset=5).storage_offset())
    attempt(lambda: make(Refuses, (2, 3), dtype=torch.int8, requires_grad=True))
    attempt(lambda: torch.Tensor._make_subclass(int, x))
    attempt(lambda: x.as_subclass(int))
    attempt(lambda: x.as_subclass(3))
    attempt(lambda: torch.Tensor._make_subclass(Plain, make(Refuses, (2, 3))) + 1)


@case
def questions():
    attempt(lambda: make(Refuses, (2, 3), dispatch_sizes_strides_policy="foo"))
    sizes, strides = (make(Refuses, (2, 3), dispatch_sizes_strides_policy=p) for p in ("sizes", "strides"))
    for t in (sizes, strides):
        attempt(t.dim)
        attempt(lambda: t.shape)
        attempt(t.size)
        attempt(t.numel)
        attempt(t.stride)
        attempt(t.is_contiguous)
    attempt(lambda: make(Refuses, (2, 3), dispatch_device=True).device)
    attempt(lambda: make(Refuses, (2, 3), dispatch_layout=True).layout)

    class Answers(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return {torch.ops.aten.sym_size.default: (4, 5), torch.ops.aten.dim.default: 2, torch.ops.prim.device.default: torch.device("meta")}.get(func)

    t = make(Answers, (2, 3), dispatch_sizes_strides_policy="sizes", dispatch_device=True)
    attempt(lambda: (t.shape, t.size(1), t.dim(), t.device, t.stride(), t.numel()))


@case
def answers():
    attempt(lambda: torch.sin(make(Refuses, (2, 3))))
    for given in (3, None, NotImplemented):
        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return given

        def run(f):
            with Mode():
                return f()

        attempt(run, lambda: torch.sin(x))
        attempt(run, lambda: x.sort())
    attempt(lambda: torch.add(Wrapper(x), Wrapper(x), out=torch.zeros(3)))
    attempt(lambda: Wrapper(x).data)
    attempt(lambda: Wrapper(x).new_tensor([1.0]))
    attempt(lambda: Wrapper(x).numpy())
    attempt(lambda: Wrapper(x).tolist())
    attempt(lambda: pickle.loads(pickle.dumps(Wrapper(x))))
    attempt(lambda: copy.deepcopy(Wrapper(x)))
    attempt(lambda: hash(x) == id(x))
    attempt(lambda: torch.ops.prim.device(Wrapper(x)))
    attempt(lambda: (Wrapper.__torch_function__ is torch._C._disabled_torch_function_impl, Plain.__torch_function__ is torch._C._disabled_torch_function_impl))
    attempt(lambda: Refuses())
    attempt(lambda: torch.nn.Parameter(Plain([1.0])))


@case
def two_tensors():
    t = TwoTensor(torch.ones(2, 3), torch.zeros(2, 3))
    attempt(lambda: t.view(6).untyped_storage()._cdata == t.untyped_storage()._cdata)
    attempt(lambda: (t.t_().shape, t.transpose_(0, 1).stride(), t.add_(1) is t))
    attempt(lambda: return_and_correct_aliasing(torch.ops.aten.view.default, (t, [6]), {}, torch.ones(6)))
    attempt(lambda: [is_traceable_wrapper_subclass(v) for v in (t, x, TwoTensor)])
    attempt(lambda: [is_traceable_wrapper_subclass_type(v) for v in (TwoTensor, torch.Tensor, Plain)])


@case
def dispatch_off():
    class Sub(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            say("  op", func)
            with torch._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))

    attempt(lambda: torch.Tensor._make_subclass(Sub, x) * 2)


@case
def logged():
    with capture_logs() as logs:
        a = LoggingTensor(torch.tensor([3.0]), requires_grad=True)
        log_input("x", a)
        (a * a).sum().abs()
        torch.add(a.detach(), 2, out=LoggingTensor(torch.zeros(1)))
        a.detach().view(1, 1)[0]
    for line in logs:
        say(" ", line)
    with capture_logs_with_logging_tensor_mode() as logs:
        torch.empty([])
        torch.ones(2, dtype=torch.float64) + 1
    for line in logs:
        say(" ", line)
