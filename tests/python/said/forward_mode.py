from said import case, say

import warnings

import torch
import torch.autograd.forward_ad as fwAD
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

warnings.simplefilter("ignore")        # of PyTorch about itself
F64 = torch.float64
x, t = torch.tensor([0.5, 1.25, -1.5], dtype=F64), torch.tensor([-2.5, 0.75, -0.125], dtype=F64)
m = torch.tensor([[2.0, 0.5, 0.25], [0.5, 3.0, -0.5], [0.25, -0.5, 1.5]], dtype=F64)


def numbers(v):
    """Values without signs of zeros."""
    if isinstance(v, torch.Tensor):
        return torch.view_as_real(v.resolve_conj()).tolist() if v.is_complex() else numbers(v.tolist())
    if isinstance(v, dict):
        return {k: numbers(w) for k, w in v.items()}
    if isinstance(v, (list, tuple)):
        return [numbers(w) for w in v]
    return round(v, 7) + 0.0 if isinstance(v, float) else v


def attempt(f, *args, **kwargs):
    try:
        say("  gives", numbers(f(*args, **kwargs)))
    except Exception as error:
        say("  raises", type(error).__name__, error)


@case
def errors_of_jvp():
    attempt(jvp, torch.sin, x, t)
    attempt(jvp, torch.sin, (x,), t)
    attempt(jvp, torch.sin, (x,), (t, t))
    attempt(jvp, torch.sin, (), ())
    attempt(jvp, torch.sin, (x,), (t[:2],))
    attempt(jvp, torch.sin, (x,), (3,))
    attempt(jvp, torch.sin, (3,), (3,))
    attempt(jvp, lambda x: 3, (x,), (t,))
    attempt(jvp, lambda x: (x, 3), (x,), (t,))
    attempt(jvp, lambda x: x, (x,), (t,), has_aux=True)
    attempt(jvp, lambda x: (x, 3), (x,), (t,), has_aux=True)
    attempt(jvp, lambda x: torch.ones(2), (x,), (t,), strict=True)
    attempt(jvp, lambda x: x, (x.long(),), (t.long(),))
    attempt(jvp, lambda x: x["a"], ({"a": x},), ({"b": t},))
    attempt(jvp, lambda a: x.clone().add_(a) + x.add_(a), (x,), (t,))


@case
def values_of_jvp():
    for f in (torch.sin, lambda x: x * x + 2, lambda x: x.sum(), lambda x: torch.ones(2), lambda x: x.long(), lambda x: (x.view(3, 1).t(), {"a": x.exp().mul_(2)}),
              lambda x: x.max(0)[0], lambda x: x.softmax(0), lambda x: torch.cat([x, x * 2, torch.ones(1, dtype=F64)]), lambda x: m @ x, lambda x: x.detach() * x,
              lambda x: torch.stack(x.unbind()).prod(), lambda x: x.sort()[0], lambda x: x.cumsum(0).tanh(), lambda x: torch.where(x > 0, x, x * 3),
              lambda x: torch.linalg.solve(m, x), lambda x: torch.linalg.inv(m + x.diag()), lambda x: (m * x).logsumexp(1), lambda x: (m * x).std(0),
              lambda x: torch.nn.functional.layer_norm(m * x, (3,)), lambda x: torch.nn.functional.gelu(x), lambda x: x.norm(), lambda x: torch.einsum("i,ij,j", x, m, x),
              lambda x: torch.linalg.slogdet(m + x.diag())[1], lambda x: x[[0, 2, 0]] * x[1], lambda x: torch.fft.fft(x), lambda x: x.clamp(-1, 1) ** 3,
              lambda x: torch.linalg.eigvalsh(m + x.diag()), lambda x: torch.nn.functional.cross_entropy(m * x, torch.tensor([0, 1, 2]))):
        attempt(jvp, f, (x,), (t,))
    attempt(jvp, lambda x: (x, x * 2), (x,), (t,), has_aux=True)
    attempt(jvp, lambda a, b: a * b["k"], (x, {"k": x * 2}), (t, {"k": t}))


