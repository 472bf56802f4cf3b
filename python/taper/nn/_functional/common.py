"""What every function of nn.functional begins with: a look for arguments that override it."""
from ..._root import torch

_nn = torch._C._nn
overridden = torch._C._has_torch_function_unary
any_overridden = torch._C._has_torch_function_variadic


def override(function, values):
    """Hands a call over to `__torch_function__`.

    `values` is locals() of the call. Parameters without a default travel by position, the others by name: traced
    programs print them so.
    """
    from ...overrides import handle_torch_function

    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    required = code.co_argcount - len(function.__defaults__ or ())
    args = [values[name] for name in names[:required]]
    kwargs = {name: values[name] for name in names[required:]}
    return handle_torch_function(function, tuple(values[name] for name in names), *args, **kwargs)
