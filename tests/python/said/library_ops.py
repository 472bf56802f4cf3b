"""torch.library: schemas from annotations, libraries, custom ops and opcheck."""
from said import attempt, case, clean, say

import typing
import warnings
from typing import List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor
from torch.library import Library, custom_op, infer_schema, opcheck
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

warnings.simplefilter("ignore")
x = torch.tensor([1.0, 2.0, 3.0])


def brief(f, *args, **kwargs):
    """Errors up to the list of what would have been valid."""
    try:
        say("  gives", repr(f(*args, **kwargs)))
    except Exception as error:
        say("  raises", type(error).__name__, clean(error).partition("dict_keys")[0])


@case
def inferred():
    for text in ("(a: Tensor, b: float = 1.5) -> Tuple[Tensor, Tensor]", "(a: Tensor) -> None", "(a: Tensor)", "(a) -> Tensor", "(a: Tensor, *args) -> Tensor",
                 "(a: Tensor, **k) -> Tensor", "(a: Tensor, /) -> Tensor", "(a: Tensor, *, k: int = 3) -> Tensor", "(a: Optional[Tensor] = None) -> Tensor",
                 "(a: Sequence[Optional[Tensor]], b: List[int], c: Optional[List[float]]) -> Tensor", "(a: str = 'x') -> Tensor", "(a: dict) -> Tensor",
                 "(a: Tensor) -> dict", "(a: torch.dtype = torch.float32, b: torch.device = 'cpu') -> Tensor", "(a: Union[int, float]) -> Tensor",
                 "(a: int | None, b: torch.types.Number) -> Tensor", "(a: Tuple[int, int]) -> Tensor", "(a: 'Tensor') -> 'Tensor'",
                 "(a: Tensor, b: Sequence[int] = [1, 2]) -> Tensor", "(a: Tensor) -> Optional[Tensor]", "(a: Tensor) -> Tuple[Tensor]",
                 "(a: Tensor) -> tuple[Tensor, list[Tensor], int]", "(a: Tensor, b: torch.memory_format = None) -> Tensor"):
        names = dict(globals())
        exec(f"def f{text}: ...", names)
        brief(infer_schema, names["f"], mutates_args=())

    def f(a: Tensor, b: int, c: List[Tensor]) -> None: ...

    for mutated in (("a", "c"), "unknown", ("b",), ("z",), "x"):
        brief(infer_schema, f, mutates_args=mutated)
    brief(infer_schema, f, mutates_args=(), op_name="space::name")


@case
def libraries():
    lib = Library("said_ops", "DEF")
    attempt(lambda: lib)
    attempt(lib.define, "foo(Tensor x, float y=2.0, float z=0.1) -> Tensor")
    attempt(lambda: torch.ops.said_ops.foo.default._schema)
    attempt(lib.impl, "foo", lambda x, y=2.0, z=0.1: x * y, "NotKey")
    attempt(lib.impl, "foo", lambda x, y=2.0, z=0.1: x * y, "CPU")
    attempt(lambda: torch.ops.said_ops.foo(x))
    attempt(lambda: torch.ops.said_ops.foo(x, zz=1))
    attempt(lib.define, "other::foo(Tensor x) -> Tensor")
    attempt(lambda: Library("said_ops", "DEF"))
    attempt(lambda: Library("said_ops", "IMPL", "Meta").define("q(Tensor x) -> Tensor"))
    attempt(torch.library.define, "said_ops::tagged", "(Tensor x) -> Tensor", tags=torch.Tag.pointwise)
    attempt(lambda: [tag.name for tag in torch.ops.said_ops.tagged.default.tags])
    attempt(torch.library.impl, "said_ops::tagged", "cpu", lambda x: x * 9)
    attempt(torch.library.impl, "said_ops::tagged", "quux", lambda x: x * 9)
    with torch.library._scoped_library("said_scoped", "DEF") as scoped:
        scoped.define("a(Tensor x) -> Tensor")
        scoped.impl("a", lambda x: x + 5, "CompositeExplicitAutograd")
        attempt(lambda: torch.ops.said_scoped.a(x))
    attempt(lambda: hasattr(torch.ops.said_scoped, "a"))

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    torch.library.register_torch_dispatch("said_ops::tagged", TwoTensor, lambda cls, func, types, args, kwargs: (say("  rule", cls.__name__, func), args[0])[1])
    torch.library.register_torch_dispatch("said_ops::tagged", Mode, lambda mode, func, types, args, kwargs: (say("  rule", type(mode).__name__, func), func(*args))[1])
    attempt(lambda: torch.ops.said_ops.tagged(TwoTensor(x, x)))

    def in_mode():
        with Mode():
            return torch.ops.said_ops.tagged(x)

    attempt(in_mode)


@case
def custom_ops():
    @custom_op("said_custom::double", mutates_args=())
    def double(a: Tensor, k: float = 2.0) -> Tensor:
        return a * k

    attempt(lambda: torch.ops.said_custom.double.default._schema)
    double.register_fake(lambda a, k=2.0: torch.empty_like(a))
    double.register_autograd(lambda ctx, g: (g * 2, None))
    attempt(opcheck, double, (x,))
    attempt(opcheck, double, (x.clone().requires_grad_(),), test_utils="test_schema")

    @custom_op("said_custom::double", mutates_args=())
    def again(a: Tensor) -> Tensor:
        return a * 3

    attempt(again, x)

    @custom_op("said_custom::many", mutates_args=())
    def many(a: List[Tensor]) -> List[Tensor]:
        return [t * 2 for t in a]

    many.register_autograd(lambda ctx, g: (say("  backward", type(g).__name__, len(g)), [t * 2 for t in g])[1])
    y = x.clone().requires_grad_()
    attempt(lambda: type(many([y, y])).__name__)

    @many.register_kernel("cpu")
    def _(a):
        return [t * 5 for t in a]

    attempt(many, [x])

    def off():
        with many.set_kernel_enabled("cpu", False):
            return many([x])

    attempt(off)
    attempt(lambda: custom_op("said_custom::wrong", lambda x: x, mutates_args=(), schema="(Tensor(a!) x) -> Tensor"))
    attempt(lambda: double.register_kernel("foo")(lambda a: a))


@case
def checked():
    lib = Library("said_checked", "DEF")
    kernels = {"fine": (lambda x: x * 2, torch.empty_like), "writes": (lambda x: x.clone().mul_(x.add_(1).sum()), torch.empty_like), "no_fake": (lambda x: x * 2, None),
               "aliases": (lambda x: x.view(-1), lambda x: x.view(-1)), "dtype": (lambda x: x.double(), torch.empty_like),
               "shape": (lambda x: x.clone(), lambda x: x.new_empty(7))}
    for name, (kernel, fake) in kernels.items():
        lib.define(f"{name}(Tensor x) -> Tensor")
        lib.impl(name, kernel, "CPU")
        if fake:
            torch.library.register_fake(f"said_checked::{name}", fake)
        attempt(opcheck, getattr(torch.ops.said_checked, name).default, (x.clone(),))
    attempt(opcheck, torch.ops.said_checked.fine.default, (x.clone().requires_grad_(),))
    attempt(opcheck, torch.ops.aten.add_.Tensor, (x.clone(), 1))
    attempt(opcheck, "aten::sin", (x,))
    attempt(opcheck, torch.sin, (x,))
    attempt(opcheck, torch.ops.said_checked.fine.default, (x,), test_utils="zzz")
    attempt(lambda: list(opcheck(torch.ops.said_checked.dtype.default, (x,), raise_exception=False)))
