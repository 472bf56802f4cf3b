"""autograd.Function inside transforms: trees of arguments, generated rules mapped twice, what rules may return, escaped wrappers."""
from said import attempt, case, say

import warnings

import torch
from torch.autograd import Function
from torch.func import grad, jacfwd, jvp, vjp, vmap

warnings.simplefilter("ignore")
x, m = torch.tensor([1.0, 2.0, 3.0]), torch.arange(6.0).reshape(2, 3)


class Sine(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a, scale=2.0):
        return a.sin() * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos() * ctx.scale, None

    @staticmethod
    def jvp(ctx, t, _):
        return t * ctx.saved_tensors[0].cos() * ctx.scale


class Mixed(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a, b, k):
        return a * b * k, (a + b) * 3, k, None

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b, ctx.k = inputs
        ctx.save_for_backward(a, b)
        say("  setup", [type(o).__name__ for o in output])

    @staticmethod
    def backward(ctx, g, h, *others):
        a, b = ctx.saved_tensors
        say("  backward", others, ctx.needs_input_grad)
        return g * b * ctx.k + h * 3, g * a * ctx.k + h * 3, None


class Of(Function):
    """A Function of a dict."""
    generate_vmap_rule = True

    @staticmethod
    def forward(d):
        return d["a"] * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return None


@case
def arguments_and_results():
    attempt(Sine.apply, x)
    attempt(Sine.apply, x, scale=3.0)
    attempt(vmap(lambda a: Mixed.apply(a, x, 2)[:2]), m)
    attempt(vmap(grad(lambda a: Mixed.apply(a, x, 2)[0].sum())), m)
    attempt(Of.apply, {"a": x})
    attempt(vmap(lambda a: Of.apply({"a": a})), m)
    attempt(grad(lambda a: Of.apply({"a": a}).sum()), x)


@case
def generated_rules():
    attempt(vmap(Sine.apply), m)
    attempt(vmap(vmap(Sine.apply), in_dims=1), m)
    attempt(grad(lambda a: vmap(Sine.apply)(a).sum()), m)
    attempt(grad(lambda a: vmap(vmap(Sine.apply))(a).sum()), m)
    attempt(vmap(grad(lambda a: vmap(Sine.apply)(a).sum())), m)
    attempt(jacfwd(lambda a: vmap(Sine.apply)(a)), x)
    attempt(jvp, vmap(Sine.apply), (m,), (m,))


def of_rule(rule):
    return type("F", (Function,), {"forward": staticmethod(lambda a: a * 2), "setup_context": staticmethod(lambda ctx, i, o: None), "vmap": staticmethod(rule)})


@case
def answers_of_rules():
    attempt(vmap(of_rule(lambda info, dims, a: a).apply), m)
    attempt(vmap(of_rule(lambda info, dims, a: (a, 0, 0)).apply), m)
    attempt(vmap(of_rule(lambda info, dims, a: (a, (0,))).apply), m)
    attempt(vmap(of_rule(lambda info, dims, a: ((a, a), (0,))).apply), m)
    attempt(vmap(of_rule(lambda info, dims, a: ((a, a), 0)).apply), m)
    attempt(vmap(lambda a: of_rule(lambda info, dims, a: (a, 0)).apply(x) + a), m)
    F = type("NoRule", (Function,), {"forward": staticmethod(lambda a: a * 2), "setup_context": staticmethod(lambda ctx, i, o: None)})
    attempt(vmap(lambda a: F.apply(x) + a), m)


@case
def tangents_are_not_written():
    for forward in (lambda a: a, lambda a: a.view(-1)):
        F = type("F", (Function,), {"forward": staticmethod(forward), "setup_context": staticmethod(lambda ctx, i, o: None),
                                    "jvp": staticmethod(lambda ctx, t: t * 2)})
        tangent = torch.ones(3)
        attempt(jvp, F.apply, (x,), (tangent,))
        say(" ", tangent)


@case
def differentiated_twice():
    class Once(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    y = x.clone().requires_grad_()
    first, = torch.autograd.grad((Once.apply(y) * y).sum(), y, create_graph=True)
    attempt(lambda: first.sum().backward())


@case
def escaped_wrappers():
    kept = []
    vmap(lambda a: (kept.append(a), a.sum())[1])(m)
    attempt(lambda: kept[0] + 1)
    attempt(lambda: kept[0].view(-1))
    attempt(lambda: kept[0] == kept[0])
    kept.clear()
    grad(lambda a: (kept.append(a), a.sum())[1])(x.clone())
    attempt(lambda: kept[0] + 1)
    attempt(lambda: (kept[0] * 2).sum())
    attempt(lambda: (kept[0].add_(1), kept[0] * 1)[1])
    functions = []
    grad(lambda a: (functions.append(vjp(torch.sin, a)[1]), a.sum())[1])(x)
    attempt(lambda: functions[0](x))
    attempt(vmap(lambda a: __import__("copy").deepcopy(a)), m)


@case
def nodes_and_contexts():
    class Kept(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            ctx.k = 5
            return a * 2

        @staticmethod
        def backward(ctx, g):
            say("  backward", ctx.k, ctx.name(), len(ctx.next_functions), ctx.metadata, ctx.q)
            return g * 2

    y = Kept.apply(x.clone().requires_grad_())
    attempt(lambda: (y.grad_fn.saved_tensors, y.grad_fn.k, y.grad_fn.needs_input_grad, y.grad_fn._forward_cls.__name__))
    attempt(lambda: y.grad_fn)
    attempt(lambda: setattr(y.grad_fn, "q", 3) or y.grad_fn.q)
    attempt(lambda: y.grad_fn.zzz)
    attempt(lambda: y.sum().backward())
    attempt(lambda: y.grad_fn.saved_tensors)
