"""__torch_function__: who is asked, what is said when nobody answers, names of functions."""
from said import attempt, case, say

import torch
from torch.overrides import (
    TorchFunctionMode, get_ignored_functions, get_overridable_functions, handle_torch_function, has_torch_function, is_tensor_method_or_property, resolve_name)

x = torch.tensor([1.0, 2.0, 3.0])


class Noted(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        say("  asked", resolve_name(func), [t.__name__ for t in types])
        return super().__torch_function__(func, types, args, kwargs or {})


class Refuses(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return ("duck", resolve_name(func))


@case
def classes_are_kept():
    s = Noted([1.0, 2.0, 3.0])
    attempt(lambda: type(s.as_subclass(torch.Tensor)).__name__)
    attempt(lambda: [type(m).__name__ for m in s])
    attempt(lambda: len(s))
    attempt(lambda: type(torch.cat([x, s])).__name__)
    attempt(lambda: type(torch.linalg.norm(s)).__name__)
    attempt(lambda: type(torch.nn.functional.linear(s, torch.ones(2, 3))).__name__)
    attempt(lambda: torch.is_complex(s))
    attempt(lambda: torch.numel(s))


@case
def nobody_answers():
    u = Refuses([1.0, 2.0, 3.0])
    for f in (lambda: torch.sin(u), lambda: u.sin(), lambda: u.shape, lambda: torch.linalg.inv(u), lambda: u[0], lambda: torch.nn.functional.linear(u, x),
              lambda: torch.nn.functional.relu(u), lambda: -u, lambda: torch.stack([u]), lambda: bool(u), lambda: torch.norm(u), lambda: u.tolist(),
              lambda: u == u, lambda: u < 1, lambda: u + 1, lambda: 1 + u, lambda: u - 1, lambda: 1 - u, lambda: u / 2, lambda: 2 / u, lambda: u ** 2, lambda: 2 ** u,
              lambda: u @ u, lambda: u + x, lambda: x * u):
        attempt(f)

    def added():
        v = u
        v += 1

    attempt(added)

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    def in_mode():
        with Mode():
            return torch.sin(x)

    attempt(in_mode)

    def mine(a):
        return handle_torch_function(mine, (a,), a) if has_torch_function((a,)) else a * 2

    attempt(mine, u)


@case
def ducks():
    d = Duck()
    for f in (lambda: torch.sin(d), lambda: torch.add(x, d), lambda: x + d, lambda: torch.cat([x, d]), lambda: torch.nn.functional.relu(d), lambda: torch.linalg.inv(d),
              lambda: torch.special.erf(d), lambda: torch.fft.fft(d), lambda: torch.is_complex(d), lambda: torch.numel(d), lambda: torch.result_type(d, x),
              lambda: torch.nn.functional.conv2d(d, d), lambda: torch.norm(d), lambda: x[d], lambda: x.__setitem__(0, d), lambda: torch.empty(d)):
        attempt(f)


@case
def names():
    T, F = torch.Tensor, torch.nn.functional
    attempt(lambda: [resolve_name(f) for f in (torch.sin, T.sin, F.relu, T.__add__, T.grad.__get__, T.shape.__get__, torch.linalg.inv, torch.fft.fft, torch.special.erf,
                                               T.requires_grad.__set__, torch.ones, F.linear, torch.conv2d, torch.ops.aten.sin, torch.ops.aten.sin.default, 3, len,
                                               T.T.__get__, T.data.__set__, T.sum, torch.nn.init.uniform_, torch.einsum, torch.tensor, T.__bool__)])
    attempt(lambda: [is_tensor_method_or_property(f) for f in (torch.sin, T.sin, T.grad.__get__, F.relu, T.__add__, T.T.__get__, len)])
    attempt(lambda: [f in get_ignored_functions() for f in (torch.ones, torch.tensor, T.__new__, torch.is_tensor, torch.sin)])
    functions = get_overridable_functions()
    attempt(lambda: [torch.sin in functions[torch], F.relu in functions[F], T.add in functions[T], torch.ones in functions[torch], torch.linalg.inv in functions[torch.linalg]])