@case
def writes_and_views():
    def filled(x):
        z = torch.zeros(3, dtype=F64)
        z[1:].copy_(x[1:])
        return z

    def older_view(x):
        z = torch.zeros(3, dtype=F64)
        v = z[1:]
        z.add_(x)
        return v * v

    def in_turn(x):
        y = x.clone()
        y.mul_(x).add_(1).t_()
        y[0] = x[2]
        return y.exp_()

    for f in (filled, older_view, in_turn, lambda x: x.clone().fill_(2), lambda x: x.clone().index_add_(0, torch.tensor([0, 0, 1]), x),
              lambda x: m.clone().masked_fill(m > 1, 2.0) * x, lambda x: torch.zeros(2, 3, dtype=F64).copy_(x)):
        attempt(jvp, f, (x,), (t,))


@case
def levels_in_levels():
    cube = lambda x: (x ** 3).sum()
    attempt(jvp, grad(cube), (x,), (t,))
    attempt(grad(lambda x: jvp(torch.sin, (x,), (t,))[1].sum()), x)
    attempt(jvp, lambda y: jvp(torch.sin, (y,), (t,))[1], (x,), (t,))
    attempt(lambda: jvp(lambda y: jvp(grad(lambda z: (z ** 4).sum()), (y,), (t,))[1], (x,), (t,)))
    attempt(lambda: vmap(lambda a, b: jvp(torch.sin, (a,), (b,)))(m, m))
    attempt(lambda: jvp(vmap(lambda a: a.sin().sum()), (m,), (m,)))
    attempt(lambda: vjp(lambda y: jvp(torch.tanh, (y,), (t,))[1], x)[1](t))
    y = x.clone().requires_grad_()
    attempt(lambda: torch.autograd.grad(jvp(torch.sin, (y,), (t,))[1].sum(), y))


@case
def jacobians():
    attempt(jacfwd(torch.sin), x)
    attempt(jacfwd(lambda x, y: (x * y, {"a": x.sum()}), argnums=(0, 1)), x, t)
    attempt(jacfwd(lambda x: (x, x + 1), has_aux=True), x)
    attempt(jacfwd(lambda x: x.sum() * m), x)
    attempt(jacfwd(lambda d: d["a"] * d["b"]), {"a": x, "b": t})
    attempt(hessian(lambda x: (x ** 3).sum()), x)
    attempt(hessian(lambda x, y: (x * y * y).sum(), argnums=(0, 1)), x, t)
    attempt(jacrev(jacfwd(lambda x: x ** 3)), x)
    attempt(jacfwd(jacfwd(lambda x: (x ** 3).prod())), x)
    attempt(jacfwd(torch.sin, argnums=1), x)
    attempt(jacfwd(torch.sin, argnums=(0, 0)), x)
    attempt(jacfwd(torch.sin, argnums=()), x)
    attempt(jacfwd(torch.sin, argnums="a"), x)
    attempt(lambda: jacfwd(torch.sin, randomness="bar")(x))
    attempt(jacfwd(lambda x: 3), x)
    attempt(jacfwd(lambda x: x), 3)


@case
def linear_functions():
    output, f = linearize(torch.sin, x)
    attempt(lambda: (output, f(t)))
    for wrong in ((t.float(),), (t, t), (t[:2],), (3,)):
        attempt(f, *wrong)
    attempt(lambda: linearize(lambda x: (x * 2, {"a": x.sum()}), x)[1](t))
    attempt(lambda: linearize(lambda x: torch.ones(2), x)[1](t))


