import operator

from said import attempt, say

import torch
import torch.fx as fx
from torch.fx.operator_schemas import normalize_function, normalize_module, get_signature_for_torch_op, type_matches, create_type_hint, ArgsKwargsPair
import typing, numbers
g = fx.Graph(); x = g.placeholder("x"); a = g.call_function(torch.add, (x, x)); b = g.call_function(torch.nn.functional.relu, (x,)); c = g.call_function(torch.sum, (x, 1)); d = g.call_function(torch.ops.aten.add.Tensor, (x, x))
m = torch.nn.Module(); m.lin = torch.nn.Linear(2, 2); e = g.call_module("lin", (x,)); f = g.call_method("relu", (x,))
h = g.call_function(torch.nn.functional.conv2d, (x, x), {"padding": 1}); i = g.call_function(torch.matmul, (x, x)); j = g.call_function(operator.add, (x, x)); k = g.call_function(torch.nn.functional.max_pool2d, (x, 2)); l = g.call_function(torch.nn.functional.linear, (x, x))
for n in (b, d, e, f, i, k):
    say(n); attempt(n.normalized_arguments, m); attempt(n.normalized_arguments, m, normalize_to_only_use_kwargs=True)
attempt(a.normalized_arguments, m, (torch.Tensor, torch.Tensor)); attempt(a.normalized_arguments, m, (torch.Tensor, torch.Tensor), None, True)
attempt(c.normalized_arguments, m, (torch.Tensor, int)); attempt(c.normalized_arguments, m, (torch.Tensor, int), None, True)
attempt(normalize_module, m, "zz", (x,)); attempt(normalize_function, torch.relu, (x,)); attempt(normalize_function, torch.relu, (x,), normalize_to_only_use_kwargs=True); attempt(normalize_function, torch.relu, [x])
say(get_signature_for_torch_op(torch.relu)); say(get_signature_for_torch_op(torch.ops.aten.add.Tensor))
say(type_matches(torch.Tensor, torch.nn.Parameter), type_matches(typing.List[int], int), type_matches(numbers.Number, int), type_matches(typing.Optional[int], int), type_matches(int, str), type_matches(typing.Any, str))
say(create_type_hint([int, int]), create_type_hint((int, str)), create_type_hint([]), create_type_hint(int), create_type_hint([bool, int]))


def written_in_python():
    """Functions of the root that stand for ops of their name, and those that do more."""
    for f in (torch.numel, torch.is_signed, torch.meshgrid, torch.block_diag, torch.unbind_copy, torch.cdist, torch.norm, torch.stft):
        signatures = get_signature_for_torch_op(f)
        say(f.__name__, signatures if signatures is None else sorted(map(str, signatures)))
    say(normalize_function(torch.split, (torch.ones(2), 1), {}, (torch.Tensor, int)))
    say(normalize_function(torch.norm, (1,)), normalize_function(torch.split, (1, 2), normalize_to_only_use_kwargs=True))


def own(a, b=2, *, c=3):
    return a


written_in_python()
for f in (own, lambda x, y=1: x, operator.add, torch.is_tensor, torch.nn.ReLU, torch._assert):
    say(normalize_function(f, (1,) if f is not torch._assert else (1, "m")))
