"""torch.func: what is refused and how, functional_call, and the functions of old functorch."""
from said import attempt, case, say

import warnings

import functorch
import functorch.experimental
import torch
from torch import nn
from torch.func import debug_unwrap, functional_call, grad, hessian, jacfwd, jacrev, jvp, replace_all_batch_norm_modules_, vjp, vmap

warnings.simplefilter("ignore")
x, z = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1j])


@case
def gradients():
    attempt(grad(lambda a: (a.sum(), 3), has_aux=True), x)
    attempt(grad(lambda a: (a.sum(), {"a": "s"}), has_aux=True), x)
    attempt(grad(lambda a: (a.sum(), None), has_aux=True), x)
    attempt(grad(lambda a: (a.sum(), (a, {"b": a * 2})), has_aux=True), x)
    attempt(grad(lambda a: (a ** 2).sum()), torch.tensor([1, 2]))
    attempt(grad(lambda a: a.sum()), z)
    attempt(grad(lambda a: a.abs().sum()), z)
    attempt(grad(lambda a: a.sum(), argnums=(0, "a")), x)
    attempt(grad(lambda a: a.retain_grad() or a.sum()), x)


@case
def pullbacks_and_pushes():
    attempt(vjp, lambda a: (), x)
    attempt(vjp, lambda a: None, x)
    attempt(vjp, lambda a: (None, a), x)
    attempt(lambda: vjp(lambda a: (a, 3), x, has_aux=True))
    attempt(vjp, torch.sin, torch.tensor([1, 2]))
    attempt(jvp, lambda a: (), (x,), (x,))
    attempt(jvp, lambda a: None, (x,), (x,))
    attempt(lambda: jvp(lambda a: (a, 3), (x,), (x,), has_aux=True))


@case
def jacobians():
    for j in (jacrev, jacfwd):
        attempt(j(torch.sin), z)
        attempt(j(lambda a: a * 1j), x)
        attempt(j(lambda a: ()), x)
        attempt(j(lambda a: a, has_aux=True), x)
        attempt(j(lambda a: (a, 3), has_aux=True), x)
    attempt(hessian(lambda a: (a * a).sum()), z)


@case
def modules_with_other_tensors():
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(2, 2))
    y = torch.ones(2)
    for tensors in ({"zz.q": y}, {"0.q": y}, {"q": y}, {"0": y}, {"": y}, {"0.in_features": y}, {"0.bias": None}, {"0.weight": 3}):
        attempt(lambda: functional_call(m, tensors, y).shape)
    attempt(lambda: (hasattr(m, "q"), hasattr(m[0], "q"), type(m[0].bias).__name__))
    attempt(lambda: functional_call(nn.Linear(2, 2, bias=False), {"bias": y}, y).shape)
    attempt(lambda: functional_call(lambda a: a, {}, y))


@case
def old_functorch():
    torch.manual_seed(0)
    f, params = functorch.make_functional(nn.Linear(2, 2))
    attempt(lambda: (f, f.param_names, [p.requires_grad for p in params], f(params, torch.ones(2)).shape))
    attempt(functorch.make_functional, nn.BatchNorm1d(2))
    f, params, buffers = functorch.make_functional_with_buffers(nn.BatchNorm1d(2))
    attempt(lambda: (f, f.buffer_names, buffers, f(params, buffers, torch.ones(3, 2))))
    models = [nn.Linear(2, 2) for _ in range(3)]
    f, params, buffers = functorch.combine_state_for_ensemble(models)
    attempt(lambda: [p.shape for p in params])
    attempt(lambda: vmap(f, (0, 0, None))(params, buffers, torch.ones(2)).shape)
    attempt(functorch.combine_state_for_ensemble, [])
    attempt(lambda: replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3)))[0].running_mean)
    attempt(lambda: functorch.experimental.chunk_vmap(torch.sin, chunks=2)(x))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        functorch.make_functional(nn.Linear(2, 2))


@case
def unwrapped():
    attempt(debug_unwrap, x)
    attempt(vmap(grad(lambda a: (say(" ", debug_unwrap(a)), say(" ", debug_unwrap(a, recurse=False)), a.sum())[2])), x[None])
