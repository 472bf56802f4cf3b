"""autograd.Function inside vmap: what a Function's vmap staticmethod is told, and the Function that generate_vmap_rule stands for."""
from typing import NamedTuple

from .. import Tensor
from ..autograd.function import Function
from ..utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from .apis import vmap


class VmapInfo(NamedTuple):
    batch_size: int
    randomness: str


def _fresh(cls, ctx, like=None, saved=None):
    """A context of `cls` for one member: that of the whole, or what its setup_context has left and saved."""
    member = cls._backward_cls()
    member.needs_input_grad = ctx.needs_input_grad
    member.set_materialize_grads(True)
    if like is not None:
        member.__dict__.update(like.__dict__)
        member.save_for_backward(*saved)
    return member


def _mapped(rule, ctx, saved, kept, given, dims, randomness):
    """rule(context, *given), a tuple of tensors and Nones, for all members at once."""
    form = []

    def one(saved, given):
        answer = rule(_fresh(ctx.cls, ctx, ctx.member, saved), *given)
        ctx.single_answer = not isinstance(answer, tuple)
        form[:] = (answer,) if ctx.single_answer else answer
        return tuple(x for x in form if isinstance(x, Tensor))

    found = iter(vmap(one, (kept, dims), randomness=randomness)(saved, given))
    return [next(found) if isinstance(x, Tensor) else x for x in form]


def _batch(tensors):
    return tuple(None if x is None else 0 for x in tensors)


def generated(cls, in_dims, randomness):
    """The Function whose forward, backward and jvp are those of `cls`, mapped; its arguments have their batches at `in_dims`."""

    class Generated(Function):
        generate_vmap_rule = True       # it may be mapped again

        @staticmethod
        def forward(*args):
            form = []

            def one(*args):
                leaves, spec = tree_flatten(cls.forward(*args))
                form[:] = leaves, spec
                return tuple(x for x in leaves if isinstance(x, Tensor))

            found = iter(vmap(one, in_dims, randomness=randomness)(*args))
            return tree_unflatten([next(found) if isinstance(x, Tensor) else x for x in form[0]], form[1])

        @staticmethod
        def setup_context(ctx, inputs, output):
            out_dims = tree_map(lambda x: 0 if isinstance(x, Tensor) else None, output)
            ctx.cls, plain = cls, []

            def one(inputs, output):
                ctx.member = member = _fresh(cls, ctx)
                cls.setup_context(member, inputs, output)
                marked = {id(x) for x in member.non_differentiable or ()}
                plain[:] = [i for i, x in enumerate(tree_leaves(output)) if id(x) in marked]
                groups = [tuple(group or ()) for group in (member.to_save, member.saved_for_forward)]
                ctx.form = [[x is not None for x in group] for group in groups]
                return tuple(x for group in groups for x in group if x is not None)

            found = iter(vmap(one, (in_dims, out_dims), randomness=randomness)(inputs, output))
            for_backward, for_forward = ([next(found) if there else None for there in group] for group in ctx.form)
            ctx.save_for_backward(*for_backward)
            if ctx.member.saved_for_forward is not None:
                ctx.save_for_forward(*for_forward)
            ctx.set_materialize_grads(ctx.member.materialize_grads)
            leaves = tree_leaves(output)
            ctx.mark_non_differentiable(*(leaves[i] for i in plain))

        @staticmethod
        def backward(ctx, *grads):
            saved = ctx.saved_tensors
            whole = _mapped(cls.backward, ctx, saved, _batch(saved), grads, _batch(grads), randomness)
            return tuple(g if g is None or d is not None else g.sum(0) for g, d in zip(whole, in_dims))

        @staticmethod
        def jvp(ctx, *tangents):
            saved = ctx.saved_tensors
            dims = tuple(None if x is None else d for x, d in zip(tangents, in_dims))
            whole = _mapped(cls.jvp, ctx, saved, _batch(saved), tangents, dims, randomness)
            return whole[0] if ctx.single_answer else tuple(whole)

    Generated.__name__ = Generated.__qualname__ = f"Vmapped{cls.__name__}"
    return Generated
