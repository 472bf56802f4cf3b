"""autograd.Function inside vmap: what a Function's vmap staticmethod is told, and the Function that generate_vmap_rule stands for."""
from typing import NamedTuple

from .. import Tensor
from ..autograd.function import Function
from .apis import vmap


class VmapInfo(NamedTuple):
    batch_size: int
    randomness: str


def generated(cls, in_dims, randomness):
    """The Function whose forward and backward are those of `cls`, mapped; its arguments have their batches at `in_dims`."""

    class Generated(Function):
        @staticmethod
        def forward(*args):
            return vmap(cls.forward, in_dims, randomness=randomness)(*args)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.single, ctx.count = not isinstance(output, tuple), len(inputs)
            ctx.others = {i: x for i, x in enumerate(inputs) if not isinstance(x, Tensor)}
            outputs = (output,) if ctx.single else output
            ctx.save_for_backward(*(x if isinstance(x, Tensor) else None for x in (*inputs, *outputs)))

        @staticmethod
        def backward(ctx, *grads):
            saved = ctx.saved_tensors
            inputs, outputs = [ctx.others.get(i, x) for i, x in enumerate(saved[:ctx.count])], saved[ctx.count:]
            given = []

            def one(inputs, outputs, grads):
                member = cls._backward_cls()
                member.needs_input_grad = ctx.needs_input_grad
                cls.setup_context(member, tuple(inputs), outputs[0] if ctx.single else tuple(outputs))
                got = cls.backward(member, *grads)
                given[:] = got if isinstance(got, tuple) else (got,)
                return tuple(g for g in given if g is not None)

            dims = (list(in_dims), (0,) * len(outputs), tuple(None if g is None else 0 for g in grads))
            found = iter(vmap(one, dims, randomness=randomness)(inputs, tuple(outputs), grads))
            whole = [g if g is None else next(found) for g in given]
            return tuple(g if g is None or d is not None else g.sum(0) for g, d in zip(whole, in_dims))

    Generated.__name__ = Generated.__qualname__ = f"Vmapped{cls.__name__}"
    return Generated