@case
def dual_levels():
    attempt(fwAD.make_dual, x, t)
    attempt(lambda: tuple(fwAD.unpack_dual(x)))
    attempt(fwAD.exit_dual_level)
    with fwAD.dual_level() as level:
        attempt(fwAD.enter_dual_level)
        d = fwAD.make_dual(x, t)
        say(level, d, d._is_view(), d._base is x, (d * 2).sum(), fwAD.unpack_dual(d).tangent is t, fwAD.unpack_dual(d), fwAD.unpack_dual(d.detach()))
        attempt(fwAD.make_dual, x, t[:2])
        attempt(fwAD.make_dual, x.long(), t.long())
        attempt(fwAD.make_dual, x, 3)
        attempt(fwAD.make_dual, d, t)
        attempt(fwAD.make_dual, x, d)
        attempt(fwAD.make_dual, x, t, level=2)
        p = x.clone().requires_grad_()
        y = (fwAD.make_dual(p, t) ** 3).sum()
        g, = torch.autograd.grad(y, p)
        say(y, g, torch.autograd.grad(fwAD.unpack_dual((fwAD.make_dual(p, t) ** 3).sum()).tangent, p))
        a, b = torch.zeros(3, dtype=F64), torch.zeros(3, dtype=F64)
        a.add_(d)
        b[1:].add_(d[1:])
        say(fwAD.unpack_dual(a), fwAD.unpack_dual(b), fwAD.unpack_dual(b[:2]))
        v = (c := torch.zeros(3, dtype=F64))[1:]
        c.add_(d)
        say(fwAD.unpack_dual(v))
        attempt(torch.sin, d, out=torch.empty(3, dtype=F64))
        with torch.no_grad():
            say(d * 2)
        with torch.inference_mode():
            say(d * 2)
        with fwAD._set_fwd_grad_enabled(False):
            say(fwAD._current_level, (d * 2).sum().item())
        attempt(lambda: torch.segment_reduce(d, "sum", lengths=torch.tensor([3])))
        attempt(lambda: torch.cdist(fwAD.make_dual(m, m), m))
        attempt(lambda: torch.nn.functional.pdist(fwAD.make_dual(m, m)))
    say(d, fwAD.unpack_dual(d), d * 2)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_forward(a, b)
        return a * b

    @staticmethod
    def jvp(ctx, da, db):
        a, b = ctx.saved_tensors
        return da * b + a * db


class Separate(Scaled):
    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)


def returning(value):
    class Made(torch.autograd.Function):
        forward = staticmethod(lambda ctx, a: a * 2)
        jvp = staticmethod(lambda ctx, da: value(da))

    return Made.apply


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    @staticmethod
    def jvp(ctx, da):
        return da.mul_(2)


class Without(torch.autograd.Function):
    forward = staticmethod(lambda ctx, a: a * 2)
    backward = staticmethod(lambda ctx, g: g * 2)


@case
def functions():
    with fwAD.dual_level():
        d = fwAD.make_dual(x, t)
        for f in (lambda: Scaled.apply(d, x), lambda: Scaled.apply(x, d), lambda: Scaled.apply(d, d), lambda: Scaled.apply(x, x), lambda: Separate.apply(d, x),
                  lambda: Doubled.apply(fwAD.make_dual(x.clone(), t.clone())), lambda: Without.apply(d), lambda: returning(lambda v: (v, v))(d),
                  lambda: returning(lambda v: 3)(d), lambda: returning(lambda v: v[:2])(d)):
            try:
                say("  gives", f())
            except Exception as error:
                say("  raises", type(error).__name__, error)
    attempt(jvp, Separate.apply, (x, x), (t, t))
    attempt(jvp, Scaled.apply, (x, x), (t, t))


@case
def ops_of_duals():
    aten = torch.ops.aten
    attempt(aten._make_dual, x, t, 0)
    attempt(aten._unpack_dual, x, 0)
    attempt(aten._fw_primal, x, 0)
    with fwAD.dual_level():
        d = aten._make_dual(x, t, 0)
        say("  dual", d, torch._make_dual(torch.ones(3, requires_grad=True), torch.ones(3), 0).grad_fn)
        for level in (0, 1):
            attempt(aten._unpack_dual, d, level)
            attempt(aten._fw_primal, d, level)
        for arguments in ((x, t, 1), (x, t[:1], 0), (d, t, 0), (x, d, 0)):
            attempt(aten._make_dual, *arguments)
