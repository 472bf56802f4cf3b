"""hop_db: ops that take functions, under the names PyTorch's tests look up, each with programs small enough to read."""
from .opinfo.core import OpInfo, SampleInput
from ..._root import torch
from ..._higher_order_ops import cond, map as control_map, scan, while_loop


class HigherOrderInfo(OpInfo):
    """An entry whose samples are tensors of the given sizes, nested as the arguments are; sizes of () are a counter."""
    dtypes = frozenset({torch.float16, torch.float32, torch.float64})

    def __init__(self, name, program, *sizes, variant_test_name="simple", differentiable=True):
        super().__init__(name, op=program, aten_name="", variant_test_name=variant_test_name)
        self.sizes, self._tried["autograd"] = sizes, differentiable

    def sample_inputs(self, device, dtype, requires_grad=False, **kwargs):
        def made(sizes):
            if isinstance(sizes, list):
                return [made(each) for each in sizes]
            if not sizes:
                return torch.tensor(3, device=device)
            return torch.testing.make_tensor(sizes, device=device, dtype=dtype, low=0.1, high=2, requires_grad=requires_grad)
        yield SampleInput(*map(made, self.sizes))

    reference_inputs = sample_inputs

    def error_inputs(self, device, **kwargs):
        return iter(())


def _row(xs, y, z):
    a, b = xs
    return a + y, (b * z).cos()


def _nested(depth):
    def body(xs, y, z):
        return control_map(_nested(depth - 1), xs, y, z)
    return body if depth else _row


def _mapped(depth):
    return lambda xs, y, z: control_map(_nested(depth), tuple(xs), y, z)


def _either(x):
    return cond(x.sum() > 2, lambda x: (x.sin() * 2,), lambda x: (x.cos() + x,), [x])


def _counted(i, x):
    return while_loop(lambda i, x: i > 0, lambda i, x: (i - 1, x + x.cos()), (i, x))


def _scanned(first, xs):
    def step(carry, x):
        carry = carry * x + 1
        return carry, carry.sin()
    return scan(step, first, xs)


@torch.library.custom_op("hop_db::add_into", mutates_args={"x"})
def _add_into(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


def _written(x, y):
    out = x.clone()
    _add_into(out, y)
    return out


_ROWS = [(2, 2, 2), (2, 2, 2)]
hop_db = [
    *(HigherOrderInfo("map", _mapped(depth), _ROWS, (1,), (1,), variant_test_name=name) for depth, name in enumerate(("simple", "nested", "triple_nested"))),
    HigherOrderInfo("cond", _either, (2, 2, 2)),
    HigherOrderInfo("while_loop", _counted, (), (2, 3, 4)),
    HigherOrderInfo("scan", _scanned, (2, 2), (2, 2, 2)),
    HigherOrderInfo("auto_functionalize", _written, (2, 2, 2), (2, 2, 2), differentiable=False),
]
