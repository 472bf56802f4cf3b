from said import attempt, say

import warnings

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.gradcheck import GradcheckError

warnings.simplefilter("ignore")        # of PyTorch about itself
F64 = torch.float64
x = torch.tensor([0.5, 1.0, -1.5], dtype=F64, requires_grad=True)
y = torch.tensor([2.0, 3.0, 4.0], dtype=F64, requires_grad=True)
z = torch.tensor([0.5 + 1j, 1.0], dtype=torch.complex128, requires_grad=True)


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        ctx.save_for_forward(a)
        return a * a

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] * 3

    @staticmethod
    def jvp(ctx, v):
        return v * ctx.saved_tensors[0] * 5


def with_backward(formula):
    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(False)
            return a * 2

        backward = staticmethod(lambda ctx, g: formula(g))

    return Made.apply


calls = [0]


def drifting(g):
    calls[0] += 1
    return None if g is None else g * (2 + 1e-7 * calls[0])


say(GradcheckError.__mro__)
for fast in (False, True):
    for forward in (False, True):
        for f, inputs in ((torch.sin, (x,)), (torch.sin, x), (lambda a, b: (a * b, a.sum()), (x, y)), (lambda z: z * z.conj(), (z,)), (lambda z: (z * z).real, (z,)),
                          (lambda a: torch.view_as_complex(torch.stack([a, a * 2], -1)), (x,)), (lambda a: torch.linalg.inv(torch.outer(a, a) + a.diag()), (y,)),
                          (lambda a: (a * 2, a.long()), (x,)), (lambda a: a, (x,))):
            attempt(gradcheck, f, inputs, fast_mode=fast, check_forward_ad=forward)
attempt(gradcheck, Wrong.apply, (x,))
attempt(gradcheck, Wrong.apply, (x,), raise_exception=False)
attempt(gradcheck, Wrong.apply, (x,), check_backward_ad=False, check_forward_ad=True)
attempt(gradcheck, Wrong.apply, (x,), fast_mode=True, raise_exception=False)
attempt(gradcheck, torch.sin, (x.detach(),))
attempt(gradcheck, lambda a: torch.ones(2, dtype=F64), (x,))
attempt(gradcheck, lambda a: a.detach(), (x,))
attempt(gradcheck, lambda a: 3, (x,))
attempt(gradcheck, lambda a: a.long(), (x,))
attempt(gradcheck, torch.sin, (x.expand(2, 3),))
attempt(gradcheck, torch.sin, (x,), check_backward_ad=False, check_forward_ad=False)
attempt(gradcheck, torch.sin, (x,), check_batched_forward_grad=True)
attempt(gradcheck, with_backward(lambda g: g * 2), (x,))
attempt(gradcheck, with_backward(lambda g: g * 2), (x,), check_undefined_grad=False)
attempt(gradcheck, with_backward(lambda g: torch.ones(3, dtype=F64) if g is None else g * 2), (x,))
attempt(gradcheck, with_backward(drifting), (x,))
attempt(gradcheck, with_backward(drifting), (x,), nondet_tol=1e-3)
for options in ({}, {"fast_mode": True}, {"check_fwd_over_rev": True}, {"check_fwd_over_rev": True, "check_rev_over_rev": False}):
    attempt(gradgradcheck, torch.sin, (x,), **options)
    attempt(gradgradcheck, lambda a, b: a * b, (x, y), **options)
    attempt(gradgradcheck, lambda a, b: (a * b).exp().sum(), (x, y), **options)
attempt(gradgradcheck, torch.sin, (x,), [torch.ones(3, dtype=F64)])
